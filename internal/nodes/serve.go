// Package nodes answers questions about the JVMs of a node of a cluster, where its agent
// runs, and asks them from elsewhere by way of the API server's proxy.
package nodes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// TokenHeader has the token: the API server keeps Authorization to itself.
const TokenHeader = "Tare-Token"

const (
	// weighLimit bounds one weighing.
	weighLimit = 30 * time.Second
	// maxIDs bounds the containers of one question.
	maxIDs = 32
)

// JVM is one that the ledger has, with what was seen of it last.
type JVM struct {
	ledger.Summary
	// Alive says that it runs now.
	Alive    bool             `json:"alive"`
	Counters *ledger.Counters `json:"counters,omitempty"`
	// Resident is by the last footprint, SureBytes what findings that are certain could
	// save of it.
	Resident  int64            `json:"residentBytes,omitempty"`
	SureBytes int64            `json:"sureBytes"`
	Findings  []ledger.Finding `json:"findings,omitempty"`
}

// Handler answers with what the ledger in Dir has, and weighs JVMs that it knows.
type Handler struct {
	Proc linux.FS
	// Dir is the agent's ledger.
	Dir string
	// Token must be sent with every question; Metrics is served without one.
	Token   string
	Metrics http.Handler
	// Log reads the kernel's log for autopsies into the sources.
	Log func(ctx context.Context, s *autopsy.Sources)

	// Around is called with each answer to a question, which it makes; nil for nothing more.
	Around func(answer func())

	busy chan struct{}
}

// NewHandler makes h ready to serve.
func NewHandler(h Handler) http.Handler {
	h.busy = make(chan struct{}, 1)
	if h.Around == nil {
		h.Around = func(answer func()) { answer() }
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h.Metrics)
	mux.HandleFunc("GET /v1/jvms", h.question(h.list))
	mux.HandleFunc("GET /v1/weigh", h.question(h.weigh))
	mux.HandleFunc("GET /v1/autopsy", h.question(h.autopsy))
	return mux
}

// answerError is an error with the status that it is answered with.
type answerError struct {
	status int
	err    error
}

func (e *answerError) Error() string { return e.err.Error() }

// question answers one question at a time: each takes processor time and memory beside
// the agent's budget.
func (h *Handler) question(answer func(*http.Request) (any, error)) http.HandlerFunc {
	want := sha256.Sum256([]byte(h.Token))
	return func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get(TokenHeader)))
		if h.Token == "" || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			http.Error(w, "no token, or another one", http.StatusUnauthorized)
			return
		}
		select {
		case h.busy <- struct{}{}:
			defer func() { <-h.busy }()
		case <-r.Context().Done():
			return
		}
		h.Around(func() { reply(w, r, answer) })
	}
}

func reply(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	out, err := answer(r)
	var known *answerError
	switch {
	case errors.As(err, &known):
		http.Error(w, known.Error(), known.status)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the one who asked is gone
	}
}

// read reads the ledger.
func (h *Handler) read() (*ledger.Reader, []ledger.Summary, error) {
	r, err := ledger.OpenReader(h.Dir)
	if err != nil {
		return nil, nil, err
	}
	all, _, err := r.Processes()
	return r, all, err
}

func (h *Handler) alive(s *ledger.Summary) bool {
	birth, err := h.Proc.Birth(s.ID.PID)
	return !s.Ended && err == nil && !birth.Ended && birth.StartTicks == s.ID.StartTicks
}

// list lists the JVMs that run in pods.
func (h *Handler) list(*http.Request) (any, error) {
	r, all, err := h.read()
	if err != nil {
		return nil, err
	}
	out := []JVM{}
	for i := range all {
		j := JVM{Summary: all[i], Alive: h.alive(&all[i])}
		if j.Pod == "" || !j.Alive {
			continue
		}
		if _, err := r.Read(j.ID, func(rec ledger.Record) bool { j.add(&rec); return true }); err != nil {
			return nil, err
		}
		out = append(out, j)
	}
	return out, nil
}

func (j *JVM) add(r *ledger.Record) {
	switch {
	case r.Counters != nil:
		j.Counters = r.Counters
	case r.Footprint != nil:
		j.Resident = r.Footprint.Resident
	case r.Findings != nil:
		j.Findings, j.SureBytes = r.Findings, 0
		for _, f := range r.Findings {
			if f.Certainty == doctor.Certain {
				j.SureBytes += f.Bytes
			}
		}
	}
}

// asked is the container that a question is about.
func asked(r *http.Request) (kubeapi.Identity, error) {
	q := r.URL.Query()
	id := kubeapi.Identity{Namespace: q.Get("namespace"), Pod: q.Get("pod"), Container: q.Get("container")}
	if !kubeapi.ValidName(id.Namespace) || !kubeapi.ValidName(id.Pod) || id.Container != "" && !kubeapi.ValidName(id.Container) {
		return id, &answerError{http.StatusBadRequest, errors.New("want namespace, pod and perhaps container")}
	}
	return id, nil
}

// weigh weighs a JVM anew.
func (h *Handler) weigh(r *http.Request) (any, error) {
	id, err := asked(r)
	if err != nil {
		return nil, err
	}
	_, all, err := h.read()
	if err != nil {
		return nil, err
	}
	for i := range all {
		s := &all[i]
		if s.Namespace != id.Namespace || s.Pod != id.Pod || id.Container != "" && s.ContainerName != id.Container || !h.alive(s) {
			continue
		}
		target, err := process.Find(h.Proc, s.ID.PID)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(r.Context(), weighLimit)
		defer cancel()
		return footprint.WeighTarget(ctx, target, footprint.Options{Proc: h.Proc})
	}
	return nil, &answerError{http.StatusNotFound, fmt.Errorf("no JVM of pod %s in namespace %s is known here yet", id.Pod, id.Namespace)}
}

// autopsy makes the autopsy of the JVM of a pod that ended last.
func (h *Handler) autopsy(r *http.Request) (any, error) {
	id, err := asked(r)
	if err != nil {
		return nil, err
	}
	s := autopsy.Sources{Proc: h.Proc}
	if s.Ledger, err = ledger.OpenReader(h.Dir); err != nil {
		return nil, err
	}
	if h.Log != nil {
		h.Log(r.Context(), &s)
	}
	report, err := s.FindPod(id.Namespace, id.Pod, id.Container, r.URL.Query()["uid"]...)
	// Of a JVM that ended before the agent saw it the kernel's log may know the container.
	for _, container := range r.URL.Query()["id"][:min(len(r.URL.Query()["id"]), maxIDs)] {
		if errors.Is(err, autopsy.ErrNotFound) && kubeapi.ID("x://"+container) != "" {
			report, err = s.Find(container)
		}
	}
	if errors.Is(err, autopsy.ErrNotFound) {
		return nil, &answerError{http.StatusNotFound, err}
	}
	return report, err
}

// Certificate makes a certificate for this process alone. The API server does not check
// those of pods: it keeps what is sent from those that only listen.
func Certificate(now time.Time) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0), DNSNames: []string{"tare-agent"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}

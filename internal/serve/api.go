package serve

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/collect"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/store"
)

// problem answers with an error.
func problem(w http.ResponseWriter, status int, err error) {
	answer(w, nil, status, collect.Problem{Error: err.Error()})
}

// broken answers that the server could not do it, and says why to its user alone.
func (s *Server) broken(w http.ResponseWriter, err error) {
	s.say(err)
	problem(w, http.StatusInternalServerError, errors.New("the server could not answer; it says why on its standard error"))
}

// worthPacking is from where on an answer is compressed.
const worthPacking = 4 << 10

// answer answers with JSON; r is nil where it is not to be compressed.
func answer(w http.ResponseWriter, r *http.Request, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if r == nil || len(text) < worthPacking || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(status)
		_, _ = w.Write(text) // a client that has gone needs no answer
		return
	}
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	w.WriteHeader(status)
	packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is one
	_, _ = packed.Write(text)
	_ = packed.Close()
}

// badRequest is an error in what a client asks.
type badRequest struct{ error }

// api is a call of the API that reads: f's value is its answer.
func (s *Server) api(f func(r *http.Request) (any, error)) http.HandlerFunc {
	return s.reading(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		var bad badRequest
		switch {
		case err == nil:
			answer(w, r, http.StatusOK, v)
		case errors.As(err, &bad):
			problem(w, http.StatusBadRequest, err)
		case errors.Is(err, history.ErrNotFound), errors.Is(err, store.ErrNotFound):
			problem(w, http.StatusNotFound, errors.New("there is no such thing"))
		case r.Context().Err() != nil: // the client has gone
		default:
			s.broken(w, err)
		}
	}))
}

// query reads what a request asks for, and keeps the first error.
type query struct {
	r   *http.Request
	err error
}

func (q *query) fail(format string, args ...any) {
	if q.err == nil {
		q.err = badRequest{fmt.Errorf(format, args...)}
	}
}

func (q *query) number(name string, most, usual int64) int64 {
	text := q.r.FormValue(name)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		q.fail("%s is no number from 0 to %d", name, most)
		return usual
	}
	return n
}

func (q *query) id() int64 {
	n, err := strconv.ParseInt(q.r.PathValue("id"), 10, 64)
	if err != nil || n < 1 {
		q.fail("the path has no number")
	}
	return n
}

// Bounds of answers.
const (
	usualItems, maxItems = 100, 1000
	usualPoints          = 500
)

// limit is how many items a list is to have.
func (q *query) limit() int { return int(max(1, q.number("limit", maxItems, usualItems))) }

func (q *query) after() int64 { return q.number("after", 1<<62, 0) }

// moment reads a time: RFC 3339, or seconds since 1970.
func (q *query) moment(name string, usual time.Time) time.Time {
	text := q.r.FormValue(name)
	if text == "" {
		return usual
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1<<33 {
		return time.UnixMilli(int64(n * 1000))
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		q.fail("%s is no time: write it as 2026-07-01T12:00:00Z, or in seconds since 1970", name)
		return usual
	}
	return t
}

// span is from and to: usually the time before now that usual says.
func (q *query) span(now time.Time, usual time.Duration) (from, to time.Time) {
	to = q.moment("to", now.Add(time.Second))
	from = q.moment("from", to.Add(-usual))
	if !from.Before(to) || to.Sub(from) > 2*history.Quarter {
		q.fail("from is not before to, or by more than %d days", 2*history.Quarter/(24*time.Hour))
	}
	return from, to
}

// series is the range of a series.
func (q *query) series(now time.Time) history.Range {
	from, to := q.span(now, time.Hour)
	return history.Range{From: from, To: to, Points: int(max(1, q.number("points", history.MaxPoints, usualPoints)))}
}

func (s *Server) machines(r *http.Request) (any, error) {
	all, err := s.cfg.History.Machines(r.Context())
	out := page[machineAnswer]{Items: []machineAnswer{}}
	for _, m := range all {
		out.Items = append(out.Items, machineAnswer{m.Name, m.Seen, m.Version, m.Refused, m.Spent})
	}
	return out, err
}

// recently is since when a JVM that was not seen to end is taken to run.
const recently = 15 * time.Minute

func (s *Server) jvms(r *http.Request) (any, error) {
	q := query{r: r}
	f := history.Filter{Machine: r.FormValue("machine"), After: q.after(), Limit: q.limit() + 1, Brief: true}
	switch state := r.FormValue("state"); state {
	case "", "live":
		f.Live, f.Since = true, s.cfg.Now().Add(-recently)
	case "all":
	default:
		q.fail("state is neither live nor all")
	}
	if q.err != nil {
		return nil, q.err
	}
	all, err := s.cfg.History.JVMs(r.Context(), f)
	out := make([]jvmAnswer, len(all))
	for i := range all {
		out[i] = newJVM(&all[i])
	}
	return pageOf(out, f.Limit-1, func(j jvmAnswer) int64 { return j.ID }), err
}

func (s *Server) jvm(r *http.Request) (any, error) {
	q := query{r: r}
	id := q.id()
	if q.err != nil {
		return nil, q.err
	}
	j, err := s.cfg.History.JVM(r.Context(), id)
	if err != nil {
		return nil, err
	}
	d := newDetail(&j)
	d.Autopsy, err = s.cfg.History.Autopsy(r.Context(), id)
	return d, err
}

func (s *Server) samples(r *http.Request) (any, error) {
	q := query{r: r}
	id, series := q.id(), q.series(s.cfg.Now())
	if q.err != nil {
		return nil, q.err
	}
	got, err := s.cfg.History.Samples(r.Context(), id, series, s.cfg.Now())
	if err != nil {
		return nil, err
	}
	return newSamples(got), nil
}

func (s *Server) footprints(r *http.Request) (any, error) {
	q := query{r: r}
	id, series := q.id(), q.series(s.cfg.Now())
	if q.err != nil {
		return nil, q.err
	}
	got, err := s.cfg.History.Footprints(r.Context(), id, series, s.cfg.Now())
	return newFootprints(got), err
}

func (s *Server) footprintAt(r *http.Request) (any, error) {
	q := query{r: r}
	id, at := q.id(), q.moment("at", s.cfg.Now())
	if q.err != nil {
		return nil, q.err
	}
	got, err := s.cfg.History.FootprintAt(r.Context(), id, at)
	return weighedAnswer{got.At, got.Footprint}, err
}

func (s *Server) events(r *http.Request) (any, error) {
	q := query{r: r}
	id, limit, after := q.id(), q.limit(), q.after()
	from, to := q.span(s.cfg.Now(), 24*time.Hour)
	if q.err != nil {
		return nil, q.err
	}
	all, err := s.cfg.History.Events(r.Context(), id, from, to, after, limit+1)
	var out []eventAnswer
	for _, e := range all {
		out = append(out, eventAnswer{e.ID, e.At, e.Event.Kind, e.Event.Text, e.Event.Values})
	}
	return pageOf(out, limit, func(e eventAnswer) int64 { return e.ID }), err
}

func (s *Server) kills(r *http.Request) (any, error) {
	q := query{r: r}
	limit, after := q.limit(), q.after()
	from, to := q.span(s.cfg.Now(), 7*24*time.Hour)
	if q.err != nil {
		return nil, q.err
	}
	all, err := s.cfg.History.Kills(r.Context(), from, to, after, limit+1)
	var out []killAnswer
	for i := range all {
		out = append(out, newKill(&all[i]))
	}
	return pageOf(out, limit, func(k killAnswer) int64 { return k.ID }), err
}

// findings are those of the JVMs that run, in the order of the JVMs: a page has
// those of limit JVMs.
func (s *Server) findings(r *http.Request) (any, error) {
	q := query{r: r}
	limit := q.limit()
	f := history.Filter{After: q.after(), Limit: limit + 1, Brief: true, Live: true, Since: s.cfg.Now().Add(-recently)}
	if q.err != nil {
		return nil, q.err
	}
	all, err := s.cfg.History.JVMs(r.Context(), f)
	out := page[findingAnswer]{Items: []findingAnswer{}}
	for i, j := range all[:min(len(all), limit)] {
		for _, found := range j.Findings {
			out.Items = append(out.Items, findingAnswer{j.ID, j.Machine, j.Process.Name, found})
		}
		if i == limit-1 && len(all) > limit {
			out.Next = &all[i].ID
		}
	}
	return out, err
}

// status is what the dashboard must know of the server.
func (s *Server) status(r *http.Request) (any, error) {
	closed, err := s.cfg.History.HasReaders(r.Context())
	return map[string]any{"version": s.cfg.Version, "now": s.cfg.Now().UTC(), "login": closed || !s.cfg.Local, "fits": s.cfg.Fits != nil}, err
}

// withFits opens the history of fits for one request.
func (s *Server) withFits(r *http.Request, f func(store.Store) error) error {
	if s.cfg.Fits == nil {
		return fmt.Errorf("fits: %w", history.ErrNotFound)
	}
	st, err := s.cfg.Fits(r.Context())
	if err != nil {
		return err
	}
	return errors.Join(f(st), st.Close())
}

func (s *Server) fits(r *http.Request) (out any, err error) {
	if s.cfg.Fits == nil {
		return report.NewFitListJSON(nil), nil
	}
	err = s.withFits(r, func(st store.Store) error {
		all, err := st.Fits(r.Context())
		out = report.NewFitListJSON(all)
		return err
	})
	return out, err
}

// storedFit is a fit, and why it has no answer.
func (s *Server) storedFit(r *http.Request) (result *fit.Result, failure error, err error) {
	q := query{r: r}
	id := q.id()
	if q.err != nil {
		return nil, nil, q.err
	}
	err = s.withFits(r, func(st store.Store) error {
		f, err := st.Fit(r.Context(), id)
		if err != nil {
			return err
		}
		if result, err = store.Result(r.Context(), st, f); err != nil {
			return err
		}
		failure = f.Unanswered()
		return nil
	})
	return result, failure, err
}

func (s *Server) fit(r *http.Request) (any, error) {
	result, failure, err := s.storedFit(r)
	if err != nil {
		return nil, err
	}
	return report.NewFitJSON(result, failure), nil
}

// fitReport is the page of a fit. It has a policy of its own, which names its one
// style and script, and may do nothing else, here in a sandbox.
func (s *Server) fitReport(w http.ResponseWriter, r *http.Request) {
	result, failure, err := s.storedFit(r)
	if err != nil {
		if bad := (badRequest{}); errors.As(err, &bad) || errors.Is(err, store.ErrNotFound) || errors.Is(err, history.ErrNotFound) {
			problem(w, http.StatusNotFound, errors.New("there is no such fit"))
			return
		}
		s.broken(w, err)
		return
	}
	w.Header().Set("Content-Security-Policy", document.Policy()+"; sandbox allow-scripts; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := document.WriteHTML(w, report.FitPage(result, failure)); err != nil {
		s.say(err)
	}
}

// position tells an agent from where on to send.
func (s *Server) position(w http.ResponseWriter, r *http.Request, machine string) {
	ledger := r.FormValue("ledger")
	if len(ledger) > 64 {
		problem(w, http.StatusBadRequest, errors.New("ledger is no id"))
		return
	}
	p, err := s.cfg.History.Position(r.Context(), machine, ledger)
	if err != nil {
		s.broken(w, err)
		return
	}
	answer(w, nil, http.StatusOK, history.Taken{Position: p})
}

// takeRecords takes a batch of an agent.
func (s *Server) takeRecords(w http.ResponseWriter, r *http.Request, machine string) {
	b, err := readBatch(w, r)
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		problem(w, status, fmt.Errorf("the batch cannot be read: %w", err))
		return
	}
	taken, err := s.cfg.History.Take(r.Context(), machine, b, s.cfg.Now())
	var gap *history.GapError
	var bad *history.BatchError
	switch {
	case err == nil:
		s.records.Add(int64(len(b.Records)))
		s.refused.Add(int64(taken.Refused))
		answer(w, nil, http.StatusOK, taken)
	case errors.As(err, &gap):
		answer(w, nil, http.StatusConflict, collect.Problem{Error: gap.Error(), Position: &gap.Position})
	case errors.Is(err, history.ErrTwoAgents):
		problem(w, http.StatusConflict, history.ErrTwoAgents)
	case errors.As(err, &bad):
		problem(w, http.StatusBadRequest, bad)
	case r.Context().Err() != nil:
	default:
		s.say(err)
		w.Header().Set("Retry-After", "10")
		problem(w, http.StatusServiceUnavailable, errors.New("the hub could not keep the records; it says why on its standard error"))
	}
}

// readBatch reads a batch within its bounds.
func readBatch(w http.ResponseWriter, r *http.Request) (*history.Batch, error) {
	text, err := readBody(w, r, collect.MaxPacked, collect.MaxBody)
	if err != nil {
		return nil, err
	}
	return ParseBatch(text)
}

// readBody reads a body of at most so many bytes as it is sent, packed or not, and so
// many as it is read.
func readBody(w http.ResponseWriter, r *http.Request, sent, most int64) ([]byte, error) {
	var body io.Reader = http.MaxBytesReader(w, r.Body, sent)
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "":
	case "gzip":
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = http.MaxBytesReader(w, io.NopCloser(unpacked), most)
	default:
		return nil, fmt.Errorf("its encoding %.20q is none of gzip", encoding)
	}
	return io.ReadAll(body)
}

// ParseBatch reads a batch as agents send it (JSON). Fields that it does not know it
// skips: a later agent may send more.
func ParseBatch(text []byte) (*history.Batch, error) {
	var b history.Batch
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, err
	}
	return &b, nil
}

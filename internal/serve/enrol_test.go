package serve_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tare.dev/tare/internal/collect"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/serve"
	"tare.dev/tare/internal/testkit/historytest"
)

// enroller is the agent of a machine that has a file for its token, and the token of
// its fleet.
func enroller(t *testing.T, url, machine, file, fleet string) *collect.Enroller {
	t.Helper()
	e, err := collect.NewEnroller(url, "", collect.Enrolment{Machine: machine, File: file, Secret: func() (string, error) { return fleet, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// sendOne sends one record of a machine.
func sendOne(t *testing.T, e *collect.Enroller, machine string) error {
	t.Helper()
	a := historytest.NewAgent(machine)
	if _, err := e.Position(t.Context(), a.Ledger); err != nil {
		return err
	}
	a.Add(time.Now(), ledger.Record{Process: historytest.ID(1), Start: historytest.Process(1)})
	_, err := e.Take(t.Context(), a.Batch(time.Now()))
	return err
}

// Two hundred agents with one token come at once: each gets its own, and writes its
// own rows.
func TestManyEnrol(t *testing.T) {
	const machines = 200
	g := newGate(t, nil)
	fleet, err := g.d.AddEnrolment(t.Context(), "fleet", machines, time.Now().Add(time.Hour), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range machines {
		all.Go(func() {
			name := fmt.Sprintf("pod-%d", i)
			if err := sendOne(t, enroller(t, g.URL, name, filepath.Join(dir, name), fleet), name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for i := range machines {
		file := filepath.Join(dir, fmt.Sprintf("pod-%d", i))
		token, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 || seen[string(token)] {
			t.Errorf("%s: %v, %v", file, st.Mode(), err)
		}
		seen[string(token)] = true
	}
	if m, err := g.d.Machines(t.Context()); err != nil || len(m) < machines {
		t.Errorf("%d machines, %v", len(m), err)
	}
}

// A machine that is enrolled needs the fleet's token no more; what was taken back does
// not come back by itself; a second one of its name is told what to do.
func TestEnrolment(t *testing.T) {
	g := newGate(t, func(c *serve.Config) { c.LocalToken, c.LocalMachine = "own", "hub" })
	fleet, err := g.d.AddEnrolment(t.Context(), "fleet", 10, time.Time{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := sendOne(t, enroller(t, g.URL, "pod", file, fleet), "pod"); err != nil {
		t.Fatal(err)
	}
	again, err := collect.NewEnroller(g.URL, "", collect.Enrolment{Machine: "pod", File: file, Secret: func() (string, error) { return "", errors.New("it was asked for") }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Position(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"pod": "--name", "hub": "--name", "people": "--name", "a b": "letters"} {
		if err := sendOne(t, enroller(t, g.URL, name, filepath.Join(t.TempDir(), "token"), fleet), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A token that enrols does nothing else.
	for _, path := range append(reads[:len(reads):len(reads)], "/api/v1/position?ledger=x") {
		if got := g.status(t, "GET", path, "", "Authorization", "Bearer "+fleet); got == http.StatusOK {
			t.Errorf("%s: %d", path, got)
		}
	}
	for _, body := range []string{"", "[]", `{"machine": "x", "token": "tare-write-x"}`, strings.Repeat(" ", 5<<10) + "{}"} {
		if got := g.status(t, "POST", "/api/v1/enrol", body, "Authorization", "Bearer "+fleet); got != http.StatusBadRequest {
			t.Errorf("%.40q: %d", body, got)
		}
	}
	if err := g.d.RemoveToken(t.Context(), "pod", false); err != nil {
		t.Fatal(err)
	}
	if err := sendOne(t, enroller(t, g.URL, "pod", file, fleet), "pod"); err == nil || !strings.Contains(err.Error(), "taken back") {
		t.Errorf("a machine whose token was taken back: %v", err)
	}
	if err := g.d.RemoveToken(t.Context(), "fleet", true); err != nil {
		t.Fatal(err)
	}
	if err := sendOne(t, enroller(t, g.URL, "pod-2", filepath.Join(t.TempDir(), "token"), fleet), "pod-2"); err == nil || !strings.Contains(err.Error(), "--enrol") {
		t.Errorf("a token for enrolling that was taken back: %v", err)
	}
}

// An agent that is cut off before it hears the answer asks for the same, and what a
// kill has left of a token is none.
func TestEnrolmentIsCutOff(t *testing.T) {
	g := newGate(t, nil)
	fleet, err := g.d.AddEnrolment(t.Context(), "fleet", 1, time.Time{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	deaf := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.Config.Handler.ServeHTTP(httptest.NewRecorder(), r) // the hub enrols, and nobody hears of it
		cancel()
		<-r.Context().Done()
	}))
	defer deaf.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file+".new", []byte("tare-wri"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := enroller(t, deaf.URL, "pod", file, fleet).Position(ctx, "x"); err == nil {
		t.Fatal("it has heard an answer")
	}
	if err := sendOne(t, enroller(t, g.URL, "pod", file, fleet), "pod"); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(file + "*"); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if all, err := g.d.Tokens(t.Context()); err != nil || len(all) != 4 {
		t.Errorf("%+v, %v", all, err)
	}
}

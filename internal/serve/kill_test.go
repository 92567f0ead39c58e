package serve_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/collect"
	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/serve"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/historytest"
	"tare.dev/tare/internal/testkit/pgtest"
	"tare.dev/tare/internal/testkit/results"
)

// The roles that the test binary plays in processes of their own.
const (
	asHub    = "TARE_TEST_AS_HUB"   // the value is the history, and the address
	asSender = "TARE_TEST_AS_AGENT" // the value is the ledger, the hub, the token and how much to write
)

var (
	killings   = flag.Int("serve.kills", 4, "how often hub and agent are killed on each database, each")
	killingsTo = flag.String("serve.kills.out", "", "file for what came of the kills, in Markdown")
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(asHub) != "":
		err = hub(strings.Fields(os.Getenv(asHub)))
	case os.Getenv(asSender) != "":
		err = sender(strings.Fields(os.Getenv(asSender)))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func hub(args []string) error {
	ctx := context.Background()
	d, err := history.Open(ctx, args[0])
	if err != nil {
		return err
	}
	s, err := serve.New(serve.Config{History: d, Local: true, Say: func(err error) { fmt.Println("said:", err) }})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[1])
	if err != nil {
		return err
	}
	fmt.Println("ready 0")
	return s.Serve(ctx, l, nil)
}

// noisy tells of each batch that was acknowledged.
type noisy struct{ *collect.Client }

func (n noisy) Take(ctx context.Context, b *history.Batch) (history.Taken, error) {
	got, err := n.Client.Take(ctx, b)
	if err == nil {
		fmt.Println("acknowledged", got.Position)
	}
	return got, err
}

// sender writes numbered events to a ledger, sends them, and ends when the hub has
// all of them.
func sender(args []string) error {
	w, err := ledger.Create(args[0], 32<<20)
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	id := historytest.ID(1)
	written := int64(0)
	r, err := ledger.OpenReader(args[0])
	if err == nil {
		_, err = r.Read(id, func(rec ledger.Record) bool {
			if rec.Event != nil {
				written = rec.Event.Values["after"]
			}
			return true
		})
	}
	if err != nil && !errors.Is(err, ledger.ErrNone) {
		return err
	}
	c, err := collect.NewClient(args[1], args[2], "")
	if err != nil {
		return err
	}
	s := &collect.Sender{Writer: w, Sink: noisy{c}, Every: 20 * time.Millisecond, Retry: 10 * time.Millisecond, Version: "test", Boot: historytest.Boot,
		Now: func() (time.Time, time.Duration) { return time.Now(), time.Hour }}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go s.Run(ctx)
	err = w.Append(ledger.Record{Process: id, At: time.Now(), Uptime: time.Hour, Start: historytest.Process(1)})
	for ; err == nil && written < int64(most); written++ {
		err = w.Append(ledger.Record{Process: id, At: time.Now(), Uptime: time.Hour, Event: &ledger.Event{Kind: ledger.LimitReached, Values: map[string]int64{"after": written + 1}}})
		if written%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	last := uint64(0)
	for f := w.Follow(0); err == nil && last == 0; last = f.After() {
		_, err = f.Next(func(ledger.Record) bool { return true })
	}
	for err == nil {
		var p uint64
		if p, err = c.Position(ctx, w.LedgerID()); err == nil && p >= last {
			fmt.Println("done 0")
			return w.Close()
		}
		if err != nil && ctx.Err() == nil {
			err = nil // the hub was killed
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// role is a process of the test.
type role struct {
	cmd   *exec.Cmd
	lines chan string
}

func play(t *testing.T, variable, value string) *role {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), variable+"="+value)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &role{cmd, make(chan string, 10000)}
	go func() {
		defer close(r.lines)
		for in := bufio.NewScanner(pipe); in.Scan(); {
			r.lines <- in.Text()
		}
	}()
	return r
}

// kill kills a role, as the kernel would.
func (r *role) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()
}

// until waits for a line; false when the role has ended before.
func (r *role) until(t *testing.T, word string, times int) bool {
	t.Helper()
	for line := range r.lines {
		got, _, _ := strings.Cut(line, " ")
		if got == "error:" || got == "said:" {
			t.Error(line)
		}
		if got == "done" && word != "done" {
			return false
		}
		if got == word {
			if times--; times <= 0 {
				return true
			}
		}
	}
	return false
}

// Killed at random moments, hub and agent lose nothing that was written to the
// ledger, and keep nothing twice.
func TestKillsLoseNothing(t *testing.T) {
	alone.Uses(t, "processes that are killed")
	rows := ""
	for _, on := range []struct {
		name     string
		location func(t *testing.T) string
	}{
		{"SQLite", func(t *testing.T) string { return filepath.Join(t.TempDir(), "h.db") }},
		{"PostgreSQL", func(t *testing.T) string { return pgtest.Start(t).Database(t) }},
	} {
		t.Run(on.name, func(t *testing.T) {
			rows += fmt.Sprintf("| %s | %d | %d | %d | none: reached |\n", on.name, *killings, *killings, killsLoseNothing(t, on.location(t)))
		})
	}
	if *killingsTo == "" || t.Failed() {
		return
	}
	body := fmt.Sprintf("An agent's ledger and sender, and a hub with its history, each in a process of its own and killed (SIGKILL) at random moments, after up to 20 batches that the hub has acknowledged, and started again at once. The agent writes events with consecutive numbers; at the end the history is to have each once, in order. After each kill of the agent its ledger is read.\n\n"+
		"| database | kills of the agent | of the hub | events | unreadable rings, events lost or kept twice |\n|---|---:|---:|---:|---|\n%s", rows)
	if err := os.WriteFile(*killingsTo, []byte(results.Text("kill -9 of hub and sender", "make bench-agent-kills", body)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readable reads the whole ledger of an agent that was killed.
func readable(t *testing.T, dir string) {
	t.Helper()
	r, err := ledger.OpenReader(dir)
	if err == nil {
		_, err = r.Since(0, func(ledger.Record) bool { return true })
	}
	if err != nil && !errors.Is(err, ledger.ErrNone) { // it may be killed before it made one
		t.Fatal(err)
	}
}

func killsLoseNothing(t *testing.T, location string) (events int64) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	d := historytest.Open(t, location)
	token, err := d.AddToken(t.Context(), "web", history.Write, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	dir := filepath.Join(t.TempDir(), "ledger")
	begin := func() *role {
		h := play(t, asHub, location+" "+address)
		h.until(t, "ready", 1)
		return h
	}
	// Each agent has more to write than the one before, so that it can be killed.
	total := 0
	send := func() *role {
		total += 2000
		return play(t, asSender, fmt.Sprintf("%s http://%s %s %d", dir, address, token, total))
	}
	h, a := begin(), send()
	for hubs, agents := *killings, *killings; hubs+agents > 0; {
		if !a.until(t, "acknowledged", 1+rng.IntN(20)) { // it has come to its end
			a.kill()
			a = send()
			continue
		}
		if rng.IntN(hubs+agents) < hubs {
			hubs--
			h.kill()
			h = begin()
		} else {
			agents--
			a.kill()
			readable(t, dir)
			a = send()
		}
	}
	if !a.until(t, "done", 1) {
		t.Error("the agent does not come to its end")
	}
	a.kill()
	h.kill()
	all, err := d.JVMs(t.Context(), history.Filter{Limit: 9})
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	want, after := int64(1), int64(0)
	for {
		events, err := d.Events(t.Context(), all[0].ID, time.Unix(0, 0), time.Now().Add(time.Hour), after, 5000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if got := e.Event.Values["after"]; got != want {
				t.Fatalf("event %d is kept where %d belongs", got, want)
			}
			want, after = want+1, e.ID
		}
		if len(events) == 0 {
			break
		}
	}
	if want != int64(total)+1 {
		t.Errorf("%d events are kept of %d", want-1, total)
	}
	return want - 1
}

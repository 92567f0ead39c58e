package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/collect"
	jvmhistory "tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/grouptest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/testkit/results"
)

var (
	agentKills    = flag.Int("agent.kills", 2, "how often tare agent and tare serve are killed, each")
	agentKillsOut = flag.String("agent.kills.out", "", "file for what came of the kills, in Markdown")
)

// mortal is a hub, and an agent that sends to it, which are killed.
type mortal struct {
	*testing.T
	address, db, tokenFile, ledger string
	hub, agent                     *exec.Cmd
	client                         *collect.Client
	// seen are the records that the ledger had, acknowledged the number up to which
	// the hub said that it has them.
	seen         map[uint64]bool
	acknowledged uint64
	torn         int
	// said is a file with what both said.
	said *os.File
}

func newMortal(t *testing.T) *mortal {
	dir := t.TempDir()
	m := &mortal{T: t, address: fmt.Sprintf("127.0.0.1:%d", jvmtest.FreePort(t)), db: filepath.Join(dir, "history.db"),
		tokenFile: filepath.Join(dir, "token"), ledger: filepath.Join(dir, "ledger"), seen: map[uint64]bool{}}
	var err error
	if m.said, err = os.Create(filepath.Join(dir, "said")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if text, _ := os.ReadFile(m.said.Name()); t.Failed() {
			t.Logf("they said:\n%s", text)
		}
		m.said.Close()
	})
	code, token, said := tareRun(t, "serve", "token", "add", "web-1", "--write", "--history", m.db)
	if code != exitOK {
		t.Fatal(said)
	}
	if err := os.WriteFile(m.tokenFile, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err = readToken(m.tokenFile); err == nil {
		m.client, err = collect.NewClient("http://"+m.address, token, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	m.beginHub()
	m.beginAgent()
	return m
}

func (m *mortal) begin(args ...string) *exec.Cmd {
	m.Helper()
	cmd := tareCommand(m.T, args...)
	cmd.Stderr = m.said
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	return cmd
}

func (m *mortal) beginHub() {
	m.hub = m.begin("serve", "--no-agent", "--store", "none", "--history", m.db, "--listen", m.address)
}

func (m *mortal) beginAgent() {
	m.agent = m.begin("agent", "--to", "http://"+m.address, "--token-file", m.tokenFile, "--ledger", m.ledger, "--interval", "1s", "--budget", "100%")
}

// kill kills a process, as the kernel would.
func (m *mortal) kill(cmd *exec.Cmd) {
	m.Helper()
	var exit *exec.ExitError
	if err := errors.Join(cmd.Process.Kill(), cmd.Wait()); !errors.As(err, &exit) || exit.Exited() {
		m.Fatalf("%s ended before it was killed: %v", cmd.Args[1], err)
	}
}

// read reads the whole ledger, while no agent writes to it: it is readable, has each
// record once, and all that it had before.
func (m *mortal) read() (all []ledger.Record) {
	m.Helper()
	r, err := ledger.OpenReader(m.ledger)
	if errors.Is(err, ledger.ErrNone) && len(m.seen) == 0 {
		return nil // killed before it made one
	}
	if err != nil {
		m.Fatal(err)
	}
	now := map[uint64]bool{}
	damage, err := r.Since(0, func(rec ledger.Record) bool {
		if now[rec.Seq] {
			m.Errorf("record %d is there twice", rec.Seq)
		}
		now[rec.Seq] = true
		all = append(all, rec)
		return true
	})
	if err != nil {
		m.Fatal(err)
	}
	for seq := range m.seen {
		if !now[seq] {
			m.Errorf("record %d is lost", seq)
		}
	}
	m.seen, m.torn = now, damage.Places
	return all
}

// position is how far the hub has the ledger; false while it does not answer, or there
// is no ledger. It never goes back.
func (m *mortal) position() (uint64, bool) {
	m.Helper()
	r, err := ledger.OpenReader(m.ledger)
	if err != nil {
		return 0, false
	}
	p, err := m.client.Position(m.Context(), r.LedgerID())
	if err != nil {
		return 0, false
	}
	if p < m.acknowledged {
		m.Errorf("the hub has the ledger up to %d, and had it up to %d", p, m.acknowledged)
	}
	m.acknowledged = p
	return p, true
}

// killAgent kills the agent, reads what it left, and starts it again.
func (m *mortal) killAgent() {
	m.Helper()
	m.position()
	m.kill(m.agent)
	m.read()
	m.beginAgent()
}

// killHub kills the hub, starts it again, and waits until it answers.
func (m *mortal) killHub() {
	m.Helper()
	m.position()
	m.kill(m.hub)
	m.beginHub()
	polltest.UntilNil(m, func() error {
		resp, err := http.Get("http://" + m.address + "/readyz")
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
	m.position()
}

// sawEvent says whether the ledger has an event of a JVM after a moment.
func (m *mortal) sawEvent(pid int, after time.Time) (seen bool) {
	r, err := ledger.OpenReader(m.ledger)
	if err != nil {
		return false
	}
	_, err = r.Since(0, func(rec ledger.Record) bool {
		seen = rec.Process.PID == pid && rec.Event != nil && rec.At.After(after)
		return !seen
	})
	return seen && err == nil
}

// end ends both in good order, when the hub has all that the ledger has.
func (m *mortal) end() (all []ledger.Record) {
	m.Helper()
	stop := func(cmd *exec.Cmd) {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			m.Errorf("%s: %v", cmd.Args[1], err)
		}
	}
	for range 5 { // an agent that waits for the hub sends nothing at its end
		stop(m.agent)
		all = m.read()
		if p, ok := m.position(); ok && p == all[len(all)-1].Seq {
			stop(m.hub)
			return all
		}
		m.beginAgent()
		polltest.Until(m, "the hub's answer to a new agent", func() bool {
			before := m.acknowledged
			p, ok := m.position()
			return ok && p > before
		})
	}
	m.Fatalf("the hub has the ledger up to %d of %d", m.acknowledged, all[len(all)-1].Seq)
	return nil
}

// compare holds what the history has of a JVM against the ledger: each event once, in
// its order, and of each ten seconds the largest usage.
func (m *mortal) compare(all []ledger.Record, pid int) (events, looks int) {
	m.Helper()
	db, err := jvmhistory.Open(m.Context(), m.db)
	if err != nil {
		m.Fatal(err)
	}
	defer db.Close()
	jvms, err := db.JVMs(m.Context(), jvmhistory.Filter{Limit: 1000})
	if err != nil {
		m.Fatal(err)
	}
	var id int64
	for _, j := range jvms {
		if j.Process.ID.PID == pid {
			id = j.ID
		}
	}
	now := time.Now()
	var want, got []ledger.Event
	usage := map[int64]int64{}
	for _, r := range all {
		switch {
		case r.Process.PID != pid:
		case r.Event != nil:
			want = append(want, *r.Event)
		case r.Counters != nil:
			looks++
			t := r.At.Unix() / 10 * 10
			usage[t] = max(usage[t], r.Counters.Usage)
		}
	}
	kept, err := db.Events(m.Context(), id, now.Add(-time.Hour), now, 0, len(want)+10)
	for _, e := range kept {
		got = append(got, e.Event)
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		m.Errorf("%d events are kept of %d, %v", len(got), len(want), err)
	}
	s, err := db.Samples(m.Context(), id, jvmhistory.Range{From: now.Add(-time.Hour), To: now, Points: jvmhistory.MaxPoints}, now)
	if err != nil || s.Step != 10 || len(s.Times) != len(usage) {
		m.Fatalf("%+v, want %d intervals: %v", s, len(usage), err)
	}
	for i, t := range s.Times {
		if s.Columns[0][i] != usage[t] {
			m.Errorf("at %d the largest usage is %d, and in the ledger %d", t, s.Columns[0][i], usage[t])
		}
	}
	if machines, err := db.Machines(m.Context()); err != nil || len(machines) != 1 || machines[0].Refused != 0 {
		m.Errorf("%+v, %v", machines, err)
	}
	return len(want), looks
}

// tare agent and tare serve, killed at random moments: every ring is readable, nothing
// that was written or acknowledged is lost, and nothing is kept twice.
func TestAgentAndServeSurviveKills(t *testing.T) {
	alone.Uses(t, "processes that are killed")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	// In the group of a JVM other processes are killed again and again: so there are events.
	group := grouptest.Limited(t, "", 96<<20)
	h := jvmtest.StartHolderFrom(t, grouptest.Enter(group), jvmtest.Java(t, 17), []string{"-Xmx16m"}, 1)
	jvmtest.Start(t, "/bin/sh", "-c", grouptest.Enter(group)+"while :; do (echo 1000 >/proc/self/oom_score_adj; exec tail /dev/zero); sleep 2; done")
	m := newMortal(t)
	began, left := time.Now(), []int{*agentKills, *agentKills}
	for left[0]+left[1] > 0 {
		time.Sleep(time.Duration(rng.Int64N(int64(killWithin)))) // the random moment
		who := rng.IntN(2)
		if left[who] == 0 {
			who = 1 - who
		}
		left[who]--
		[]func(){m.killAgent, m.killHub}[who]()
	}
	// Some more looks, and then an end.
	last := time.Now()
	polltest.Until(t, "an event after the last kill", func() bool { return m.sawEvent(h.PID(), last) })
	took := time.Since(began).Round(time.Second)
	all := m.end()
	events, looks := m.compare(all, h.PID())
	if events == 0 {
		t.Error("nothing was there to lose")
	}
	if *agentKillsOut == "" || t.Failed() {
		return
	}
	body := fmt.Sprintf("`tare agent --interval 1s --budget 100%%` that watches the JVMs of the machine, one of them in a group in which the kernel kills another process every two seconds, and sends to `tare serve --no-agent` (SQLite), each killed (SIGKILL) %d times within %s, up to %s after the kill before, and started again at once (seed %d). After each kill of the agent the whole ledger was read; after each kill of the hub it was asked how far it has the ledger; at the end the history was held against the ledger.\n\n"+
		"- rings that could not be read: none: reached\n- records lost that the ledger had at an earlier kill, of %d: none: reached\n- places where a kill tore a record, which is skipped: %d\n- acknowledged records that the hub lacked after a kill: none: reached\n- events of that JVM lost, kept twice or in another order, of %d: none: reached\n- intervals of ten seconds whose largest usage is not that of the ledger, of %d looks: none: reached\n",
		*agentKills, took, killWithin, seed, len(all), m.torn, events, looks)
	if err := os.WriteFile(*agentKillsOut, []byte(results.Text("kill -9 of agent and hub", "make bench-agent-kills", body)), 0o644); err != nil {
		t.Fatal(err)
	}
}

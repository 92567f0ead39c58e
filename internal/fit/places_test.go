package fit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare.dev/tare/internal/outdir"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/runnertest"
	"tare.dev/tare/internal/trial"
)

// node makes trials of a simulated application that all nodes have, one at a time. An
// attempt has the same outcome on all of them.
type node struct {
	mu   *sync.Mutex // of the application
	app  *simulated
	made *[]string // "node: attempt", as they begin
	name string
	busy sync.Mutex
	// fail is the error of all trials, where it is not nil.
	fail error
}

func (n *node) Try(ctx context.Context, a Attempt) (Outcome, error) {
	if !n.busy.TryLock() {
		return Outcome{}, fmt.Errorf("two trials at a time on %s", n.name)
	}
	defer n.busy.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	*n.made = append(*n.made, n.name)
	if n.fail != nil {
		return Outcome{}, n.fail
	}
	return n.app.Try(ctx, a)
}

func (n *node) Train(ctx context.Context, a Attempt, option string) (string, error) {
	return n.app.Train(ctx, a, option)
}

func (n *node) Extract(ctx context.Context) (string, error) { return n.app.Extract(ctx) }

func whatever(Attempt) bool { return true }

var errNode = errors.New("the node is gone")

// nodes are so many, and what was begun where.
func nodes(names ...string) (all []*node, made *[]string) {
	made, app, mu := &[]string{}, application(), &sync.Mutex{}
	for _, name := range names {
		all = append(all, &node{mu: mu, app: app, made: made, name: name})
	}
	return all, made
}

// placesOf are places of nodes; notes are what they say.
func placesOf(all []*node) (p *Places, notes *[]string) {
	var places []Place
	for _, n := range all {
		places = append(places, Place{n.name, n})
	}
	notes = &[]string{}
	return NewPlaces(places, nil, func(err error) bool { return errors.Is(err, errNode) }, func(text string) { *notes = append(*notes, text) }), notes
}

// attemptsOf are the attempts of trials in their order, without the nodes.
func attemptsOf(trials []Trial) []string {
	var out []string
	for _, t := range trials {
		out = append(out, t.Attempt.String())
	}
	return out
}

// A search on one place asks for the same trials as one without places, whatever is said
// ahead.
func TestOnePlaceIsNone(t *testing.T) {
	want, err := application().search().Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, _ := nodes("a")
	p, _ := placesOf(all)
	s := all[0].app.search()
	s.Trier = p
	got, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w, g := attemptsOf(want.Trials), attemptsOf(got.Trials); !slices.Equal(w, g) || got.LimitBytes != want.LimitBytes {
		t.Errorf("%d MiB by\n%s\nwant %d MiB by\n%s", got.LimitBytes/mib, strings.Join(g, "\n"), want.LimitBytes/mib, strings.Join(w, "\n"))
	}
}

// On two and more nodes the answer is proven, each node has a baseline, trials are in the
// order of the search however they end, and no node makes two at a time.
func TestSearchOnNodes(t *testing.T) {
	one, err := application().search().Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c"}} {
		var first []string
		for range 5 {
			all, _ := nodes(names...)
			p, notes := placesOf(all)
			s := all[0].app.search()
			s.Trier, s.Stress, s.Ablation, s.HeapCurve = p, true, true, true
			got, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			checkFound(t, s, got)
			on, heaps := map[string]bool{}, map[string]bool{}
			for _, tr := range got.Trials {
				if tr.Phase == PhaseBaseline {
					on[tr.Node] = true
				}
				if tr.Phase == PhaseHeap {
					heaps[tr.Node] = true
				}
				if b := s.bars[tr.Node]; tr.Phase == PhaseConfirm && tr.Baseline != b {
					t.Errorf("trial %d on %s is measured against another node", tr.Number, tr.Node)
				}
			}
			if len(on) != len(names) || len(heaps) != 1 || len(*notes) > 0 || len(s.plan) > 0 || len(p.jobs) > 0 {
				t.Errorf("baselines on %v, heaps on %v, notes %q, %d said ahead are left", on, heaps, *notes, len(s.plan))
			}
			if got.LimitBytes > one.LimitBytes+one.LimitBytes/20 || got.LimitBytes < one.LimitBytes-one.LimitBytes/20 {
				t.Errorf("%d MiB on %d nodes, %d on one", got.LimitBytes/mib, len(names), one.LimitBytes/mib)
			}
			if first == nil {
				first = attemptsOf(got.Trials)
			}
			if now := attemptsOf(got.Trials); !slices.Equal(first, now) {
				t.Errorf("other trials than before:\n%s\nwant\n%s", strings.Join(now, "\n"), strings.Join(first, "\n"))
			}
		}
	}
}

// A node that is lost gives its trial to another one, also one that had to be made there;
// when the last is lost, the search ends with its error.
func TestNodeIsLost(t *testing.T) {
	all, made := nodes("a", "b")
	all[1].fail = errNode
	p, notes := placesOf(all)
	s := all[0].app.search()
	s.Trier = p
	got, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkFound(t, s, got)
	lost := 0
	for _, name := range *made {
		if name == "b" {
			lost++
		}
	}
	if lost != 1 || len(*notes) != 1 || !strings.Contains((*notes)[0], "node b is given up, and its trial is made on another one: the node is gone") {
		t.Errorf("%d trials on the lost node, notes %q", lost, *notes)
	}
	for _, tr := range got.Trials {
		if tr.Node != "a" {
			t.Errorf("trial %d on %q", tr.Number, tr.Node)
		}
	}
	all[0].fail = errNode
	s = all[0].app.search()
	p, _ = placesOf(all)
	s.Trier = p
	if _, err := s.Run(t.Context()); !errors.Is(err, errNode) {
		t.Errorf("without nodes: %v", err)
	}
}

// However often a search on two nodes is cut off, it goes on and finds the same; what was
// made ahead and not asked for is no step of it.
func TestSearchOnNodesGoesOn(t *testing.T) {
	run := func(m *memory, cut int) (*Found, error) {
		all, _ := nodes("a", "b")
		p, _ := placesOf(all)
		s := all[0].app.search()
		s.Trier = NewRecorder(&cuttingPlaces{p, cut}, Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Journal: m, ArchiveDir: "/archive", ArchivesInside: "/archive"})
		f, err := s.Run(t.Context())
		p.Drop(whatever)
		return f, err
	}
	want, err := run(&memory{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < len(want.Trials); cut++ {
		m := &memory{}
		var got *Found
		for err = errCut; errors.Is(err, errCut); {
			got, err = run(m, cut)
		}
		if err != nil || !slices.Equal(attemptsOf(got.Trials), attemptsOf(want.Trials)) || got.LimitBytes != want.LimitBytes {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

// cuttingPlaces ends the search at one call.
type cuttingPlaces struct {
	*Places
	left int
}

func (c *cuttingPlaces) Try(ctx context.Context, a Attempt) (Outcome, error) {
	if c.left--; c.left < 0 {
		return Outcome{}, errCut
	}
	return c.Places.Try(ctx, a)
}

// waiting makes trials that end when they are told, or when their context does.
type waiting struct {
	begun chan int // Attempt.LimitBytes
	go_   map[int]chan error
}

func (w *waiting) Try(ctx context.Context, a Attempt) (Outcome, error) {
	w.begun <- int(a.LimitBytes)
	select {
	case err := <-w.go_[int(a.LimitBytes)]:
		return Outcome{PeakBytes: a.LimitBytes}, err
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

func (w *waiting) Train(context.Context, Attempt, string) (string, error) { return "", ErrNoArchive }

// Trials run at the same time; the one that was asked for is answered whichever ends first;
// those that are dropped end, and so do all with the context.
func TestTrialsBesideEachOther(t *testing.T) {
	w := &waiting{begun: make(chan int, 9), go_: map[int]chan error{}}
	for i := range 9 {
		w.go_[i] = make(chan error, 1)
	}
	begun := func(want ...int) {
		t.Helper()
		var got []int
		for range want {
			select {
			case n := <-w.begun:
				got = append(got, n)
			case <-time.After(time.Minute):
				t.Fatalf("%v have begun, want %v", got, want)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%v have begun, want %v", got, want)
		}
	}
	at := func(limit int64) Attempt { return Attempt{Phase: PhaseConfirm, LimitBytes: limit} }
	p := NewPlaces([]Place{{"a", w}, {"b", w}}, nil, func(error) bool { return false }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	p.Ahead(ctx, []Attempt{at(1), at(2), at(3), at(4)})
	begun(1, 2)
	w.go_[2] <- nil // before the first
	w.go_[3] <- nil
	go func() { w.go_[1] <- nil }()
	for limit := int64(1); limit <= 2; limit++ {
		if o, err := p.Try(ctx, at(limit)); err != nil || o.PeakBytes != limit || o.Node == "" {
			t.Fatalf("%d: %+v, %v", limit, o, err)
		}
	}
	// One that was not said ahead goes before those that were.
	go func() { w.go_[5] <- nil }()
	if o, err := p.Try(ctx, at(5)); err != nil || o.PeakBytes != 5 {
		t.Fatalf("%+v, %v", o, err)
	}
	p.Drop(whatever)
	if len(p.jobs) > 0 || p.at[0] != nil || p.at[1] != nil {
		t.Errorf("%d jobs, at the places %v", len(p.jobs), p.at)
	}
	p.Ahead(ctx, []Attempt{at(6), at(7)})
	cancel()
	if _, err := p.Try(ctx, at(6)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	p.Drop(whatever)
}

// The log of a trial that was made ahead gets the number by which it is asked for, and that
// of one that was dropped goes.
func TestFilesOfTrialsMadeAhead(t *testing.T) {
	out, err := outdir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	tr := &trier{config: Config{Out: out}}
	for ahead := 1; ahead <= 2; ahead++ {
		path, err := out.Reserve(aheadFile(ahead))
		if err == nil {
			err = os.WriteFile(path, fmt.Appendf(nil, "trial %d", ahead), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tr.Discard(1)
	if err := tr.File(2, Attempt{Number: 7}, &Outcome{Result: &trial.Result{}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out.Path("trial-007.log"))
	if err != nil || string(text) != "trial 2" {
		t.Errorf("%q, %v", text, err)
	}
	if left, _ := filepath.Glob(out.Path("trial-000*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := out.Clear(OutFiles...); err != nil {
		t.Error(err)
	}
}

// A node that is slower by half changes nothing of what levers are said to cost, whichever
// trials it made.
func TestCostsAreBlockedByNode(t *testing.T) {
	lever := adds("-a")
	points := []costPoint{{setup: Setup{}, node: "a", log: 1}, {setup: Setup{}, node: "b", log: 1.5}, {setup: lever, node: "b", log: 1.3}}
	log, _, known := regress(points).difference(lever, Setup{})
	if !known || log > -0.19 || log < -0.21 {
		t.Errorf("%.3f, %v, want -0.2", log, known)
	}
	if _, _, known := regress(slices.Delete(points, 1, 2)).difference(lever, Setup{}); known {
		t.Error("trials of two nodes are compared")
	}
}

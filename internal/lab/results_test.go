package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func record(hash string, round int) *Record {
	return &Record{Schema: Schema, Hash: hash, Round: round, Time: time.Unix(1, 0).UTC(), Verdict: "passed", Values: map[string]float64{"rss": 1}}
}

func TestResultsGoOn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.jsonl")
	r, err := OpenResults(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenResults(name); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	for round := 1; round <= 3; round++ {
		if err := r.Append(record("a", round)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	// Cut off anywhere, as a kill leaves it: what was whole is kept, and
	// what is appended next is whole too.
	ends := strings.SplitAfter(string(whole), "\n")
	for _, cut := range []int{0, 1, len(ends[0]) - 1, len(ends[0]), len(ends[0]) + 7, len(whole) - 1} {
		if err := os.WriteFile(name, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := OpenResults(name)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		kept := strings.Count(string(whole[:cut]), "\n")
		if len(r.Records) != kept {
			t.Errorf("cut at %d: %d records, want %d", cut, len(r.Records), kept)
		}
		for round := 1; round <= 3; round++ {
			if r.Has("a", round, "") != (round <= kept) || r.Has("b", round, "") {
				t.Errorf("cut at %d: round %d", cut, round)
			}
		}
		if err := errors.Join(r.Append(record("b", 1)), r.Close()); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadResults(f, name)
		f.Close()
		if err != nil || len(again.Records) != kept+1 || !again.Has("b", 1, "") {
			t.Errorf("cut at %d: read again: %v", cut, err)
		}
	}
}

func TestResultsRefuseOtherFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.jsonl")
	for _, text := range []string{"hello\n", "{}\n", `{"schema":"tare.lab/2","hash":"a","round":1}` + "\n", strings.Repeat("x", 1<<20+2) + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenResults(name); err == nil || !strings.Contains(err.Error(), name+":1: ") {
			t.Errorf("%.40q: %v", text, err)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != text {
			t.Errorf("%.40q was changed", text)
		}
	}
}

// A search begins at what was found last in its cell, and knows the page cache that
// its application could not do without in other cells.
func TestHints(t *testing.T) {
	e, err := Read(strings.NewReader(good), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e.Search = &Search{Find: "smallest limit"}
	l := &Lab{Experiment: e, Results: &Results{have: map[runKey]bool{}}}
	cell := func(jdk, xss string) Cell {
		for _, c := range e.Cells() {
			if c.Labels[0] == jdk && c.Labels[1] == xss && c.Labels[2] == "none" {
				return c
			}
		}
		t.Fatalf("no cell of JDK %s and %s", jdk, xss)
		return Cell{}
	}
	for i, found := range []struct {
		cell          Cell
		limit, needed float64
	}{
		{cell("17", "512k"), 30, 20}, {cell("17", "512k"), 40, 28}, // the last counts
		{cell("8", "512k"), 90, 10},
	} {
		rec := record(e.Hash(found.cell), i+1)
		rec.Values[limitMeasure], rec.Values[neededMeasure] = found.limit, found.needed
		l.Results.add(*rec)
	}
	l.Results.add(*record(e.Hash(cell("17", "512k")), 9)) // found nothing
	for _, c := range []struct {
		cell Cell
		want hints
	}{
		{cell("17", "512k"), hints{LimitBytes: 40, CacheBytes: 12}},
		{cell("17", "2m"), hints{CacheBytes: 12}},
		{cell("8", "2m"), hints{CacheBytes: 80}},
		{cell("25", "4m"), hints{}},
	} {
		if got := l.hints(c.cell); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.cell.Labels, got, c.want)
		}
	}
}

// Builds of a JDK are not mixed; records of before there was a build count for every
// one.
func TestResultsOfOneBuild(t *testing.T) {
	r := &Results{have: map[runKey]bool{}}
	on := func(hash string, round int, build string, rss float64) {
		rec := record(hash, round)
		rec.Build, rec.Values["rss"] = build, rss
		r.add(*rec)
	}
	on("a", 1, "17.0.15+6 A", 1)
	on("a", 2, "17.0.15+6 A", 1)
	on("a", 1, "17.0.16+8 A", 2)
	on("b", 1, "", 3)
	on("b", 2, "17.0.16+8 A", 4)
	for _, c := range []struct {
		hash  string
		round int
		build string
		want  bool
	}{{"a", 1, "17.0.16+8 A", true}, {"a", 2, "17.0.16+8 A", false}, {"a", 2, "17.0.15+6 A", true}, {"a", 2, "17.0.15+6 B", false}, {"a", 2, "", true},
		{"b", 1, "anything", true}, {"b", 2, "anything", false}, {"c", 1, "", false}} {
		if got := r.Has(c.hash, c.round, c.build); got != c.want {
			t.Errorf("%s in round %d on %q: %t", c.hash, c.round, c.build, got)
		}
	}
	if got := r.of("a"); len(got) != 1 || got[0].Values["rss"] != 2 || r.last("a", "rss") != 2 {
		t.Errorf("%+v", got)
	}
	if got := r.of("b"); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

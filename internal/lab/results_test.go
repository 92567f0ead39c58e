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
			if r.Has("a", round) != (round <= kept) || r.Has("b", round) {
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
		if err != nil || len(again.Records) != kept+1 || !again.Has("b", 1) {
			t.Errorf("cut at %d: read again: %v", cut, err)
		}
	}
}

func TestResultsRefuseOtherFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.jsonl")
	for _, text := range []string{"hello\n", "{}\n", `{"schema":"tare.lab/2","hash":"a","round":1}` + "\n", strings.Repeat("x", maxRecord+2) + "\n"} {
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

// A later round can begin at what was found last.
func TestLastOfACell(t *testing.T) {
	r := &Results{have: map[string]bool{}}
	for i, limit := range []float64{30, 40} {
		rec := record("a", i+1)
		rec.Values[limitMeasure] = limit
		r.add(*rec)
	}
	r.add(*record("a", 3)) // found nothing
	if a, b := r.last("a", limitMeasure), r.last("b", limitMeasure); a != 40 || b != 0 {
		t.Errorf("%g and %g, want 40 and 0", a, b)
	}
}

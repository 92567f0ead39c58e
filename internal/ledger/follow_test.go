package ledger

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Followers hand on each record once and in order, however often they stop, and
// while others write.
func TestFollow(t *testing.T) {
	w, err := Create(t.TempDir(), 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const rings, each = 5, 2000
	var writers sync.WaitGroup
	for r := range rings {
		writers.Go(func() {
			id := ID{Boot: "b", PID: r + 1, StartTicks: 7}
			err := w.Append(Record{Process: id, At: time.Unix(1, 0), Start: &Process{ID: id, Name: "x"}})
			for n := range each {
				if err == nil {
					err = w.Append(Record{Process: id, At: time.Unix(int64(n), 0), Counters: &Counters{Usage: int64(n + 1)}})
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	seen := map[ID]int64{}
	f, last, ended := w.Follow(0), uint64(0), false
	rng := rand.New(rand.NewPCG(1, 2))
	for rounds := 0; !ended; rounds++ {
		select {
		case <-done:
			ended = true
		default:
		}
		for more := true; more; {
			left := 1 + rng.IntN(300)
			more = false
			damage, err := f.Next(func(rec Record) bool {
				if left--; left == 0 {
					more = true
					return false
				}
				if rec.Seq <= last {
					t.Fatalf("%d after %d", rec.Seq, last)
				}
				last = rec.Seq
				if c := rec.Counters; c != nil {
					if c.Usage != seen[rec.Process]+1 {
						t.Fatalf("%s: %d after %d", rec.Process, c.Usage, seen[rec.Process])
					}
					seen[rec.Process] = c.Usage
				}
				return true
			})
			if err != nil || damage.Bytes > 0 {
				t.Fatal(damage, err)
			}
		}
		if rounds%7 == 0 { // as after a restart
			f = w.Follow(f.After())
		}
	}
	if len(seen) != rings {
		t.Errorf("%d rings", len(seen))
	}
	for id, n := range seen {
		if n != each {
			t.Errorf("%s: %d of %d", id, n, each)
		}
	}
	if _, err := f.Next(func(r Record) bool { t.Errorf("again %+v", r); return true }); err != nil {
		t.Error(err)
	}
}

// What a full ring lost is skipped, and the rest comes.
func TestFollowGoesPastWhatIsGone(t *testing.T) {
	w, err := Create(t.TempDir(), MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	f := w.Follow(0)
	n, last := 0, uint64(0)
	take := func() {
		if _, err := f.Next(func(r Record) bool { n++; last = r.Seq; return true }); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf("%01000d", 1)
	id := ID{Boot: "b", PID: 9, StartTicks: 1}
	if err := w.Append(Record{Process: id, Start: &Process{ID: id, Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if err := w.Append(Record{Process: id, At: time.Unix(int64(i), 0), Event: &Event{Kind: AgentStart, Text: text}}); err != nil {
			t.Fatal(err)
		}
		if i == 10 {
			take()
		}
	}
	take()
	if n < 100 || n >= 3000 || last != w.written() {
		t.Errorf("%d records up to %d of %d", n, last, w.written())
	}
	// Who begins now learns who the JVM is, whose start is gone.
	var first *Record
	if _, err := w.Follow(0).Next(func(r Record) bool { first = &r; return false }); err != nil || first.Start == nil || first.Start.Name != "shop" || first.Event == nil {
		t.Errorf("%+v, %v", first, err)
	}
}

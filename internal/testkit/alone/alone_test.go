package alone

import (
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Each table stands for a process. At no moment does a test run beside one that
// is alone, but for its own parts, and all of them come to their end.
func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bin", "lock")
	var sharing, alone atomic.Int64
	check := func(what string, wantShare, wantAlone int64) {
		if s, a := sharing.Load(), alone.Load(); s > wantShare || a > wantAlone {
			t.Errorf("%s: %d share, %d are alone", what, s, a)
		}
	}
	var all sync.WaitGroup
	for process := range 3 {
		table, err := open(path)
		if err != nil {
			t.Fatal(err)
		}
		for test := range 4 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(process), uint64(test)))
				name := "Test" + strconv.Itoa(test)
				for range 100 {
					if r.IntN(3) > 0 {
						must(t, table.share(name))
						sharing.Add(1)
						check("who shares", 12, 0)
						must(t, table.share(name+"/part"))
						table.release(name + "/part")
						sharing.Add(-1)
						table.release(name)
						continue
					}
					parent := r.IntN(2) == 0
					if parent {
						must(t, table.share(name))
					}
					must(t, table.take(name+"/measures"))
					alone.Add(1)
					check("who is alone", 0, 1)
					must(t, table.share(name+"/measures/part"))
					must(t, table.take(name+"/measures/part"))
					table.release(name + "/measures/part")
					table.release(name + "/measures/part")
					check("who is alone, later", 0, 1)
					alone.Add(-1)
					table.release(name + "/measures")
					if parent {
						table.release(name)
					}
				}
			})
		}
	}
	all.Wait()
}

func must(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

package footprint

import (
	"math/rand/v2"
	"testing"

	"tare/internal/linux"
)

// randomVMAs makes neighbouring and separate mappings below 4096.
func randomVMAs(r *rand.Rand) []linux.VMA {
	var vmas []linux.VMA
	for at := uint64(1); at < 4000; {
		at += uint64(r.IntN(2) * r.IntN(50))
		end := at + 1 + uint64(r.IntN(200))
		vmas = append(vmas, linux.VMA{Start: at, End: end, Perms: "rw-p"})
		at = end
	}
	return vmas
}

func randomClaims(r *rand.Rand) []claim {
	var claims []claim
	for i := range r.IntN(40) {
		start := uint64(r.IntN(4200))
		// Equal ranks on one address have no order: give each its own.
		claims = append(claims, claim{span{start, start + uint64(r.IntN(400))}, owners[i%len(owners)], Exact, rank(i + 1), ""})
	}
	return claims
}

// Every address of every mapping has one owner, that of the best claim.
func TestPartition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		vmas, claims := randomVMAs(r), randomClaims(r)
		segs := partition(vmas, append([]claim{}, claims...))
		i := 0
		for v := range vmas {
			at := vmas[v].Start
			for ; at < vmas[v].End; i++ {
				g := segs[i]
				if g.start != at || g.end <= at || g.end > vmas[v].End || g.vma != &vmas[v] {
					t.Fatalf("segment %+v at %d of mapping %d-%d", g, at, vmas[v].Start, vmas[v].End)
				}
				for ; at < g.end; at++ {
					if want := bestOwner(claims, at); g.owner != want {
						t.Fatalf("address %d belongs to %s, want %s", at, g.owner, want)
					}
				}
			}
		}
		if i != len(segs) {
			t.Fatalf("%d segments too many", len(segs)-i)
		}
	}
}

func bestOwner(claims []claim, at uint64) Owner {
	best, owner := rankMapping, Unattributed
	for _, c := range claims {
		if c.start <= at && at < c.end && c.rank > best {
			best, owner = c.rank, c.owner
		}
	}
	return owner
}

// No resident page is lost or counted twice, wherever the runs lie.
func TestResident(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		vmas := randomVMAs(r)
		segs := partition(vmas, randomClaims(r))
		var runs []linux.PageRun
		var want int64
		for at := uint64(0); at < 4500; {
			at += uint64(r.IntN(30))
			run := linux.PageRun{Start: at, End: at + 1 + uint64(r.IntN(60))}
			runs = append(runs, run)
			want += run.Size()
			at = run.End
		}
		counts, outside := resident(segs, runs)
		got := outside
		for i, n := range counts {
			if n < 0 || n > segs[i].size() {
				t.Fatalf("%d resident of %d", n, segs[i].size())
			}
			got += n
		}
		if got != want {
			t.Fatalf("counted %d, want %d", got, want)
		}
	}
}

// Free memory is counted by whole pages: a span that holds none counts as
// nothing.
func TestResidentIn(t *testing.T) {
	runs := []linux.PageRun{{Start: 0, End: 4 * 4096}, {Start: 6 * 4096, End: 7 * 4096}}
	for _, c := range []struct {
		spans []span
		want  int64
	}{
		{[]span{{4100, 4200}}, 0},
		{[]span{{4000, 4200}}, 0},
		{[]span{{4096, 3 * 4096}}, 2 * 4096},
		{[]span{{100, 3*4096 + 1}, {5 * 4096, 8 * 4096}}, 3 * 4096},
	} {
		if got := residentIn(c.spans, runs, 4096); got != c.want {
			t.Errorf("%v: %d, want %d", c.spans, got, c.want)
		}
	}
}

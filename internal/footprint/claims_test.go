package footprint

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"tare.dev/tare/internal/linux"
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
	parts := []string{"", "", "a", "b"}
	var claims []claim
	for range r.IntN(40) {
		start := uint64(r.IntN(4200))
		claims = append(claims, claim{
			span{start, start + uint64(r.IntN(400))}, owners[r.IntN(len(owners))], Exact,
			rank(1 + r.IntN(ranks-1)), parts[r.IntN(len(parts))],
		})
	}
	return claims
}

// Every address of every mapping has one owner, that of the best claim.
func TestPartition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		checkPartition(t, randomVMAs(r), randomClaims(r))
	}
}

// checkPartition checks that segments cover the mappings, each byte once, and
// that each has the owner and the part that looking at every claim finds.
func checkPartition(t *testing.T, vmas []linux.VMA, claims []claim) {
	t.Helper()
	before := slices.Clone(claims)
	segs, err := partition(t.Context(), vmas, claims)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(claims, before) {
		t.Fatal("the claims were changed")
	}
	i := 0
	for v := range vmas {
		for at := vmas[v].Start; at < vmas[v].End; i++ {
			g := segs[i]
			if g.start != at || g.end <= at || g.end > vmas[v].End || g.vma != &vmas[v] {
				t.Fatalf("segment %+v at %d of mapping %d-%d", g, at, vmas[v].Start, vmas[v].End)
			}
			for _, a := range places(claims, g.span) {
				if owner, part := bestAt(claims, a); g.owner != owner || g.part != part {
					t.Fatalf("address %d belongs to %s %q, want %s %q", a, g.owner, g.part, owner, part)
				}
			}
			at = g.end
		}
	}
	if i != len(segs) {
		t.Fatalf("%d segments too many", len(segs)-i)
	}
}

// places are the addresses in a span at which the answer may change.
func places(claims []claim, s span) []uint64 {
	out := []uint64{s.start, s.end - 1}
	for _, c := range claims {
		for _, a := range []uint64{c.start, c.end} {
			if s.start <= a && a < s.end {
				out = append(out, a)
			}
		}
	}
	return out
}

// bestAt looks at every claim.
func bestAt(claims []claim, at uint64) (Owner, string) {
	best := claim{owner: Unattributed}
	for _, c := range claims {
		if c.start <= at && at < c.end && (c.rank > best.rank || c.rank == best.rank && c.start < best.start) {
			best = c
		}
	}
	named := best
	if best.part == "" {
		for _, c := range claims {
			if c.start <= at && at < c.end && c.owner == best.owner && c.part != "" &&
				(named.part == "" || c.rank > named.rank || c.rank == named.rank && c.start < named.start) {
				named = c
			}
		}
	}
	return best.owner, named.part
}

// FuzzPartition: however claims overlap, every byte of every mapping has one
// owner, the best, and nothing outside of the mappings has any.
func FuzzPartition(f *testing.F) {
	f.Add([]byte{0, 10, 0, 10, 5, 10}, []byte{0, 20, 1, 0, 5, 5, 2, 1, 5, 5, 2, 2})
	f.Add([]byte{1, 255, 0, 1}, []byte{0, 255, 10, 3, 0, 255, 10, 2, 3, 0, 4, 1})
	f.Fuzz(func(t *testing.T, mappings, bytes []byte) {
		var vmas []linux.VMA
		at := uint64(0)
		for ; len(mappings) >= 2 && len(vmas) < 50; mappings = mappings[2:] {
			at += uint64(mappings[0])
			vmas = append(vmas, linux.VMA{Start: at, End: at + 1 + uint64(mappings[1]), Perms: "rw-p"})
			at += 1 + uint64(mappings[1])
		}
		var claims []claim
		for ; len(bytes) >= 4 && len(claims) < 100; bytes = bytes[4:] {
			c := claim{span: span{uint64(bytes[0]) * 8, uint64(bytes[0])*8 + uint64(bytes[1])*8}, owner: owners[int(bytes[3])%len(owners)], rank: rank(1 + int(bytes[2])%(ranks-1))}
			if bytes[3] >= 128 {
				c.part = strconv.Itoa(int(bytes[3]) % 3)
			}
			claims = append(claims, c)
		}
		checkPartition(t, vmas, claims)
	})
}

// Work on many claims ends when the context does.
func TestPartitionEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	claims := make([]claim, 10*interval)
	for i := range claims {
		claims[i] = claim{span: span{uint64(i), 1 << 40}, owner: GC, rank: rank(1 + i%2), part: strconv.Itoa(i)}
	}
	if _, err := partition(ctx, []linux.VMA{{Start: 0, End: 1 << 40, Perms: "rw-p"}}, claims); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// No resident page is lost or counted twice, wherever the runs lie.
func TestResident(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		vmas := randomVMAs(r)
		segs, err := partition(t.Context(), vmas, randomClaims(r))
		if err != nil {
			t.Fatal(err)
		}
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

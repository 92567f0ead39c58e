package report

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tare.dev/tare/internal/footprint"
)

// grown is example, an hour later: its heap has grown, a stack is gone, an
// owner of a later version has come.
func grown() (a, b *footprint.Footprint) {
	a, b = example(), example()
	a.Time = time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	b.Time = a.Time.Add(time.Hour)
	a.Warnings, b.Warnings = nil, nil
	b.Threads = 50
	b.Rows[0].ResidentBytes += *size(30)
	b.Rows[0].Children[1].ResidentBytes += *size(30)
	b.Rows[0].Children = append(b.Rows[0].Children, footprint.Child{Name: "humongous", ResidentBytes: 255 << 10})
	b.Rows[1].ResidentBytes -= *size(1)
	b.Rows[1].Children = []footprint.Child{{ID: footprint.PartLargestThreads, Name: "largest by thread", ResidentBytes: *size(5), Children: []footprint.Child{{Name: "main", ResidentBytes: *size(5)}}}}
	b.Rows[4].Children[0].Children = []footprint.Child{{Name: "text", ResidentBytes: *size(1)}}
	b.Rows = append(b.Rows, footprint.Row{Owner: "sky-\x1b[31m", ResidentBytes: *size(2)})
	b.RSSBytes += *size(31)
	b.Cgroup.UsageBytes += *size(31)
	b.Cgroup.HeadroomBytes = size(38.6)
	return a, b
}

func TestDiffText(t *testing.T) {
	a, b := grown()
	golden(t, "diff.txt", terminal(t, Compare("before.json", a, "app.jar", b).Document()))
	b.PID, b.JDK, b.Collector, b.Warnings = 7, "26", "", []string{"the JVM is starting"}
	b.Cgroup.LimitBytes = size(400)
	got := terminal(t, Compare("now", b, "before.json", a).Document())
	golden(t, "diff-doubtful.txt", got)
	for line := range strings.Lines(string(got)) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestDiffJSON(t *testing.T) {
	a, b := grown()
	text, err := json.MarshalIndent(Compare("before.json", a, "app.jar", b), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "diff.json", append(text, '\n'))
}

// For any two footprints that add up, the changes add up too, and come in
// order.
func TestDiffAddsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	owners := []footprint.Owner{footprint.JavaHeap, footprint.Malloc, footprint.GC, "new", footprint.Unattributed}
	random := func() *footprint.Footprint {
		f := &footprint.Footprint{Time: time.Unix(r.Int64N(1<<40), 0)}
		for _, o := range owners[r.IntN(len(owners)):] {
			n := r.Int64N(1 << 40)
			f.Rows = append(f.Rows, footprint.Row{Owner: o, ResidentBytes: n})
			f.RSSBytes += n
		}
		return f
	}
	for range 1000 {
		a, b := random(), random()
		d := Compare("a", a, "b", b)
		var sum, sumA, sumB int64
		for _, row := range d.Rows {
			sum, sumA, sumB = sum+row.ChangeBytes, sumA+row.ABytes, sumB+row.BBytes
		}
		if sum != d.ChangeBytes || sumA != a.RSSBytes || sumB != b.RSSBytes || sum != b.RSSBytes-a.RSSBytes {
			t.Fatalf("changes add up to %d: %+v", sum, d)
		}
		if !slices.IsSortedFunc(d.Rows, func(x, y DiffRow) int { return int(magnitude(y.ChangeBytes) - magnitude(x.ChangeBytes)) }) {
			t.Fatalf("not in order: %+v", d.Rows)
		}
	}
}

func TestSigned(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0.0", 1: "0.0", -1: "0.0", 3 * MiB: "+3.0", -3 * MiB: "-3.0", 20 << 30: "+20480.0",
		math.MinInt64: "-8796093022208.0",
	} {
		if got := Signed(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

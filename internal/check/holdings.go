package check

import (
	"cmp"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/lazy"
)

// Kind is what can grow.
type Kind string

// The kinds, in the order of reports.
const (
	KindOwner   Kind = "owner"   // bytes, a row of the footprint
	KindPart    Kind = "part"    // bytes, a part of a row
	KindClass   Kind = "class"   // bytes of the objects that are alive
	KindThreads Kind = "threads" // how many have a name of a pattern
	KindFile    Kind = "file"    // resident bytes of a mapped file
	KindJar     Kind = "jar"     // size of the file
	KindOption  Kind = "option"
)

const (
	// mostItems is how many of a kind a result keeps: those that hold most.
	mostItems = 400
	// leastBytes is the least growth of a class, part or file that is named.
	leastBytes = 16 << 10
)

// holdings are what one run holds, by kind and name.
type holdings map[Kind]map[string]float64

func (h holdings) add(k Kind, name string, n float64) {
	if h[k] == nil {
		h[k] = map[string]float64{}
	}
	h[k][name] += n
}

// held says what a run holds: by its footprint, its objects and its threads, which may be
// missing.
func held(f *footprint.Footprint, objects *attach.Histogram, threads []string) holdings {
	h := holdings{}
	if f != nil {
		for _, r := range f.Rows {
			h.add(KindOwner, string(r.Owner), float64(r.ResidentBytes+r.SwapBytes))
			for _, c := range r.Children {
				switch {
				case r.Owner == footprint.MappedFiles:
					h.add(KindFile, c.Name, float64(c.ResidentBytes))
				case c.ID != footprint.PartLargestThreads:
					h.add(KindPart, string(r.Owner)+": "+c.Name, float64(c.ResidentBytes))
				}
			}
		}
	}
	if objects != nil {
		for _, c := range objects.Classes {
			h.add(KindClass, c.Name, float64(c.Bytes))
		}
	}
	for _, t := range threads {
		h.add(KindThreads, pattern(t), 1)
	}
	return h
}

var digits = lazy.Regexp(`[0-9]+`)

// pattern is the name of a thread without its number: "worker-7" is one of "worker-N".
func pattern(name string) string { return digits().ReplaceAllString(name, "N") }

// Range is what the runs of one side hold of something: the least, the median, the most.
type Range struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
}

// Holdings are what the runs of one side hold.
type Holdings map[Kind]map[string]Range

// ranges joins runs; what one does not have it has nothing of.
func ranges(runs []holdings) Holdings {
	out := Holdings{}
	for _, k := range []Kind{KindOwner, KindPart, KindClass, KindThreads, KindFile} {
		seen := map[string][]float64{}
		for _, h := range runs {
			for name, n := range h[k] {
				seen[name] = append(seen[name], n)
			}
		}
		all := map[string]Range{}
		for name, v := range seen {
			for len(v) < len(runs) {
				v = append(v, 0)
			}
			all[name] = Range{slices.Min(v), median(v), slices.Max(v)}
		}
		largest := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b].High, all[a].High), cmp.Compare(a, b)) })
		for _, name := range largest[min(mostItems, len(largest)):] {
			delete(all, name)
		}
		out[k] = all
	}
	return out
}

// Growth is something of which every run of the head has more, or every run less, than
// every run of the base.
type Growth struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// Base and Head are medians: bytes, or of threads their number. Base is 0 for what
	// is new.
	Base float64 `json:"base"`
	Head float64 `json:"head"`
	// Text says what changed where no number does.
	Text string `json:"text,omitempty"`
}

// Change is how much more the head has.
func (g Growth) Change() float64 { return g.Head - g.Base }

// grown is what tells the sides apart, the largest change of each kind first.
func grown(base, head Side) []Growth {
	var out []Growth
	for _, k := range []Kind{KindOwner, KindPart, KindClass, KindThreads, KindFile} {
		var some []Growth
		names := maps.Clone(head.Holds[k])
		if names == nil {
			names = map[string]Range{}
		}
		for name := range base.Holds[k] {
			names[name] = head.Holds[k][name]
		}
		for name, is := range names {
			was := base.Holds[k][name]
			g := Growth{Kind: k, Name: name, Base: was.Median, Head: is.Median}
			apart := is.Low > was.High || is.High < was.Low
			if apart && (k == KindThreads || math.Abs(g.Change()) >= leastBytes) {
				some = append(some, g)
			}
		}
		out = append(out, largestFirst(some)...)
	}
	return append(append(out, largestFirst(jarsChanged(base.Jars, head.Jars))...), optionsChanged(base.Options, head.Options)...)
}

func largestFirst(some []Growth) []Growth {
	slices.SortFunc(some, func(a, b Growth) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Change()), math.Abs(a.Change())), cmp.Compare(a.Name, b.Name))
	})
	return some
}

// jarsChanged are the jars that only one side has, or that have another size there.
func jarsChanged(base, head map[string]int64) []Growth {
	var out []Growth
	all := maps.Clone(base)
	if all == nil {
		all = map[string]int64{}
	}
	maps.Copy(all, head)
	for name := range all {
		was, before := base[name]
		is, now := head[name]
		if before != now || was != is {
			text := "changed"
			switch {
			case !before:
				text = "added"
			case !now:
				text = "removed"
			}
			out = append(out, Growth{Kind: KindJar, Name: name, Base: float64(was), Head: float64(is), Text: text})
		}
	}
	return out
}

// optionsChanged are the options that only one side has.
func optionsChanged(base, head []string) []Growth {
	var out []Growth
	for _, o := range head {
		if !slices.Contains(base, o) {
			out = append(out, Growth{Kind: KindOption, Name: o, Text: "added"})
		}
	}
	for _, o := range base {
		if !slices.Contains(head, o) {
			out = append(out, Growth{Kind: KindOption, Name: o, Text: "removed"})
		}
	}
	return out
}

// jarName is a jar without its folder.
func jarName(path string) string { return strings.TrimSpace(filepath.Base(path)) }

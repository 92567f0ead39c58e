package footprint

import (
	"fmt"
	"slices"
	"sort"

	"tare.dev/tare/internal/hotspot"
)

// namedThreads is how many threads are listed by name.
const namedThreads = 10

// stack is the resident part of one thread's stack.
type stack struct {
	tid      int    // 0 when no thread is known to stand on it
	kind     string // the id of a part
	resident int64
}

// nameThreads lists the stacks by the kind of their threads, and the largest
// by name.
func (s *scan) nameThreads(f *Footprint, segs []segment, counts []int64) {
	i := slices.IndexFunc(f.Rows, func(r Row) bool { return r.Owner == ThreadStacks })
	stacks := s.stacksOf(segs, counts)
	kinds := map[string]int64{}
	for _, st := range stacks {
		kinds[st.kind] += st.resident
	}
	var children []Child
	for kind, n := range kinds {
		children = append(children, NewChild(kind, n))
	}
	sortChildren(children)
	var named []Child
	sort.SliceStable(stacks, func(i, j int) bool { return stacks[i].resident > stacks[j].resident })
	for _, st := range stacks {
		if len(named) == namedThreads || st.resident == 0 {
			break
		}
		if st.tid != 0 {
			if name := s.threadName(st.tid); name != "" {
				named = append(named, Child{ID: fmt.Sprintf("%s:%d", kindThread, st.tid), Name: name, ResidentBytes: st.resident})
			}
		}
	}
	if len(named) > 0 {
		largest := NewChild(PartLargestThreads, sum(named))
		largest.Children = named
		children = append(children, largest)
	}
	f.Rows[i].Children = children
}

func sum(children []Child) (n int64) {
	for _, c := range children {
		n += c.ResidentBytes
	}
	return n
}

// stacksOf finds the resident part of every stack: of Java threads by the
// JVM's list, of others by their stack pointers, and of no known thread.
func (s *scan) stacksOf(segs []segment, counts []int64) []stack {
	type known struct {
		span
		tid  int
		kind string
	}
	var all []known
	for _, t := range s.jvm.threads() {
		tid := t.TID
		if s.target.NSPID() != s.target.PID {
			// An id of another PID namespace: the thread is the one that stands
			// on the stack, unless it was running.
			tid = s.standsOn(span{t.Stack.Start, t.Stack.End})
		}
		all = append(all, known{span{t.Stack.Start, t.Stack.End}, tid, partJavaThreads})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].start < all[j].start })
	var out []stack
	for i, g := range segs {
		if g.owner != ThreadStacks || counts[i] == 0 {
			continue
		}
		j := sort.Search(len(all), func(j int) bool { return all[j].end > g.start })
		if j < len(all) && all[j].start <= g.start {
			out = append(out, stack{all[j].tid, all[j].kind, counts[i]})
			continue
		}
		out = append(out, s.otherStack(g, counts[i]))
	}
	return out
}

// otherStack is the stack of a thread that the JVM does not list.
func (s *scan) otherStack(g segment, resident int64) stack {
	if tid := s.standsOn(g.span); tid != 0 {
		return stack{tid, threadKind(s.threadName(tid)), resident}
	}
	if g.part != "" {
		return stack{s.target.PID, g.part, resident}
	}
	return stack{0, partNoThread, resident}
}

// standsOn is the thread whose stack pointer lies in a span, 0 without one.
func (s *scan) standsOn(g span) int {
	i := sort.Search(len(s.sps), func(i int) bool { return s.sps[i].sp >= g.start })
	if i < len(s.sps) && s.sps[i].sp < g.end {
		return s.sps[i].tid
	}
	return 0
}

// threadKind is the id of the part that a thread belongs to, by its name.
func threadKind(name string) string {
	switch hotspot.KindOfThread(name) {
	case hotspot.OperationsThread, hotspot.ServiceThread:
		return partVMThreads
	case hotspot.CollectorThread:
		return PartGCThreads
	}
	return partNative
}

func (s *scan) threadName(tid int) string {
	name, err := s.proc.ThreadName(s.target.PID, tid)
	if err != nil {
		return "" // it has ended
	}
	return name
}

package footprint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"tare.dev/tare/internal/attach"
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// Options says how to weigh.
type Options struct {
	// Proc is the proc file system, /proc when it is the zero FS.
	Proc linux.FS
	// Attach asks the JVM through the attach mechanism: for its native memory
	// tracking, and for what of heap and code cache is in use. Without it, or
	// Deep, nothing is sent to the JVM.
	Attach bool
	// Deep also asks for what the JVM stops its threads for: its objects by
	// class, metaspace, class loaders. Announce, if any, is called just
	// before.
	Deep     bool
	Announce func(Cost)
	// Series is what is kept from one weighing of a JVM to the next; nil for
	// a single one.
	Series *Series
	// Gentle holds no lock that a large process needs to map memory for longer than some
	// tenths of a millisecond: of one with more than 128 MiB neither smaps nor smaps_rollup
	// is read. Then PSSBytes, RollupRSSBytes and HugetlbBytes are 0, and memory of an
	// allocator that takes the place of glibc's is known by its look alone. Before Linux 6.7,
	// and in a process that maps devices, HugeBytes is 0 too, and anonymous pages that a
	// forked child shares do not count.
	Gentle bool
}

// scan is what was read of one JVM for one footprint. Its parts are filled in the
// order in which they stand here: see weigh.
type scan struct {
	proc   linux.FS
	target *process.Target
	series *Series
	gentle bool
	journal
	pageView
	jvmView
	stackView
	surroundings
	answers
}

// journal is what reading took and what went wrong, added to all the time.
type journal struct {
	mu      sync.Mutex // guards sources, for pages are read beside the JVM
	sources []Source
	notes   []string
}

// pageView is what the kernel says of the memory, by readPages.
type pageView struct {
	time   time.Time   // when the pages were read
	vmas   []linux.VMA // at first those that the target was found with
	runs   []linux.PageRun
	kinds  *linux.PageScan // nil where smaps had to be read
	rollup linux.VMA       // zero where it was not read
	// memoryDevices are the file systems whose files lie in memory alone.
	memoryDevices map[uint64]bool
}

// jvmView is what the JVM's own memory says: jvm by readJVM, beside the pages; the
// rest once there are pages, by layOut and readMalloc.
type jvmView struct {
	jvm    jvm
	vm     *hotspot.VM // the facts of jvm
	layout *layout
	malloc mallocState
}

// stackView is what tells stacks, by readStackPointers and readStackLimit, which need
// the JVM's list of threads.
type stackView struct {
	// stackLimit is the size of stacks of threads that ask for none; 0 when it
	// is not known.
	stackLimit int64
	sps        []stackPointer // in order of address
}

// surroundings are what the process runs in, by readCgroup and readHost.
type surroundings struct {
	cgroup *Cgroup
	host   *Host // nil in a lean series
}

// answers are what the JVM says when it is asked, by ask: last, for it grows by that.
type answers struct {
	asked   *Asked             // nil without Options.Attach
	regions []attach.NMTRegion // of native memory tracking
	mapped  []attach.NMTRegion // mappings of one use, of System.map
}

// stackPointer is where a thread stands on its stack.
type stackPointer struct {
	tid int
	sp  uint64
}

// Weigh weighs the JVM with process id pid.
func Weigh(ctx context.Context, pid int, opts Options) (*Footprint, error) {
	if opts.Proc == (linux.FS{}) {
		opts.Proc = linux.NewFS("/proc")
	}
	target, err := process.Find(opts.Proc, pid)
	if err != nil {
		return nil, err
	}
	return WeighTarget(ctx, target, opts)
}

// WeighTarget weighs a JVM that was found just now: with the mappings that it
// was found with.
func WeighTarget(ctx context.Context, target *process.Target, opts Options) (*Footprint, error) {
	if opts.Proc == (linux.FS{}) {
		opts.Proc = linux.NewFS("/proc")
	}
	f, err := weigh(ctx, target, opts)
	// What was read of a process that has ended meanwhile is not to be
	// trusted, nor are the errors that it caused.
	if !target.StillThere(opts.Proc) || errors.Is(err, syscall.ESRCH) || errors.Is(err, errNoPages) {
		return nil, fmt.Errorf("process %d ended while it was weighed: %w", target.PID, process.ErrNoProcess)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, target.Closed("pages")
	}
	return f, err
}

// muslNote says what musl's malloc does not tell: it maps groups of slots of
// its own, among which its bookkeeping is kept from view.
const muslNote = "its C library is musl, whose malloc is not told from other anonymous memory except for what lies in [heap]"

func newScan(proc linux.FS, target *process.Target) *scan {
	return &scan{proc: proc, target: target, pageView: pageView{vmas: target.VMAs}}
}

func weigh(ctx context.Context, target *process.Target, opts Options) (*Footprint, error) {
	start := time.Now()
	s := newScan(opts.Proc, target)
	s.series, s.gentle = opts.Series, opts.Gentle
	if target.Musl {
		s.notes = append(s.notes, muslNote)
	}
	// The kernel takes long to count pages, and reading the JVM does not
	// depend on them.
	pages := make(chan error, 1)
	go func() { pages <- s.readPages(ctx, opts.Proc) }()
	mem := s.readJVM(ctx, opts.Proc)
	if mem != nil {
		defer mem.Close()
		s.readStackPointers(ctx, opts.Proc)
	}
	s.readStackLimit(opts.Proc)
	_ = s.timed("mounts", func() (err error) {
		s.memoryDevices, err = opts.Proc.MemoryDevices(s.target.PID)
		return err
	})
	if err := errors.Join(<-pages, ctx.Err()); err != nil {
		return nil, err
	}
	if len(s.runs) == 0 {
		return nil, errNoPages
	}
	s.layOut(memoryOf(mem), uint64(os.Getpagesize()))
	s.malloc = s.layout.readMalloc(s.runs)
	s.readCgroup(opts.Proc)
	if !s.series.lean() {
		s.readHost(opts.Proc)
	}
	if opts.Attach || opts.Deep {
		// Last, for the first attach makes the JVM grow.
		if err := s.ask(ctx, opts); err != nil {
			return nil, err
		}
	}
	segs, err := s.attribute(ctx)
	if err != nil {
		return nil, err
	}
	f := s.footprint(segs)
	f.Millis = float64(time.Since(start).Microseconds()) / 1000
	return f, nil
}

// errNoPages says that a process has given its memory back: it ends, and may
// for a moment look alive otherwise.
var errNoPages = errors.New("no resident pages")

// closed stands for memory that may not be read.
type closed struct{}

func (closed) ReadMem([]byte, uint64) error { return fs.ErrPermission }

// memory is the memory of the process, which nothing more is read of once the
// context has ended: a hostile process leads a reader from page to page.
type memory struct {
	*linux.Mem
	ctx context.Context
}

// ReadMem fills p from address addr.
func (m *memory) ReadMem(p []byte, addr uint64) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	return m.Mem.ReadMem(p, addr)
}

func memoryOf(m *memory) hotspot.Memory {
	if m == nil {
		return closed{}
	}
	return m
}

// timed runs one source and records how long it took and what went wrong.
func (s *scan) timed(name string, read func() error) error {
	start := time.Now()
	err := read()
	src := Source{Name: name, Millis: float64(time.Since(start).Microseconds()) / 1000}
	if err != nil {
		text := err.Error()
		src.Error = &text
	}
	s.mu.Lock()
	s.sources = append(s.sources, src)
	s.mu.Unlock()
	return err
}

// readJVM reads what the JVM says of itself. The memory is nil where it is closed.
func (s *scan) readJVM(ctx context.Context, proc linux.FS) (mem *memory) {
	open := func() (hotspot.Memory, error) {
		opened, err := proc.OpenMem(s.target.PID, s.target.VMAs)
		if errors.Is(err, fs.ErrPermission) {
			return nil, closedMemory(s.target.PID)
		}
		if err != nil {
			return nil, err
		}
		mem = &memory{opened, ctx}
		return mem, nil
	}
	s.jvm = kinds[s.target.Kind](reading{proc: proc, target: s.target, series: s.series, open: open, timed: s.timed})
	s.notes = append(s.notes, s.jvm.notes()...)
	return mem
}

// closedMemory says what is lost with /proc/PID/mem, and what would open it.
func closedMemory(pid int) error {
	return fmt.Errorf("/proc/%d/mem: %w: %s; lost: the parts of the heap, class metadata and collector tables by address, malloc's own figures, stacks by thread (told by layout instead)",
		pid, fs.ErrPermission, process.MemoryLock())
}

// layOut takes the layout of the address space, and what it adds to the facts.
func (s *scan) layOut(mem hotspot.Memory, page uint64) {
	s.layout = newLayout(s.vmas, mem, page)
	s.vm = s.jvm.facts(s.layout)
}

// readStackPointers reads the stack pointers of the threads that the JVM's
// thread list does not hold: collector, VM and native threads. In a container the
// list has ids of another PID namespace: there it reads those of all threads, and
// they tell which thread has which stack.
func (s *scan) readStackPointers(ctx context.Context, proc linux.FS) {
	known := map[int]bool{}
	if s.target.NSPID() == s.target.PID { // else the ids are of two namespaces
		for _, t := range s.jvm.threads() {
			known[t.TID] = true
		}
	}
	_ = s.timed("thread stacks", func() error {
		tids, err := proc.TIDs(s.target.PID)
		for _, tid := range tids {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if known[tid] {
				continue
			}
			// A thread that runs has no stack pointer to read: the size of
			// its mapping must tell.
			if sp, err := proc.StackPointer(s.target.PID, tid); err == nil {
				s.sps = append(s.sps, stackPointer{tid, sp})
			}
		}
		slices.SortFunc(s.sps, func(a, b stackPointer) int { return cmp.Compare(a.sp, b.sp) })
		return err
	})
}

// attribute gives every segment of the mappings its owner.
func (s *scan) attribute(ctx context.Context) ([]segment, error) {
	l := s.layout
	claims := s.jvm.claims(l, s.stackSizes())
	claims = append(claims, trackingClaims(s.regions, s.vm, rankTracking)...)
	claims = append(claims, s.malloc.claims()...)
	claims = append(claims, l.mainArena(s.malloc)...)
	claims = append(claims, l.libraryData()...)
	claims = append(claims, l.stacks(s.sps, s.stackSizes())...)
	if space, ok := l.classSpace(s.vm); ok {
		claims = append(claims, space)
	}
	cell := cellSize(s.vm.Major)
	claims = append(claims, l.metadata(s.vm.Classes, cell)...)
	claims = append(claims, l.metadata(s.vm.Metadata, cell)...)
	segs, err := partition(ctx, s.vmas, claims)
	if err != nil {
		return nil, err
	}
	claims = append(claims, s.claimsByLook(segs)...)
	// These come after the look: the kernel joins malloc's large chunks to a
	// mapping of the JVM's, which then has one use that the JVM knows.
	segs, err = partition(ctx, s.vmas, append(claims, trackingClaims(s.mapped, s.vm, rankMapped)...))
	if err != nil {
		return nil, err
	}
	if name := s.allocator(); name != "" {
		giveToAllocator(segs, name)
	}
	adoptNeighbours(segs, tableBytes(s.vm))
	return segs, nil
}

// tableKnown says how a table is known by its size. glibc's malloc leaves headers
// that tell its chunks from tables; another allocator's are not told from them.
func (s *scan) tableKnown() How {
	if s.target.Musl || s.allocator() != "" {
		return Heuristic
	}
	return Layout
}

// allocator names what takes the place of glibc's malloc, "" when nothing does.
// A library that is mapped need not: where glibc's arenas hold what a JVM
// allocates, they are in use.
func (s *scan) allocator() string {
	const little = 1 << 20
	var glibc int64
	for _, a := range s.malloc.arenas {
		glibc += a.systemBytes
	}
	if glibc > little {
		return ""
	}
	return allocatorOf(s.vmas)
}

// claimsByLook are the claims on what is nobody's yet, by its content or its
// size.
func (s *scan) claimsByLook(segs []segment) []claim {
	l := s.layout
	tables, stacks, how := gcTables(s.vm, l.page), s.stackSizes(), s.tableKnown()
	out := l.claimTables(segs, tables, stacks, how)
	probes := allProbes
	named := queue(pointers(out)) // disjoint, in order, and not what is added below
	for _, g := range segs {
		if g.owner != Unattributed || !g.vma.Writable() {
			continue
		}
		if c := named.front(g.start); c != nil && c.start <= g.start && g.end <= c.end {
			continue // it may have the size of a stack, too
		}
		i := l.at(g.start)
		table, isTable := l.sideTable(i, tables)
		isTable = isTable && !l.guardedStack(i, stacks)
		// A table is large, and searching it for chunks takes long.
		if _, chunk := l.chunkAt(g.start); chunk || !isTable || table != g.span {
			chunks := l.chunks(g.span, &probes)
			beside := l.tablesBeside(chunks, g, tables, stacks, how)
			if out = append(append(out, chunks...), beside...); len(beside) > 0 {
				continue // headers tell more than the size of the whole does
			}
		}
		if isTable && table.start >= g.start {
			out = append(out, claim{table, GC, how, rankTable, ""}) // which one is a guess
		} else if known, ok := l.stackBySize(i, stacks); ok {
			out = append(out, claim{g.span, ThreadStacks, known, rankStack, ""})
		}
	}
	return boundTables(out, tableBytes(s.vm))
}

// stackSizes are the sizes that a thread's stack may have: the JVM's
// defaults, and what pthreads without an own size get.
func (s *scan) stackSizes() []int64 {
	sizes := slices.Clone(s.vm.StackBytes)
	if s.stackLimit > 0 {
		sizes = append(sizes, s.stackLimit)
	}
	return sizes
}

// readStackLimit reads the size that the C library gives the stack of a thread
// that asks for none: glibc the limit at the start of the process, or 2 MiB
// without one (ARCH_STACK_DEFAULT_SIZE in nptl), musl 128 KiB.
func (s *scan) readStackLimit(proc linux.FS) {
	const unlimited, musl = 2 << 20, 128 << 10
	_ = s.timed("limits", func() error {
		n, err := proc.StackLimit(s.target.PID)
		switch {
		case err != nil:
			return err
		case s.target.Musl:
			n = musl
		case n == linux.Unlimited:
			n = unlimited
		}
		s.stackLimit = int64(alignUp(uint64(n), uint64(os.Getpagesize())))
		return nil
	})
}

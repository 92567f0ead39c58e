package footprint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"tare/internal/hotspot"
	"tare/internal/linux"
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
}

// scan is what was read of one JVM for one footprint.
type scan struct {
	proc    linux.FS
	target  *hotspot.Target
	series  *Series
	vm      *hotspot.VM // what is known of it from outside when outside is set
	outside bool        // the JVM's memory is closed, or does not describe it
	// heapSizes are the sizes that the heap may have, where its place is not
	// known.
	heapSizes []int64
	vmas      []linux.VMA
	runs      []linux.PageRun
	kinds     *linux.PageScan // nil where smaps had to be read
	rollup    linux.VMA
	regions   []hotspot.NMTRegion // of native memory tracking
	mapped    []hotspot.NMTRegion // mappings of one use, of System.map
	asked     *Asked              // nil without Options.Attach
	layout    *layout
	malloc    mallocState
	sps       []stackPointer
	cgroup    *Cgroup
	host      *Host
	time      time.Time
	mu        sync.Mutex // guards sources while pages are read
	sources   []Source
	notes     []string
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
	target, err := hotspot.FindTarget(opts.Proc, pid)
	if err != nil {
		return nil, err
	}
	return WeighTarget(ctx, target, opts)
}

// WeighTarget weighs a JVM that was found just now: with the mappings that it
// was found with.
func WeighTarget(ctx context.Context, target *hotspot.Target, opts Options) (*Footprint, error) {
	if opts.Proc == (linux.FS{}) {
		opts.Proc = linux.NewFS("/proc")
	}
	f, err := weigh(ctx, target, opts)
	// What was read of a process that has ended meanwhile is not to be
	// trusted, nor are the errors that it caused.
	if !target.StillThere(opts.Proc) || errors.Is(err, syscall.ESRCH) || errors.Is(err, errNoPages) {
		return nil, fmt.Errorf("process %d ended while it was weighed: %w", target.PID, hotspot.ErrNoProcess)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, target.Closed("pages")
	}
	return f, err
}

func newScan(proc linux.FS, target *hotspot.Target) *scan {
	return &scan{proc: proc, target: target, vm: &hotspot.VM{}, vmas: target.VMAs}
}

func weigh(ctx context.Context, target *hotspot.Target, opts Options) (*Footprint, error) {
	start := time.Now()
	s := newScan(opts.Proc, target)
	s.series = opts.Series
	if target.Musl {
		s.notes = append(s.notes, muslNote)
	}
	// The kernel takes long to count pages, and reading the JVM does not
	// depend on them.
	pages := make(chan error, 1)
	go func() { pages <- s.readPages(opts.Proc) }()
	mem := s.readJVM(opts.Proc)
	if mem != nil {
		defer mem.Close()
		s.readStackPointers(opts.Proc)
	}
	if err := <-pages; err != nil {
		return nil, err
	}
	if len(s.runs) == 0 {
		return nil, errNoPages
	}
	s.layout = newLayout(s.vmas, memoryOf(mem), uint64(os.Getpagesize()))
	s.malloc = s.layout.readMalloc()
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
	f := s.footprint(s.attribute())
	f.Millis = float64(time.Since(start).Microseconds()) / 1000
	return f, nil
}

// errNoPages says that a process has given its memory back: it ends, and may
// for a moment look alive otherwise.
var errNoPages = errors.New("no resident pages")

// closed stands for memory that may not be read.
type closed struct{}

func (closed) ReadMem([]byte, uint64) error { return fs.ErrPermission }

func memoryOf(m *linux.Mem) hotspot.Memory {
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

// readJVM reads what the JVM's memory says. Where that is closed, or says
// nothing, the view from outside must do, and that is said.
func (s *scan) readJVM(proc linux.FS) *linux.Mem {
	if s.target.Kind != hotspot.HotSpot {
		return s.openOutside(proc)
	}
	var mem *linux.Mem
	err := s.timed("vmStructs", func() (err error) {
		if mem, err = proc.OpenMem(s.target.PID, s.target.VMAs); errors.Is(err, fs.ErrPermission) {
			return closedMemory(s.target.PID)
		}
		if err != nil {
			return err
		}
		vm, err := s.series.readVM(mem, s.target)
		if err != nil {
			return fmt.Errorf("this JVM does not describe itself: %w; lost: the parts of the heap, class metadata, collector tables and Java threads by address (told by layout instead)", err)
		}
		s.vm = vm
		return nil
	})
	if err != nil {
		s.readOutside(proc)
	}
	s.notes = append(s.notes, problemNotes(s.vm)...)
	return mem
}

// problemNotes says what could not be read in the JVM; of a JVM that is still
// starting, only that.
func problemNotes(vm *hotspot.VM) []string {
	var notes []string
	for _, p := range vm.Problems {
		if errors.Is(p, hotspot.ErrStarting) {
			return []string{"the JVM is still starting and has no heap yet: weigh it again"}
		}
		notes = append(notes, "not readable in the JVM: "+p.Error())
	}
	return notes
}

// readPages reads the resident pages, and meanwhile the kernel's own sum to
// compare: of the same moment, and in half the time, for the kernel walks over
// every page for each.
func (s *scan) readPages(proc linux.FS) error {
	summed := make(chan struct{})
	go func() {
		defer close(summed)
		if s.series.lean() {
			return
		}
		// The sum is a check, not a part: without it the rows still add up.
		_ = s.timed("smaps_rollup", func() (err error) {
			s.rollup, err = proc.SmapsRollup(s.target.PID)
			return err
		})
	}()
	err := s.readMapped(proc)
	<-summed
	return err
}

// maxScans bounds how often the pages of a JVM that maps more memory all the
// time are read.
const maxScans = 3

// readMapped reads the resident pages in the mappings that the target was found
// with. Where pages lie outside of them, or where nothing could be touched, the
// JVM has mapped memory since, and both are read again.
func (s *scan) readMapped(proc linux.FS) error {
	for scans := 1; ; scans++ {
		s.time = time.Now()
		if err := s.readOnce(proc); err != nil {
			return err
		}
		if scans == maxScans || !linux.Strays(s.runs, s.vmas) {
			return nil
		}
		vmas, err := proc.Maps(s.target.PID)
		if err != nil {
			return err
		}
		if slices.EqualFunc(vmas, s.vmas, sameMapping) {
			return nil // touched before access was taken away
		}
		s.vmas = vmas
	}
}

func sameMapping(a, b linux.VMA) bool {
	return a.Start == b.Start && a.End == b.End && a.Perms == b.Perms && a.Inode == b.Inode
}

func (s *scan) readOnce(proc linux.FS) error {
	if s.series.lean() {
		return s.readMappedPages(proc, func() ([]linux.VMA, error) { return s.series.mappings(proc, s.target.PID, s.vmas) })
	}
	err := s.scanPages(proc)
	if errors.Is(err, linux.ErrNoPagemapScan) {
		s.time = time.Now()
		err = s.readMappedPages(proc, func() ([]linux.VMA, error) { return proc.Smaps(s.target.PID) })
	}
	return err
}

// scanPages reads the pages by kind, in the mappings that the target was found
// with.
func (s *scan) scanPages(proc linux.FS) error {
	if allocatorOf(s.vmas) != "" { // its mappings are known by their flags
		return linux.ErrNoPagemapScan
	}
	var unable error
	err := s.timed("page map", func() error {
		kinds, err := proc.ScanPages(s.target.PID, s.vmas)
		if errors.Is(err, linux.ErrNoPagemapScan) {
			unable = err // smaps does it
			return nil
		}
		if err == nil {
			s.kinds, s.runs = kinds, kinds.Resident
		}
		return err
	})
	return errors.Join(err, unable)
}

// readMappedPages reads the mappings and the resident pages of them.
func (s *scan) readMappedPages(proc linux.FS, mappings func() ([]linux.VMA, error)) error {
	if err := s.timed("smaps", func() (err error) {
		s.vmas, err = mappings()
		return err
	}); err != nil {
		return err
	}
	return s.timed("page map", func() (err error) {
		s.runs, err = proc.ResidentPages(s.target.PID, s.vmas)
		return err
	})
}

// readStackPointers reads the stack pointers of the threads that the JVM's
// thread list does not hold: collector, VM and native threads.
func (s *scan) readStackPointers(proc linux.FS) {
	known := map[int]bool{}
	if s.target.NSPID() == s.target.PID { // else the ids are of two namespaces
		for _, t := range s.vm.Threads {
			known[t.TID] = true
		}
	}
	_ = s.timed("thread stacks", func() error {
		tids, err := proc.TIDs(s.target.PID)
		for _, tid := range tids {
			if known[tid] {
				continue
			}
			// A thread that runs has no stack pointer to read: the size of
			// its mapping must tell.
			if sp, err := proc.StackPointer(s.target.PID, tid); err == nil {
				s.sps = append(s.sps, stackPointer{tid, sp})
			}
		}
		return err
	})
}

// attribute gives every segment of the mappings its owner.
func (s *scan) attribute() []segment {
	l := s.layout
	claims := append(vmClaims(s.vm), s.outsideClaims()...)
	claims = append(claims, trackingClaims(s.regions, s.vm, rankTracking)...)
	claims = append(claims, s.malloc.claims()...)
	claims = append(claims, l.libraryData()...)
	claims = append(claims, l.stacks(s.sps, s.stackSizes())...)
	if space, ok := l.classSpace(s.vm); ok {
		claims = append(claims, space)
	}
	cell := cellSize(s.vm.Major)
	claims = append(claims, l.metadata(s.vm.Classes, cell)...)
	claims = append(claims, l.metadata(s.vm.Metadata, cell)...)
	segs := partition(s.vmas, claims)
	claims = append(claims, s.claimsByLook(segs)...)
	// These come after the look: the kernel joins malloc's large chunks to a
	// mapping of the JVM's, which then has one use that the JVM knows.
	segs = partition(s.vmas, append(claims, trackingClaims(s.mapped, s.vm, rankMapped)...))
	if name := allocatorOf(s.vmas); name != "" {
		giveToAllocator(segs, name)
	}
	adoptNeighbours(segs)
	return segs
}

// claimsByLook are the claims on what is nobody's yet, by its content or its
// size.
func (s *scan) claimsByLook(segs []segment) []claim {
	l := s.layout
	tables := gcTables(s.vm, l.page)
	out := l.claimTables(segs, tables, s.stackSizes())
	named := out
	for _, g := range segs {
		if g.owner != Unattributed || !g.vma.Writable() ||
			// It may have the size of a stack, too.
			slices.ContainsFunc(named, func(c claim) bool { return c.start <= g.start && g.end <= c.end }) {
			continue
		}
		i := l.at(g.start)
		table, isTable := l.sideTable(i, tables)
		isTable = isTable && !l.guardedStack(i, s.stackSizes())
		// A table is large, and searching it for chunks takes long.
		if _, chunk := l.chunkAt(g.start); chunk || !isTable || table != g.span {
			out = append(out, l.chunks(g.span)...)
		}
		if isTable && table.start >= g.start {
			out = append(out, claim{table, GC, Layout, rankTable, ""}) // which one is a guess
		} else if l.looksLikeStack(i, s.stackSizes()) {
			out = append(out, claim{g.span, ThreadStacks, Layout, rankStack, ""})
		}
	}
	return out
}

// stackSizes are the sizes that a thread's stack may have: the JVM's
// defaults, and what pthreads without an own size get.
func (s *scan) stackSizes() []int64 {
	const pthreadDefault = 8 << 20
	return append(append([]int64{}, s.vm.StackBytes...), pthreadDefault)
}

// adoptNeighbours gives anonymous memory that is still nobody's to the
// collector when it lies directly beside one of its tables: they are made one
// after the other.
func adoptNeighbours(segs []segment) {
	adopt := func(i, from int) {
		g, n := &segs[i], &segs[from]
		if g.owner == Unattributed && n.owner == GC && (g.end == n.start || n.end == g.start) && anonymous(g.vma) {
			g.owner, g.how = GC, Heuristic
		}
	}
	for i := 1; i < len(segs); i++ {
		adopt(i, i-1)
	}
	for i := len(segs) - 2; i >= 0; i-- {
		adopt(i, i+1)
	}
}

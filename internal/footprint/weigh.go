package footprint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"tare/internal/hotspot"
	"tare/internal/linux"
)

// Options says how to weigh.
type Options struct {
	// Proc is the proc file system, /proc when it is the zero FS.
	Proc linux.FS
	// Attach asks the JVM for its native memory tracking, when that is at
	// detail, through the attach mechanism. Without it nothing is sent to
	// the JVM.
	Attach bool
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
	rollup    linux.VMA
	regions   []hotspot.NMTRegion
	layout    *layout
	sps       []stackPointer
	cgroup    *Cgroup
	host      *Host
	time      time.Time
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

// WeighTarget weighs a JVM that was found.
func WeighTarget(ctx context.Context, target *hotspot.Target, opts Options) (*Footprint, error) {
	if opts.Proc == (linux.FS{}) {
		opts.Proc = linux.NewFS("/proc")
	}
	f, err := weigh(ctx, target, opts)
	// What was read of a process that has ended meanwhile is not to be
	// trusted, nor are the errors that it caused.
	if !target.StillThere(opts.Proc) || errors.Is(err, syscall.ESRCH) || errors.Is(err, errNoMappings) {
		return nil, fmt.Errorf("process %d ended while it was weighed: %w", target.PID, hotspot.ErrNoProcess)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, target.Closed("pages")
	}
	return f, err
}

func weigh(ctx context.Context, target *hotspot.Target, opts Options) (*Footprint, error) {
	s := &scan{proc: opts.Proc, target: target, series: opts.Series, vm: &hotspot.VM{}}
	if target.Musl {
		s.notes = append(s.notes, muslNote)
	}
	mem := s.readJVM(opts.Proc)
	if mem != nil {
		defer mem.Close()
	}
	if err := s.readPages(opts.Proc); err != nil {
		return nil, err
	}
	if len(s.vmas) == 0 {
		return nil, errNoMappings
	}
	s.layout = newLayout(s.vmas, memoryOf(mem), uint64(os.Getpagesize()))
	if mem != nil {
		s.readStackPointers(opts.Proc)
	}
	s.readCgroup(opts.Proc)
	if !s.series.lean() {
		s.readHost(opts.Proc)
	}
	if opts.Attach {
		// Last, for the first attach makes the JVM grow.
		if err := s.readTracking(ctx, opts.Proc); err != nil {
			return nil, err
		}
	}
	return s.footprint(s.attribute()), nil
}

// errNoMappings says that a process has given its memory back: it ends, and may
// for a moment look alive otherwise.
var errNoMappings = errors.New("no mappings")

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
	s.sources = append(s.sources, src)
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

// readPages reads the mappings and the resident pages, one directly after the
// other, and the kernel's own sum to compare.
func (s *scan) readPages(proc linux.FS) error {
	pid := s.target.PID
	s.time = time.Now()
	if err := s.timed("smaps", func() (err error) {
		s.vmas, err = s.series.mappings(proc, s.target)
		return err
	}); err != nil {
		return err
	}
	if err := s.timed("page map", func() (err error) {
		s.runs, err = proc.ResidentPages(pid, s.vmas)
		return err
	}); err != nil {
		return err
	}
	if s.series.lean() {
		return nil
	}
	// The sum is a check, not a part: without it the rows still add up.
	_ = s.timed("smaps_rollup", func() (err error) {
		s.rollup, err = proc.SmapsRollup(pid)
		return err
	})
	return nil
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

func (s *scan) readTracking(ctx context.Context, proc linux.FS) error {
	if s.vm.Flags["DisableAttachMechanism"] == "true" {
		return fmt.Errorf("process %d runs with -XX:+DisableAttachMechanism and would answer with a thread dump on its output: %w", s.target.PID, hotspot.ErrUnsafe)
	}
	if s.target.Kind != hotspot.HotSpot {
		return fmt.Errorf("process %d runs %s, which does not answer HotSpot's attach: %w", s.target.PID, s.target.Kind, hotspot.ErrUnsafe)
	}
	if s.vm.NMT != "detail" {
		s.notes = append(s.notes, "native memory tracking is "+orUnknown(s.vm.NMT)+": start the JVM with -XX:NativeMemoryTracking=detail to have --attach ask for it")
		return nil
	}
	return s.timed(SourceTracking, func() error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		text, err := hotspot.Jcmd(ctx, proc, s.target, "VM.native_memory detail scale=KB")
		if err != nil {
			return err
		}
		s.regions, err = hotspot.ParseNMTDetail(strings.NewReader(text))
		return err
	})
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// attribute gives every segment of the mappings its owner.
func (s *scan) attribute() []segment {
	l := s.layout
	claims := append(vmClaims(s.vm), s.outsideClaims()...)
	claims = append(claims, trackingClaims(s.regions, s.vm)...)
	claims = append(claims, l.arenas()...)
	claims = append(claims, l.libraryData()...)
	claims = append(claims, l.stacks(s.sps, s.stackSizes())...)
	if space, ok := l.classSpace(s.vm); ok {
		claims = append(claims, space)
	}
	cell := cellSize(s.vm.Major)
	claims = append(claims, l.metadata(s.vm.Classes, cell)...)
	claims = append(claims, l.metadata(s.vm.Metadata, cell)...)
	segs := partition(s.vmas, claims)
	// What is nobody's yet may show what it is by its content or its size.
	var more []claim
	sizes := gcSizes(s.vm, l.page)
	for _, g := range segs {
		if g.owner != Unattributed || !g.vma.Writable() {
			continue
		}
		i := l.at(g.start)
		table, isTable := l.sideTable(i, sizes)
		// A table is large, and searching it for chunks takes long.
		if _, chunk := l.chunkAt(g.start); chunk || !isTable || table != g.span {
			more = append(more, l.chunks(g.span)...)
		}
		if isTable && table.start >= g.start {
			more = append(more, claim{table, GC, Layout, rankTable, "tables"})
		} else if l.looksLikeStack(i, s.stackSizes()) {
			more = append(more, claim{g.span, ThreadStacks, Layout, rankStack, ""})
		}
	}
	segs = partition(s.vmas, append(claims, more...))
	adoptNeighbours(segs)
	return segs
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

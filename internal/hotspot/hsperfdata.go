package hotspot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The JVM keeps its performance counters in a memory-mapped file,
// /tmp/hsperfdata_<user>/<pid>, that anyone with the right to read it may map:
// reading it costs the JVM nothing. The format is that of
// src/hotspot/share/runtime/perfMemory.hpp (PerfDataPrologue) and perfData.hpp
// (PerfDataEntry); src/jdk.internal.jvmstat, package
// sun.jvmstat.perfdata.monitor.v2_0, is the reader in the JDK.
const (
	perfMagic        = 0xcafec0c0
	perfPrologueSize = 32
	perfUsedOffset   = 8
	perfEntryHeader  = 20
	perfMajor        = 2
	// perfMaxFile bounds what is read: PerfDataMemorySize is 32 KiB unless
	// somebody raises it, and more than this nobody needs.
	perfMaxFile = 1 << 20
	// perfMaxEntries bounds the counters of one file; JVMs have 200 to 900 (perfUsual).
	perfMaxEntries = 1 << 14
	perfUsual      = 900
)

// Errors of performance data.
var (
	// ErrNoPerfData says that the JVM has no performance data file: it is
	// starting, or runs with -XX:-UsePerfData or -XX:+PerfDisableSharedMem.
	ErrNoPerfData = errors.New("no performance data file")
	// ErrPerfDataNotReady says that the JVM is still making the file.
	ErrPerfDataNotReady = errors.New("performance data not ready")
)

// PerfData is one reading of a JVM's performance counters. The JVM goes on
// counting meanwhile: each counter is consistent, two of them need not be of the
// same moment.
type PerfData struct {
	// Longs and Texts hold the counters by their HotSpot name, such as
	// "sun.gc.collector.0.time".
	Longs map[string]int64
	Texts map[string]string
}

// ParsePerfData reads the content of a performance data file, version 2 (JDK
// 1.4.2 and later), of either byte order.
func ParsePerfData(b []byte) (*PerfData, error) {
	if len(b) < perfPrologueSize {
		return nil, fmt.Errorf("performance data: %d bytes are too few for a header", len(b))
	}
	if m := binary.BigEndian.Uint32(b); m != perfMagic {
		return nil, fmt.Errorf("performance data: magic number %#x is not %#x", m, uint32(perfMagic))
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch b[4] {
	case 0:
		order = binary.BigEndian
	case 1:
	default:
		return nil, fmt.Errorf("performance data: byte order %d is neither 0 nor 1", b[4])
	}
	if b[5] != perfMajor {
		return nil, fmt.Errorf("performance data: version %d.%d is not 2.x", b[5], b[6])
	}
	if b[7] == 0 {
		return nil, ErrPerfDataNotReady
	}
	used := int64(int32(order.Uint32(b[perfUsedOffset:])))
	offset := int64(int32(order.Uint32(b[24:])))
	count := int64(int32(order.Uint32(b[28:])))
	size := int64(len(b))
	if used < 0 || used > size || offset < perfPrologueSize || offset > size {
		return nil, fmt.Errorf("performance data: used %d and first entry %d do not fit a file of %d bytes", used, offset, size)
	}
	if count < 0 || count > perfMaxEntries {
		return nil, fmt.Errorf("performance data: %d entries are out of range", count)
	}
	p := &PerfData{Longs: make(map[string]int64, min(count, perfUsual)), Texts: make(map[string]string)}
	for i := int64(0); i < count; i++ {
		n, err := p.entry(b[offset:], order)
		if err != nil {
			return nil, fmt.Errorf("performance data: entry %d at offset %d: %w", i, offset, err)
		}
		offset += n
	}
	return p, nil
}

// entry reads the entry at the start of b and returns its length.
func (p *PerfData) entry(b []byte, order binary.ByteOrder) (int64, error) {
	if len(b) < perfEntryHeader {
		return 0, fmt.Errorf("%d bytes are too few for an entry", len(b))
	}
	length := int64(int32(order.Uint32(b)))
	nameAt := int64(int32(order.Uint32(b[4:])))
	vector := int64(int32(order.Uint32(b[perfUsedOffset:])))
	kind := b[12]
	dataAt := int64(int32(order.Uint32(b[16:])))
	if length < perfEntryHeader || length > int64(len(b)) {
		return 0, fmt.Errorf("length %d is out of range", length)
	}
	e := b[:length]
	if nameAt < perfEntryHeader || nameAt >= length || dataAt <= nameAt || dataAt > length {
		return 0, fmt.Errorf("name at %d or data at %d is outside the entry of %d bytes", nameAt, dataAt, length)
	}
	name, ended := cString(e[nameAt:dataAt])
	if !ended || name == "" {
		return 0, errors.New("name has no end or is empty")
	}
	switch {
	case vector < 0 || dataAt+vector > length:
		return 0, fmt.Errorf("%s: vector of %d is outside the entry", name, vector)
	case kind == 'J' && vector == 0:
		if dataAt+8 > length {
			return 0, fmt.Errorf("%s: value is outside the entry", name)
		}
		p.Longs[name] = int64(order.Uint64(e[dataAt:]))
	case kind == 'B' && vector > 0:
		// A text being written may lack its terminator for a moment.
		p.Texts[name], _ = cString(e[dataAt : dataAt+vector])
	}
	// Other types exist in the format but no JVM writes them.
	return length, nil
}

func cString(b []byte) (s string, ended bool) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), true
		}
	}
	return string(b), false
}

// PerfCollector is what one collector (young, full, ...) did so far.
type PerfCollector struct {
	Name        string
	Invocations int64
	// Time is the sum of the collector's pauses. For Shenandoah it is the sum of
	// whole cycles, which mostly run beside the application (JDK:
	// src/hotspot/share/gc/shenandoah/shenandoahMonitoringSupport.cpp).
	Time time.Duration
}

// PerfCounters are the counters that tare uses. A counter that the JVM does not
// have is zero. Sizes are in bytes.
type PerfCounters struct {
	JavaVersion string // such as "17.0.12", "1.8.0_504"
	VMName      string
	Command     string // main class or jar, and its arguments
	Policy      string // the collector's policy name, such as "Copy:MSC"
	Collectors  []PerfCollector
	// HeapUsed is the sum of what is in use of all spaces. JDK 21 and older update
	// it every 50 ms, newer ones at collections.
	HeapUsed int64
	// HeapCapacity is the sum of the capacities of the generations.
	HeapCapacity int64
	// UsedAfterGC is what the last collection left in all spaces but eden, which
	// it empties: an upper bound of the live objects, and their size after a full
	// collection. It is zero until the first collection.
	UsedAfterGC int64
	// SafepointTime is how long the application was stopped, for collections or
	// anything else; ApplicationTime is how long it ran.
	SafepointTime, ApplicationTime time.Duration
	// Cause is why the collection that runs at the moment was begun, such as
	// "Allocation Stall"; "No GC" between collections.
	Cause string
	// LoadedClasses and UnloadedClasses count from the start of the JVM.
	LoadedClasses, UnloadedClasses int64
}

// GCTime is how long collectors stopped the application. Shenandoah does not count
// that: for it, GCTime is the slightly longer time in safepoints.
func (c PerfCounters) GCTime() time.Duration {
	if len(c.Collectors) > 0 && strings.HasPrefix(c.Collectors[0].Name, "Shenandoah") {
		return c.SafepointTime
	}
	var sum time.Duration
	for _, g := range c.Collectors {
		sum = addDuration(sum, g.Time)
	}
	return sum
}

// AwaitsHeap says that threads wait for the collection that runs, since the heap has no
// room for what they allocate, although the collector is one that runs beside them: ZGC's
// allocation stalls, and Shenandoah's degenerated and full collections (JDK:
// src/hotspot/share/gc/shared/gcCause.cpp). No JVM counts those where it can be read from
// outside.
func (c PerfCounters) AwaitsHeap() bool {
	if len(c.Collectors) == 0 {
		return false
	}
	return c.Cause == "Allocation Stall" || c.Cause == "Allocation Failure" && strings.HasPrefix(c.Collectors[0].Name, "Shenandoah")
}

// GCCount is the number of collections of all collectors together.
func (c PerfCounters) GCCount() int64 {
	var sum int64
	for _, g := range c.Collectors {
		sum = addBytes(sum, g.Invocations)
	}
	return sum
}

// OldGCCount is the number of collections of more than the young generation: those of all
// collectors but the first, or of the only one.
func (c PerfCounters) OldGCCount() int64 {
	if len(c.Collectors) < 2 {
		return c.GCCount()
	}
	return PerfCounters{Collectors: c.Collectors[1:]}.GCCount()
}

const (
	perfMaxCollectors  = 8
	perfMaxGenerations = 4
	perfMaxSpaces      = 16
)

// Counters picks the counters that tare uses.
func (p *PerfData) Counters() PerfCounters {
	c := PerfCounters{
		JavaVersion:     p.Texts["java.property.java.version"],
		VMName:          p.Texts["java.property.java.vm.name"],
		Command:         p.Texts["sun.rt.javaCommand"],
		Policy:          p.Texts["sun.gc.policy.name"],
		Cause:           p.Texts["sun.gc.cause"],
		SafepointTime:   p.ticks("sun.rt.safepointTime"),
		ApplicationTime: p.ticks("sun.rt.applicationTime"),
		LoadedClasses:   max(0, addBytes(p.long("java.cls.loadedClasses"), p.long("java.cls.sharedLoadedClasses"))),
		UnloadedClasses: max(0, addBytes(p.long("java.cls.unloadedClasses"), p.long("java.cls.sharedUnloadedClasses"))),
	}
	for i := range perfMaxCollectors {
		prefix := "sun.gc.collector." + strconv.Itoa(i) + "."
		if _, ok := p.Longs[prefix+"invocations"]; !ok {
			break
		}
		c.Collectors = append(c.Collectors, PerfCollector{
			Name:        p.Texts[prefix+"name"],
			Invocations: p.long(prefix + "invocations"),
			Time:        p.ticks(prefix + "time"),
		})
	}
	p.heap(&c)
	return c
}

func (p *PerfData) heap(c *PerfCounters) {
	var outsideEden int64
	for g := range perfMaxGenerations {
		gen := "sun.gc.generation." + strconv.Itoa(g) + "."
		c.HeapCapacity = addBytes(c.HeapCapacity, p.long(gen+"capacity"))
		for s := range perfMaxSpaces {
			space := gen + "space." + strconv.Itoa(s) + "."
			used := p.long(space + "used")
			c.HeapUsed = addBytes(c.HeapUsed, used)
			if p.Texts[space+"name"] != "eden" {
				outsideEden = addBytes(outsideEden, used)
			}
		}
	}
	if c.GCCount() > 0 {
		c.UsedAfterGC = outsideEden
	}
}

// long is a counter that cannot be negative; one that is counts as zero.
func (p *PerfData) long(name string) int64 { return max(0, p.Longs[name]) }

// ticks converts a counter of ticks to a duration.
func (p *PerfData) ticks(name string) time.Duration {
	n, freq := p.long(name), p.Longs["sun.os.hrt.frequency"]
	if freq <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(time.Second))
	if hi >= uint64(freq) {
		return math.MaxInt64
	}
	d, _ := bits.Div64(hi, lo, uint64(freq))
	return time.Duration(min(d, math.MaxInt64))
}

// addBytes adds two non-negative numbers and stops at the largest int64.
func addBytes(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

func addDuration(a, b time.Duration) time.Duration {
	return time.Duration(addBytes(int64(a), int64(b)))
}

// PerfFile is the open performance data file of a running JVM.
type PerfFile struct {
	file *os.File
	// name is relative to the root of the JVM's file system.
	name string
	root string
}

// perfBuffers are for reading files: who watches a thousand JVMs needs one at a time.
var perfBuffers = sync.Pool{New: func() any { return new([]byte) }}

// OpenPerfData opens the performance data file of the JVM with the given
// process id. proc is the mount of procfs, usually "/proc". A JVM in a container
// has the file in its own file system, under its id there. The error is
// ErrNoPerfData when there is no such file.
func OpenPerfData(proc string, pid int) (*PerfFile, error) {
	dir := path.Join(proc, strconv.Itoa(pid))
	nspid, err := innermostPID(dir)
	if err != nil {
		return nil, err
	}
	rootDir := path.Join(dir, "root")
	// A Root follows no symbolic link out of the JVM's file system: the JVM
	// is not trusted with what this process may read.
	root, err := os.OpenRoot(rootDir)
	if err != nil {
		return nil, fmt.Errorf("file system of process %d: %w", pid, err)
	}
	defer root.Close()
	for _, name := range perfDataNames(root, nspid) {
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || !mapsFile(dir, st) {
			f.Close()
			continue
		}
		return &PerfFile{file: f, name: name, root: rootDir}, nil
	}
	return nil, fmt.Errorf("process %d: %w", pid, ErrNoPerfData)
}

// perfDataNames lists tmp/hsperfdata_*/<pid> below root.
func perfDataNames(root *os.Root, pid int) []string {
	tmp, err := root.Open("tmp")
	if err != nil {
		return nil
	}
	defer tmp.Close()
	entries, _ := tmp.Readdirnames(-1)
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e, "hsperfdata_") {
			names = append(names, path.Join("tmp", e, strconv.Itoa(pid)))
		}
	}
	return names
}

// mapsFile tells whether the process maps the file: a file of an earlier
// process with the same id, or of another user, is not the JVM's. A map that
// cannot be read is no proof against it.
func mapsFile(procDir string, st os.FileInfo) bool {
	f, err := os.Open(path.Join(procDir, "maps"))
	if err != nil {
		return true
	}
	defer f.Close()
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<20))
	if err != nil {
		return true
	}
	inode := strconv.FormatUint(sys.Ino, 10)
	for line := range strings.Lines(string(text)) {
		// address perms offset dev inode pathname
		fields := strings.Fields(line)
		if len(fields) >= 6 && fields[4] == inode && strings.Contains(fields[5], "hsperfdata_") {
			return true
		}
	}
	return false
}

// innermostPID is the id of the process in its own PID namespace: the last
// number of NStgid in /proc/PID/status (proc_pid_status(5)).
func innermostPID(procDir string) (int, error) {
	b, err := os.ReadFile(path.Join(procDir, "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "NStgid:"); ok {
			ids := strings.Fields(rest)
			if len(ids) == 0 {
				break
			}
			return strconv.Atoi(ids[len(ids)-1])
		}
	}
	return strconv.Atoi(path.Base(procDir)) // kernels before 4.1
}

// Read reads the counters as they are now.
func (f *PerfFile) Read() (*PerfData, error) {
	st, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > perfMaxFile {
		return nil, fmt.Errorf("%s: %d bytes are more than performance data may have", f.name, st.Size())
	}
	buf := perfBuffers.Get().(*[]byte)
	defer perfBuffers.Put(buf)
	*buf = slices.Grow((*buf)[:0], int(st.Size()))
	b := (*buf)[:st.Size()]
	n, err := f.file.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return ParsePerfData(b[:n])
}

// Close closes the file.
func (f *PerfFile) Close() error { return f.file.Close() }

// Path is the path of the file in the JVM's file system, which is the caller's for
// a JVM outside containers.
func (f *PerfFile) Path() string { return "/" + f.name }

// RemoveStale removes the file of a JVM that has ended: one that was killed leaves
// it behind. Call it only for a JVM that has ended and was outside containers. A
// file that has replaced the opened one stays.
func (f *PerfFile) RemoveStale() error {
	mine, err := f.file.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(f.Path())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !os.SameFile(mine, now) {
		return nil
	}
	return os.Remove(f.Path())
}

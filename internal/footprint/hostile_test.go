package footprint_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/results"
)

var hostileOut = flag.String("hostile.out", "", "file for the table of hostile JVMs, in Markdown; holds them to the time, too")

const (
	hostilePID  = 7
	hostileTime = 2 * time.Second
	hostilePeak = 256 << 20
	// hostileTree tells the process that weighs where the made-up /proc is.
	hostileTree = "TARE_HOSTILE_TREE"
)

// A weighed is what the process that weighed a hostile JVM says.
type weighed struct {
	Seconds   float64
	CPU       float64 // seconds of processor time
	PeakBytes int64
	Error     string
	Rows      int64 // what the rows add up to
	Footprint footprint.Footprint
}

// Whatever a hostile process maps, and whatever stands in its memory, weighing it
// ends in bounded memory and time, and the rows add up. Each is weighed in a
// process of its own, whose peak is measured.
func TestHostile(t *testing.T) {
	alone.Measures(t, "a machine that does nothing else")
	var table strings.Builder
	fmt.Fprintf(&table, "| hostile JVM | what it does | s | of processors, s | peak, MiB | outcome |\n|---|---|---|---|---|---|\n")
	for _, h := range hostiles {
		t.Run(h.name, func(t *testing.T) {
			j := newHostileJVM(t)
			h.make(t, j)
			w := weighApart(t, j.finish(t))
			if w.Rows != w.Footprint.RSSBytes {
				t.Errorf("rows add up to %d, Rss is %d", w.Rows, w.Footprint.RSSBytes)
			}
			if w.PeakBytes > hostilePeak {
				t.Errorf("%d MiB at the peak, want at most %d", w.PeakBytes>>20, hostilePeak>>20)
			}
			if *hostileOut != "" && w.Seconds > hostileTime.Seconds() {
				t.Errorf("%.2f s, want at most %s", w.Seconds, hostileTime)
			}
			outcome := "weighed"
			if w.Error != "" {
				outcome = "refused: " + w.Error
			}
			t.Logf("%.2f s, %.2f s of processors, %d MiB: %s", w.Seconds, w.CPU, w.PeakBytes>>20, outcome)
			fmt.Fprintf(&table, "| %s | %s | %.2f | %.2f | %d | %s |\n", h.name, h.what, w.Seconds, w.CPU, w.PeakBytes>>20, outcome)
		})
	}
	if *hostileOut != "" {
		load, err := os.ReadFile("/proc/loadavg")
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf("Each made-up process is weighed by a process of its own, without PAGEMAP_SCAN, as before Linux 6.7. "+
			"The bounds are %s and %d MiB. The machine's load at the end was %s: on a machine with other work the seconds are longer than "+
			"the work takes, which the seconds of processors tell.\n\n%s", hostileTime, hostilePeak>>20, strings.Fields(string(load))[0], table.String())
		if err := os.WriteFile(*hostileOut, []byte(results.Text("Hostile JVMs", "make bench-hostile", body)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func weighApart(t *testing.T, tree string) weighed {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWeighHostile$")
	cmd.Env = append(os.Environ(), hostileTree+"="+tree)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, _, _ := bytes.Cut(out, []byte("\n"))
	var w weighed
	if err := json.Unmarshal(text, &w); err != nil {
		t.Fatalf("%v: %.200q", err, out)
	}
	return w
}

// TestWeighHostile is the process that weighs, when TestHostile starts it.
func TestWeighHostile(t *testing.T) {
	tree := os.Getenv(hostileTree)
	if tree == "" {
		return
	}
	footprint.BoundMemory()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	proc := linux.NewFS(tree)
	start := time.Now()
	f, err := footprint.Weigh(ctx, hostilePID, footprint.Options{Proc: proc})
	w := weighed{Seconds: time.Since(start).Seconds()}
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	w.CPU = time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
	if err != nil {
		w.Error = err.Error()
	} else {
		for _, r := range f.Rows {
			w.Rows += r.ResidentBytes
		}
		w.Footprint = footprint.Footprint{RSSBytes: f.RSSBytes, Warnings: f.Warnings, Sources: f.Sources}
	}
	st, err := linux.NewFS("/proc").Status(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	w.PeakBytes = st.VmHWM
	if err := json.NewEncoder(os.Stdout).Encode(w); err != nil {
		t.Fatal(err)
	}
}

// hostileJVM is a made-up process: its files of /proc and its memory, in sparse
// files in place of mem and pagemap.
type hostileJVM struct {
	dir     string
	maps    []hostileMapping
	pages   map[uint64][]byte
	structs map[string]uint64 // static fields: addresses of their values
	fields  map[string]uint64 // offsets
	types   map[string]uint64
	flags   [][2]uint64 // addresses of names and of values
	next    uint64      // free address for values
}

type hostileMapping struct {
	start, end uint64
	perms      string
	path       string
	rss        int64 // all when 0
}

const (
	hostileJVMBase = 0x10000000
	hostileLibrary = "/jdk/lib/server/libjvm.so"
	hostilePage    = 4096
	// hostileRoom is where a JVM has its data, and its size.
	hostileRoom     = 0x20000000
	hostileRoomSize = 256 << 20
)

func newHostileJVM(t *testing.T) *hostileJVM {
	t.Helper()
	j := &hostileJVM{
		dir: filepath.Join(t.TempDir(), fmt.Sprint(hostilePID)), pages: map[uint64][]byte{},
		structs: map[string]uint64{}, fields: map[string]uint64{}, types: map[string]uint64{}, next: hostileRoom,
	}
	if err := os.MkdirAll(filepath.Join(j.dir, "task"), 0o755); err != nil {
		t.Fatal(err)
	}
	j.maps = []hostileMapping{
		{start: hostileJVMBase, end: hostileJVMBase + 16<<20, perms: "r-xp", path: hostileLibrary},
		{start: hostileRoom, end: hostileRoom + hostileRoomSize, perms: "rw-p", rss: 1 << 20},
	}
	return j
}

func (j *hostileJVM) mapped(start, size uint64, perms, path string) {
	j.maps = append(j.maps, hostileMapping{start: start, end: start + size, perms: perms, path: path})
}

func (j *hostileJVM) write(addr uint64, b []byte) {
	for len(b) > 0 {
		base := addr &^ (hostilePage - 1)
		if j.pages[base] == nil {
			j.pages[base] = make([]byte, hostilePage)
		}
		n := copy(j.pages[base][addr-base:], b)
		b, addr = b[n:], addr+uint64(n)
	}
}

func (j *hostileJVM) words(addr uint64, values ...uint64) {
	b := make([]byte, 8*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	j.write(addr, b)
}

// room takes room for data.
func (j *hostileJVM) room(size uint64) uint64 {
	at := j.next
	j.next += (size + 15) &^ 15
	return at
}

func (j *hostileJVM) text(s string) uint64 {
	at := j.room(uint64(len(s)) + 1)
	j.write(at, []byte(s))
	return at
}

// static makes a static field with a value.
func (j *hostileJVM) static(name string, value uint64) {
	at := j.room(8)
	j.words(at, value)
	j.structs[name] = at
}

// options writes the table of options.
func (j *hostileJVM) options() {
	table := j.room(uint64(len(j.flags)) * 16)
	for i, f := range j.flags {
		j.words(table+16*uint64(i), f[0], f[1])
	}
	j.static("JVMFlag::flags", table)
	j.static("JVMFlag::numFlags", uint64(len(j.flags)))
	j.fields["JVMFlag::_name"], j.fields["JVMFlag::_addr"], j.types["JVMFlag"] = 0, 8, 16
}

// library writes libjvm with its tables: the JVM's own description.
func (j *hostileJVM) library() {
	const stride = 48
	exported := map[string]uint64{}
	word := func(name string, value uint64) {
		at := j.room(8)
		j.words(at, value)
		exported[name] = at
	}
	entries := j.room(uint64(len(j.structs)+len(j.fields)+1) * stride)
	at := entries
	field := func(name string, static, offset, address uint64) {
		owner, member, _ := strings.Cut(name, "::")
		j.words(at, j.text(owner), j.text(member), 0, static, offset, address)
		at += stride
	}
	for name, address := range j.structs {
		field(name, 1, 0, address)
	}
	for name, offset := range j.fields {
		field(name, 0, offset, 0)
	}
	word("gHotSpotVMStructs", entries)
	word("gHotSpotVMStructEntryArrayStride", stride)
	for i, c := range []string{"TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"} {
		word("gHotSpotVMStructEntry"+c+"Offset", uint64(8*i))
	}
	types := j.room(uint64(len(j.types)+1) * 16)
	at = types
	for name, size := range j.types {
		j.words(at, j.text(name), size)
		at += 16
	}
	word("gHotSpotVMTypes", types)
	word("gHotSpotVMTypeEntryArrayStride", 16)
	word("gHotSpotVMTypeEntryTypeNameOffset", 0)
	word("gHotSpotVMTypeEntrySizeOffset", 8)
	j.image(exported)
}

// image writes the ELF image of a library with exported symbols, whose addresses
// lie anywhere: one bucket of its hash table has them all.
func (j *hostileJVM) image(exported map[string]uint64) {
	const dynamic, symbols, names, hash = 0x1000, 0x10000, 0x20000, 0x30000
	h := make([]byte, 64+2*56)
	copy(h, "\x7fELF\x02\x01")
	binary.LittleEndian.PutUint64(h[32:], 64)
	binary.LittleEndian.PutUint16(h[54:], 56)
	binary.LittleEndian.PutUint16(h[56:], 2)
	binary.LittleEndian.PutUint32(h[64:], 1) // PT_LOAD
	binary.LittleEndian.PutUint64(h[64+40:], 16<<20)
	binary.LittleEndian.PutUint32(h[120:], 2) // PT_DYNAMIC
	binary.LittleEndian.PutUint64(h[120+16:], dynamic)
	binary.LittleEndian.PutUint64(h[120+40:], 64)
	j.write(hostileJVMBase, h)
	j.words(hostileJVMBase+dynamic, 6, symbols, 5, names, 0x6ffffef5, hash)
	table := []uint32{1, 1, 0, 0, 1} // a bucket, the first symbol, no filter
	text := []byte{0}
	i := uint64(1)
	for name, addr := range exported {
		var sym [24]byte
		binary.LittleEndian.PutUint32(sym[:], uint32(len(text)))
		binary.LittleEndian.PutUint64(sym[8:], addr-hostileJVMBase)
		j.write(hostileJVMBase+symbols+24*i, sym[:])
		text = append(append(text, name...), 0)
		sum := uint32(5381)
		for _, c := range []byte(name) {
			sum = sum*33 + uint32(c)
		}
		if table = append(table, sum&^1); int(i) == len(exported) {
			table[len(table)-1] |= 1
		}
		i++
	}
	j.write(hostileJVMBase+names, text)
	b := make([]byte, 4*len(table))
	for i, v := range table {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
	j.write(hostileJVMBase+hash, b)
}

// finish writes the files and returns the made-up /proc.
func (j *hostileJVM) finish(t *testing.T) string {
	t.Helper()
	j.options()
	j.library()
	slices.SortFunc(j.maps, func(a, b hostileMapping) int { return cmp.Compare(a.start, b.start) })
	mem, pagemap := j.create(t, "mem"), j.create(t, "pagemap")
	defer mem.Close()
	defer pagemap.Close()
	var present [8]byte
	binary.NativeEndian.PutUint64(present[:], 1<<63)
	for addr, b := range j.pages {
		if _, err := mem.WriteAt(b, int64(addr)); err != nil {
			t.Fatal(err)
		}
		if _, err := pagemap.WriteAt(present[:], int64(addr/hostilePage*8)); err != nil {
			t.Fatal(err)
		}
	}
	var maps, smaps bytes.Buffer
	end := uint64(0)
	for i, m := range j.maps {
		inode := 0
		if m.path != "" && m.path[0] == '/' {
			inode = i + 1
		}
		rss := int64(m.end - m.start)
		if m.rss > 0 {
			rss = m.rss
		}
		line := fmt.Sprintf("%x-%x %s 00000000 08:01 %d %s\n", m.start, m.end, m.perms, inode, m.path)
		maps.WriteString(line)
		fmt.Fprintf(&smaps, "%sRss: %d kB\nVmFlags: rd wr\n", line, rss>>10)
		end = max(end, m.end)
	}
	if err := pagemap.Truncate(int64(end / hostilePage * 8)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"maps": maps.String(), "smaps": smaps.String(), "cmdline": "java\x00-jar\x00hostile.jar\x00",
		"stat":   fmt.Sprintf("%d (java) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 4711 0 0\n", hostilePID),
		"status": fmt.Sprintf("Name:\tjava\nState:\tS (sleeping)\nNSpid:\t%d\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nThreads:\t9\n", hostilePID),
	} {
		if err := os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Dir(j.dir)
}

func (j *hostileJVM) create(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(j.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

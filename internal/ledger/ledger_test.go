package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/footprint"
)

var epoch = time.Date(2026, 11, 24, 9, 0, 0, 123456000, time.UTC)

const boot = "0f1c2a9e-3b52-4a7e-9d9c-5a5b6c7d8e9f"

func jvm(pid int) ID { return ID{Boot: boot, PID: pid, StartTicks: uint64(1000 + pid)} }

func start(pid int) Record {
	return Record{At: epoch, Uptime: time.Second, Process: jvm(pid), Start: &Process{
		ID: jvm(pid), PIDs: []int{pid, 1}, Name: "shop.jar", Kind: "HotSpot", JDK: "25.0.3", Collector: "G1", Started: epoch,
		Group: Group{Version: 2, Path: "/kubepods.slice/x", Inode: 77}, Container: "abc", PodUID: "u-1",
		Flags: map[string]string{"MaxHeapSize": "67108864"},
	}}
}

// counters is a record of the size that real ones have.
func counters(pid, n int) Record {
	return Record{At: epoch.Add(time.Duration(n) * 10 * time.Second), Uptime: time.Duration(n) * 10 * time.Second, Process: jvm(pid), Counters: &Counters{
		Usage: 400<<20 + int64(n)*4096, Limit: 512 << 20, Reclaimable: 33 << 20, Resident: 380 << 20, Threads: 51, AtLimit: 3,
		HeapUsed: 96<<20 + int64(n)*777, HeapCommitted: 128 << 20, HeapAfterGC: 41 << 20, Collections: int64(n), GCTime: time.Duration(n) * time.Millisecond, Classes: 10480,
	}}
}

func weighed(pid, n int) Record {
	f := &Footprint{Reason: Moved, Resident: 242 << 20, Usage: 261 << 20, Limit: 300 << 20, Millis: 19.5, Threads: 51, Classes: 10480,
		Heap: &Heap{Max: 150 << 20, Committed: 80 << 20, Used: int64(60<<20 + n), AfterGC: 41 << 20}}
	for i, o := range []footprint.Owner{footprint.JavaHeap, footprint.ClassSpace, footprint.Metaspace, footprint.CodeCache, footprint.ThreadStacks,
		footprint.GC, footprint.CDS, footprint.Malloc, footprint.MappedFiles, footprint.JVMOther, footprint.Unattributed} {
		f.Owners = append(f.Owners, Owned{Owner: o, Resident: 22<<20 + int64(i)<<12, Committed: 24 << 20, Parts: []Part{{"eden", 9 << 20}, {"file:libjvm.so", 7 << 20}}})
	}
	return Record{At: epoch.Add(time.Duration(n) * 10 * time.Second), Process: jvm(pid), Footprint: f}
}

func ended(pid int) Record {
	return Record{At: epoch.Add(time.Hour), Process: jvm(pid), Event: &Event{Kind: Ended, Values: map[string]int64{"oomKills": 1}}}
}

func create(t testing.TB, dir string, bytes int64) *Writer {
	t.Helper()
	w, err := Create(dir, bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.lock.Close() })
	return w
}

func add(t testing.TB, w *Writer, records ...Record) {
	t.Helper()
	for _, r := range records {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

// read reads a ring, and wants no damage.
func read(t testing.TB, dir string, id ID) []Record {
	t.Helper()
	out, damage := readDamaged(t, dir, id)
	if damage != (Damage{}) {
		t.Errorf("damage %+v", damage)
	}
	return out
}

func readDamaged(t testing.TB, dir string, id ID) ([]Record, Damage) {
	t.Helper()
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []Record
	damage, err := r.Read(id, func(rec Record) bool { out = append(out, rec); return true })
	if err != nil {
		t.Fatal(err)
	}
	return out, damage
}

func TestRecordsComeBack(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, 0)
	machine := Record{At: epoch, Spent: &Spent{MemTotal: 8 << 30, Processor: time.Second, JVMs: 1}}
	findings := Record{At: epoch, Process: jvm(7), Findings: []Finding{{ID: "arenas", Bytes: 15 << 20, Certainty: "likely", Title: "glibc keeps freed memory"}}}
	in := []Record{start(7), counters(7, 1), weighed(7, 2), findings, ended(7)}
	add(t, w, machine)
	add(t, w, in...)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range in {
		in[i].Seq = uint64(i + 2)
	}
	if got := read(t, dir, jvm(7)); !reflect.DeepEqual(got, in) {
		t.Errorf("%+v\nwant %+v", got, in)
	}
	machine.Seq = 1
	if got := read(t, dir, ID{}); !reflect.DeepEqual(got, []Record{machine}) {
		t.Errorf("%+v", got)
	}
	if got := read(t, dir, jvm(8)); got != nil {
		t.Errorf("a ring that is not there has %+v", got)
	}
}

// A second writer goes on with higher numbers, in files of its own.
func TestWriterGoesOn(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, 0)
	if _, err := Create(dir, 0); !errors.Is(err, ErrInUse) {
		t.Errorf("a second writer: %v", err)
	}
	add(t, w, start(7), counters(7, 1))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []bool{false, true} {
		if damaged {
			overwrite(t, filepath.Join(dir, stateName), 0, []byte("??"))
		}
		last := read(t, dir, jvm(7))
		w = create(t, dir, 0)
		if err := w.Append(counters(7, 2)); !errors.Is(err, ErrNotStarted) {
			t.Errorf("no start: %v", err)
		}
		add(t, w, start(7), counters(7, 2))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		all := read(t, dir, jvm(7))
		if len(all) != len(last)+2 || all[len(last)].Seq <= last[len(last)-1].Seq {
			t.Errorf("damaged %v: %d records, then %d", damaged, len(last), len(all))
		}
	}
}

// The files never fill more than they may; who is alive loses its oldest part, and
// the dead keep theirs up to a quarter.
func TestBounded(t *testing.T) {
	dir := t.TempDir()
	const most = MinBytes
	w := create(t, dir, most)
	add(t, w, start(1))
	for n := range 200 {
		add(t, w, weighed(1, n))
	}
	add(t, w, ended(1))
	deadRecords := len(read(t, dir, jvm(1)))
	add(t, w, start(2), start(3))
	for n := range 8000 {
		add(t, w, counters(2, n), counters(3, n))
		if n%500 == 0 {
			checkBytes(t, dir, most, w.Bytes())
		}
	}
	checkBytes(t, dir, most, w.Bytes())
	if got := len(read(t, dir, jvm(1))); got != deadRecords {
		t.Errorf("of %d records of the dead %d are left", deadRecords, got)
	}
	for pid := 2; pid <= 3; pid++ {
		got := read(t, dir, jvm(pid))
		if len(got) < 1000 || got[0].Start == nil || !got[0].Again || got[len(got)-1].Counters.Collections != 7999 {
			t.Errorf("JVM %d: %d records from %+v", pid, len(got), got[0])
		}
	}
	// More dead than they may keep: the oldest go.
	for pid := 10; pid < 200; pid++ {
		add(t, w, start(pid), weighed(pid, 1), weighed(pid, 2), ended(pid))
	}
	checkBytes(t, dir, most, w.Bytes())
	if got := read(t, dir, jvm(1)); len(got) > 0 {
		t.Errorf("the oldest of the dead still has %d records", len(got))
	}
	if got := read(t, dir, jvm(199)); len(got) != 4 {
		t.Errorf("the newest of the dead has %d records", len(got))
	}
}

func checkBytes(t *testing.T, dir string, most, counted int64) {
	t.Helper()
	rings, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for segments := range maps.Values(rings) {
		sum += total(segments)
	}
	if sum > most || sum != counted {
		t.Fatalf("files fill %d bytes, %d counted, of %d", sum, counted, most)
	}
}

// A thousand at once, each with less than a segment: still bounded.
func TestThousandRings(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, MinBytes)
	for pid := 1; pid <= 1000; pid++ {
		add(t, w, start(pid))
	}
	checkBytes(t, dir, MinBytes, w.Bytes())
	add(t, w, counters(1, 1)) // its file is gone: it begins anew
	got := read(t, dir, jvm(1))
	if len(got) != 2 || !got[0].Again || got[0].Start.Name != "shop.jar" || got[1].Counters == nil {
		t.Errorf("%+v", got)
	}
}

func overwrite(t *testing.T, name string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b, at)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Whatever is damaged, the records outside of it are read, and the damage is told.
func TestDamage(t *testing.T) {
	const records = 20
	whole := func(t *testing.T) (dir, name string) {
		dir = t.TempDir()
		w := create(t, dir, 0)
		add(t, w, start(7))
		for n := 1; n < records; n++ {
			add(t, w, counters(7, n))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return dir, filepath.Join(dir, fileName(jvm(7), 1))
	}
	for _, c := range []struct {
		name           string
		harm           func(t *testing.T, name string, size int64)
		lost, atLeast1 int
	}{
		{"header", func(t *testing.T, name string, _ int64) { overwrite(t, name, 3, []byte{0}) }, 0, 1},
		{"last byte", func(t *testing.T, name string, size int64) { overwrite(t, name, size-1, []byte{0xee}) }, 1, 1},
		{"torn", func(t *testing.T, name string, size int64) {
			if err := os.Truncate(name, size-5); err != nil {
				t.Fatal(err)
			}
		}, 1, 1},
		{"a block of zeros", func(t *testing.T, name string, size int64) { overwrite(t, name, size-200, make([]byte, 200)) }, 3, 1},
		{"length", func(t *testing.T, name string, _ int64) { overwrite(t, name, headerSize+2, []byte{0xff, 0xff}) }, 1, 1},
		{"zeros behind", func(t *testing.T, name string, size int64) { overwrite(t, name, size, make([]byte, 100)) }, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, name := whole(t)
			st, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			c.harm(t, name, st.Size())
			got, damage := readDamaged(t, dir, jvm(7))
			if damage.Places != 1 || damage.Bytes == 0 || len(got) > records-min(c.lost, 1) || len(got) < records-c.lost {
				t.Errorf("%d of %d records, damage %+v", len(got), records, damage)
			}
			// It is written to again, in another file.
			w := create(t, dir, 0)
			add(t, w, start(7), counters(7, 99))
			again, _ := readDamaged(t, dir, jvm(7))
			if len(again) != len(got)+2 {
				t.Errorf("%d records, then %d", len(got), len(again))
			}
		})
	}
}

func TestNewerIsRefused(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, 0)
	add(t, w, start(7))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := w.state
	s.Format = Version + 1
	if err := s.write(dir); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func() error{
		func() error { _, err := OpenReader(dir); return err },
		func() error { _, err := Create(dir, 0); return err },
	} {
		if err := open(); !errors.Is(err, ErrNewer) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "format 2") {
			t.Errorf("%v", err)
		}
	}
	// A single file of a newer format in a ledger of this one.
	s.Format = Version
	header := appendHeader(nil, 1)
	header[len(magic)]++
	header = appendHeaderSum(header)
	if err := errors.Join(s.write(dir), os.WriteFile(filepath.Join(dir, fileName(jvm(7), 2)), header, 0o600)); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(jvm(7), func(Record) bool { return true }); !errors.Is(err, ErrNewer) {
		t.Errorf("%v", err)
	}
	if _, err := r.Since(0, func(Record) bool { return true }); !errors.Is(err, ErrNewer) {
		t.Errorf("%v", err)
	}
}

func TestNoLedger(t *testing.T) {
	if _, err := OpenReader(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	if _, err := Create(t.TempDir(), 100); err == nil {
		t.Error("a ledger of 100 bytes was made")
	}
}

func TestProcessesAndSince(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, MinBytes)
	add(t, w, Record{At: epoch, Event: &Event{Kind: AgentStart}})
	add(t, w, start(1), start(2))
	for n := range 3000 {
		add(t, w, counters(1+n%2, n))
	}
	add(t, w, ended(1))
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, damage, err := r.Processes()
	if err != nil || damage != (Damage{}) || len(all) != 2 {
		t.Fatalf("%+v, %+v, %v", all, damage, err)
	}
	if s := all[1]; s.ID != jvm(1) || !s.Ended || s.Name != "shop.jar" || !s.Last.Equal(epoch.Add(time.Hour)) || !s.First.Equal(epoch) {
		t.Errorf("%+v", s)
	}
	if s := all[0]; s.ID != jvm(2) || s.Ended {
		t.Errorf("%+v", s)
	}
	for _, s := range all {
		if one, found, err := r.Process(s.ID); !reflect.DeepEqual(one, s) || !found || err != nil {
			t.Errorf("%+v, %v, %v", one, found, err)
		}
	}
	if one, found, err := r.Process(jvm(3)); found || err != nil {
		t.Errorf("of no JVM: %+v, %v", one, err)
	}
	var seqs []uint64
	since := func(after uint64, most int) {
		seqs = nil
		if _, err := r.Since(after, func(rec Record) bool { seqs = append(seqs, rec.Seq); return len(seqs) < most }); err != nil {
			t.Fatal(err)
		}
	}
	since(0, 1<<20)
	if len(seqs) != 3004 || !slices.IsSorted(seqs) || len(slices.Compact(seqs)) != 3004 {
		t.Errorf("%d records", len(seqs))
	}
	since(3000, 2)
	if !slices.Equal(seqs, []uint64{3001, 3002}) {
		t.Errorf("%d", seqs)
	}
	since(3004, 2)
	if seqs != nil {
		t.Errorf("%d", seqs)
	}
}

// A reader beside a writer that removes what is old sees whole records in order.
func TestConcurrentReader(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, MinBytes)
	add(t, w, start(1))
	wrote := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				wrote <- nil
				return
			default:
			}
			if err := w.Append(counters(1, n)); err != nil {
				wrote <- err
				return
			}
		}
	}()
	for range 100 {
		last := uint64(0)
		for _, rec := range read(t, dir, jvm(1)) {
			if rec.Again {
				continue
			}
			if rec.Seq <= last {
				t.Fatalf("record %d comes after %d", rec.Seq, last)
			}
			last = rec.Seq
		}
	}
	close(stop)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
}

// A part of a record is damage, unless its writer is at work on it.
func TestRecordBeingWritten(t *testing.T) {
	dir := t.TempDir()
	add(t, create(t, dir, MinBytes), start(1), counters(1, 0))
	name := filepath.Join(dir, fileName(jvm(1), 1))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := lockWriting(f); err != nil {
		t.Fatal(err)
	}
	rec := counters(1, 1)
	b, err := appendRecord(nil, &rec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b[:8]); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, jvm(1)); len(got) != 2 {
		t.Errorf("%d records while the third is written", len(got))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, damage := readDamaged(t, dir, jvm(1)); len(got) != 2 || damage != (Damage{1, 8}) {
		t.Errorf("%d records, %+v, after the writer was killed", len(got), damage)
	}
}

// On a full disk records are lost and counted, what was written stays readable, and
// it goes on when there is room.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tare-test", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := create(t, dir, MinBytes)
	add(t, w, start(1))
	n := 0
	var err error
	for ; n < 100000 && err == nil; n++ {
		err = w.Append(counters(1, n))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("after %d: %v", n, err)
	}
	if got := read(t, dir, jvm(1)); got[len(got)-1].Counters.Collections != int64(n-2) {
		t.Errorf("the last of %d is %+v", n, got[len(got)-1].Counters)
	}
	if err := w.Append(counters(1, n)); !errors.Is(err, unix.ENOSPC) || w.Lost() != 2 {
		t.Errorf("%v, %d lost", err, w.Lost())
	}
	if err := os.Remove(filepath.Join(dir, fileName(jvm(1), 1))); err != nil {
		t.Fatal(err)
	}
	add(t, w, counters(1, n))
	if got := read(t, dir, jvm(1)); got[len(got)-1].Counters.Collections != int64(n) {
		t.Errorf("the last is %+v", got[len(got)-1].Counters)
	}
}

func TestFileNames(t *testing.T) {
	for _, id := range []ID{{}, jvm(1), {Boot: "x", PID: 4194304, StartTicks: 1 << 60}} {
		got, n, ok := parseFileName(fileName(id, 12))
		if got != id || n != 12 || !ok {
			t.Errorf("%v: %v, %d, %v", id, got, n, ok)
		}
	}
	for _, name := range []string{"", ".ledger", "machine.ledger", "machine.x.ledger", "a-1.1.ledger", "-1-2.1.ledger", "b-01-2.1.ledger", "machine.1", "lock"} {
		if id, n, ok := parseFileName(name); ok {
			t.Errorf("%q: %v, %d", name, id, n)
		}
	}
}

func appendHeaderSum(header []byte) []byte {
	return binary.LittleEndian.AppendUint32(header[:headerSize-4], crc32.Checksum(header[:headerSize-4], castagnoli))
}

// FuzzDecode: no bytes crash a reader, and what it reads it can write and read
// again.
func FuzzDecode(f *testing.F) {
	seg := appendHeader(nil, 1)
	for _, rec := range []Record{start(1), counters(1, 2), weighed(1, 3), ended(1)} {
		var err error
		if seg, err = appendRecord(seg, &rec); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(seg)
	f.Add(seg[:len(seg)-3])
	f.Add(seg[30:])
	f.Add(append(bytes.Clone(seg), make([]byte, 50)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var damage Damage
		err := decode(b, false, jvm(1), &damage, func(rec Record) bool {
			if rec.Process != jvm(1) {
				t.Fatalf("of %v", rec.Process)
			}
			again, err := appendRecord(nil, &rec)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := frame(again); !ok {
				t.Fatal("what was written is no frame")
			}
			return true
		})
		if err != nil && !errors.Is(err, ErrNewer) {
			t.Fatal(err)
		}
		if damage.Bytes < 0 || damage.Bytes > int64(len(b)) || (damage.Bytes == 0) != (damage.Places == 0) {
			t.Fatalf("%+v of %d bytes", damage, len(b))
		}
	})
}

func TestDefaultDir(t *testing.T) {
	t.Setenv("TARE_LEDGER", "/x/y")
	if got, err := DefaultDir(); err != nil || got != "/x/y" {
		t.Errorf("%q, %v", got, err)
	}
}

// A footprint loses its small parts, and keeps direct buffers.
func TestFootprintOf(t *testing.T) {
	limit, committed := int64(300<<20), int64(80<<20)
	f := &footprint.Footprint{RSSBytes: 100 << 20, Threads: 5, Classes: 9, Cgroup: &footprint.Cgroup{UsageBytes: 1, LimitBytes: &limit},
		Rows: []footprint.Row{{Owner: footprint.Malloc, ResidentBytes: 100 << 20, CommittedBytes: &committed, Children: []footprint.Child{
			{ID: "small", ResidentBytes: 1}, {ID: footprint.PartDirectBuffers, ResidentBytes: 2}, {ID: "large", ResidentBytes: 1 << 20}}}}}
	got := FootprintOf(f, LastLook, false)
	want := &Footprint{Reason: LastLook, Resident: 100 << 20, Usage: 1, Limit: limit, Threads: 5, Classes: 9,
		Owners: []Owned{{Owner: footprint.Malloc, Resident: 100 << 20, Committed: committed, Parts: []Part{{"large", 1 << 20}, {footprint.PartDirectBuffers, 2}}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// What docs/ledger.md says of the size of records.
func TestRecordSizes(t *testing.T) {
	for _, c := range []struct {
		rec  Record
		most int
	}{{counters(1, 100), 130}, {weighed(1, 1), 900}} {
		b, err := appendRecord(nil, &c.rec)
		if err != nil || len(b) > c.most {
			t.Errorf("%d bytes, want at most %d: %v", len(b), c.most, err)
		}
	}
}

// A lock that a forked child still has does not lose a record.
func TestWriteWhileLocked(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	event := Record{At: time.Now(), Event: &Event{Kind: AgentStart}}
	if err := w.Append(event); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "machine.*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	held, err := os.OpenFile(names[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := lockWriting(held); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(event); err != nil {
		t.Error(err)
	}
}

package hotspot

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

func TestParsePerfDataSamples(t *testing.T) {
	tests := []struct {
		file, version, policy string
		gcs, old              int64
		gcTime                time.Duration
		usedAfterGC           int64
	}{
		{"jdk8-parallel.bin", "1.8.0_504", "ParScav:MSC", 5, 2, 139740089, 7872088},
		{"jdk17-g1.bin", "17.0.12", "GarbageFirst", 4, 1, 60692395, 11139496},
		{"jdk17-serial.bin", "17.0.15", "Copy:MSC", 19, 1, 83107586, 14295280},
		{"jdk25-g1.bin", "25.0.3", "GarbageFirst", 2, 1, 50162132, 11254344},
		{"jdk25-serial.bin", "", "Copy:MSC", 20, 1, 98039082, 15035200},
		{"jdk25-parallel.bin", "", "ParScav:MSC", 35, 1, 158420970, 12833544},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			c := readSample(t, tt.file).Counters()
			if tt.version != "" && c.JavaVersion != tt.version {
				t.Errorf("java version %q, want %q", c.JavaVersion, tt.version)
			}
			if !strings.HasPrefix(c.Policy, tt.policy) && c.Policy != "" {
				t.Errorf("policy %q, want %q", c.Policy, tt.policy)
			}
			if old := c.OldGCCount(); old != tt.old {
				t.Errorf("%d of %d collections were of more than the young generation, want %d", old, c.GCCount(), tt.old)
			}
			if c.GCCount() != tt.gcs || c.GCTime() != tt.gcTime {
				t.Errorf("%d collections in %d ns, want %d in %d", c.GCCount(), c.GCTime(), tt.gcs, tt.gcTime)
			}
			if c.UsedAfterGC != tt.usedAfterGC {
				t.Errorf("used after GC %d, want %d", c.UsedAfterGC, tt.usedAfterGC)
			}
			if c.Command == "" || c.HeapCapacity < c.UsedAfterGC || c.LoadedClasses == 0 {
				t.Errorf("incomplete: %+v", c)
			}
		})
	}
}

func TestPerfDataBeforeFirstCollection(t *testing.T) {
	for _, name := range []string{"jdk11-g1.bin", "jdk27-g1.bin"} {
		c := readSample(t, name).Counters()
		if c.GCCount() == 0 && c.UsedAfterGC != 0 {
			t.Errorf("%s: used after GC %d without a collection", name, c.UsedAfterGC)
		}
	}
}

func TestParsePerfDataBigEndian(t *testing.T) {
	b := perfHeader(binary.BigEndian, 1)
	b = append(b, perfLong(binary.BigEndian, "sun.rt.safepoints", 42)...)
	p, err := ParsePerfData(b)
	if err != nil {
		t.Fatal(err)
	}
	if p.Longs["sun.rt.safepoints"] != 42 {
		t.Errorf("got %v", p.Longs)
	}
}

func TestParsePerfDataRejects(t *testing.T) {
	le := binary.LittleEndian
	ok := append(perfHeader(le, 1), perfLong(le, "a.b", 1)...)
	tests := map[string]func([]byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"magic":            func(b []byte) []byte { b[0] = 0; return b },
		"byte order":       func(b []byte) []byte { b[4] = 7; return b },
		"version":          func(b []byte) []byte { b[5] = 1; return b },
		"used":             func(b []byte) []byte { le.PutUint32(b[8:], 1<<30); return b },
		"first entry":      func(b []byte) []byte { le.PutUint32(b[24:], 8); return b },
		"negative count":   func(b []byte) []byte { le.PutUint32(b[28:], 0xffffffff); return b },
		"too many entries": func(b []byte) []byte { le.PutUint32(b[28:], 2); return b },
		"entry length":     func(b []byte) []byte { le.PutUint32(b[32:], 0); return b },
		"name offset":      func(b []byte) []byte { le.PutUint32(b[36:], 4); return b },
		"vector":           func(b []byte) []byte { le.PutUint32(b[40:], 0x7fffffff); return b },
		"data offset":      func(b []byte) []byte { le.PutUint32(b[48:], 0x7fffffff); return b },
		"truncated":        func(b []byte) []byte { return b[:len(b)-3] },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			b := append([]byte(nil), ok...)
			if _, err := ParsePerfData(spoil(b)); err == nil {
				t.Error("accepted")
			}
		})
	}
	notReady := append([]byte(nil), ok...)
	notReady[7] = 0
	if _, err := ParsePerfData(notReady); !errors.Is(err, ErrPerfDataNotReady) {
		t.Errorf("not ready: %v", err)
	}
}

// Shenandoah counts cycles; what they stop the application for is in safepoints.
func TestShenandoahsPauses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Garbage.java")
	code := `public class Garbage { static Object kept; public static void main(String[] a) throws Exception {
		for (int i = 0; i < 20_000; i++) kept = new byte[1 << 16];
		System.out.println("ready"); Thread.sleep(Long.MAX_VALUE); } }`
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	p := jvmtest.Start(t, jvmtest.Java(t, 25), "-Xmx64m", "-XX:+UseShenandoahGC", file)
	p.Await(t, "ready")
	perf, err := OpenPerfData("/proc", p.PID())
	if err != nil {
		t.Fatal(err)
	}
	defer perf.Close()
	data, err := perf.Read()
	if err != nil {
		t.Fatal(err)
	}
	c := data.Counters()
	cycles := time.Duration(0)
	for _, g := range c.Collectors {
		cycles += g.Time
	}
	if c.GCCount() == 0 || c.GCTime() <= 0 || c.GCTime() != c.SafepointTime || c.GCTime() >= cycles {
		t.Errorf("stopped for %v in cycles of %v: %+v", c.GCTime(), cycles, c)
	}
}

func TestOpenPerfDataOfNoJVM(t *testing.T) {
	if _, err := OpenPerfData("/proc", os.Getpid()); !errors.Is(err, ErrNoPerfData) {
		t.Errorf("got %v", err)
	}
}

// A real JVM: its file is found, read, and after a kill removed.
func TestOpenPerfDataOfJVM(t *testing.T) {
	java, err := exec.LookPath("java")
	if err != nil {
		t.Fatal("java is needed on PATH: ", err)
	}
	src := filepath.Join(t.TempDir(), "Wait.java")
	code := `public class Wait { public static void main(String[] a) throws Exception { System.gc(); System.in.read(); } }`
	if err := os.WriteFile(src, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(java, "-Xmx64m", src)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()

	var file *PerfFile
	polltest.Until(t, "a collection", func() bool {
		f, err := OpenPerfData("/proc", cmd.Process.Pid)
		if err != nil {
			return false
		}
		p, err := f.Read()
		if err != nil || p.Counters().GCTime() == 0 {
			f.Close()
			return false
		}
		file = f
		return true
	})
	defer file.Close()
	p, err := file.Read()
	if err != nil {
		t.Fatal(err)
	}
	c := p.Counters()
	if c.GCTime() <= 0 || c.UsedAfterGC <= 0 || !strings.Contains(c.Command, "Wait.java") {
		t.Errorf("counters %+v", c)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := os.Stat(file.Path()); err != nil {
		t.Fatalf("a killed JVM leaves its file: %v", err)
	}
	if err := file.RemoveStale(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if err := file.RemoveStale(); err != nil {
		t.Errorf("again: %v", err)
	}
}

func FuzzParsePerfData(f *testing.F) {
	files, _ := filepath.Glob("testdata/hsperfdata/*.bin")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(append(perfHeader(binary.BigEndian, 1), perfLong(binary.BigEndian, "a", -1)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePerfData(b)
		if err != nil {
			return
		}
		if n := len(p.Longs) + len(p.Texts); n*perfEntryHeader > len(b) {
			t.Errorf("%d counters out of %d bytes", n, len(b))
		}
		c := p.Counters()
		if c.HeapUsed < c.UsedAfterGC || c.UsedAfterGC < 0 || c.GCTime() < 0 || c.GCCount() < 0 || c.SafepointTime < 0 {
			t.Errorf("impossible: %+v", c)
		}
	})
}

func readSample(t *testing.T, name string) *PerfData {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/hsperfdata", name))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParsePerfData(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func perfHeader(order binary.ByteOrder, entries uint32) []byte {
	b := make([]byte, perfPrologueSize)
	binary.BigEndian.PutUint32(b, perfMagic)
	if order == binary.LittleEndian {
		b[4] = 1
	}
	b[5], b[7] = 2, 1
	order.PutUint32(b[24:], perfPrologueSize)
	order.PutUint32(b[28:], entries)
	return b
}

func perfLong(order binary.ByteOrder, name string, v int64) []byte {
	data := (perfEntryHeader + len(name) + 1 + 7) &^ 7
	b := make([]byte, data+8)
	order.PutUint32(b, uint32(len(b)))
	order.PutUint32(b[4:], perfEntryHeader)
	b[12] = 'J'
	order.PutUint32(b[16:], uint32(data))
	copy(b[perfEntryHeader:], name)
	order.PutUint64(b[data:], uint64(v))
	return b
}

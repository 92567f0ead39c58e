package autopsy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/ledger"
)

func readCrash(t testing.TB, name string) *Crash {
	t.Helper()
	c, err := ReadCrashFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What real JVMs wrote is read.
func TestReadCrash(t *testing.T) {
	for name, want := range map[string]Crash{
		"hs_err-segv-8.log":   {Kind: Fault, PID: 12371, Reason: "SIGSEGV (0xb)", Frame: "[libc.so.6+0x9a72c]", Sender: 12364},
		"hs_err-segv-17.log":  {Kind: Fault, PID: 12573, Reason: "SIGSEGV (0xb)", Frame: "[libc.so.6+0x85f14]", Sender: 12364},
		"hs_err-segv-25.log":  {Kind: Fault, PID: 13080, Reason: "SIGSEGV (0xb)", Frame: "[libc.so.6+0x9275b]", Sender: 12364},
		"hs_err-oom-8.log":    {Kind: JavaOutOfMemory, PID: 12432, Reason: "Java heap space", Thread: `JavaThread "holder-1" daemon`},
		"hs_err-oom-17.log":   {Kind: JavaOutOfMemory, PID: 12696, Reason: "Java heap space", Thread: `JavaThread "holder-1" daemon`},
		"hs_err-oom-25.log":   {Kind: JavaOutOfMemory, PID: 13142, Reason: "Java heap space", Thread: `JavaThread "holder-1" daemon`},
		"hs_err-fault-17.log": {Kind: Fault, PID: 14012, Reason: "SIGSEGV (0xb)", Frame: "[libjvm.so+0xeb233c]  Unsafe_PutByte+0x13c", Thread: `JavaThread "main"`},
		"hs_err-fault-25.log": {Kind: Fault, PID: 14035, Reason: "SIGSEGV (0xb)", Frame: "[libjvm.so+0x124b601]  Unsafe_PutByte+0xb1", Thread: `JavaThread "main"`},
	} {
		c := readCrash(t, name)
		if c.ElapsedSeconds <= 0 || c.ElapsedSeconds > 60 || c.JVM == "" {
			t.Errorf("%s: %+v", name, c)
		}
		got := *c
		got.ElapsedSeconds, got.JVM, got.File = 0, "", ""
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	native := "#\n# There is insufficient memory for the Java Runtime Environment to continue.\n# Native memory allocation (mmap) failed to map 65536 bytes for committing reserved memory.\n#  Out of Memory Error (os_linux.cpp:2795), pid=7, tid=8\n"
	if c, err := ReadCrash(strings.NewReader(native)); err != nil || c.Kind != NativeOutOfMemory || c.PID != 7 || c.Reason != "mmap of 65536 bytes failed" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := ReadCrash(strings.NewReader("pid=1, tid=2\nhello\n")); err == nil {
		t.Errorf("%+v", c)
	}
}

// Files are found where a JVM writes them; those of another process, of another time,
// or outside of its root are not.
func TestFindFiles(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	text, err := os.ReadFile("testdata/hs_err-fault-17.log")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := ledger.Process{ID: ledger.ID{PID: 99}, PIDs: []int{99, 14012}, Dir: "/app", Root: root, OwnRoot: true, Flags: map[string]string{"HeapDumpPath": "/dumps"}}
	old := time.Now().Add(-time.Hour)
	if f := FindFiles(p, old); f.Crash != nil || f.HeapDump != "" {
		t.Errorf("%+v", f)
	}
	write(filepath.Join(root, "app/hs_err_pid14012.log"), text)
	write(filepath.Join(root, "dumps/java_pid14012.hprof"), []byte("JAVA PROFILE"))
	f := FindFiles(p, old)
	if f.Crash == nil || f.Crash.File != filepath.Join(root, "app/hs_err_pid14012.log") || f.HeapDump != filepath.Join(root, "dumps/java_pid14012.hprof") {
		t.Errorf("%+v", f)
	}
	if f := FindFiles(p, time.Now().Add(time.Hour)); f.Crash != nil || f.HeapDump != "" {
		t.Errorf("before its time: %+v", f)
	}
	p.PIDs = []int{99, 14013}
	write(filepath.Join(root, "app/hs_err_pid14013.log"), text)
	if f := FindFiles(p, old); f.Crash != nil {
		t.Errorf("of another process: %+v", f.Crash)
	}
	// A link that leads out of its root is not followed.
	p.PIDs = []int{14012}
	p.Flags["ErrorFile"] = "/crash_%p.log"
	write(filepath.Join(outside, "x.log"), text)
	if err := os.Symlink(filepath.Join(outside, "x.log"), filepath.Join(root, "crash_14012.log")); err != nil {
		t.Fatal(err)
	}
	if f := FindFiles(p, old); f.Crash == nil || filepath.Base(f.Crash.File) != "hs_err_pid14012.log" {
		t.Errorf("%+v", f.Crash)
	}
	p.Root = ""
	if f := FindFiles(p, old); f.Crash != nil {
		t.Errorf("with an unknown root: %+v", f.Crash)
	}
}

func FuzzReadCrash(f *testing.F) {
	names, err := filepath.Glob("testdata/*.log")
	if err != nil || len(names) == 0 {
		f.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ReadCrash(strings.NewReader(string(text)))
		if (c == nil) == (err == nil) {
			t.Fatalf("%+v, %v", c, err)
		}
		if c == nil {
			return
		}
		for _, s := range []string{c.Reason, c.Frame, c.Thread, c.JVM} {
			if len([]rune(s)) > maxCrashText+1 || strings.ContainsAny(s, "\n\x1b") {
				t.Fatalf("%q", s)
			}
		}
		if c.PID <= 0 || c.Kind == "" || c.ElapsedSeconds < 0 || c.Sender < 0 || len(c.Summary()) == 0 {
			t.Fatalf("%+v", c)
		}
	})
}

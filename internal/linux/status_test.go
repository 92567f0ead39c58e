package linux

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func parseStatusText(s string) (Status, error) { return ParseStatus(strings.NewReader(s)) }

func TestParseStatus(t *testing.T) {
	jvm := parseFile(t, "testdata/status/jdk25.txt", parseStatusText)
	if jvm.Name != "java" || jvm.State != 'S' || len(jvm.NSpid) != 1 || jvm.Threads < 20 || jvm.VmHWM == 0 {
		t.Errorf("got %+v", jvm)
	}
	if !jvm.Catches(syscall.SIGQUIT) {
		t.Error("a JVM handles SIGQUIT")
	}
	for _, name := range []string{"xrs", "sleep"} {
		if s := parseFile(t, "testdata/status/"+name+".txt", parseStatusText); s.Catches(syscall.SIGQUIT) {
			t.Errorf("%s does not handle SIGQUIT", name)
		}
	}
}

func TestParseStatusRejects(t *testing.T) {
	for _, text := range []string{"", "Name: x\n", "State:\n", "State: S\nUid: 0 0\n", "State: S\nSigCgt: xyz\n", "State: S\nCapEff: -1\n", "State: S\nVmHWM: 4 MB\n"} {
		if s, err := parseStatusText(text); err == nil {
			t.Errorf("accepted %q as %+v", text, s)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add("Name:\tjava\nState:\tS (sleeping)\nNSpid:\t504\t1\nUid:\t0\t0\t0\t0\nSigCgt:\t4\nVmHWM:\t 36260 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseStatusText(text)
		if err == nil && (s.State == 0 || s.VmHWM < 0) {
			t.Fatalf("bad status %+v", s)
		}
	})
}

func TestSelf(t *testing.T) {
	if got := NewFS("/proc").Self(); got != os.Getpid() {
		t.Errorf("%d, want %d", got, os.Getpid())
	}
	if got := NewFS(t.TempDir()).Self(); got != 0 {
		t.Errorf("%d where there is no process", got)
	}
}

func TestParseBirth(t *testing.T) {
	stat := "42 (a (b) c) Z 1 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0"
	got, err := parseBirth(strings.NewReader(stat))
	if err != nil || got != (Birth{12345, true}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 x", strings.Replace(stat, "12345", "x", 1)} {
		if _, err := parseBirth(strings.NewReader(bad)); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func TestParsePages(t *testing.T) {
	if n, err := parsePages(strings.NewReader("2034 512 300 8 0 600 0\n")); err != nil || n != 2034 {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", "\n", "x 1", "-4 1", "99999999999999999999 1"} {
		if n, err := parsePages(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %d", bad, n)
		}
	}
}

func TestParseStackPointer(t *testing.T) {
	sp, err := parseStackPointer("202 0x7fb24810c120 0x189 0x0 0x0 0x0 0xffffffff 0x7fb1f6ef4208 0x7fb2512f072e\n")
	if err != nil || sp != 0x7fb1f6ef4208 {
		t.Errorf("got %#x, %v", sp, err)
	}
	if _, err := parseStackPointer("running\n"); err != ErrRunning {
		t.Errorf("running: %v", err)
	}
	for _, bad := range []string{"", "-1 0x1", "1 zz 0x0"} {
		if _, err := parseStackPointer(bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

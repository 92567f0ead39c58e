package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseMemInfo(t *testing.T) {
	m, err := ParseMemInfo(strings.NewReader("MemTotal:       24689896 kB\nMemFree:         9000000 kB\n" +
		"MemAvailable:   21000000 kB\nHugePages_Total:       0\n"))
	if err != nil || m.Total != 24689896<<10 || m.Available != 21000000<<10 {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, bad := range []string{
		"", "MemTotal: 1 kB\n", "MemAvailable: 1 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n",
		"MemTotal: 1\nMemAvailable: 1 kB\n", "MemTotal: -1 kB\nMemAvailable: 1 kB\n",
		"MemTotal: 9007199254740992 kB\nMemAvailable: 1 kB\n",
	} {
		if m, err := ParseMemInfo(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %+v", bad, m)
		}
	}
}

func TestParseTHPMode(t *testing.T) {
	for text, want := range map[string]string{
		"always [madvise] never\n": "madvise", "[always] madvise never\n": "always",
		"always inherit madvise [never]\n": "never",
	} {
		if got, err := ParseTHPMode(strings.NewReader(text)); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "always madvise never", "[]", "["} {
		if got, err := ParseTHPMode(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

func TestMachine(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/meminfo":                               "MemTotal: 2 kB\nMemAvailable: 1 kB\n",
		"proc/sys/kernel/osrelease":                  "6.1.0-18-amd64\n",
		"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, path), text)
	}
	fs := NewFS(filepath.Join(root, "proc"))
	if m, err := fs.MemInfo(); err != nil || m != (MemInfo{Total: 2048, Available: 1024}) {
		t.Errorf("%+v, %v", m, err)
	}
	if r, err := fs.KernelRelease(); err != nil || r != "6.1.0-18-amd64" {
		t.Errorf("%q, %v", r, err)
	}
	if m, err := THPMode(filepath.Join(root, "sys")); err != nil || m != "always" {
		t.Errorf("%q, %v", m, err)
	}
	if _, err := THPMode(root); !os.IsNotExist(err) {
		t.Errorf("error %v", err)
	}
}

func FuzzParseMemInfo(f *testing.F) {
	f.Add("MemTotal:  24689896 kB\nMemAvailable: 21000000 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := ParseMemInfo(strings.NewReader(text)); err == nil && (m.Total < 0 || m.Available < 0) {
			t.Fatalf("%+v", m)
		}
	})
}

package profile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// in is a folder with a file, both as asked for.
func in(t *testing.T, folder, file os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, folder); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTrust(t *testing.T) {
	self := uint32(os.Geteuid())
	mine := Trust{owners: map[uint32]bool{self: true}, groups: map[uint32]bool{}}
	others := Trust{owners: map[uint32]bool{self + 1: true}}
	group := Trust{owners: mine.owners, groups: map[uint32]bool{uint32(os.Getegid()): true}}
	tests := []struct {
		name         string
		trust        Trust
		folder, file os.FileMode
		want         string
	}{
		{"mine", mine, 0o755, 0o644, ""},
		{"another owner", others, 0o755, 0o644, "is of user"},
		{"others may write it", mine, 0o755, 0o646, "/x may be written by others (mode 646): chmod go-w it"},
		{"its group may write it", mine, 0o755, 0o664, "may be written by others (mode 664)"},
		{"a group of mine", group, 0o775, 0o664, ""},
		{"others may replace it", mine, 0o777, 0o644, "may be written by others (mode 777)"},
		{"sticky, as /tmp", mine, 0o777 | os.ModeSticky, 0o644, ""},
		{"sticky file", mine, 0o755, 0o666 | os.ModeSticky, "may be written by others"},
	}
	for _, tt := range tests {
		f, err := tt.trust.Open(in(t, tt.folder, tt.file))
		if err == nil {
			f.Close()
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A link leads into another folder, which counts too.
func TestTrustThroughLinks(t *testing.T) {
	mine := Trust{owners: map[uint32]bool{uint32(os.Geteuid()): true}}
	for folder, want := range map[os.FileMode]bool{0o755: true, 0o777: false} {
		link := filepath.Join(t.TempDir(), FileName)
		if err := os.Symlink(in(t, folder, 0o644), link); err != nil {
			t.Fatal(err)
		}
		f, err := mine.Open(link)
		if err == nil {
			f.Close()
		}
		if (err == nil) != want {
			t.Errorf("into a folder of mode %o: %v", folder, err)
		}
	}
}

// A pipe in the place of a profile is not waited for.
func TestPipeIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, TrustFor("")); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Error(err)
	}
	if _, err := DescribeArchive(path); err == nil {
		t.Error("a pipe is an archive")
	}
}

func TestOwnerOfTheJarIsTrusted(t *testing.T) {
	jar := in(t, 0o755, 0o644)
	if trust := TrustFor(jar); !trust.owners[uint32(os.Geteuid())] || !trust.owners[0] {
		t.Errorf("%+v", trust)
	}
	if got := unmapped(); got == 0 {
		t.Error("no user stands for those that are not known")
	}
}

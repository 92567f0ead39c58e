package runner_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/bootjartest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

func TestVolumePut(t *testing.T) {
	v := runner.Volume{Dir: t.TempDir()}
	file := filepath.Join(v.Dir, "app.jsa")
	defer unix.Umask(unix.Umask(0o077)) // whatever the agent's is
	broken, when := errors.New("broken off"), time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := v.Put(t.Context(), file, when, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("broken off: %v", err)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half of it is left: %v", err)
	}
	if err := v.Put(t.Context(), file, when, strings.NewReader("archive")); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(file)
	text, readErr := os.ReadFile(file)
	if err != nil || readErr != nil || st.Mode() != 0o644 || !st.ModTime().Equal(when) || string(text) != "archive" {
		t.Errorf("%v, %q, %v, %v", st.Mode(), text, err, readErr)
	}
	if err := v.Put(t.Context(), file, when, strings.NewReader("another")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: %v", err)
	}
	// What the application left in its place is not followed.
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Symlink(elsewhere, filepath.Join(v.Dir, "app.aot")); err != nil {
		t.Fatal(err)
	}
	if err := v.Put(t.Context(), filepath.Join(v.Dir, "app.aot"), when, strings.NewReader("x")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("by a link: %v", err)
	}
	if _, err := os.Lstat(elsewhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Put(ended, filepath.Join(v.Dir, "late"), when, strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// A jar is put and taken apart with its own time, and not outside.
func TestVolumeTakeApart(t *testing.T) {
	v, when := runner.Volume{Dir: t.TempDir()}, time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	jar := filepath.Join(t.TempDir(), "app.jar")
	bootjartest.Write(t, jar, jvmtest.Jar(t, "sysinfo.jar"), nil)
	if err := errors.Join(os.Chtimes(jar, when, when), v.PutFile(t.Context(), jar)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(v.Dir, "extracted")
	got, err := v.TakeApart(t.Context(), filepath.Join(v.Dir, "app.jar"), dir)
	if err != nil || got != filepath.Join(dir, "app.jar") {
		t.Fatal(got, err)
	}
	for _, name := range []string{"app.jar", "lib/a service.jar"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || !st.ModTime().Equal(when) {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if _, err := v.TakeApart(t.Context(), jar, filepath.Join(v.Dir, "other")); err == nil {
		t.Error("a jar elsewhere was taken apart")
	}
	if _, err := v.TakeApart(t.Context(), filepath.Join(v.Dir, "app.jar"), filepath.Join(t.TempDir(), "other")); err == nil {
		t.Error("a jar was taken apart elsewhere")
	}
}

func TestVolumeTake(t *testing.T) {
	v := runner.Volume{Dir: t.TempDir()}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(string) error{
		"link": func(f string) error { return os.Symlink(secret, f) }, "folder": func(f string) error { return os.Mkdir(f, 0o755) },
		"pipe": func(f string) error { return unix.Mkfifo(f, 0o600) }, "socket": func(f string) error { return unix.Mknod(f, unix.S_IFSOCK|0o600, 0) },
	} {
		file := filepath.Join(v.Dir, name)
		if err := make(file); err != nil {
			t.Fatal(err)
		}
		if f, err := v.Take(t.Context(), file); !errors.Is(err, runner.ErrNotWritten) || f != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := v.Take(t.Context(), filepath.Join(v.Dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	for _, name := range []string{secret, filepath.Join(v.Dir, "..", filepath.Base(filepath.Dir(secret)), "secret"), v.Dir, v.Dir + "/..", "secret", ""} {
		if _, err := v.Take(t.Context(), name); err == nil {
			t.Errorf("%s was taken from outside", name)
		}
	}
	if _, err := (runner.Volume{}).Take(t.Context(), secret); err == nil {
		t.Error("there is no volume, but a file was taken")
	}
}

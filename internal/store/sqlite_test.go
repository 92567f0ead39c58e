package store_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/store"
	"tare.dev/tare/internal/testkit/smalldisk"
	"tare.dev/tare/internal/testkit/storetest"
)

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "new folder", "a%20b?c#d.db") }

func TestSQLite(t *testing.T) { storetest.Run(t, newFile) }

func TestSQLiteIsForItsOwnerAlone(t *testing.T) {
	file := newFile(t)
	r, err := storetest.Open(t, file).Begin(t.Context(), storetest.Plan(), store.Invocation{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, name := range []string{file, file + "-locks", file + "-wal"} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
}

// change alters a database file behind the store's back.
func change(t *testing.T, file string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer.db")
	storetest.Open(t, newer)
	change(t, newer, "PRAGMA user_version = 99")
	if _, err := store.Open(t.Context(), newer); !errors.Is(err, store.ErrNewer) {
		t.Errorf("%v", err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{text, dir, filepath.Join(text, "tare.db")} {
		if _, err := store.Open(t.Context(), file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A database of the first version of tare keeps its fits, and is given the host
// and the size of each.
func TestOpenTakesOverTheFirstVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.db")
	old, err := os.ReadFile("testdata/version1.sql")
	if err != nil {
		t.Fatal(err)
	}
	change(t, file, string(old))
	s := storetest.Open(t, file)
	f, err := s.Fit(t.Context(), 7)
	if err != nil || f.State != store.CutOff || f.Trials != 1 || f.Host != "" || !f.Here || f.Plan.AmpleBytes != 1<<30 {
		t.Errorf("%+v, %v", f, err)
	}
	if gone, err := s.Prune(t.Context(), store.Bound{Bytes: 100}); err != nil || len(gone) != 1 {
		t.Errorf("its size is not known: %v, %v", gone, err)
	}
}

func TestEachMigrationCountsOn(t *testing.T) {
	file := newFile(t)
	storetest.Open(t, file)
	db, err := sql.Open("sqlite", "file:"+strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(file, "%", "%25"), "?", "%3f"), "#", "%23"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var version int
	made, err := os.ReadDir("migrations/sqlite")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != len(made) {
		t.Errorf("user_version is %d after %d migrations, %v", version, len(made), err)
	}
}

// A row that cannot be decoded hides no other one, and can be removed.
func TestAnUnreadableRowHidesNoOther(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tare.db")
	s := storetest.Open(t, file)
	for range 3 {
		r, err := s.Begin(t.Context(), storetest.Plan(), store.Invocation{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	change(t, file, `UPDATE fits SET plan = '{"AmpleBytes": "much"}' WHERE id = 2`)
	fits, err := s.Fits(t.Context())
	if err != nil || len(fits) != 3 || fits[1].State != store.Unreadable || fits[0].State != store.CutOff {
		t.Fatalf("%+v, %v", fits, err)
	}
	if text := fits[1].Problem.Error(); !strings.Contains(text, "fit 2 cannot be decoded") || !strings.Contains(text, "tare fit delete 2") {
		t.Error(text)
	}
	if _, err := s.Resume(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "cannot be decoded") {
		t.Errorf("%v", err)
	}
	if _, err := store.Result(t.Context(), s, fits[1]); err == nil {
		t.Error("it has a result")
	}
	if err := s.Delete(t.Context(), 2); err != nil {
		t.Error(err)
	}
}

// What is deleted is not in the files any more.
func TestDeleteErases(t *testing.T) {
	const secret = "s3cr3t-token-of-a-command-line"
	file := filepath.Join(t.TempDir(), "tare.db")
	s := storetest.Open(t, file)
	r, err := s.Begin(t.Context(), storetest.Plan(), store.Invocation{Args: []string{secret}})
	if err == nil {
		err = errors.Join(r.Close(), s.Delete(t.Context(), r.ID()))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, file + "-wal"} {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), secret) {
			t.Errorf("%s still holds it", name)
		}
	}
}

// A history on a full disk can still be listed; what would write says why it
// cannot.
func TestAFullDiskCanBeRead(t *testing.T) {
	dir := smalldisk.Mount(t, 1<<20)
	file := filepath.Join(dir, "tare.db")
	s, err := store.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Begin(t.Context(), storetest.Plan(), store.Invocation{})
	if err == nil {
		err = errors.Join(r.Keep(t.Context(), storetest.Step(1)), r.Close(), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "fill"))
	s = storetest.Open(t, file)
	fits, err := s.Fits(t.Context())
	if err != nil || len(fits) != 1 || fits[0].Trials != 1 {
		t.Errorf("%+v, %v", fits, err)
	}
	if _, err := s.Begin(t.Context(), storetest.Plan(), store.Invocation{}); err == nil {
		t.Error("a fit was stored on a full disk")
	}
}

// fill takes all that is left of a file system.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

func TestDefaultFile(t *testing.T) {
	for state, want := range map[string]string{"/state": "/state/tare/tare.db", "relative": "/home/x/.local/state/tare/tare.db", "": "/home/x/.local/state/tare/tare.db"} {
		t.Setenv("XDG_STATE_HOME", state)
		t.Setenv("HOME", "/home/x")
		if got, err := store.DefaultFile(); err != nil || got != want {
			t.Errorf("%q: %q, %v", state, got, err)
		}
	}
}

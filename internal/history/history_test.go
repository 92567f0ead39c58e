package history_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/testkit/historytest"
	"tare.dev/tare/internal/testkit/pgtest"
)

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "new folder", "a%20b?c#d.db") }

func TestSQLite(t *testing.T) { historytest.Run(t, newFile) }

func TestMakesRoom(t *testing.T) { historytest.MakesRoom(t, newFile) }

func TestPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	historytest.Run(t, func(t *testing.T) string { return server.Database(t) })
	t.Run("Newer", func(t *testing.T) {
		url := server.Database(t)
		historytest.Open(t, url)
		server.Exec(t, url[strings.LastIndex(url, "/")+1:], "INSERT INTO history_db_version (version_id, is_applied) VALUES (99, true)")
		if _, err := history.Open(t.Context(), url); !errors.Is(err, history.ErrNewer) || strings.Contains(err.Error(), "rd %") {
			t.Errorf("%v", err)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	historytest.Open(t, file)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := history.Open(t.Context(), file); !errors.Is(err, history.ErrNewer) || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	if _, err := history.Open(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder is a history")
	}
}

func TestSQLiteIsForItsOwnerAlone(t *testing.T) {
	file := newFile(t)
	a := historytest.NewAgent("web")
	a.Add(historytest.Now, ledger.Record{Process: historytest.ID(1), Start: historytest.Process(1)})
	d := historytest.Open(t, file)
	a.Send(t, d, historytest.Now)
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := d.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, file + "-wal", copied} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	// What was backed up is whole, and is not overwritten.
	if err := d.Backup(t.Context(), copied); err == nil {
		t.Error("a backup is overwritten")
	}
	if all, err := historytest.Open(t, copied).JVMs(t.Context(), history.Filter{Limit: 9}); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Tokens of a history that the version before made are good in this one.
func TestTokensAreMigrated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	d := historytest.Open(t, file)
	secret, err := d.AddToken(t.Context(), "web-1", history.Write, historytest.Now)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	before, err := os.ReadFile("migrations/sqlite/001_history.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(before), "CREATE TABLE tokens")
	for _, q := range []string{"ALTER TABLE tokens RENAME TO later", "DROP INDEX tokens_enrolled", "CREATE TABLE tokens" + table,
		"INSERT INTO tokens SELECT id, name, kind, hash, made FROM later", "DROP TABLE later", "DELETE FROM goose_db_version WHERE version_id = 3"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	d = historytest.Open(t, file)
	if got, err := d.Token(t.Context(), secret); err != nil || got.Name != "web-1" || got.Kind != history.Write || !got.Expires.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := d.AddEnrolment(t.Context(), "fleet", 1, historytest.Now, historytest.Now); err != nil {
		t.Error(err)
	}
}

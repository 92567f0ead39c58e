package store_test

import (
	"errors"
	"strings"
	"testing"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/store"
	"tare.dev/tare/internal/testkit/pgtest"
	"tare.dev/tare/internal/testkit/storetest"
)

func TestPostgreSQL(t *testing.T) {
	server := pgtest.Start(t)
	storetest.Run(t, func(t *testing.T) string { return server.Database(t) })
	t.Run("AnotherHostsFitIsItsOwn", func(t *testing.T) { anotherHostsFit(t, server) })
	t.Run("TheServerMayGoAway", func(t *testing.T) { serverGoesAway(t, server) })
	t.Run("OpenRefuses", func(t *testing.T) { postgresRefuses(t, server) })
}

// Files and old fits of another host are not this one's to remove.
func anotherHostsFit(t *testing.T, server *pgtest.Server) {
	url := server.Database(t)
	s := storetest.Open(t, url)
	r, err := s.Begin(t.Context(), storetest.Plan(), store.Invocation{})
	if err == nil {
		err = errors.Join(r.Making(t.Context(), "/nowhere/x.aot"), r.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	server.Exec(t, url[strings.LastIndex(url, "/")+1:], "UPDATE fits SET host = 'another'")
	if gone, err := s.Prune(t.Context(), store.Bound{Bytes: 1}); err != nil || len(gone) > 0 {
		t.Errorf("%v, %v", gone, err)
	}
	if removed, err := s.Sweep(t.Context(), runner.ThisHost().RemoveMade); err != nil || len(removed) > 0 {
		t.Errorf("%v, %v", removed, err)
	}
	if f, err := s.Fit(t.Context(), r.ID()); err != nil || f.Here || f.Host != "another" {
		t.Errorf("%+v, %v", f, err)
	}
}

// A fit goes on after its database was restarted, unless somebody else did.
func serverGoesAway(t *testing.T, server *pgtest.Server) {
	url := server.Database(t)
	s := storetest.Open(t, url)
	r, err := s.Begin(t.Context(), storetest.Plan(), store.Invocation{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	server.Down()
	server.Up(t)
	if err := r.Keep(t.Context(), storetest.Step(1)); err != nil {
		t.Error(err)
	}
	f, err := storetest.Open(t, url).Fit(t.Context(), r.ID())
	if err != nil || f.State != store.Running || f.Trials != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

func postgresRefuses(t *testing.T, server *pgtest.Server) {
	good := server.Database(t)
	storetest.Open(t, good)
	server.Exec(t, good[strings.LastIndex(good, "/")+1:], "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)")
	if _, err := store.Open(t.Context(), good); !errors.Is(err, store.ErrNewer) {
		t.Errorf("%v", err)
	}
	for name, url := range map[string]string{
		"no such database": server.URL("nothing"),
		"a wrong password": strings.Replace(server.URL("postgres"), "rd", "xx", 1),
		"nobody listens":   "postgres://tare:" + "hush@127.0.0.1:1/x",
		"no URL":           "postgres://tare:hush@[::1/x",
		"a bad option":     server.URL("postgres") + "?sslmode=perhaps&password=hush",
	} {
		_, err := store.Open(t.Context(), url)
		if err == nil {
			t.Errorf("%s: opened", name)
			continue
		}
		for _, secret := range []string{"hush", server.Password(), "p%40ss"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error holds the password: %v", name, err)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %v", name, err)
		}
	}
}

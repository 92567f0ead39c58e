package compose

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/testkit/dockertest"
)

// withPostgres is an application with two databases beside it: one that is made anew
// before each trial, and another that a command resets. A job fills the first.
const withPostgres = `
services:
  web:
    image: postgres
    volumes: [ "shared:/shared" ]
    depends_on: { schema: { condition: service_completed_successfully }, kept: { condition: service_healthy } }
  db:
    image: postgres
    volumes: [ "data:/data" ]
  schema:
    image: postgres
    command: [ "psql -h db -U tare -d postgres -c 'CREATE TABLE IF NOT EXISTS made (at int)'" ]
    healthcheck: { disable: true }
    depends_on: { db: { condition: service_healthy } }
  kept:
    image: postgres
    x-tare: { reset: "psql -h 127.0.0.1 -U tare -d postgres -v ON_ERROR_STOP=1 -c 'TRUNCATE kept'" }
volumes:
  data:
  shared: { external: true, name: golden }
`

func owned() func() (string, map[string]string) {
	var n atomic.Int64
	return func() (string, map[string]string) {
		name := "compose-test-" + strconv.FormatInt(n.Add(1), 10)
		return name, map[string]string{"compose-test": name}
	}
}

// nothingLeft checks that no container, network or volume is there but those named.
func nothingLeft(t *testing.T, e *dockertest.Engine, volumes string) {
	t.Helper()
	for what, list := range map[string][]string{"containers": {"ps", "--all", "--quiet"}, "networks": {"network", "ls", "--filter", "label=compose-test", "--quiet"}} {
		if left := e.Docker(t, list...); left != "" {
			t.Errorf("%s are left: %s", what, left)
		}
	}
	if left := e.Docker(t, "volume", "ls", "--quiet"); left != volumes {
		t.Errorf("volumes %q, want %q", left, volumes)
	}
}

// Real databases start healthy and in order; before each trial but the first one is made
// anew, and the other keeps all but what it resets.
func TestUp(t *testing.T) {
	e := dockertest.Start(t)
	e.ImportPostgres(t, "postgres")
	e.Docker(t, "volume", "create", "golden")
	e.Docker(t, "run", "--rm", "--network", "none", "--user", "0", "--volume", "golden:/golden", "postgres", "echo from the golden volume >/golden/file")
	engine, err := docker.NewEngine(e.Host)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Read(t.Context(), Options{File: write(t, withPostgres), Service: "web", Fresh: []string{"db", "web"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Up(t.Context(), engine, p, owned())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Down(t.Context())
	query := func(service, sql string) (int, string) {
		t.Helper()
		code, out, err := engine.Exec(t.Context(), b.containers[service], []string{"psql", "-h", "127.0.0.1", "-U", "tare", "-d", "postgres", "-At", "-c", sql})
		if err != nil {
			t.Fatal(err)
		}
		return code, strings.TrimSpace(out)
	}
	must := func(service, sql, want string) {
		t.Helper()
		if code, out := query(service, sql); code != 0 || out != want {
			t.Errorf("%s: %s: exit code %d, %q, want %q", service, sql, code, out, want)
		}
	}
	must("kept", "CREATE TABLE kept (at int)", "CREATE TABLE")
	run := b.Run(p.App.Run)
	if run.Network == "" || len(run.Volumes) != 1 || !strings.HasSuffix(run.Volumes[0], ":/shared") {
		t.Fatalf("%+v", run)
	}
	for trial := range 2 {
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(trial, err)
		}
		must("db", "SELECT count(*) FROM made", "0")
		must("kept", "SELECT count(*) FROM kept", "0")
		volume, _, _ := strings.Cut(run.Volumes[0], ":")
		in := func(command string) string {
			return e.Docker(t, "run", "--rm", "--network", run.Network, "--user", "0", "--volume", volume+":/shared", "postgres", command)
		}
		if text := in("cat /shared/* 2>/dev/null || while read l; do echo $l; done </shared/file"); text != "from the golden volume" {
			t.Errorf("trial %d: the copy of the volume has %q", trial, text)
		}
		in("echo dirty >/shared/file")
		// What a trial does, by the names that the application knows.
		in("psql -h db -U tare -d postgres -c 'INSERT INTO made VALUES (1)' && psql -h kept -U tare -d postgres -c 'INSERT INTO kept VALUES (1)'")
		must("db", "SELECT count(*) FROM made", "1")
		must("kept", "SELECT count(*) FROM kept", "1")
	}
	if _, out := query("kept", "DROP TABLE kept"); out != "DROP TABLE" {
		t.Error(out)
	}
	var failed *ServiceError
	if err := b.Refresh(t.Context()); !errors.As(err, &failed) || failed.Service != "kept" || !strings.Contains(err.Error(), `relation "kept" does not exist`) {
		t.Errorf("a reset that fails: %v", err)
	}
	if err := errors.Join(b.Down(t.Context()), b.Down(t.Context())); err != nil {
		t.Error(err)
	}
	nothingLeft(t, e, "golden")

	// What does not come up is named with its last lines, and nothing is left of it.
	for _, c := range []struct{ name, old, new, want string }{
		{"one that ends", `"data:/data" ]`, `"data:/data" ]` + "\n    command: [ 'echo this is why; exit 3' ]", "service db ended with exit code 3\nits last lines:\n  | this is why"},
		{"one that is unhealthy", `"data:/data" ]`, `"data:/data" ]` + "\n    healthcheck: { test: exit 1, interval: 1s, retries: 2 }", "service db is unhealthy"},
		{"a job that fails", "CREATE TABLE IF", "CREATE TABEL IF", "service schema ended with exit code 1"},
		{"no image", "  db:\n    image: postgres", "  db:\n    image: none:1", "no such image"},
		{"no volume", "golden", "silver", "volume silver"},
	} {
		p, err := Read(t.Context(), Options{File: write(t, strings.Replace(withPostgres, c.old, c.new, 1)), Service: "web"})
		if err != nil {
			t.Fatal(c.name, err)
		}
		if _, err := Up(t.Context(), engine, p, owned()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		nothingLeft(t, e, "golden")
	}
	e.Docker(t, "run", "--detach", "--name", "writer", "--network", "none", "--volume", "golden:/golden", "postgres", "while :; do pg_isready -t 1; done")
	if _, err := Up(t.Context(), engine, p, owned()); err == nil || !strings.Contains(err.Error(), "volume golden: writer runs with it") {
		t.Errorf("a volume in use: %v", err)
	}
	e.Docker(t, "rm", "--force", "--volumes", "writer")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Up(ended, engine, p, owned()); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	nothingLeft(t, e, "golden")
}

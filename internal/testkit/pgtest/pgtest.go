// Package pgtest runs a real PostgreSQL server for tests.
package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"tare.dev/tare/internal/deathsig"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/polltest"
)

const (
	superuser = "tare"
	// password has what a URL must escape.
	password = "p@ss/w:rd %"
	// owner is the user of the packages' clusters: the server refuses root.
	owner = "postgres"
)

// Server is a server on a loopback port of its own. It ends with the test.
type Server struct {
	port   int
	bin    string
	data   string
	owner  *syscall.Credential
	cmd    *exec.Cmd
	output *bytes.Buffer
}

// Start makes a database cluster and starts its server.
func Start(t testing.TB) *Server {
	t.Helper()
	alone.Uses(t, "a database")
	// A folder of the test is closed to the server's user.
	dir, err := os.MkdirTemp("", "tare-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{bin: newestBin(t), data: filepath.Join(dir, "data"), owner: ownerOf(t)}
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.owner != nil {
		for _, name := range []string{dir, secret} {
			if err := os.Chown(name, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.run(t, "initdb", "--pgdata", s.data, "--username", superuser, "--pwfile", secret, "--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	s.Up(t)
	t.Cleanup(s.Down)
	return s
}

// Up starts the server, and waits until it answers.
func (s *Server) Up(t testing.TB) {
	t.Helper()
	s.output = new(bytes.Buffer)
	s.cmd = s.command("postgres", "-D", s.data, "-p", strconv.Itoa(s.port), "-k", s.data, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
		"-c", "shared_buffers=16MB", "-c", "max_connections=40")
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := deathsig.Start(s.cmd, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	polltest.UntilNil(t, func() error {
		conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
		if err != nil {
			return err
		}
		return conn.Close(context.Background())
	})
}

// Down ends the server at once, as a crash would (SIGQUIT, immediate shutdown).
func (s *Server) Down() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	_ = s.cmd.Wait()
	s.cmd = nil
}

// URL is the connection URI of a database.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(superuser, password), Host: "127.0.0.1:" + strconv.Itoa(s.port), Path: "/" + database}
	return u.String()
}

// Password is the password in the URLs.
func (s *Server) Password() string { return password }

// Database makes an empty database and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("d%d", time.Now().UnixNano())
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	return s.URL(name)
}

// Exec runs a statement in a database.
func (s *Server) Exec(t testing.TB, database, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) run(t testing.TB, program string, args ...string) {
	t.Helper()
	if out, err := s.command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	return cmd
}

func newestBin(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		t.Fatal("no PostgreSQL server in /usr/lib/postgresql/*/bin: run scripts/setup.sh test")
	}
	version := func(initdb string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
}

// ownerOf is who runs the server: nil for this user.
func ownerOf(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(owner)
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

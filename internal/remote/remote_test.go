package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/bootjar"
	"tare.dev/tare/internal/remote"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/bootjartest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/testkit/runnertest"
	"tare.dev/tare/internal/trial"
)

const (
	agentEnv = "TARE_TEST_AGENT"
	token    = "a token for tests alone"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(agentEnv); address != "" {
		if err := beAgent(address); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			os.Exit(1)
		}
		return
	}
	runnertest.Main(m)
}

// beAgent serves the cgroup runner of new namespaces until stdin ends, which
// it does with the test.
func beAgent(address string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := settle(); err != nil {
		return err
	}
	r, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		return err
	}
	s, err := remote.NewServer(r, token)
	if err != nil {
		return err
	}
	l, err := remote.Listen(address)
	if err != nil {
		return err
	}
	err = s.Serve(ctx, l)
	// The test may have been killed: the folder of the socket is the agent's.
	return errors.Join(err, os.Remove(filepath.Dir(strings.TrimPrefix(address, "unix:"))))
}

// settle makes the first process of new namespaces at home there: /proc tells
// of its processes, JVMs share no files with those of equal ids elsewhere, and
// the loopback is up.
func settle() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("process %d is not the first of its namespace", os.Getpid())
	}
	const perfData = "/tmp/hsperfdata_root"
	if err := os.MkdirAll(perfData, 0o755); err != nil {
		return err
	}
	for _, m := range []struct {
		fs, at string
		flags  uintptr
		data   string
	}{{"", "/", unix.MS_REC | unix.MS_PRIVATE, ""}, {"proc", "/proc", 0, ""}, {"tmpfs", perfData, 0, "mode=0755"}} {
		if err := unix.Mount(m.fs, m.at, m.fs, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// startAgent starts an agent in mount, PID and network namespaces of its own.
func startAgent(t *testing.T) *remote.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // short: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	address := "unix:" + filepath.Join(dir, "s")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), agentEnv+"="+address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("agent: %v: %s", err, &errs)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("not everything was removed: %v", err)
		}
	})
	var c *remote.Client
	polltest.UntilNil(t, func() (err error) {
		c, err = remote.NewClient(t.Context(), address, token)
		return err
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// The suite through an agent elsewhere gives what it gives directly.
func TestAgent(t *testing.T) {
	runnertest.Run(t, runnertest.Agents, func(t *testing.T) runner.Runner { return startAgent(t) })
}

// A trial of a JVM through an agent elsewhere gives what it gives directly.
func TestTrial(t *testing.T) {
	direct, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := startAgent(t)
	if there.Name() != direct.Name() {
		t.Errorf("%s, directly %s", there.Name(), direct.Name())
	}
	spec := trial.Spec{Args: []string{jvmtest.Java(t, 17), "-Xmx48m", "-Xmn8m", "-XX:+UseSerialGC", "-XX:NativeMemoryTracking=summary",
		"-jar", jvmtest.Jar(t, "workloads.jar"), "memory-filler", "2", "20", "10"}, Env: os.Environ(), Limits: runner.Limits{MemoryBytes: 256 << 20},
		Duration: time.Second, Weigh: true}
	if spec.Ready, err = trial.ParseReady("log:ready"); err != nil {
		t.Fatal(err)
	}
	look := func(r runner.Runner) (*trial.Result, map[string]int64) {
		var nmt map[string]int64
		spec.Inspect = func(ctx context.Context, p runner.Process) {
			if nmt, err = p.NativeMemory(ctx); err != nil {
				t.Error(err)
			}
			if s, err := p.Status(ctx); err != nil || s.VmRSS < 10<<20 || s.Threads < 5 {
				t.Errorf("status %+v, %v", s, err)
			}
		}
		res, err := trial.Run(t.Context(), r, spec)
		if err != nil {
			t.Fatal(err)
		}
		return res, nmt
	}
	here, nmtHere := look(direct)
	got, nmt := look(there)
	if here.Verdict != got.Verdict || got.GCShare == nil || got.Peak == nil || got.End == nil || got.Growth != nil {
		t.Fatalf("%s %q %q, directly %s %q", got.Verdict, got.Evidence, got.Warnings, here.Verdict, here.Evidence)
	}
	if nmt["Java Heap"] != nmtHere["Java Heap"] || len(nmt) != len(nmtHere) {
		t.Errorf("native memory %v, directly %v", nmt, nmtHere)
	}
	if got.Collections != here.Collections || got.CPUTime <= 0 || got.PeakBytes <= 0 || len(got.Stat) != len(here.Stat) {
		t.Errorf("%+v, directly %+v", got, here)
	}
	if len(got.End.Rows) != len(here.End.Rows) {
		t.Fatalf("rows %+v, directly %+v", got.End.Rows, here.End.Rows)
	}
	for i, row := range got.End.Rows {
		was := here.End.Rows[i]
		if diff := row.ResidentBytes - was.ResidentBytes; row.Owner != was.Owner || diff > 4<<20 || diff < -4<<20 {
			t.Errorf("%s %d bytes, directly %s %d", row.Owner, row.ResidentBytes, was.Owner, was.ResidentBytes)
		}
	}
}

// What the host tells is of the machine, and ports are of the agent's network.
func TestHost(t *testing.T) {
	there, here := startAgent(t), runner.ThisHost()
	runnertest.Host(t, there)
	m, err := there.Machine(t.Context())
	if want, _ := here.Machine(t.Context()); err != nil || m != want {
		t.Errorf("%+v, want %+v, %v", m, want, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if who, err := there.Listening(t.Context(), l.Addr().String()); who != "" || err != nil {
		t.Errorf("%q listens in the agent's network, %v", who, err)
	}
	if who, err := here.Listening(t.Context(), l.Addr().String()); who == "" || err != nil {
		t.Errorf("nobody listens here, %v", err)
	}
	if ports, err := there.FreePorts(t.Context(), 3); err != nil || len(ports) != 3 {
		t.Errorf("%v, %v", ports, err)
	}
	java := jvmtest.Java(t, 17)
	j, err := there.FindJava(t.Context(), java)
	if want, _ := here.FindJava(t.Context(), java); err != nil || j != want {
		t.Errorf("%+v, want %+v, %v", j, want, err)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := there.File(t.Context(), name)
	if want, _ := here.File(t.Context(), name); err != nil || f != want || f.Bytes != 1 {
		t.Errorf("%+v, want %+v, %v", f, want, err)
	}
	for range 2 {
		if err := there.Remove(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if _, err := there.File(t.Context(), name); !os.IsNotExist(err) && !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that was removed: %v", err)
	}
}

// What a class path holds is told by the agent as it is here.
func TestClassPath(t *testing.T) {
	runnertest.ClassPath(t, startAgent(t))
}

// What a training run wrote is taken by the agent as it is here.
func TestTrainingThere(t *testing.T) {
	there := startAgent(t)
	a, err := there.MakeArchives(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	runnertest.Training(t, there, a, func(file string) string { return file })
}

// Folders of class archives are the agent's, which closes those of a client that has gone.
func TestArchivesThere(t *testing.T) {
	runnertest.Archives(t, startAgent(t), "", remote.Abandon)
}

// A jar is taken apart where the agent is, and what is none is told from a failure.
func TestExtractThere(t *testing.T) {
	there, dir := startAgent(t), t.TempDir()
	jar, service := filepath.Join(dir, "app.jar"), jvmtest.Jar(t, "sysinfo.jar")
	bootjartest.Write(t, jar, service, nil)
	for name, want := range map[string]bool{jar: true, service: false} {
		if f, err := there.File(t.Context(), name); err != nil || f.NestedJars != want {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	out := filepath.Join(dir, "out")
	if got, err := there.Extract(t.Context(), jar, out); err != nil || got != filepath.Join(out, "app.jar") {
		t.Fatal(got, err)
	}
	if st, err := os.Stat(filepath.Join(out, "lib", "a service.jar")); err != nil || st.Size() == 0 {
		t.Errorf("%v, %v", st, err)
	}
	if _, err := there.Extract(t.Context(), jar, out); err == nil || errors.Is(err, bootjar.ErrLayout) || !strings.Contains(err.Error(), "holds files") {
		t.Errorf("over another one: %v", err)
	}
	if _, err := there.Extract(t.Context(), service, filepath.Join(dir, "none")); !errors.Is(err, bootjar.ErrLayout) {
		t.Errorf("no jars inside: %v", err)
	}
}

// Who does not know the token, speaks another version or says too much is told
// so in one line.
func TestRefused(t *testing.T) {
	s, err := remote.NewServer(nil, token)
	if err == nil {
		_, err = remote.NewServer(nil, "short")
	}
	if err == nil || !strings.Contains(err.Error(), "too short") {
		t.Fatal(err)
	}
	address := "127.0.0.1:0"
	l, err := remote.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l) }()
	defer func() {
		cancel()
		<-ended
	}()
	if _, err := remote.NewClient(t.Context(), l.Addr().String(), "another token"); err == nil || !strings.Contains(err.Error(), "the token is not the agent's") {
		t.Errorf("token: %v", err)
	}
	for name, c := range map[string]struct {
		token, version, path, body string
		status                     int
		says                       string
	}{
		"version":  {token, "other", "/call/machine", "{}", http.StatusUpgradeRequired, "the agent speaks version " + remote.Version},
		"token":    {token[1:], remote.Version, "/call/machine", "{}", http.StatusUnauthorized, "token"},
		"too long": {token, remote.Version, "/call/file", `{"Name":"` + strings.Repeat("x", 5<<20) + `"}`, http.StatusBadRequest, "too large"},
		"no JSON":  {token, remote.Version, "/call/file", "x", http.StatusBadRequest, "invalid"},
		"unknown":  {token, remote.Version, "/call/shell", "{}", http.StatusNotFound, "not found"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.token)
		r.Header.Set("Tare-Protocol", c.version)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(text), c.says) || strings.Count(string(text), "\n") > 1 {
			t.Errorf("%s: %s %s", name, resp.Status, text)
		}
	}
	for _, bad := range []string{"", "unix:", "8080", "0.0.0.0:80", "example.org:80", "192.0.2.1:80"} {
		if _, err := remote.Listen(bad); err == nil {
			t.Errorf("listens on %q", bad)
		}
	}
}

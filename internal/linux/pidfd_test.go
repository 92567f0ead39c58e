package linux

import (
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// How a process ended is told while it waits for its parent, and on Linux 6.15 after
// that too.
func TestExitOf(t *testing.T) {
	for script, want := range map[string]Exit{
		"exit 3":                        {Code: 3},
		"exit 0":                        {},
		"kill -9 $$":                    {Signal: 9},
		"ulimit -c 0; kill -SEGV $$":    {Signal: 11},
		"trap 'exit 143' TERM; exit 20": {Code: 20},
	} {
		cmd := exec.Command("/bin/sh", "-c", "read wait; "+script)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		fs := NewFS("/proc")
		birth, err := fs.Birth(pid)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := PidFD(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if e, err := fs.ExitOf(pid, fd, birth); err == nil {
			t.Errorf("%s: %+v while it runs", script, e)
		}
		if _, err := in.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000); n != 1 || err != nil {
			t.Fatalf("%s: %d, %v", script, n, err)
		}
		if got, err := fs.ExitOf(pid, fd, birth); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", script, got, err, want)
		}
		_ = cmd.Wait() // it has ended as it was told
		got, err := fs.ExitOf(pid, fd, birth)
		if err == nil && got != want {
			t.Errorf("%s, waited for: %+v, want %+v", script, got, want)
		}
		t.Logf("%s, waited for: %+v, %v", script, got, err)
	}
}

func TestParseExit(t *testing.T) {
	zombie := "7 (a) b) Z 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711" + strings.Repeat(" 0", 29) + " 9\n"
	if e, err := parseExit(strings.NewReader(zombie), Birth{StartTicks: 4711}); e.Signal != 9 || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
	for _, text := range []string{strings.Replace(zombie, "Z", "S", 1), strings.Replace(zombie, "4711", "4712", 1), zombie[:80], strings.Replace(zombie, " 9\n", " x\n", 1), ""} {
		if e, err := parseExit(strings.NewReader(text), Birth{StartTicks: 4711}); err == nil {
			t.Errorf("%q: %+v", text, e)
		}
	}
}

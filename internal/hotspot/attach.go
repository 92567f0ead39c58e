package hotspot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare/internal/linux"
)

// Errors of asking a JVM.
var (
	ErrUnsafe  = errors.New("unsafe to attach")   // it must not be attached to
	ErrRefused = errors.New("refused by the JVM") // it answered that it does not know or allow the command
)

const (
	maxReply       = 256 << 20
	socketDeadline = 5 * time.Second
	socketPoll     = 20 * time.Millisecond
)

// Jcmd runs a diagnostic command in the JVM through the attach mechanism
// (JDK: src/hotspot/os/posix/attachListener_posix.cpp, protocol version 1)
// and returns its output.
//
// The first attach makes the JVM open a socket, which costs it some 200 KiB;
// it is asked for by SIGQUIT. A process that does not handle SIGQUIT would
// die of it, so that is checked first, and refused with ErrUnsafe.
func Jcmd(ctx context.Context, proc linux.FS, t *Target, command string) (string, error) {
	if t.Status.State == 'T' || t.Status.State == 't' {
		return "", fmt.Errorf("process %d is stopped and would never answer: %w", t.PID, ErrUnsafe)
	}
	socket := proc.Path(t.PID, "root", "tmp", ".java_pid"+strconv.Itoa(t.NSPID()))
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		if err := openSocket(ctx, proc, t, socket); err != nil {
			return "", err
		}
	}
	return ask(ctx, socket, command)
}

// openSocket asks the JVM to listen: a file .attach_pid<PID> in its working
// directory says that the SIGQUIT which follows is no request for a thread
// dump.
func openSocket(ctx context.Context, proc linux.FS, t *Target, socket string) error {
	st, err := proc.Status(t.PID)
	if err != nil {
		return err
	}
	if !st.Catches(syscall.SIGQUIT) {
		return fmt.Errorf("process %d does not handle SIGQUIT (-Xrs, or still starting) and would die of it: %w", t.PID, ErrUnsafe)
	}
	trigger := proc.Path(t.PID, "cwd", ".attach_pid"+strconv.Itoa(t.NSPID()))
	f, err := os.OpenFile(trigger, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		trigger = proc.Path(t.PID, "root", "tmp", filepath.Base(trigger))
		if f, err = os.OpenFile(trigger, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
			return fmt.Errorf("asking process %d to listen: %w", t.PID, err)
		}
	}
	defer os.Remove(trigger)
	// The JVM accepts the request of its own user only.
	err = errors.Join(f.Chown(st.UID, st.GID), f.Close())
	if err != nil {
		return fmt.Errorf("asking process %d to listen: %w", t.PID, err)
	}
	if !t.StillThere(proc) {
		return fmt.Errorf("process %d: %w", t.PID, ErrNoProcess)
	}
	if err := syscall.Kill(t.PID, syscall.SIGQUIT); err != nil {
		return fmt.Errorf("asking process %d to listen: %w", t.PID, err)
	}
	return awaitFile(ctx, socket, t.PID)
}

func awaitFile(ctx context.Context, path string, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, socketDeadline)
	defer cancel()
	tick := time.NewTicker(socketPoll)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d did not open its attach socket within %v", pid, socketDeadline)
		case <-tick.C:
		}
	}
}

// ask sends one command and reads the answer, whose first line is a code.
func ask(ctx context.Context, socket, command string) (string, error) {
	var d net.Dialer
	// A path below /proc/PID/root can be longer than a socket address.
	addr := socket
	if len(addr) > 100 {
		return "", fmt.Errorf("socket path %s is too long", socket)
	}
	conn, err := d.DialContext(ctx, "unix", addr)
	if err != nil {
		return "", fmt.Errorf("attaching: %w", err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	request := strings.Join([]string{"1", "jcmd", command, "", "", ""}, "\x00")
	if _, err := io.WriteString(conn, request); err != nil {
		return "", fmt.Errorf("attaching: %w", err)
	}
	reply, err := io.ReadAll(io.LimitReader(conn, maxReply))
	if err != nil {
		return "", fmt.Errorf("attaching: %w (JDK 8 answers its own user only)", err)
	}
	code, text, _ := bytes.Cut(reply, []byte("\n"))
	if string(code) != "0" {
		return "", fmt.Errorf("%w: %s: %.200s", ErrRefused, command, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}

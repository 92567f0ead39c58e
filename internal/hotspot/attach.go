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
	if err := mayAsk(proc, t); err != nil {
		return "", err
	}
	conn, err := connect(proc, t)
	if notListening(err) {
		conn, err = openSocket(ctx, proc, t)
	}
	if err != nil {
		return "", fmt.Errorf("attaching: %w", err)
	}
	defer conn.Close()
	return ask(ctx, conn, command)
}

// notListening says that there is no socket, or one that an ended JVM left.
func notListening(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// openSocket asks the JVM to listen, and connects: a file .attach_pid<PID> in
// its working directory or in /tmp says that the SIGQUIT which follows is no
// request for a thread dump.
func openSocket(ctx context.Context, proc linux.FS, t *Target) (net.Conn, error) {
	if err := maySignal(proc, t); err != nil {
		return nil, err
	}
	remove, err := makeTrigger(proc, t)
	if err != nil {
		return nil, fmt.Errorf("asking process %d to listen: %w", t.PID, err)
	}
	defer remove()
	if err := quit(proc, t); err != nil {
		return nil, fmt.Errorf("asking process %d to listen: %w", t.PID, err)
	}
	return awaitSocket(ctx, proc, t)
}

// makeTrigger makes the file, owned by the JVM's user: it obeys no other.
func makeTrigger(proc linux.FS, t *Target) (remove func(), err error) {
	name := ".attach_pid" + strconv.Itoa(t.NSPID())
	for _, place := range []struct{ root, name string }{{"cwd", name}, {"root", filepath.Join("tmp", name)}} {
		if remove, err = makeOwned(proc.Path(t.PID, place.root), place.name, t.Status.UID, t.Status.GID); err == nil {
			return remove, nil
		}
	}
	return nil, err
}

// makeOwned makes a file below dir, which no symbolic link leads out of.
func makeOwned(dir, name string, uid, gid int) (remove func(), err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	remove = func() {
		_ = root.Remove(name)
		root.Close()
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		root.Close()
		return nil, err
	}
	if err := errors.Join(f.Chown(uid, gid), f.Close()); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

func awaitSocket(ctx context.Context, proc linux.FS, t *Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, socketDeadline)
	defer cancel()
	tick := time.NewTicker(socketPoll)
	defer tick.Stop()
	for {
		conn, err := connect(proc, t)
		if !notListening(err) {
			return conn, gone(t.PID, err)
		}
		if !t.StillThere(proc) {
			return nil, fmt.Errorf("process %d: %w", t.PID, ErrNoProcess)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("process %d did not open its attach socket within %v", t.PID, socketDeadline)
		case <-tick.C:
		}
	}
}

// ask sends one command and reads the answer, whose first line is a code.
func ask(ctx context.Context, conn net.Conn, command string) (string, error) {
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
		return "", fmt.Errorf("attaching: %w", err)
	}
	code, text, _ := bytes.Cut(reply, []byte("\n"))
	if string(code) != "0" {
		return "", fmt.Errorf("%w: %s: %.200s", ErrRefused, command, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}

// Package attach asks a running HotSpot JVM by the attach mechanism, as jcmd does,
// and parses what it answers.
package attach

import (
	"bufio"
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

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// Errors of asking a JVM.
var (
	// ErrUnsafe says that asking would disturb or end the process.
	ErrUnsafe = errors.New("unsafe to attach")
	// ErrRefused says that the JVM does not know the command, or does not allow it.
	ErrRefused = errors.New("refused by the JVM")
)

const (
	// maxAnswer bounds an answer. HotSpot itself gives no more than 100 MB
	// before JDK 24 (JDK: bufferedStream::write in
	// src/hotspot/share/utilities/ostream.cpp).
	maxAnswer      = 128 << 20
	maxRefusal     = 4 << 10
	socketDeadline = 5 * time.Second
	socketPoll     = 20 * time.Millisecond
)

// Ask runs a diagnostic command, such as "GC.heap_info", in a JVM through the
// attach mechanism (JDK: src/hotspot/os/posix/attachListener_posix.cpp, protocol
// version 1). It calls take with the answer while that is being received, and keeps
// nothing of it. Where the answer is cut off, or too large, take reads an ErrAnswer
// in place of io.EOF; Ask returns that error even if take stopped before.
//
// Before its first answer a JVM opens a socket, which costs it some 200 KiB.
// SIGQUIT asks it to. That would end a process without a handler for SIGQUIT, and
// run the handler of a program that has its own: Ask refuses both with ErrUnsafe.
func Ask(ctx context.Context, proc linux.FS, t *process.Target, command string, take func(answer io.Reader) error) error {
	if err := mayAsk(proc, t); err != nil {
		return err
	}
	conn, err := connect(proc, t)
	if notListening(err) {
		conn, err = openSocket(ctx, proc, t)
	}
	if err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	defer conn.Close()
	return exchange(ctx, conn, command, take)
}

// notListening says that there is no socket, or one that an ended JVM left.
func notListening(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// openSocket asks the JVM to listen, and connects: a file .attach_pid<PID> in
// its working directory or in /tmp says that the SIGQUIT which follows is no
// request for a thread dump.
func openSocket(ctx context.Context, proc linux.FS, t *process.Target) (net.Conn, error) {
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
func makeTrigger(proc linux.FS, t *process.Target) (remove func(), err error) {
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

func awaitSocket(ctx context.Context, proc linux.FS, t *process.Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, socketDeadline)
	defer cancel()
	tick := time.NewTicker(socketPoll)
	defer tick.Stop()
	for {
		conn, err := connect(proc, t)
		if !notListening(err) {
			return conn, process.Gone(t.PID, err)
		}
		if !t.StillThere(proc) {
			return nil, fmt.Errorf("process %d: %w", t.PID, process.ErrNoProcess)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("process %d did not open its attach socket within %v", t.PID, socketDeadline)
		case <-tick.C:
		}
	}
}

// exchange sends one command and reads the answer, whose first line is a code.
// The end of the context ends it.
func exchange(ctx context.Context, conn net.Conn, command string, take func(io.Reader) error) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request := strings.Join([]string{"1", "jcmd", command, "", "", ""}, "\x00")
	if _, err := io.WriteString(conn, request); err != nil {
		return asking(ctx, command, err)
	}
	answer := bufio.NewReader(&wholeAnswer{r: conn, left: maxAnswer})
	code, err := answer.ReadSlice('\n')
	if err != nil {
		return asking(ctx, command, err)
	}
	if string(code) != "0\n" {
		why, _ := io.ReadAll(io.LimitReader(answer, maxRefusal))
		return fmt.Errorf("%w: %s: %s", ErrRefused, command, linux.PrintableName(strings.TrimSpace(string(why))))
	}
	if err := take(answer); err != nil {
		return asking(ctx, command, err)
	}
	_, err = io.Copy(io.Discard, answer)
	return asking(ctx, command, err)
}

// asking says with which command it went wrong, if it did.
func asking(ctx context.Context, command string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("asking for %s: %w", command, err)
}

// wholeAnswer reads an answer, and reports one that is not whole: it ends within
// a line, or is too large.
type wholeAnswer struct {
	r    io.Reader
	left int64
	last byte // 0 before the first
}

func (a *wholeAnswer) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 {
		a.last, a.left = p[n-1], a.left-int64(n)
	}
	switch {
	case a.left < 0:
		return 0, fmt.Errorf("%w: more than %d MiB", ErrAnswer, maxAnswer>>20)
	case err == io.EOF && a.last != '\n':
		return n, fmt.Errorf("%w: it is cut off", ErrAnswer)
	}
	return n, err
}

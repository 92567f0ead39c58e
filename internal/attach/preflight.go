package attach

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// mayAsk says why a JVM must not be attached to, if it must not.
func mayAsk(proc linux.FS, t *process.Target) error {
	if t.Kind != process.HotSpot {
		return fmt.Errorf("process %d runs %s, which does not answer HotSpot's attach: %w", t.PID, t.Kind, ErrUnsafe)
	}
	st, err := proc.Status(t.PID)
	if err != nil || !t.StillThere(proc) {
		return fmt.Errorf("process %d: %w", t.PID, process.ErrNoProcess)
	}
	if st.State == 'T' || st.State == 't' {
		return fmt.Errorf("process %d is stopped and would never answer: %w", t.PID, ErrUnsafe)
	}
	return nil
}

// maySignal says why the JVM must not be sent SIGQUIT, if it must not.
func maySignal(proc linux.FS, t *process.Target) error {
	if err := sameNamespace(proc, t.PID); err != nil {
		return err
	}
	st, err := proc.Status(t.PID)
	if err != nil || !t.StillThere(proc) {
		return fmt.Errorf("process %d: %w", t.PID, process.ErrNoProcess)
	}
	if !st.Catches(syscall.SIGQUIT) {
		return fmt.Errorf("process %d does not handle SIGQUIT (-Xrs, or still starting) and would die of it: %w", t.PID, ErrUnsafe)
	}
	if !dispatchesSignals(proc, t.PID) {
		return fmt.Errorf("process %d handles SIGQUIT, but not by a JVM (-Xrs, still starting, or a program that only loaded libjvm): what it would do is unknown: %w", t.PID, ErrUnsafe)
	}
	return nil
}

// dispatchesSignals says whether HotSpot handles SIGQUIT in the process: once the
// JVM is made, and unless -Xrs is set, it starts a thread for signals and installs
// its own handler (JDK: os::initialize_jdk_signal_support in
// src/hotspot/share/runtime/os.cpp). The kernel keeps 15 characters of the name
// "Signal Dispatcher": the first, or seven and the last six with two dots between
// (os::set_native_thread_name in src/hotspot/os/linux/os_linux.cpp). The kernel
// does not tell whose handler it is that a program installed later.
func dispatchesSignals(proc linux.FS, pid int) bool {
	tids, err := proc.TIDs(pid)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(tids, func(tid int) bool {
		name, err := proc.ThreadName(pid, tid)
		return err == nil && (name == "Signal Dispatch" || name == "Signal ..atcher")
	})
}

// quit sends SIGQUIT to the JVM, if its own handler waits for the signal. It names
// the process by its open directory in /proc: its id may be another process's by
// now.
func quit(proc linux.FS, t *process.Target) error {
	dir, err := os.Open(proc.Path(t.PID))
	if err != nil {
		return process.Gone(t.PID, err)
	}
	defer dir.Close()
	if err := maySignal(proc, t); err != nil {
		return err
	}
	err = unix.PidfdSendSignal(int(dir.Fd()), unix.SIGQUIT, nil, 0)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.1
		err = unix.Kill(t.PID, unix.SIGQUIT)
	}
	return process.Gone(t.PID, err)
}

// sameNamespace refuses a proc file system of another PID namespace than ours:
// its ids are not those that we would signal.
func sameNamespace(proc linux.FS, pid int) error {
	self, err := os.Readlink(filepath.Join(proc.Root(), "self"))
	if err == nil && self == strconv.Itoa(os.Getpid()) {
		return nil
	}
	return fmt.Errorf("%s is of another PID namespace than tare's, so process %d cannot be signalled: %w", proc.Root(), pid, ErrUnsafe)
}

// attachSocket opens the socket that the JVM listens on, without connecting:
// it is looked up in the JVM's own file system, which no symbolic link leads out
// of, and must belong to the JVM's user. The error is fs.ErrNotExist when
// there is none.
func attachSocket(proc linux.FS, t *process.Target) (*os.File, error) {
	root, err := os.OpenRoot(proc.Path(t.PID, "root"))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile("tmp/.java_pid"+strconv.Itoa(t.NSPID()), unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok || fi.Mode().Type() != fs.ModeSocket:
		err = fmt.Errorf("/tmp/.java_pid%d, where process %d would listen, is no socket: %w", t.NSPID(), t.PID, ErrUnsafe)
	case int(st.Uid) != t.Status.UID:
		err = fmt.Errorf("/tmp/.java_pid%d, where process %d of uid %d would listen, belongs to uid %d: %w", t.NSPID(), t.PID, t.Status.UID, st.Uid, ErrUnsafe)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// connect connects to the JVM's socket as the JVM's user: JDK 8 answers nobody
// else, and root itself is nobody in a JVM's user namespace that does not map it.
// That it is this JVM which listens, and not one that had the same id in the
// same /tmp, the kernel tells.
func connect(proc linux.FS, t *process.Target) (net.Conn, error) {
	socket, err := attachSocket(proc, t)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "attach socket")
	defer f.Close() // FileConn takes a copy
	limit := unix.NsecToTimeval(socketDeadline.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return nil, err
	}
	err = asUser(t.Status.UID, t.Status.GID, func() error {
		return unix.Connect(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(int(socket.Fd()))})
	})
	if err != nil {
		return nil, err
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, err
	}
	// In a PID namespace that does not hold the JVM its id shows as 0.
	if int(peer.Pid) != t.PID && peer.Pid != 0 {
		return nil, fmt.Errorf("/tmp/.java_pid%d, where process %d would listen, is the socket of process %d: %w", t.NSPID(), t.PID, peer.Pid, ErrUnsafe)
	}
	return net.FileConn(f)
}

// asUser runs do with the effective ids of a user, if we are root and may. The
// ids are changed on a thread of its own, which ends with it.
func asUser(uid, gid int, do func() error) error {
	if os.Geteuid() != 0 || uid == 0 && gid == os.Getegid() {
		return do()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends
		const keep = ^uintptr(0)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(gid), keep); e != 0 {
			done <- e
			return
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); e != 0 {
			done <- e
			return
		}
		done <- do()
	}()
	return <-done
}

package kernellog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// kmsgRecord is what one record of /dev/kmsg can have at most (kernel:
// PRINTK_MESSAGE_MAX).
const kmsgRecord = 16 << 10

// Kmsg reads what is in the kernel's ring: the log of this boot, as far back as the
// ring reaches. It needs root or CAP_SYSLOG where kernel.dmesg_restrict is 1. See
// Documentation/ABI/testing/dev-kmsg.
func Kmsg() (*Events, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		if text, none := syslog(); none == nil {
			return Read(bytes.NewReader(text))
		}
		return nil, &os.PathError{Op: "open", Path: "/dev/kmsg", Err: err}
	}
	defer unix.Close(fd)
	return Read(&kmsg{fd: fd})
}

// syslog reads the ring without the device, which containers have not (syslog(2),
// SYSLOG_ACTION_READ_ALL and SYSLOG_ACTION_SIZE_BUFFER).
func syslog() ([]byte, error) {
	const readAll, sizeBuffer, most = 3, 10, 64 << 20
	size, err := unix.Klogctl(sizeBuffer, nil)
	if err != nil {
		return nil, err
	}
	text := make([]byte, min(max(size, 1), most))
	n, err := unix.Klogctl(readAll, text)
	if err != nil {
		return nil, err
	}
	return text[:n], nil
}

// kmsg reads records, each by one read(2), until there is no further one.
type kmsg struct {
	fd   int
	rest []byte
	buf  [kmsgRecord]byte
}

// Read reads from a record.
func (k *kmsg) Read(p []byte) (int, error) {
	for len(k.rest) == 0 {
		n, err := unix.Read(k.fd, k.buf[:])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return 0, io.EOF
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR): // the record was overwritten: the next read gets the next one
		case err != nil:
			return 0, &os.PathError{Op: "read", Path: "/dev/kmsg", Err: err}
		case n == 0:
			return 0, io.EOF
		default:
			k.rest = k.buf[:n]
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

const (
	// journalTime bounds how long the journal is waited for, journalBytes how much of it
	// is read.
	journalTime  = 20 * time.Second
	journalBytes = 64 << 20
)

// Journal reads what systemd's journal has of the kernel and of systemd-oomd, of this
// boot and those before, since a time. The error says that there is no journal, or
// that it may not be read.
func Journal(ctx context.Context, since time.Time) (*Events, error) {
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "journalctl", "--quiet", "--no-pager", "--output=export",
		fmt.Sprintf("--since=@%d", since.Unix()), "_TRANSPORT=kernel", "+", "SYSLOG_IDENTIFIER=systemd-oomd")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the journal: %w", err)
	}
	events, err := Read(io.LimitReader(out, journalBytes))
	_, _ = io.Copy(io.Discard, out) // so that it ends
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("the journal: %w: %.200s", err, bytes.TrimSpace(said.Bytes()))
	}
	if events.Lines == 0 {
		return nil, errors.New("the journal has nothing of the kernel")
	}
	return events, nil
}

// File reads a log that was saved.
func File(name string) (*Events, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// Join puts together what the kernel's ring and the journal tell of the same boot; boot
// is that of the ring. What both have is taken once.
func Join(ring *Events, boot string, journal *Events) *Events {
	if ring == nil || journal == nil {
		if ring == nil {
			return journal
		}
		return ring
	}
	out := *journal
	type key struct {
		pid  int
		ms   int64
		boot string
	}
	keyOf := func(pid int, s Stamp) key {
		b := s.Boot
		if b == "" {
			b = boot
		}
		return key{pid, s.Uptime.Milliseconds(), b}
	}
	have := map[key]bool{}
	for _, k := range journal.Kills {
		have[keyOf(k.PID, k.Stamp)] = true
	}
	for _, k := range ring.Kills {
		if !have[keyOf(k.PID, k.Stamp)] {
			k.Boot = boot
			out.Kills = append(out.Kills, k)
		}
	}
	for _, f := range ring.Faults {
		f.Boot = boot
		out.Faults = append(out.Faults, f)
	}
	out.Lines += ring.Lines
	if journal.First.Boot != boot {
		out.First = ring.First // how far back this boot is known; the journal has others
		out.First.Boot = boot
	}
	return &out
}

package kernellog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	// maxLine bounds a line: printk's own are shorter than 1 KiB.
	maxLine = 64 << 10
	// maxField bounds a field of the journal.
	maxField = 64 << 10
)

// Lines reads a log, and hands its lines to yield until that returns false. It finds
// out by itself which form the log has: /dev/kmsg's, dmesg's, syslog's, or the
// journal's export format (systemd.io/JOURNAL_EXPORT_FORMATS). A line that is
// longer than a kernel's is cut. The error is the reader's.
func Lines(r io.Reader, yield func(Line) bool) error {
	in := bufio.NewReaderSize(r, maxLine)
	head, err := in.Peek(len("__CURSOR="))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.HasPrefix(head, []byte("__")) {
		return export(in, yield)
	}
	for {
		text, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if text != "" && text[0] != ' ' && !yield(parseLine(text)) {
			return nil // kmsg's lines that begin with a blank are properties of the one before
		}
	}
}

// readLine reads a line, without its end; of one that is too long, the beginning.
func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	text := strings.TrimRight(string(line), "\r\n")
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) && text != "" {
		err = nil
	}
	return text, err
}

// export reads the journal's export format: fields by line, a blank line after each
// entry; a field that is not printable has its name on a line, then its length in
// eight bytes.
func export(in *bufio.Reader, yield func(Line) bool) error {
	var l Line
	for {
		text, err := readLine(in)
		switch {
		case errors.Is(err, io.EOF):
			if l.Text != "" {
				yield(l)
			}
			return nil
		case err != nil:
			return err
		case text == "":
			if l.Text != "" && !yield(l) {
				return nil
			}
			l = Line{}
			continue
		}
		name, value, found := strings.Cut(text, "=")
		if !found {
			if value, err = binaryField(in); err != nil {
				return fmt.Errorf("field %.64q of the journal: %w", name, err)
			}
		}
		l.take(name, value)
	}
}

// binaryField reads a field that begins with its length.
func binaryField(in *bufio.Reader) (string, error) {
	var size [8]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return "", err
	}
	n := binary.LittleEndian.Uint64(size[:])
	kept := min(n, maxField)
	b := make([]byte, kept)
	if _, err := io.ReadFull(in, b); err != nil {
		return "", err
	}
	if n > kept {
		if n > 1<<40 {
			return "", fmt.Errorf("%d bytes are no field", n)
		}
		if _, err := io.CopyN(io.Discard, in, int64(n-kept)); err != nil {
			return "", err
		}
	}
	if end, err := in.ReadByte(); err != nil || end != '\n' {
		return "", fmt.Errorf("it does not end where it should (%w)", errors.Join(err, errNoEnd))
	}
	return string(b), nil
}

var errNoEnd = errors.New("no end of line")

// take takes a field of a journal's entry (systemd.journal-fields(7)).
func (l *Line) take(name, value string) {
	us := func() int64 {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return 0
		}
		return max(0, min(n, maxMicroseconds))
	}
	switch name {
	case "MESSAGE":
		l.Text, _, _ = strings.Cut(value, "\n")
	case "SYSLOG_IDENTIFIER":
		l.Program = value
	case "__REALTIME_TIMESTAMP":
		l.At = time.UnixMicro(us()).UTC()
	case "_SOURCE_MONOTONIC_TIMESTAMP": // the kernel's own
		l.Uptime = time.Duration(us()) * time.Microsecond
	case "__MONOTONIC_TIMESTAMP": // when the journal received it
		if l.Uptime == 0 {
			l.Uptime = time.Duration(us()) * time.Microsecond
		}
	case "_BOOT_ID":
		l.Boot = hyphens(value)
	}
}

// hyphens writes an id of 32 digits as the kernel does.
func hyphens(id string) string {
	if len(id) != 32 {
		return id
	}
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

package trial

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"tare.dev/tare/internal/linux"
)

const (
	maxLogLine = 8 << 10
	// logTail is how much of the log is kept in memory.
	logTail = 64 << 10
	// maxLogFile is how much of it goes to a file.
	maxLogFile = 64 << 20
)

// capture takes the application's output: it keeps the end in memory, writes
// all of it to a file where wanted, and looks for what the verdict and
// readiness need. Its streams may be written to by several goroutines.
type capture struct {
	mu       sync.Mutex
	file     *os.File
	written  int64
	fileErr  error // why the file lacks the rest
	copy     io.Writer
	tail     []byte
	findings Findings
	pattern  *regexp.Regexp
	matched  chan struct{} // closed when pattern matched a line
	isClosed bool
}

// newCapture makes a capture; file and pattern may be nil.
func newCapture(file *os.File, pattern *regexp.Regexp) *capture {
	return &capture{file: file, pattern: pattern, matched: make(chan struct{})}
}

// stream is one of the application's outputs.
type stream struct {
	c    *capture
	line []byte // the line so far
}

func (c *capture) stream() io.Writer { return &stream{c: c} }

// Write never fails: an application must not stop because its log cannot be
// kept.
func (s *stream) Write(p []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.keep(p)
	if s.c.copy != nil {
		_, _ = s.c.copy.Write(p)
	}
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		s.line = append(s.line, part[:min(len(part), maxLogLine-len(s.line))]...)
		if ended {
			s.c.look(string(bytes.TrimRight(s.line, "\r")))
			s.line = s.line[:0]
		}
	}
	return len(p), nil
}

func (c *capture) keep(p []byte) {
	c.tail = append(c.tail, p...)
	if extra := len(c.tail) - logTail; extra > logTail { // trim rarely
		c.tail = append(c.tail[:0], c.tail[extra:]...)
	}
	if c.file == nil || c.written >= maxLogFile {
		return
	}
	p = p[:min(int64(len(p)), maxLogFile-c.written)]
	c.written += int64(len(p))
	_, err := c.file.Write(p)
	if err == nil && c.written >= maxLogFile {
		_, err = fmt.Fprintf(c.file, "\n[the rest is cut off: %d MiB are kept]\n", maxLogFile>>20)
	}
	if err != nil {
		c.file, c.fileErr = nil, err
	}
}

// fatalMarks begin the JVM's report of its own end (src/hotspot/share/utilities/
// vmError.cpp; java.c of the launcher).
var fatalMarks = []string{
	"A fatal error has been detected by the Java Runtime Environment",
	"There is insufficient memory for the Java Runtime Environment to continue",
	"Error occurred during initialization of VM",
	"Error: Could not create the Java Virtual Machine",
}

// codeCacheFull ends the line that the JVM writes when code cache or a code heap is
// full (src/hotspot/share/code/codeCache.cpp, report_codemem_full).
const codeCacheFull = " is full. Compiler has been disabled."

func (c *capture) look(line string) {
	c.findings.CodeCacheFull = c.findings.CodeCacheFull || strings.Contains(line, codeCacheFull)
	if c.findings.OutOfMemory == "" && strings.Contains(line, "java.lang.OutOfMemoryError") {
		c.findings.OutOfMemory = linux.Printable(strings.TrimSpace(line))
	}
	if c.findings.Fatal == "" {
		for _, m := range fatalMarks {
			if strings.Contains(line, m) {
				c.findings.Fatal = linux.Printable(strings.TrimSpace(strings.TrimLeft(line, "# ")))
			}
		}
	}
	if c.pattern != nil && !c.isClosed && c.pattern.MatchString(line) {
		c.isClosed = true
		close(c.matched)
	}
}

// lost is why the file does not have all of the log.
func (c *capture) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fileErr
}

// result is what the log says so far, with its last n lines.
func (c *capture) result(n int) Findings {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.findings
	text := strings.TrimRight(strings.ToValidUTF8(string(c.tail), "�"), "\n")
	if text == "" {
		return f
	}
	lines := strings.Split(text, "\n")
	f.LastLines = lines[max(0, len(lines)-n):]
	for i, l := range f.LastLines {
		if len(l) > maxLogLine {
			l = strings.ToValidUTF8(l[:maxLogLine], "")
		}
		f.LastLines[i] = linux.Printable(strings.TrimRight(l, "\r"))
	}
	return f
}

// openLog creates the file of a whole log, for the user alone; no name gives
// none.
func openLog(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of the application: %w", err)
	}
	// A file of an earlier trial keeps its mode.
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
		err = f.Chmod(0o600)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("log of the application: %w", err)
		}
	}
	return f, nil
}

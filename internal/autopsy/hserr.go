package autopsy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"tare.dev/tare/internal/lazy"
)

// CrashKind is what an hs_err file is of.
type CrashKind string

// The kinds.
const (
	Fault             CrashKind = "fault"                // a signal, or a failed assertion of the JVM
	JavaOutOfMemory   CrashKind = "java-out-of-memory"   // -XX:+CrashOnOutOfMemoryError
	NativeOutOfMemory CrashKind = "native-out-of-memory" // the system gave no memory
)

// Crash is what an hs_err file says (JDK: src/hotspot/share/utilities/vmError.cpp).
type Crash struct {
	Kind CrashKind `json:"kind"`
	// PID is the process id in the JVM's own PID namespace.
	PID int `json:"pid"`
	// Reason is what happened: the signal, the failed check, or how much memory was
	// asked for.
	Reason string `json:"reason"`
	// Frame is where, and Thread in which thread.
	Frame  string `json:"frame,omitempty"`
	Thread string `json:"thread,omitempty"`
	JVM    string `json:"jvm,omitempty"`
	// Sender is the process that sent the signal, in the JVM's own PID namespace; 0
	// when the JVM faulted itself.
	Sender int `json:"sender,omitempty"`
	// ElapsedSeconds is the age of the JVM then.
	ElapsedSeconds float64 `json:"elapsedSeconds,omitempty"`
	// File is where it was read.
	File string `json:"file,omitempty"`
}

const (
	// maxCrashFile bounds what is read of an hs_err file: what is taken stands at its
	// beginning.
	maxCrashFile = 1 << 20
	maxCrashLine = 4 << 10
	maxCrashText = 200
)

var (
	errNoCrash = errors.New("no hs_err file: it does not begin with a fatal error of a JVM")

	crashAt     = lazy.Regexp(`^#  (.{1,400}?)(?: at pc=0x[0-9a-f]+(?: \(sent by kill\))?)?, pid=(\d{1,10}), tid=`)
	crashFrame  = lazy.Regexp(`^# ([CVvJjAA])\s+(.{1,1000})$`)
	crashThread = lazy.Regexp(`^Current thread (?:\(0x[0-9a-f]+\)|is native thread)(?::\s+(.{0,1000}))?`)
	crashTime   = lazy.Regexp(`(?:^elapsed time: |elapsed time: )(\d{1,12}(?:\.\d{1,9})?) seconds`)
	crashSender = lazy.Regexp(`^siginfo: .{0,200}\(SI_(?:USER|QUEUE|TKILL)\), (?:si_pid:|sent from pid:) (\d{1,10})`)
	crashNative = lazy.Regexp(`^# Native memory allocation \(([a-z]+)\) failed to (?:allocate|map|reserve|commit) (\d{1,18}) bytes`)
)

// ReadCrash reads an hs_err file. The error says that it is none.
func ReadCrash(r io.Reader) (*Crash, error) {
	in := bufio.NewScanner(io.LimitReader(r, maxCrashFile))
	in.Buffer(make([]byte, 0, maxCrashLine), 64<<10)
	c := &Crash{}
	p := crashParser{crash: c}
	for in.Scan() {
		line := in.Text()
		p.line(line[:min(len(line), maxCrashLine)])
	}
	if err := in.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return nil, err
	}
	if !p.begun || c.PID == 0 {
		return nil, errNoCrash
	}
	if c.Kind == "" {
		c.Kind = Fault
	}
	return c, nil
}

type crashParser struct {
	crash *Crash
	begun bool
	frame bool // the next line names it
}

func (p *crashParser) line(l string) {
	c := p.crash
	switch {
	case strings.HasPrefix(l, "# A fatal error has been detected by the Java Runtime Environment"):
		p.begun = true
	case strings.HasPrefix(l, "# There is insufficient memory for the Java Runtime Environment"):
		p.begun, c.Kind = true, NativeOutOfMemory
	case !p.begun:
	case strings.HasPrefix(l, "#  fatal error: OutOfMemory encountered: "):
		c.Kind, c.Reason = JavaOutOfMemory, clip(strings.TrimPrefix(l, "#  fatal error: OutOfMemory encountered: "))
	case strings.HasPrefix(l, "#  fatal error: ") || strings.HasPrefix(l, "#  Error: "):
		c.Reason = clip(strings.TrimPrefix(strings.TrimPrefix(l, "#  fatal error: "), "#  Error: "))
	case strings.HasPrefix(l, "# Problematic frame"):
		p.frame = true
	case strings.HasPrefix(l, "# Java VM: "):
		c.JVM = clip(strings.TrimPrefix(l, "# Java VM: "))
	default:
		p.match(l)
	}
}

func (p *crashParser) match(l string) {
	c := p.crash
	if m := crashNative().FindStringSubmatch(l); m != nil {
		c.Reason = fmt.Sprintf("%s of %s bytes failed", m[1], m[2])
		return
	}
	if m := crashAt().FindStringSubmatch(l); m != nil && c.PID == 0 {
		c.PID, _ = strconv.Atoi(m[2])
		if c.Reason == "" && c.Kind != NativeOutOfMemory {
			c.Reason = clip(m[1])
		}
		return
	}
	if m := crashFrame().FindStringSubmatch(l); m != nil && p.frame && c.Frame == "" {
		c.Frame, p.frame = clip(m[2]), false
		return
	}
	if m := crashThread().FindStringSubmatch(l); m != nil && c.Thread == "" {
		name, _, _ := strings.Cut(m[1], " [")
		c.Thread = clip(strings.Join(strings.Fields(name), " "))
		return
	}
	if m := crashSender().FindStringSubmatch(l); m != nil && c.Sender == 0 {
		c.Sender, _ = strconv.Atoi(m[1])
		return
	}
	if m := crashTime().FindStringSubmatch(l); m != nil && c.ElapsedSeconds == 0 {
		c.ElapsedSeconds, _ = strconv.ParseFloat(m[1], 64)
	}
}

// clip makes a text of the file fit for a sentence.
func clip(text string) string {
	text = printable(strings.TrimSpace(text))
	if r := []rune(text); len(r) > maxCrashText {
		return string(r[:maxCrashText-1]) + "…"
	}
	return text
}

// Summary is the crash in a line.
func (c *Crash) Summary() string {
	text := c.Reason
	if c.Frame != "" {
		text += " in " + c.Frame
	}
	if c.Thread != "" {
		text += ", thread " + c.Thread
	}
	if c.File != "" {
		text += " (" + printable(c.File) + ")"
	}
	return text
}

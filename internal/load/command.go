package load

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/deathsig"
)

const (
	// DefaultCommandTime is how long a load command may take beyond the time
	// that it is asked to load for.
	DefaultCommandTime = 10 * time.Minute
	// maxOutput is how much of the end of a generator's standard output is
	// looked at, and how long its summary may be.
	maxOutput = 1 << 20
	// maxScript bounds a file that is part of a Command's digest.
	maxScript   = 16 << 20
	outputDelay = 2 * time.Second
)

// Exit codes of a shell that could not run a program (POSIX.1, 2.8.2).
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Command is load by an external generator, which knows itself how long it
// takes. NewCommand makes one.
type Command struct {
	// Args are the program and its arguments.
	Args []string
	// Env is the environment, to which Load adds TARE_DURATION, the seconds to
	// load for, and what the Format needs.
	Env []string
	// Output takes what the generator prints; nil discards it.
	Output io.Writer
	// Format is how the generator tells what it measured.
	Format Format
	// Time is how long a load may take beyond its duration; 0 is
	// DefaultCommandTime.
	Time time.Duration
	// words are the shell command of Args, where it is simple.
	words []string
}

// NewCommand is load by a shell command. The empty format is recognised by the
// program's name, and else Line. It fails where the output of the command cannot be
// read as it is.
func NewCommand(shell string, env []string, f Format) (Command, error) {
	c := Command{Args: []string{"/bin/sh", "-c", shell}, Env: env, Format: f, words: simpleWords(shell)}
	if strings.TrimSpace(shell) == "" {
		return c, errors.New("load command is empty: name a program")
	}
	if f == "" {
		c.Format = formatOf(c.words)
	}
	g, ok := generators[c.Format]
	if !ok {
		return c, fmt.Errorf("load output %q: give one of %s", f, strings.Join(formatNames(), ", "))
	}
	if g.check != nil {
		return c, g.check(c.words)
	}
	return c, nil
}

// Describe tells the command and what prints its result.
func (c Command) Describe() Description {
	return Description{Generator: string(c.Format), Command: c.Args}
}

// Digest is of the format, and of the files that the command names: a script
// that was edited is another load.
func (c Command) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", c.Format)
	for _, word := range c.words {
		if sum, ok := fileSum(word); ok {
			fmt.Fprintf(h, "%q %x\n", word, sum)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// fileSum is false where the word names no regular file of at most maxScript
// bytes.
func fileSum(word string) ([]byte, bool) {
	f, err := os.OpenFile(word, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would block
	if err != nil {
		return nil, false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxScript || st.Mode()&fs.ModePerm&0o111 != 0 {
		return nil, false
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxScript)); err != nil {
		return nil, false
	}
	return h.Sum(nil), true
}

// Addresses are those of the URLs in the command, where the generator takes them
// there.
func (c Command) Addresses() []string {
	var all []string
	for i, word := range c.words {
		if i == 0 || !generators[c.Format].url || strings.HasPrefix(c.words[i-1], "-") && strings.Contains(c.words[i-1], "x") {
			continue // -x and --proxy name another server
		}
		t, err := ParseTarget(word)
		if err != nil {
			continue
		}
		if addr, ok := t.Address(); ok && !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	return all
}

// InMoments is false: the command knows how long it takes.
func (c Command) InMoments() bool { return false }

// Measures are what the format can tell.
func (c Command) Measures() Measures {
	if g := generators[c.Format]; g.measures != nil {
		return g.measures(c.words)
	}
	return 0
}

// Probe has nothing to ask.
func (c Command) Probe(context.Context) error { return nil }

// Load runs the command once. It runs in a process group of its own, all of
// which is killed when ctx ends, when the command itself has ended, or when it
// takes longer than d and Time; it is killed as well when this process dies. A
// command that fails or does not end, and tells no result, is a Result that is
// Incomplete: the application may be why.
func (c Command) Load(ctx context.Context, d time.Duration) (Result, error) {
	if len(c.Args) == 0 {
		return Result{}, errors.New("load command is empty: name a program")
	}
	g, ok := generators[c.Format]
	if !ok {
		return Result{}, fmt.Errorf("load output %q is unknown", c.Format)
	}
	dir, err := os.MkdirTemp("", "tare-load-")
	if err != nil {
		return Result{}, fmt.Errorf("folder for the load command's summary: %w", err)
	}
	defer os.RemoveAll(dir)
	most := c.Time
	if most <= 0 {
		most = DefaultCommandTime
	}
	out := &output{}
	file := filepath.Join(dir, "summary.json")
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = append(slices.Clone(c.Env), fmt.Sprintf("TARE_DURATION=%g", d.Seconds()))
	for _, e := range g.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(e, "$FILE", file))
	}
	cmd.Stdout = out
	if c.Output != nil {
		both := &lockedWriter{w: c.Output}
		cmd.Stdout, cmd.Stderr = io.MultiWriter(out, both), both
	}
	limited, cancel := context.WithTimeoutCause(ctx, d+most, errCommandTime)
	defer cancel()
	start := time.Now()
	err = runGroup(limited, cmd)
	e := ended{elapsed: time.Since(start), most: d + most, late: errors.Is(context.Cause(limited), errCommandTime)}
	errors.As(err, &e.exit)
	switch {
	case ctx.Err() != nil:
		return Result{}, fmt.Errorf("load command stopped before its end: %w", context.Cause(ctx))
	case err != nil && e.exit == nil && !e.late:
		return Result{}, fmt.Errorf("load command %s: %w: check its name and its permissions", c.Args[0], err)
	}
	text := out.text()
	err = nil
	if g.env != nil {
		text, err = readSummary(file)
	}
	return c.result(g, text, err, e)
}

var errCommandTime = errors.New("the load command did not end")

// ended is how a load command ended.
type ended struct {
	exit          *exec.ExitError // nil: with status 0
	late          bool            // it was killed, having taken more than most
	elapsed, most time.Duration
}

// why is empty where the command ended with status 0.
func (e ended) why() string {
	switch {
	case e.late:
		return fmt.Sprintf("it did not end within %s and was killed", e.most)
	case e.exit != nil:
		return e.exit.ProcessState.String() // "exit status 3", "signal: killed"
	}
	return ""
}

// result is what the command told and how it ended.
func (c Command) result(g generator, text []byte, err error, e ended) (Result, error) {
	r := Result{NoRequests: true, NoFailures: true}
	if err == nil {
		r, err = g.parse(text, c.words)
	}
	why := e.why()
	if e.exit != nil && (e.exit.ExitCode() == exitNotFound || e.exit.ExitCode() == exitNotExecutable) && err != nil {
		return Result{}, fmt.Errorf("load command: %s: a program of it was not found or cannot be run: check its name and its permissions", why)
	}
	switch {
	case err == nil:
	case why == "":
		return Result{}, fmt.Errorf("%w: %w: %s", ErrSummary, err, g.help)
	default:
		r = Result{NoRequests: true, NoFailures: true, Incomplete: "the load command told no result: " + why}
	}
	if r.Elapsed == 0 {
		r.Elapsed = e.elapsed
	}
	if r.Errors == nil {
		r.Errors = make(map[string]int64)
	}
	if why != "" && r.Incomplete == "" { // a threshold of its own, for one
		r.addFailure(why)
	}
	return r, nil
}

// addFailure counts that the generator itself failed as one failed request more.
func (r *Result) addFailure(why string) {
	if r.NoFailures {
		r.Incomplete = "the load command failed: " + why
		return
	}
	r.Failed++
	r.Errors[why]++
	if !r.NoRequests {
		r.Sent, r.Due = r.Sent+1, r.Due+1
	}
}

// readSummary reads the file that the generator was told to write.
func readSummary(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New("it wrote no summary")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxOutput+1))
	if err == nil && len(text) > maxOutput {
		err = fmt.Errorf("its summary is longer than %d bytes", maxOutput)
	}
	return text, err
}

// runGroup runs cmd, and kills what is left of its process group once the
// command has ended, or when ctx ends.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cmd.WaitDelay = outputDelay // a process that left the group may hold the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := deathsig.Start(cmd, syscall.SIGKILL); err != nil {
		return err
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // ESRCH: nothing is left
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		kill()
	})
	if awaitExit(cmd.Process.Pid) == nil {
		kill() // not reaped yet, so the number of the group cannot be another's
	}
	if !stop() {
		<-killed
	}
	if err := cmd.Wait(); !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	return nil
}

// awaitExit waits for the child to end and leaves it to be reaped.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lockedWriter lets the two outputs of a command share a writer.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// output keeps the end of what a generator prints, at least maxOutput bytes of it.
type output struct{ kept []byte }

func (o *output) Write(p []byte) (int, error) {
	o.kept = append(o.kept, p[max(0, len(p)-maxOutput):]...)
	if len(o.kept) > 2*maxOutput {
		o.kept = append(o.kept[:0], o.kept[len(o.kept)-maxOutput:]...)
	}
	return len(p), nil
}

func (o *output) text() []byte { return o.kept[max(0, len(o.kept)-maxOutput):] }

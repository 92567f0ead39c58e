package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/kubeapi"
)

// interruption is one of a fit, which then came to its end. Number 0 is a fit without one.
type interruption struct {
	Number int    `json:"number"`
	Kind   string `json:"kind"`
	// Trials and Seconds are the moment: so many trials had ended, and so much more time.
	Trials  int     `json:"trials"`
	Seconds float64 `json:"seconds"`
	// Stopped says that the fit did not go on by itself, Said why not.
	Stopped bool   `json:"stopped"`
	Said    string `json:"said,omitempty"`
	// Ended are the trials that tare had said to have ended when it stopped, Stored those that
	// were stored.
	Ended  int `json:"ended"`
	Stored int `json:"stored"`
	// LimitBytes is the answer in the end.
	LimitBytes   int64   `json:"limitBytes"`
	TotalSeconds float64 `json:"totalSeconds"`
	// Behind are jobs and pods that were there after the fit's end, and that are no rest of
	// a tare that was killed.
	Behind []string `json:"behind,omitempty"`
}

// left is how long after a tare was killed the rest of it was gone, or was not.
type left struct {
	Number  int     `json:"number"`
	Jobs    int     `json:"jobs"`
	Seconds float64 `json:"seconds"`
	Gone    bool    `json:"gone"`
}

// swept is what was left of interrupted fits when the next one had swept.
type swept struct {
	Left []string `json:"left"`
}

// kinds are what is killed with SIGKILL, by turns.
var kinds = []string{"pod", "agent", "API server", "tare"}

const (
	// moreTrials and moreTime bound the moment of an interruption.
	moreTrials = 3
	moreTime   = 6 * time.Second
	// awayTime bounds how long the API server stays away.
	awayTime = 30 * time.Second
	// gone bounds the time until the rest of a killed tare is: the agent waits five minutes,
	// the job is removed a minute after its end.
	gone = 8 * time.Minute
	// references are fits that are not interrupted.
	references = 3
)

func interruptionsOf(all []record) (done []interruption, whole []interruption, rests []left) {
	for _, r := range all {
		switch {
		case r.Interruption != nil && r.Interruption.Number == 0:
			whole = append(whole, *r.Interruption)
		case r.Interruption != nil:
			done = append(done, *r.Interruption)
		case r.Left != nil:
			rests = append(rests, *r.Left)
		}
	}
	return done, whole, rests
}

func (b *bench) interruptionsLeft() bool {
	done, whole, _ := interruptionsOf(b.all)
	return len(whole) < references || len(done) < b.o.interruptions
}

// interruptions interrupts fits, one after the other.
func (b *bench) interruptions(ctx context.Context) error {
	done, whole, _ := interruptionsOf(b.all)
	for range min(references-len(whole), b.o.now) {
		if err := b.interrupt(ctx, &interruption{}); err != nil {
			return err
		}
	}
	defer b.rests.waiting.Wait()
	for n := len(done) + 1; n <= min(b.o.interruptions, len(done)+b.o.now); n++ {
		rng := rand.New(rand.NewPCG(b.o.seed, uint64(n)))
		i := &interruption{Number: n, Kind: kinds[(n-1)%len(kinds)], Trials: rng.IntN(moreTrials), Seconds: rng.Float64() * moreTime.Seconds()}
		if err := b.interrupt(ctx, i); err != nil {
			return fmt.Errorf("number %d, %s: %w", n, i.Kind, err)
		}
	}
	return b.sweep(ctx) // of this cluster
}

// short are the flags of fits that are interrupted.
var short = []string{"--trials", "6", "--baselines", "1", "--levers", "collector", "--confirmations", "1", "--proof", "short", "--ample", "256m", "--warmup", "1s", "--duration", "2s", "--slo", "errors=0", "--json"}

// interrupt makes one fit, interrupts it, and has it come to its end.
func (b *bench) interrupt(ctx context.Context, i *interruption) (err error) {
	begun := time.Now()
	kept := ""
	var answer *fitRun
	for again := 0; answer == nil; again++ {
		args := []string{"fit", "--store", kept, "--resume", "--json"}
		if i.Stored == 0 {
			kept = filepath.Join(b.dir, fmt.Sprintf("fits-%d-%d-%d.db", i.Number, begun.UnixNano(), again))
			args = append(append(append([]string{"fit", "--store", kept, "--runner", "kubernetes"}, short...), b.clusterFlags()...),
				"--load", "http://127.0.0.1:8080/health", "--", launcher, "-Xmx32m", "-jar", "/sysinfo.jar", "--port", "8080")
		}
		f, err := b.startFit(ctx, args)
		if err != nil {
			return err
		}
		first := i.Number > 0 && !i.Stopped
		if first {
			err = f.interruptAt(ctx, i)
		}
		if errors.Is(err, errEnded) {
			i.Trials = 0
			_ = f.wait() // another one is made
			continue
		}
		if err != nil {
			f.kill()
			return err
		}
		switch err := f.wait(); {
		case err == nil:
			if answer, err = readFit("kubernetes", f.out.Bytes()); err != nil {
				return err
			}
		case !first:
			return fmt.Errorf("the fit does not come to its end: %w: %s", err, f.said())
		default:
			i.Stopped, i.Ended = true, f.ended
			if i.Kind != "tare" {
				i.Said = f.said()
			}
			if i.Stored, err = stored(ctx, kept); err != nil {
				return err
			}
		}
	}
	i.LimitBytes, i.TotalSeconds = answer.LimitBytes, time.Since(begun).Seconds()
	if i.Behind, err = b.behind(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%2d %-10s after %d trials and %.1f s: stopped %v, %d of %d trials stored, %d MiB after %.0f s %q %s\n", i.Number, i.Kind, i.Trials, i.Seconds, i.Stopped, i.Stored, i.Ended, i.LimitBytes>>20, i.TotalSeconds, i.Behind, i.Said)
	return b.keep(record{Interruption: i})
}

// fit is one that runs.
type fit struct {
	*exec.Cmd
	b     *bench
	out   bytes.Buffer
	lines chan string
	// ended counts the trials that it said to have ended, last are its last lines.
	ended int
	last  []string
}

// said is what it said at its end.
func (f *fit) said() string { return strings.Join(f.last[max(0, len(f.last)-2):], "; ") }

var errEnded = errors.New("the fit ended before it was interrupted")

func (b *bench) startFit(ctx context.Context, args []string) (*fit, error) {
	f := &fit{Cmd: exec.CommandContext(ctx, "bin/tare", args...), b: b, lines: make(chan string, 1000)}
	f.Stdout = &f.out
	pipe, err := f.StderrPipe()
	if err == nil {
		err = f.Start()
	}
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(f.lines)
		for sc := bufio.NewScanner(pipe); sc.Scan(); {
			f.lines <- sc.Text()
		}
	}()
	return f, nil
}

var trialLine = regexp.MustCompile(`^ *(\d+) +\d+ MiB  `)

// note looks at a line of stderr, and tells whether a trial has ended.
func (f *fit) note(line string) bool {
	if strings.TrimSpace(line) != "" {
		f.last = append(f.last, strings.TrimSpace(line))
	}
	m := trialLine.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n <= f.ended {
		return false
	}
	f.ended = n
	return true
}

func (f *fit) kill() {
	_ = f.Process.Kill() // it may have ended
	_ = f.wait()
}

func (f *fit) wait() error {
	for line := range f.lines {
		f.note(line)
	}
	return f.Cmd.Wait()
}

// interruptAt kills what is to be killed when the moment is there.
func (f *fit) interruptAt(ctx context.Context, i *interruption) error {
	after := time.Duration(i.Seconds * float64(time.Second))
	var moment <-chan time.Time
	trials := i.Trials
	if trials == 0 {
		moment = time.After(after)
	}
	for {
		select {
		case line, more := <-f.lines:
			if !more {
				return errEnded
			}
			if f.note(line) {
				if trials--; trials == 0 {
					moment = time.After(after)
				}
			}
		case <-moment:
			return f.b.kill9(ctx, f, i)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// kill9 kills what an interruption is of. Where no pod runs at the moment, it waits for
// the next.
func (b *bench) kill9(ctx context.Context, f *fit, i *interruption) error {
	switch i.Kind {
	case "tare":
		if err := f.Process.Kill(); err != nil {
			return err
		}
		return b.watchRest(ctx, i.Number)
	case "API server":
		return b.KillControlPlane(ctx, time.Duration(i.Seconds/moreTime.Seconds()*float64(awayTime)))
	}
	return until(ctx, time.Minute, "a pod to kill", func() (bool, error) {
		pods, err := b.trialPods(ctx)
		if err != nil {
			return false, err
		}
		for _, p := range pods {
			pids, err := b.victims(p, i.Kind)
			if err != nil || len(pids) == 0 || p.Metadata.Deleted != nil {
				continue
			}
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended with another one
			}
			return true, nil
		}
		return false, nil
	})
}

// victims are the processes of a pod, or of its agent alone.
func (b *bench) victims(p kubeapi.Pod, kind string) ([]int, error) {
	if kind == "pod" {
		return b.Processes(p.Metadata.UID, "")
	}
	for _, s := range p.Status.Containers {
		if s.Name == "tare" && s.State.Running != nil {
			return b.Processes(p.Metadata.UID, kubeapi.ID(s.ContainerID))
		}
	}
	return nil, nil
}

package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/store"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/testkit/results"
)

var (
	fitKills    = flag.Int("kills", 5, "random moments at which a fit is killed")
	fitKillSeed = flag.Uint64("kills.seed", 1, "decides on the moments")
	fitKillsOut = flag.String("kills.out", "", "file for what came of the kills, in Markdown")
)

// A fit is killed after up to killTrials trials, and so much more time.
const (
	killTrials = 2
	killWithin = 3 * time.Second
)

// killed is a fit that is killed again and again, in a world of its own.
type killed struct {
	t     *testing.T
	dir   string // for temporary files, and the store
	store string
	args  []string
	// marker is in the command line of the application alone.
	marker string
	// seen is how many trials were said to have ended, of the fit so far.
	seen int
	// ended counts fits that came to their end, resumed those that went on.
	ended, resumed, trials int
}

// TestFitSurvivesKills kills tare at random moments, at its start, in trials,
// between them, while it stores. After the next start nothing of the killed one
// is left, and every trial that it said had ended is stored.
func TestFitSurvivesKills(t *testing.T) {
	port := strconv.Itoa(jvmtest.FreePort(t))
	k := &killed{t: t, dir: t.TempDir(), marker: "-Dtare.test.kills=" + port}
	k.args = []string{"--ample", "256m", "--warmup", "0", "--duration", "300ms", "--rate", "20", "--baselines", "1", "--proof", "short",
		"--load", "http://127.0.0.1:" + port + "/health", "--", jvmtest.Java(t, 17), k.marker, "-jar", jvmtest.Jar(t, "sysinfo.jar"), "--port", port, "--log-level", "error"}
	rng := rand.New(rand.NewPCG(*fitKillSeed, 0))
	for kills := 0; kills < *fitKills; {
		if k.run(rng.IntN(killTrials+1), time.Duration(rng.Int64N(int64(killWithin)))) {
			kills++
		}
		if t.Failed() {
			t.Fatalf("after %d kills, with seed %d", kills, *fitKillSeed)
		}
	}
	k.last()
	if k.trials == 0 || k.resumed == 0 {
		t.Errorf("%d trials ended, %d fits went on: nothing was there to lose", k.trials, k.resumed)
	}
	if *fitKillsOut != "" && !t.Failed() {
		k.write(*fitKillsOut)
	}
}

// run starts a fit, or goes on with the one before, checks what that had left,
// and kills it after some trials and a while. It is false where the fit ended
// before.
func (k *killed) run(trials int, after time.Duration) bool {
	k.t.Helper()
	orphans := k.processes()
	cmd, lines := k.start()
	k.gone(orphans)
	var moment <-chan time.Time
	if trials == 0 {
		moment = time.After(after)
	}
	for running := true; running; {
		select {
		case line, more := <-lines:
			running = more
			if k.note(line) {
				if trials--; trials == 0 {
					moment = time.After(after)
				}
			}
		case <-moment:
			_ = cmd.Process.Kill() // it may have ended
			moment = nil
		}
	}
	err := cmd.Wait()
	k.checkStore()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return true
	}
	if err != nil {
		k.t.Errorf("the fit ended by itself: %v", err)
	}
	k.ended++
	k.forget()
	return false
}

// start starts tare fit and reads its stderr, line by line.
func (k *killed) start() (*exec.Cmd, <-chan string) {
	k.t.Helper()
	if k.store == "" {
		k.store = filepath.Join(k.dir, fmt.Sprintf("fits-%d.db", k.ended))
	}
	args := append([]string{"fit", "--store", k.store}, k.args...)
	if f := k.fit(); f != nil {
		args = []string{"fit", "--store", k.store, "--resume"}
		k.resumed++
	}
	cmd := tareCommand(k.t, args...)
	cmd.Env = append(cmd.Env, "TMPDIR="+filepath.Join(k.dir, "tmp"), "TARE_CACHE="+filepath.Join(k.dir, "cache"))
	if err := os.MkdirAll(filepath.Join(k.dir, "tmp"), 0o755); err != nil {
		k.t.Fatal(err)
	}
	pipe, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		k.t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for sc := bufio.NewScanner(pipe); sc.Scan(); {
			lines <- sc.Text()
		}
	}()
	return cmd, lines
}

var trialLine = regexp.MustCompile(`^ *(\d+) +\d+ MiB  `)

// note looks at a line of stderr: "  3  304 MiB  as given: passed …" says that trial 3 has ended. It
// tells whether that is news.
func (k *killed) note(line string) bool {
	m := trialLine.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n <= k.seen {
		return false
	}
	k.seen = n
	k.trials++
	return true
}

// fit is the stored one that can go on, nil without one.
func (k *killed) fit() *store.Fit {
	k.t.Helper()
	if _, err := os.Stat(k.store); err != nil {
		return nil // killed before it made one
	}
	s, err := store.Open(k.t.Context(), k.store)
	if err != nil {
		k.t.Fatal(err)
	}
	defer s.Close()
	fits, err := s.Fits(k.t.Context())
	if err != nil || len(fits) > 1 {
		k.t.Fatalf("%d fits, %v", len(fits), err)
	}
	if len(fits) == 0 || fits[0].State != store.CutOff {
		return nil
	}
	return &fits[0]
}

// checkStore fails when a trial is lost that was said to have ended.
func (k *killed) checkStore() {
	k.t.Helper()
	if f := k.fit(); f != nil && f.Trials < k.seen {
		k.t.Errorf("%d trials are stored, and %d had ended", f.Trials, k.seen)
	}
}

// forget begins a new fit.
func (k *killed) forget() { k.store, k.seen = "", 0 }

// orphan is a process that may be gone, and its number another's.
type orphan struct {
	pid   int
	start uint64
}

// processes are those of the application.
func (k *killed) processes() []orphan {
	k.t.Helper()
	proc := linux.NewFS("/proc")
	pids, err := proc.PIDs()
	if err != nil {
		k.t.Fatal(err)
	}
	var out []orphan
	for _, pid := range pids {
		args, err := os.ReadFile(proc.Path(pid, "cmdline"))
		if err != nil || !strings.Contains(string(args), "\x00"+k.marker+"\x00") || strings.Contains(string(args), "\x00fit\x00") {
			continue
		}
		if b, err := proc.Birth(pid); err == nil && !b.Ended {
			out = append(out, orphan{pid, b.StartTicks})
		}
	}
	return out
}

// gone waits until the next start has ended what the killed one had left.
func (k *killed) gone(orphans []orphan) {
	k.t.Helper()
	proc := linux.NewFS("/proc")
	polltest.Until(k.t, "the end of what was left", func() bool {
		for _, o := range orphans {
			if b, err := proc.Birth(o.pid); err == nil && b.StartTicks == o.start && !b.Ended {
				return false
			}
		}
		return true
	})
}

// last starts it once more and interrupts it, and then nothing at all is left.
func (k *killed) last() {
	k.t.Helper()
	orphans := k.processes()
	cmd, lines := k.start()
	interrupt := sync.OnceFunc(func() { _ = cmd.Process.Signal(os.Interrupt) }) // it may have ended
	for line := range lines {                                                   // it has swept before the first
		k.note(line)
		interrupt() // once: at the second it would drop everything
	}
	_ = cmd.Wait() // the exit code tells
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted && code != exitOK {
		k.t.Errorf("exit code %d", code)
	}
	k.gone(orphans)
	k.checkStore()
	nothingLeft(k.t)
	if left := k.processes(); len(left) > 0 {
		k.t.Errorf("processes left: %v", left)
	}
	files, err := os.ReadDir(filepath.Join(k.dir, "tmp"))
	if err != nil || len(files) > 0 {
		k.t.Errorf("temporary files left: %v, %v", files, err)
	}
}

func (k *killed) write(path string) {
	body := fmt.Sprintf("`tare fit` for the demo service, with short trials, killed (SIGKILL) at %d random moments, up to %d trials and %s after its start (seed %d), and started again, %d times with `--resume`. "+
		"%d trials ended, %d fits came to their end in the meantime.\n\n"+
		"- control groups, processes and temporary files left after the next start: none: reached\n- finished trials lost: none: reached\n",
		*fitKills, killTrials, killWithin, *fitKillSeed, k.resumed, k.trials, k.ended)
	if err := os.WriteFile(path, []byte(results.Text("Kills", "make bench-kills", body)), 0o644); err != nil {
		k.t.Error(err)
	}
}

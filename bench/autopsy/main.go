// Command autopsy ends JVMs in many ways beside an agent with its defaults, and counts
// how many verdicts of tare autopsy are right.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/testkit/results"
)

// raw keeps what was measured, a cell a line, so that a run goes on where it stopped.
const raw = "docs/results/raw/autopsy.jsonl"

// outcome is what was found of a cell.
type outcome struct {
	Cell string `json:"cell"`
	// Verdict is with all there is, Ledger with the ledger alone, Log with the kernel's
	// log alone; "" where it has nothing of it.
	Verdict autopsy.Verdict `json:"verdict"`
	Ledger  autopsy.Verdict `json:"ledger"`
	Log     autopsy.Verdict `json:"log"`
	Sure    string          `json:"sure"`
	Grew    autopsy.Account `json:"grew"`
	// Age is of the last footprint at the kill, in seconds, Seen the usage that it saw,
	// of the limit; -1 without one.
	Age  float64 `json:"age"`
	Seen float64 `json:"seen"`
	Load string  `json:"load"`
	// Budget is the agent's.
	Budget string `json:"budget,omitempty"`
}

func main() {
	cache := flag.String("cache", os.Getenv("TARE_CACHE"), "folder that holds jdks")
	jdk := flag.String("jdk", "17", "JDK of the JVMs")
	budget := flag.String("budget", "1%", "of the agent: more where the machine has many other JVMs, which it watches as well")
	some := flag.String("cells", "", "regular expression: make only these ends, and print what was found of them")
	flag.Parse()
	java := filepath.Join(*cache, "jdks", *jdk, "bin", "java")
	measure := run
	if *some != "" {
		measure = func(java, budget string) error { return trySome(java, budget, *some) }
	}
	if err := measure(java, *budget); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(java, budget string) error {
	done := map[string]outcome{}
	kept, err := records.Open(raw, func(line []byte) error {
		var o outcome
		err := json.Unmarshal(line, &o)
		if o.Budget == budget { // of another agent it is another figure
			done[o.Cell] = o
		}
		return err
	})
	if err != nil {
		return err
	}
	var left []cell
	for _, c := range cells() {
		if _, ok := done[c.name]; !ok {
			left = append(left, c)
		}
	}
	if len(left) > 0 {
		if err := makeAll(java, budget, left, done, kept); err != nil {
			return err
		}
	}
	return results.Write("autopsy", "Why JVMs ended, as made and as found", "make bench-autopsy", text(done, budget))
}

// trySome makes the ends whose name matches.
func trySome(java, budget, some string) error {
	wanted, err := regexp.Compile(some)
	if err != nil {
		return fmt.Errorf("-cells: %w", err)
	}
	for _, c := range cells() {
		if !wanted.MatchString(c.name) {
			continue
		}
		if _, err := tell(java, budget, c); err != nil {
			return err
		}
	}
	return nil
}

// makeAll makes the ends that are left.
func makeAll(java, budget string, left []cell, done map[string]outcome, kept *records.File) error {
	for _, c := range left {
		o, err := tell(java, budget, c)
		if err != nil {
			return err
		}
		if err := kept.Append(o); err != nil {
			return err
		}
		done[c.name] = o
	}
	return nil
}

// tell makes one end, and says what was found.
func tell(java, budget string, c cell) (outcome, error) {
	o, err := watched(java, budget, c)
	if err != nil {
		return o, fmt.Errorf("%s: %w", c.name, err)
	}
	fmt.Fprintf(os.Stderr, "%-45s %-20s %-9s grew %-15s %.2f s, %.0f %%\n", c.name, o.Verdict, o.Sure, o.Grew, o.Age, 100*o.Seen)
	return o, nil
}

// watched makes one end beside an agent of its own: one with its defaults has a minute's
// budget saved when a JVM that it watches comes near its end, and not that of a machine on
// which four JVMs a minute are killed.
func watched(java, budget string, c cell) (o outcome, err error) {
	dir, err := os.MkdirTemp("", "tare-bench-autopsy-")
	if err != nil {
		return o, err
	}
	defer os.RemoveAll(dir)
	agent := exec.Command("bin/tare", "agent", "--ledger", dir, "--budget", budget)
	if err := agent.Start(); err != nil {
		return o, err
	}
	o, err = one(java, dir, c)
	o.Budget = budget
	return o, errors.Join(err, agent.Process.Signal(unix.SIGTERM), agent.Wait())
}

// one makes one end, and its autopsy.
func one(java, dir string, c cell) (o outcome, err error) {
	j, err := start(java, c)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, j.remove()) }()
	pid := j.Process.Pid
	if err := await(dir, pid, func(r ledger.Record) bool { return r.Footprint != nil }); err != nil {
		return o, fmt.Errorf("its first footprint: %w", err)
	}
	if err := j.finish(c); err != nil {
		return o, err
	}
	over := func(r ledger.Record) bool { return r.Event != nil && r.Event.Kind == ledger.Ended }
	if c.lives {
		over = func(r ledger.Record) bool { return r.Event != nil && r.Event.Kind == ledger.OOMKill }
	}
	if err := await(dir, pid, over); err != nil {
		return o, fmt.Errorf("its end: %w", err)
	}
	return examine(dir, pid, c)
}

// finish has the JVM do what ends it.
func (j *jvm) finish(c cell) error {
	if c.end != nil {
		return c.end(j)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(3 * time.Minute); ; {
		select {
		case <-j.gone:
			return nil
		case <-deadline:
			return errors.New("it did not end")
		case <-tick.C:
			if err := j.tell(c.take); err != nil {
				return err
			}
		}
	}
}

// await waits until the ledger has such a record of a process.
func await(dir string, pid int, is func(ledger.Record) bool) error {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		r, err := ledger.OpenReader(dir)
		if errors.Is(err, ledger.ErrNone) {
			continue
		}
		if err != nil {
			return err
		}
		found := false
		if _, err := r.Since(0, func(rec ledger.Record) bool {
			found = rec.Process.PID == pid && is(rec)
			return !found
		}); err != nil {
			return err
		}
		if found {
			return nil
		}
	}
	return errors.New("it was not told within two minutes")
}

// examine makes the autopsy with all there is, and with each part alone.
func examine(dir string, pid int, c cell) (outcome, error) {
	o := outcome{Cell: c.name, Age: -1, Seen: -1, Load: load()}
	reader, err := ledger.OpenReader(dir)
	if err != nil {
		return o, err
	}
	proc := linux.NewFS("/proc")
	boot, err := proc.BootID()
	if err != nil {
		return o, err
	}
	log, err := kernellog.Kmsg()
	if err != nil {
		return o, err
	}
	name := strconv.Itoa(pid)
	r, err := autopsy.Sources{Ledger: reader, Log: log, LogBoot: boot, Proc: proc}.Find(name)
	if err != nil {
		return o, err
	}
	o.Verdict, o.Sure = r.Verdict, string(r.Confidence)
	if len(r.Growth) > 0 {
		o.Grew = r.Growth[0].Account
	}
	if n := len(r.Moments); n > 0 {
		m := r.Moments[n-1]
		o.Age = m.BeforeSeconds
		if m.LimitBytes > 0 {
			o.Seen = float64(m.UsageBytes) / float64(m.LimitBytes)
		}
	}
	if r, err = (autopsy.Sources{Ledger: reader, Proc: proc}).Find(name); err != nil {
		return o, err
	}
	o.Ledger = r.Verdict
	if r, err = (autopsy.Sources{Log: log, LogBoot: boot, Proc: proc}).Find(name); err == nil {
		o.Log = r.Verdict
	} else if !errors.Is(err, autopsy.ErrNotFound) {
		return o, err
	}
	return o, nil
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	return strings.Fields(string(text))[0]
}

// text is the page: what was right, and the age of the last footprint by speed.
func text(done map[string]outcome, budget string) string {
	var b strings.Builder
	all := cells()
	right, rightLedger, grew, grows := 0, 0, 0, 0
	kills, byLog := 0, 0
	loads := []float64{}
	for _, c := range all {
		o := done[c.name]
		right += count(o.Verdict == c.want)
		rightLedger += count(o.Ledger == c.want)
		grows += count(c.grew != "")
		grew += count(c.grew != "" && o.Grew == c.grew)
		kills += count(c.rate > 0)
		byLog += count(c.rate > 0 && o.Log == c.want)
		l, _ := strconv.ParseFloat(o.Load, 64)
		loads = append(loads, l)
	}
	fmt.Fprintf(&b, "%d JVMs of JDK 17 (Serial, interpreted) ended in %d ways, each beside a `tare agent --budget %s` that was started anew and watched all JVMs of the machine: growth to the limit of 256 MiB (128 at 5 MiB/s), told every tenth of a second; signals, errors and exits. Control groups of version 1. Load of the machine (1 minute) while it ran: median %.0f, at most %.0f, on 2 processors.\n\n", len(all), len(all), budget, results.Median(loads), slices.Max(loads))
	fmt.Fprintf(&b, "| | right | of |\n|---|---:|---:|\n| verdicts, ledger and kernel's log | %d | %d |\n| verdicts, ledger alone | %d | %d |\n| verdicts, kernel's log alone, of kills for memory | %d | %d |\n| what grew most, where something grew | %d | %d |\n\n", right, len(all), rightLedger, len(all), byLog, kills, grew, grows)
	b.WriteString(byKind(all, done))
	b.WriteString("Not among them: the machine's own limit, and control groups of version 2. A test has both in a virtual machine (TestKillsOnV2), on Linux 6.1, and with -autopsy.kernels on 5.10, 6.12 and the newest of Debian too; the corpus of logs has both. At 1000 MiB/s a JVM may be killed between two looks: what grew is then not known, and the autopsy says so.\n\n")
	b.WriteString("## The last footprint\n\nBy the speed of growth: how old the last footprint was when the kernel killed, by its log, and how much of the limit it saw. Goal: a median of at most 1 s and 90 % up to 50 MiB/s.\n\n| MiB/s | kills | age, median (least, most) | saw, median (least, most) | goal |\n|---:|---:|---:|---:|---|\n")
	for _, rate := range rates {
		var ages, seen []float64
		for _, c := range all {
			if o := done[c.name]; c.rate == rate && o.Seen >= 0 {
				// One that was taken while the process was killed is as old as 0.
				ages, seen = append(ages, max(0, o.Age)), append(seen, 100*o.Seen)
			}
		}
		goal := ""
		if rate <= 50 {
			goal = results.Reached(results.Median(ages) <= 1 && results.Median(seen) >= 90)
		}
		fmt.Fprintf(&b, "| %d | %d | %.2f s (%.2f, %.2f) | %.0f %% (%.0f, %.0f) | %s |\n", rate, len(ages), results.Median(ages), slices.Min(ages), slices.Max(ages), results.Median(seen), slices.Min(seen), slices.Max(seen), goal)
	}
	b.WriteString("\n## Each\n\n| made | found | certainty | ledger alone | kernel's log alone | grew most |\n|---|---|---|---|---|---|\n")
	for _, c := range all {
		o := done[c.name]
		fmt.Fprintf(&b, "| %s | %s%s | %s | %s%s | %s | %s |\n", c.name, o.Verdict, wrong(o.Verdict, c.want), o.Sure, o.Ledger, wrong(o.Ledger, c.want), o.Log, o.Grew)
	}
	return b.String()
}

// byKind is how many ends of each kind were found, and of those that grew, what grew.
func byKind(all []cell, done map[string]outcome) string {
	var b strings.Builder
	b.WriteString("| made | ends | right | what grew most | of |\n|---|---:|---:|---:|---:|\n")
	for _, kind := range []autopsy.Verdict{autopsy.ContainerLimit, autopsy.ParentLimit, autopsy.ChildKilled, autopsy.OutOfMemoryError, autopsy.Killed, autopsy.NativeCrash, autopsy.Exited} {
		ends, right, grew, grows := 0, 0, 0, 0
		for _, c := range all {
			if c.want != kind {
				continue
			}
			o := done[c.name]
			ends++
			right += count(o.Verdict == kind)
			grows += count(c.grew != "")
			grew += count(c.grew != "" && o.Grew == c.grew)
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", kind, ends, right, grew, grows)
	}
	return b.String() + "\n"
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

func wrong(got, want autopsy.Verdict) string {
	if got == want {
		return ""
	}
	return " (**wrong**: " + string(want) + ")"
}

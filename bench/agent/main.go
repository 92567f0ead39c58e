// Command agent measures what tare agent takes while it watches many JVMs, and
// what its ledger has of JVMs that grow to their limit and are killed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/grouptest"
	"tare.dev/tare/internal/testkit/results"
)

type options struct {
	java        string
	jvms, kills int
	watched     time.Duration
	rates       []int // MiB a second
	limit       int64 // bytes, of what is killed
	// newest is a JDK that calls native functions, heap what its JVM has for the stalls
	// of it, pairs how often they are measured.
	newest, heap string
	pairs        int
	// trees are so many recorded JVMs, watched for so long of a clock that waits for nothing.
	trees    int
	treesFor time.Duration
}

func main() {
	var o options
	cache := flag.String("cache", os.Getenv("TARE_CACHE"), "folder that holds jdks")
	jdk := flag.String("jdk", "17", "JDK of the JVMs that are watched")
	flag.IntVar(&o.jvms, "jvms", 100, "JVMs that are watched")
	flag.DurationVar(&o.watched, "watched", 5*time.Minute, "how long they are watched")
	flag.IntVar(&o.kills, "kills", 5, "kills at each speed of growth")
	flag.StringVar(&o.heap, "heap", "8g", "heap of the JVM whose stalls are measured")
	flag.IntVar(&o.pairs, "pairs", 8, "pairs of spans with and without weighing")
	flag.IntVar(&o.trees, "trees", 1000, "JVMs that are watched by recorded trees")
	flag.DurationVar(&o.treesFor, "trees-for", 20*time.Minute, "how long those are watched, by a clock that waits for nothing")
	stallsAlone := flag.Bool("stalls", false, "measure the stalls alone, and print them")
	treesAlone := flag.Bool("only-trees", false, "watch recorded trees alone, and print what that takes")
	manyAlone := flag.Bool("only-many", false, "watch real JVMs alone, and print what that takes")
	planted := flag.String("watch-trees", "", "watch the recorded trees in this folder (for this program's own use)")
	share := flag.Float64("share", 0.01, "budget of -watch-trees")
	flag.Parse()
	o.newest = filepath.Join(*cache, "jdks", "25")
	o.java, o.rates, o.limit = filepath.Join(*cache, "jdks", *jdk, "bin", "java"), []int{20, 50, 200}, 256<<20
	measure := run
	printed := func(part func(options) (string, error)) func(options) error {
		return func(o options) error {
			text, err := part(o)
			fmt.Print(text)
			return err
		}
	}
	switch {
	case *planted != "":
		measure = func(o options) error { return watchPlanted(*planted, *share, o) }
	case *stallsAlone:
		measure = printed(stalls)
	case *treesAlone:
		measure = printed(watchTrees)
	case *manyAlone:
		measure = printed(watchMany)
	}
	if err := measure(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures all parts, and files them.
func run(o options) error {
	var all strings.Builder
	for _, part := range []func(options) (string, error){watchMany, watchTrees, watchKills, stalls} {
		text, err := part(o)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, text)
		all.WriteString(text + "\n")
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	fmt.Fprintf(&all, "Load of the machine (1, 5, 15 minutes) at the end: %s.\n", strings.Join(strings.Fields(string(load))[:3], " "))
	return results.Write("agent", "What watching all JVMs of a machine takes, and what it has of those that were killed", "make bench-agent", all.String())
}

// holder is a JVM that takes memory as it is told on its standard input.
type holder struct {
	*exec.Cmd
	in interface{ Write([]byte) (int, error) }
}

// start starts a holder; group is the folder of the control group that it enters
// first, "" for none.
func start(o options, group string, args ...string) (*holder, error) {
	enter := ""
	if group != "" {
		enter = grouptest.Enter(group)
	}
	args = append([]string{"-c", enter + `exec "$0" "$@"`, o.java, "-Xint", "-XX:+UseSerialGC"}, args...)
	h := &holder{Cmd: exec.Command("/bin/sh", append(args, "-jar", "bin/workloads.jar", "holder", "1")...)}
	in, err := h.StdinPipe()
	if err != nil {
		return nil, err
	}
	h.in = in
	return h, h.Start()
}

// lives says whether the JVM still runs: it has ended when it waits to be waited
// for.
func (h *holder) lives() bool {
	birth, err := linux.NewFS("/proc").Birth(h.Process.Pid)
	return err == nil && !birth.Ended
}

func (h *holder) end() {
	_ = h.Process.Kill() // it may have ended
	_ = h.Wait()
}

// watcher is a tare agent as a process of its own.
type watcher struct {
	*exec.Cmd
	dir string
}

func startAgent(args ...string) (*watcher, error) {
	dir, err := os.MkdirTemp("", "tare-bench-agent-")
	if err != nil {
		return nil, err
	}
	a := &watcher{Cmd: exec.Command("bin/tare", append([]string{"agent", "--ledger", dir}, args...)...), dir: dir}
	a.Stderr = os.Stderr
	return a, a.Start()
}

// stop ends the agent in good order.
func (a *watcher) stop() error {
	return errors.Join(a.Process.Signal(unix.SIGTERM), a.Wait())
}

// processor is the processor time that the agent has taken, in ticks of a
// hundredth of a second.
func (a *watcher) processor() (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(a.Process.Pid), "stat"))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// minutes are what an agent took in each minute, in percent of a processor, and the
// highest resident memory of it.
func (a *watcher) minutes(total time.Duration) (percents []float64, peak int64, err error) {
	last := time.Duration(0)
	for range int(total / time.Minute) {
		time.Sleep(time.Minute)
		now, err := a.processor()
		if err != nil {
			return nil, 0, err
		}
		percents = append(percents, 100*(now-last).Seconds()/60)
		last = now
	}
	st, err := linux.NewFS("/proc").Status(a.Process.Pid)
	return percents, st.VmHWM, err
}

// watchMany watches many JVMs that stand still but for what a JVM does by itself.
func watchMany(o options) (string, error) {
	var all []*holder
	defer func() {
		for _, h := range all {
			h.end()
		}
	}()
	for range o.jvms {
		h, err := start(o, "", "-Xmx16m")
		if err != nil {
			return "", err
		}
		all = append(all, h)
		time.Sleep(200 * time.Millisecond) // two processors start some five in a second
	}
	a, err := startAgent()
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(a.dir)
	percents, peak, err := a.minutes(o.watched)
	if err = errors.Join(err, a.stop()); err != nil {
		return "", err
	}
	counts, err := count(a.dir)
	if err != nil {
		return "", err
	}
	for _, h := range all {
		if !h.lives() {
			return "", fmt.Errorf("process %d ended before it was to", h.Process.Pid)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %d JVMs\n\n%d JVMs (Serial, interpreted, `-Xmx16m`), one agent with its defaults: a look at each every 10 s, 1 %% of a processor, 64 MiB. A machine of %d processes.\n\n", o.jvms, o.jvms, processes())
	fmt.Fprintf(&b, "| minute | processor of the agent, %% of one |\n|---:|---:|\n")
	for i, p := range percents {
		fmt.Fprintf(&b, "| %d | %.2f |\n", i+1, p)
	}
	fmt.Fprintf(&b, "\nHighest resident memory (VmHWM): %.1f MiB, target 64: %s. All minutes together: %.2f %% of a processor; a full bucket, 0.6 s, is spent in the first.\n\n",
		float64(peak)/(1<<20), results.Reached(peak <= 64<<20), mean(percents))
	fmt.Fprintf(&b, "In the ledger: %d looks, %d footprints of %d JVMs; %d looks would have been one each every 10 s.\n",
		counts.looks, counts.footprints, len(counts.weighed), o.jvms*int(o.watched/(10*time.Second)))
	return b.String(), nil
}

func processes() int {
	pids, err := linux.NewFS("/proc").PIDs()
	if err != nil {
		return 0
	}
	return len(pids)
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

type counted struct {
	looks, footprints int
	weighed           map[ledger.ID]bool
}

func count(dir string) (counted, error) {
	c := counted{weighed: map[ledger.ID]bool{}}
	r, err := ledger.OpenReader(dir)
	if err != nil {
		return c, err
	}
	_, err = r.Since(0, func(rec ledger.Record) bool {
		if rec.Counters != nil {
			c.looks++
		}
		if rec.Footprint != nil {
			c.footprints++
			c.weighed[rec.Process] = true
		}
		return true
	})
	return c, err
}

// kill is what a ledger has of a JVM that was killed; without a footprint it saw
// nothing.
type kill struct {
	age   time.Duration // of the last footprint, when the process was seen to be gone
	seen  float64       // the usage that it saw, of the limit
	told  bool          // the ledger tells of the kill
	spent time.Duration // by the agent until then
}

// watchKills lets JVMs grow to their limit at several speeds.
func watchKills(o options) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "## Kills\n\nA JVM in a group of %d MiB takes direct buffers, every tenth of a second some, until the kernel kills it; %d times at each speed, each time with a fresh agent with its defaults. The age is that of the last footprint when the process was gone; a JVM without a footprint would have an age and a usage of 0.\n\n", o.limit>>20, o.kills)
	b.WriteString("| growth, MiB/s | age, median (all) | usage that it saw, % of the limit, median (all) | kills told | processor of the agent, median (all) |\n|---:|---:|---:|---:|---:|\n")
	for _, rate := range o.rates {
		var ages, seen, spent []float64
		told := 0
		for range o.kills {
			k, err := killOne(o, rate)
			if err != nil {
				return "", err
			}
			ages, seen, spent = append(ages, k.age.Seconds()), append(seen, 100*k.seen), append(spent, k.spent.Seconds())
			if k.told {
				told++
			}
		}
		fmt.Fprintf(&b, "| %d | %.2f s (%s) | %.1f (%s) | %d of %d | %.2f s (%s) |\n", rate, results.Median(ages), each(ages, "%.2f"), results.Median(seen), each(seen, "%.0f"), told, o.kills, results.Median(spent), each(spent, "%.2f"))
	}
	return b.String(), nil
}

func each(values []float64, format string) string {
	values = slices.Sorted(slices.Values(values))
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprintf(format, v)
	}
	return strings.Join(texts, ", ")
}

// killOne grows one JVM until it is killed. It is watched for some time before.
func killOne(o options, rate int) (k kill, err error) {
	a, err := startAgent()
	if err != nil {
		return k, err
	}
	defer os.RemoveAll(a.dir)
	k, err = a.grow(o, rate)
	return k, errors.Join(err, a.stop())
}

// grow grows one JVM beside an agent until it is killed.
func (a *watcher) grow(o options, rate int) (k kill, err error) {
	group, _, err := grouptest.Make("", o.limit)
	if err != nil {
		return k, err
	}
	h, err := start(o, group, "-Xmx32m", "-XX:MaxDirectMemorySize=2g")
	if err != nil {
		return k, err
	}
	time.Sleep(6 * time.Second) // it is weighed first
	if !h.lives() {
		return k, fmt.Errorf("process %d ended before it grew: %v", h.Process.Pid, h.Wait())
	}
	gone := make(chan time.Duration, 1)
	go func() {
		_ = h.Wait() // it is killed
		gone <- uptime()
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(5 * time.Minute); ; {
		select {
		case at := <-gone:
			time.Sleep(3 * time.Second) // the next glance sees the end
			k, err = lastOf(a.dir, h.Process.Pid, at, o.limit)
			if err == nil {
				k.spent, err = a.processor()
			}
			return k, errors.Join(err, os.Remove(group))
		case <-deadline:
			h.Process.Kill()
			return k, errors.New("the JVM was not killed")
		case <-tick.C:
			fmt.Fprintf(h.in, "direct %d\n", rate*1024/10) // an error is its end
		}
	}
}

func uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // Linux has it
	}
	return time.Duration(t.Nano())
}

// lastOf is what a ledger has of the end of a process.
func lastOf(dir string, pid int, gone time.Duration, limit int64) (k kill, err error) {
	r, err := ledger.OpenReader(dir)
	if err != nil {
		return k, err
	}
	_, err = r.Since(0, func(rec ledger.Record) bool {
		switch {
		case rec.Process.PID != pid:
		case rec.Footprint != nil:
			k.age, k.seen = gone-rec.Uptime, float64(rec.Footprint.Usage)/float64(limit)
		case rec.Event != nil && rec.Event.Kind == ledger.OOMKill:
			k.told = true
		}
		return true
	})
	return k, err
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/program"
	"tare.dev/tare/internal/testkit/results"
)

// size is a JVM to weigh.
type size struct {
	name            string
	threads, heapKB int
	heap            string // its limit
	goal            time.Duration
	// needs is the memory that the machine must have left.
	needs int64
	// rounds bounds the rounds where each takes long; 0 does not.
	rounds int
}

var sizes = []size{
	{name: "100 threads", threads: 100, heapKB: 100, heap: "128m", goal: 15 * time.Millisecond, needs: 1 << 30},
	{name: "1000 threads", threads: 1000, heapKB: 100, heap: "512m", goal: 40 * time.Millisecond, needs: 2 << 30},
	{name: "10 000 threads", threads: 10_000, heapKB: 10, heap: "1g", goal: 300 * time.Millisecond, needs: 4 << 30, rounds: 7},
	{name: "8 GiB of heap", threads: 80, heapKB: 8 << 20 / 80, heap: "10g", goal: 120 * time.Millisecond, needs: 12 << 30},
}

// tool is one way to look at a JVM. look returns the processor time that its process
// took, 0 where it is no process of its own.
type tool struct {
	name string
	look func(home string, pid int) (time.Duration, error)
}

// taken is what the rounds of a tool took, in milliseconds: of the clock, and of
// processors.
type taken struct{ wall, processor []float64 }

// beside are the tools that do not change with the tare that is measured.
var beside = []tool{
	{"weighing alone", func(_ string, pid int) (time.Duration, error) {
		_, err := footprint.Weigh(context.Background(), pid, footprint.Options{})
		return 0, err
	}},
	{"jcmd summary", func(home string, pid int) (time.Duration, error) {
		return command(filepath.Join(home, "bin", "jcmd"), strconv.Itoa(pid), "VM.native_memory", "summary")
	}},
	{"jcmd detail", func(home string, pid int) (time.Duration, error) {
		return command(filepath.Join(home, "bin", "jcmd"), strconv.Itoa(pid), "VM.native_memory", "detail")
	}},
	{"pmap -X", func(_ string, pid int) (time.Duration, error) { return command("pmap", "-X", strconv.Itoa(pid)) }},
}

// weighWith weighs with a program, from its start to its end.
func weighWith(tare string) func(string, int) (time.Duration, error) {
	return func(_ string, pid int) (time.Duration, error) { return command(tare, "weigh", strconv.Itoa(pid)) }
}

// tools are what is timed: all, and the earlier tare where one was given. Of both
// programs dir holds a copy: one that lies as the linker wrote it takes up to a
// quarter longer to start than a copy of the same bytes.
func (o options) tools(dir string) ([]tool, error) {
	now, err := copied("bin/tare", filepath.Join(dir, "tare-now"))
	if err != nil {
		return nil, err
	}
	tools := append([]tool{{"tare weigh", weighWith(now)}}, beside...)
	if o.base == "" {
		return tools, nil
	}
	before, err := copied(o.base, filepath.Join(dir, "tare-before"))
	return append(tools, tool{"tare before", weighWith(before)}), err
}

// copied copies a program, and returns the path of the copy.
func copied(program, to string) (string, error) {
	text, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	return to, os.WriteFile(to, text, 0o755)
}

// command runs a program to its end, and returns the processor time that it took.
func command(name string, args ...string) (time.Duration, error) {
	cmd := exec.Command(name, args...)
	var errs strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &errs
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, errs.String())
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// times compares how long the tools take on the same JVMs.
func times(opts options) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "## Time\n\nMilliseconds, median (minimum … maximum) of up to %d rounds; each round asks all tools one after the other, beginning with\n"+
		"another each time, about the same JVM (memory filler, native memory tracking at detail, idle). All but \"weighing alone\"\n"+
		"are whole processes from start to end; that one is without the start and the report of `tare weigh`. \"tare before\" is the\n"+
		"binary of an earlier version; both are timed as copies of what the linker wrote. \"×\" is how many\n"+
		"times as long as `tare weigh` it took in the same round, and \"processor\" behind it the same of the processor time of the\n"+
		"process (not of a JVM that it asks), which other load of the machine disturbs less.\n\n| JVM | JDK | Rss MiB |", opts.repeats)
	dir, err := os.MkdirTemp("", "tare-bench")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	all, err := opts.tools(dir)
	if err != nil {
		return "", err
	}
	for _, t := range all {
		fmt.Fprintf(&b, " %s |", t.name)
	}
	b.WriteString(" processor ms |")
	for _, t := range all[2:] {
		fmt.Fprintf(&b, " × %s | processor |", t.name)
	}
	b.WriteString(" goal ms | alone | process |\n" + strings.Repeat("|---", 3*len(all)+3) + "|\n")
	for _, s := range sizes {
		for _, jdk := range opts.jdks {
			line, err := timeSize(opts, all, jdk, s)
			if err != nil {
				return "", fmt.Errorf("JDK %s, %s: %w", jdk, s.name, err)
			}
			fmt.Println(line)
			b.WriteString(line + "\n")
		}
	}
	b.WriteString("\n\"alone\" and \"process\" say whether the median of the weighing alone, and of the whole process, is within the goal.\n\n")
	return b.String(), nil
}

func timeSize(opts options, tools []tool, jdk string, s size) (string, error) {
	info, err := linux.NewFS("/proc").MemInfo()
	if err != nil {
		return "", err
	}
	if info.Available < s.needs {
		return "", fmt.Errorf("%d MiB of memory are available, %d are needed: stop other programs", info.Available>>20, s.needs>>20)
	}
	home := opts.home(jdk)
	p, err := program.Filler(filepath.Join(home, "bin", "java"), []string{"-XX:NativeMemoryTracking=detail", "-Xmx" + s.heap}, s.threads, s.heapKB, 50)
	if err != nil {
		return "", err
	}
	defer p.Stop()
	rounds := opts.repeats
	if s.rounds > 0 {
		rounds = min(rounds, s.rounds)
	}
	took, err := rotate(tools, home, p.PID(), rounds)
	if err != nil {
		return "", err
	}
	f, err := footprint.Weigh(context.Background(), p.PID(), footprint.Options{})
	if err != nil {
		return "", err
	}
	return s.line(f, took), nil
}

// rotate asks all tools in each round, beginning with another each time, and
// returns what each tool took by round. A first round, in which the
// JVM and the files of the tools are not yet warm, is thrown away.
func rotate(tools []tool, home string, pid, rounds int) ([]taken, error) {
	took := make([]taken, len(tools))
	for round := -1; round < rounds; round++ {
		for i := range tools {
			n := (i + round + 1) % len(tools)
			start := time.Now()
			processor, err := tools[n].look(home, pid)
			if err != nil {
				return nil, err
			}
			if round >= 0 {
				took[n].wall = append(took[n].wall, float64(time.Since(start).Microseconds())/1000)
				took[n].processor = append(took[n].processor, float64(processor.Microseconds())/1000)
			}
		}
	}
	return took, nil
}

func (s size) line(f *footprint.Footprint, took []taken) string {
	line := fmt.Sprintf("| %s | %s | %.0f |", s.name, f.JDK, float64(f.RSSBytes)/(1<<20))
	for _, t := range took {
		line += " " + results.Spread(t.wall, "%.1f") + " |"
	}
	line += " " + results.Spread(took[0].processor, "%.1f") + " |"
	for _, t := range took[2:] {
		line += " " + results.Spread(ratios(t.wall, took[0].wall), "%.2f") + " | " + results.Spread(ratios(t.processor, took[0].processor), "%.2f") + " |"
	}
	goal := float64(s.goal.Milliseconds())
	return line + fmt.Sprintf(" %.0f | %s | %s |", goal, results.Reached(results.Median(took[1].wall) <= goal), results.Reached(results.Median(took[0].wall) <= goal))
}

// ratios are of two tools in the same rounds.
func ratios(of, by []float64) []float64 {
	out := make([]float64, len(of))
	for i := range of {
		out[i] = of[i] / by[i]
	}
	return out
}

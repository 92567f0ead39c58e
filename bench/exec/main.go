// Command exec measures the launcher: how much later java starts through it,
// and in which containers an application survives, against other ways to choose
// the JVM's options. What was measured is kept after each step, so that a run
// that was cut off goes on where it stopped.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"tare.dev/tare/bench/ways"
	"tare.dev/tare/internal/testkit/results"
)

func main() {
	cache := flag.String("cache", os.Getenv("TARE_CACHE"), "folder that holds jdks")
	jdks := flag.String("jdks", "8,11,17,21,25,26,27", "JDKs to measure")
	sizes := flag.String("sizes", "32,48,64,96,128,192,256,384,512,1024,2048,4096", "memory limits in MiB")
	names := flag.String("ways", strings.Join(wayNames, ","), "how the options are chosen")
	pairs := flag.Int("pairs", 50, "interleaved starts of each launcher; 0 leaves the starts out")
	repeats := flag.Int("repeats", 1, "runs of each container; all must survive")
	state := flag.String("state", "bin/bench-exec.jsonl", "what was measured already")
	out := flag.Bool("write", true, "write docs/results/exec.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{cache: *cache, jdks: strings.Split(*jdks, ","), ways: strings.Split(*names, ","), repeats: *repeats, state: *state}
	if err := b.run(ctx, *sizes, *pairs, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	cache, script string
	jdks, ways    []string
	all           []ways.Way
	sizes         []int64 // MiB
	repeats       int
	state         string
}

func (b *bench) run(ctx context.Context, sizes string, pairs int, write bool) error {
	for s := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 32 {
			return fmt.Errorf("size %q: give MiB", s)
		}
		b.sizes = append(b.sizes, n)
	}
	script, remove, err := ways.Unpack(b.cache)
	if err != nil {
		return err
	}
	defer remove()
	b.script, b.all = script, append([]ways.Way{launcherWay}, ways.All(script)...)
	text := ""
	if pairs > 0 {
		start, err := b.measureStarts(ctx, pairs)
		if err != nil {
			return err
		}
		text = start
	}
	survival, err := b.measureSurvival(ctx)
	if err != nil {
		return err
	}
	text += survival
	fmt.Print(text)
	if !write {
		return nil
	}
	return results.Write("exec", "How tare-exec starts a JVM, and where it survives", "make bench-exec", text)
}

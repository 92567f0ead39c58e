package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/testkit/results"
)

const goalMillis = 3

// launcher is one way to start java -Xshare:auto -version.
type launcher struct {
	name string
	args []string
	env  []string
}

// measureStarts times the launchers in turn, so that what disturbs the machine
// disturbs all of them, and compares each start with the bare one of its round.
func (b *bench) measureStarts(ctx context.Context, pairs int) (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "## Start\n\n`java -Xshare:auto -version`, %d rounds, each launcher once in each round, in turn. "+
		"Median (minimum … maximum) in ms; the difference is to the bare start of the same round. The goal for tare-exec: a median of at most %d ms.\n\n"+
		"| JDK | bare java | tare-exec later by | run-java.sh later by | goal |\n|---|---|---|---|---|\n", pairs, goalMillis)
	for _, jdk := range b.jdks {
		launchers, clean, err := b.launchers(jdk)
		if err != nil {
			return "", err
		}
		times, err := interleave(ctx, launchers, pairs)
		clean()
		if err != nil {
			return "", err
		}
		var later [2][]float64
		for i := range times[0] {
			for l := range later {
				later[l] = append(later[l], times[l+1][i]-times[0][i])
			}
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", jdk, results.Spread(times[0], "%.1f"), results.Spread(later[0], "%.2f"),
			results.Spread(later[1], "%.1f"), results.Reached(results.Median(later[0]) <= goalMillis))
	}
	return text.String() + "\n", nil
}

// launchers of a JDK; clean removes what they need.
func (b *bench) launchers(jdk string) ([]launcher, func(), error) {
	home := filepath.Join(b.cache, "jdks", jdk)
	env := append(os.Environ(), "JAVA_HOME="+home, "PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
	// The script runs a jar or a main class, whose options it puts in front.
	dir, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return nil, nil, err
	}
	clean := func() { os.RemoveAll(dir) }
	script := append(slices.Clone(env), "JAVA_APP_DIR="+dir, "JAVA_MAIN_CLASS=-version", "JAVA_OPTIONS=-Xshare:auto", "HIDE_CMD_LINE=true")
	self, err := filepath.Abs("bin/tare-exec")
	if err != nil {
		clean()
		return nil, nil, err
	}
	java := filepath.Join(home, "bin", "java")
	return []launcher{
		{"bare java", []string{java, "-Xshare:auto", "-version"}, env},
		{"tare-exec", []string{self, "--", java, "-Xshare:auto", "-version"}, env},
		{"run-java.sh", []string{"/bin/sh", b.script}, script},
	}, clean, nil
}

// interleave returns milliseconds by launcher and round. One round before them
// warms the page cache and is not counted.
func interleave(ctx context.Context, launchers []launcher, rounds int) ([][]float64, error) {
	times := make([][]float64, len(launchers))
	for round := range rounds + 1 {
		for i := range launchers {
			// Each launcher is the first in its turn.
			l := (i + round) % len(launchers)
			took, err := launchers[l].time(ctx)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				times[l] = append(times[l], float64(took)/float64(time.Millisecond))
			}
		}
	}
	return times, nil
}

func (l launcher) time(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, l.args[0], l.args[1:]...)
	cmd.Env = l.env
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	if err != nil || !strings.Contains(out.String(), " version \"") {
		return 0, fmt.Errorf("%s: %v: it printed %.300q", l.name, err, out.String())
	}
	return took, nil
}

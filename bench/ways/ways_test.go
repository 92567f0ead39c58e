package ways

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/cachedir"
	"tare.dev/tare/internal/testkit/alone"
)

// What the calculator itself printed, in logs that people published:
// "Calculated JVM Memory Configuration: … (Total Memory: …, Thread Count: …,
// Loaded Class Count: …, Headroom: 0%)".
func TestCalculatorAgreesWithItsLogs(t *testing.T) {
	for _, tt := range []struct {
		totalKiB, threads, classes int64
		want                       string
	}{
		{1 << 20, 250, 21670, "-XX:MaxDirectMemorySize=10M -Xmx400163K -XX:MaxMetaspaceSize=136412K -XX:ReservedCodeCacheSize=240M -Xss1M"},
		{1136752, 250, 16449, "-XX:MaxDirectMemorySize=10M -Xmx517911K -XX:MaxMetaspaceSize=106840K -XX:ReservedCodeCacheSize=240M -Xss1M"},
		{6862208, 250, 23761, "-XX:MaxDirectMemorySize=10M -Xmx6201952K -XX:MaxMetaspaceSize=148255K -XX:ReservedCodeCacheSize=240M -Xss1M"},
		{11340720, 50, 16990, "-XX:MaxDirectMemorySize=10M -Xmx10923615K -XX:MaxMetaspaceSize=109904K -XX:ReservedCodeCacheSize=240M -Xss1M"},
	} {
		got, err := calculate(tt.totalKiB<<10, tt.threads, tt.classes)
		if err != nil || strings.Join(got, " ") != tt.want+" -XX:+ExitOnOutOfMemoryError" {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
	}
	if got, err := calculate(500*mib, threads, 20_000); !errors.Is(err, ErrUnfit) {
		t.Errorf("500 MiB: %q, %v", got, err)
	}
}

// The script that stands for Paketo's launcher in a container chooses what the calculation
// does, and gives up where that does.
func TestPaketoScript(t *testing.T) {
	dir := t.TempDir()
	script, limit := filepath.Join(dir, "script"), filepath.Join(dir, "limit")
	text := strings.ReplaceAll(PaketoScript(9000, "-jar", "app.jar"), "/sys/fs/cgroup/memory.max", limit)
	if err := errors.Join(os.WriteFile(script, []byte(text), 0o755), os.WriteFile(filepath.Join(dir, "java"), []byte("#!/bin/sh\necho $*\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, mibs := range []int64{100, 700, 1024, 4000} {
		if err := os.WriteFile(limit, fmt.Appendf(nil, "%d\n", mibs*mib), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", script)
		cmd.Env = []string{"PATH=" + dir + ":/bin"}
		got, err := cmd.Output()
		want, unfit := paketo(Container{MemoryBytes: mibs * mib, Classes: 9000})
		if unfit == nil {
			want = append(want, "-jar", "app.jar")
		}
		if (err != nil) != (unfit != nil) || strings.TrimSpace(string(got)) != strings.Join(want, " ") {
			t.Errorf("%d MiB: %s (%v), want %q (%v)", mibs, got, err, want, unfit)
		}
	}
}

// What the script's documentation says of it: from Java 10 on it leaves the heap
// to the JVM; before, half of a container's memory, a quarter of one of up to
// 300 MB, and threads by the processors.
func TestRunJavaAgreesWithItsDocumentation(t *testing.T) {
	alone.Uses(t, "run-java.sh")
	cache, err := cachedir.Path()
	if err != nil {
		t.Fatal(err)
	}
	script, remove, err := Unpack(cache)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	for _, tt := range []struct {
		c       Container
		want    []string
		without string
	}{
		{Container{JDK: "17", MemoryBytes: 512 * mib, CPUs: 1}, []string{"-XX:+ExitOnOutOfMemoryError"}, "-Xmx"},
		{Container{JDK: "8", MemoryBytes: 1000 * mib, CPUs: 2}, []string{"-Xmx500m", "-XX:ParallelGCThreads=2", "-XX:ConcGCThreads=2", "-XX:CICompilerCount=2"}, "-XX:TieredStopAtLevel"},
		{Container{JDK: "8", MemoryBytes: 200 * mib, CPUs: 1}, []string{"-Xmx50m", "-XX:TieredStopAtLevel=1"}, "-XX:+UseSerialGC"},
	} {
		got, err := runJava(script, tt.c)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range tt.want {
			if !slices.Contains(got, o) {
				t.Errorf("%+v: %q, want %s", tt.c, got, o)
			}
		}
		if slices.ContainsFunc(got, func(o string) bool { return strings.HasPrefix(o, tt.without) }) {
			t.Errorf("%+v: %q, want no %s", tt.c, got, tt.without)
		}
	}
}

// The limits that rules make: VPA's for 200 MiB, whose bucket ends at 215.8 MB, is the least.
func TestRules(t *testing.T) {
	for _, w := range More() {
		if w.Rule == nil {
			continue
		}
		want := map[string][2]int64{KRR: {100_000_000, 241_172_480}, VPA: {250 * mib, 250 * mib}}[w.Name]
		if got := [2]int64{w.Rule(50 * mib), w.Rule(200 * mib)}; got != want {
			t.Errorf("%s: %d, want %d", w.Name, got, want)
		}
	}
	// The 30th bucket starts at 1e7 × (1.05³⁰ - 1) / 0.05 = 664.4 MB, and ends at 707.6 MB.
	if got := vpa(700_000_000); got>>20 != 776 {
		t.Errorf("%d", got)
	}
}

// There are no class archives of an application before JDK 10.
func TestArchived(t *testing.T) {
	if _, err := archived(Container{JDK: "8"}); !errors.Is(err, ErrUnfit) {
		t.Error(err)
	}
}

func TestNamed(t *testing.T) {
	all := All("")
	if got, err := Named(all, []string{Paketo, Defaults}); err != nil || !slices.Equal(Names(got), []string{Defaults, Paketo}) {
		t.Errorf("%q, %v", Names(got), err)
	}
	if _, err := Named(all, []string{"other"}); err == nil || !strings.Contains(err.Error(), RedHat) {
		t.Errorf("%v", err)
	}
}

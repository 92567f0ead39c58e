// Package ways knows how others choose the JVM's options for a container.
package ways

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const mib = 1 << 20

// Container is what a way may look at.
type Container struct {
	// JDK is the major version.
	JDK         string
	MemoryBytes int64
	// CPUs is the quota, 0 without one.
	CPUs float64
	// Classes are those of the application, loaded or not.
	Classes int64
}

// Way is one way to choose the options.
type Way struct {
	// Name is short, Is says in Markdown what it is.
	Name, Is string
	// Options are those for a container; ErrUnfit where the way itself gives
	// up on it.
	Options func(Container) ([]string, error)
	// Archive says that a class archive comes with the options, and that nested jars are
	// extracted for it.
	Archive bool
	// Rule, where there is one, makes the limit of the highest working set that the
	// application has with ample memory.
	Rule func(workingSet int64) int64
}

// ErrUnfit says that a way gives up on a container.
var ErrUnfit = errors.New("it gives up")

// The names of the ways.
const (
	Defaults = "defaults"
	Percent  = "75%"
	RunJava  = "run-java.sh"
	Paketo   = "Paketo"
	RedHat   = "Red Hat"
	Archive  = "75% + archive"
	KRR      = "KRR"
	VPA      = "VPA"
)

// All are the ways that choose options alone. script is the path of run-java.sh, see Unpack.
func All(script string) []Way {
	return []Way{
		{Name: Defaults, Is: "the JVM's defaults", Options: fixed()},
		{Name: Percent, Is: "`-XX:MaxRAMPercentage=75.0`, without whose point JDK 8 does not start", Options: fixed("-XX:MaxRAMPercentage=75.0")},
		{Name: RunJava, Is: "the options that run-java.sh 1.3.7 prints when it is told the container's size",
			Options: func(c Container) ([]string, error) { return runJava(script, c) }},
		{Name: Paketo, Is: "the formula of Paketo's and Cloud Foundry's memory calculators: 250 threads, 35 % of all classes", Options: paketo},
		{Name: RedHat, Is: "the options of Red Hat's OpenJDK images: 80 % of the memory, the parallel collector, free ratios of 10 and 20 %",
			Options: fixed("-XX:MaxRAMPercentage=80.0", "-XX:+UseParallelGC", "-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=20",
				"-XX:GCTimeRatio=4", "-XX:AdaptiveSizePolicyWeight=90", "-XX:+ExitOnOutOfMemoryError")},
	}
}

// More are ways that choose more than options.
func More() []Way {
	return []Way{
		{Name: Archive, Is: "75% with a class archive, from JDK 25 on the AOT cache, and nested jars extracted: what Paketo's `BP_JVM_CDS_ENABLED` makes of Spring Boot, " +
			"here of each application, and trained under its load instead of by a start", Options: archived, Archive: true},
		{Name: KRR, Is: "the JVM's defaults, and the limit that KRR's simple strategy makes of their highest working set with ample memory: 15 % more, at least 100 MB", Options: fixed(), Rule: krr},
		{Name: VPA, Is: "the JVM's defaults, and the limit that the vertical pod autoscaler's recommender makes of it: the end of its bucket in a histogram, 15 % more, at least 250 MiB",
			Options: fixed(), Rule: vpa},
	}
}

// archived are the options of 75%, for JDKs that have class archives of applications
// (JEP 350).
func archived(c Container) ([]string, error) {
	if c.JDK == "8" {
		return nil, fmt.Errorf("%w: JDK 8 has no class archives of applications", ErrUnfit)
	}
	return []string{"-XX:MaxRAMPercentage=75.0"}, nil
}

// krr is the rule of https://github.com/robusta-dev/krr: memory_buffer_percentage of
// robusta_krr/strategies/simple.py, and memory_min_value of robusta_krr/core/runner.py.
func krr(workingSet int64) int64 {
	return max(workingSet+workingSet*15/100, 100_000_000)
}

// vpa is the rule of
// https://github.com/kubernetes/autoscaler/tree/master/vertical-pod-autoscaler/pkg/recommender:
// the peak of a day goes into a histogram whose first bucket is of 10 MB and each next one
// 5 % larger (model/aggregations_config.go); a percentile is the end of its bucket
// (util/histogram.go), to which recommendation-margin-fraction comes, and which is at least
// pod-recommendation-min-memory-mb (logic/recommender.go).
func vpa(workingSet int64) int64 {
	const first, growth, margin, least = 1e7, 1.05, 1.15, 250 * mib
	end, size := first, first
	for float64(workingSet) >= end {
		size *= growth
		end += size
	}
	return max(int64(end*margin), least)
}

// Named are the ways of these names, in the order of All.
func Named(all []Way, names []string) ([]Way, error) {
	var out []Way
	for _, w := range all {
		if slices.Contains(names, w.Name) {
			out = append(out, w)
		}
	}
	if len(out) != len(names) {
		return nil, fmt.Errorf("ways %q: give some of %q", names, Names(all))
	}
	return out, nil
}

// Names are the names of some ways.
func Names(all []Way) []string {
	var names []string
	for _, w := range all {
		names = append(names, w.Name)
	}
	return names
}

func fixed(options ...string) func(Container) ([]string, error) {
	return func(Container) ([]string, error) { return slices.Clone(options), nil }
}

// Unpack takes run-java.sh out of the jar that scripts/run-java-sh.sh fetches
// into the cache; remove removes it.
func Unpack(cache string) (script string, remove func(), err error) {
	z, err := zip.OpenReader(filepath.Join(cache, "run-java-sh", "run-java-sh-1.3.7.jar"))
	if err != nil {
		return "", nil, fmt.Errorf("%w: run scripts/run-java-sh.sh", err)
	}
	defer z.Close()
	text, err := fs.ReadFile(z, "run-java-sh/fp-files/run-java.sh")
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "tare-bench-")
	if err != nil {
		return "", nil, err
	}
	script = filepath.Join(dir, "run-java.sh")
	return script, func() { os.RemoveAll(dir) }, os.WriteFile(script, text, 0o755)
}

// runJava asks the script what it would add. It reads the container's size from
// these variables, where they are set, instead of the control group.
func runJava(script string, c Container) ([]string, error) {
	cmd := exec.Command("/bin/sh", script, "options")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "JAVA_MAJOR_VERSION=" + c.JDK, fmt.Sprintf("CONTAINER_MAX_MEMORY=%d", c.MemoryBytes)}
	if c.CPUs > 0 {
		cmd.Env = append(cmd.Env, "CONTAINER_CORE_LIMIT="+strconv.Itoa(max(1, int(c.CPUs))))
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s options: %w", script, err)
	}
	return strings.Fields(string(out)), nil
}

// What the memory calculator takes for granted where the user says nothing: the
// defaults of libjvm's helper/memory_calculator.go and calc/, in bytes.
const (
	directBytes     = 10 * mib
	codeBytes       = 240 * mib
	stackBytes      = mib
	threads         = 250
	metaspaceBytes  = 14_000_000
	classBytes      = 5_800
	loadedPercent   = 35
	classesOfTheJDK = 30_000
)

func paketo(c Container) ([]string, error) {
	return calculate(c.MemoryBytes, threads, loadedOf(c.Classes))
}

// loadedOf is how many classes the calculator expects to be loaded.
func loadedOf(classes int64) int64 { return (classesOfTheJDK + classes) * loadedPercent / 100 }

// calculate is the calculation of
// https://github.com/paketo-buildpacks/libjvm/blob/main/calc/calculator.go:
// what is left beside the regions that a JVM may fill is the heap.
func calculate(memory, threads, loaded int64) ([]string, error) {
	metaspace, beside := regions(threads, loaded)
	if memory <= beside {
		return nil, fmt.Errorf("%w: %d MiB are less than it reckons beside the heap", ErrUnfit, memory/mib)
	}
	return calculated(strconv.FormatInt((memory-beside)>>10, 10), metaspace), nil
}

// regions are the bytes of metaspace, and of all that is beside the heap.
func regions(threads, loaded int64) (metaspace, beside int64) {
	metaspace = metaspaceBytes + classBytes*loaded
	return metaspace, directBytes + metaspace + codeBytes + threads*stackBytes
}

// calculated are the options for a heap in KiB.
func calculated(heap string, metaspace int64) []string {
	return []string{"-XX:MaxDirectMemorySize=10M", "-Xmx" + heap + "K", fmt.Sprintf("-XX:MaxMetaspaceSize=%dK", metaspace>>10),
		"-XX:ReservedCodeCacheSize=240M", "-Xss1M", "-XX:+ExitOnOutOfMemoryError"}
}

// PaketoScript is a shell script that becomes java with what Paketo chooses for the limit of
// the container that it runs in, and with more arguments. Its application has so many classes.
func PaketoScript(classes int64, args ...string) string {
	metaspace, beside := regions(threads, loadedOf(classes))
	return fmt.Sprintf(`#!/bin/sh
file=/sys/fs/cgroup/memory.max
[ -r $file ] || file=/sys/fs/cgroup/memory/memory.limit_in_bytes
read -r limit <$file
heap=$((limit - %d))
[ $heap -gt 0 ] || { echo "$limit bytes are less than is reckoned beside the heap" >&2; exit 1; }
exec java %s
`, beside, strings.Join(append(calculated("$((heap >> 10))", metaspace), args...), " "))
}

package fit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/jvmopts"
)

// Facts is what decides which levers are open.
type Facts struct {
	Release jvmopts.Release
	Given   jvmopts.Options
	// Flags are those that the JVM was seen to have; nil where none could be
	// seen.
	Flags map[string]string
	// Collector is that of the JVM as given; "" is not known.
	Collector string
	// JavaHome is the folder of the runtime that was found before the application ran; "" is
	// not known.
	JavaHome string
	// ByVariable says that options go by JAVA_TOOL_OPTIONS, which each JVM of the application
	// reads; Forks that a JVM starts the one that has the most memory.
	ByVariable, Forks bool
	// Unreached says why options do not reach that one; "" where they do, as far as is known.
	Unreached string
	// CPUs are the processors that the application may use, 0 for no quota.
	CPUs float64
	// Processors are those that the application runs on, whatever its quota; 0 where
	// that is not known.
	Processors int
	// Nested says that the application's jar holds jars.
	Nested bool
	// Application is what can be seen of the application.
	Application Application
	// Unwarmed says why it is not known what compilers cost once the application has
	// warmed up: it had not, as given. "" where it had, or nobody looked.
	Unwarmed string
	// Inherits says that the application inherits what its starter sets of a
	// process.
	Inherits bool
	// ReadAheadBytes is how much the disk of the JDK reads at once.
	ReadAheadBytes int64
	// Allow are the marks whose levers are tried; Placement needs none.
	Allow []Mark
}

// open is the lever without the options that the user has decided already, and
// whether anything is left of it; reason says why not.
func (l Lever) open(f Facts) (left Lever, ok bool, reason string) {
	if reason := l.closed(f); reason != "" {
		return l, false, reason
	}
	left = l
	left.Options, left.Env = nil, nil
	var by []string
	yours := func(option string) bool {
		c, taken := f.Given.Conflict(option)
		if taken && !slices.Contains(by, c.By.String()) {
			by = append(by, c.By.String())
		}
		return taken
	}
	whole := true
	for _, o := range l.Options {
		switch {
		case !yours(o):
			left.Options = append(left.Options, o)
		case strings.Contains(o, "{archive}") || strings.HasPrefix(o, "-XX:+Unlock"):
			whole = false
		}
	}
	for _, e := range l.Env {
		if !yours(e) {
			left.Env = append(left.Env, f.putThreads(e))
		}
	}
	if len(by) > 0 {
		reason = "yours: " + strings.Join(by, ", ")
	}
	if !left.sizesHeap() { // what goes with a heap of a chosen size
		left.Options = slices.DeleteFunc(left.Options, func(o string) bool {
			return strings.HasPrefix(o, directOption) || o == exitWithoutHeap || o == largerBuffers
		})
	}
	if !whole || l.ByCurve && !left.sizesHeap() || !left.decides(f) {
		return l, false, reason
	}
	return left.named(), true, reason
}

// decides says that the lever changes anything.
func (l Lever) decides(f Facts) bool {
	return l.Own && len(l.Options) > 0 || len(l.Env) > 0 || l.Extract || l.NoHugePages || slices.ContainsFunc(l.Options, func(o string) bool {
		families := jvmopts.FamiliesOf(o)
		return strings.HasPrefix(o, "-D") || len(families) > 0 && !slices.Contains(families, jvmopts.OutOfMemory) && !f.hasCollector(o)
	})
}

// hasCollector says that an option chooses the collector that the JVM has as given.
func (f Facts) hasCollector(option string) bool { return option == "-XX:+Use"+f.Collector+"GC" }

// isFor says that the release has the lever's options, and needs them.
func (l Lever) isFor(r jvmopts.Release) bool {
	return r.AtLeast(l.Since) && (l.Before.Feature == 0 || !r.AtLeast(l.Before))
}

// closed says why this JVM or application cannot have the lever, or "".
func (l Lever) closed(f Facts) string {
	value, seen := f.Flags[l.Flag]
	switch {
	case f.Unreached != "" && len(l.Options) > 0:
		return f.Unreached
	case f.Forks && (l.Extract || l.TrainOption != ""):
		return "the command starts another JVM, and both would have it"
	case !f.Release.AtLeast(l.Since):
		return fmt.Sprintf("needs JDK %d", l.Since.Feature)
	case !l.isFor(f.Release):
		return fmt.Sprintf("up to JDK %d", l.Before.Feature-1)
	case seen && l.Moot != "" && value == l.Moot:
		return "the JVM has it so already"
	case !seen && l.Flag != "" && f.Flags != nil:
		return fmt.Sprintf("this JVM has no %s", l.Flag)
	case l.Compiles && f.Unwarmed != "":
		return f.Unwarmed
	case l.Extract && !f.Nested:
		return "the application's jar holds no jars"
	case l.NoHugePages && !f.Inherits:
		return "the application is not started by this process"
	case !f.Application.has(l.Needs):
		return "nothing on the application's class path reads it"
	case f.settled(l) != "":
		return "yours: " + f.settled(l)
	case l.Mark == Framework && !slices.Contains(f.Allow, l.Mark):
		return "it changes what the framework does: --allow framework"
	case l.Mark != "" && !l.Placement && !slices.Contains(f.Allow, l.Mark):
		return fmt.Sprintf("its options are %s: --allow %s", l.Mark, l.Mark)
	}
	return ""
}

// settled names the property by which the user has decided what a lever of the
// framework sets, or where that may be.
func (f Facts) settled(l Lever) string {
	if l.Mark != Framework {
		return ""
	}
	names := slices.Clone(l.Also)
	for _, text := range slices.Concat(l.Options, l.Env) {
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "-D"), "=")
		names = append(names, name)
	}
	for _, name := range names {
		if by := f.Application.Set[plain(name)]; by != "" {
			return by
		}
	}
	return f.Application.Unseen
}

// threadsPerProcessor is how many threads of a server are a few: enough that a
// processor has work while some wait for a disk or a lock. Jetty's pool also holds
// those that accept connections and look for requests: jettyThreads more.
const (
	threadsPerProcessor = 4
	jettyThreads        = 4
)

// putThreads puts numbers of threads in for their placeholders.
func (f Facts) putThreads(text string) string {
	few := threadsPerProcessor * max(1, f.Processors)
	return strings.NewReplacer("{threads}", strconv.Itoa(few), "{threads+jetty}", strconv.Itoa(few+jettyThreads)).Replace(text)
}

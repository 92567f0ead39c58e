package runjava

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/jvmopts"
)

// What the script calls its defaults is for a JVM that does not know of
// containers: before 10. A JVM of unknown version gets none of it.
func (p *planner) old() bool { return p.major > 0 && p.major < 10 }

// smallMemory is the limit up to which the script goes without C2 and keeps to
// a quarter for the heap.
const smallMemory = 300 << 20

// maxMemory bounds CONTAINER_MAX_MEMORY, and so what is reckoned from it.
const maxMemory = 1 << 53

// maxCores is far above what a JVM takes.
const maxCores = 1 << 16

// exportBudget tells the application, and what reads it here, the bounds. Those
// measured replace those inherited; without a bound the user's stay.
func (p *planner) exportBudget() {
	if b := p.in.Budget.MemoryBytes; b > 0 {
		p.vars.export("CONTAINER_MAX_MEMORY", strconv.FormatInt(b, 10))
	}
	if c := p.in.Budget.Cores; c > 0 {
		p.vars.export("CONTAINER_CORE_LIMIT", strconv.Itoa(c))
	}
}

func (p *planner) memory() int64 { return p.number("CONTAINER_MAX_MEMORY", maxMemory) }
func (p *planner) cores() int    { return int(p.number("CONTAINER_CORE_LIMIT", maxCores)) }

// groups are what the command options can select, in the script's order of
// printing.
var groups = []struct {
	flag string
	add  func(*planner)
}{
	{"--debug", (*planner).addDebug},
	{"--proxy", (*planner).addProxies},
	{"--java-default", (*planner).addDefaults},
	{"--memory", (*planner).addMemory},
	{"--jit", (*planner).addCompiler},
	{"--diagnostics", (*planner).addDiagnostics},
	{"--cpu", (*planner).addProcessors},
	{"--gc", (*planner).addCollector},
}

// selectOptions is the command options: all of them, or the groups named.
func (p *planner) selectOptions(flags []string) {
	if len(flags) == 0 || flags[0] == "" {
		p.addAll()
		return
	}
	p.readUser(words(p.vars.get("JAVA_OPTIONS")))
	known := 0
	for _, g := range groups {
		if slices.Contains(flags, g.flag) {
			g.add(p)
			known++
		}
	}
	if known == 0 {
		p.warn("options knows none of " + shortened(strings.Join(flags, " ")) +
			": give --debug, --memory, --proxy, --cpu, --gc, --jit, --diagnostics or --java-default")
	}
}

// addAll adds the user's options and then what the variables ask for.
func (p *planner) addAll() {
	p.addUser(words(p.vars.get("JAVA_OPTIONS")), "JAVA_OPTIONS")
	p.addUser(p.runJavaOptions(), optionsProgram)
	p.addDebug()
	p.addProxies()
	p.addDefaults()
}

func (p *planner) addDefaults() {
	p.addMemory()
	p.addCompiler()
	p.addDiagnostics()
	p.addProcessors()
	p.addCollector()
}

// addDebug opens a port for a debugger. JAVA_DEBUG=false does not: whoever
// reaches the port can run code.
func (p *planner) addDebug() {
	for _, name := range []string{"JAVA_ENABLE_DEBUG", "JAVA_DEBUG_ENABLE", "JAVA_DEBUG"} {
		if off(p.vars.get(name)) {
			continue
		}
		if p.has("-agentlib:jdwp=") || p.has("-Xrunjdwp:") {
			return // the JVM takes this agent once
		}
		address, ok := debugAddress(p.vars.get("JAVA_DEBUG_PORT"), p.major >= 9)
		if !ok {
			p.warn("no debugging: JAVA_DEBUG_PORT=" + shortened(p.vars.get("JAVA_DEBUG_PORT")) + " is no port: give one up to 65535")
			return
		}
		suspend := "y"
		if off(p.vars.get("JAVA_DEBUG_SUSPEND")) {
			suspend = "n"
		}
		p.add(Option{"-agentlib:jdwp=transport=dt_socket,server=y,suspend=" + suspend + ",address=" + address, name})
		return
	}
}

// debugAddress is where the debugger listens: on every address, which JDK 9 and
// later are to be told by a star (JDK-8041435).
func debugAddress(port string, star bool) (string, bool) {
	if port == "" {
		port = "5005"
	}
	host, number, named := strings.Cut(port, ":")
	if !named {
		host, number = "", port
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || named && host != "*" && !isHost(host) {
		return "", false
	}
	number = strconv.FormatUint(n, 10)
	switch {
	case named:
		return host + ":" + number, true
	case star:
		return "*:" + number, true
	}
	return number, true
}

// Flags that decide what an option of this package would: that one is left out.
var (
	heapMaxFlags     = []string{"MaxHeapSize", "MaxRAM", "MaxRAMPercentage", "MaxRAMFraction", "MinRAMPercentage", "MinRAMFraction", "AggressiveHeap"}
	heapInitialFlags = []string{"InitialHeapSize", "MinHeapSize", "InitialRAMPercentage", "InitialRAMFraction", "AggressiveHeap"}
	compilerFlags    = []string{"TieredStopAtLevel", "TieredCompilation", "CompilationMode", "UseInterpreter", "UseCompiler"}
	collectorFlags   = append(slices.Clone(jvmopts.CollectorFlags), "UseParallelOldGC", "UseParNewGC", "AggressiveHeap")
	outOfMemoryFlags = []string{"ExitOnOutOfMemoryError", "CrashOnOutOfMemoryError", "OnOutOfMemoryError"}
)

const mib = 1 << 20

// addMemory sizes the heap by the ratios.
func (p *planner) addMemory() {
	limit := p.memory()
	most, mostFrom := p.heapMax(limit)
	first := p.heapInitial(limit)
	if first > 0 && most > 0 && first > most {
		p.warn("JAVA_INIT_MEM_RATIO is taken as the heap's greatest size, " + megabytes(most) + ", which it exceeds")
		first = most
	}
	if first > 0 {
		p.add(Option{"-Xms" + megabytes(first), "JAVA_INIT_MEM_RATIO"})
	}
	if most > 0 {
		p.add(Option{"-Xmx" + megabytes(most), mostFrom})
	}
}

func megabytes(n int64) string { return strconv.FormatInt(n, 10) + "m" }

// heapMax is the greatest heap in MiB, 0 for none, and who asked for it.
func (p *planner) heapMax(limit int64) (most int64, from string) {
	const name = "JAVA_MAX_MEM_RATIO"
	ratio, given := p.ratio(name)
	switch {
	case p.sets(heapMaxFlags...):
		return 0, ""
	case given && ratio == 0:
		p.settle("MaxHeapSize")
		return 0, ""
	case given:
		from = name
	case !p.old():
		return 0, ""
	case limit <= smallMemory:
		ratio = 25
	default:
		ratio = 50
	}
	if limit == 0 {
		return 0, ""
	}
	most = share(limit, ratio)
	// HotSpot refuses to start with less (JDK: GenArguments, Arguments).
	if most < 2 {
		p.warn(name + " is ignored: it leaves less than the 2 MiB that a JVM starts with")
		return 0, ""
	}
	if size, ok := p.size("InitialHeapSize"); ok && size > most*mib {
		p.warn("no -Xmx" + megabytes(most) + " is set, for your options start with a larger heap")
		return 0, ""
	}
	return most, from
}

// heapInitial is the heap at the start in MiB, 0 for none.
func (p *planner) heapInitial(limit int64) int64 {
	const name = "JAVA_INIT_MEM_RATIO"
	ratio, given := p.ratio(name)
	if given && ratio == 0 {
		p.settle("InitialHeapSize")
	}
	if !given || ratio == 0 || limit == 0 || p.sets(heapInitialFlags...) {
		return 0
	}
	first := share(limit, ratio)
	if size, ok := p.size("MaxHeapSize"); ok && size < first*mib {
		p.warn("no -Xms" + megabytes(first) + " is set, for your options allow a smaller heap")
		return 0
	}
	return first
}

// share is a part of the memory in MiB, rounded as the script does.
func share(bytes int64, percent float64) int64 {
	return int64(float64(bytes)*percent/100/mib + 0.5)
}

// size is a size that the user set.
func (p *planner) size(flag string) (int64, bool) {
	value, ok := p.lookedUp(flag)
	n, err := strconv.ParseInt(value, 10, 64)
	return n, ok && err == nil
}

// ratio reads a percentage, which may be a fraction.
func (p *planner) ratio(name string) (percent float64, given bool) {
	text := strings.TrimSpace(p.vars.get(name))
	if text == "" {
		return 0, false
	}
	number := strings.TrimSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.Trim(number, "0123456789.") != "" || percent > 100 || math.IsNaN(percent) {
		p.warn(name + "=" + shortened(text) + " is ignored: give a percentage from 0 to 100")
		return 0, false
	}
	return percent, true
}

func (p *planner) smallMemory() bool {
	limit := p.memory()
	return limit > 0 && limit <= smallMemory
}

// addCompiler leaves C2 out where memory is small.
func (p *planner) addCompiler() {
	if p.old() && p.smallMemory() && !p.sets(compilerFlags...) {
		p.add(Option{Text: "-XX:TieredStopAtLevel=1"})
	}
}

// addDiagnostics logs collections, as JDK 9 and later do it (JEP 271).
func (p *planner) addDiagnostics() {
	const name = "JAVA_DIAGNOSTICS"
	if off(p.vars.get(name)) {
		return
	}
	if !p.sets("NativeMemoryTracking") {
		p.add(Option{"-XX:NativeMemoryTracking=summary", name})
	}
	switch {
	case p.major >= 9:
		p.add(Option{"-Xlog:gc*:stdout:time", name})
	case p.major > 0:
		p.add(Option{"-XX:+PrintGC", name}, Option{"-XX:+PrintGCDateStamps", name}, Option{"-XX:+PrintGCTimeStamps", name})
	}
	p.add(Option{"-XX:+UnlockDiagnosticVMOptions", name})
}

// addProcessors tells a JVM the number of processors that it does not see: the
// quota before JDK 10, and what the user chose.
func (p *planner) addProcessors() {
	name, n, chosen := p.chosenCores()
	switch {
	case chosen && n == 0:
		p.settle("ActiveProcessorCount")
		return
	case !chosen:
		if n = p.cores(); n == 0 || !p.old() {
			return
		}
	case p.major >= 10:
		if !p.sets("ActiveProcessorCount") {
			p.add(Option{"-XX:ActiveProcessorCount=" + strconv.Itoa(n), name})
		}
		return
	}
	if !p.old() {
		return
	}
	count := strconv.Itoa(n)
	if !p.sets("ParallelGCThreads") {
		p.add(Option{"-XX:ParallelGCThreads=" + count, name})
		// More of these than of the others, and G1 refuses to start.
		if !p.sets("ConcGCThreads") {
			p.add(Option{"-XX:ConcGCThreads=" + count, name})
		}
	}
	if key := "-Djava.util.concurrent.ForkJoinPool.common.parallelism="; !p.has(key) {
		p.add(Option{key + count, name})
	}
	if !p.sets("CICompilerCount", "CICompilerCountPerCPU") && !p.sets(compilerFlags...) {
		p.add(Option{"-XX:CICompilerCount=" + strconv.Itoa(compilerCount(n, p.smallMemory())), name})
	}
}

// chosenCores is the number of processors that the user chose. The script reads
// JAVA_CORE_LIMIT, and its documentation says JAVA_MAX_CORE.
func (p *planner) chosenCores() (name string, n int, chosen bool) {
	for _, name := range []string{"JAVA_CORE_LIMIT", "JAVA_MAX_CORE"} {
		text := strings.TrimSpace(p.vars.get(name))
		if text == "" {
			continue
		}
		if n := p.number(name, maxCores); n > 0 || strings.Trim(text, "0") == "" {
			return name, int(n), true
		}
	}
	return "", 0, false
}

// compilerCount is how many compiler threads are started for a number of processors,
// of which only those of C1 without C2.
func compilerCount(cores int, withoutC2 bool) int {
	c1, c2 := jvmopts.CompilerThreads(cores)
	if withoutC2 {
		return c1
	}
	return c1 + c2
}

// addCollector makes a JVM before 10 give memory back, and any end when it is
// out of it. A collector of the user's stays alone.
func (p *planner) addCollector() {
	if p.old() && !p.sets(collectorFlags...) {
		p.add(Option{Text: "-XX:+UseParallelGC"})
		for _, o := range []struct{ name, value string }{{"GCTimeRatio", "4"}, {"AdaptiveSizePolicyWeight", "90"}} {
			if !p.sets(o.name) {
				p.add(Option{Text: "-XX:" + o.name + "=" + o.value})
			}
		}
		if !p.sets("MinHeapFreeRatio", "MaxHeapFreeRatio") {
			p.add(Option{Text: "-XX:MinHeapFreeRatio=20"}, Option{Text: "-XX:MaxHeapFreeRatio=40"})
		}
	}
	if p.major != 7 && !p.sets(outOfMemoryFlags...) {
		p.add(Option{Text: "-XX:+ExitOnOutOfMemoryError"})
	}
}

// has says whether the user gave an option that starts so, on any way.
func (p *planner) has(prefix string) bool {
	given := slices.Clone(p.user)
	for _, name := range []string{"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"} {
		given = append(given, words(p.vars.get(name))...)
	}
	return slices.ContainsFunc(given, func(w string) bool {
		return strings.HasPrefix(strings.TrimLeft(w, `"'`), prefix)
	})
}

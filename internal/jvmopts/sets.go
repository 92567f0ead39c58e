package jvmopts

import (
	"math/bits"
	"strconv"
	"strings"
)

// settings is what an option sets (parse_each_vm_init_arg of arguments.cpp, and
// ParseArguments of java.c for the old spellings). A value that the JVM would
// refuse is kept as it is written.
func settings(option string, release Release) []Setting {
	if rest, ok := strings.CutPrefix(option, "-XX:"); ok {
		return flagSettings(rest, release)
	}
	if fixed, ok := fixedOptions[option]; ok {
		return fixed
	}
	for _, p := range prefixOptions {
		if rest, ok := strings.CutPrefix(option, p.prefix); ok {
			return p.settings(rest, release)
		}
	}
	return nil
}

// fixedOptions are the options without a value that set flags. Those that
// set the mode of compilation set flags that the JVM does not show as set, but
// the last of them wins as with any flag.
var fixedOptions = map[string][]Setting{
	"-Xint":         {{"UseInterpreter", "true"}, {"UseCompiler", "false"}, {"BackgroundCompilation", "true"}},
	"-Xcomp":        {{"UseInterpreter", "false"}, {"UseCompiler", "true"}, {"BackgroundCompilation", "false"}},
	"-Xmixed":       {{"UseInterpreter", "true"}, {"UseCompiler", "true"}, {"BackgroundCompilation", "true"}},
	"-Xbatch":       {{"BackgroundCompilation", "false"}},
	"-Xrs":          {{"ReduceSignalUsage", "true"}},
	"-Xnoclassgc":   {{"ClassUnloading", "false"}},
	"-Xincgc":       {{"UseConcMarkSweepGC", "true"}, {"CMSIncrementalMode", "true"}},
	"-Xnoincgc":     {{"UseConcMarkSweepGC", "false"}, {"CMSIncrementalMode", "false"}},
	"-Xconcgc":      {{"UseConcMarkSweepGC", "true"}},
	"-Xnoconcgc":    {{"UseConcMarkSweepGC", "false"}},
	"-Xshare:on":    {{"UseSharedSpaces", "true"}, {"RequireSharedSpaces", "true"}},
	"-Xshare:auto":  {{"UseSharedSpaces", "true"}, {"RequireSharedSpaces", "false"}},
	"-Xshare:off":   {{"UseSharedSpaces", "false"}, {"RequireSharedSpaces", "false"}},
	"-Xshare:dump":  {{"DumpSharedSpaces", "true"}, {"UseInterpreter", "true"}, {"UseCompiler", "false"}, {"BackgroundCompilation", "true"}},
	"-Xverify":      verifyAll,
	"-Xverify:all":  verifyAll,
	"-verify":       verifyAll,
	"-Xverify:none": {{"BytecodeVerificationLocal", "false"}, {"BytecodeVerificationRemote", "false"}},
	"-Xverify:remote": {
		{"BytecodeVerificationLocal", "false"}, {"BytecodeVerificationRemote", "true"}},
	"-Xlog":       {{"Xlog", "all"}},
	"-verbosegc":  {{"verbose", "gc"}},
	"-verbose:gc": {{"verbose", "gc"}},
}

var verifyAll = []Setting{{"BytecodeVerificationLocal", "true"}, {"BytecodeVerificationRemote", "true"}}

// prefixOptions are the options with a value, other than flags.
var prefixOptions = []struct {
	prefix   string
	settings func(rest string, release Release) []Setting
}{
	{"-Xmx", sizeOf("MaxHeapSize")},
	{"-mx", sizeOf("MaxHeapSize")},
	{"-Xms", sizeOf("InitialHeapSize", "MinHeapSize")},
	{"-ms", sizeOf("InitialHeapSize", "MinHeapSize")},
	{"-Xmn", sizeOf("NewSize", "MaxNewSize")},
	{"-Xss", stackSize},
	{"-ss", stackSize},
	{"-Xmaxjitcodesize", before(27, sizeOf("ReservedCodeCacheSize"))},
	{"-Xmaxf", percentOf("MaxHeapFreeRatio")},
	{"-Xminf", percentOf("MinHeapFreeRatio")},
	{"-Xlog:", textOf("Xlog")},
	{"-Xloggc:", textOf("Xloggc")},
	{"-Djava.compiler=", before(21, textOf("java.compiler"))},
}

func sizeOf(flags ...string) func(string, Release) []Setting {
	return func(rest string, release Release) []Setting {
		value := number(rest, release)
		out := make([]Setting, len(flags))
		for i, f := range flags {
			out[i] = Setting{f, value}
		}
		return out
	}
}

// before is for options that HotSpot ignores from a feature release on.
func before(feature int, f func(string, Release) []Setting) func(string, Release) []Setting {
	return func(rest string, release Release) []Setting {
		if release.since(feature) {
			return nil
		}
		return f(rest, release)
	}
}

func textOf(flag string) func(string, Release) []Setting {
	return func(rest string, _ Release) []Setting { return []Setting{{flag, rest}} }
}

// stackSize: the flag is in KiB, rounded up.
func stackSize(rest string, release Release) []Setting {
	n, ok := parseSize(rest, release)
	if !ok || n > 1<<40 {
		return []Setting{{"ThreadStackSize", rest}}
	}
	return []Setting{{"ThreadStackSize", strconv.FormatUint((n+1023)/1024, 10)}}
}

// percentOf: the option is a fraction, the flag a percentage, cut to a whole.
func percentOf(flag string) func(string, Release) []Setting {
	return func(rest string, _ Release) []Setting {
		f, err := strconv.ParseFloat(rest, 64)
		if err != nil || f < 0 || f > 1 {
			return []Setting{{flag, rest}}
		}
		return []Setting{{flag, strconv.Itoa(int(f * 100))}}
	}
}

// flagSettings is what follows -XX: (parse_argument).
func flagSettings(rest string, release Release) []Setting {
	if rest == "" {
		return nil
	}
	if rest[0] == '+' || rest[0] == '-' {
		if !isName(rest[1:]) {
			return nil
		}
		return []Setting{{realName(rest[1:]), strconv.FormatBool(rest[0] == '+')}}
	}
	name, value, ok := strings.Cut(rest, "=")
	reset := strings.HasSuffix(name, ":") // -XX:Name:=text starts a list anew
	name = strings.TrimSuffix(name, ":")
	if !ok || !isName(name) || name == "Flags" || name == "VMOptionsFile" {
		return nil
	}
	name = realName(name)
	if reset || textFlag(name) {
		return []Setting{{name, value}}
	}
	return []Setting{{name, number(value, release)}}
}

// isName tells whether the JVM can take it for the name of a flag.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// realName resolves the aliases of flags (aliased_jvm_flags).
func realName(name string) string {
	switch name {
	case "DefaultMaxRAMFraction":
		return "MaxRAMFraction"
	case "CMSMarkStackSize", "G1MarkStackSize":
		return "MarkStackSize"
	case "CMSMarkStackSizeMax":
		return "MarkStackSizeMax"
	case "ParallelMarkingThreads", "ParallelCMSThreads":
		return "ConcGCThreads"
	case "CreateMinidumpOnCrash":
		return "CreateCoredumpOnCrash"
	}
	return name
}

// textFlag tells whether a flag holds text (ccstr), so that "64k" is no number.
func textFlag(name string) bool {
	switch name {
	case "NativeMemoryTracking", "SharedArchiveFile", "SharedClassListFile", "ArchiveClassesAtExit",
		"AOTCache", "AOTCacheOutput", "AOTMode", "AOTConfiguration", "AOTLibrary", "ErrorFile", "HeapDumpPath",
		"AllocateHeapAt", "CompilationMode", "LogFile", "StartFlightRecording", "FlightRecorderOptions",
		"DumpLoadedClassList", "ReplayDataFile", "CompileCommandFile", "JVMCILibPath", "ShenandoahGCMode",
		"ShenandoahGCHeuristics", "MetaspaceReclaimPolicy", "UseBranchProtection":
		return true
	}
	return Collects(name)
}

// Collects tells whether a flag collects its values (ccstrlist), so that one
// option does not replace another.
func Collects(name string) bool {
	switch name {
	case "OnOutOfMemoryError", "OnError", "CompileOnly", "CompileCommand", "DisableIntrinsic", "ControlIntrinsic":
		return true
	}
	return false
}

// number is a size or number as the JVM counts it, or the text itself.
func number(text string, release Release) string {
	digits, negative := strings.CutPrefix(text, "-")
	if n, ok := parseSize(digits, release); ok {
		sign := ""
		if negative {
			sign = "-"
		}
		return sign + strconv.FormatUint(n, 10)
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.Contains(text, ".") {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return text
}

// parseSize reads a number with an optional unit of k, m, g or t, in either case
// (atojulong); it may be hexadecimal from JDK 9 on.
func parseSize(text string, release Release) (uint64, bool) {
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, false
	}
	shift := 0
	switch text[len(text)-1] | 0x20 {
	case 'k':
		shift = 10
	case 'm':
		shift = 20
	case 'g':
		shift = 30
	case 't':
		shift = 40
	}
	digits, base := text, 10
	if shift > 0 {
		digits = text[:len(text)-1]
	}
	if len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x' && release.since(9) {
		digits, base = digits[2:], 16
	}
	n, err := strconv.ParseUint(digits, base, 64)
	if err != nil || bits.Len64(n)+shift > 64 {
		return 0, false
	}
	return n << shift, true
}

package runjava

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/jvmopts"
)

// userFlags reads the options that these tests use as the JVM does: those of
// JAVA_TOOL_OPTIONS, the command line and _JAVA_OPTIONS, the last of which wins.
func userFlags(options, env []string) func(string) (string, bool) {
	tool, _ := jvmopts.LookupEnv(env, "JAVA_TOOL_OPTIONS")
	last, _ := jvmopts.LookupEnv(env, "_JAVA_OPTIONS")
	flags := map[string]string{}
	for _, list := range [][]string{words(tool), options, words(last)} {
		for _, o := range list {
			readFlag(o, flags)
		}
	}
	return func(flag string) (string, bool) { value, ok := flags[flag]; return value, ok }
}

func readFlag(option string, flags map[string]string) {
	for prefix, names := range map[string][]string{"-Xmx": {"MaxHeapSize"}, "-Xms": {"InitialHeapSize", "MinHeapSize"}, "-Xint": {"UseInterpreter"}} {
		if value, ok := strings.CutPrefix(option, prefix); ok {
			for _, n := range names {
				flags[n] = inBytes(value)
			}
		}
	}
	flag, ok := strings.CutPrefix(option, "-XX:")
	if !ok || flag == "" {
		return
	}
	if flag[0] == '+' || flag[0] == '-' {
		flags[flag[1:]] = strconv.FormatBool(flag[0] == '+')
		return
	}
	name, value, _ := strings.Cut(flag, "=")
	flags[name] = inBytes(value)
}

func inBytes(size string) string {
	for i, unit := range []string{"", "k", "m", "g"} {
		if n, err := strconv.ParseInt(strings.TrimSuffix(size, unit), 10, 64); err == nil && (unit == "" || strings.HasSuffix(size, unit)) {
			return strconv.FormatInt(n<<(10*i), 10)
		}
	}
	return size
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

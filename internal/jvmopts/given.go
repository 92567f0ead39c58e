package jvmopts

import (
	"os"
	"path/filepath"
	"strings"
)

// Source is one place where options were found.
type Source struct {
	// Name is "command line", an environment variable, or a file.
	Name    string
	Options []string
}

// maxFile bounds an argument or flags file.
const maxFile = 1 << 20

// envVars are the variables that the launcher and the JVM read options from:
// java(1) on JDK_JAVA_OPTIONS, the tool documentation of the JVM on the other
// two (Arguments::parse, JavaVMOptions).
var envVars = []string{"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"}

// Given lists every place that the user's options of a command come from: the
// command line, argument files, flags files and the environment. Relative
// names are below dir. A file that cannot be read gives nothing: the JVM will
// complain.
func Given(c Command, env []string, dir string) []Source {
	sources := []Source{{Name: "command line", Options: c.Options}}
	for _, o := range c.Options {
		name, ok := strings.CutPrefix(o, "@")
		if !ok {
			name, ok = strings.CutPrefix(o, "-XX:Flags=")
		}
		if !ok {
			name, ok = strings.CutPrefix(o, "-XX:VMOptionsFile=")
		}
		if ok {
			sources = appendFile(sources, name, dir, strings.HasPrefix(o, "-XX:Flags="))
		}
	}
	for _, name := range envVars {
		if v := lookup(env, name); v != "" {
			sources = append(sources, Source{Name: name, Options: Split(v)})
		}
	}
	return sources
}

func appendFile(sources []Source, name, dir string, flags bool) []Source {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	st, err := os.Stat(name)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxFile {
		return sources
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return sources
	}
	words := Split(string(b))
	if flags { // a flags file writes "+UseSerialGC" for "-XX:+UseSerialGC"
		for i, w := range words {
			words[i] = "-XX:" + w
		}
	}
	return append(sources, Source{Name: name, Options: words})
}

func lookup(env []string, name string) string {
	v := ""
	for _, e := range env { // the last one counts, as in exec.Cmd
		if rest, ok := strings.CutPrefix(e, name+"="); ok {
			v = rest
		}
	}
	return v
}

// Split cuts text into words at white space; single and double quotes keep
// white space, and are removed, as the JVM does in its environment variables.
// Lines that start with # are comments.
func Split(s string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	in, comment := false, false
	for _, r := range s {
		switch {
		case comment:
			comment = r != '\n'
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == '\f':
			if in {
				words = append(words, word.String())
				word.Reset()
			}
			in = false
		case r == '#' && !in:
			comment = true
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}

// Family is what an option decides. Options of one family contradict each
// other.
type Family string

// The families that tare knows; any other -XX option is a family of its own.
const (
	HeapMax     Family = "maximum heap"
	HeapInitial Family = "initial heap"
	Collector   Family = "collector"
	Compiler    Family = "compilers"
	StackSize   Family = "thread stack size"
	Archive     Family = "class archive"
	NoFamily    Family = ""
)

var families = map[string]Family{
	"MaxHeapSize": HeapMax, "MaxRAMPercentage": HeapMax, "MaxRAMFraction": HeapMax, "MaxRAM": HeapMax, "MinRAMPercentage": HeapMax,
	"InitialHeapSize": HeapInitial, "InitialRAMPercentage": HeapInitial, "InitialRAMFraction": HeapInitial,
	"TieredStopAtLevel": Compiler, "TieredCompilation": Compiler, "CompilationMode": Compiler,
	"ThreadStackSize":   StackSize,
	"SharedArchiveFile": Archive, "ArchiveClassesAtExit": Archive, "AutoCreateSharedArchive": Archive,
	"AOTCache": Archive, "AOTMode": Archive, "AOTConfiguration": Archive, "AOTCacheOutput": Archive,
	"UseSerialGC": Collector, "UseParallelGC": Collector, "UseParallelOldGC": Collector, "UseG1GC": Collector,
	"UseZGC": Collector, "UseShenandoahGC": Collector, "UseEpsilonGC": Collector, "UseConcMarkSweepGC": Collector,
}

// FamilyOf tells what an option decides; NoFamily for options that nothing
// added can contradict. "-XX:+UnlockDiagnosticVMOptions" and its like are
// NoFamily: they are harmless twice.
func FamilyOf(option string) Family {
	switch {
	case strings.HasPrefix(option, "-Xmx"):
		return HeapMax
	case strings.HasPrefix(option, "-Xms"):
		return HeapInitial
	case strings.HasPrefix(option, "-Xss"):
		return StackSize
	case option == "-Xint" || option == "-Xcomp":
		return Compiler
	case strings.HasPrefix(option, "-Xshare:"):
		return Archive
	case option == "-client" || option == "-server":
		return NoFamily
	}
	name, ok := strings.CutPrefix(option, "-XX:")
	if !ok {
		return NoFamily
	}
	name, _, _ = strings.Cut(strings.TrimLeft(name, "+-"), "=")
	if strings.HasPrefix(name, "Unlock") {
		return NoFamily
	}
	if f, ok := families[name]; ok {
		return f
	}
	return Family(name)
}

// SetBy returns the option of the user that decides a family, and where it
// was found; ok is false when the user left it open.
func SetBy(sources []Source, f Family) (option, source string, ok bool) {
	if f == NoFamily {
		return "", "", false
	}
	for _, s := range sources {
		for _, o := range s.Options {
			if FamilyOf(o) == f {
				return o, s.Name, true
			}
		}
	}
	return "", "", false
}

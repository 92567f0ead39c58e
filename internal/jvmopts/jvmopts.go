// Package jvmopts is the model of a JVM's options: which are in effect, from
// all of Java's own sources and in its own order, what each of them sets, what
// the user has settled with them, and what may still be added so that no
// option of the user's is overridden.
//
// The rules are those of the java launcher and of HotSpot:
//   - src/java.base/share/native/libjli/args.c: @argument files and
//     JDK_JAVA_OPTIONS (JDK 9 and later);
//   - src/java.base/share/native/libjli/java.c: where the options end and the
//     application begins;
//   - src/hotspot/share/runtime/arguments.cpp (JDK 8:
//     hotspot/src/share/vm/runtime/arguments.cpp): JAVA_TOOL_OPTIONS,
//     _JAVA_OPTIONS, -XX:VMOptionsFile=, -XX:Flags=, and what an option sets.
//
// .hotspotrc is not among the sources: product builds ignore it unless
// -XX:Flags=.hotspotrc names it.
//
// Nothing that is read is evaluated or run. The package needs the standard
// library only, and little of it: it is part of the launcher.
package jvmopts

import (
	"errors"
	"slices"
	"strings"
)

// Place is a kind of source. A later place overrides an earlier one, for so the
// JVM applies them.
type Place int

// The places that options come from, in the order in which the JVM applies
// them. Environment is for variables that are no options but settle something,
// such as MALLOC_ARENA_MAX.
const (
	Environment     Place = iota
	FlagsFile             // -XX:Flags=FILE
	ToolOptions           // JAVA_TOOL_OPTIONS
	LauncherOptions       // JDK_JAVA_OPTIONS
	Added                 // what Add put before the user's command line
	CommandLine
	Starter     // the command line that a program gives the JVM that it starts (Options.Of)
	JavaOptions // _JAVA_OPTIONS
)

var placeNames = [...]string{"environment", "flags file", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "added", "command line", "set by what starts the JVM", "_JAVA_OPTIONS"}

func (p Place) String() string { return placeNames[p] }

// Source is where an option was found.
type Source struct {
	Place Place
	// File is the argument, options or flags file that holds the option, as
	// it was named; empty when the place holds the option itself.
	File string
}

func (s Source) String() string {
	switch {
	case s.File == "":
		return s.Place.String()
	case s.Place == FlagsFile || s.Place == CommandLine || s.Place == Starter:
		return s.File
	default:
		return s.File + " (" + s.Place.String() + ")"
	}
}

// Option is one option as the user gave it.
type Option struct {
	// Text is the option, without the quotes of its source; an option of a
	// flags file has "-XX:" in front.
	Text string
	// Arg is the value of an option that takes it from the next word, such
	// as the class path of -cp.
	Arg    string
	Source Source
	// Sets is what the option sets, often one flag. Empty for options that
	// set none that this package knows.
	Sets []Setting
	// Unknown says that the option stands for a source that could not be
	// read: anything may be set there.
	Unknown bool

	settles []Family
}

// String is the option and where it was found.
func (o Option) String() string {
	text := o.Text
	if o.Arg != "" {
		text += " " + o.Arg
	}
	if o.Source.Place == Environment {
		return text
	}
	return text + " (" + o.Source.String() + ")"
}

// Setting is a flag and the value it gets: true or false, a decimal number of
// the unit that HotSpot counts the flag in (bytes, for ThreadStackSize KiB), or
// text. Options that set no flag have a name of their own here: Xlog, Xloggc,
// verbose, java.compiler.
type Setting struct{ Flag, Value string }

// Input is what a JVM is to be started with.
type Input struct {
	// Release decides which sources that JVM reads; zero is the newest.
	Release Release
	// Args are the arguments of the java launcher, without its name.
	Args []string
	// Env is the environment, as of os.Environ. Of a name that is there twice
	// the last counts.
	Env []string
	// Dir is where relative file names start; empty is the working directory.
	Dir string
	// ReadFile reads a regular file of at most MaxFile bytes; nil is ReadFile
	// of this package.
	ReadFile func(name string) ([]byte, error)
}

// Options is what a JVM is told by its user.
type Options struct {
	// All are the options in the order in which the JVM applies them: the last
	// one to set a flag wins.
	All []Option
	// Environ are variables that settle something without being an option of
	// the JVM, such as MALLOC_ARENA_MAX=2.
	Environ []Option
	// Command is the command line with argument files expanded; Java is
	// empty, and the options of JDK_JAVA_OPTIONS are not among Options.
	Command Command

	in              Input
	added, addedEnv []string
}

// Read finds all options. The error joins what is wrong with them, one line
// each that names the file or variable; the Options hold all that could be read
// nevertheless, so that a launcher can start the JVM, which will complain
// itself if it must.
func Read(in Input) (Options, error) {
	r := reader{in: in}
	if r.in.ReadFile == nil {
		r.in.ReadFile = ReadFile
	}
	commandLine, command := r.commandLine()
	containers := [][]Option{
		r.vmVariable("JAVA_TOOL_OPTIONS", ToolOptions),
		r.expandVMOptions(commandLine),
		r.vmVariable("_JAVA_OPTIONS", JavaOptions),
	}
	all := slices.Concat(r.flagsFile(containers), slices.Concat(containers...))
	if r.count > maxOptions { // what was left out may be anything
		all = append(all, Option{Text: "too many options", Source: Source{Place: CommandLine}, Unknown: true})
	}
	for i := range all {
		if !all[i].Unknown {
			all[i].Sets = settings(all[i].Text, in.Release)
			all[i].settles = settling(all[i].Sets)
		}
	}
	in.Args = slices.Clone(in.Args)
	return Options{All: all, Environ: environ(in.Env), Command: command, in: in}, errors.Join(r.problems...)
}

// Of are the options of a JVM that a program starts in the same environment: of this release,
// with these arguments of its launcher. Nothing can be added beside what cannot be read. A share
// of the memory that the program chose, and not its user by a variable, leaves the size of the
// heap open: it is the same for all applications.
func (o Options) Of(r Release, args []string) Options {
	in := o.in
	in.Release, in.Args = r, args
	other, _ := Read(in)
	for i := range other.All {
		option := &other.All[i]
		if option.Source.Place != CommandLine {
			continue
		}
		option.Source.Place = Starter
		if option.isShare() && !mentions(in.Env, option.Text) {
			option.settles = []Family{Family(option.Sets[0].Flag)}
		}
	}
	return other
}

// isShare says that an option sets a share of the memory for the heap.
func (o Option) isShare() bool {
	return len(o.Sets) == 1 && (strings.HasSuffix(o.Sets[0].Flag, "RAMPercentage") || strings.HasSuffix(o.Sets[0].Flag, "RAMFraction"))
}

// mentions says that a word is in the value of a variable.
func mentions(env []string, word string) bool {
	return slices.ContainsFunc(env, func(e string) bool {
		_, value, _ := strings.Cut(e, "=")
		return slices.Contains(strings.Fields(value), word)
	})
}

// Value is the value that a flag has by the options, and the option that set
// it, which is the last one to do so; ok is false when no option sets it. The
// values of a flag that collects them, such as OnOutOfMemoryError, are joined
// by newlines.
func (o Options) Value(flag string) (value string, by Option, ok bool) {
	for _, option := range o.All {
		for _, s := range option.Sets {
			if s.Flag != flag {
				continue
			}
			if ok && Collects(flag) {
				value += "\n" + s.Value
			} else {
				value = s.Value
			}
			by, ok = option, true
		}
	}
	return value, by, ok
}

// Args are the arguments to start the launcher with: what was added, then the
// user's own as given.
func (o Options) Args() []string { return slices.Concat(o.added, o.in.Args) }

// Added are the options that Add put there.
func (o Options) Added() []string { return slices.Clone(o.added) }

// AddedEnv are the variables that Add put there, as NAME=value.
func (o Options) AddedEnv() []string { return slices.Clone(o.addedEnv) }

// environ are the variables of an environment that settle something.
func environ(env []string) []Option {
	var found []Option
	for _, name := range []string{"MALLOC_ARENA_MAX", "MALLOC_ARENA_TEST", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES"} {
		if value, ok := LookupEnv(env, name); ok {
			found = append(found, variable(name, value))
		}
	}
	return found
}

// variable is an environment variable as an option. The tunables of glibc
// (its manual, "Tunables") are settings of their own.
func variable(name, value string) Option {
	o := Option{Text: name + "=" + value, Source: Source{Place: Environment}}
	if name != "GLIBC_TUNABLES" {
		o.Sets = []Setting{{name, value}}
		value = ""
	}
	for tunable := range strings.SplitSeq(value, ":") {
		if n, v, ok := strings.Cut(tunable, "="); ok {
			o.Sets = append(o.Sets, Setting{n, v})
		}
	}
	o.settles = settling(o.Sets)
	return o
}

// LookupEnv looks a variable up in an environment as of os.Environ: of several
// settings the last counts, as in os/exec.
func LookupEnv(env []string, name string) (value string, ok bool) {
	for _, e := range slices.Backward(env) {
		if value, ok = strings.CutPrefix(e, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

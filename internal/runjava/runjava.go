// Package runjava does what run-java.sh does, the start script of the fabric8
// Java images: it finds the application, turns the variables of the environment
// into options of the JVM and says which command is to be run. The caller runs
// it. The script is run-java.sh 1.3.7 (Maven Central io.fabric8:run-java-sh,
// https://github.com/fabric8io-images/run-java-sh), with HIDE_CMD_LINE of its
// later versions; docs/run-java.md lists where this package differs, and why.
//
// No variable of the environment is evaluated or run. run-env.sh and
// run-java-options are programs of the image, and are run as the script does.
// The package needs the standard library only.
package runjava

import (
	"errors"
	"strings"

	"tare.dev/tare/internal/linux"
)

// ExitNoJava is the exit code of a shell that does not find java.
const ExitNoJava = 127

// Input is a call of the launcher and where it happens.
type Input struct {
	// Args are the arguments after the program's name.
	Args []string
	// Env is the environment as in os.Environ, Dir the working folder.
	Env []string
	Dir string
	// ScriptDir is the folder that the launcher was called in (see ScriptDir):
	// the application's when JAVA_APP_DIR does not name another. Name is what
	// the launcher was called as, such as run-java.sh.
	ScriptDir, Name string
	// OptionsFile is the program that comes before run-java-options in PATH;
	// OptionsFile of this package on a live machine.
	OptionsFile string
	Budget      Budget
	// Major is the feature release of the java that an environment leads to,
	// 0 if unknown.
	Major func(env []string) int
	// Lookup reads what the user's options, and the variables that the JVM
	// reads, say. Of a flag, under its own name (MaxHeapSize for -Xmx), it
	// returns the value, sizes in bytes, and whether the user set it.
	Lookup func(options, env []string) func(flag string) (value string, ok bool)
	// Run runs a program; Start does.
	Run func(Process) (output []byte, status int, err error)
}

// Budget is what bounds the process.
type Budget struct {
	// MemoryBytes is the memory limit; 0 when there is none below the machine's
	// memory.
	MemoryBytes int64
	// Cores is the CPU quota in processors, rounded up; 0 without a quota.
	Cores int
}

// Option is an option of the JVM.
type Option struct {
	Text string
	// From is the variable or program that asked for it. Empty for a default of
	// the script's, which nobody asked for.
	From string
}

// Plan is what to do.
type Plan struct {
	// OnlyPrint says that Line is to be printed and nothing run.
	OnlyPrint bool
	// Quiet says that Line is not to be printed before the command is run.
	Quiet bool
	// Argv0 is the name to give the process.
	Argv0 string
	// Options are in order; of two that set the same the later one counts.
	Options []Option
	// Settled are flags that a variable decided without an option: nothing
	// that sets them is to be added. JAVA_MAX_MEM_RATIO=0 settles MaxHeapSize.
	Settled []string
	// Classpath is the value of -cp.
	Classpath string
	// Main is "-jar" and the jar, or the main class and what follows it in
	// JAVA_MAIN_CLASS.
	Main []string
	// Args are the application's arguments.
	Args []string
	// Dir is the folder to run in, Env the environment to run with.
	Dir string
	Env []string
	// MemoryBytes and Cores are the bounds that were used, 0 for none: those of
	// Input.Budget, or CONTAINER_MAX_MEMORY and CONTAINER_CORE_LIMIT.
	MemoryBytes int64
	Cores       int
	// Warnings are lines for the standard error.
	Warnings []string
	// Shell is what run-env.sh changed of the process; nil without one.
	Shell *Shell
}

// ExitError ends the program instead of starting java.
type ExitError struct {
	Code int
	// Line is for the standard output, where the script prints its errors; it
	// starts with "ERROR: ". If it is empty, Err is for the standard error.
	// Both are empty when run-env.sh ended the program itself.
	Line string
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Line
}

func (e *ExitError) Unwrap() error { return e.Err }

func exit(line string) error { return &ExitError{Code: 1, Line: "ERROR: " + linux.Printable(line)} }

// Make decides what to do. Its error is an *ExitError.
func Make(in Input) (*Plan, error) {
	p := &planner{in: in, vars: readVariables(in.Env), plan: &Plan{Dir: in.Dir, Argv0: "java"}}
	p.setMajor()
	p.exportBudget()
	args := in.Args
	var err error
	if len(args) > 0 && args[0] == "options" {
		p.plan.OnlyPrint = true
		p.selectOptions(args[1:])
	} else {
		if len(args) > 0 && args[0] == "run" {
			args = args[1:]
		}
		err = p.run(args)
	}
	if err != nil {
		var e *ExitError
		if !errors.As(err, &e) {
			err = &ExitError{Code: 1, Line: "ERROR: " + linux.Printable(err.Error()), Err: err}
		}
		return nil, err
	}
	p.plan.Env = p.vars.env
	p.plan.MemoryBytes, p.plan.Cores = p.memory(), p.cores()
	return p.plan, nil
}

// Argv is the command line, Argv0 first. With defaults false it leaves out the
// options that nobody asked for: a caller may have better ones.
func (p *Plan) Argv(defaults bool) []string {
	argv := []string{p.Argv0}
	for _, o := range p.Options {
		if defaults || o.From != "" {
			argv = append(argv, o.Text)
		}
	}
	if p.OnlyPrint {
		return argv
	}
	argv = append(argv, "-cp", p.Classpath)
	argv = append(argv, p.Main...)
	return append(argv, p.Args...)
}

// Line is what the script prints before it runs argv: the command, or with
// OnlyPrint the options alone, which may be none. It is for readers: a shell
// would not read it as the same words.
func (p *Plan) Line(argv []string) string {
	if p.OnlyPrint {
		return linux.Printable(strings.Join(argv[1:], " "))
	}
	name := ""
	if p.Argv0 != "java" {
		name = "-a '" + p.Argv0 + "' "
	}
	return linux.Printable("exec " + name + "java " + strings.Join(argv[1:], " "))
}

// planner is a plan in the making.
type planner struct {
	in       Input
	vars     variables
	plan     *Plan
	major    int
	user     []string // the user's options
	lookedUp func(flag string) (string, bool)
}

func (p *planner) warn(text string) {
	text = "WARNING: " + linux.Printable(text)
	for _, w := range p.plan.Warnings {
		if w == text {
			return
		}
	}
	p.plan.Warnings = append(p.plan.Warnings, text)
}

// add appends options to the plan.
func (p *planner) add(options ...Option) { p.plan.Options = append(p.plan.Options, options...) }

// addUser appends the user's own options, of which the others depend.
func (p *planner) addUser(words []string, from string) {
	for _, w := range words {
		p.add(Option{w, from})
	}
	p.readUser(words)
}

// readUser notes options as the user's.
func (p *planner) readUser(words []string) {
	p.user = append(p.user, words...)
	p.lookedUp = p.in.Lookup(p.user, p.vars.env)
}

// sets says whether the user set one of some flags.
func (p *planner) sets(flags ...string) bool {
	for _, f := range flags {
		if _, ok := p.lookedUp(f); ok {
			return true
		}
	}
	return false
}

func (p *planner) settle(flag string) { p.plan.Settled = append(p.plan.Settled, flag) }

// Package launch starts a JVM so that it fits the container that it is in: it
// reads what bounds the process, finds out which JVM will run, adds the options
// that the user left open, each with its reason, and replaces itself by java.
// It imports the standard library alone.
package launch

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"tare.dev/tare/internal/jarfile"
	"tare.dev/tare/internal/jdkfiles"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/shell"
)

// Exit codes, those of the other commands of tare.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitNoTarget = 3
	exitNoLimit  = 6
)

// Help is the text of --help.
const Help = `Starts a JVM so that it fits its container: sizes the heap by the memory limit
less an estimate of everything else, or by tare.json (tare fit --profile), and
adds what saves memory. An option that you set is never changed, however you set
it. Then it replaces itself by java.

  %[1]s [flags] -- java [options] -jar app.jar [arguments]

  --explain          what is added, and why, on stderr
  --dry-run          print the command instead of running it
  --json             with --dry-run: the plan as JSON (schema ` + Schema + `)
  --force            start even with less memory than tare.json has proven
  --nmt              native memory tracking (-XX:NativeMemoryTracking=summary)
  --gc-log FILE      log collections to a file, or to stdout
  --heap-dump DIR    dump the heap there at the first OutOfMemoryError
  --error-file PATH  where the JVM writes why it crashed: a file or folder
  --run-java         behave as run-java.sh
  --take-archive     start nothing: take the archive that is there for the one of
                     TARE_PROFILE, in a build that trained it anew

Called as java, it takes these flags from TARE_EXEC_FLAGS, finds the real java
by JAVA_HOME or as the next one in PATH, and passes all arguments on. Called as
run-java.sh or run-java, it behaves as that script does.

Exit codes: those of java once it runs; 2 usage, 3 no java or no such jar,
6 the container is smaller than what was proven
`

// Program is one call of the launcher.
type Program struct {
	// Args is the command line, the program's own name first.
	Args []string
	// Env is the environment as in os.Environ, Dir the working folder.
	Env []string
	Dir string
	// Self is this program's file, which is never taken for java; nil when
	// unknown.
	Self           os.FileInfo
	Stdout, Stderr io.Writer
	System         System
	// Exec replaces the process; it returns only on failure.
	Exec func(path string, args, env []string) error
	// DisableTHP is called before Exec where it is needed.
	DisableTHP func() error
	// Chdir changes the working folder before Exec where that is asked for.
	Chdir func(string) error
}

// Host is a call on this machine.
func Host(args []string) Program {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	proc := linux.NewFS("/proc")
	p := Program{Args: args, Env: os.Environ(), Dir: dir, Stdout: os.Stdout, Stderr: os.Stderr,
		System: System{Proc: proc, Groups: linux.NewCgroupFS(proc, "/"), Sys: "/sys", PID: os.Getpid(), CPUs: runtime.NumCPU()},
		Exec:   syscall.Exec, DisableTHP: disableTHP, Chdir: os.Chdir}
	if self, err := os.Stat("/proc/self/exe"); err == nil {
		p.Self = self
	}
	return p
}

// failure is an error with its exit code.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usage(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// Run does the call, and returns the exit code if java was not started.
func (p Program) Run() int {
	err := p.run()
	if err == nil {
		return exitOK
	}
	code := exitFailure
	var f *failure
	var small *TooSmallError
	switch {
	case errors.As(err, &f):
		code = f.code
	case errors.As(err, &small):
		code = exitNoLimit
	case errors.Is(err, ErrNoJava):
		code = exitNoTarget
	}
	if text := err.Error(); text != "" {
		p.say(text)
	}
	return code
}

func (p Program) say(text string) {
	fmt.Fprintln(p.Stderr, "tare: "+linux.Printable(strings.ReplaceAll(text, "\n", "; ")))
}

func (p Program) run() error {
	asScript := p.name() == "run-java.sh" || p.name() == "run-java"
	asJava := p.name() == "java"
	flags := p.Args[1:]
	if asJava || asScript {
		flags = strings.Fields(getenv(p.Env, "TARE_EXEC_FLAGS"))
	}
	o, command, err := p.parseFlags(flags)
	if err != nil || o.help {
		return err
	}
	if o.takeArchive {
		return p.takeArchive(command)
	}
	if asJava {
		command = append([]string{"java"}, p.Args[1:]...)
	}
	if asScript {
		return p.runJava(p.Args[1:], o.Options)
	}
	if o.runJava {
		return p.runJava(command, o.Options)
	}
	if len(command) == 0 {
		return usage("no java command: give one after --, such as: %s -- java -jar app.jar", p.name())
	}
	return p.start(start{command: command, env: p.Env, dir: p.Dir, flags: o.Options, homeFirst: asJava})
}

func (p Program) name() string { return filepath.Base(p.Args[0]) }

type flagsGiven struct {
	Options
	help, runJava, takeArchive bool
}

func (p Program) parseFlags(args []string) (flagsGiven, []string, error) {
	var o flagsGiven
	var nmt bool
	f := flag.NewFlagSet(p.name(), flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.BoolVar(&o.Explain, "explain", false, "")
	f.BoolVar(&o.DryRun, "dry-run", false, "")
	f.BoolVar(&o.JSON, "json", false, "")
	f.BoolVar(&o.Force, "force", false, "")
	f.BoolVar(&o.runJava, "run-java", false, "")
	f.BoolVar(&o.takeArchive, "take-archive", false, "")
	f.BoolVar(&nmt, "nmt", false, "")
	f.StringVar(&o.GCLog, "gc-log", "", "")
	f.StringVar(&o.HeapDump, "heap-dump", "", "")
	f.StringVar(&o.ErrorFile, "error-file", "", "")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		o.help = true
		fmt.Fprintf(p.Stdout, Help, p.name())
		return o, nil, nil
	}
	if err != nil {
		return o, nil, usage("%w: see %s --help", err, p.name())
	}
	if nmt {
		o.NMT = "summary"
	}
	if o.JSON && !o.DryRun {
		return o, nil, usage("--json shows a plan: add --dry-run")
	}
	return o, f.Args(), nil
}

// start is one java command to plan and run.
type start struct {
	command []string // its first word is the name to look up
	env     []string
	dir     string
	flags   Options
	// homeFirst is for findJava.
	homeFirst bool
	// settled are flags of which nothing is to be added.
	settled []string
	// argv0 is the name to give the process; empty is the command's.
	argv0 string
	// before is called with the command line before java is started.
	before func(argv []string) error
}

// start plans and runs.
func (p Program) start(s start) error {
	path, err := findJava(s.command[0], s.env, p.Self, s.homeFirst)
	if err != nil {
		return err
	}
	java, openErr := jdkfiles.Open(path)
	options, problems, err := readUser(s.command, s.env, s.dir, jvmopts.ParseRelease(java.Version))
	if err != nil {
		return &failure{exitUsage, err}
	}
	if err := checkJar(options.Command.Jar(), s.dir); err != nil {
		return err
	}
	plan, err := makePlan(call{p.System, java, options, s.env, s.dir, s.flags, s.settled})
	if err != nil {
		return err
	}
	if err := errors.Join(openErr, java.Problem()); err != nil {
		plan.warn("not all of the JDK's files can be read: %v", err)
	}
	plan.warnings = append(problems, plan.warnings...)
	return p.carryOut(plan, path, s)
}

// checkJar refuses a jar that java cannot run, with the way out.
func checkJar(jar, dir string) error {
	if jar == "" {
		return nil
	}
	path := absolute(jar, dir)
	if _, err := os.Stat(path); isNotExist(err) {
		return &failure{exitNoTarget, fmt.Errorf("no such jar: %s: build it, or check the path (from %s)", jar, dir)}
	}
	j, err := jarfile.Open(path)
	if err != nil {
		return nil // java says what is wrong with it
	}
	defer j.Close()
	m, err := j.Manifest()
	if err == nil && m["main-class"] == "" {
		return usage("%s names no main class in its manifest: name one, as in java -cp %s com.example.Main", jar, jar)
	}
	return nil
}

// carryOut shows and runs what was planned.
func (p Program) carryOut(plan *plan, path string, s start) error {
	for _, w := range plan.warnings {
		p.say(w)
	}
	args, env := plan.commandLine(cmp.Or(s.argv0, s.command[0]), s.env)
	if s.flags.Explain {
		if err := plan.explain(p.Stderr); err != nil {
			return err
		}
	}
	if s.flags.DryRun {
		if s.flags.JSON {
			return plan.writeJSON(p.Stdout, args)
		}
		_, err := fmt.Fprintln(p.Stdout, shell.Command(plan.options.AddedEnv(), args))
		return err
	}
	if plan.disableTHP {
		if err := p.DisableTHP(); err != nil {
			p.say(fmt.Sprintf("huge pages cannot be switched off for this process: %v", err))
		}
	}
	if s.before != nil {
		if err := s.before(args); err != nil {
			return err
		}
	}
	if err := p.Exec(path, args, env); err != nil {
		return &failure{exitNoTarget, fmt.Errorf("%s cannot be started: %w: check that it is a java for this machine", path, err)}
	}
	return nil
}

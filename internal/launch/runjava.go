package launch

import (
	"cmp"
	"errors"
	"fmt"

	"tare.dev/tare/internal/jdkfiles"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runjava"
)

// runJava is a call as run-java.sh: what that script's users ask for by its
// variables decides, and the rest is by the launcher's own rules instead of the
// script's defaults.
func (p Program) runJava(args []string, flags Options) error {
	plan, err := runjava.Make(p.runJavaInput(args))
	var exit *runjava.ExitError
	if errors.As(err, &exit) {
		return p.runJavaFailure(exit)
	}
	if err != nil {
		return err
	}
	for _, w := range plan.Warnings {
		fmt.Fprintln(p.Stderr, w)
	}
	if plan.OnlyPrint {
		_, err := fmt.Fprintln(p.Stdout, plan.Line(plan.Argv(true)))
		return err
	}
	argv := plan.Argv(false)
	err = p.start(start{command: append([]string{"java"}, argv[1:]...), env: plan.Env, dir: plan.Dir, flags: flags,
		settled: plan.Settled, argv0: argv[0], before: func(argv []string) error { return p.enter(plan, argv) }})
	if errors.Is(err, ErrNoJava) {
		return &failure{runjava.ExitNoJava, err}
	}
	return err
}

// runJavaInput is where the call happens.
func (p Program) runJavaInput(args []string) runjava.Input {
	budget := readBudget(p.System, jvmopts.Release{})
	in := runjava.Input{Args: args, Env: p.Env, Dir: p.Dir, ScriptDir: runjava.ScriptDir(p.Args[0], p.Dir, p.Env), Name: p.name(),
		OptionsFile: runjava.OptionsFile, Budget: runjava.Budget{Cores: budget.QuotaCPUs}, Run: runjava.Start,
		Major: func(env []string) int { return p.releaseOf(env).Feature }}
	if budget.Limited {
		in.Budget.MemoryBytes = budget.MemoryBytes
	}
	in.Lookup = func(options, env []string) func(string) (string, bool) {
		// What cannot be read is said when the whole command is.
		o, _ := jvmopts.Read(jvmopts.Input{Release: p.releaseOf(env), Args: options, Env: env, Dir: p.Dir})
		return func(flag string) (string, bool) {
			value, _, ok := o.Value(flag)
			return value, ok
		}
	}
	return in
}

// releaseOf is the version of the java that an environment leads to; zero if it
// is unknown.
func (p Program) releaseOf(env []string) jvmopts.Release {
	path, err := findJava("java", env, p.Self, false)
	if err != nil {
		return jvmopts.Release{}
	}
	java, _ := jdkfiles.Open(path) // what cannot be read is empty
	return jvmopts.ParseRelease(java.Version)
}

// enter makes the process what the script would have made of it, and says what
// will run, as the script does.
func (p Program) enter(plan *runjava.Plan, argv []string) error {
	if plan.Shell != nil {
		if err := plan.Shell.Apply(); err != nil {
			p.say(err.Error())
		}
	}
	if err := p.Chdir(plan.Dir); err != nil {
		return fmt.Errorf("the application's folder cannot be entered: %w", err)
	}
	if plan.Quiet {
		return nil
	}
	_, err := fmt.Fprintln(p.Stdout, plan.Line(argv))
	return err
}

// runJavaFailure ends with the script's code; its errors go where its users
// look for them.
func (p Program) runJavaFailure(exit *runjava.ExitError) error {
	if exit.Line == "" {
		return &failure{exit.Code, cmp.Or[error](exit.Err, errSaid)}
	}
	if _, err := fmt.Fprintln(p.Stdout, exit.Line); err != nil {
		return err
	}
	return &failure{exit.Code, errSaid}
}

// errSaid ends the program when all is said.
var errSaid = errors.New("")

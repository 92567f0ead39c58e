package launch

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"tare.dev/tare/internal/jvmopts"
)

// chosenCollectors are the collectors that the options switch on, by the name
// in their flag.
func chosenCollectors(o jvmopts.Options) (names []string, by []jvmopts.Option) {
	for _, flag := range jvmopts.CollectorFlags {
		if v, option, ok := o.Value(flag); ok && v == "true" {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(flag, "Use"), "GC"))
			by = append(by, option)
		}
	}
	return names, by
}

// contradiction says why the JVM will not start with the user's options.
func contradiction(o jvmopts.Options) error {
	if _, by := chosenCollectors(o); len(by) > 1 {
		return fmt.Errorf("%s and %s contradict each other: a JVM has one collector, take one of them away", by[0], by[1])
	}
	_, initial, ok1 := o.Value("InitialHeapSize")
	_, most, ok2 := o.Value("MaxHeapSize")
	if start, end := size(o, "InitialHeapSize"), size(o, "MaxHeapSize"); ok1 && ok2 && end > 0 && start > end {
		return fmt.Errorf("%s is more than %s: lower the first or raise the second", initial, most)
	}
	return nil
}

// size is the value of a flag in bytes; 0 when it is not set or no number.
func size(o jvmopts.Options, flag string) int64 {
	v, _, _ := o.Value(flag)
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// chosenCompilers is how the options run bytecode.
func chosenCompilers(o jvmopts.Options) compilers {
	level, _, _ := o.Value("TieredStopAtLevel")
	compiler, _, _ := o.Value("UseCompiler")
	switch {
	case compiler == "false" || level == "0":
		return interpreter
	case level == "1" || level == "2" || level == "3":
		return c1Only
	}
	return tiered
}

// classPath is what the command can load classes from: with -jar the jar alone.
func classPath(o jvmopts.Options, env []string) []string {
	if jar := o.Command.Jar(); jar != "" {
		return []string{jar}
	}
	var paths []string
	for _, option := range o.All {
		name, value, joined := strings.Cut(option.Text, "=")
		switch name {
		case "-cp", "-classpath", "--class-path", "-p", "--module-path":
			if !joined {
				value = option.Arg
			}
			paths = append(paths, filepath.SplitList(value)...)
		}
	}
	if len(paths) == 0 {
		paths = filepath.SplitList(getenv(env, "CLASSPATH"))
	}
	return paths
}

// readUser reads the user's options. What cannot be read of them, the JVM will
// complain about itself, so it is only a warning.
func readUser(command, env []string, dir string, release jvmopts.Release) (jvmopts.Options, []string, error) {
	if base := filepath.Base(command[0]); base != "java" {
		return jvmopts.Options{}, nil, fmt.Errorf("%w: %s: give one such as java -jar app.jar", jvmopts.ErrNotJava, command[0])
	}
	o, err := jvmopts.Read(jvmopts.Input{Release: release, Args: command[1:], Env: env, Dir: dir})
	return o, lines(err), contradiction(o)
}

// lines are the errors that are joined in one.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []string
		for _, e := range joined.Unwrap() {
			out = append(out, e.Error())
		}
		return out
	}
	return []string{err.Error()}
}

// Package jvmopts knows the options of the java launcher: where they end and
// the application begins, which ones the user gave, by any of Java's ways, and
// which an added option would contradict. The user's option always wins.
package jvmopts

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Command is a java command line in its parts.
type Command struct {
	// Java is the launcher, as given.
	Java string
	// Options are the launcher's and the JVM's options.
	Options []string
	// Main is what runs: "-jar" and the jar, "-m" and the module, or the
	// main class.
	Main []string
	// Args are the application's arguments.
	Args []string
}

// ErrNotJava says that the command does not start the java launcher.
var ErrNotJava = errors.New("not a java command")

// withValue are the launcher's options whose value is the next word
// (java(1); src/java.base/share/native/libjli/java.c, IsWhiteSpaceOption).
var withValue = map[string]bool{
	"-cp": true, "-classpath": true, "--class-path": true,
	"-p": true, "--module-path": true, "--upgrade-module-path": true,
	"--add-modules": true, "--enable-native-access": true, "--limit-modules": true,
	"--add-exports": true, "--add-opens": true, "--add-reads": true, "--patch-module": true,
	"--describe-module": true, "-d": true, "--source": true,
}

// Parse splits a java command line.
func Parse(args []string) (Command, error) {
	if len(args) == 0 {
		return Command{}, fmt.Errorf("%w: it is empty", ErrNotJava)
	}
	if base := filepath.Base(args[0]); base != "java" {
		return Command{}, fmt.Errorf("%w: %s", ErrNotJava, args[0])
	}
	c := Command{Java: args[0]}
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case withValue[a]:
			if i+1 == len(args) {
				return Command{}, fmt.Errorf("java option %s lacks its value", a)
			}
			c.Options = append(c.Options, a, args[i+1])
			i++
		case a == "-jar" || a == "-m" || a == "--module":
			if i+1 == len(args) {
				return Command{}, fmt.Errorf("java option %s lacks its value", a)
			}
			c.Main, c.Args = args[i:i+2:i+2], args[i+2:]
			return c, nil
		case strings.HasPrefix(a, "--module="):
			c.Main, c.Args = args[i:i+1:i+1], args[i+1:]
			return c, nil
		case strings.HasPrefix(a, "-") || strings.HasPrefix(a, "@"):
			c.Options = append(c.Options, a)
		default:
			c.Main, c.Args = args[i:i+1:i+1], args[i+1:]
			return c, nil
		}
	}
	for _, o := range c.Options {
		if strings.HasPrefix(o, "@") { // an argument file may name the main class
			return c, nil
		}
	}
	return Command{}, errors.New("the java command names no jar, module or main class")
}

// Jar is the jar of -jar, or "".
func (c Command) Jar() string {
	if len(c.Main) == 2 && c.Main[0] == "-jar" {
		return c.Main[1]
	}
	return ""
}

// With is the command line with options added. They stand before the user's
// own, for which the JVM gives the later one right, and so the user's wins
// even where Family knows nothing of it.
func (c Command) With(options ...string) []string {
	out := make([]string, 0, 1+len(options)+len(c.Options)+len(c.Main)+len(c.Args))
	out = append(out, c.Java)
	out = append(out, options...)
	out = append(out, c.Options...)
	out = append(out, c.Main...)
	return append(out, c.Args...)
}

// Files are the paths that the command names and that may exist: the jar, the
// parts of the class and module path.
func (c Command) Files() []string {
	var files []string
	if jar := c.Jar(); jar != "" {
		files = append(files, jar)
	}
	for i, o := range c.Options {
		switch o {
		case "-cp", "-classpath", "--class-path", "-p", "--module-path":
			if i+1 < len(c.Options) {
				files = append(files, filepath.SplitList(c.Options[i+1])...)
			}
		default:
			for _, p := range []string{"--class-path=", "--module-path=", "-javaagent:", "-XX:SharedArchiveFile=", "-XX:AOTCache="} {
				if v, ok := strings.CutPrefix(o, p); ok {
					files = append(files, filepath.SplitList(v)...)
				}
			}
		}
	}
	return files
}

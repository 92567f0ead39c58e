package jvmopts

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Command is a java command line in its parts.
type Command struct {
	// Java is the launcher, as given.
	Java string
	// Options are the launcher's and the JVM's options.
	Options []string
	// Main is what runs: "-jar" and the jar, "-m" and the module, the main
	// class, or an option that only prints something, such as -version. Nil
	// when nothing is named.
	Main []string
	// Args are the application's arguments.
	Args []string
}

// ErrNotJava says that the command does not start the java launcher.
var ErrNotJava = errors.New("not a java command")

// Parse splits a command that is to run an application, without reading a
// file: an @file stays among the options.
func Parse(args []string) (Command, error) {
	if len(args) == 0 {
		return Command{}, fmt.Errorf("%w: it is empty", ErrNotJava)
	}
	if !(Command{Java: args[0]}).IsJava() {
		return Command{}, fmt.Errorf("%w: %s", ErrNotJava, args[0])
	}
	var words []word
	atFile := false
	for _, a := range args[1:] {
		unread := len(a) > 1 && a[0] == '@'
		atFile = atFile || unread
		words = append(words, word{text: a, source: Source{Place: CommandLine}, unread: unread})
	}
	_, c, err := split(words, Release{})
	c.Java = args[0]
	switch {
	case err != nil:
		return Command{}, err
	case !c.Runs() && !atFile: // an argument file may name the main class
		return Command{}, errors.New("the java command names no jar, module or main class")
	}
	return c, nil
}

// split finds where the options end (ParseArguments of java.c). The options
// hold those of JDK_JAVA_OPTIONS too, the command does not.
func split(words []word, release Release) (options []Option, c Command, err error) {
	jar := false
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w.unread:
			options = append(options, Option{Text: w.text, Source: w.source, Unknown: true})
		case w.text == "-jar":
			jar = true
			continue
		case ends(w.text) || strings.HasPrefix(w.text, "--module="):
			c.Main, c.Args = texts(words[i:i+1]), texts(words[i+1:])
			return options, c, nil
		case w.text == "-m" || w.text == "--module":
			if i+1 == len(words) {
				return options, c, lacksValue(w)
			}
			c.Main, c.Args = texts(words[i:i+2]), texts(words[i+2:])
			return options, c, nil
		case !strings.HasPrefix(w.text, "-"):
			c.Main, c.Args = texts(words[i:i+1]), texts(words[i+1:])
			if jar {
				c.Main = append([]string{"-jar"}, c.Main...)
			}
			return options, c, nil
		default:
			o := Option{Text: w.text, Source: w.source}
			if valueFromNext(w.text, release) {
				if i+1 == len(words) {
					return options, c, lacksValue(w)
				}
				i++
				o.Arg = words[i].text
			}
			options = append(options, o)
		}
		c.add(options[len(options)-1])
	}
	if jar {
		err = errors.New("java option -jar lacks its value: name the jar after it")
	}
	return options, c, err
}

// valueFromNext is takesValue for a release: JDK 8 knows the class path alone.
func valueFromNext(option string, release Release) bool {
	return takesValue(option) && (release.since(9) || option == "-cp" || option == "-classpath")
}

func lacksValue(w word) error {
	return fmt.Errorf("java option %s lacks its value: give it after the option", w.text)
}

func (c *Command) add(o Option) {
	if o.Source.Place == LauncherOptions {
		return
	}
	c.Options = append(c.Options, o.Text)
	if takesValue(o.Text) {
		c.Options = append(c.Options, o.Arg)
	}
}

func texts(words []word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.text
	}
	return out
}

// IsJava tells whether the command starts the java launcher itself.
func (c Command) IsJava() bool { return filepath.Base(c.Java) == "java" }

// Runs tells whether the command names an application, and not only an option
// that prints something.
func (c Command) Runs() bool { return len(c.Main) > 0 && (len(c.Main) > 1 || !ends(c.Main[0])) }

// Jar is the jar of -jar, or "".
func (c Command) Jar() string {
	if len(c.Main) == 2 && c.Main[0] == "-jar" {
		return c.Main[1]
	}
	return ""
}

// With is the command line with options added. They stand before the user's own: of
// two, the JVM takes the later one.
func (c Command) With(options ...string) []string {
	return slices.Concat([]string{c.Java}, options, c.Options, c.Main, c.Args)
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

package jvmopts

import (
	"strings"
)

// word is an argument of the launcher and where it comes from.
type word struct {
	text   string
	source Source
	// unread: it is an @file that could not be read.
	unread bool
}

// expander does what args.c does before the launcher looks at its arguments: it
// puts JDK_JAVA_OPTIONS in front and replaces @files by what they hold, up to
// the main class.
type expander struct {
	*reader
	words []word
	// stop: --disable-@files was seen.
	stop bool
	// value: the last option takes this word as its value.
	value bool
	// main: the main class was seen; what follows is the application's.
	main bool
}

// commandLine are the options of JDK_JAVA_OPTIONS and the command line, and
// the command.
func (r *reader) commandLine() ([]Option, Command) {
	options, command, err := split(r.expand(), r.in.Release)
	if err != nil {
		r.problem("%w", err)
	}
	return options, command
}

// expand are the arguments as the launcher will see them.
func (r *reader) expand() []word {
	e := expander{reader: r}
	if r.since(9) {
		e.variable()
	}
	for _, a := range r.in.Args {
		e.argument(a, Source{Place: CommandLine})
	}
	return e.words
}

func (e *expander) argument(text string, source Source) {
	switch {
	case !e.since(9) || e.main || e.stop || len(text) < 2 || text[0] != '@':
		e.take(text, source)
	case text[1] == '@':
		e.take(text[1:], source)
	default:
		e.file(text, source)
	}
}

func (e *expander) file(option string, source Source) {
	text, unknown := e.reader.file(option[1:], option, source.Place)
	for _, o := range unknown {
		e.words = append(e.words, word{o.Text, Source{Place: source.Place}, true})
	}
	for _, w := range argFileWords(text, e.in.Release) {
		e.take(w, Source{source.Place, option})
	}
}

// take appends a word and keeps track of where the main class is (checkArg).
func (e *expander) take(text string, source Source) {
	if !e.room() {
		return
	}
	e.words = append(e.words, word{text: text, source: source})
	switch {
	case e.main:
	case strings.HasPrefix(text, "-"):
		e.value = takesValue(text)
		e.stop = e.stop || text == "--disable-@files"
		e.main = strings.HasPrefix(text, "--module=")
	default:
		e.main = !e.value
		e.value = false
	}
}

// variable takes the words of JDK_JAVA_OPTIONS. A main class, or an option that
// ends the launcher, is not allowed there: java will refuse to start.
func (e *expander) variable() {
	const name = "JDK_JAVA_OPTIONS"
	value, ok := LookupEnv(e.in.Env, name)
	if !ok {
		return
	}
	words, closed := quotedWords(value)
	if !closed {
		e.problem("%s: a quote is not closed: close it, for java will refuse to start", name)
	}
	for _, w := range words {
		before := len(e.words)
		e.argument(w, Source{Place: LauncherOptions})
		for i, taken := range e.words[before:] {
			if e.main || taken.text == "-jar" || ends(taken.text) {
				e.problem("%s: %q names what to run, which java does not accept there: put it on the command line", name, taken.text)
				e.words = e.words[:before+i]
				e.main, e.value = false, false
				return
			}
		}
	}
	e.value = false
}

// takesValue tells whether the launcher takes the value of an option from the
// next word (IsWhiteSpaceOption of java.c).
func takesValue(option string) bool {
	switch option {
	case "-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path",
		"--add-modules", "--enable-native-access", "--limit-modules", "--add-exports", "--add-opens",
		"--add-reads", "--patch-module", "--describe-module", "-d", "--source":
		return true
	}
	return false
}

// ends tells whether the launcher reads no option after this one: it only
// prints something.
func ends(option string) bool {
	switch option {
	case "-h", "-?", "-help", "--help", "-X", "--help-extra", "-version", "--version", "-fullversion", "--full-version":
		return true
	}
	return false
}

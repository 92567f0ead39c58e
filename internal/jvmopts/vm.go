package jvmopts

import "strings"

// The limits of JDK 8 on an environment variable
// (parse_options_environment_variable): a longer one it ignores, and of more
// options it reads the first ones.
const (
	jdk8MaxVariable = 1023
	jdk8MaxOptions  = 64
)

// vmVariable are the options of a variable that the JVM itself reads.
func (r *reader) vmVariable(name string, place Place) []Option {
	value, ok := LookupEnv(r.in.Env, name)
	if !ok {
		return nil
	}
	if !r.since(9) && len(value) > jdk8MaxVariable {
		r.problem("%s is longer than %d bytes, so JDK 8 ignores it: shorten it", name, jdk8MaxVariable)
		return nil
	}
	words, closed := quotedWords(value)
	if !closed {
		r.problem("%s: a quote is not closed: close it, for java will refuse to start", name)
	}
	if !r.since(9) && len(words) > jdk8MaxOptions {
		r.problem("%s holds more than %d options, of which JDK 8 reads the first: take some away", name, jdk8MaxOptions)
		words = words[:jdk8MaxOptions]
	}
	return r.expandVMOptions(r.options(words, Source{Place: place}))
}

// options makes options of words.
func (r *reader) options(words []string, source Source) []Option {
	var out []Option
	for _, w := range words {
		if !r.room() {
			break
		}
		out = append(out, Option{Text: w, Source: source})
	}
	return out
}

// expandVMOptions puts the options of -XX:VMOptionsFile=FILE in its place
// (insert_vm_options_file). Such a file cannot name another.
func (r *reader) expandVMOptions(in []Option) []Option {
	if !r.since(9) {
		return in
	}
	var out []Option
	for _, o := range in {
		name, ok := strings.CutPrefix(o.Text, "-XX:VMOptionsFile=")
		if !ok {
			out = append(out, o)
			continue
		}
		text, unknown := r.file(name, o.Text, o.Source.Place)
		out = append(out, unknown...)
		words, closed := quotedWords(text)
		if !closed {
			r.problem("options file %s: a quote is not closed: close it, for java will refuse to start", name)
		}
		out = append(out, r.options(words, Source{o.Source.Place, o.Text})...)
	}
	return out
}

// flagsFile are the options of the last -XX:Flags=FILE, which the JVM applies
// before all others. JDK 8 looks for it on the command line alone.
func (r *reader) flagsFile(containers [][]Option) []Option {
	var option Option
	for _, c := range containers {
		for _, o := range c {
			if strings.HasPrefix(o.Text, "-XX:Flags=") && (r.since(9) || o.Source.Place == CommandLine) {
				option = o
			}
		}
	}
	name, ok := strings.CutPrefix(option.Text, "-XX:Flags=")
	if !ok {
		return nil
	}
	text, unknown := r.file(name, option.Text, option.Source.Place)
	flags, whole := flagsFileWords(text)
	if !whole {
		r.problem("flags file %s: a flag of more than %d bytes, at which java stops reading: shorten it", name, maxFlag)
	}
	for i, f := range flags {
		flags[i] = "-XX:" + f
	}
	return append(unknown, r.options(flags, Source{FlagsFile, option.Text})...)
}

// quotedWords cuts text as the JVM does its variables and options files
// (parse_options_buffer) and the launcher JDK_JAVA_OPTIONS: words end at white
// space as of isspace(3); single and double quotes keep everything, and are
// dropped. There are no escapes and no comments. closed tells whether the last
// quote is closed; the word of an open one is left out.
func quotedWords(text string) (words []string, closed bool) {
	var word []byte
	var quote byte
	in := false
	for i := range len(text) {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word = append(word, c)
		case isSpace(c):
			if in {
				words = append(words, string(cString(word)))
			}
			word, in = word[:0], false
		case c == '"' || c == '\'':
			quote, in = c, true
		default:
			word, in = append(word, c), true
		}
	}
	if quote != 0 {
		return words, false
	}
	if in {
		words = append(words, string(cString(word)))
	}
	return words, true
}

// maxFlag is the length of a flag in a flags file at which the JVM stops
// reading the file.
const maxFlag = 1023

// flagsFileWords cuts the text of a flags file (process_settings_file): words
// end at a newline, or white space outside quotes; # starts a comment where a
// word would start. A quote at the start of a word is taken as a letter of it.
// whole tells whether the JVM reads all of it.
func flagsFileWords(text string) (words []string, whole bool) {
	var word []byte
	var quote byte
	comment := false
	end := func() {
		words = append(words, string(cString(word)))
		word, quote = word[:0], 0
	}
	in := false
	for i := 0; i < len(text); i++ {
		if len(word) == maxFlag {
			end()
			return words, false
		}
		c := text[i]
		switch {
		case comment:
			comment = c != '\n'
		case !in && c == '#':
			comment = true
		case !in && isSpace(c):
		case !in:
			word, in = append(word, c), true
		case c == '\n' || quote == 0 && isSpace(c):
			end()
			in = false
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote != 0 && quote == c:
			quote = 0
		default:
			word = append(word, c)
		}
	}
	if len(word) > 0 {
		end()
	}
	return words, true
}

// isSpace is isspace(3) in the C locale.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

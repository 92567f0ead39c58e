// Package shell quotes words for a POSIX shell (POSIX.1-2017, Shell Command
// Language, 2.2 Quoting).
package shell

import "strings"

// plain are the characters that mean themselves in every place of a word.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// Quote quotes a word, where it needs quotes.
func Quote(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Assign quotes a variable, NAME=value, that stands before a command: only its
// value may have quotes, or the shell takes it for the command.
func Assign(variable string) string {
	name, value, _ := strings.Cut(variable, "=")
	return name + "=" + Quote(value)
}

// Words quotes and joins words.
func Words(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// Command is a command as a line: variables first, then its words.
func Command(variables, words []string) string {
	var out []string
	for _, v := range variables {
		out = append(out, Assign(v))
	}
	for _, w := range words {
		out = append(out, Quote(w))
	}
	return strings.Join(out, " ")
}

// Split splits a line at blanks that are not quoted (POSIX.1, 2.2). It is false
// for what is more than one simple command.
func Split(line string) ([]string, bool) {
	var words []string
	var word strings.Builder
	inWord, escaped, quote := false, false, rune(0)
	for i, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case quote == '\'' && r != '\'' || quote == '"' && !strings.ContainsRune("\"\\`$", r):
			word.WriteRune(r)
		case r == quote:
			quote = 0
		case r == '\\':
			inWord, escaped = true, true
		case quote == 0 && (r == '\'' || r == '"'):
			inWord, quote = true, r
		case quote == 0 && (r == ' ' || r == '\t'):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		case r == '`' || r == '$' && strings.HasPrefix(line[i:], "$(") || strings.ContainsRune("|&;<>()\n#", r):
			return nil, false
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, quote == 0 && !escaped
}

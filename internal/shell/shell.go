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

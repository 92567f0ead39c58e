package fit

import (
	"regexp"
	"strings"

	"tare.dev/tare/internal/lazy"
)

// Redacted stands for a secret in what is shown and stored.
const Redacted = "REDACTED"

var (
	// secretName matches names of variables, properties and parameters whose values
	// are secrets by all likelihood.
	secretName = lazy.Regexp(`(?i)token|secret|passw|passphrase|pwd|credential|auth|signature|session|((^|[^a-z])(api|sdk|access|private)?[._-]?(key|sig)$)`)
	// property is an option with a value, in a line of several: -Dname=value.
	property = lazy.Regexp(`(-D|--)([^\s=]+)=('[^']*'|"[^"]*"|[^\s'"]+)`)
	// parameter is one of a URL's query, userInfo what stands before the host
	// (RFC 3986, sections 3.2.1 and 3.4).
	parameter = lazy.Regexp(`([?&])([^=&#\s]+)=([^&#\s'"]+)`)
	userInfo  = lazy.Regexp(`://[^/@\s]+@`)
)

// redact replaces what looks like a secret in a text: values of properties and of
// parameters of URLs by their names, and user names in URLs.
func redact(text string) string {
	byName := func(pattern *regexp.Regexp, text string) string {
		return pattern.ReplaceAllStringFunc(text, func(found string) string {
			m := pattern.FindStringSubmatch(found)
			if !secretName().MatchString(m[2]) {
				return found
			}
			return m[1] + m[2] + "=" + Redacted
		})
	}
	return userInfo().ReplaceAllString(byName(parameter(), byName(property(), text)), "://"+Redacted+"@")
}

// redactWords redacts the words of a command line: a property is a word, whatever its
// value holds.
func redactWords(words []string) []string {
	var out []string
	for _, w := range words {
		name, _, ok := strings.Cut(w, "=")
		if property, isProperty := strings.CutPrefix(name, "-"); ok && isProperty && secretName().MatchString(property) {
			out = append(out, name+"="+Redacted)
			continue
		}
		out = append(out, redact(w))
	}
	return out
}

// redactEnv redacts variables as NAME=value.
func redactEnv(env []string) []string {
	var out []string
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if secretName().MatchString(name) {
			value = Redacted
		}
		out = append(out, name+"="+redact(value))
	}
	return out
}

package runjava

import (
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/jvmopts"
)

// variables are the variables of a shell: those exported, which are the
// environment of what it runs, and the others.
type variables struct {
	env   []string
	local map[string]string
}

// readVariables copies an environment; of several settings the last counts.
func readVariables(env []string) variables {
	return variables{env: slices.Clone(env), local: map[string]string{}}
}

// get is a variable's value; one that is empty is as one that is not set.
func (v variables) get(name string) string {
	if value, ok := v.local[name]; ok {
		return value
	}
	value, _ := jvmopts.LookupEnv(v.env, name)
	return value
}

// set assigns a variable, which stays exported if it was.
func (v *variables) set(name, value string) {
	if _, exported := jvmopts.LookupEnv(v.env, name); exported {
		v.export(name, value)
		return
	}
	v.local[name] = value
}

// export assigns and exports a variable.
func (v *variables) export(name, value string) {
	delete(v.local, name)
	v.env = slices.DeleteFunc(v.env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	v.env = append(v.env, name+"="+value)
}

// isIdentifier says whether a name can be a shell variable's.
func isIdentifier(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// off says whether a switch is turned off, in the words that the script knows
// for JAVA_DEBUG_SUSPEND; unset is off, anything else on.
func off(value string) bool {
	switch value {
	case "", "false", "n", "no", "0":
		return true
	}
	return false
}

// words splits options as the script's shell and awk do: at blanks, and
// nothing is a quote.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' })
}

// number is a whole number of a variable, 0 with a warning if it is none from 1
// to most.
func (p *planner) number(name string, most int64) int64 {
	text := strings.TrimSpace(p.vars.get(name))
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		p.warn(name + "=" + shortened(text) + " is ignored: give a whole number up to " + strconv.FormatInt(most, 10))
		return 0
	}
	return n
}

// shortened is a value for a message.
func shortened(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

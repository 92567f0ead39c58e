package runner

import (
	"slices"
	"strings"
)

// Environ is an environment as in os.Environ with more entries, NAME=VALUE
// each, in their order: a later entry takes the place of all earlier ones of
// its name. Neither argument is changed.
func Environ(base, more []string) []string {
	env := slices.Clone(base)
	for _, e := range more {
		added := variable(e)
		env = slices.DeleteFunc(env, func(old string) bool { return variable(old) == added })
		env = append(env, e)
	}
	return env
}

// variable is the name of an entry; of one without a value, the whole of it.
func variable(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

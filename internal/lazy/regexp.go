// Package lazy puts off what most commands do not need until it is needed: what
// the variables of packages compile at start, each command pays for.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function for a regular expression that is compiled when it is
// first asked for. It panics then, as regexp.MustCompile does, if the expression
// cannot be parsed. The function may be called by several goroutines at once.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

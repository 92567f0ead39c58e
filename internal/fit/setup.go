package fit

import (
	"fmt"
	"slices"
	"strings"

	"tare.dev/tare/internal/jvmopts"
)

const mib = 1 << 20

// Setup is what is added to the command as given.
type Setup struct {
	Options []string
	Env     []string // "NAME=value"
	// Jar stands in for the jar of the command: the same application with its
	// nested jars extracted; empty leaves the command's own.
	Jar string `json:",omitempty"`
	// NoHugePages starts the application with transparent huge pages switched
	// off for its processes (prctl(2), PR_SET_THP_DISABLE).
	NoHugePages bool `json:",omitempty"`
}

// plus is the setup with another one on top; an option for the same flag
// replaces the earlier one.
func (s Setup) plus(more Setup) Setup {
	out := s
	out.Options, out.Env = slices.Clone(s.Options), slices.Clone(s.Env)
	for _, o := range more.Options {
		out.Options = slices.DeleteFunc(out.Options, func(old string) bool { return flagOf(old) == flagOf(o) })
		out.Options = append(out.Options, o)
	}
	out.boundInitialHeap()
	for _, e := range more.Env {
		name, _, _ := strings.Cut(e, "=")
		out.Env = slices.DeleteFunc(out.Env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		out.Env = append(out.Env, e)
	}
	if more.Jar != "" {
		out.Jar = more.Jar
	}
	out.NoHugePages = s.NoHugePages || more.NoHugePages
	return out
}

// youngOption sets the size of the young generation.
const youngOption = "-Xmn"

const initialHeapOption = "-XX:InitialHeapSize="

// boundInitialHeap has the heap begin with no more than it may have: HotSpot would not
// start.
func (s *Setup) boundInitialHeap() {
	most := s.heapBytes()
	if initial := sizeIn(s.Options, initialHeapOption); most > 0 && initial > most {
		s.Options = slices.DeleteFunc(s.Options, func(o string) bool { return strings.HasPrefix(o, initialHeapOption) })
		s.Options = append(s.Options, fmt.Sprintf("%s%dm", initialHeapOption, most/mib))
	}
}

// flagOf is what an option of a lever sets; of a flag that collects its values
// the option itself.
func flagOf(option string) string {
	if strings.HasPrefix(option, "-D") {
		name, _, _ := strings.Cut(option, "=")
		return name
	}
	if flag, ok := strings.CutPrefix(option, "-XX:"); ok {
		name, _, _ := strings.Cut(strings.TrimLeft(flag, "+-"), "=")
		if jvmopts.Collects(name) {
			return option
		}
		return name
	}
	return option[:min(len(option), len("-Xmx"))]
}

// empty says that nothing is added to what was given.
func (s Setup) empty() bool { return s.Same(Setup{}) }

// Same says that two setups add the same.
func (s Setup) Same(o Setup) bool {
	return slices.Equal(s.Options, o.Options) && slices.Equal(s.Env, o.Env) && s.Jar == o.Jar && s.NoHugePages == o.NoHugePages
}

// heapBytes is the -Xmx of the setup, 0 without one.
func (s Setup) heapBytes() int64 { return maxHeap(s.Options) }

// directBytes is the -XX:MaxDirectMemorySize of the setup, 0 without one.
func (s Setup) directBytes() int64 { return sizeIn(s.Options, directOption) }

// withoutHeap is the setup without the sizes of the heap, and of what else collections free.
func (s Setup) withoutHeap() Setup {
	s.Options = slices.DeleteFunc(slices.Clone(s.Options), func(o string) bool {
		return strings.HasPrefix(o, "-Xmx") || strings.HasPrefix(o, youngOption) || strings.HasPrefix(o, directOption)
	})
	return s
}

// Command is the command that a setup starts: the given one with the setup's
// options, and its jar.
func (s Setup) Command(given jvmopts.Command) []string {
	if s.Jar != "" && given.Jar() != "" {
		given.Main = []string{"-jar", s.Jar}
	}
	return given.With(s.Options...)
}

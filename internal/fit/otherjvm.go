package fit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
)

// The JVM that is fitted may be another one than the command's: a script starts it, or a JVM
// that watches over it. It has its own options and release, and options reach it by
// JAVA_TOOL_OPTIONS alone, if at all.

// ErrNoJVM says that a command that is not java's started no JVM.
var ErrNoJVM = errors.New("the command has started no JVM that could be seen")

// OtherJavaError says that a command that is not java's starts another JDK's JVM than was found
// for it.
type OtherJavaError struct {
	// Found and Runs are the folders of the two runtimes, JDK is the version of the one that runs.
	Found, Runs, JDK string
}

// Error names both.
func (e *OtherJavaError) Error() string {
	return fmt.Sprintf("the command starts the JVM of %s (JDK %s), and that of %s was found for it", e.Runs, e.JDK, e.Found)
}

// checkJVM says why a command that is not java's cannot be fitted, from its first baseline.
func (s *Search) checkJVM(b Trial) error {
	if !s.Facts.ByVariable || b.Result == nil {
		return nil
	}
	p := b.Result.Program
	switch {
	case p == nil && b.Result.Peak == nil && b.HeapBytes == 0:
		return ErrNoJVM
	case p != nil && s.Facts.otherJava(p.Home):
		return &OtherJavaError{s.Facts.JavaHome, p.Home, s.weighed(b).JDK}
	}
	return nil
}

// weighed is the footprint of a trial, an empty one where none was taken.
func (s *Search) weighed(t Trial) footprint.Footprint {
	if f := ledgerOf(t, s.Facts.CPUs).Footprint; f != nil {
		return *f
	}
	return footprint.Footprint{}
}

// readFrom takes from a baseline what the command does not tell of the JVM.
func (s *Search) readFrom(b Trial) {
	if b.Result == nil {
		return
	}
	weighed := s.weighed(b)
	if s.Facts.Flags == nil {
		s.Facts.Flags = weighed.Flags
	}
	s.Facts.Collector = weighed.Collector
	s.Facts.readFrom(b.Result.Program, weighed.JDK)
	if s.found.ByVariable = s.Facts.Forks; s.Facts.Forks {
		s.found.OtherJVM = fmt.Sprintf("the command starts another JVM (%s), which has more memory: it was fitted, and options go to both by JAVA_TOOL_OPTIONS", cmp.Or(weighed.Name, "not weighed"))
	}
}

// otherJava says that a runtime is neither the one that was found nor a part of it, as the jre of
// JDK 8 is.
func (f Facts) otherJava(home string) bool {
	return home != "" && f.JavaHome != "" && home != f.JavaHome && !strings.HasPrefix(home, f.JavaHome+"/")
}

// unreached is a trial without the options that its JVM was seen not to have taken from
// JAVA_TOOL_OPTIONS: what starts it may unset the variable. No more are tried then.
func (s *Search) unreached(t Trial) Trial {
	f := ledgerOf(t, s.Facts.CPUs).Footprint
	if !t.ByVariable || f == nil || !tookNone(f.Flags, t.Setup.Options) {
		return t
	}
	t.Setup.Options = nil
	s.Facts.Unreached = "the JVM takes no options from JAVA_TOOL_OPTIONS"
	s.found.OtherJVM = fmt.Sprintf("the JVM that was fitted (%s) takes no options from JAVA_TOOL_OPTIONS, so that none was tried: what starts it may have a variable or a file of its own for them. "+
		"Set them there, and fit again", f.Name)
	return t
}

// tookNone says that a JVM with such flags has some that options set, and with another value each.
func tookNone(flags map[string]string, options []string) bool {
	told, _ := jvmopts.Read(jvmopts.Input{Args: append(slices.Clone(options), "Main")}) // they are tare's own
	differ := false
	for name, is := range flags {
		value, _, set := told.Value(name)
		if set && tookValue(is, value) {
			return false
		}
		differ = differ || set
	}
	return differ
}

// tookValue says that a flag has the value that it was told, sizes rounded up: the heap to what
// a page of a card table covers, or to a region of G1 (JDK: GCArguments::initialize_alignments,
// src/hotspot/share/gc/shared/gcArguments.cpp).
func tookValue(is, told string) bool {
	n, err := strconv.ParseInt(is, 10, 64)
	least, err2 := strconv.ParseInt(told, 10, 64)
	if err != nil || err2 != nil || least < mib {
		return is == told
	}
	return n >= least && n <= least+least/256+2*mib
}

// readFrom takes what decides from the JVM that was weighed, where the command did not tell: a
// script started it, or another JVM.
func (f *Facts) readFrom(p *runner.Program, jdk string) {
	if p == nil {
		return
	}
	if release := jvmopts.ParseRelease(jdk); p.Child && release.Feature > 0 {
		f.Release = release
	}
	f.Given = f.Given.Of(f.Release, p.Options)
	if p.Child && !f.ByVariable {
		f.ByVariable, f.Forks = true, true
	}
}

// stillOpen drops the levers that what was seen since has closed.
func (s *Search) stillOpen(levers []Lever) []Lever {
	return slices.DeleteFunc(slices.Clone(levers), func(l Lever) bool {
		reason := l.closed(s.Facts)
		if reason != "" {
			s.drop(LeverResult{Lever: l}, reason)
		}
		return reason != ""
	})
}

package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
)

// The JVM that is fitted may be another one than the command's: a script starts it, or a JVM
// that watches over it. It has its own options and release, and options reach it by
// JAVA_TOOL_OPTIONS alone, if at all.

// readFrom takes from a baseline what the command does not tell of the JVM.
func (s *Search) readFrom(b Trial) {
	if b.Result == nil {
		return
	}
	var weighed footprint.Footprint
	if f := ledgerOf(b, s.Facts.CPUs).Footprint; f != nil {
		weighed = *f
	}
	if s.Facts.Flags == nil {
		s.Facts.Flags = weighed.Flags
	}
	s.Facts.readFrom(b.Result.Program, weighed.JDK)
	if s.found.ByVariable = s.Facts.Forks; s.Facts.Forks {
		s.found.OtherJVM = fmt.Sprintf("the command starts another JVM (%s), which has more memory: it was fitted, and options go to both by JAVA_TOOL_OPTIONS", cmp.Or(weighed.Name, "not weighed"))
	}
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

package fit

import (
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jvmopts"
)

// Mark says what a user has to allow before a lever is tried.
type Mark string

// The marks. Options that HotSpot calls diagnostic or experimental are not for
// production; Framework is for properties of the application's framework, which change
// what the application does.
const (
	Diagnostic   Mark = "diagnostic"
	Experimental Mark = "experimental"
	Framework    Mark = "framework"
)

// Harm is what a lever may take from an application. A trial that failed says something
// against the levers alone that can do such harm.
type Harm string

// The harms.
const (
	// HarmSpeed is more processor time for the same work, also when warm.
	HarmSpeed Harm = "speed"
	// HarmStart is a later readiness, or a longer warm-up.
	HarmStart Harm = "start"
	// HarmLatency is waiting, for a thread, a lock or a pause: latency, and throughput of
	// many requests at a time, with no more processor time.
	HarmLatency Harm = "latency"
	// HarmHeap is less heap: OutOfMemoryError, or more collections.
	HarmHeap Harm = "heap"
	// HarmRun is an application that does not run, or fails requests.
	HarmRun Harm = "run"
)

// Lever is one way to get by on less memory: options, environment or another
// form of the application, that are tried together.
type Lever struct {
	// ID is what --levers names it by.
	ID, Name string
	// Options and Env are added; "{threads}" becomes a few threads for each processor, "{heap}",
	// "{young}" and "{initial}" become sizes of the heap in MiB, "{direct}" the bound of direct
	// buffers, without which its option is left out, "{code}" the size of the code cache,
	// "{scale}" how many times as often code runs before it is compiled, "{scale*2}" twice as
	// many, and "{archive}" the file of the class archive.
	Options []string
	Env     []string
	// Parts are what single options do where they do it without the others: of a lever that
	// has some Name, Why, Cost and Breaks are what those parts say whose options it adds.
	Parts []Part
	// TrainOption makes the class archive in a training run, which ends
	// before the lever is tried; empty where none is needed.
	TrainOption string
	// Extract unpacks the jars inside the application's jar; NoHugePages is
	// as in Setup.
	Extract, NoHugePages bool

	// Why says what is saved and Cost what is given up. Breaks is what may
	// stop working, and Undo how to go back where that is more than leaving
	// the options out. Cost, Breaks and Undo may be empty.
	Why, Cost, Breaks, Undo string
	// Harms are what it may take, also where it does not in most applications; none
	// where no failure of a trial can be its doing.
	Harms []Harm
	// Mark says what has to be allowed; Placement that the options change nothing but
	// where things are, so that they are tried anyway.
	Mark      Mark
	Placement bool
	// Slows says that it may cost speed: it is tried by itself.
	Slows bool
	// Waits says that it may have threads wait for each other: processor time does
	// not tell what it costs.
	Waits bool
	// Compiles says that it changes how code is compiled: what it costs is known only of an
	// application that has warmed up.
	Compiles bool
	// Last says that what it saves depends on all others, or that it hides what they are
	// judged by: it is tried after them.
	Last bool
	// ByCurve says that it sizes the heap by what collections were seen to cost: it
	// is tried at the very end.
	ByCurve bool
	// NothingBeside are the IDs of levers beside which it does nothing.
	NothingBeside []string
	// Since is the first release that has the options, Before the first that
	// no longer needs them; zero is no bound. Flag is one that the JVM must be
	// seen to have, as far as its flags can be seen: builds differ.
	Since, Before jvmopts.Release
	Flag          string
	// Moot is the value of Flag with which nothing is left to do.
	Moot string
	// Needs are the classes that must be on the application's class path, as entries of
	// a jar, with "|" between those of which one is enough: what the lever sets is read
	// there. Also are other names of the properties that it sets, and properties that
	// leave it without effect: where the user sets one of them the lever is closed.
	Needs, Also []string
	// Rows are the rows of a footprint that it can make smaller.
	Rows []footprint.Owner

	// Scales are how many times as often code may run before it is compiled, the
	// most first; empty where the lever does not set that.
	Scales []Scale

	// Own says that it is the user's: what it adds is taken as it stands, and it is
	// tried before others that may cost speed.
	Own bool
	// Blind says that it is tried where no footprint tells what it could save.
	Blind bool

	// bound is the most that it could save, by a ledger.
	bound func(Ledger) int64
}

// Part is what one option of a lever does.
type Part struct{ Option, Name, Why, Cost, Breaks string }

// named is the lever with what its parts say of it.
func (l Lever) named() Lever {
	said := func(separator string, of func(Part) string) string {
		var out []string
		for _, p := range l.Parts {
			if text := of(p); text != "" && slices.Contains(l.Options, p.Option) {
				out = append(out, text)
			}
		}
		return strings.Join(out, separator)
	}
	if len(l.Parts) > 0 {
		l.Name = said(", ", func(p Part) string { return p.Name })
		l.Why = said("; ", func(p Part) string { return p.Why })
		l.Cost = said("; ", func(p Part) string { return p.Cost })
		l.Breaks = said("; ", func(p Part) string { return p.Breaks })
	}
	return l
}

// Scale is how many times as often code runs before it is compiled, and the share
// of its speed that an application which has just started is expected to keep: about
// what a service with Camel keeps with C1 alone (docs/results/hot-code.md; with an
// AOT cache, by hand, 0.77 and 0.91 of 1719 requests a second). Others keep more.
type Scale struct {
	Times int
	Keeps float64
}

func feature(n int) jvmopts.Release { return jvmopts.Release{Feature: n} }

// sizes are the values of a lever's placeholders. Bytes.
type sizes struct {
	heap, young, initial, code, direct int64
	cpus, scale                        int
	archive, jar                       string
}

// setup is what the lever adds.
func (l Lever) setup(v sizes) Setup {
	n := func(bytes int64) string { return strconv.FormatInt((bytes+mib-1)/mib, 10) }
	r := strings.NewReplacer("{heap}", n(v.heap), "{young}", n(v.young), "{initial}", n(v.initial), "{code}", n(v.code), "{direct}", n(v.direct), "{cpus}", strconv.Itoa(v.cpus), "{archive}", v.archive,
		"{scale}", strconv.Itoa(v.scale), "{scale*2}", strconv.Itoa(2*v.scale), "{scale*6}", strconv.Itoa(6*v.scale))
	s := Setup{Env: slices.Clone(l.Env), NoHugePages: l.NoHugePages}
	if l.Own {
		s.Options = slices.Clone(l.Options)
		return s
	}
	for _, o := range l.Options {
		if v.direct > 0 || !strings.HasPrefix(o, directOption) {
			s.Options = append(s.Options, r.Replace(o))
		}
	}
	if l.Extract {
		s.Jar = v.jar
	}
	return s
}

// TrainingOf is the option of a training run that makes the class archive which an
// option of a lever uses, and the archive's file; ok says that it uses one.
func TrainingOf(option string) (train, file string, ok bool) {
	for _, l := range Levers {
		for _, o := range l.Options {
			if file, found := strings.CutPrefix(option, strings.TrimSuffix(o, "{archive}")); found && strings.HasSuffix(o, "{archive}") {
				return strings.ReplaceAll(l.TrainOption, "{archive}", file), file, true
			}
		}
	}
	return "", "", false
}

// same says that two are forms of one lever.
func (l Lever) same(o Lever) bool { return l.ID == o.ID }

// needless says that it does nothing beside another lever: in a heap of a fixed size,
// say, fewer strings leave more of it free, and as much resident.
func (l Lever) needless(beside Lever) bool { return slices.Contains(l.NothingBeside, beside.ID) }

// sizesHeap says that the lever sets the heap.
func (l Lever) sizesHeap() bool { return slices.Contains(l.Options, sizedHeap) }

// free says that the lever takes no processor time but that of collections.
func (l Lever) free() bool {
	return !l.Own && !l.Slows && !slices.Contains(l.Harms, HarmSpeed) && !slices.Contains(l.Harms, HarmStart)
}

// adds says that a word of a setup is the lever's.
func (l Lever) adds(word string) bool {
	return l.Extract && word == otherJar || l.NoHugePages && word == noHugePages ||
		slices.ContainsFunc(slices.Concat(l.Options, l.Env), func(o string) bool { return isOf(word, o) })
}

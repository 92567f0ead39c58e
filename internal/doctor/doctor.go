// Package doctor reads a footprint, finds what wastes memory or endangers the JVM,
// and says what to do about it. A rule that lacks the facts it needs finds
// nothing.
package doctor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/footprint"
)

// Schema names the JSON form of a Report. Findings and fields may be added;
// none changes its meaning.
const Schema = "tare.findings/1"

// Certainty says how sure a finding is.
type Certainty string

// The certainties, from sure to unsure.
const (
	Certain  Certainty = "certain"  // read from the JVM or the kernel
	Likely   Certainty = "likely"   // the usual cause of what was read
	Possible Certainty = "possible" // one of several causes
)

// certainties orders them.
var certainties = []Certainty{Certain, Likely, Possible}

// Finding is one thing that costs memory without need, endangers the JVM, or
// misleads who looks at it.
type Finding struct {
	// ID names the rule, and stays the same between versions.
	ID string `json:"id"`
	// Title is one sentence.
	Title string `json:"title"`
	// BytesAtStake is the most memory that following the finding can save, or
	// the memory that is missing; 0 where it is about no amount.
	BytesAtStake int64     `json:"bytesAtStake"`
	Certainty    Certainty `json:"certainty"`
	// Evidence is what was read, Do the ways to help, one of which is
	// enough, with the exact option.
	Evidence []string `json:"evidence"`
	Do       []string `json:"do"`
	// Cost is what following it costs, "" when nothing.
	Cost string `json:"cost"`
	// Source is where it is documented.
	Source string `json:"source"`
}

// Report is what was found in one footprint.
type Report struct {
	Schema    string    `json:"schema"`
	PID       int       `json:"pid"`
	Name      string    `json:"name"`
	JDK       string    `json:"jdk"`
	Collector string    `json:"collector"`
	Time      time.Time `json:"time"`
	RSSBytes  int64     `json:"rssBytes"`
	// LimitBytes is the memory limit, nil without one.
	LimitBytes *int64    `json:"limitBytes"`
	Findings   []Finding `json:"findings"`
	// Rules is how many rules looked, Unknown what they lacked.
	Rules   int      `json:"rules"`
	Unknown []string `json:"unknown"`
}

// Diagnose examines a footprint.
func Diagnose(f *footprint.Footprint) *Report {
	r := &Report{
		Schema: Schema, PID: f.PID, Name: f.Name, JDK: f.JDK, Collector: f.Collector, Time: f.Time,
		RSSBytes: f.RSSBytes, Findings: Examine(f), Rules: len(rules), Unknown: unknown(f),
	}
	if f.Cgroup != nil {
		r.LimitBytes = f.Cgroup.LimitBytes
	}
	return r
}

// Examine returns what the rules find, most bytes at stake first.
func Examine(f *footprint.Footprint) []Finding {
	p := newPatient(f)
	out := []Finding{}
	for _, r := range rules {
		if found := r.examine(p); found != nil {
			found.ID = r.id
			out = append(out, *found)
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(b.BytesAtStake, a.BytesAtStake),
			cmp.Compare(slices.Index(certainties, a.Certainty), slices.Index(certainties, b.Certainty)),
			strings.Compare(a.ID, b.ID),
		)
	})
	return out
}

// rules are all rules. One that finds nothing returns nil.
var rules = []struct {
	id      string
	examine func(*patient) *Finding
}{
	{"heap-above-live", heapAboveLive},
	{"heap-not-returned", heapNotReturned},
	{"heap-pretouched", heapPretouched},
	{"heap-counted-twice", heapCountedTwice},
	{"files-counted-twice", filesCountedTwice},
	{"compact-headers-off", compactHeadersOff},
	{"stacks-huge-pages", stacksHugePages},
	{"threads-many", threadsMany},
	{"threads-deep", threadsDeep},
	{"malloc-kept", mallocKept},
	{"malloc-large", mallocLarge},
	{"malloc-in-use", mallocInUse},
	{"metaspace-waste", metaspaceWaste},
	{"classes-many", classesMany},
	{"code-cache-full", codeCacheFull},
	{"code-cache-reserved", codeCacheReserved},
	{"archive-absent", archiveAbsent},
	{"archive-unused", archiveUnused},
	{"archive-relocated", archiveRelocated},
	{"archive-without-app", archiveWithoutApp},
	{"limit-below-heap", limitBelowHeap},
	{"headroom-small", headroomSmall},
	{"high-reached", highReached},
	{"cpu-threads", cpuThreads},
	{"cache-squeezed", cacheSqueezed},
	{"swap", swapped},
	{"host-memory", hostMemory},
	{"nmt-misleads", nmtMisleads},
}

// unknown names what the footprint lacks.
func unknown(f *footprint.Footprint) []string {
	out := []string{}
	for _, x := range []struct {
		missing bool
		name    string
	}{
		{len(f.Flags) == 0, "the JVM's options"},
		{f.Heap == nil, "what the JVM counts of its heap"},
		{f.Cgroup == nil, "the control group"},
		{f.Host == nil, "the machine's memory and kernel"},
	} {
		if x.missing {
			out = append(out, x.name)
		}
	}
	return out
}

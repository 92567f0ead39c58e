package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/trial"
)

// stage is what a trial is for.
type stage string

const (
	searching  stage = "search"
	confirming stage = "confirm"
	warming    stage = "warm"
	proving    stage = "proof"
	// halved are runs with half the processors, of which half the throughput is asked.
	halved   stage = "half"
	below    stage = "below"
	gridding stage = "grid"
	training stage = "train"
	// freshly are the runs that all must pass at a limit of equal robustness.
	freshly stage = "fresh"
	// equalling is the record of such a limit.
	equalling stage = "equal"
	// pairing are trials at limits that were found, tare's and the best other's
	// in turn.
	pairing stage = "pair"
	// answering is the record of a search's end.
	answering stage = "answer"
	// beside marks the baselines that trials of a stage are judged by.
	beside = " pace"
)

// processors is the share of a cell's processors that a run of a stage has.
func (s stage) processors() float64 {
	if s == halved {
		return 0.5
	}
	return 1
}

// key names a trial: the number counts those of one stage.
type key struct {
	cell
	Way    string `json:"way"`
	Stage  stage  `json:"stage"`
	Number int    `json:"number"`
	Plan   string `json:"plan"`
}

// record is what is kept of a trial, or of a search's end. Sizes are bytes.
type record struct {
	key
	JDK string `json:"jdk"`
	// Build is the build of the JDK; empty in records of before it was noted, which
	// count for every build.
	Build   string      `json:"build,omitempty"`
	Machine fit.Machine `json:"machine"`
	Time    time.Time   `json:"time"`
	Took    float64     `json:"tookSeconds"`

	LimitBytes int64    `json:"limitBytes"`
	Options    []string `json:"options,omitempty"`
	Env        []string `json:"env,omitempty"`
	Jar        string   `json:"jar,omitempty"`

	Verdict     trial.Verdict `json:"verdict,omitempty"`
	Evidence    []string      `json:"evidence,omitempty"`
	Narrow      bool          `json:"narrow,omitempty"`
	PeakBytes   int64         `json:"peakBytes,omitempty"`
	NeededBytes int64         `json:"neededBytes,omitempty"`
	WorkingSet  int64         `json:"workingSetBytes,omitempty"`
	// Waited is the share of the time that reclaim took; 0 in records of before it was noted.
	Waited     float64 `json:"waitedShare,omitempty"`
	Ready      float64 `json:"readySeconds,omitempty"`
	Throughput float64 `json:"throughput,omitempty"`
	P99        float64 `json:"p99Seconds,omitempty"`
	// Requests were answered, each of which took so many seconds of processor time.
	Requests  int64   `json:"requests,omitempty"`
	Processor float64 `json:"processorSeconds,omitempty"`
	// Rows are the resident bytes by owner near the peak.
	Rows map[string]int64 `json:"rows,omitempty"`

	// Answer is set where a search has ended.
	Answer *answer `json:"answer,omitempty"`
}

// answer is what a search found.
type answer struct {
	// Failure says why it found nothing.
	Failure string `json:"failure,omitempty"`
	// Over says that the limit was not enough: it is the best other's, and
	// how much more it takes was not looked for.
	Over trial.Verdict `json:"over,omitempty"`
	// Trials are those before confirming, Confirmations those after.
	Trials        int     `json:"trials"`
	Confirmations int     `json:"confirmations"`
	Throughput    float64 `json:"throughput"` // of the median confirmation
	Ready         float64 `json:"readySeconds"`
	// Slow are fresh runs that were slow without memory having a part in it, and that were
	// made anew.
	Slow int `json:"slow,omitempty"`
	// MarginBytes is what was added to the smallest limit that passed.
	MarginBytes int64 `json:"marginBytes,omitempty"`
	// SLO is what had to hold.
	SLO string `json:"slo"`
}

func (r record) passed() bool { return r.Verdict == trial.Passed }

// lacksMemory says that it failed, and was not just too slow without memory's part in it.
func (r record) lacksMemory() bool { return !r.passed() && r.Verdict != trial.TooSlow }

// resident is the sum of its rows.
func (r record) resident() (sum int64) {
	for _, n := range r.Rows {
		sum += n
	}
	return sum
}

// found says that a search's end has a limit that passed.
func (a answer) found() bool { return a.Failure == "" && a.Over == "" }

// cacheMark stands for the cache's folder in the file.
const cacheMark = "{cache}"

// readState reads what was measured before.
func (b *bench) readState() error {
	if err := b.readPacked(); err != nil {
		return err
	}
	return records.ReadFile(b.state, b.addLine)
}

// openState reads it to go on with it; another bench cannot meanwhile.
func (b *bench) openState() (err error) {
	if err := b.readPacked(); err != nil {
		return err
	}
	b.kept, err = records.Open(b.state, b.addLine)
	return err
}

func (b *bench) readPacked() error {
	b.done = map[key]record{}
	return records.ReadFile(b.packed, b.addLine)
}

func (b *bench) addLine(line []byte) error {
	return records.Into(func(r record) { b.remember(r.moved(cacheMark, b.cache)) })(line)
}

// pack moves what was measured since to the packed file.
func (b *bench) pack() error {
	if err := records.Pack(b.packed, b.packed, b.state); err != nil {
		return err
	}
	return b.kept.Clear()
}

// keep stores a record.
func (b *bench) keep(r record) error {
	r.Plan = b.plan
	if err := b.kept.Append(r.moved(b.cache, cacheMark)); err != nil {
		return err
	}
	b.remember(r)
	return nil
}

// forget leaves out what was measured of a cell on another build of its JDK.
func (b *bench) forget(c cell, build string) {
	maps.DeleteFunc(b.done, func(k key, r record) bool { return k.cell == c && r.Build != "" && r.Build != build })
}

// remember takes a record among those done. Where tare is asked anew, what was
// measured with its last answer, and beside it, no longer counts.
func (b *bench) remember(r record) {
	if r.Way == wayTare && r.Stage == answering {
		maps.DeleteFunc(b.done, func(k key, _ record) bool {
			return k.cell == r.cell && k.Plan == r.Plan && (k.Way == wayTare || k.Stage == pairing || strings.HasSuffix(string(k.Stage), beside))
		})
	}
	b.done[r.key] = r
}

// moved is a record whose files lie in another folder.
func (r record) moved(from, to string) record {
	if from == "" || to == "" {
		return r
	}
	r.Jar, r.Options = strings.ReplaceAll(r.Jar, from, to), slices.Clone(r.Options)
	for i, o := range r.Options {
		r.Options[i] = strings.ReplaceAll(o, from, to)
	}
	return r
}

// found is the answer of a way in a cell, nil where there is none yet.
func (b *bench) found(c cell, way string) *record {
	r, ok := b.done[key{c, way, answering, 0, b.plan}]
	if !ok {
		return nil
	}
	return &r
}

// missing are those of some ways that have no answer in a cell yet.
func (b *bench) missing(c cell, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return b.found(c, name) != nil })
}

// of are the trials of a stage, by number.
func (b *bench) of(c cell, way string, s stage) []record {
	var out []record
	for n := 1; ; n++ {
		r, ok := b.done[key{c, way, s, n, b.plan}]
		if !ok {
			return out
		}
		out = append(out, r)
	}
}

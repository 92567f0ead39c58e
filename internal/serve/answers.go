package serve

import (
	"cmp"
	"time"

	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
)

// The types here are the schemas of assets/openapi.json. Sizes are bytes, times RFC
// 3339, durations nanoseconds.

// machineAnswer is a machine.
type machineAnswer struct {
	Name    string        `json:"name"`
	Seen    time.Time     `json:"seen"`
	Version string        `json:"version"`
	Refused int64         `json:"refused"`
	Spent   *ledger.Spent `json:"spent,omitempty"`
}

// jvmAnswer is a JVM in a list.
type jvmAnswer struct {
	ID        int64      `json:"id"`
	Machine   string     `json:"machine"`
	Name      string     `json:"name"`
	PID       int        `json:"pid"`
	Kind      string     `json:"kind"`
	JDK       string     `json:"jdk"`
	Collector string     `json:"collector"`
	Container string     `json:"container,omitempty"`
	Pod       string     `json:"pod,omitempty"`
	Namespace string     `json:"namespace,omitempty"`
	Started   *time.Time `json:"started,omitempty"`
	First     time.Time  `json:"first"`
	Last      time.Time  `json:"last"`
	Ended     *time.Time `json:"ended,omitempty"`

	// Limit and Headroom are left out without a limit.
	Limit       *int64 `json:"limit,omitempty"`
	Headroom    *int64 `json:"headroom,omitempty"`
	Usage       int64  `json:"usage"`
	Needed      int64  `json:"needed"`
	Reclaimable int64  `json:"reclaimable"`
	Resident    int64  `json:"resident"`
	LiveSet     int64  `json:"liveSet"`
	Savable     int64  `json:"savable"`
	Findings    int    `json:"findings"`

	CountersAt  *time.Time    `json:"countersAt,omitempty"`
	FootprintAt *time.Time    `json:"footprintAt,omitempty"`
	Spark       history.Spark `json:"spark"`
}

// jvmDetail is a JVM with all that is known of it now.
type jvmDetail struct {
	jvmAnswer
	Process   ledger.Process   `json:"process"`
	Counters  ledger.Counters  `json:"counters"`
	Footprint *weighedAnswer   `json:"footprint,omitempty"`
	Found     []ledger.Finding `json:"found"`
	Autopsy   *ledger.Autopsy  `json:"autopsy,omitempty"`
}

// weighedAnswer is a footprint of a moment.
type weighedAnswer struct {
	At        time.Time        `json:"at"`
	Footprint ledger.Footprint `json:"footprint"`
}

// samplesAnswer is a series: Columns has an array as long as Times for each name.
type samplesAnswer struct {
	Step    int64              `json:"step"`
	Times   []int64            `json:"times"`
	Columns map[string][]int64 `json:"columns"`
}

// footprintsAnswer is footprints as series by owner: the owners of one moment add up
// to its Resident.
type footprintsAnswer struct {
	Times    []float64          `json:"times"`
	Resident []int64            `json:"resident"`
	Owners   map[string][]int64 `json:"owners"`
	Reasons  []ledger.Reason    `json:"reasons"`
}

// eventAnswer is an event.
type eventAnswer struct {
	ID     int64            `json:"id"`
	At     time.Time        `json:"at"`
	Kind   ledger.Kind      `json:"kind"`
	Text   string           `json:"text,omitempty"`
	Values map[string]int64 `json:"values,omitempty"`
}

// killAnswer is a kill, with the last that was seen of the JVM before.
type killAnswer struct {
	ID       int64           `json:"id"`
	Machine  string          `json:"machine"`
	JVM      int64           `json:"jvm"`
	Name     string          `json:"name"`
	At       time.Time       `json:"at"`
	Group    string          `json:"group"`
	Kills    int64           `json:"kills"`
	Verdict  history.Verdict `json:"verdict"`
	Counters ledger.Counters `json:"counters"`
	Last     *weighedAnswer  `json:"last,omitempty"`
	Autopsy  *ledger.Autopsy `json:"autopsy,omitempty"`
}

// findingAnswer is a finding of a JVM.
type findingAnswer struct {
	JVM     int64  `json:"jvm"`
	Machine string `json:"machine"`
	Name    string `json:"name"`
	ledger.Finding
}

// page is a part of a list: Next is the value of after for the next one, left out in
// the last.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  *int64 `json:"next,omitempty"`
}

// pageOf is a page of at most limit items, of one more that was read.
func pageOf[T any](all []T, limit int, id func(T) int64) page[T] {
	p := page[T]{Items: all[:min(len(all), limit)]}
	if p.Items == nil {
		p.Items = []T{}
	}
	if len(all) > limit {
		next := id(p.Items[limit-1])
		p.Next = &next
	}
	return p
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func newJVM(j *history.JVM) jvmAnswer {
	p := &j.Process
	a := jvmAnswer{ID: j.ID, Machine: j.Machine, Name: p.Name, PID: p.ID.PID, Kind: p.Kind, JDK: p.JDK, Collector: p.Collector,
		Container: cmp.Or(p.ContainerName, p.Container), Pod: cmp.Or(p.Pod, p.PodUID), Namespace: p.Namespace, Started: optional(p.Started),
		First: j.First, Last: j.Last, Ended: optional(j.Ended), Usage: j.Counters.Usage, Needed: j.Needed(), Reclaimable: j.Counters.Reclaimable,
		Resident: j.Counters.Resident, LiveSet: j.LiveSet(), Savable: j.Savable(), Findings: len(j.Findings),
		CountersAt: optional(j.CountersAt), FootprintAt: optional(j.FootprintAt), Spark: j.Spark}
	if left, ok := j.Headroom(); ok {
		a.Limit, a.Headroom = &j.Counters.Limit, &left
	}
	if a.Spark.Peaks == nil {
		a.Spark.Peaks = []int64{}
	}
	return a
}

func newDetail(j *history.JVM) jvmDetail {
	d := jvmDetail{jvmAnswer: newJVM(j), Process: j.Process, Counters: j.Counters, Found: j.Findings}
	if j.Footprint != nil {
		d.Footprint = &weighedAnswer{j.FootprintAt, *j.Footprint}
	}
	if d.Found == nil {
		d.Found = []ledger.Finding{}
	}
	return d
}

func newSamples(s *history.Samples) samplesAnswer {
	a := samplesAnswer{Step: s.Step, Times: s.Times, Columns: map[string][]int64{}}
	for i, name := range history.SampleColumns {
		a.Columns[name] = s.Columns[i]
	}
	return a
}

func newFootprints(all []history.Weighed) footprintsAnswer {
	a := footprintsAnswer{Times: []float64{}, Resident: []int64{}, Owners: map[string][]int64{}, Reasons: []ledger.Reason{}}
	for i, w := range all {
		a.Times = append(a.Times, float64(w.At.UnixMilli())/1000)
		a.Resident = append(a.Resident, w.Footprint.Resident)
		a.Reasons = append(a.Reasons, w.Footprint.Reason)
		for _, o := range w.Footprint.Owners {
			name := string(o.Owner)
			if a.Owners[name] == nil {
				a.Owners[name] = make([]int64, len(all))
			}
			a.Owners[name][i] = o.Resident
		}
	}
	return a
}

func newKill(k *history.Kill) killAnswer {
	a := killAnswer{ID: k.ID, Machine: k.Machine, JVM: k.JVM, Name: k.Name, At: k.At, Group: k.Group, Kills: k.Kills, Verdict: k.Verdict, Counters: k.Counters, Autopsy: k.Autopsy}
	if k.Footprint != nil {
		a.Last = &weighedAnswer{k.FootprintAt, *k.Footprint}
	}
	return a
}

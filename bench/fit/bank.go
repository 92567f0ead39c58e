package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/records"
	"tare.dev/tare/internal/trial"
)

// A bank is the recorded trials of one cell: JSON lines, the first of which is the
// head. In setups, archiveHere and jarHere stand for files of the machine that recorded.
const (
	archiveHere = "{archive}"
	jarHere     = "{extracted}"
)

// head is what all trials of a bank have in common.
type head struct {
	Cell    cell
	Began   time.Time
	Command []string // the arguments of the launcher
	Java    string   // its version
	Machine fit.Machine
	Load    load.Description
	// Work is what the load of each trial does, and Warming how the application warmed up
	// when that was found.
	Work           trial.Work
	Warming        []trial.WarmBlock `json:",omitempty"`
	SLO            string
	AmpleBytes     int64
	Nested         bool
	ReadAheadBytes int64
	// PaceWork is what told the pace of the machine (runner.PaceWork); empty is a chain
	// through memory, or nothing.
	PaceWork string `json:",omitempty"`
}

// Why a trial was made.
const (
	byFit    = "fit"    // a fit tried it
	byWant   = "wanted" // searches that were replayed asked for it
	byLadder = "ladder" // it is at a limit around the answers
)

// made is a recorded trial.
type made struct {
	Why string
	// Fit counts the real fits, from 1; 0 is none.
	Fit        int `json:",omitempty"`
	Phase      fit.Phase
	Setup      fit.Setup
	LimitBytes int64
	Squeeze    bool `json:",omitempty"`
	// Trained is the training run that made the setup's class archive.
	Trained *training `json:",omitempty"`
	// Speed is the throughput of the baseline that it was judged against; 0 is none.
	Speed float64 `json:",omitempty"`
	// Cost is the processor time of an answer of that baseline, and SLO the objective that
	// it was judged by; empty is the head's.
	Cost   time.Duration `json:",omitempty"`
	SLO    string        `json:",omitempty"`
	Result *trial.Result
}

// training is a training run as it was asked for.
type training struct {
	Setup  fit.Setup
	Option string
}

// archive is what a training run made.
type archive struct {
	training
	// Number counts the training runs of the cell, and names the folder of what it
	// made; Failure says why it made nothing.
	Number  int
	Failure string `json:",omitempty"`
	Took    time.Duration
}

// answer is how a real fit ended.
type answer struct {
	Number                   int
	LimitBytes, AsGivenBytes int64
	Setup                    fit.Setup
	Search, Proof            int // trials before the proof, and in it
	Took                     time.Duration
	// Others is the median share of the machine that other processes took in its trials.
	Others  float64
	Failure string `json:",omitempty"`
}

// line is a line of a bank: one of the fields is set.
type line struct {
	Head    *head    `json:",omitempty"`
	Trial   *made    `json:",omitempty"`
	Archive *archive `json:",omitempty"`
	Answer  *answer  `json:",omitempty"`
}

// bank is a bank that was read.
type bank struct {
	head     head
	trials   []*made
	archives []archive
	answers  []answer
}

const bankSuffix, packedSuffix = ".jsonl", ".jsonl" + records.Packed

// readBank reads a bank, packed or not.
func readBank(name string) (*bank, error) {
	b := &bank{}
	return b, b.whole(name, records.ReadFile(name, b.addLine))
}

func parseBank(r io.Reader, name string) (*bank, error) {
	b := &bank{}
	return b, b.whole(name, records.Read(r, name, b.addLine))
}

// whole is the error of reading a bank, or else that it has no head.
func (b *bank) whole(name string, err error) error {
	if err == nil && b.head.Java == "" {
		return fmt.Errorf("bank %s: it has no head", name)
	}
	return err
}

// addLine adds a line of a bank as it is written.
func (b *bank) addLine(text []byte) error {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return err
	}
	if (b.head.Java == "") != (l.Head != nil) {
		return errors.New("the first line is the head, and no other is")
	}
	return b.add(l)
}

func (b *bank) add(l line) error {
	switch {
	case l.Head != nil && l.Head.Java == "":
		return errors.New("a head without a JDK")
	case l.Head != nil:
		b.head = *l.Head
	case l.Trial != nil:
		if l.Trial.Result == nil || l.Trial.LimitBytes <= 0 {
			return errors.New("a trial without a result or a limit")
		}
		if n := trial.CacheNeeded(l.Trial.Result.Squeezed); n > 0 { // by the rule of now
			l.Trial.Result.CacheBytes = n
		}
		b.trials = append(b.trials, l.Trial)
	case l.Archive != nil:
		b.archives = append(b.archives, *l.Archive)
	case l.Answer != nil:
		b.answers = append(b.answers, *l.Answer)
	default:
		return errors.New("it says nothing")
	}
	return nil
}

// fits is the number of real fits that were begun.
func (b *bank) fits() int {
	n := len(b.answers)
	for _, m := range b.trials {
		n = max(n, m.Fit)
	}
	return n
}

// baseline is the recorded baseline of median speed, nil without one.
func (b *bank) baseline() *made {
	var all []*made
	for _, m := range b.trials {
		if m.Phase == fit.PhaseBaseline && m.Result.Passed() {
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(x, y *made) int { return compareSpeed(x.Result, y.Result) })
	return all[len(all)/2]
}

func compareSpeed(a, b *trial.Result) int {
	x, _ := a.Load.Throughput()
	y, _ := b.Load.Throughput()
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// bankFile is a bank that is being recorded.
type bankFile struct {
	*bank
	file *records.File
}

// openBank opens a bank to go on with, or begins it with a head.
func openBank(name string, h head) (*bankFile, error) {
	b := &bank{}
	file, err := records.Open(name, b.addLine)
	if err != nil {
		return nil, err
	}
	f := &bankFile{b, file}
	if b.head.Java == "" {
		return f, f.keep(line{Head: &h})
	}
	h.Machine.MemoryBytes = b.head.Machine.MemoryBytes // it differs a little with each start
	if b.head.Machine != h.Machine {
		return nil, errors.Join(fmt.Errorf("bank %s is of another machine (%+v), where the same work costs something else: begin another one", name, b.head.Machine), file.Close())
	}
	if b.head.Java != h.Java || !slices.Equal(b.head.Command, h.Command) {
		return nil, errors.Join(fmt.Errorf("bank %s is of %s on JDK %s, and this is %s on JDK %s: begin another one", name, b.head.Command, b.head.Java, h.Command, h.Java), file.Close())
	}
	if b.head.PaceWork != h.PaceWork {
		return nil, errors.Join(fmt.Errorf("bank %s: the pace of its machine is by other work than %s: begin another one", name, h.PaceWork), file.Close())
	}
	return f, nil
}

// keep adds a line, which outlives a kill when it returns.
func (f *bankFile) keep(l line) error {
	if err := f.file.Append(l); err != nil {
		return fmt.Errorf("bank %s: %w", f.file.Name(), err)
	}
	return f.add(l)
}

func (f *bankFile) close() error { return f.file.Close() }

// logLines are the last lines of an application's output that a bank keeps of a
// trial that failed.
const logLines = 3

// slim is a result without what no search reads, and without the folders of the machine.
func slim(r *trial.Result, folders ...string) (*trial.Result, error) {
	s := *r
	s.Log = nil
	if !r.Passed() {
		s.Log = r.Log[max(0, len(r.Log)-logLines):]
	}
	s.Peak, s.End = slimFootprint(r.Peak), slimFootprint(r.End)
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	for _, f := range folders {
		text = bytes.ReplaceAll(text, []byte(f+"/"), nil)
	}
	var out trial.Result
	return &out, json.Unmarshal(text, &out)
}

// slimFootprint keeps rows, flags and heap, and of the parts of rows those of threads,
// which bound a lever, and direct buffers.
func slimFootprint(f *footprint.Footprint) *footprint.Footprint {
	if f == nil {
		return nil
	}
	s := *f
	s.Host, s.Sources, s.Warnings, s.Cgroup = nil, nil, nil, nil
	s.Rows = slices.Clone(f.Rows)
	for i := range s.Rows {
		if s.Rows[i].Owner != footprint.ThreadStacks {
			s.Rows[i].Children = slices.DeleteFunc(slices.Clone(f.Rows[i].Children), func(c footprint.Child) bool { return c.ID != footprint.PartDirectBuffers })
		}
	}
	return &s
}

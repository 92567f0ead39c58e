package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
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
	// Work is what the load of each trial does.
	Work           trial.Work
	SLO            string
	AmpleBytes     int64
	Nested         bool
	ReadAheadBytes int64
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
	Speed  float64 `json:",omitempty"`
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

const bankSuffix, packedSuffix = ".jsonl", ".jsonl.gz"

// readBank reads a bank, compressed or not. A last line that was cut off is left out;
// whole is how many bytes go before it.
func readBank(name string) (b *bank, whole int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, packedSuffix) {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, 0, fmt.Errorf("bank %s: %w", name, err)
		}
	}
	b, whole, err = parseBank(r)
	if err != nil {
		return nil, 0, fmt.Errorf("bank %s: %w", name, err)
	}
	return b, whole, nil
}

func parseBank(r io.Reader) (b *bank, whole int64, err error) {
	b = &bank{}
	lines := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if b.head.Java == "" {
				return nil, 0, errors.New("it has no head")
			}
			return b, whole, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var l line
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		if (n == 1) != (l.Head != nil) {
			return nil, 0, fmt.Errorf("line %d: the first line is the head, and no other is", n)
		}
		if err := b.add(l); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		whole += int64(len(text))
	}
}

func (b *bank) add(l line) error {
	switch {
	case l.Head != nil:
		b.head = *l.Head
	case l.Trial != nil:
		if l.Trial.Result == nil || l.Trial.LimitBytes <= 0 {
			return errors.New("a trial without a result or a limit")
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
	file *os.File
}

// openBank opens a bank to go on with, or begins it with a head.
func openBank(name string, h head) (*bankFile, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	b, whole, err := readBank(name)
	begins := errors.Is(err, fs.ErrNotExist)
	if err != nil && !begins {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	f := &bankFile{b, file}
	if begins {
		f.bank = &bank{}
		return f, f.keep(line{Head: &h})
	}
	if b.head.Java != h.Java || !slices.Equal(b.head.Command, h.Command) {
		return nil, errors.Join(fmt.Errorf("bank %s is of %s on JDK %s, and this is %s on JDK %s: begin another one", name, b.head.Command, b.head.Java, h.Command, h.Java), file.Close())
	}
	if err := file.Truncate(whole); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	_, err = file.Seek(whole, io.SeekStart)
	return f, err
}

// keep adds a line, which outlives a kill when it returns.
func (f *bankFile) keep(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := f.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("bank %s: %w", f.file.Name(), err)
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("bank %s: %w", f.file.Name(), err)
	}
	return f.add(l)
}

func (f *bankFile) close() error { return f.file.Close() }

// pack writes a bank compressed to a file.
func pack(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = z.Write(text)
	if err := errors.Join(err, z.Close()); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

// logLines are the last lines of an application's output that a bank keeps of a
// trial that failed.
const logLines = 3

// slim is a result without what no search reads.
func slim(r *trial.Result) *trial.Result {
	s := *r
	s.Log = nil
	if !r.Passed() {
		s.Log = r.Log[max(0, len(r.Log)-logLines):]
	}
	s.Peak, s.End = slimFootprint(r.Peak), slimFootprint(r.End)
	return &s
}

// slimFootprint keeps rows, flags and heap, and of the parts of rows those of threads,
// which bound a lever.
func slimFootprint(f *footprint.Footprint) *footprint.Footprint {
	if f == nil {
		return nil
	}
	s := *f
	s.Host, s.Sources, s.Warnings, s.Cgroup = nil, nil, nil, nil
	s.Rows = slices.Clone(f.Rows)
	for i := range s.Rows {
		if s.Rows[i].Owner != footprint.ThreadStacks {
			s.Rows[i].Children = nil
		}
	}
	return &s
}

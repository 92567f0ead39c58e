package lab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/records"
)

// Schema names the JSON form of a Record.
const Schema = "tare.lab/1"

// Record is the result of one run of one cell: a line of a results file.
type Record struct {
	Schema string `json:"schema"`
	// Hash tells what ran; see Experiment.Hash.
	Hash  string            `json:"hash"`
	Cell  map[string]string `json:"cell"`
	Round int               `json:"round"`
	Time  time.Time         `json:"time"`
	Took  time.Duration     `json:"tookNanos"`
	JDK   string            `json:"jdk"`
	// Build is the build of the JDK; empty in an image, whose digest tells, and in
	// records of before there was one, which count for every build.
	Build  string `json:"build,omitempty"`
	Runner string `json:"runner"`
	// Image is the digest of the image that it ran in.
	Image   string      `json:"image,omitempty"`
	Machine fit.Machine `json:"machine"`
	// Trials is how many starts of the program it took.
	Trials int `json:"trials"`
	// Tolerance is the share to which a search looked for what it found.
	Tolerance float64 `json:"tolerance,omitempty"`
	Verdict   string  `json:"verdict"`
	// Others is the share of the machine's processor time that went to others
	// while it was measured.
	Others   float64  `json:"others,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Values are the measures, in the base units; one that could not be
	// measured is missing.
	Values map[string]float64 `json:"values"`
}

// Results is a results file: one record a line, only ever appended to.
type Results struct {
	Records []Record

	file *records.File
	have map[runKey]bool
}

// runKey names a run: a cell by its hash, a round, and what it ran on.
type runKey struct {
	hash  string
	round int
	on    string
}

// on is what a record ran on: an image or a build of a JDK; "" where it does not say.
func (r Record) on() string { return cmp.Or(r.Image, r.Build) }

// ErrInUse says that another process writes a results file.
var ErrInUse = records.ErrInUse

// OpenResults opens a results file to go on with it, and makes it where there is
// none. A last line that was cut off by a kill is removed; any other line that is
// not a record is an error.
func OpenResults(name string) (*Results, error) {
	r := &Results{have: map[runKey]bool{}}
	var err error
	if r.file, err = records.Open(name, r.parse); err != nil {
		return nil, fmt.Errorf("results %w", err)
	}
	return r, nil
}

// ReadResults reads a results file.
func ReadResults(in io.Reader, name string) (*Results, error) {
	r := &Results{have: map[runKey]bool{}}
	if err := records.Read(in, name, r.parse); err != nil {
		return nil, fmt.Errorf("results %w", err)
	}
	return r, nil
}

// parse adds the record of a line.
func (r *Results) parse(line []byte) error {
	var rec Record
	if err := json.Unmarshal(line, &rec); err != nil || rec.Schema != Schema || rec.Hash == "" || rec.Round < 1 {
		return fmt.Errorf("no record of schema %s", Schema)
	}
	r.add(rec)
	return nil
}

func (r *Results) add(rec Record) {
	r.Records = append(r.Records, rec)
	r.have[runKey{rec.Hash, rec.Round, rec.on()}] = true
	r.have[runKey{rec.Hash, rec.Round, anything}] = true
}

// anything stands for whatever a run ran on.
const anything = "*"

// Has says whether there is a result of a cell, by its hash, in a round, that counts
// for an image or a build of a JDK: one made on it, or one that does not say. With an
// empty name any result counts.
func (r *Results) Has(hash string, round int, on string) bool {
	return r.have[runKey{hash, round, cmp.Or(on, anything)}] || r.have[runKey{hash, round, ""}]
}

// of are the records of a cell, by its hash, that may be compared with each other:
// those made on what the last of them was made on, and those that do not say.
func (r *Results) of(hash string) []Record {
	var out []Record
	on := ""
	for _, rec := range slices.Backward(r.Records) {
		if rec.Hash != hash {
			continue
		}
		if on = cmp.Or(on, rec.on()); rec.on() == "" || rec.on() == on {
			out = append(out, rec)
		}
	}
	slices.Reverse(out)
	return out
}

// last is a measure of a cell, by its hash, as it was measured last; 0 where it
// was not.
func (r *Results) last(hash, measure string) float64 {
	for _, rec := range slices.Backward(r.of(hash)) {
		if v, ok := rec.Values[measure]; ok {
			return v
		}
	}
	return 0
}

// Append writes a record through to the disk.
func (r *Results) Append(rec *Record) error {
	if err := r.file.Append(rec); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	r.add(*rec)
	return nil
}

// Close closes the file.
func (r *Results) Close() error { return r.file.Close() }

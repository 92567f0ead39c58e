package lab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/fit"
)

// Schema names the JSON form of a Record.
const Schema = "tare.lab/1"

// Record is the result of one run of one cell: a line of a results file.
type Record struct {
	Schema string `json:"schema"`
	// Hash tells what ran; see Experiment.Hash.
	Hash   string            `json:"hash"`
	Cell   map[string]string `json:"cell"`
	Round  int               `json:"round"`
	Time   time.Time         `json:"time"`
	Took   time.Duration     `json:"tookNanos"`
	JDK    string            `json:"jdk"`
	Runner string            `json:"runner"`
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

	file *os.File
	have map[string]bool
}

const maxRecord = 1 << 20

// ErrInUse says that another process writes a results file.
var ErrInUse = errors.New("another tare writes to it")

// OpenResults opens a results file for going on with it, and makes one that is
// not there. A last line that was cut off by a kill is removed; any other line
// that is no record is an error.
func OpenResults(name string) (*Results, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("results %s: %w", name, ErrInUse)
	}
	r, whole, err := readResults(f, name)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	r.file = f
	return r, nil
}

// ReadResults reads a results file.
func ReadResults(in io.Reader, name string) (*Results, error) {
	r, _, err := readResults(in, name)
	return r, err
}

// readResults returns also the length of the whole lines.
func readResults(in io.Reader, name string) (*Results, int64, error) {
	r := &Results{have: map[string]bool{}}
	br := bufio.NewReaderSize(in, 64<<10)
	var whole int64
	for line := 1; ; line++ {
		text, err := readLine(br)
		if errors.Is(err, io.EOF) {
			return r, whole, nil // what comes without an end of line was cut off
		}
		if err != nil {
			return nil, 0, fmt.Errorf("results %s:%d: %w", name, line, err)
		}
		var rec Record
		if err := json.Unmarshal(text, &rec); err != nil || rec.Schema != Schema || rec.Hash == "" || rec.Round < 1 {
			return nil, 0, fmt.Errorf("results %s:%d: no record of schema %s", name, line, Schema)
		}
		whole += int64(len(text))
		r.add(rec)
	}
}

func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxRecord {
			return nil, fmt.Errorf("line of more than %d bytes", maxRecord)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (r *Results) add(rec Record) {
	r.Records = append(r.Records, rec)
	r.have[runKey(rec.Hash, rec.Round)] = true
}

func runKey(hash string, round int) string { return hash + "/" + strconv.Itoa(round) }

// Has says whether there is a result of a cell, by its hash, in a round.
func (r *Results) Has(hash string, round int) bool { return r.have[runKey(hash, round)] }

// last is a measure of a cell, by its hash, as it was measured last; 0 where it
// was not.
func (r *Results) last(hash, measure string) float64 {
	for _, rec := range slices.Backward(r.Records) {
		if v, ok := rec.Values[measure]; ok && rec.Hash == hash {
			return v
		}
	}
	return 0
}

// Append writes a record through to the disk.
func (r *Results) Append(rec *Record) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(rec); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if _, err := r.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if err := r.file.Sync(); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	r.add(*rec)
	return nil
}

// Close closes the file.
func (r *Results) Close() error { return r.file.Close() }

package load

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/shell"
)

// Format is how an external generator tells what it measured.
type Format string

// The formats.
const (
	// Line is one line of JSON, the last with text on standard output:
	//
	//	{"requests":1000,"failed":3,"p50Millis":1.5,"p99Millis":20}
	//
	// Only requests must be there. What else may be: failed, meanMillis,
	// p50Millis, p90Millis, p99Millis, p999Millis and maxMillis. What is left
	// out was not measured.
	Line Format = "line"
	// Status is that nothing is told but the exit status: not 0 is one failed
	// request.
	Status Format = "status"
	// K6 is the JSON of k6's --summary-export.
	K6 Format = "k6"
	// Wrk is what wrk and wrk2 print.
	Wrk Format = "wrk"
	// Oha is the JSON that oha prints (schema.json of its repository).
	Oha Format = "oha"
	// Hey is what hey prints.
	Hey Format = "hey"
)

// generator is what is known of the generators of one format.
type generator struct {
	// parse reads a summary. words are the command's, nil where they are not
	// known.
	parse func(text []byte, words []string) (Result, error)
	// measures are what a summary can tell, by the command's words.
	measures func(words []string) Measures
	// check refuses a command whose output is not as parse needs it.
	check func(words []string) error
	// env is added to the environment, where the summary is written to $FILE.
	env []string
	// url says that the generator takes the URLs as arguments.
	url bool
	// help says what to do where no summary was found.
	help string
}

const lineHelp = `print {"requests":N,"failed":N,…} as the last line, name what prints its result by --load-output (k6, wrk, oha, hey), ` +
	`or give --load-output status where only the exit status tells`

var generators = map[Format]generator{
	Line:   {parse: parseLine, measures: func([]string) Measures { return All }, help: lineHelp},
	Status: {parse: parseStatus, measures: func([]string) Measures { return Failures }, help: lineHelp},
	K6: {parse: parseK6, measures: func([]string) Measures { return All }, check: checkK6, help: "let k6 run end by itself, and leave its summary on",
		env: []string{"K6_SUMMARY_EXPORT=$FILE", "K6_SUMMARY_TREND_STATS=avg,med,max,p(90),p(99),p(99.9)"}},
	Wrk: {parse: parseWrk, measures: wrkMeasures, url: true, help: "let wrk print to standard output"},
	Oha: {parse: parseOha, measures: func([]string) Measures { return All }, check: checkOha, url: true, help: "call oha with --no-tui --output-format json"},
	Hey: {parse: parseHey, measures: func([]string) Measures { return All &^ P999 }, check: checkHey, url: true, help: "let hey print to standard output, without -o"},
}

func formatNames() []string {
	var names []string
	for _, f := range slices.Sorted(maps.Keys(generators)) {
		names = append(names, string(f))
	}
	return names
}

// formatOf is the format of a known generator, else Line.
func formatOf(words []string) Format {
	if len(words) == 0 {
		return Line
	}
	f := Format(filepath.Base(words[0]))
	if _, ok := generators[f]; ok && f != Status {
		return f
	}
	return Line
}

// simpleWords are the words of a shell command that runs one program and leaves
// its output alone, from the program on; nil of any other. A variable stays as
// it is written.
func simpleWords(command string) []string {
	words, ok := shell.Split(command)
	if !ok {
		return nil
	}
	for len(words) > 0 && (words[0] == "exec" || words[0] == "env" || isAssignment(words[0])) {
		words = words[1:]
	}
	return words
}

func isAssignment(word string) bool {
	name, _, found := strings.Cut(word, "=")
	return found && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// hasFlag tells whether one of the flags is among the words.
func hasFlag(words []string, flags ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		name, _, _ := strings.Cut(w, "=")
		return slices.Contains(flags, name)
	})
}

// checked completes a summary that adds up: counts are not negative and not
// beyond maxSummary, and longer quantiles are not shorter.
func checked(r Result) (Result, error) {
	if r.Sent < 0 || r.Failed < 0 || r.Sent > maxSummary {
		return Result{}, fmt.Errorf("%d requests, %d failed: no counts", r.Sent, r.Failed)
	}
	if r.Failed > r.Sent {
		return Result{}, fmt.Errorf("failed %d of %d requests: count each failed one as a request", r.Failed, r.Sent)
	}
	if r.Elapsed < 0 || r.Elapsed > maxTime {
		return Result{}, fmt.Errorf("a load of %v", r.Elapsed)
	}
	if err := r.Latency.check(); err != nil {
		return Result{}, err
	}
	r.Due = r.Sent
	if !r.NoFailures {
		r.OK = r.Sent - r.Failed
	}
	if r.Errors == nil {
		r.Errors = make(map[string]int64)
	}
	if r.Failed > 0 && len(r.Errors) == 0 {
		r.Errors[otherKind] = r.Failed
	}
	return r, nil
}

const (
	maxSummary = int64(1e15) // requests
	maxTime    = 24 * time.Hour
)

// check refuses quantiles that are not in their order. Mean is below Max, but
// for the rounding of what generators print.
func (l Latency) check() error {
	var known []time.Duration
	for _, t := range []Time{l.P50, l.P90, l.P99, l.P999, l.Max} {
		if d, ok := t.Value(); ok {
			known = append(known, d)
		}
	}
	if !slices.IsSorted(known) {
		return fmt.Errorf("quantiles are not in order: %v", known)
	}
	mean, _ := l.Mean.Value()
	if most, ok := l.Max.Value(); ok && mean > most+most/10 {
		return fmt.Errorf("a mean of %v is above the maximum of %v", mean, most)
	}
	for _, d := range append(known, mean) {
		if d > maxTime {
			return errors.New("an answer took more than a day")
		}
	}
	return nil
}

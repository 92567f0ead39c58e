package report

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"tare/internal/fit"
	"tare/internal/linux"
	"tare/internal/store"
)

// FitListSchema names the JSON form of the list of fits.
const FitListSchema = "tare.fits/1"

// FitListJSON is the JSON form of the list of fits, the newest first.
type FitListJSON struct {
	Schema string        `json:"schema"`
	Fits   []fitItemJSON `json:"fits"`
}

type fitItemJSON struct {
	ID    int64       `json:"id"`
	Began time.Time   `json:"began"`
	State store.State `json:"state"`
	// LimitBytes is the recommended limit, nil without one.
	LimitBytes *int64   `json:"limitBytes"`
	Trials     int      `json:"trials"`
	JDK        string   `json:"jdk"`
	Command    []string `json:"command"`
	Dir        string   `json:"dir"`
	// Error says why there is no recommendation, nil unless it failed.
	Error *string `json:"error"`
}

// NewFitListJSON converts a list of fits.
func NewFitListJSON(fits []store.Fit) FitListJSON {
	out := FitListJSON{Schema: FitListSchema, Fits: []fitItemJSON{}}
	for _, f := range fits {
		j := fitItemJSON{ID: f.ID, Began: f.Began.UTC(), State: f.State, Trials: f.Trials, JDK: f.Plan.Java.Version, Command: list(f.Plan.Command), Dir: f.Plan.Dir}
		if e := f.Ending; e != nil && e.LimitBytes > 0 {
			j.LimitBytes = &e.LimitBytes
		}
		if e := f.Ending; e != nil && e.Failure != "" {
			j.Error = &e.Failure
		}
		out.Fits = append(out.Fits, j)
	}
	return out
}

// FitList writes a list of fits for people.
func FitList(w io.Writer, fits []store.Fit, s Style) error {
	p := &printer{w: w}
	if len(fits) == 0 {
		p.line("no fit was made yet: begin with tare fit --help")
		return p.err
	}
	rows := [][]string{{"id", "began", "state", "limit", "trials", "JDK", "command"}}
	cutOff := false
	for _, f := range fits {
		limit := "-"
		if f.Ending != nil && f.Ending.LimitBytes > 0 {
			limit = Limit(f.Ending.LimitBytes)
		}
		cutOff = cutOff || f.State == store.CutOff
		rows = append(rows, []string{fmt.Sprint(f.ID), f.Began.Local().Format("2006-01-02 15:04"), stateText(f.State, s), limit, fmt.Sprint(f.Trials), linux.Printable(f.Plan.Java.Version),
			cut(commandText(f.Plan.Command), 28)})
	}
	p.table("", []Align{Right, Left, Left, Right, Right, Left, Left}, rows)
	p.line("")
	p.line("next: tare fit show ID · tare fit report ID")
	if cutOff {
		p.line("      tare fit --resume ID goes on with one that was cut off")
	}
	return p.err
}

// commandText is a command with the launcher's name alone.
func commandText(command []string) string {
	if len(command) == 0 {
		return ""
	}
	return linux.Printable(ShellWords(append([]string{filepath.Base(command[0])}, command[1:]...)))
}

func stateText(state store.State, s Style) string {
	switch state {
	case store.Done:
		return s.Good(string(state))
	case store.Failed, store.CutOff:
		return s.Bad(string(state))
	}
	return string(state)
}

// FitUnanswered writes a fit that has no answer: why, and its trials.
func FitUnanswered(w io.Writer, r *fit.Result, why error, s Style) error {
	p := &printer{w: w}
	for _, l := range Wrap(linux.Printable(why.Error()), width-1) {
		p.line(" %s", l)
	}
	p.line("")
	if len(r.Trials) > 0 {
		fitTrials(p, r, s)
	}
	fitConditions(p, r, s)
	return p.err
}

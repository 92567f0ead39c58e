package report

import (
	"fmt"
	"path/filepath"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/shell"
	"tare.dev/tare/internal/store"
)

// FitListSchema names the JSON form of the list of fits.
const FitListSchema = "tare.fits/1"

// FitListJSON is the JSON form of the list of fits, the newest first.
type FitListJSON struct {
	Schema string        `json:"schema"`
	Fits   []fitItemJSON `json:"fits"`
}

type fitItemJSON struct {
	ID int64 `json:"id"`
	// Host is where the fit ran; empty where an earlier version stored it.
	Host  string      `json:"host"`
	Began time.Time   `json:"began"`
	State store.State `json:"state"`
	// LimitBytes is the recommended limit, nil without one.
	LimitBytes *int64   `json:"limitBytes"`
	Trials     int      `json:"trials"`
	JDK        string   `json:"jdk"`
	Command    []string `json:"command"`
	Dir        string   `json:"dir"`
	// Error says why there is no recommendation, or why the fit cannot be read;
	// else nil.
	Error *string `json:"error"`
}

// NewFitListJSON converts a list of fits.
func NewFitListJSON(fits []store.Fit) FitListJSON {
	out := FitListJSON{Schema: FitListSchema, Fits: []fitItemJSON{}}
	for _, f := range fits {
		j := fitItemJSON{ID: f.ID, Host: f.Host, Began: f.Began.UTC(), State: f.State, Trials: f.Trials, JDK: f.Plan.Java.Version, Command: list(f.Plan.Command), Dir: f.Plan.Dir}
		if e := f.Ending; e != nil && e.LimitBytes > 0 {
			j.LimitBytes = &e.LimitBytes
		}
		if e := f.Ending; e != nil && e.Failure != "" {
			j.Error = &e.Failure
		}
		if f.Problem != nil {
			text := f.Problem.Error()
			j.Error = &text
		}
		out.Fits = append(out.Fits, j)
	}
	return out
}

// FitList shows a list of fits.
func FitList(fits []store.Fit) *document.Document {
	d := &document.Document{}
	if len(fits) == 0 {
		d.Add(paragraph("no fit was made yet: begin with tare fit --help"))
		return d
	}
	t := document.Table{Columns: document.Columns(">id", "began", "state", ">limit", ">trials", "JDK", "command")}
	cutOff := false
	var problems document.List
	for _, f := range fits {
		limit := "-"
		if f.Ending != nil && f.Ending.LimitBytes > 0 {
			limit = Limit(f.Ending.LimitBytes)
		}
		cutOff = cutOff || f.State == store.CutOff && f.Here
		command := cut(commandText(f.Plan.Command), 28)
		if f.State == store.Unreadable {
			problems.Items = append(problems.Items, document.Bad(f.Problem.Error()))
		}
		if !f.Here {
			command = "on " + f.Host + ": " + command
		}
		row := document.Cells(fmt.Sprint(f.ID), f.Began.Local().Format("2006-01-02 15:04"), "", limit, fmt.Sprint(f.Trials), f.Plan.Java.Version, command)
		row[2].Text = stateText(f.State)
		t.Row(row...)
	}
	next := "next: tare fit show ID · tare fit report ID"
	if cutOff {
		next += " · tare fit --resume ID goes on with one that was cut off"
	}
	d.Add(t, problems, document.Paragraph{Text: document.Plain(next)})
	return d
}

// commandText is a command with the launcher's name alone.
func commandText(command []string) string {
	if len(command) == 0 {
		return ""
	}
	return shell.Words(append([]string{filepath.Base(command[0])}, command[1:]...))
}

func stateText(state store.State) document.Text {
	switch state {
	case store.Done:
		return document.Good(string(state))
	case store.Failed, store.CutOff, store.Unreadable:
		return document.Bad(string(state))
	}
	return document.Plain(string(state))
}

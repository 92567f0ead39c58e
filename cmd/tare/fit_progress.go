package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/trial"
)

// progress shows a fit as it runs: a line for each trial that ended, and on a
// terminal one line that is rewritten for the trial under way.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	style    document.Style
	current  fit.Event
	running  bool
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		p.terminal, p.style = document.IsTerminal(f), document.StyleFor(f)
	}
	return p
}

// note writes a line of its own.
func (p *progress) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(p.w, linux.Printable(text))
}

// event takes the steps of the search.
func (p *progress) event(e fit.Event) {
	if e.Note != "" {
		p.note(e.Note)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if e.Outcome != nil {
		p.running = false
		fmt.Fprintln(p.w, p.ended(e))
		return
	}
	p.current, p.running = e, true
	if e.Attempt.Phase == fit.PhaseTrain && !p.terminal {
		fmt.Fprintf(p.w, "     training run for: %s\n", e.Attempt.Lever)
	}
	p.draw("")
}

// stage takes the parts of the trial under way.
func (p *progress) stage(s trial.Stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.draw(s)
}

// end removes the line that is rewritten.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.running = false
}

// clear empties the current line of a terminal.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *progress) draw(s trial.Stage) {
	if !p.terminal || !p.running {
		return
	}
	e := p.current
	text := fmt.Sprintf("trial %d of ~%d · %s · limit %s", e.Attempt.Number, e.Attempt.Number+e.Remaining-1, what(e.Attempt), report.Limit(e.Attempt.LimitBytes))
	if e.Attempt.Phase == fit.PhaseTrain {
		text = fmt.Sprintf("training run for %s", e.Attempt.Lever)
	}
	if s != "" {
		text += " · " + string(s)
	}
	if e.Left > 0 {
		text += " · about " + leftText(e.Left) + " left"
	}
	if r := []rune(text); len(r) > 79 {
		text = string(r[:78]) + "…" // one line, or it could not be rewritten
	}
	fmt.Fprint(p.w, text)
}

func leftText(d time.Duration) string {
	if d < 90*time.Second {
		return fmt.Sprintf("%d s", int(d.Round(10*time.Second).Seconds()))
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
}

// ended is the line of a trial that ended.
func (p *progress) ended(e fit.Event) string {
	o := e.Outcome
	verdict := p.style.Good(string(o.Verdict))
	if !o.Passed {
		verdict = p.style.Bad(string(o.Verdict))
	}
	text := fmt.Sprintf("%3d  %9s  %s: %s", e.Attempt.Number, report.Limit(e.Attempt.LimitBytes), what(e.Attempt), verdict)
	if l := o.Measured.Load; l != nil && o.Measured.Start > 0 {
		if v, measured := l.Throughput(); measured {
			text += fmt.Sprintf(", %s req/s", report.Rate(v))
		}
		if d, measured := l.Latency.P99.Value(); measured {
			text += ", p99 " + report.Duration(d)
		}
	}
	if o.Measured.Time > 0 {
		text += ", " + report.Duration(o.Measured.Time)
	}
	if o.Measured.Start > 0 {
		text += ", ready in " + report.Duration(o.Measured.Start)
	}
	switch {
	case o.OnlyPressed():
		text += " (waits for memory)"
	case o.SlowElsewhere:
		text += " (not for want of memory)"
	case !o.Passed && o.Narrow:
		text += " (narrowly)"
	}
	return text
}

// what says in a few words what an attempt tries.
func what(a fit.Attempt) string {
	text := string(a.Phase)
	if a.Lever != "" {
		text = a.Lever
	}
	if a.Repeat > 0 {
		text += ", again"
	}
	return text
}

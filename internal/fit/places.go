package fit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// A search asks for one trial after the other, for each decides about the next. Where there
// are several places it also says which trials it is about to ask for, as far as it knows:
// they are made meanwhile. What it finds goes by the order in which it asks, and not by
// which trial ended first.

// Planner is a Trier that makes trials ahead.
type Planner interface {
	Trier
	// Nodes are the places, by the machine of each. They stay the same, also when one is
	// lost.
	Nodes() []string
	// Ahead says which trials are about to be asked for, in that order, after those that
	// were said before. They begin when a place is free.
	Ahead(ctx context.Context, attempts []Attempt)
	// Drop ends the trials that were said ahead and not asked for, as far as they are such.
	Drop(such func(Attempt) bool)
}

// Place is where one trial at a time is made.
type Place struct {
	Node  string
	Trier Trier
}

// Filer is a Trier that writes files of its trials. Those of a trial that was made ahead
// (Attempt.Ahead) get their names when it is asked for.
type Filer interface {
	// File files a trial that was made with the number ahead; the attempt has its own.
	File(ahead int, a Attempt, o *Outcome) error
	// Discard removes the files of one that nobody asked for.
	Discard(ahead int)
}

// Finish is a trial that has ended at a place.
type Finish struct {
	Place   int
	Outcome Outcome
	Err     error
}

// Lanes make trials at places, which are known by their index.
type Lanes interface {
	// Begin begins a trial at a place without one. It ends soon after the context has.
	Begin(ctx context.Context, place int, a Attempt)
	// End waits until one of the trials that were begun has ended.
	End() Finish
}

// lanes make each trial in a goroutine.
type lanes struct {
	places []Place
	ended  chan Finish
}

// Begin begins a trial.
func (l lanes) Begin(ctx context.Context, place int, a Attempt) {
	go func() {
		o, err := l.places[place].Trier.Try(ctx, a)
		l.ended <- Finish{place, o, err} // it has room for one of each place
	}()
}

// End waits for a trial.
func (l lanes) End() Finish { return <-l.ended }

// Places is the Planner of several places. Its methods are for one goroutine.
type Places struct {
	places []Place
	lanes  Lanes
	lost   func(error) bool
	note   func(string)
	// jobs were said ahead or asked for, in that order, and not answered.
	jobs []*job
	// at is the job at each place, nil where there is none; gone says that it was lost.
	at    []*job
	gone  []bool
	begun int
	// shown is the place of the trial that was asked for, from 1; 0 is none.
	shown atomic.Int32
}

// job is a trial that is to be made.
type job struct {
	attempt Attempt
	place   int // -1 before it begins
	ctx     context.Context
	cancel  context.CancelFunc
	done    bool
	outcome Outcome
	err     error
}

// NewPlaces makes trials at places, by lanes; nil are goroutines. Where lost says that an
// error is one of a place, and there is another one, the trial is made there, the place is
// given up, and note is told.
func NewPlaces(places []Place, l Lanes, lost func(error) bool, note func(string)) *Places {
	if l == nil {
		l = lanes{places, make(chan Finish, len(places))}
	}
	return &Places{places: places, lanes: l, lost: lost, note: note, at: make([]*job, len(places)), gone: make([]bool, len(places))}
}

// Nodes are the places.
func (p *Places) Nodes() []string {
	var names []string
	for _, at := range p.places {
		names = append(names, at.Node)
	}
	return names
}

// Ahead plans trials.
func (p *Places) Ahead(ctx context.Context, attempts []Attempt) {
	for _, a := range attempts {
		p.jobs = append(p.jobs, &job{attempt: a, place: -1})
	}
	p.fill(ctx)
}

// Try gives a trial that was said ahead, or makes it before all others.
func (p *Places) Try(ctx context.Context, a Attempt) (Outcome, error) {
	j := p.planned(a)
	for !j.done {
		p.fill(ctx)
		p.shown.Store(int32(j.place + 1)) //nolint:gosec // a few places
		p.end()
	}
	p.shown.Store(0)
	p.jobs = slices.DeleteFunc(p.jobs, func(o *job) bool { return o == j })
	filer, files := p.places[j.place].Trier.(Filer)
	if j.err != nil {
		if files {
			filer.Discard(j.attempt.Ahead)
		}
		return Outcome{}, j.err
	}
	j.outcome.Node = p.places[j.place].Node
	if files {
		return j.outcome, filer.File(j.attempt.Ahead, a, &j.outcome)
	}
	return j.outcome, nil
}

// planned is the first job of an attempt, or a new one before all others.
func (p *Places) planned(a Attempt) *job {
	for _, j := range p.jobs {
		if j.attempt.alike(a) {
			return j
		}
	}
	j := &job{attempt: a, place: -1}
	p.jobs = slices.Insert(p.jobs, 0, j)
	return j
}

// Drop ends what nobody has asked for.
func (p *Places) Drop(such func(Attempt) bool) {
	var dropped []*job
	p.jobs = slices.DeleteFunc(p.jobs, func(j *job) bool {
		if !such(j.attempt) {
			return false
		}
		if j.cancel != nil {
			j.cancel()
		}
		dropped = append(dropped, j)
		return true
	})
	for _, j := range dropped {
		for j.place >= 0 && !j.done {
			p.end()
		}
		if filer, ok := p.trierOf(j).(Filer); ok {
			filer.Discard(j.attempt.Ahead)
		}
	}
}

// trierOf is what a job was begun by, or nil.
func (p *Places) trierOf(j *job) Trier {
	if j.place < 0 {
		return nil
	}
	return p.places[j.place].Trier
}

// fill begins jobs at places that have none, in their order.
func (p *Places) fill(ctx context.Context) {
	for place, at := range p.places {
		if p.at[place] != nil || p.gone[place] {
			continue
		}
		i := slices.IndexFunc(p.jobs, func(j *job) bool { return j.place < 0 && p.fits(j.attempt, place) })
		if i < 0 {
			continue
		}
		j := p.jobs[i]
		p.begun++
		j.place, j.attempt.Ahead, p.at[place] = place, p.begun, j
		if b := j.attempt.ByNode[at.Node]; b != nil {
			j.attempt.Baseline = b
		}
		j.ctx, j.cancel = context.WithCancel(ctx)
		p.lanes.Begin(j.ctx, place, j.attempt)
	}
}

// fits says that an attempt may be made at a place: where it names a node that is not lost,
// only there.
func (p *Places) fits(a Attempt, place int) bool {
	return a.On == "" || a.On == p.places[place].Node || !slices.ContainsFunc(p.left(), func(o Place) bool { return o.Node == a.On })
}

// left are the places that are not lost.
func (p *Places) left() []Place {
	var left []Place
	for i, at := range p.places {
		if !p.gone[i] {
			left = append(left, at)
		}
	}
	return left
}

// end waits for a trial. One whose place was lost begins anew, unless it was ended.
func (p *Places) end() {
	e := p.lanes.End()
	j := p.at[e.Place]
	p.at[e.Place] = nil
	ended := j.ctx.Err() != nil
	j.cancel()
	if e.Err != nil && !ended && p.lost(e.Err) && len(p.left()) > 1 {
		p.gone[e.Place] = true
		p.note(fmt.Sprintf("node %s is given up, and its trial is made on another one: %s", p.places[e.Place].Node, strings.ReplaceAll(e.Err.Error(), "\n", "; ")))
		if filer, ok := p.trierOf(j).(Filer); ok {
			filer.Discard(j.attempt.Ahead)
		}
		j.place = -1
		return
	}
	j.done, j.outcome, j.err = true, e.Outcome, e.Err
}

// stage leads what the trial at a place does to somebody, as long as it is the one that was
// asked for.
func (p *Places) stage(place int, to func(trial.Stage)) func(trial.Stage) {
	if to == nil {
		return nil
	}
	return func(s trial.Stage) {
		if int(p.shown.Load()) == place+1 {
			to(s)
		}
	}
}

// Train makes a class archive where the first trial was.
func (p *Places) Train(ctx context.Context, a Attempt, option string) (string, error) {
	return p.places[0].Trier.Train(ctx, a, option)
}

// Extract unpacks jars where the first trial was.
func (p *Places) Extract(ctx context.Context) (string, error) {
	return extract(ctx, p.places[0].Trier)
}

// places are those of the config's runner, the first of which the trier makes trials at;
// it alone where there is one.
func (c Config) places(t *trier) Trier {
	fleet, ok := c.Runner.(runner.Fleet)
	if !ok || len(fleet.Nodes()) < 2 {
		return t
	}
	triers, all := []*trier{t}, []Place{}
	for i, n := range fleet.Nodes() {
		if i > 0 {
			triers = append(triers, &trier{config: c})
		}
		triers[i].config.Runner = n.Runner
		all = append(all, Place{n.Name, triers[i]})
	}
	p := NewPlaces(all, nil, fleet.Lost, func(text string) {
		if c.Observe != nil {
			c.Observe(Event{Note: text})
		}
	})
	for i := range triers {
		triers[i].config.Stage = p.stage(i, c.Stage)
	}
	return p
}

// What a search says ahead.

// nodes are the places of the search's trials; none where they are made one at a time.
func (s *Search) nodes() []string {
	if p, ok := s.Trier.(Planner); ok && len(p.Nodes()) > 1 {
		return p.Nodes()
	}
	return nil
}

// ahead says which trials are about to be asked for, after those that were said before.
func (s *Search) ahead(ctx context.Context, attempts ...Attempt) {
	if len(s.nodes()) == 0 || s.spent() {
		return
	}
	var next []Attempt
	for _, a := range attempts {
		next = append(next, s.filled(a))
	}
	s.plan = append(s.plan, next...)
	s.Trier.(Planner).Ahead(ctx, next)
}

// forget drops what was said ahead of some phases.
func (s *Search) forget(phases ...Phase) {
	such := func(a Attempt) bool { return slices.Contains(phases, a.Phase) }
	if slices.ContainsFunc(s.plan, such) {
		s.plan = slices.DeleteFunc(s.plan, such)
		s.Trier.(Planner).Drop(such)
	}
}

// proofPhases are those of which a proof is made, and of the run below it.
var proofPhases = []Phase{PhaseLong, PhaseConfirm, PhaseHalf, PhaseBelow}

// planned is an attempt that was said ahead, of the phase and the setup of another one, and
// at a limit from low to high; else that one.
func (s *Search) planned(a Attempt, low, high int64) Attempt {
	for _, p := range s.plan {
		if p.Phase == a.Phase && p.Setup.Same(a.Setup) && p.LimitBytes >= low && p.LimitBytes <= high {
			a.LimitBytes = p.LimitBytes
			break
		}
	}
	return a
}

// asked takes an attempt from what was said ahead.
func (s *Search) asked(a Attempt) {
	if i := slices.IndexFunc(s.plan, a.alike); i >= 0 {
		s.plan = slices.Delete(s.plan, i, i+1)
	}
}

// alike tells whether two attempts, of whatever numbers, may have one outcome.
func (a Attempt) alike(o Attempt) bool {
	return a.Phase == o.Phase && a.Lever == o.Lever && a.LimitBytes == o.LimitBytes && a.Repeat == o.Repeat && a.On == o.On && a.Setup.Same(o.Setup)
}

package fit

import (
	"fmt"
	"slices"
	"time"
)

// Ending is the result of a fit as it is stored: its trials are named by
// number, for they are stored already. A number of 0 is no trial.
type Ending struct {
	// Judged is by the number of a trial: the stored ones are as they were made. It has only
	// those of which the search concluded something.
	Judged               map[int]Judged `json:",omitempty"`
	Baseline, AsGiven    int
	AsGivenFails         int64 `json:",omitempty"`
	LimitBytes           int64
	Setup                Setup
	ByVariable           bool `json:",omitempty"`
	Levers               []LeverResult
	Frontier             []FrontierPoint `json:",omitempty"`
	Confirmations        []int
	RaisedFrom           int64
	MarginBytes          int64 `json:",omitempty"`
	FailBelow            int
	Need                 *Need        `json:",omitempty"`
	CostDeviation        float64      `json:",omitempty"`
	CostFreedom          float64      `json:",omitempty"`
	AtLimit              RelativeCost `json:",omitzero"`
	ProofCost            RelativeCost `json:",omitzero"`
	Long, Half           int          `json:",omitempty"`
	Took                 time.Duration
	Archive, TrainOption string
	Warnings             []string
	// Failure says why there is no recommendation; empty when there is one.
	Failure string
}

// NewEnding is the ending of a result; failure is why there is no
// recommendation, or nil.
func NewEnding(r *Result, failure error) Ending {
	e := Ending{Judged: map[int]Judged{}, Baseline: r.Baseline.Number, AsGiven: r.AsGiven.Number, AsGivenFails: r.AsGivenFails, LimitBytes: r.LimitBytes, Setup: r.Setup, ByVariable: r.ByVariable, Levers: r.Levers, Frontier: r.Frontier,
		RaisedFrom: r.RaisedFrom, MarginBytes: r.MarginBytes, Need: r.Need, CostDeviation: r.CostDeviation, CostFreedom: r.CostFreedom, AtLimit: r.AtLimit, ProofCost: r.ProofCost, Took: r.Took, Archive: r.Archive, TrainOption: r.TrainOption, Warnings: r.Warnings}
	for _, t := range r.Trials {
		if t.Judged != (Judged{}) {
			e.Judged[t.Number] = t.Judged
		}
	}
	for _, t := range r.Confirmations {
		e.Confirmations = append(e.Confirmations, t.Number)
	}
	e.FailBelow, e.Long, e.Half = numberOf(r.FailBelow), numberOf(r.Long), numberOf(r.Half)
	if failure != nil {
		e.Failure = failure.Error()
	}
	return e
}

// numberOf is the number of a trial, 0 of none.
func numberOf(t *Trial) int {
	if t == nil {
		return 0
	}
	return t.Number
}

// Result is the result that the ending is of, with what reports look at.
func (e Ending) Result(p Plan, began time.Time, trials []Trial) (*Result, error) {
	c, err := p.Record()
	if err != nil {
		return nil, err
	}
	byNumber := map[int]Trial{0: {}}
	trials = slices.Clone(trials)
	for i := range trials {
		t := &trials[i]
		t.Judged = e.Judged[t.Number]
		byNumber[t.Number] = *t
	}
	var missing error
	find := func(number int) Trial {
		t, ok := byNumber[number]
		if !ok {
			missing = fmt.Errorf("stored fit: trial %d is missing", number)
		}
		return t
	}
	r := &Result{Time: began, Took: e.Took, Config: c, RunnerName: p.Runner, Machine: p.Machine, Archive: e.Archive, TrainOption: e.TrainOption, Warnings: e.Warnings,
		Found: Found{Baseline: find(e.Baseline), AsGiven: find(e.AsGiven), AsGivenFails: e.AsGivenFails, LimitBytes: e.LimitBytes, Setup: e.Setup, ByVariable: e.ByVariable, Levers: e.Levers, Frontier: e.Frontier, Trials: trials, RaisedFrom: e.RaisedFrom,
			MarginBytes: e.MarginBytes, Need: e.Need, CostDeviation: e.CostDeviation, CostFreedom: e.CostFreedom, AtLimit: e.AtLimit, ProofCost: e.ProofCost}}
	for _, n := range e.Confirmations {
		r.Confirmations = append(r.Confirmations, find(n))
	}
	for of, number := range map[**Trial]int{&r.FailBelow: e.FailBelow, &r.Long: e.Long, &r.Half: e.Half} {
		if number > 0 {
			t := find(number)
			*of = &t
		}
	}
	r.Peak, r.UnpaidBytes = peakOf(r.Confirmations), unpaid(r.Confirmations)
	return r, missing
}

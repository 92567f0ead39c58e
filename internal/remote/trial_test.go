package remote

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// An agent that nobody asks ends by itself, and not before one that asks has its answer.
func TestServeWhileAsked(t *testing.T) {
	s, err := NewServer(nil, "sixteen bytes or more")
	if err != nil {
		t.Fatal(err)
	}
	s.count(1)
	if s.Idle() != 0 {
		t.Error("idle while it answers")
	}
	s.count(-1)
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ServeWhileAsked(t.Context(), l, time.Millisecond); err != nil {
		t.Error(err)
	}
	if t.Context().Err() != nil {
		t.Error("it was ended")
	}
}

// A trial arrives as it was asked for, and what its objective missed comes back, an
// infinite miss too.
func TestTrialAsSent(t *testing.T) {
	slo, err := trial.ParseSLO("p99<200ms errors=0 throughput>=0.9x")
	if err != nil {
		t.Fatal(err)
	}
	ready, err := trial.ParseReady("log:Started")
	if err != nil {
		t.Fatal(err)
	}
	target, err := load.ParseTarget("POST http://127.0.0.1:8080/x")
	if err != nil {
		t.Fatal(err)
	}
	want := trial.Spec{Args: []string{"java"}, Env: []string{"A=b"}, Dir: "/x", Ready: ready, ReadyTimeout: 1, Patience: 2, Loader: load.HTTP{Plan: load.Plan{Targets: []load.Target{target}, Rate: 3}},
		Warmup: 4, Duration: 5, Work: trial.Work{Measured: 6}, SLO: slo, Baseline: &trial.Measured{Start: 7}, Idle: 8, Probe: true, JavaHome: "/jdk", Files: []string{"/a.jar"},
		StopGrace: 9, Weigh: true, NoHugePages: true, Squeeze: true}
	in, err := requestOf(want)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out trialRequest
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	got, err := out.spec()
	if err != nil || got.Ready.String() != want.Ready.String() {
		t.Fatal(got, err)
	}
	got.Ready, want.Ready = trial.Ready{}, trial.Ready{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, miss := range []float64{0.05, math.Inf(1)} {
		b := trial.Broken{Clause: slo[1], Text: "3 errors", Bar: 0, Miss: miss}
		text, err := json.Marshal(brokenOf(b))
		if err != nil {
			t.Fatal(err)
		}
		var back broken
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back.broken(), b) {
			t.Errorf("%s: %+v, %v", text, back.broken(), err)
		}
	}
	if _, err := requestOf(trial.Spec{Loader: &load.Command{}}); err == nil {
		t.Error("a load command goes to the agent")
	}
}

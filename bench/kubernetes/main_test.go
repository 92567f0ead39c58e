package main

import (
	"encoding/json"
	"strings"
	"testing"

	"tare.dev/tare/internal/autopsy"
)

func TestCells(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cells() {
		if names[c.name] {
			t.Errorf("%s: twice", c.name)
		}
		names[c.name] = true
		if !json.Valid([]byte(c.spec)) || !strings.Contains(c.spec, `"name":"shop"`) {
			t.Errorf("%s: %s", c.name, c.spec)
		}
	}
	if len(names) != 24 {
		t.Errorf("%d ends", len(names))
	}
}

// The page says what is wrong, what is missing and what was lost.
func TestPage(t *testing.T) {
	o := options{fits: 2, pods: 100, interruptions: 20}
	first := cells()[0]
	records := []record{
		{Kill: &kill{Cell: first.name, Verdict: autopsy.PodNode}},
		{Fit: &fitRun{fitCell: fitCells[0], Runner: "cgroup", LimitBytes: 100 << 20, Trials: 10, Seconds: 50, InTrials: 40}},
		{Fit: &fitRun{fitCell: fitCells[0], Runner: "kubernetes", LimitBytes: 110 << 20, Trials: 10, Seconds: 90, InTrials: 40}},
		{Interruption: &interruption{LimitBytes: 60 << 20}},
		{Interruption: &interruption{Number: 1, Kind: "tare", Stopped: true, Ended: 2, Stored: 1, LimitBytes: 60 << 20}},
		{Left: &left{Number: 1, Seconds: 480}},
		{Pods: &podsRun{Pods: 10, Delays: []float64{3, 4, 5, 6, 7, 8, 9, 10, 25}, Containers: []float64{4, 30}, AllSeconds: 2, LifeSeconds: 100, PeakBytes: 70 << 20}},
	}
	got := page(records, o)
	for _, want := range []string{
		"node (**wrong**: container-limit)", "1 of 24, **partial**",
		"+10.0 % in the cluster, goal 5 %: not reached", "beyond the local one 4.0 s, goal 5 s: reached", "1 of 2, **partial**",
		"1 of 20, **partial**", "nothing left: not reached", "finished trials lost, 1: not reached", "1 of 1: reached",
		"10 of 100, **partial**", "8 of 10: not reached", "container, too, 1;", "budget 1.6 s (1 % and 0.6 s at the start): not reached", "70.0 MiB, budget 64: not reached",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}

package fit

import (
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// With processors to spare, a lever must not have threads wait for each other, nor make
// answers late by its pauses. A slow trial is no reason by itself.
func TestAnswersLate(t *testing.T) {
	arenas := Lever{ID: "arenas", Env: []string{"MALLOC_ARENA_MAX=1"}, Waits: true, Harms: []Harm{HarmLatency}}
	c1 := Lever{ID: "c1", Options: []string{"-XX:TieredStopAtLevel=1"}, Harms: []Harm{HarmSpeed}}
	serial := Lever{ID: "collector", Options: []string{"-XX:+UseSerialGC"}, Harms: []Harm{HarmLatency}}
	const second = time.Second
	// ran is ten seconds of load: what the application used, what share of the processors
	// others took, one answer in a hundred, and a hundred pauses of so long.
	ran := func(used time.Duration, others float64, p99, pause time.Duration) *trial.Result {
		share := 100 * pause.Seconds() / 10
		return &trial.Result{Load: &load.Result{OK: int64(1000 * used.Seconds() / 36), Elapsed: 10 * second, Latency: load.Latency{P99: load.TimeOf(p99)}},
			LoadCPUTime: used, Others: others, GCShare: &share, Collections: 100}
	}
	const ms = time.Millisecond
	cheaper := ran(28*second, 0, 50*ms, 5*ms)
	cheaper.Load.OK = 1050
	base := Trial{Outcome: Outcome{Result: ran(36*second, 0, 50*ms, 5*ms)}}
	for _, c := range []struct {
		name       string
		lever      Lever
		result     *trial.Result
		processors int
		open       bool
		want       string
	}{
		{"arenas", arenas, ran(28*second, 0, 50*ms, 5*ms), 4, false, "threads waited"},
		{"arenas, as busy", arenas, ran(35*second, 0, 50*ms, 5*ms), 4, false, ""},
		{"arenas, others had a quarter", arenas, ran(28*second, 0.25, 50*ms, 5*ms), 4, false, ""},
		{"arenas, cheaper as well, of a service that waits for another", arenas, cheaper, 4, false, ""},
		{"arenas on one processor", arenas, ran(28*second, 0, 50*ms, 5*ms), 1, false, ""},
		{"arenas at a rate", arenas, ran(28*second, 0, 50*ms, 5*ms), 4, true, ""},
		{"a collector with longer pauses", serial, ran(36*second, 0, 120*ms, 60*ms), 4, false, "pauses made answers late"},
		{"a collector, late for another reason", serial, ran(36*second, 0, 120*ms, 6*ms), 4, false, ""},
		{"a collector with longer pauses that nobody waits for", serial, ran(36*second, 0, 54*ms, 20*ms), 4, false, ""},
		{"a compiler", c1, ran(28*second, 0, 120*ms, 60*ms), 4, false, ""},
		{"nothing was measured", arenas, nil, 4, false, ""},
	} {
		tr := Trial{Attempt{Setup: Setup{Options: c.lever.Options, Env: c.lever.Env}}, Outcome{Result: c.result}}
		s := &Search{Levers: []Lever{arenas, c1, serial}, Facts: Facts{Processors: c.processors}, Spare: 0.1, OpenLoop: c.open, bar: &base}
		got := s.answersLate(tr)
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

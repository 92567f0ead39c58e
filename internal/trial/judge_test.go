package trial

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/runner"
)

const speedSLO = "errors=0 throughput>=0.9x"

func TestJudge(t *testing.T) {
	slo, err := ParseSLO(speedSLO)
	if err != nil {
		t.Fatal(err)
	}
	base := &Measured{Load: loadResult(1000, 0, 0)}
	// good is a trial that passed; each case spoils it.
	good := func() Evidence {
		gc := 100 * time.Millisecond
		return Evidence{LimitBytes: 100 << 20, Ready: true, ReadyAfter: time.Second, ReadyTimeout: time.Minute,
			Window: 10 * time.Second, GCTime: &gc, Load: loadResult(1000, 0, 0)}
	}
	loaded := func(e *Evidence, ok, failed int64) {
		e.Load = loadResult(ok, failed, 0)
		e.Broken = slo.Check(Measured{Load: e.Load}, base)
	}
	gc := func(e *Evidence, d time.Duration) { e.GCTime = &d }
	stall := func(e *Evidence, d time.Duration) { e.Stalled = &d }
	oom := "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space"
	killed := runner.Exit{Code: -1, Signal: syscall.SIGKILL}

	tests := []struct {
		name   string
		spoil  func(*Evidence)
		want   Verdict
		words  string
		narrow bool
	}{
		{"good", func(e *Evidence) {}, Passed, "", false},
		{"kernel kill", func(e *Evidence) { e.OOMKills, e.LimitHits, e.Ended, e.Exit = 2, 1, true, killed }, OOMKilled, "limit of 100 MiB was reached", false},
		{"kernel kill over Java's error", func(e *Evidence) {
			e.OOMKills, e.LimitHits, e.Ended, e.Exit, e.Log.OutOfMemory = 1, 1, true, killed, oom
		}, OOMKilled, oom, false},
		{"kernel kill of a child", func(e *Evidence) { e.OOMKills, e.LimitHits = 1, 1 }, OOMKilled, "killed in the group", false},
		{"kernel kill for a group above", func(e *Evidence) { e.OOMKills, e.Ended, e.Exit = 1, true, killed }, OOMKilled, "but not for its limit of 100 MiB", true},
		{"kill from outside", func(e *Evidence) { e.Ended, e.Exit = true, killed }, Crashed, "killed by SIGKILL", false},
		{"heap exhausted and ended", func(e *Evidence) { e.Ended, e.Exit, e.Log.OutOfMemory = true, runner.Exit{Code: 3}, oom }, OutOfMemory, "exit code 3", false},
		{"heap exhausted and lives on", func(e *Evidence) { loaded(e, 900, 100); e.Log.OutOfMemory = oom }, OutOfMemory, "100 × HTTP 503", false},
		{"overhead limit is Java's judgement", func(e *Evidence) {
			loaded(e, 100, 5)
			gc(e, 9*time.Second)
			e.Log.OutOfMemory = "java.lang.OutOfMemoryError: GC overhead limit exceeded"
		}, OutOfMemory, "overhead limit", false},
		{"error in the log, objective met", func(e *Evidence) { e.Log.OutOfMemory = oom }, Passed, oom, false},
		{"thrashing", func(e *Evidence) { loaded(e, 100, 0); gc(e, 7*time.Second) }, Thrashing, "garbage collection took 70 %", false},
		{"thrashing with errors", func(e *Evidence) { loaded(e, 100, 10); gc(e, 7*time.Second) }, Thrashing, "10 × HTTP 503", false},
		{"thrashing before ready", func(e *Evidence) { e.Ready = false; gc(e, 8*time.Second) }, Thrashing, "not ready after 1m0s", false},
		{"a concurrent collector takes the processor", func(e *Evidence) {
			loaded(e, 100, 0)
			e.Times = &runner.Times{JVM: true, Group: 10 * time.Second, Collector: 6 * time.Second}
		}, Thrashing, "the collector's threads used 60 % of the processor time of collector and application", false},
		{"threads wait for a concurrent collector", func(e *Evidence) {
			loaded(e, 100, 0)
			d := 7 * time.Second
			e.Awaiting = &d
		}, Thrashing, "threads waited for the collector to free some heap for 70 % of the time", false},
		{"at half a processor", func(e *Evidence) {
			loaded(e, 100, 0)
			e.CPUs, e.Times = 0.5, &runner.Times{JVM: true, Group: 5 * time.Second, Collector: 3 * time.Second}
		}, Thrashing, "used 60 %", false},
		{"others leave a fifth of the machine", func(e *Evidence) {
			loaded(e, 100, 0)
			e.Others, e.Times = 0.8, &runner.Times{JVM: true, Group: 3 * time.Second, Collector: 1600 * time.Millisecond}
		}, Thrashing, "used 53 %", false},
		{"a collector is the most of nearly nothing", func(e *Evidence) {
			loaded(e, 100, 0)
			e.Times = &runner.Times{JVM: true, Group: 500 * time.Millisecond, Collector: 400 * time.Millisecond}
		}, TooSlow, "used 80 %", false},
		{"no performance data, but clocks of threads", func(e *Evidence) {
			loaded(e, 100, 0)
			e.GCTime, e.Times = nil, &runner.Times{JVM: true, Group: 10 * time.Second, Collector: time.Second}
		}, TooSlow, "used 10 %", false},
		{"much GC, objective met", func(e *Evidence) { gc(e, 7*time.Second) }, Passed, "", false},
		{"stalled", func(e *Evidence) { loaded(e, 500, 0); stall(e, 4*time.Second) }, Stalled, "waiting for memory took 40 %", false},
		{"stalled more than thrashing", func(e *Evidence) { loaded(e, 500, 0); gc(e, 6*time.Second); stall(e, 9*time.Second) }, Stalled, "", false},
		{"collections wait for pages", func(e *Evidence) { loaded(e, 500, 0); gc(e, 6*time.Second); e.RefaultBytes = 200 << 20 }, Stalled, "", false},
		{"thrashing, a little stalled", func(e *Evidence) { loaded(e, 500, 0); gc(e, 8*time.Second); stall(e, 3*time.Second) }, Thrashing, "", false},
		{"stalled without pressure", func(e *Evidence) { loaded(e, 500, 0); e.RefaultBytes = 200 << 20 }, Stalled, "200 MiB of file pages", false},
		{"refaults beside known small pressure", func(e *Evidence) { loaded(e, 500, 0); stall(e, 0); e.RefaultBytes = 200 << 20 }, TooSlow, "", false},
		{"too slow", func(e *Evidence) { loaded(e, 500, 0) }, TooSlow, "throughput is 50.0/s", false},
		{"a little too slow", func(e *Evidence) { loaded(e, 850, 0) }, TooSlow, "", true},
		{"a little too slow, GC at work", func(e *Evidence) { loaded(e, 850, 0); gc(e, 2*time.Second) }, TooSlow, "", false},
		{"a little too slow, reclaim at work", func(e *Evidence) { loaded(e, 850, 0); e.RefaultBytes = 30 << 20 }, TooSlow, "", false},
		{"too slow beside others", func(e *Evidence) { loaded(e, 600, 0); e.Others = 0.3 }, TooSlow, "other processes took 30 %", true},
		{"no performance data", func(e *Evidence) { loaded(e, 500, 0); e.GCTime = nil }, TooSlow, "collection is unknown", false},
		{"errors", func(e *Evidence) { loaded(e, 500, 3) }, Errors, "3 × HTTP 503", false},
		{"never ready", func(e *Evidence) { e.Ready = false }, NeverReady, "not ready after 1m0s", false},
		{"orderly end before ready", func(e *Evidence) { e.Ready, e.Ended = false, true }, NeverReady, "before it was ready: exit code 0", false},
		{"orderly end under load", func(e *Evidence) { e.Ended = true }, Crashed, "exit code 0", false},
		{"failed to start", func(e *Evidence) {
			e.Ready, e.Ended, e.Exit, e.Log.Fatal = false, true, runner.Exit{Code: 1}, "Error occurred during initialization of VM"
		}, Crashed, "initialization of VM", false},
		{"segmentation fault", func(e *Evidence) { e.Ended, e.Exit = true, runner.Exit{Code: -1, Signal: syscall.SIGABRT} }, Crashed, "SIGABRT", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := good()
			tt.spoil(&e)
			v, words := Judge(e)
			if v != tt.want {
				t.Errorf("%s, want %s: %q", v, tt.want, words)
			}
			if !strings.Contains(strings.Join(words, "\n"), tt.words) {
				t.Errorf("evidence %q lacks %q", words, tt.words)
			}
			if e.NarrowMiss() != tt.narrow {
				t.Errorf("narrow miss: %v", !tt.narrow)
			}
		})
	}
}

// A failed trial must always say why.
func FuzzJudge(f *testing.F) {
	f.Add(int64(0), true, false, 0, int64(5), int64(1), int64(2), int64(900), int64(1))
	f.Fuzz(func(t *testing.T, kills int64, ready, ended bool, code int, gc, stall, refault, ok, failed int64) {
		slo, _ := ParseSLO(speedSLO)
		g, s := time.Duration(gc), time.Duration(stall)
		e := Evidence{LimitBytes: 1 << 20, OOMKills: kills, Ready: ready, Ended: ended, Exit: runner.Exit{Code: code}, ReadyTimeout: time.Minute,
			Window: time.Second, GCTime: &g, Stalled: &s, RefaultBytes: refault, Load: loadResult(ok, failed, 0)}
		if ready && !ended {
			e.Broken = slo.Check(Measured{Load: e.Load}, &Measured{Load: loadResult(1000, 0, 0)})
		}
		v, words := Judge(e)
		if v != Passed && len(words) == 0 {
			t.Errorf("%s without evidence", v)
		}
		if v == Passed && (kills > 0 || !ready || ended || len(e.Broken) > 0) {
			t.Errorf("passed with %+v", e)
		}
	})
}

// Pressure of a fast disk stays below the share that explains a broken objective, however
// often all is read again; without pressure, reading again says nothing.
func TestReadAgainUnderPressure(t *testing.T) {
	for stalled, want := range map[time.Duration]Verdict{time.Second: Stalled, 300 * time.Millisecond: Stalled, 50 * time.Millisecond: TooSlow} {
		e := Evidence{LimitBytes: 192 << 20, Ready: true, Window: 5 * time.Second, Stalled: &stalled, RefaultBytes: 4 << 30, Broken: []Broken{{Clause: Clause{Metric: P50}}}}
		if got, _ := Judge(e); got != want {
			t.Errorf("pressure for %s of 5: %s, want %s", stalled, got, want)
		}
	}
}

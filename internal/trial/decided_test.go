package trial

import (
	"context"
	"errors"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
)

// A load ends when nothing can change its verdict: at most 30 s of load of which a fifth goes
// by waiting for memory are 6 s of waiting.
func TestDecides(t *testing.T) {
	slo, err := ParseSLO("errors=0 cost<=1.1x")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{spec: Spec{SLO: slo, Duration: 30 * time.Second}}
	took := func(d time.Duration) *time.Duration { return &d }
	for _, c := range []struct {
		name string
		w    window
		want bool
	}{
		{"nothing is known", window{}, false},
		{"waited for 5 s", window{length: 6 * time.Second, stalled: took(5 * time.Second)}, false},
		{"waited for 6 s", window{length: 20 * time.Second, stalled: took(6 * time.Second)}, true},
		{"collected for 14 s", window{length: 15 * time.Second, gcTime: took(14 * time.Second)}, false},
		{"collected for 15 s", window{length: 16 * time.Second, gcTime: took(15 * time.Second)}, true},
	} {
		if got := r.decides(c.w); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// endless is a load that ends with its context.
type endless struct{ load.Loader }

func (endless) Load(context.Context, time.Duration) (load.Result, error) { return load.Result{}, nil }

func (endless) LoadRequests(ctx context.Context, _ int64, _ time.Duration) (load.Result, error) {
	<-ctx.Done()
	return load.Result{Sent: 7, OK: 7, Elapsed: time.Second}, context.Cause(ctx)
}

// waiting is a process that waits for memory, and of which nothing else is known.
type waiting struct {
	runner.Process
	stalled time.Duration
}

func (p waiting) Usage(context.Context) (runner.Usage, error) {
	return runner.Usage{Age: 2 * p.stalled, Stalled: &p.stalled}, nil
}

func (waiting) Times(context.Context) (runner.Times, error) {
	return runner.Times{}, errors.ErrUnsupported
}

func (waiting) Counters(context.Context) (runner.Counters, error) {
	return runner.Counters{}, runner.ErrNoCounters
}

func (waiting) Done() <-chan struct{} { return nil }

// silent is a machine that tells nothing.
type silent struct{ runner.Host }

func (silent) Busy(context.Context) (runner.Busy, error) { return runner.Busy{}, errors.ErrUnsupported }

func (silent) Pace(context.Context) (time.Duration, error) { return 0, errors.ErrUnsupported }

// A load that was ended is judged by what came back; one whose trial is cut off is not.
func TestCutOff(t *testing.T) {
	stalled := 7 * time.Second
	proc := waiting{stalled: stalled}
	slo, err := ParseSLO("errors=0 cost<=1.1x")
	if err != nil {
		t.Fatal(err)
	}
	start := func(ctx context.Context) (*run, load.Result, error) {
		r := &run{spec: Spec{SLO: slo, Duration: 30 * time.Second, Work: Work{Measured: 1000}, Baseline: &Measured{}, Loader: endless{}}}
		r.sampler = startSampler(t.Context(), silent{}, proc, false)
		defer r.sampler.stop()
		l, err := r.putMeasured(ctx)
		return r, l, err
	}
	r, l, err := start(t.Context())
	if err != nil || !r.decided || l.OK != 7 {
		t.Fatalf("%+v, %v, decided %v", l, err, r.decided)
	}
	if got := r.cutOff(nil); len(got) != 1 || got[0].Miss != 1 {
		t.Errorf("%v", got)
	}
	if got := r.cutOff([]Broken{{}}); got != nil {
		t.Errorf("beside a clause that tells: %v", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if r, _, err := start(ended); !errors.Is(err, context.Canceled) || r.decided {
		t.Errorf("%v, decided %v", err, r.decided)
	}
}

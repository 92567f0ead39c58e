package load

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// requestsPlan ends by its requests, long before its time does.
func requestsPlan(requests int64, url string) Plan {
	return Plan{Targets: []Target{get(url)}, Concurrency: 4, Requests: requests, Duration: time.Hour, Timeout: time.Minute}
}

func TestRequestsEndLoad(t *testing.T) {
	var status, seen atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		seen.Add(1)
		w.WriteHeader(int(status.Load()))
	})
	for name, c := range map[string]struct {
		requests    int64
		concurrency int
		rate        float64
		status      int64
		blocks      int
	}{
		"closed":                {1000, 4, 0, 200, 10},
		"not by ten":            {1003, 4, 0, 200, 10},
		"fewer than workers":    {3, 16, 0, 200, 3},
		"one":                   {1, 8, 0, 200, 1},
		"server fails":          {200, 4, 0, 503, 10},
		"open":                  {200, 4, 2000, 200, 10},
		"open, few, many hands": {5, 16, 1000, 200, 5},
	} {
		t.Run(name, func(t *testing.T) {
			status.Store(c.status)
			seen.Store(0)
			p := requestsPlan(c.requests, url)
			p.Concurrency, p.Rate = c.concurrency, c.rate
			r := mustRun(t, p)
			checkSums(t, r)
			if r.Sent != c.requests || r.Due != c.requests || seen.Load() != c.requests {
				t.Errorf("sent %d, due %d, seen %d of %d", r.Sent, r.Due, seen.Load(), c.requests)
			}
			if failed := c.status != 200; failed != (r.Failed == c.requests) || failed == (r.OK == c.requests) {
				t.Errorf("%d OK, %d failed", r.OK, r.Failed)
			}
			if r.Elapsed >= p.Duration {
				t.Errorf("the load took all of its time: %v", r.Elapsed)
			}
			checkBlocks(t, r, c.requests, c.blocks)
			if last := r.Blocks[len(r.Blocks)-1]; last.Answered != c.requests || last.At != r.Elapsed {
				t.Errorf("the last block is %v of %d in %v", last, c.requests, r.Elapsed)
			}
		})
	}
}

// checkBlocks checks that there are n, each the first at or beyond its tenth.
func checkBlocks(t *testing.T, r Result, requests int64, n int) {
	t.Helper()
	if len(r.Blocks) != n {
		t.Fatalf("%d blocks, not %d: %v", len(r.Blocks), n, r.Blocks)
	}
	var before Block
	for i, b := range r.Blocks {
		if b.Answered <= before.Answered || b.At < before.At || n == blocks && b.Answered != (int64(i+1)*requests+blocks-1)/blocks {
			t.Errorf("block %d is %v after %v", i, b, before)
		}
		before = b
	}
}

func TestDurationEndsLoadOfRequests(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	for _, rate := range []float64{0, 1000} {
		p := requestsPlan(MaxRequests, url)
		p.Rate, p.Duration = rate, 30*time.Millisecond
		r := mustRun(t, p)
		checkSums(t, r)
		if r.Sent >= p.Requests || r.Elapsed < p.Duration || len(r.Blocks) != 0 {
			t.Errorf("rate %g: %d sent in %v, blocks %v", rate, r.Sent, r.Elapsed, r.Blocks)
		}
	}
}

func TestCancelEndsLoadOfRequests(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		if seen.Add(1) == 100 {
			cancel()
		}
	})
	r, err := Run(ctx, requestsPlan(MaxRequests, url))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	checkSums(t, r)
	if r.Sent < 99 || r.Sent >= MaxRequests {
		t.Errorf("%d sent", r.Sent)
	}
}

func TestUnboundedLoadHasNoBlocks(t *testing.T) {
	r := mustRun(t, shortPlan(get(serve(t, func(http.ResponseWriter, *http.Request) {}))))
	if r.Blocks != nil {
		t.Errorf("blocks: %v", r.Blocks)
	}
}

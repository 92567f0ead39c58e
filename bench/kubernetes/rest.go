package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/store"
)

// rests are what killed tares left, and who waits for its end.
type rests struct {
	waiting sync.WaitGroup
	mu      sync.Mutex
	jobs    []string
	failed  error
}

// jobs are the names of the trials' jobs, and of those that pods of trials are of.
func (b *bench) jobs(ctx context.Context) ([]string, error) {
	text, err := b.Run(ctx, "", "get", "jobs,pods", "-l", "dev.tare/role=trial", "-o", "json")
	if err != nil {
		return nil, err
	}
	var all kubeapi.List[kubeapi.Pod] // of a job its name alone is read
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, err
	}
	var names []string
	for _, o := range all.Items {
		names = append(names, cmp.Or(o.Metadata.Labels["batch.kubernetes.io/job-name"], o.Metadata.Name))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// watchRest waits, while others go on, until the rest of a tare that was killed now is
// gone, and keeps how long that took.
func (b *bench) watchRest(ctx context.Context, number int) error {
	killed := time.Now()
	all, err := b.jobs(ctx)
	if err != nil {
		return err
	}
	b.rests.mu.Lock()
	mine := slices.DeleteFunc(all, func(name string) bool { return slices.Contains(b.rests.jobs, name) })
	b.rests.jobs = append(b.rests.jobs, mine...)
	b.rests.mu.Unlock()
	b.rests.waiting.Go(func() {
		err := until(ctx, gone, fmt.Sprintf("the end of what interruption %d left", number), func() (bool, error) {
			there, err := b.jobs(ctx)
			return !slices.ContainsFunc(mine, func(name string) bool { return slices.Contains(there, name) }), err
		})
		l := &left{Number: number, Jobs: len(mine), Seconds: time.Since(killed).Seconds(), Gone: err == nil}
		if ctx.Err() == nil {
			err = b.keep(record{Left: l})
		}
		b.rests.mu.Lock()
		defer b.rests.mu.Unlock()
		b.rests.failed = err
	})
	return nil
}

// behind is what a fit that came to its end has left: nothing but what killed tares did.
func (b *bench) behind(ctx context.Context) ([]string, error) {
	var there []string
	err := until(ctx, 30*time.Second, "the end of its trials", func() (bool, error) {
		all, err := b.jobs(ctx)
		b.rests.mu.Lock()
		defer b.rests.mu.Unlock()
		there = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(b.rests.jobs, name) })
		return len(there) == 0, err
	})
	if len(there) > 0 {
		err = nil // it is told
	}
	return there, err
}

// sweep waits for the rests, and has the next fit remove the secrets of tares that were
// killed: it is told that they are older than they are.
func (b *bench) sweep(ctx context.Context) error {
	b.rests.waiting.Wait()
	if b.rests.failed != nil || len(b.rests.jobs) == 0 {
		return b.rests.failed
	}
	const owners = "dev.tare/role=owner"
	if _, err := b.Run(ctx, "", "annotate", "secrets", "--overwrite", "-l", owners, "dev.tare/seen=2026-01-01T00:00:00Z"); err != nil {
		return err
	}
	if err := b.interrupt(ctx, &interruption{}); err != nil {
		return err
	}
	text, err := b.Run(ctx, "", "get", "jobs,pods,secrets", "-o", "name")
	if err != nil {
		return err
	}
	return b.keep(record{Swept: &swept{Left: strings.Fields(text)}})
}

// stored is how many trials a store has of its only fit, 0 without a fit.
func stored(ctx context.Context, file string) (int, error) {
	s, err := store.Open(ctx, file)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	fits, err := s.Fits(ctx)
	if err != nil || len(fits) > 1 {
		return 0, fmt.Errorf("%d fits in one store: %w", len(fits), err)
	}
	if len(fits) == 0 {
		return 0, nil
	}
	return fits[0].Trials, nil
}

func (b *bench) trialPods(ctx context.Context) ([]kubeapi.Pod, error) {
	text, err := b.Run(ctx, "", "get", "pods", "-l", "dev.tare/role=trial", "-o", "json")
	if err != nil {
		return nil, err
	}
	var all kubeapi.List[kubeapi.Pod]
	err = json.Unmarshal([]byte(text), &all)
	return all.Items, err
}

package trial

import (
	"context"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
)

// timed is a loader that knows times alone.
type timed struct{ load.Loader }

func (timed) Describe() load.Description { return load.Description{} }

// Work that is not done in time breaks the objective, and one that is done does not.
func TestUnfinishedWork(t *testing.T) {
	r := &run{spec: Spec{Work: Work{Measured: 10, Due: true}, Duration: time.Minute}}
	if got := r.unfinished(); got != nil {
		t.Errorf("without a load: %v", got)
	}
	r.load = &load.Result{Sent: 7}
	if got := r.unfinished(); len(got) != 1 || got[0].Text != "7 of 10 requests within 1m0s" {
		t.Errorf("7 of 10: %v", got)
	}
	v, words := Judge(Evidence{Ready: true, Broken: r.unfinished()})
	if v != TooSlow || !strings.Contains(strings.Join(words, "\n"), "7 of 10") {
		t.Errorf("%s, %q", v, words)
	}
	r.spec.Work.Due = false
	if got := r.unfinished(); got != nil {
		t.Errorf("7 of 10, and nobody asked for all of them: %v", got)
	}
	r.spec.Work.Due, r.load.Sent = true, 10
	if got := r.unfinished(); got != nil {
		t.Errorf("all of it: %v", got)
	}
}

func TestRequestsNeedALoaderThatCounts(t *testing.T) {
	r := &run{spec: Spec{Loader: timed{}}}
	if _, err := r.putLoad(context.Background(), 10, time.Minute); err == nil || !strings.Contains(err.Error(), "give a time instead") {
		t.Errorf("%v", err)
	}
}

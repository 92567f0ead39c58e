// Package fit finds the smallest memory limit that an application gets by on,
// with its options as given and with built-in ones, and proves it by fresh
// runs.
package fit

import (
	"context"
	"fmt"
	"time"
)

// Run fits. On an error the result holds what was found until then.
func Run(ctx context.Context, c Config) (*Result, error) {
	t := &trier{config: c}
	made := c.places(t)
	s := c.Search(made)
	begin := time.Now()
	res := &Result{Time: begin, Config: c.record(), Machine: c.Machine}
	var rec Recorder
	if c.Journal != nil {
		rec = *NewRecorder(made, c)
		s.Trier = &rec
		res.Time, res.Took = c.Journal.Began(), tookOf(rec.past)
	}
	if c.Runner != nil {
		res.RunnerName = c.Runner.Name()
	}
	found, err := s.Run(ctx)
	if p, ok := made.(Planner); ok {
		p.Drop(func(Attempt) bool { return true })
	}
	res.Found, res.Took = *found, res.Took+time.Since(begin)
	res.Peak, res.UnpaidBytes = peakOf(found.Confirmations), unpaid(found.Confirmations)
	if c.Journal == nil || Ended(err) { // else it goes on later, with its archives
		t.archives = append(rec.archives, t.archives...)
		res.Archive, res.TrainOption = t.keepArchives(ctx, found.Setup, err == nil)
	}
	res.Warnings = append(warnings(found), heapWarning(res)...)
	if kib := c.ReadAheadBytes >> 10; kib >= largeReadAhead {
		res.Warnings = append(res.Warnings, fmt.Sprintf("the disk of the JDK reads ahead %d KiB at a time, where 128 is usual: near the limit reclaim costs more "+
			"here than elsewhere, and class archives save less; fit on a disk like that of production, or blockdev --setra 256 this one", kib))
	}
	if c.Machine.PagesOutIdle {
		res.Warnings = append(res.Warnings, "this machine's kernel pages out what was not used for a while, however much memory is free (DAMON): "+
			"in long trials less page cache is counted than elsewhere")
	}
	return res, err
}

// Package collect hands the ledger of a machine on to a history, here or over HTTP.
// The ledger itself is what waits on disk while the history is away: the history
// says up to where it has it, and the sender goes on from there.
package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
)

// Sink takes batches. A batch that it has taken already, or a part of it, it takes
// again without an effect.
type Sink interface {
	// Position is the number of the last record of a ledger that is kept.
	Position(ctx context.Context, ledger string) (uint64, error)
	// Take keeps a batch, all of it or nothing. Errors: history.GapError.
	Take(ctx context.Context, b *history.Batch) (history.Taken, error)
}

// Sender hands a ledger on as it grows.
type Sender struct {
	Writer *ledger.Writer
	Sink   Sink
	// Every lies between two looks at the ledger. Retry is how long the sender waits
	// after a first failure, a second when it is 0; it doubles up to a minute.
	Every, Retry time.Duration
	// Version and Boot are the agent's, and the kernel's id of this boot.
	Version, Boot string
	// Now is the wall time and the time since boot.
	Now func() (time.Time, time.Duration)
	// Say is called with what a user should know, once for each trouble.
	Say func(error)

	troubled, refused bool
}

const (
	// batchRecords is how many records go at once.
	batchRecords = 1000
	// A sink that fails is tried again after the usual wait, which doubles.
	usualRetry, longestWait = time.Second, time.Minute
)

// errAgain says that the sink wants records from another number on.
var errAgain = errors.New("go on from another record")

// Run hands on until the context ends, which is no error, and then once more what is
// there, for a moment.
func (s *Sender) Run(ctx context.Context) {
	for ctx.Err() == nil {
		var position uint64
		if !s.insist(ctx, func() (err error) {
			position, err = s.Sink.Position(ctx, s.Writer.LedgerID())
			return err
		}) {
			return
		}
		s.follow(ctx, s.Writer.Follow(position))
	}
}

// farewell is how long the last records may take at the end.
const farewell = 3 * time.Second

// follow hands on from where f is, until the context ends or the sink wants
// something else.
func (s *Sender) follow(ctx context.Context, f *ledger.Follower) {
	ticker := time.NewTicker(s.Every)
	defer ticker.Stop()
	for {
		if err := s.pass(ctx, f); errors.Is(err, errAgain) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			if !s.troubled {
				_ = s.pass(last, f) // what is not sent now is sent at the next start
			}
			return
		}
	}
}

// pass hands on what is there.
func (s *Sender) pass(ctx context.Context, f *ledger.Follower) error {
	b := &history.Batch{Ledger: f.LedgerID(), After: f.After(), Version: s.Version, Boot: s.Boot}
	var failed error
	send := func() bool {
		if failed = s.send(ctx, b); failed != nil {
			return false
		}
		b.After, b.Records = b.Records[len(b.Records)-1].Seq, b.Records[:0]
		return true
	}
	_, err := f.Next(func(r ledger.Record) bool {
		b.Records = append(b.Records, r)
		return len(b.Records) < batchRecords || send()
	})
	if err != nil {
		s.say(err)
	}
	if failed == nil && len(b.Records) > 0 {
		send()
	}
	if failed != nil {
		// Some records that the follower has left behind were not taken.
		return errAgain
	}
	return nil
}

// send has the sink take a batch, however long that takes. The error is errAgain,
// or that the context has ended.
func (s *Sender) send(ctx context.Context, b *history.Batch) error {
	again := false
	if !s.insist(ctx, func() error {
		b.Sent, b.Uptime = s.Now()
		taken, err := s.Sink.Take(ctx, b)
		var gap *history.GapError
		if again = errors.As(err, &gap); again {
			return nil
		}
		if err == nil && taken.Refused > 0 && !s.refused {
			s.refused = true
			s.say(fmt.Errorf("the hub refused %d records: %s", taken.Refused, taken.Why))
		}
		return err
	}) {
		return ctx.Err()
	}
	if again {
		return errAgain
	}
	return nil
}

// insist calls f until it succeeds; false when the context ended before.
func (s *Sender) insist(ctx context.Context, f func() error) bool {
	for wait := cmp.Or(s.Retry, usualRetry); ; wait = min(2*wait, longestWait) {
		err := f()
		if err == nil {
			if s.troubled {
				s.troubled = false
				s.say(errors.New("the hub takes records again"))
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if !s.troubled {
			s.troubled = true
			s.say(fmt.Errorf("%w\nthe ledger keeps what is to be sent; it is tried again", err))
		}
		var busy *BusyError
		pause := wait/2 + rand.N(wait) // so that not all agents come at once
		if errors.As(err, &busy) && busy.After > 0 {
			pause = min(busy.After, longestWait) + rand.N(usualRetry)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

func (s *Sender) say(err error) {
	if s.Say != nil {
		s.Say(err)
	}
}

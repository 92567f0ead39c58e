package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/watch"
)

type watchOptions struct {
	interval time.Duration
	count    int
	record   string
	ledger   string
	from     container
}

// minInterval keeps a watch from becoming a load of its own.
const minInterval = 100 * time.Millisecond

func newWatchCommand() *cobra.Command {
	var opts watchOptions
	cmd := &cobra.Command{
		Use:               "watch PID|main-class|jar-name",
		ValidArgsFunction: completeJVM,
		Short:             "The footprint of a running JVM as it changes",
		Long: `Watch weighs a running JVM again and again: a live view on a terminal, else one
line for each weighing. As with weigh, nothing is sent to the JVM.

Keys: q quits, p pauses the picture (a record goes on). The watch ends with the
JVM, and leaves the last picture; the exit code is then 0.

With --record each footprint is appended to a file as one line of JSON, which
tare diff reads. What was recorded stays readable when tare is killed.

With --ledger it tells what tare agent weighed, also of a JVM that is gone: first what
the ledger has, then what comes. The JVM may be named as for tare autopsy.`,
		Example: `  tare watch app.jar
  tare watch 4242 --interval 10s --record app.jsonl
  tare watch app.jar --count 60 | tee app.log
  tare watch app.jar --ledger /var/lib/tare/ledger`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case !opts.from.enough(len(args)):
				return &exitError{exitUsage, errors.New("watch takes one JVM: a PID, a main class, a jar's name or --container NAME\nlist the JVMs on this machine with: tare weigh --list")}
			case opts.ledger != "" && (opts.from != "" || opts.record != ""):
				return usageError(errors.New("--ledger tells what an agent weighed: leave out --record, and name the JVM of a container without --container"))
			case opts.interval < minInterval:
				return &exitError{exitUsage, fmt.Errorf("--interval %s is less than %s", opts.interval, minInterval)}
			case opts.count < 0:
				return &exitError{exitUsage, fmt.Errorf("--count %d is less than 0", opts.count)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWatch(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), args, opts)
		},
	}
	cmd.Flags().DurationVar(&opts.interval, "interval", time.Second, "time between two weighings")
	cmd.Flags().IntVar(&opts.count, "count", 0, "end after so many weighings; 0 is without an end")
	cmd.Flags().StringVar(&opts.record, "record", "", "append each footprint to this `file` as a line of JSON")
	cmd.Flags().StringVar(&opts.ledger, "ledger", "", "tell what tare agent keeps in the ledger in this `folder`")
	opts.from.flag(cmd)
	return cmd
}

func runWatch(ctx context.Context, in io.Reader, out io.Writer, args []string, opts watchOptions) error {
	defer letGarbageLie(watchGC)()
	if opts.ledger != "" {
		return watchLedger(ctx, in, out, args[0], opts)
	}
	proc := linux.NewFS("/proc")
	target, err := opts.from.resolve(ctx, proc, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ticker := time.NewTicker(opts.interval)
	defer ticker.Stop()
	s := &watch.Session{Weigh: watch.Of(proc, target, opts.record != ""), Ticks: ticker.C, Count: opts.count}
	if opts.record != "" {
		if s.Record, err = watch.OpenRecord(opts.record); err != nil {
			cancel()
			return err
		}
	}
	if screen, ok := terminals(in, out); ok {
		err = watch.Screen(ctx, in, out, s, opts.interval, opts.record, document.StyleFor(screen))
	} else {
		err = watch.Lines(ctx, out, s)
	}
	cancel() // so that Close need not wait for a tick
	return targetError(errors.Join(err, s.Close()))
}

// watchLedger tells what an agent weighed of a JVM.
func watchLedger(ctx context.Context, in io.Reader, out io.Writer, name string, opts watchOptions) error {
	r, p, err := inLedger(opts.ledger, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := time.NewTicker(opts.interval)
	defer ticker.Stop()
	always := make(chan time.Time) // what the ledger has already waits for no tick
	close(always)
	s := &watch.Session{Weigh: watch.OfLedger(r, p, linux.NewFS("/proc"), ticker.C), Ticks: always, Count: opts.count}
	if screen, ok := terminals(in, out); ok {
		return ledgerReadError(watch.Screen(ctx, in, out, s, 0, "", document.StyleFor(screen)))
	}
	return ledgerReadError(watch.Lines(ctx, out, s))
}

// terminals says whether a live view can be shown and answer to keys.
func terminals(in io.Reader, out io.Writer) (*os.File, bool) {
	i, ok1 := in.(*os.File)
	o, ok2 := out.(*os.File)
	return o, ok1 && ok2 && document.IsTerminal(i) && document.IsTerminal(o) && os.Getenv("TERM") != "dumb"
}

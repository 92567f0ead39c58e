package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/store"
)

// noStore is the value of --store that keeps nothing.
const noStore = "none"

// storeVariable names the store where --store does not.
const storeVariable = "TARE_STORE"

const storeHelp = "file that keeps all fits, or postgres://USER@HOST/DATABASE (default: $" + storeVariable + ", else tare/tare.db in $XDG_STATE_HOME or ~/.local/state)"

// history is where a fit is kept while it runs. Its methods may be called on
// nil, which keeps nothing.
type history struct {
	store store.Store
	// old is the fit that goes on, nil for a new one.
	old        *store.Fit
	invocation store.Invocation
	run        *store.Run
}

// openStore opens the store that --store names.
func openStore(ctx context.Context, location string) (store.Store, error) {
	if location = cmp.Or(location, os.Getenv(storeVariable)); location == "" {
		var err error
		if location, err = store.DefaultFile(); err != nil {
			return nil, err
		}
	}
	return store.Open(ctx, location)
}

// openHistory opens the store. With --resume it gives o the flags of the fit
// that goes on and returns its command, where the command line has none.
func openHistory(cmd *cobra.Command, args []string, o *fitOptions) (*history, []string, error) {
	var id int64
	if o.resume {
		var err error
		if id, args, err = resumeArgs(cmd, args); err != nil {
			return nil, nil, err
		}
	}
	if o.store == noStore {
		if o.resume {
			return nil, nil, usageError(errors.New("--resume needs a store: leave out --store none"))
		}
		return nil, args, nil
	}
	s, err := openStore(cmd.Context(), o.store)
	if err != nil {
		return nil, nil, fmt.Errorf("%w\nname another one with --store, or --store none to keep nothing", err)
	}
	h := &history{store: s}
	if o.resume {
		args, err = h.takeUp(cmd, id, args)
	}
	h.invocation = store.Invocation{Flags: givenFlags(cmd.Flags()), Args: args}
	if err != nil {
		return nil, nil, errors.Join(err, h.close())
	}
	return h, args, nil
}

// resumeArgs reads what stands behind --resume: the fit's number, 0 without
// one; more flags; and the command.
func resumeArgs(cmd *cobra.Command, args []string) (id int64, rest []string, err error) {
	if len(args) == 0 || strings.Trim(args[0], "0123456789") != "" {
		return 0, args, nil
	}
	if id, err = fitID(args[0]); err != nil {
		return 0, nil, err
	}
	// Flag parsing has ended at the number.
	if err := cmd.ParseFlags(args[1:]); err != nil {
		return 0, nil, cmd.FlagErrorFunc()(cmd, err)
	}
	return id, cmd.Flags().Args(), nil
}

// fitID reads the number of a fit.
func fitID(s string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 1 {
		return 0, usageError(fmt.Errorf("%q is no fit's number: see tare fit list", s))
	}
	return id, nil
}

// takeUp finds the fit that goes on, and takes over its flags and command.
func (h *history) takeUp(cmd *cobra.Command, id int64, args []string) ([]string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	f, err := h.find(cmd.Context(), id, dir)
	if err != nil {
		return nil, err
	}
	if f.State == store.Unreadable {
		return nil, f.Problem
	}
	if !f.Here {
		return nil, usageError(fmt.Errorf("fit %d was started on %s: go on with it there", f.ID, linux.Printable(f.Host)))
	}
	if f.Plan.Dir != dir {
		return nil, usageError(fmt.Errorf("fit %d was started in %s: go on with it there", f.ID, f.Plan.Dir))
	}
	h.old = &f
	flags := cmd.Flags()
	for _, stored := range f.Invocation.Flags {
		if flags.Changed(stored.Name) {
			continue
		}
		for _, v := range stored.Values {
			if err := flags.Set(stored.Name, v); err != nil {
				return nil, fmt.Errorf("fit %d: %w: begin anew, without --resume", f.ID, err)
			}
		}
	}
	if len(args) == 0 {
		args = f.Invocation.Args
	}
	return args, nil
}

// find is the fit of a number, or for 0 the newest that was started in dir and
// cut off.
func (h *history) find(ctx context.Context, id int64, dir string) (store.Fit, error) {
	if id > 0 {
		f, err := h.store.Fit(ctx, id)
		return f, notFound(err)
	}
	fits, err := h.store.Fits(ctx)
	if err != nil {
		return store.Fit{}, err
	}
	for _, f := range fits {
		if f.State == store.CutOff && f.Here && f.Plan.Dir == dir {
			return f, nil
		}
	}
	return store.Fit{}, usageError(fmt.Errorf("no fit that was started in %s is cut off: see tare fit list", dir))
}

func notFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &exitError{exitTarget, fmt.Errorf("%w\nsee what there is with: tare fit list", err)}
	}
	return err
}

// givenFlags are the flags that decide the fit.
func givenFlags(flags *pflag.FlagSet) []store.Flag {
	var out []store.Flag
	flags.Visit(func(f *pflag.Flag) {
		if _, ok := f.Annotations[notOfFit]; ok {
			return
		}
		switch f.Name {
		case "resume", "store", "json":
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		out = append(out, store.Flag{Name: f.Name, Values: values})
	})
	return out
}

// begin removes what killed fits left, and opens the journal of a new fit or of
// the one that goes on.
func (h *history) begin(ctx context.Context, c *fit.Config, stderr io.Writer) error {
	if h == nil {
		return nil
	}
	removed, err := h.store.Sweep(ctx, runner.ThisHost().RemoveMade)
	if len(removed) > 0 {
		fmt.Fprintf(stderr, "removed what an earlier run had left: %s\n", strings.Join(removed, ", "))
	}
	if err != nil {
		fmt.Fprintf(stderr, "note: not all that an earlier run had left could be removed: %v\n", err)
	}
	if deleted, err := h.store.Prune(ctx, store.DefaultBound); err != nil {
		fmt.Fprintf(stderr, "note: the history could not be kept within its bound: %v\n", err)
	} else if len(deleted) > 0 {
		fmt.Fprintf(stderr, "removed the %d oldest fits from the history, up to fit %d: it keeps the last %d, and at most %d MiB\n",
			len(deleted), deleted[len(deleted)-1], store.DefaultBound.Fits, store.DefaultBound.Bytes/report.MiB)
	}
	if h.old != nil { // by which its baselines were made, whatever is available now
		c.MostAmpleBytes = h.old.Plan.MostAmpleBytes
	}
	plan, err := fit.NewPlan(ctx, *c)
	if err != nil {
		return err
	}
	if h.old == nil {
		h.run, err = h.store.Begin(ctx, plan, h.pinned(plan))
	} else {
		h.run, err = h.goOn(ctx, plan)
	}
	if err != nil {
		return err
	}
	c.Journal = h.run
	return nil
}

// pinned is the invocation with the defaults that depend on the moment.
func (h *history) pinned(p fit.Plan) store.Invocation {
	i := h.invocation
	for _, f := range i.Flags {
		if f.Name == "ample" {
			return i
		}
	}
	i.Flags = append(i.Flags, store.Flag{Name: "ample", Values: []string{fmt.Sprintf("%dm", p.AmpleBytes/report.MiB)}})
	return i
}

func (h *history) goOn(ctx context.Context, now fit.Plan) (*store.Run, error) {
	if d := h.old.Plan.Differences(now); len(d) > 0 {
		return nil, usageError(fmt.Errorf("fit %d cannot go on, for its trials would not compare:\n%s\nbegin anew, without --resume", h.old.ID, strings.Join(d, "\n")))
	}
	r, err := h.store.Resume(ctx, h.old.ID)
	var busy *store.BusyError
	var ended *store.EndedError
	if errors.As(err, &busy) || errors.As(err, &ended) {
		return nil, usageError(err)
	}
	return r, notFound(err)
}

// going says where a fit stands, for the user who watches it.
func (h *history) going() string {
	if h == nil {
		return ""
	}
	if n := len(h.run.Past()); n > 0 {
		return fmt.Sprintf("fit %d goes on after %d steps", h.run.ID(), n)
	}
	return fmt.Sprintf("fit %d", h.run.ID())
}

// end stores how the fit ended, unless it was cut off.
func (h *history) end(ctx context.Context, r *fit.Result, err error) error {
	if h == nil || !fit.Ended(err) {
		return nil
	}
	return h.run.End(ctx, fit.NewEnding(r, err))
}

// hint tells how to go on with a fit that was cut off.
func (h *history) hint(r *fit.Result) string {
	if h == nil || len(r.Trials) == 0 {
		return ""
	}
	return fmt.Sprintf("\ngo on with: tare fit --resume %d", h.run.ID())
}

func (h *history) close() error {
	if h == nil {
		return nil
	}
	var err error
	if h.run != nil {
		err = h.run.Close()
	}
	return errors.Join(err, h.store.Close())
}

// archiveDir is where the fit that goes on has its class archives; "" for a new one.
func (h *history) archiveDir() string {
	if h == nil || h.old == nil {
		return ""
	}
	return h.old.Plan.ArchiveDir
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/report"
)

type autopsyOptions struct {
	ledger, log, hsErr   string
	last, json, markdown bool
	since                time.Duration
	cluster              cluster
}

func newAutopsyCommand() *cobra.Command {
	var opts autopsyOptions
	cmd := &cobra.Command{
		Use:   "autopsy [PID|container|pod|jar-name|main-class]",
		Short: "Why a JVM ended, what grew before, and what would have kept it alive",
		Long: `Autopsy says why a JVM ended, in one sentence, with how sure that is, the evidence
for it, what grew before the end, and the smallest change that would have stayed
below the limit then. It joins what tare agent kept in its ledger, the kernel's
log, the counts of the control group, the way in which the process exited, and the
hs_err file of a JVM that crashed. Each of them alone will do, and it says what
was missing.

Without a name it takes the JVM that ended last. A name is a process id, of the
machine or of a container, a container's id or name, a pod, a jar or a main class.
pod/NAME asks a Kubernetes cluster: the container's status, the events, and tare's
agent on the pod's node are joined (kubectl tare autopsy does the same).

The kernel's log is that of this boot (/dev/kmsg) with the journal's of the days
before; --log reads a saved one, as dmesg, journalctl -k (also -o export), syslog
or /dev/kmsg give it, and --log none reads none.

The verdicts: the container's limit, a parent's limit, the machine's memory, another
process of the group, systemd-oomd, OutOfMemoryError, native crash, killed from
outside, ended by itself, it runs, not known. An exit code of 137 alone is never
taken for a want of memory.

Exit codes: 0 there is a verdict, also that it is not known · 1 failure · 2 usage ·
3 neither ledger nor log has such a JVM · 4 neither ledger nor log may be read.`,
		Example: `  tare autopsy
  tare autopsy web --json
  tare autopsy --since 24h
  tare autopsy 4242 --log dmesg.txt --ledger /mnt/node/ledger`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usageError(errors.New("autopsy takes one JVM: a PID, a container, a pod, a jar or a main class"))
			case len(args) == 1 && (opts.last || opts.since != 0), opts.last && opts.since != 0:
				return usageError(errors.New("a name, --last and --since exclude each other: give one of them"))
			case opts.since < 0:
				return usageError(fmt.Errorf("--since %s is less than 0", opts.since))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && strings.HasPrefix(args[0], "pod/") {
				return runPodAutopsy(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), opts.cluster, args[0], opts.json, opts.markdown)
			}
			return runAutopsy(cmd.Context(), cmd.OutOrStdout(), cmd.InOrStdin(), opts, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.ledger, "ledger", "", "`folder` of the ledger (default: TARE_LEDGER, /var/lib/tare/ledger for root)")
	f.StringVar(&opts.log, "log", "", "the kernel's log: a `file`, - for standard input, none")
	f.StringVar(&opts.hsErr, "hs-err", "", "the `file` that the JVM wrote of its crash (default: looked for where it writes it)")
	f.BoolVar(&opts.last, "last", false, "the JVM that ended last, which is the default")
	f.DurationVar(&opts.since, "since", 0, "list all that ended in this time")
	formats(cmd, &opts.json, &opts.markdown, autopsy.Schema)
	opts.cluster.podFlags(cmd)
	return cmd
}

func runAutopsy(ctx context.Context, w io.Writer, stdin io.Reader, opts autopsyOptions, args []string) error {
	s, err := opts.sources(ctx, stdin)
	if err != nil {
		return err
	}
	if opts.since > 0 {
		all, err := s.Since(time.Now().Add(-opts.since))
		if err != nil {
			return err
		}
		if opts.json {
			return writeJSON(w, all)
		}
		return show(w, report.Autopsies(all, report.Duration(opts.since)), opts.markdown)
	}
	var r *autopsy.Report
	if len(args) == 1 {
		r, err = s.Find(args[0])
	} else {
		r, err = s.Last()
	}
	if errors.Is(err, autopsy.ErrNotFound) {
		return &exitError{exitTarget, fmt.Errorf("%w\nlist what ended with: tare autopsy --since 24h; what lives with: tare weigh --list", err)}
	}
	if err != nil {
		return err
	}
	if opts.json {
		return writeJSON(w, r)
	}
	return show(w, report.Autopsy(r), opts.markdown)
}

// journalDays is how far back the journal is read.
const journalDays = 7 * 24 * time.Hour

// sources opens what autopsies are made from. One of ledger and log must be there.
func (o autopsyOptions) sources(ctx context.Context, stdin io.Reader) (s autopsy.Sources, err error) {
	s.Proc = linux.NewFS("/proc")
	if o.hsErr != "" {
		if s.Crash, err = autopsy.ReadCrashFile(o.hsErr); err != nil {
			return s, &exitError{exitTarget, err}
		}
	}
	var noLedger, noLog error
	if s.Ledger, noLedger = o.openLedger(); noLedger != nil {
		if o.ledger != "" || errors.Is(noLedger, ledger.ErrNewer) {
			return s, ledgerReadError(noLedger)
		}
	}
	if s.Log, s.LogBoot, noLog = o.readLog(ctx, stdin, s.Proc); noLog != nil && o.log != "" {
		return s, &exitError{exitTarget, noLog}
	}
	if s.Ledger == nil && s.Log == nil {
		code := exitTarget
		if errors.Is(noLedger, fs.ErrPermission) || errors.Is(noLog, fs.ErrPermission) {
			code = exitPermission
		}
		if noLog == nil {
			noLog = errors.New("it was not to be read")
		}
		return s, &exitError{code, fmt.Errorf("there is no ledger (%w), and no log of the kernel (%w)\nrun it as root, or name them with --ledger FOLDER and --log FILE", noLedger, noLog)}
	}
	return s, nil
}

func (o autopsyOptions) openLedger() (*ledger.Reader, error) {
	dir := o.ledger
	if dir == "" {
		var err error
		if dir, err = ledger.DefaultDir(); err != nil {
			return nil, err
		}
	}
	return ledger.OpenReader(dir)
}

// ledgerReadError adds the next step to an error of a ledger that was named.
func ledgerReadError(err error) error {
	switch {
	case errors.Is(err, ledger.ErrNone):
		return &exitError{exitTarget, fmt.Errorf("%w\nlook for the folder that tare agent --ledger was given", err)}
	case errors.Is(err, fs.ErrPermission):
		return &exitError{exitPermission, fmt.Errorf("%w\nrun it as the user that the agent runs as, such as root", err)}
	}
	return ledgerError(err)
}

// readLog reads the kernel's log, and says which boot it is of where its lines do
// not tell.
func (o autopsyOptions) readLog(ctx context.Context, stdin io.Reader, proc linux.FS) (*kernellog.Events, string, error) {
	switch o.log {
	case "none":
		return nil, "", nil
	case "-":
		e, err := kernellog.Read(stdin)
		return e, "", err
	case "":
	default:
		e, err := kernellog.File(o.log)
		return e, "", err
	}
	boot, err := proc.BootID()
	if err != nil {
		return nil, "", err
	}
	ring, noRing := kernellog.Kmsg()
	if errors.Is(noRing, os.ErrNotExist) {
		noRing = fmt.Errorf("%w: this container has none", noRing)
	}
	journal, noJournal := kernellog.Journal(ctx, time.Now().Add(-journalDays))
	if e := kernellog.Join(ring, boot, journal); e != nil {
		return e, boot, nil
	}
	return nil, "", errors.Join(noRing, noJournal)
}

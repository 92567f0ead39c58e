package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/agent"
	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/collect"
	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/nodes"
	"tare.dev/tare/internal/remote"
	"tare.dev/tare/internal/runner"
)

type agentOptions struct {
	ledger, size, budget, memory, metrics string
	node, serve, serveToken               string
	interval, weigh, during               time.Duration
	// to is the hub's address, tokenFile and caFile what is needed for it.
	to, tokenFile, caFile string
	// enrolFile and name are for a machine that the hub does not know yet.
	enrolFile, name string
}

func newAgentCommand() *cobra.Command {
	var opts agentOptions
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Watch all JVMs of this machine, and keep what is seen of them",
		Long: `Agent finds the JVMs of this machine as they come and go, those in containers
included, and keeps in a ledger on disk what they hold: the counters of the
control group and of the JVM every ten seconds, a footprint by owner when its
memory moved, and a last look when a limit may be near. Nothing is sent to a JVM.

It takes no more processor time than --budget, averaged over a minute: what does
not fit is put off. It runs until SIGTERM or an interrupt, and then exits with
code 0. To see the JVMs of other users and of containers it must be root.`,
		Example: `  tare agent
  tare agent --budget 0.5% --ledger /var/lib/tare/ledger --metrics 127.0.0.1:9274
  tare agent --to https://hub:9275 --token-file /etc/tare/token
  tare agent --to https://hub:9275 --token-file /var/lib/tare/token --enrol-file /etc/tare/enrol`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAgent(cmd.Context(), cmd.ErrOrStderr(), opts)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.ledger, "ledger", "", "`folder` of the ledger (default: TARE_LEDGER, /var/lib/tare/ledger for root)")
	f.StringVar(&opts.size, "ledger-size", "64m", "what the ledger may fill on disk")
	f.DurationVar(&opts.interval, "interval", 10*time.Second, "time between two looks at a JVM's counters")
	f.DurationVar(&opts.weigh, "weigh-every", 5*time.Minute, "time between two footprints of a JVM whose memory does not move")
	f.StringVar(&opts.budget, "budget", "1%", "processor time that the agent may take, in percent of one processor")
	f.StringVar(&opts.memory, "memory", "64m", "memory that the agent may take")
	f.StringVar(&opts.metrics, "metrics", "", "serve the agent's own metrics at this `address` of the loopback, such as 127.0.0.1:9274")
	f.StringVar(&opts.to, "to", "", "send the ledger to the hub (tare serve) at this `URL`, such as https://hub:9275")
	f.StringVar(&opts.tokenFile, "token-file", "", "`file` with the hub's token for this machine")
	f.StringVar(&opts.enrolFile, "enrol-file", "", "`file` with a token that enrols: while --token-file is missing, the hub is asked to take up this machine, whose token is kept there")
	f.StringVar(&opts.name, "name", "", "`name` of this machine for --enrol-file (default: the host's)")
	f.StringVar(&opts.caFile, "ca", "", "PEM `file` with the certificates that the hub's is signed with (default: the system's)")
	f.StringVar(&opts.node, "kubernetes-node", "", "`name` of this node of a Kubernetes cluster: its API server is asked for the names of pods")
	f.StringVar(&opts.serve, "serve", "", "answer kubectl tare, and serve the metrics, by HTTPS at this `address`, such as :9276")
	f.StringVar(&opts.serveToken, "serve-token-file", "", "`file` with the token that --serve asks for")
	f.DurationVar(&opts.during, "for", 0, "end after this time; 0 is without an end")
	return cmd
}

// leastMemory is what the agent needs: its program, and what one weighing takes.
const leastMemory = 48 << 20

// parsed is what the options of the agent say.
type parsed struct {
	dir          string
	size, memory int64
	share        float64
	hub          collect.Sink // nil without one
	token        string       // that --serve asks for
}

func (o agentOptions) parse() (p parsed, err error) {
	if p.dir = o.ledger; p.dir == "" {
		if p.dir, err = ledger.DefaultDir(); err != nil {
			return p, err
		}
	}
	if p.size, err = sizeFlag("ledger-size", o.size, ledger.MinBytes); err != nil {
		return p, err
	}
	if p.memory, err = sizeFlag("memory", o.memory, leastMemory); err != nil {
		return p, err
	}
	number, isPercent := strings.CutSuffix(o.budget, "%")
	percent, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || !isPercent || !(percent >= 0.01 && percent <= 100):
		return p, fmt.Errorf("--budget %q is not between 0.01%% and 100%% of a processor: write it as 1%%", o.budget)
	case o.interval < agent.MinInterval:
		return p, fmt.Errorf("--interval %s is less than %s", o.interval, agent.MinInterval)
	case o.weigh < o.interval:
		return p, fmt.Errorf("--weigh-every %s is less than --interval %s", o.weigh, o.interval)
	case o.during < 0:
		return p, fmt.Errorf("--for %s is less than 0", o.during)
	}
	p.share = percent / 100
	if (o.serve == "") != (o.serveToken == "") {
		return p, errors.New("--serve and --serve-token-file go together")
	}
	if o.serve != "" {
		if p.token, err = agentToken(o.serveToken, ""); err != nil {
			return p, fmt.Errorf("--serve-token-file: %w", err)
		}
	}
	p.hub, err = o.hub()
	return p, err
}

// maxTokenFile bounds the file of a token.
const maxTokenFile = 4096

// hub is the hub that the ledger is sent to; nil without one.
func (o agentOptions) hub() (collect.Sink, error) {
	switch {
	case o.to == "" && (o.tokenFile != "" || o.caFile != "" || o.enrolFile != ""):
		return nil, errors.New("--token-file, --enrol-file and --ca are for --to URL")
	case o.name != "" && o.enrolFile == "":
		return nil, errors.New("--name is for --enrol-file: a token has a name already")
	case o.to == "":
		return nil, nil
	case o.tokenFile == "":
		return nil, errors.New("--to needs --token-file FILE: make a token on the hub with tare serve token add NAME --write")
	}
	if o.enrolFile != "" {
		return o.enroller()
	}
	token, err := readToken(o.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	hub, err := collect.NewClient(o.to, token, o.caFile)
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	return hub, nil
}

// enroller is the hub, which is to take up this machine unless it has.
func (o agentOptions) enroller() (collect.Sink, error) {
	name := o.name
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("name of this host: %w: give one with --name", err)
		}
	}
	hub, err := collect.NewEnroller(o.to, o.caFile, collect.Enrolment{Machine: name, File: o.tokenFile, Secret: func() (string, error) { return readToken(o.enrolFile) }})
	if err != nil {
		return nil, fmt.Errorf("--to with --enrol-file: %w", err)
	}
	return hub, nil
}

// readToken reads the file of a token.
func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	token, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	return strings.TrimSpace(string(token)), err
}

func sizeFlag(name, text string, least int64) (int64, error) {
	n, err := runner.ParseSize(strings.TrimSuffix(strings.ToLower(text), "ib"))
	if err != nil {
		return 0, fmt.Errorf("--%s: %w", name, err)
	}
	if n < least {
		return 0, fmt.Errorf("--%s %s is too small: give at least %dm", name, text, least>>20)
	}
	return n, nil
}

// programBytes is what of the agent's memory Go's collector does not know: the
// pages of the program's file, stacks of its threads.
const programBytes = 28 << 20

// runAgent watches until ctx ends, which is how an agent ends in good order.
func runAgent(ctx context.Context, errs io.Writer, opts agentOptions) error {
	ready := serviceManager()
	p, err := opts.parse()
	if err != nil {
		return usageError(err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(p.memory - programBytes))
	w, err := ledger.Create(p.dir, p.size)
	if err != nil {
		return ledgerError(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var excused atomic.Int64 // nanoseconds
	cfg := agent.Config{
		Excused: func() time.Duration { return time.Duration(excused.Load()) },
		Proc:    linux.NewFS("/proc"), Ledger: w, Interval: opts.interval, WeighEvery: opts.weigh, Share: p.share, Version: names.Version,
		Examine: examiner(p.dir),
		Say:     func(err error) { complain(errs, err) },
	}
	if opts.node != "" {
		pods, err := podsOf(opts.node)
		if err != nil {
			return usageError(fmt.Errorf("--kubernetes-node: %w", err))
		}
		cfg.NameOf = pods.Of
		go pods.Run(ctx, cfg.Say)
	}
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	if opts.during > 0 {
		time.AfterFunc(opts.during, cancel)
	}
	if opts.metrics != "" {
		l, err := remote.Listen(opts.metrics)
		if err != nil {
			return usageError(fmt.Errorf("--metrics: %w", err))
		}
		defer agent.Serve(l, a.Metrics(w), func(err error) { complain(errs, err) })()
		fmt.Fprintf(errs, "its own metrics are at http://%s/metrics\n", l.Addr())
	}
	if opts.serve != "" {
		stop, err := serveNode(opts.serve, p, a.Metrics(w), &excused, cfg.Say)
		if err != nil {
			return usageError(fmt.Errorf("--serve: %w", err))
		}
		defer stop()
	}
	if p.hub != nil {
		defer send(ctx, cancel, w, p.hub, opts.interval, errs)()
	}
	fmt.Fprintf(errs, "watching the JVMs of this machine; the ledger is %s\n", p.dir)
	if err := ready(); err != nil {
		return err
	}
	return a.Run(ctx)
}

// podsOf are the names of the pods of a node.
func podsOf(node string) (*kubeapi.Names, error) {
	if !kubeapi.ValidName(node) {
		return nil, fmt.Errorf("%.100q is no name of a node", node)
	}
	client, err := kubeapi.Open(kubeapi.Options{})
	if err != nil {
		return nil, err
	}
	return kubeapi.NewNames(client, node), nil
}

// serveNode answers questions about this node's JVMs until stop is called. What answers
// take of the processor is excused from the budget: who asks often would blind the agent.
func serveNode(address string, p parsed, metrics http.Handler, excused *atomic.Int64, say func(error)) (stop func(), err error) {
	secure, err := nodes.Certificate(time.Now())
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	proc := linux.NewFS("/proc")
	h := nodes.NewHandler(nodes.Handler{Proc: proc, Dir: p.dir, Token: p.token, Metrics: metrics, Around: func(answer func()) {
		before := agent.Processor()
		answer() // one at a time
		excused.Add(int64(agent.Processor() - before))
	}, Log: func(ctx context.Context, s *autopsy.Sources) {
		// Without a log an autopsy says that it lacks one.
		s.Log, s.LogBoot, _ = autopsyOptions{}.readLog(ctx, nil, proc)
	}})
	return agent.Serve(tls.NewListener(l, secure), h, say), nil
}

// examiner makes autopsies from the ledger in a folder, and the kernel's log where that may
// be read.
func examiner(dir string) func(ledger.ID) (*ledger.Autopsy, error) {
	proc := linux.NewFS("/proc")
	return func(id ledger.ID) (*ledger.Autopsy, error) {
		r, err := ledger.OpenReader(dir)
		if err != nil {
			return nil, err
		}
		s := autopsy.Sources{Ledger: r, Proc: proc}
		if s.LogBoot, err = proc.BootID(); err != nil {
			return nil, err
		}
		s.Log, _ = kernellog.Kmsg() // the autopsy says when there was none
		found, err := s.Examine(id)
		if err != nil {
			return nil, fmt.Errorf("autopsy of process %d: %w", id.PID, err)
		}
		return found.Kept(), nil
	}
}

// send sends the ledger until stop is called, when it sends what is left.
func send(ctx context.Context, cancel func(), w *ledger.Writer, hub collect.Sink, interval time.Duration, errs io.Writer) (stop func()) {
	clock := agent.MachineClock()
	boot, err := linux.NewFS("/proc").BootID()
	if err != nil {
		complain(errs, fmt.Errorf("nothing is sent to the hub: %w", err))
		return func() {}
	}
	s := &collect.Sender{Writer: w, Sink: hub, Every: min(interval/2, sendEvery), Version: names.Version, Boot: boot,
		Now: func() (time.Time, time.Duration) { return clock.Now(), clock.Uptime() }, Say: func(err error) { complain(errs, err) }}
	sending, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(sending)
	}()
	return func() { cancel(); end(); <-done }
}

// sendEvery is how old what a hub does not have becomes at most.
const sendEvery = 5 * time.Second

// ledgerError adds the next step to an error of opening a ledger.
func ledgerError(err error) error {
	switch {
	case errors.Is(err, ledger.ErrInUse):
		return fmt.Errorf("%w: one agent watches this machine already; end it, or name another folder with --ledger", err)
	case errors.Is(err, ledger.ErrNewer):
		return fmt.Errorf("%w\nupdate tare, or name another folder with --ledger", err)
	}
	return err
}

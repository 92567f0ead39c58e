package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/deathsig"
	jvmhistory "tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/serve"
	"tare.dev/tare/internal/store"
)

// historyVariable names the history where --history does not.
const historyVariable = "TARE_HISTORY"

const historyHelp = "SQLite `file` that keeps the history, or postgres://USER@HOST/DATABASE (default: $" + historyVariable + ", else history.db beside the ledger)"

type serveOptions struct {
	serve.Settings
	config string
}

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "See all JVMs of this machine, or of a team, over time",
		Long: `Serve keeps what agents see of JVMs, and shows it: a dashboard and an API over
HTTP, and metrics for Prometheus. It watches this machine itself, by a tare agent
that ends with it; those of other machines send to it (tare agent --to URL).

It listens on the loopback alone unless told otherwise; beyond it a certificate and
tokens are needed (tare serve token). It runs until SIGTERM or an interrupt, and
then exits with code 0.`,
		Example: `  tare serve
  tare serve --listen 0.0.0.0:9275 --tls-cert hub.pem --tls-key hub.key --no-agent
  tare serve --config /etc/tare/serve.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.settings(cmd)
			if err != nil {
				return usageError(err)
			}
			return runServe(cmd.Context(), cmd.ErrOrStderr(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "YAML `file` with what is not given by flags; see tare serve check")
	f.StringVar(&o.Listen, "listen", serve.DefaultListen, "`address` to listen on")
	f.StringVar(&o.History, "history", "", historyHelp)
	f.StringVar(&o.Store, "store", "", storeHelp+"; none shows no fits")
	f.StringSliceVar(&o.Hosts, "host", nil, "`name` that a server on the loopback may be called, as behind a proxy")
	f.StringVar(&o.TLS.Certificate, "tls-cert", "", "PEM `file` with the certificate")
	f.StringVar(&o.TLS.Key, "tls-key", "", "PEM `file` with its key")
	f.IntVar(&o.MetricsJVMs, "metrics-jvms", serve.DefaultMaxJVMs, "JVMs that the metrics tell of at most")
	f.BoolVar(&o.Agent.Off, "no-agent", false, "do not watch this machine")
	f.StringVar(&o.Agent.Ledger, "ledger", "", "`folder` of this machine's ledger, as of tare agent")
	f.StringVar(&o.Agent.LedgerSize, "ledger-size", "", "what the ledger may fill on disk (64m)")
	f.StringVar(&o.Agent.Interval, "interval", "", "time between two looks at a JVM's counters (10s)")
	f.StringVar(&o.Agent.WeighEvery, "weigh-every", "", "time between two footprints of a JVM whose memory does not move (5m)")
	f.StringVar(&o.Agent.Budget, "budget", "", "processor time that this machine's agent may take (1%)")
	f.StringVar(&o.Agent.Memory, "memory", "", "memory that this machine's agent may take (64m)")
	cmd.AddCommand(newServeCheckCommand(), newServeTokenCommand(), newServeBackupCommand())
	return cmd
}

// settings are the flags, and for those that were not given the file.
func (o serveOptions) settings(cmd *cobra.Command) (serve.Settings, error) {
	s := o.Settings
	if o.config == "" {
		return s, s.Check()
	}
	file, err := serve.ReadSettings(o.config)
	if err != nil {
		return s, err
	}
	given := cmd.Flags().Changed
	for _, t := range []struct {
		flag     string
		to, from *string
	}{
		{"listen", &s.Listen, &file.Listen}, {"history", &s.History, &file.History}, {"store", &s.Store, &file.Store},
		{"tls-cert", &s.TLS.Certificate, &file.TLS.Certificate}, {"tls-key", &s.TLS.Key, &file.TLS.Key},
		{"ledger", &s.Agent.Ledger, &file.Agent.Ledger}, {"ledger-size", &s.Agent.LedgerSize, &file.Agent.LedgerSize},
		{"interval", &s.Agent.Interval, &file.Agent.Interval}, {"weigh-every", &s.Agent.WeighEvery, &file.Agent.WeighEvery},
		{"budget", &s.Agent.Budget, &file.Agent.Budget}, {"memory", &s.Agent.Memory, &file.Agent.Memory},
	} {
		if !given(t.flag) && *t.from != "" {
			*t.to = *t.from
		}
	}
	if !given("host") {
		s.Hosts = file.Hosts
	}
	if !given("metrics-jvms") && file.MetricsJVMs != 0 {
		s.MetricsJVMs = file.MetricsJVMs
	}
	if !given("no-agent") {
		s.Agent.Off = file.Agent.Off
	}
	if err := s.Check(); err != nil {
		return s, fmt.Errorf("%s: %w", o.config, err)
	}
	return s, nil
}

// openServeHistory opens the history of a location, or of the environment, or the
// one beside a ledger.
func openServeHistory(ctx context.Context, location, ledgerDir string) (*jvmhistory.DB, error) {
	if location = cmp.Or(location, os.Getenv(historyVariable)); location == "" {
		dir := ledgerDir
		if dir == "" {
			var err error
			if dir, err = ledger.DefaultDir(); err != nil {
				return nil, err
			}
		}
		location = jvmhistory.DefaultFile(dir)
	}
	return jvmhistory.Open(ctx, location)
}

// runServe serves until ctx ends, which is how a server ends in good order.
func runServe(ctx context.Context, errs io.Writer, s serve.Settings) (err error) {
	say := func(err error) { complain(errs, err) }
	ready := serviceManager()
	db, err := openServeHistory(ctx, s.History, s.Agent.Ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this host: %w", err)
	}
	cfg := serve.Config{History: db, Version: names.Version, Local: s.Local(), Hosts: s.Hosts, TLS: s.TLS.Certificate != "", MaxJVMs: s.MetricsJVMs, Say: say}
	if s.Store != noStore {
		cfg.Fits = func(ctx context.Context) (store.Store, error) { return openStore(ctx, s.Store) }
	}
	if !s.Agent.Off {
		cfg.LocalToken, cfg.LocalMachine = rand.Text(), host
	}
	server, err := serve.New(cfg)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("%w: name another address with --listen", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Keep(ctx)
	}()
	defer func() { cancel(nil); <-ended }()
	scheme := "http"
	if cfg.TLS {
		scheme = "https"
	}
	if !s.Agent.Off {
		agent, err := startOwnAgent(ctx, cancel, server, cfg.LocalToken, s.Agent, errs)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer agent()
	}
	fmt.Fprintf(errs, "serving at %s://%s; the history is %s\n", scheme, listener.Addr(), db.Location())
	if err := ready(); err != nil { // the kernel keeps connections waiting until it serves
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(ctx, listener, s.TLS.Config()); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// startOwnAgent starts the agent of this machine, as a process of its own: so its
// budgets hold for it alone. It sends to an address of the loopback that only it has
// the token of. stop ends it. When it ends by itself, it cancels with the reason.
func startOwnAgent(ctx context.Context, cancel context.CancelCauseFunc, server *serve.Server, token string, a serve.AgentSettings, errs io.Writer) (stop func(), err error) {
	private, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	served, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(served, private, nil); err != nil {
			cancel(err)
		}
	}()
	cmd, err := ownAgent(a, "http://"+private.Addr().String(), token, errs)
	if err != nil {
		end()
		<-done
		return nil, err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		err := cmd.Wait()
		if ctx.Err() == nil {
			cancel(fmt.Errorf("this machine's agent has ended (%v): it says why above; --no-agent serves without it", err))
		}
	}()
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		timer := time.AfterFunc(agentPatience, func() { _ = cmd.Process.Kill() })
		<-gone // what it sends last is still taken
		timer.Stop()
		end()
		<-done
	}, nil
}

// agentPatience is how long the agent may take to end.
const agentPatience = 10 * time.Second

// ownAgent starts tare agent. It reads the token from a pipe: neither the command
// line nor the environment tells it to others.
func ownAgent(a serve.AgentSettings, url, token string, errs io.Writer) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	args := []string{"agent", "--to", url, "--token-file", "/dev/fd/3"}
	for _, f := range [][2]string{{"--ledger", a.Ledger}, {"--ledger-size", a.LedgerSize}, {"--interval", a.Interval}, {"--weigh-every", a.WeighEvery}, {"--budget", a.Budget}, {"--memory", a.Memory}} {
		if f[1] != "" {
			args = append(args, f[0], f[1])
		}
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr, cmd.ExtraFiles = errs, []*os.File{read}
	// An interrupt of the terminal is for the server, which ends the agent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := deathsig.Start(cmd, syscall.SIGTERM); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	_, err = write.WriteString(token)
	return cmd, errors.Join(err, write.Close())
}

func newServeCheckCommand() *cobra.Command {
	var schema bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file",
		Example: `  tare serve check /etc/tare/serve.yaml
  tare serve check --schema`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if schema {
				_, err := fmt.Fprint(cmd.OutOrStdout(), serve.SettingsSchema)
				return err
			}
			if len(args) != 1 {
				return usageError(errors.New("give one configuration file"))
			}
			s, err := serve.ReadSettings(args[0])
			if err == nil {
				s.Listen = cmp.Or(s.Listen, serve.DefaultListen)
				err = s.Check()
			}
			if err != nil {
				return usageError(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is right\n", args[0])
			return err
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "write the JSON schema of configuration files")
	return cmd
}

func newServeBackupCommand() *cobra.Command {
	var location string
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the history, as it is now, to a new SQLite file",
		Long: `Backup writes the history to a new file, also while tare serve runs. To restore it,
end tare serve and start it with that file as --history: agents send what came since
as far as their ledgers have it. PostgreSQL has means of its own (pg_dump).`,
		Example: "  tare serve backup /backup/tare.db",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServeHistory(cmd.Context(), location, func(db *jvmhistory.DB) error {
				file, err := filepath.Abs(args[0])
				if err != nil {
					return err
				}
				return db.Backup(cmd.Context(), file)
			})
		},
	}
	cmd.Flags().StringVar(&location, "history", "", historyHelp)
	return cmd
}

func withServeHistory(ctx context.Context, location string, f func(*jvmhistory.DB) error) error {
	db, err := openServeHistory(ctx, location, "")
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

func newServeTokenCommand() *cobra.Command {
	var location string
	cmd := &cobra.Command{Use: "token", Short: "Tokens, by which people, scrapers and agents come in", Args: noArgs}
	var o tokenOptions
	add := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a token, and print it once",
		Long: `Add makes a token and prints it; only its hash is kept. One for reading is for
browsers (the login asks for it) and scrapers. With --write it is for the agent of one
machine, which NAME names: it writes that machine's rows and reads nothing. With --enrol
it is for many agents (tare agent --enrol-file): each gets a token for its own machine,
and with this one they can do nothing else.`,
		Example: `  tare serve token add grafana
  tare serve token add web-1 --write
  tare serve token add fleet --enrol --machines 200 --for 24h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd); err != nil {
				return usageError(err)
			}
			return withServeHistory(cmd.Context(), location, func(db *jvmhistory.DB) error {
				secret, err := o.add(cmd.Context(), db, args[0], time.Now())
				if err == nil {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), secret)
				}
				return err
			})
		},
	}
	add.Flags().BoolVar(&o.write, "write", false, "for the agent of the machine NAME")
	add.Flags().BoolVar(&o.enrol, "enrol", false, "for agents that get a token each with it")
	add.Flags().IntVar(&o.machines, "machines", 1000, "machines that --enrol enrols at most")
	add.Flags().DurationVar(&o.during, "for", 24*time.Hour, "time in which --enrol enrols; 0 is without an end")
	list := &cobra.Command{
		Use: "list", Short: "The tokens that there are", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServeHistory(cmd.Context(), location, func(db *jvmhistory.DB) error {
				all, err := db.Tokens(cmd.Context())
				for _, t := range all {
					fmt.Fprintf(cmd.OutOrStdout(), "%-5s  %s  %s%s\n", t.Kind, t.Made.Format(time.RFC3339), t.Name, enrolment(t, all))
				}
				return err
			})
		},
	}
	var enrolled bool
	remove := &cobra.Command{
		Use: "remove NAME", Short: "Take a token back, at once", Args: cobra.ExactArgs(1),
		Long: `Remove takes a token back, from the next request on. Machines that were enrolled with
it keep their own, unless --enrolled takes those back too.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServeHistory(cmd.Context(), location, func(db *jvmhistory.DB) error {
				return db.RemoveToken(cmd.Context(), args[0], enrolled)
			})
		},
	}
	remove.Flags().BoolVar(&enrolled, "enrolled", false, "and those of all machines that were enrolled with it")
	cmd.PersistentFlags().StringVar(&location, "history", "", historyHelp)
	cmd.AddCommand(add, list, remove)
	return cmd
}

// tokenOptions say what a new token is for.
type tokenOptions struct {
	write, enrol bool
	machines     int
	during       time.Duration
}

func (o tokenOptions) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case o.write && o.enrol:
		return errors.New("--write is for one machine, --enrol for many: give one of them")
	case !o.enrol && (given("machines") || given("for")):
		return errors.New("--machines and --for are for --enrol")
	case o.during < 0:
		return fmt.Errorf("--for %s is less than 0", o.during)
	}
	return nil
}

// add makes the token.
func (o tokenOptions) add(ctx context.Context, db *jvmhistory.DB, name string, now time.Time) (string, error) {
	switch {
	case o.enrol:
		var expires time.Time
		if o.during > 0 {
			expires = now.Add(o.during)
		}
		return db.AddEnrolment(ctx, name, o.machines, expires, now)
	case o.write:
		return db.AddToken(ctx, name, jvmhistory.Write, now)
	}
	return db.AddToken(ctx, name, jvmhistory.Read, now)
}

// enrolment says how far a token has enrolled, or by which one of all it was.
func enrolment(t jvmhistory.Token, all []jvmhistory.Token) string {
	if t.Kind == jvmhistory.Enrol {
		until := ""
		if !t.Expires.IsZero() {
			until = ", until " + t.Expires.Format(time.RFC3339)
		}
		return fmt.Sprintf("  %d of %d machines%s", t.Enrolled, t.Machines, until)
	}
	for _, by := range all {
		if by.ID == t.By {
			return "  enrolled with " + by.Name
		}
	}
	return ""
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/remote"
	"tare.dev/tare/internal/runner"
)

// tokenEnv is the variable that may hold the agent's token.
const tokenEnv = "TARE_AGENT_TOKEN"

// newTrialAgentCommand is the part of tare that runs trials for a client
// elsewhere.
func newTrialAgentCommand() *cobra.Command {
	var address, tokenFile, parent, copied string
	var pod, install bool
	cmd := &cobra.Command{
		Use:   "trial-agent --listen unix:PATH",
		Short: "Serve trials: start, limit and weigh what a client asks for",
		Long: `Trial-agent starts processes in limited groups of this machine for a client that
runs elsewhere. It serves HTTP on a unix socket that only its user can connect
to, or on a port of the loopback. Clients need a token of 16 bytes or more: the
first line of --token-file, or the variable ` + tokenEnv + `. Who has it can run
any program as the agent's user.

When a client is gone, the agent ends what it started for it. SIGTERM ends the
agent and everything that it started.`,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if install {
				return runner.InstallInPod()
			}
			if copied != "" {
				return runner.CopyInPod(cmd.Context(), copied)
			}
			token, err := agentToken(tokenFile, os.Getenv(tokenEnv))
			if err != nil {
				return usageError(err)
			}
			if pod {
				return serveInPod(cmd.Context(), cmd.ErrOrStderr(), address, token)
			}
			return serveTrials(cmd.Context(), cmd.ErrOrStderr(), address, token, parent)
		},
	}
	cmd.Flags().StringVar(&address, "listen", "", "unix:PATH, or a number of the loopback and a port, such as 127.0.0.1:7070")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "file, the first line of which is the token")
	cmd.Flags().StringVar(&parent, "cgroup-parent", "", "control group below which groups are made (default: this process's own)")
	cmd.Flags().BoolVar(&pod, "pod", false, "serve one trial: of the application in the other container of this pod")
	cmd.Flags().BoolVar(&install, "install", false, "put tare where the application's container of this pod finds it, and end")
	cmd.Flags().StringVar(&copied, "copy", "", "put this `file` where the agent of this pod finds it, and end")
	return cmd
}

// serveInPod serves the trial of a pod.
func serveInPod(ctx context.Context, stderr io.Writer, address, token string) error {
	p, err := runner.NewPod()
	if err != nil {
		return err
	}
	defer p.Close()
	return serveRunner(ctx, stderr, p, address, token, podIdle)
}

// podIdle is how long the agent of a pod waits for a client that does not ask: its trial,
// its job and its pod end then.
const podIdle = 5 * time.Minute

// maxToken bounds the file of a token.
const maxToken = 4096

func agentToken(file, fromEnv string) (string, error) {
	token := fromEnv
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("token: %w", err)
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxToken))
		if err != nil {
			return "", fmt.Errorf("token: %w", err)
		}
		token, _, _ = strings.Cut(string(text), "\n")
	}
	if token = strings.TrimSpace(token); token == "" {
		return "", errors.New("no token: give --token-file, or set " + tokenEnv)
	}
	return token, nil
}

func serveTrials(ctx context.Context, stderr io.Writer, address, token, parent string) error {
	r, err := openRunner(parent, stderr)
	if err != nil {
		return err
	}
	if closer, ok := r.(io.Closer); ok {
		defer closer.Close()
	}
	return serveRunner(ctx, stderr, r, address, token, 0)
}

// serveRunner serves until ctx ends, which is how an agent ends in good order, or where
// idle is not 0 until nobody has asked for so long.
func serveRunner(ctx context.Context, stderr io.Writer, r runner.Runner, address, token string, idle time.Duration) error {
	s, err := remote.NewServer(r, token)
	if err != nil {
		return usageError(err)
	}
	l, err := remote.Listen(address)
	if err != nil {
		return usageError(err)
	}
	fmt.Fprintf(stderr, "serving trials on %s, protocol %s\n", l.Addr(), remote.Version)
	if idle > 0 {
		return s.ServeWhileAsked(ctx, l, idle)
	}
	return s.Serve(ctx, l)
}

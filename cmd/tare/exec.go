package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/launch"
)

// newExecCommand is the launcher; its flags are its own, so that tare exec and
// tare-exec are the same.
func newExecCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "exec [flags] -- java [options] -jar app.jar [arguments]",
		Short:              "Start a JVM so that it fits its container",
		Long:               fmt.Sprintf(launch.Help, "tare exec"),
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			p := launch.Host(append([]string{"tare exec"}, args...))
			p.Stdout, p.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if code := p.Run(); code != exitOK {
				return &exitError{code: code} // it has said why
			}
			return nil
		},
	}
}

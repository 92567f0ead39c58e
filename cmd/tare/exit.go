package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of all commands.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitTarget      = 3
	exitPermission  = 4
	exitNotReady    = 5
	exitNoLimit     = 6
	exitOverBudget  = 7
	exitNotKnown    = 8
	exitInterrupted = 130
)

// exitCodesHelp is the part of help texts that names the exit codes.
const exitCodesHelp = `0 done · 1 failure · 2 usage · 3 target not found or not a JVM ·
4 no permission, unsafe to ask, or no cgroup to write to · 5 the application did
not start or get ready · 6 no limit passes (the SLO cannot be met) ·
7 over the memory budget · 8 not known whether within it, for noise ·
130 interrupted
`

// exitError is an error with the exit code that it ends tare with. err is nil
// when the command has said why itself.
type exitError struct {
	code int
	err  error
}

// Error is the error's own text; empty when the command has said why itself.
func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap is the error itself.
func (e *exitError) Unwrap() error { return e.err }

// oneOf has a command refuse more than one of some flags.
func oneOf(cmd *cobra.Command, flags ...string) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		var given []string
		for _, name := range flags {
			if cmd.Flags().Changed(name) {
				given = append(given, "--"+name)
			}
		}
		if len(given) > 1 {
			return usageError(fmt.Errorf("%s exclude each other: give one of them", strings.Join(given, " and ")))
		}
		return nil
	}
}

package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// completeJVM offers the JVMs of this machine, by process id and described by
// name, for the first argument.
func completeJVM(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return jvmCompletions(), cobra.ShellCompDirectiveNoFileComp
}

// completeJVMOrFile offers files too.
func completeJVMOrFile(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return jvmCompletions(), cobra.ShellCompDirectiveDefault
}

func jvmCompletions() []cobra.Completion {
	all, err := process.List(linux.NewFS("/proc"))
	if err != nil {
		return nil
	}
	var found []cobra.Completion
	for _, t := range all {
		found = append(found, cobra.CompletionWithDesc(strconv.Itoa(t.PID), linux.Printable(fmt.Sprintf("%.60s", t.Name))))
	}
	return found
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/jdks"
	"tare.dev/tare/internal/linux"
)

// jdksOptions are the options of tare jdks.
type jdksOptions struct {
	JSON   bool
	Search jdks.Search
}

func newJDKsCommand() *cobra.Command {
	opts := jdksOptions{Search: jdks.OfThisMachine()}
	cmd := &cobra.Command{
		Use:   "jdks",
		Short: "List the JDKs of this machine and their defaults",
		Long: `List every JDK that is found in JAVA_HOME, PATH, /usr/lib/jvm, SDKMAN and tare's
cache, each once, with what it does on this machine when no option is given: the
collector, the largest heap, the stack size of Java, compiler and VM threads, and
whether its class data archive is there. Each JDK is started for that, without
the Java options of the environment, but one that only HOME led to and that
belongs to another user is not.

A JDK that does not work is listed with the reason; the exit code is 0 all the same.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runJDKs(cmd.Context(), cmd.OutOrStdout(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "print a JSON array")
	return cmd
}

func runJDKs(ctx context.Context, out io.Writer, opts jdksOptions) error {
	found, err := jdks.Find(ctx, opts.Search)
	if err != nil {
		return fmt.Errorf("looking for JDKs: %w", err)
	}
	if opts.JSON {
		if found == nil {
			found = []jdks.JDK{}
		}
		return writeJSON(out, found)
	}
	_, err = io.WriteString(out, jdksTable(found))
	return err
}

// jdksTable shows each JDK in two lines: its defaults in columns, and where it is.
func jdksTable(found []jdks.JDK) string {
	if len(found) == 0 {
		return "no JDK found: install one (apt-get install default-jdk-headless), or set JAVA_HOME\n"
	}
	rows := [][]string{{"VERSION", "VENDOR", "GC", "MAX HEAP", "STACK", "COMPILER", "VM", "CDS"}}
	for _, jdk := range found {
		rows = append(rows, jdkRow(jdk))
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var table strings.Builder
	for i, row := range rows {
		var line strings.Builder
		for column, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[column], cell)
		}
		fmt.Fprintln(&table, strings.TrimRight(line.String(), " "))
		if i == 0 {
			continue
		}
		jdk := found[i-1]
		fmt.Fprintf(&table, "  %s (%s)\n", linux.Printable(jdk.Home), strings.Join(jdk.Sources, ", "))
		if jdk.Error != "" {
			fmt.Fprintf(&table, "  error: %s\n", linux.Printable(jdk.Error))
		}
	}
	return table.String()
}

// maxVendor is the width of a vendor with which the table fits 80 columns.
const maxVendor = 16

func jdkRow(jdk jdks.JDK) []string {
	vendor := []rune(linux.Printable(jdk.Vendor))
	if len(vendor) > maxVendor {
		vendor = append(vendor[:maxVendor-1], '…')
	}
	cds := "no"
	if jdk.CDSArchive {
		cds = "yes"
	}
	row := []string{
		jdk.Version, string(vendor), jdk.DefaultCollector, heapSize(jdk.DefaultMaxHeapBytes),
		stackSize(jdk.ThreadStackSizeBytes), stackSize(jdk.CompilerThreadStackSizeBytes),
		stackSize(jdk.VMThreadStackSizeBytes), cds,
	}
	for i, cell := range row {
		if cell == "" {
			row[i] = "–"
		}
	}
	return row
}

// heapSize and stackSize leave what is not known empty. Stack sizes are written as
// -Xss takes them.
func heapSize(bytes int64) string {
	switch {
	case bytes == 0:
		return ""
	case bytes < 1<<30:
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

func stackSize(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%dk", bytes>>10)
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tare/internal/hotspot"
)

// jdksOptions are the options of tare jdks.
type jdksOptions struct {
	JSON   bool
	Search hotspot.JDKSearch
}

func newJDKsCommand() *cobra.Command {
	opts := jdksOptions{Search: hotspot.HostJDKs()}
	cmd := &cobra.Command{
		Use:   "jdks",
		Short: "List the JDKs of this machine and their defaults",
		Long: `List every JDK that is found in JAVA_HOME, PATH, /usr/lib/jvm, SDKMAN and tare's
cache, each once, with what it does on this machine when no option is given: the
collector, the largest heap, the stack size of Java, compiler and VM threads, and
whether its class data archive is there. Each JDK is started for that, without
the Java options of the environment.

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
	jdks, err := hotspot.FindJDKs(ctx, opts.Search)
	if err != nil {
		return fmt.Errorf("looking for JDKs: %w", err)
	}
	if opts.JSON {
		if jdks == nil {
			jdks = []hotspot.JDK{}
		}
		return writeJSON(out, jdks)
	}
	_, err = io.WriteString(out, jdksTable(jdks))
	return err
}

// jdksTable shows each JDK in two lines: its defaults in columns, and where it is.
func jdksTable(jdks []hotspot.JDK) string {
	if len(jdks) == 0 {
		return "no JDK found: install one (apt-get install default-jdk-headless), or set JAVA_HOME\n"
	}
	rows := [][]string{{"VERSION", "VENDOR", "GC", "MAX HEAP", "STACK", "COMPILER", "VM", "CDS"}}
	for _, jdk := range jdks {
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
		jdk := jdks[i-1]
		fmt.Fprintf(&table, "  %s (%s)\n", printable(jdk.Home), strings.Join(jdk.Sources, ", "))
		if jdk.Error != "" {
			fmt.Fprintf(&table, "  error: %s\n", printable(jdk.Error))
		}
	}
	return table.String()
}

// maxVendor is the width of a vendor with which the table fits 80 columns.
const maxVendor = 16

func jdkRow(jdk hotspot.JDK) []string {
	vendor := []rune(jdk.Vendor)
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

// printable keeps control characters of paths and messages off the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCommand writes the manual pages, for those who package tare.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a manual page of every command into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := manDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			root.InitDefaultCompletionCmd()
			header := doc.GenManHeader{Section: "1", Date: &date, Source: thisVersion(debug.ReadBuildInfo()).line(), Manual: "tare"}
			return doc.GenManTree(root, &header, args[0])
		},
	}
}

// manDate is the date of the pages, the same for each build of a commit: as
// reproducible-builds.org specifies SOURCE_DATE_EPOCH, else the commit's.
func manDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return thisVersion(debug.ReadBuildInfo()).Time.UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%.40q is no number of seconds", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

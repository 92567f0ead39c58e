package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jmhreport"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/launch"
	"tare.dev/tare/internal/lazy"
	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/profile"
	"tare.dev/tare/internal/report"
)

const versionSchema = "tare.version/1"

// schemas are the formats that tare writes, each with its version.
var schemas = []string{
	autopsy.Schema, autopsy.PodSchema, check.Schema, check.JUnitSchema, check.TrendSchema, document.Schema, launch.Schema, doctor.Schema, report.BakeSchema, report.DiffSchema, report.FitListSchema, report.FitSchema, footprint.Schema,
	jmhreport.ComparisonSchema, jmhreport.ReportSchema, lab.Schema, profile.Schema, topSchema, versionSchema,
}

// version is what tare version says.
type version struct {
	Schema  string `json:"schema"`
	Version string `json:"version"`
	// Commit is empty where the build does not know it, as outside of a clone.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Time is the commit's.
	Time time.Time `json:"time,omitzero"`
	Go   string    `json:"go"`
	OS   string    `json:"os"`
	Arch string    `json:"arch"`
	// Schemas are the formats of the files and of the JSON that tare writes.
	Schemas []string `json:"schemas"`
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "The version of tare, its commit, and the formats that it writes",
		Long: `Version prints the version, the commit that tare was built from, the version of
Go, and the name and version of every format that tare writes. A format keeps its
version as long as fields are only added.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := thisVersion(debug.ReadBuildInfo())
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), v)
			}
			_, err := io.WriteString(cmd.OutOrStdout(), v.text())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON (schema "+versionSchema+")")
	return cmd
}

// pseudoVersion is in the version of a commit without a tag (go.dev/ref/mod).
var pseudoVersion = lazy.Regexp(`[0-9]{14}-[0-9a-f]{12}`)

// thisVersion reads what the Go tool noted in the program.
func thisVersion(info *debug.BuildInfo, ok bool) version {
	v := version{Schema: versionSchema, Version: names.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Schemas: schemas}
	if !ok {
		return v
	}
	// What go install took from the module proxy has a version of its own.
	if m := info.Main.Version; m != "" && m != "(devel)" && !pseudoVersion().MatchString(m) {
		v.Version = strings.TrimPrefix(m, "v")
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		case "vcs.time":
			v.Time, _ = time.Parse(time.RFC3339, s.Value)
		}
	}
	return v
}

// text is the answer for a reader; its first line is that of --version.
func (v version) text() string {
	return v.line() + "\n" + fmt.Sprintf("%s %s/%s\n", v.Go, v.OS, v.Arch) + "formats: " + strings.Join(v.Schemas, ", ") + "\n"
}

func (v version) line() string {
	line := "tare " + v.Version
	if v.Commit != "" {
		line += ", commit " + v.Commit[:min(12, len(v.Commit))]
	}
	if v.Modified {
		line += ", modified"
	}
	return line
}

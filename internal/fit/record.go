package fit

import (
	"strings"
	"time"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// Record is what a fit was of, as plain data that reports show. Secrets are
// redacted. The fields are as in Config.
type Record struct {
	Command jvmopts.Command
	Image   *Image
	Java    Java
	// Env are the variables that decide how a JVM and its C library run, and
	// those given for this application.
	Env []string
	// Dir is the folder that the fit was started in.
	Dir    string
	CPUs   float64
	Cpuset string

	Ready        trial.Ready
	ReadyTimeout time.Duration
	Job          bool
	Load         load.Description
	Warmup       time.Duration
	Duration     time.Duration
	Requests     int64
	SLO          trial.SLO

	AmpleBytes int64
	// ArchiveDir is as in Config.
	ArchiveDir string
	Terms
}

// record is the record of a config.
func (c Config) record() Record {
	command := c.Command
	command.Options, command.Main, command.Args = redactWords(c.Command.Options), redactWords(c.Command.Main), redactWords(c.Command.Args)
	return Record{Command: command, Image: c.Image, Java: c.Java, Env: redactEnv(decidingEnv(c)), Dir: c.From, CPUs: c.CPUs, Cpuset: c.Cpuset,
		Ready: c.Ready, ReadyTimeout: c.ReadyTimeout, Job: c.Job, Load: redactLoad(c.Load.Description), Warmup: c.Warmup, Duration: c.Duration, Requests: c.Requests, SLO: c.SLO,
		AmpleBytes: c.AmpleBytes, ArchiveDir: c.ArchiveDir, Terms: c.Terms}
}

// redactLoad redacts what describes a load.
func redactLoad(d load.Description) load.Description {
	d.Command, d.Targets = redactWords(d.Command), redactWords(d.Targets)
	return d
}

// ToolOptions joins options for JAVA_TOOL_OPTIONS, with the user's own value.
func (r Record) ToolOptions(options []string) string { return toolOptions(r.Env, options) }

// toolOptions joins options for JAVA_TOOL_OPTIONS, where quotes keep spaces (and
// no quote can be escaped); the user's own value comes last and wins.
func toolOptions(env, options []string) string {
	words := make([]string, 0, len(options)+1)
	for _, o := range options {
		if strings.ContainsAny(o, " \t\n\"") {
			o = "'" + o + "'"
		}
		words = append(words, o)
	}
	for _, e := range env {
		if own, ok := strings.CutPrefix(e, "JAVA_TOOL_OPTIONS="); ok && own != "" {
			words = append(words, own)
		}
	}
	return strings.Join(words, " ")
}

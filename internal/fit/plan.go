package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// Plan is what decides how a fit goes, as it is stored: a Config without what
// lives in a process, and the machine. Two fits of one plan make the same
// trials as long as their outcomes agree.
type Plan struct {
	// Command is the java command as given, the launcher first. CommandDigest is
	// of the command with its secrets; empty in plans that hold them.
	Command       []string
	CommandDigest string `json:",omitempty"`
	Java          Java
	// Dir is the folder that the fit was started in.
	Dir string
	// Files are the application's own files. What those in an image hold need not be
	// known: its ID tells.
	Files []File
	Image *Image `json:",omitempty"`
	// Env are the variables that decide how a JVM and its C library run, and
	// those given for this application. EnvDigest is of them with their secrets;
	// empty in plans that hold those.
	Env       []string
	EnvDigest string `json:",omitempty"`
	CPUs      float64
	Cpuset    string

	// Ready and SLO are in the form that trial.ParseReady and trial.ParseSLO
	// read.
	Ready        string
	ReadyTimeout time.Duration
	Job          bool
	SLO          string
	Load         PlannedLoad
	Warmup       time.Duration
	Duration     time.Duration
	Requests     int64 `json:",omitempty"`

	AmpleBytes     int64
	MostAmpleBytes int64 `json:",omitempty"`
	// Levers are the levers' names in their order, LeversDigest is of all
	// that they hold.
	Levers       []string
	LeversDigest string
	Terms

	Runner  string
	Machine Machine
	// ArchiveDir is as in Config: a fit that goes on finds its archives there.
	ArchiveDir string `json:",omitempty"`
}

// File is a file of the application and what it holds: the SHA-256 of its
// bytes, of a folder that of the names, sizes and times of its files; empty
// where the runner knows no such file.
type File struct{ Name, Digest string }

// PlannedLoad is a Load as it is stored; Digest is the loader's.
type PlannedLoad struct {
	load.Description
	Digest string
}

// NewPlan is the plan of a fit. The runner reads the application's files.
func NewPlan(ctx context.Context, c Config) (Plan, error) {
	r := c.record()
	p := Plan{Command: r.Command.With(), CommandDigest: load.Digest(c.Command.With()), Image: c.Image, Java: c.Java, Dir: c.From, Env: r.Env, EnvDigest: load.Digest(decidingEnv(c)),
		CPUs: c.CPUs, Cpuset: c.Cpuset, Ready: c.Ready.String(), ReadyTimeout: c.ReadyTimeout, Job: c.Job, SLO: c.SLO.String(), Load: PlannedLoad{Description: r.Load, Digest: loadDigest(c.Load.Loader)},
		Warmup: c.Warmup, Duration: c.Duration, Requests: c.Requests, AmpleBytes: c.AmpleBytes, MostAmpleBytes: c.MostAmpleBytes, LeversDigest: load.Digest(c.Levers), Terms: c.Terms, Machine: c.Machine, ArchiveDir: c.ArchiveDir}
	if c.Runner != nil {
		p.Runner = c.Runner.Name()
	}
	for _, l := range c.Levers {
		p.Levers = append(p.Levers, l.Name)
	}
	files, err := c.files(ctx, c.Command)
	if err != nil {
		return p, err
	}
	for _, o := range c.Command.Options {
		if file, ok := strings.CutPrefix(o, "@"); ok {
			files = append(files, c.path(file))
		}
	}
	for _, path := range files {
		sum, err := fileDigest(ctx, c.Runner, path)
		if err != nil {
			return p, fmt.Errorf("file of the application: %w", err)
		}
		name := path
		if relative, err := filepath.Rel(c.Dir, path); err == nil && filepath.IsLocal(relative) {
			name = relative
		}
		p.Files = append(p.Files, File{name, sum})
	}
	return p, nil
}

// decidingNames are the variables that decide how a JVM, its C library (ld.so(8),
// mallopt(3)) and the usual start scripts run.
var decidingNames = []string{"JAVA_HOME", "JAVA_OPTS", "JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "GLIBC_TUNABLES",
	"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "LD_BIND_NOW", "LD_HWCAP_MASK"}

// decidingEnv is the part of the environment that is compared: the rest
// differs from shell to shell, and may hold secrets.
func decidingEnv(c Config) []string {
	var out []string
	for _, e := range c.Env {
		name, _, _ := strings.Cut(e, "=")
		if slices.Contains(decidingNames, name) || strings.HasPrefix(name, "MALLOC_") || slices.Contains(c.AddedEnv, e) {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out
}

// loadDigest is what the loader says of itself; nil is no load.
func loadDigest(l load.Loader) string {
	if l == nil {
		return load.Digest(nil)
	}
	return l.Digest()
}

// fileDigest is the Digest of a File.
func fileDigest(ctx context.Context, h runner.Host, name string) (string, error) {
	f, err := h.File(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return f.Digest, err
}

// Differences says how a later plan differs, in lines such as "the JDK
// was 17.0.15, and is 21.0.3"; none where trials of both may be mixed.
func (p Plan) Differences(now Plan) []string {
	var out []string
	was, is := p.terms(), now.terms()
	for i, t := range was {
		if t.digest != is[i].digest || t.value != is[i].value {
			text := fmt.Sprintf("%s was %s, and is %s", t.name, t.value, is[i].value)
			if t.value == is[i].value {
				text = fmt.Sprintf("%s %s changed", t.name, t.value)
			}
			out = append(out, text)
		}
	}
	return out
}

// term is a part of a plan: in words, and where those do not tell all a digest.
type term struct{ name, value, digest string }

func (p Plan) terms() []term {
	m := p.Machine
	var files []string
	for _, f := range p.Files {
		files = append(files, f.Name)
	}
	return []term{
		{name: "the command", value: strings.Join(redactWords(p.Command), " "), digest: cmp.Or(p.CommandDigest, load.Digest(p.Command))},
		{name: "the folder", value: p.Dir},
		{name: "the image", value: p.Image.String()},
		{name: "the JDK", value: p.Java.Version + " in " + p.Java.Home},
		{name: "the application in", value: fileNames(files), digest: load.Digest(p.Files)},
		{name: "the environment", value: cmp.Or(strings.Join(redactEnv(p.Env), " "), "empty"), digest: cmp.Or(p.EnvDigest, load.Digest(p.Env))},
		{name: "the processors", value: fmt.Sprintf("%g (cpuset %q)", p.CPUs, p.Cpuset)},
		{name: "readiness", value: fmt.Sprintf("%s within %s", p.Ready, p.ReadyTimeout)},
		{name: "the kind of program", value: map[bool]string{true: "a job", false: "a service"}[p.Job]},
		{name: "the objective", value: p.SLO},
		{name: "the load", value: redactLoad(p.Load.Description).String(), digest: p.Load.Digest},
		{name: "the time of load", value: fmt.Sprintf("%s after %s", p.Duration, p.Warmup)},
		{name: "the requests of a load", value: fmt.Sprint(p.Requests)},
		{name: "the baseline's memory", value: fmt.Sprintf("%d MiB", p.AmpleBytes/mib)},
		{name: "the runs", value: p.runs()},
		{name: "the list of levers", value: strings.Join(p.Levers, ", "), digest: p.LeversDigest},
		{name: "the preference", value: string(p.Prefer)},
		{name: "the curve over heaps", value: map[bool]string{true: "wanted", false: "not wanted"}[p.HeapCurve]},
		{name: "the margin", value: p.margin()},
		{name: "what is allowed", value: fmt.Sprint(p.Allow)},
		{name: "the runner", value: p.Runner},
		{name: "the machine", value: fmt.Sprintf("Linux %s %s with %d processors and %d MiB", m.Kernel, m.Arch, m.CPUs, m.MemoryBytes/mib)},
	}
}

// fileNames names some files, and says how many more there are.
func fileNames(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more files", strings.Join(names[:most], ", "), len(names)-most)
	}
	return cmp.Or(strings.Join(names, ", "), "no file")
}

// String is all of an image that trials depend on.
func (i *Image) String() string {
	if i == nil {
		return "none"
	}
	words := append([]string{i.Name, i.ID}, i.Run.Flags()...)
	if i.Compose != nil {
		words = append(words, "as service", i.Compose.Service, "of", i.Compose.File, "("+i.Compose.Digest+")")
	}
	return strings.Join(words, " ")
}

// CommandOf is a java command in its parts, or another one that starts a JVM by itself.
func CommandOf(args []string) (jvmopts.Command, error) {
	if len(args) > 0 {
		if c := (jvmopts.Command{Java: args[0], Args: args[1:]}); !c.IsJava() {
			return c, nil
		}
	}
	return jvmopts.Parse(args)
}

// runs says how many runs of which kind are made.
func (t Terms) runs() string {
	text := fmt.Sprintf("%d baselines and %d confirmations, %d trials before them", t.Baselines, t.Confirmations, cmp.Or(t.MaxTrials, DefaultTrials))
	if t.Budget > 0 {
		text += fmt.Sprintf(" within %s", t.Budget)
	}
	if t.WarmBlocks > 1 {
		text += fmt.Sprintf(", a warm-up %d times as long at most", t.WarmBlocks)
	}
	if t.Parallel > 0 {
		text += fmt.Sprintf(", on %d nodes", t.Parallel)
	}
	if t.Ablation {
		text += fmt.Sprintf(", and an ablation (seed %d)", t.Seed)
	}
	return text
}

// margin says how the margin is made.
func (t Terms) margin() string {
	if t.Margin < 0 {
		return "by the spread"
	}
	return fmt.Sprintf("%g %%", 100*t.Margin)
}

// Record is the record of the fit that was planned.
func (p Plan) Record() (Record, error) {
	r := Record{Image: p.Image, Java: p.Java, Env: redactEnv(p.Env), Dir: p.Dir, CPUs: p.CPUs, Cpuset: p.Cpuset, ReadyTimeout: p.ReadyTimeout, Job: p.Job,
		Load: redactLoad(p.Load.Description), Warmup: p.Warmup, Duration: p.Duration, Requests: p.Requests, AmpleBytes: p.AmpleBytes, ArchiveDir: p.ArchiveDir, Terms: p.Terms}
	var errs [3]error
	r.Command, errs[0] = CommandOf(redactWords(p.Command))
	if !p.Job {
		r.Ready, errs[1] = trial.ParseReady(p.Ready)
	}
	r.SLO, errs[2] = trial.ParseSLO(p.SLO)
	if err := errors.Join(errs[:]...); err != nil {
		return r, fmt.Errorf("stored plan: %w", err)
	}
	return r, nil
}

package fit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/internal/jvmopts"
	"tare/internal/load"
	"tare/internal/trial"
)

// Plan is what decides how a fit goes, as it is stored: a Config without what
// lives in a process, and the machine. Two fits of one plan make the same
// trials as long as their outcomes agree.
type Plan struct {
	// Command is the java command as given, the launcher first.
	Command []string
	Java    Java
	Dir     string
	// Files are the application's own files, of an image none: its ID tells.
	Files []File
	Image *Image `json:",omitempty"`
	// Env are the variables that decide how a JVM and its C library run, and
	// those given for this application.
	Env    []string
	CPUs   float64
	Cpuset string

	// Ready and SLO are in the form that trial.ParseReady and trial.ParseSLO
	// read.
	Ready        string
	ReadyTimeout time.Duration
	Job          bool
	SLO          string
	Load         PlannedLoad
	Warmup       time.Duration
	Duration     time.Duration

	AmpleBytes int64
	// Levers are the levers' names in their order, LeversDigest is of all
	// that they hold.
	Levers       []string
	LeversDigest string
	Terms

	Runner  string
	Machine Machine
}

// File is a file of the application and what it holds: the SHA-256 of its
// bytes, of a folder that of the names, sizes and times of its files; empty
// where there is no such file.
type File struct{ Name, Digest string }

// PlannedLoad is a Load as it is stored; Digest is of all that is sent.
type PlannedLoad struct {
	Targets     []string
	Digest      string
	Command     []string
	Concurrency int
	Rate        float64
}

// NewPlan is the plan of a fit on this machine. It reads the application's
// files.
func NewPlan(c Config) (Plan, error) {
	p := Plan{Command: c.Command.With(), Image: c.Image, Java: c.Java, Dir: c.Dir, Env: decidingEnv(c), CPUs: c.CPUs, Cpuset: c.Cpuset, Ready: c.Ready.String(),
		ReadyTimeout: c.ReadyTimeout, Job: c.Job, SLO: c.SLO.String(), Warmup: c.Warmup, Duration: c.Duration, AmpleBytes: c.AmpleBytes, Terms: c.Terms,
		LeversDigest: digest(c.Levers), Machine: ThisMachine(),
		Load: PlannedLoad{Digest: digest(c.Load.Targets), Command: c.Load.Command, Concurrency: c.Load.Concurrency, Rate: c.Load.Rate}}
	if c.Runner != nil {
		p.Runner = c.Runner.Name()
	}
	for _, l := range c.Levers {
		p.Levers = append(p.Levers, l.Name)
	}
	for _, t := range c.Load.Targets {
		p.Load.Targets = append(p.Load.Targets, t.String())
	}
	if c.Image != nil {
		return p, nil
	}
	names := c.Command.Files()
	for _, o := range c.Command.Options {
		if file, ok := strings.CutPrefix(o, "@"); ok {
			names = append(names, file)
		}
	}
	for _, name := range names {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.Dir, path)
		}
		sum, err := fileDigest(path)
		if err != nil {
			return p, fmt.Errorf("file of the application: %w", err)
		}
		p.Files = append(p.Files, File{name, sum})
	}
	return p, nil
}

// decidingEnv is the part of the environment that is compared: the rest
// differs from shell to shell, and may hold secrets.
func decidingEnv(c Config) []string {
	var out []string
	for _, e := range c.Env {
		name, _, _ := strings.Cut(e, "=")
		if slices.ContainsFunc([]string{"JAVA_", "JDK_JAVA_", "_JAVA_", "MALLOC_", "LD_"}, func(p string) bool { return strings.HasPrefix(name, p) }) ||
			name == "CLASSPATH" || name == "GLIBC_TUNABLES" || slices.Contains(c.AddedEnv, e) {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out
}

// digest is of plain data, of which JSON tells all.
func digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a type that JSON cannot hold: an error of the program
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// fileDigest is the Digest of a File.
func fileDigest(name string) (string, error) {
	st, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if st.IsDir() {
		err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				fmt.Fprintf(h, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
			}
			return err
		})
		return hex.EncodeToString(h.Sum(nil)), err
	}
	if !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file or folder", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// Differences says what a later plan has otherwise, in lines such as "the JDK
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
		{name: "the command", value: strings.Join(p.Command, " ")},
		{name: "the folder", value: p.Dir},
		{name: "the image", value: p.Image.String()},
		{name: "the JDK", value: p.Java.Version + " in " + p.Java.Home},
		{name: "the application in", value: cmp.Or(strings.Join(files, ", "), "no file"), digest: digest(p.Files)},
		{name: "the environment", value: cmp.Or(strings.Join(p.Env, " "), "empty")},
		{name: "the processors", value: fmt.Sprintf("%g (cpuset %q)", p.CPUs, p.Cpuset)},
		{name: "readiness", value: fmt.Sprintf("%s within %s", p.Ready, p.ReadyTimeout)},
		{name: "the kind of program", value: map[bool]string{true: "a job", false: "a service"}[p.Job]},
		{name: "the objective", value: p.SLO},
		{name: "the load", value: p.Load.String(), digest: p.Load.Digest},
		{name: "the time of load", value: fmt.Sprintf("%s after %s", p.Duration, p.Warmup)},
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

// String is the image's name and ID.
func (i *Image) String() string {
	if i == nil {
		return "none"
	}
	return i.Name + " " + i.ID
}

// CommandOf is a command that is not java's, but starts a JVM.
func CommandOf(args []string) jvmopts.Command {
	return jvmopts.Command{Java: args[0], Args: args[1:]}
}

// runs says how many runs of which kind are made.
func (t Terms) runs() string {
	text := fmt.Sprintf("%d baselines and %d confirmations, %d trials before them", t.Baselines, t.Confirmations, cmp.Or(t.MaxTrials, DefaultTrials))
	if t.Budget > 0 {
		text += fmt.Sprintf(" within %s", t.Budget)
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

// String says what is sent, and how.
func (l PlannedLoad) String() string {
	switch {
	case len(l.Command) > 0:
		return strings.Join(l.Command, " ")
	case len(l.Targets) == 0:
		return "none"
	case l.Rate > 0:
		return fmt.Sprintf("%s, %g per second, up to %d at a time", strings.Join(l.Targets, ", "), l.Rate, l.Concurrency)
	}
	return fmt.Sprintf("%s, %d at a time", strings.Join(l.Targets, ", "), l.Concurrency)
}

// Config is the part of the Config that reports look at. It is not for running:
// runner, loader, and the targets' headers and bodies are not in a plan.
func (p Plan) Config() (Config, error) {
	c := Config{Image: p.Image, Java: p.Java, Env: p.Env, Dir: p.Dir, CPUs: p.CPUs, Cpuset: p.Cpuset, ReadyTimeout: p.ReadyTimeout, Job: p.Job, Warmup: p.Warmup, Duration: p.Duration,
		AmpleBytes: p.AmpleBytes, Terms: p.Terms,
		Load: Load{Command: p.Load.Command, Concurrency: p.Load.Concurrency, Rate: p.Load.Rate}}
	var errs [3]error
	if p.Image != nil && p.Image.ByVariable {
		c.Command = CommandOf(p.Command)
	} else {
		c.Command, errs[0] = jvmopts.Parse(p.Command)
	}
	if !p.Job {
		c.Ready, errs[1] = trial.ParseReady(p.Ready)
	}
	c.SLO, errs[2] = trial.ParseSLO(p.SLO)
	for _, s := range p.Load.Targets {
		t, err := load.ParseTarget(s)
		if err != nil {
			return c, fmt.Errorf("stored plan: %w", err)
		}
		c.Load.Targets = append(c.Load.Targets, t)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return c, fmt.Errorf("stored plan: %w", err)
	}
	return c, nil
}

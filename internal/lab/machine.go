package lab

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/vm"
)

// Machine is a virtual machine that a run is made in: one of its own for every
// run, with cgroup v2. Its processor is emulated, so that times there tell
// nothing; memory does.
type Machine struct {
	// Kernel is the Debian suite that the kernel comes from: bookworm (Linux
	// 6.1), trixie (6.12) or sid.
	Kernel Scalar `yaml:"kernel"`
	// Memory is the machine's, such as 256m; CPUs its number of processors.
	Memory Scalar `yaml:"memory"`
	CPUs   Scalar `yaml:"cpus"`
	// Settings are files below /sys/kernel/mm and /proc/sys/vm, and what is
	// written to them before the program starts.
	Settings map[string]Scalar `yaml:"settings"`
	// Timeout bounds boot and run together; 10 minutes when 0.
	Timeout Duration `yaml:"timeout"`
}

const (
	machineTimeout = 10 * time.Minute
	// machineDisk is what a program and its logs may write there.
	machineDisk = 256 << 20
	jobFile     = ".tare-job.json"
	recordStart = `{"schema":"` + Schema + `"`
)

// settable are the folders that settings may name files of.
var settable = []string{"/sys/kernel/mm/", "/proc/sys/vm/"}

// options are the virtual machine's, without what is copied there.
func (m *Machine) options() (vm.Options, error) {
	o := vm.Options{Kernel: string(m.Kernel), Disk: machineDisk, Timeout: time.Duration(m.Timeout), HostLibs: true}
	if o.Timeout == 0 {
		o.Timeout = machineTimeout
	}
	o.Timeout = o.Timeout.Round(time.Second)
	if m.Memory != "" {
		n, err := runner.ParseSize(string(m.Memory))
		if err != nil || n%(1<<20) != 0 || n < 64<<20 {
			return o, fmt.Errorf("machine: memory %q: give whole MiB from 64m up", m.Memory)
		}
		o.Memory = n
	}
	if m.CPUs != "" {
		n, err := strconv.Atoi(string(m.CPUs))
		if err != nil || n < 1 || n > 64 {
			return o, fmt.Errorf("machine: cpus %q: give 1 to 64", m.CPUs)
		}
		o.CPUs = n
	}
	for file := range m.Settings {
		if filepath.Clean(file) != file || !slices.ContainsFunc(settable, func(dir string) bool { return strings.HasPrefix(file, dir) }) {
			return o, fmt.Errorf("machine: setting %q: give a file below %s", file, strings.Join(settable, " or "))
		}
	}
	return o, nil
}

// machineJob is what the lab in the machine is told.
type machineJob struct {
	Dir     string
	Java    fit.Java
	Run     Run
	Search  *Search
	Measure []string
	Hints   hints
}

// runInMachine boots a machine, runs one cell there by tare itself, and brings
// its record back.
func (l *Lab) runInMachine(ctx context.Context, run Run, at Place, known hints) (*Record, error) {
	java := at.Java
	o, err := run.Machine.options()
	if err != nil {
		return nil, err
	}
	job, err := l.scratch.file("job.json")
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(machineJob{l.Dir, java, run, l.Experiment.Search, l.Experiment.Measure, known})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(job, b, 0o600); err != nil {
		return nil, err
	}
	guestJob := filepath.Join(l.Dir, jobFile)
	o.Copies = append(o.Copies, vm.Copy{Host: job, Guest: guestJob}, vm.Copy{Host: l.Self, Guest: "/bin/tare"})
	more, err := l.machineFiles(run, java)
	if err != nil {
		return nil, err
	}
	for _, f := range more {
		o.Copies = append(o.Copies, vm.Copy{Host: f})
	}
	result, err := vm.Run(ctx, o, []string{"/bin/tare", "lab", "in-machine", guestJob})
	if err != nil {
		return nil, err
	}
	return recordIn(result)
}

// machineFiles are the files that a run needs: its own, the JDK, and the C
// library that the JDK brings along beside it, if it does.
func (l *Lab) machineFiles(run Run, java fit.Java) ([]string, error) {
	spec, err := run.spec(Place{Java: java, Dir: l.Dir}, 1)
	if err != nil {
		return nil, err
	}
	files := append(slices.DeleteFunc(slices.Clone(spec.Files), func(f string) bool { return strings.Contains(f, archiveMark) }), java.Home)
	interpreter, err := interpreterOf(java.Path)
	if err != nil {
		return nil, err
	}
	beside := filepath.Dir(java.Home)
	if rel, err := filepath.Rel(beside, interpreter); err == nil && !strings.HasPrefix(rel, "..") {
		first, _, _ := strings.Cut(rel, "/")
		if own := filepath.Join(beside, first); own != java.Home {
			files = append(files, own)
		}
	}
	return files, nil
}

// interpreterOf is the dynamic loader that a program asks for.
func interpreterOf(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("java launcher %s: %w", program, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b := make([]byte, min(p.Filesz, 4096))
			if _, err := p.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
				return "", fmt.Errorf("java launcher %s: %w", program, err)
			}
			return strings.TrimRight(string(b), "\x00"), nil
		}
	}
	return "", fmt.Errorf("java launcher %s is statically linked: not a JDK's", program)
}

// recordIn finds the record in what the lab in the machine wrote.
func recordIn(result vm.Result) (*Record, error) {
	for line := range strings.Lines(result.Output) {
		if !strings.HasPrefix(line, recordStart) {
			continue
		}
		rec := &Record{}
		if err := json.Unmarshal([]byte(line), rec); err != nil {
			return nil, fmt.Errorf("the record out of the machine: %w", err)
		}
		return rec, nil
	}
	const end = 2000
	output := result.Output[max(0, len(result.Output)-end):]
	return nil, fmt.Errorf("the lab in the machine gave no record, exit code %d: %s", result.ExitCode, strings.TrimSpace(output))
}

// RunJob is the lab's part inside a machine: it changes the settings, makes the
// run that the file describes, and writes its record.
func RunJob(ctx context.Context, name string, r runner.Runner, w io.Writer) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var job machineJob
	if err := json.Unmarshal(b, &job); err != nil {
		return fmt.Errorf("job %s: %w", name, err)
	}
	if job.Run.Machine == nil {
		return fmt.Errorf("job %s is for no machine", name)
	}
	for _, file := range sortedKeys(job.Run.Machine.Settings) {
		if err := os.WriteFile(file, []byte(job.Run.Machine.Settings[file]), 0o644); err != nil {
			return fmt.Errorf("setting of the machine: %w", err)
		}
	}
	l := &Lab{Experiment: &Experiment{Search: job.Search, Measure: job.Measure}, Dir: job.Dir}
	if l.scratch, err = newScratch(name + scratchSuffix); err != nil {
		return err
	}
	defer l.scratch.remove()
	rec, err := l.measure(ctx, job.Run, Place{Runner: r, Java: job.Java, Dir: job.Dir, Env: os.Environ()}, job.Hints)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(rec)
}

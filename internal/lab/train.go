package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/trial"
)

const (
	// archiveName is the name in braces of what training makes.
	archiveName = "archive"
	archiveMark = "{" + archiveName + "}"
	// scratchSuffix makes the name of the folder of passing files of that of
	// the results: who holds the results' lock owns the folder.
	scratchSuffix = ".scratch"
	// trainGrace is how long a JVM may take to write its archive at its end.
	trainGrace = 5 * time.Minute
)

// scratch is the passing files of one process of the lab.
type scratch struct {
	dir string
	// archives are class archives by the run that made them.
	archives map[string]string
}

// newScratch removes what a killed lab left in the folder.
func newScratch(dir string) (*scratch, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("files of an earlier lab: %w", err)
	}
	return &scratch{dir, map[string]string{}}, nil
}

func (s *scratch) remove() { _ = os.RemoveAll(s.dir) } // the next lab tries again

// file is the path of a file in the folder, which is made.
func (s *scratch) file(name string) (string, error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return "", fmt.Errorf("folder for passing files: %w", err)
	}
	return filepath.Join(s.dir, name), nil
}

// checkTraining says whether {archive} is both made and used.
func (r Run) checkTraining() error {
	uses := r
	uses.Train = nil
	used := slices.Contains(uses.names(), archiveName)
	switch {
	case r.Train == nil && used:
		return fmt.Errorf("%s is what train makes: give train", archiveMark)
	case r.Train == nil:
		return nil
	case !namesArchive(strings.Join(r.Options, " ")):
		return fmt.Errorf("train makes %s, which stands in no option of the run", archiveMark)
	case !namesArchive(strings.Join(slices.Concat(r.Train.Options, r.Train.Then), " ")):
		return fmt.Errorf("%s stands in no option of train", archiveMark)
	}
	return nil
}

func namesArchive(text string) bool { return strings.Contains(text, archiveMark) }

// training is the run that makes the archive: as the run without it, with
// ample memory, on the machine where it runs.
func (r Run) training(options []string) Run {
	r.Options = slices.Concat(slices.DeleteFunc(slices.Clone(r.Options), namesArchive), options)
	r.Train, r.Machine, r.Launcher, r.Limit, r.SLO = nil, nil, nil, "", ""
	return r
}

// train makes the archive of the run, unless one was made already, and puts it
// in.
func (t *tester) train(ctx context.Context) error {
	if t.run.Train == nil {
		return nil
	}
	steps := *t.run.Train
	key := (&Experiment{}).Hash(Cell{Run: Run{JDK: Scalar(t.at.Java.Path), Train: &steps, Options: t.run.training(steps.Options).Options, Command: t.run.Command, Load: t.run.Load}})
	file, ok := t.lab.scratch.archives[key]
	if !ok {
		var err error
		if file, err = t.lab.scratch.file(key); err != nil {
			return err
		}
		if err := t.makeArchive(ctx, steps, file); err != nil {
			return err
		}
		t.lab.scratch.archives[key] = file
	}
	t.run.Train = nil
	t.run = t.run.replace(func(name string) (string, bool) { return file, name == archiveName })
	return nil
}

func (t *tester) makeArchive(ctx context.Context, steps Train, file string) error {
	result, err := t.trainOnce(ctx, steps.Options, file, false)
	if err == nil && len(steps.Then) > 0 {
		result, err = t.trainOnce(ctx, steps.Then, file, true)
	}
	if err != nil {
		return fmt.Errorf("class archive: %w", err)
	}
	if made, err := t.at.Runner.File(ctx, file); err != nil || made.Bytes == 0 {
		return fmt.Errorf("no class archive was made: the last run of train was %s, %s: %s", result.Verdict, trial.ExitText(result.Exit),
			strings.Join(result.Evidence, "; "))
	}
	if err := t.at.Runner.Flush(ctx, file); err != nil {
		return fmt.Errorf("class archive: %w", err)
	}
	return nil
}

// trainOnce makes one run of the training; a job ends by itself.
func (t *tester) trainOnce(ctx context.Context, options []string, file string, job bool) (*trial.Result, error) {
	ports, err := t.at.Runner.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	run := t.run.training(options).replace(func(name string) (string, bool) { return file, name == archiveName })
	spec, err := run.spec(t.at, ports[0])
	if err != nil {
		return nil, err
	}
	spec.StopGrace = trainGrace
	if job {
		spec.Job, spec.Ready, spec.Loader, spec.ReadyTimeout = true, trial.Ready{}, nil, trainGrace
	}
	return trial.Run(ctx, t.at.Runner, spec)
}

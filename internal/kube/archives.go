package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tare.dev/tare/internal/bounded"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/remote"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// Archives and extracted jars of a fit are in a folder of this machine. The pod of a trial
// has a volume at runner.InImage, which is as old as the pod and goes with it: its agent
// puts there what the trial needs, before the application starts, and gives what a training
// run wrote, when the application has ended.

// archives are those of a fit, of whatever node its pods are on.
type archives struct {
	runner.ImageArchives

	mu sync.Mutex
	// training is the file of this machine that a trial is to train, "" for none; untrained
	// is why it did not.
	training  string
	untrained error
	nested    nested
	// scratch is a folder of this machine with the copy of the jar, which goes with this
	// process; nil for none.
	scratch runner.Archives
}

const archivesName = "tare-archives"

// archivesVolume has room for an archive, and for what its training writes beside it: the
// kubelet evicts a pod that writes more.
func archivesVolume() (corev1.Volume, corev1.VolumeMount) {
	room := resource.NewQuantity(3*remote.MaxFile, resource.BinarySI)
	return corev1.Volume{Name: archivesName, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: room}}},
		corev1.VolumeMount{Name: archivesName, MountPath: runner.InImage}
}

// hasArchives says why pods cannot have that volume; nil where they can.
func (t Template) hasArchives() error {
	if slices.ContainsFunc(t.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return path.Clean(m.MountPath) == runner.InImage }) {
		return fmt.Errorf("%w: the pod has a volume of its own at %s", runner.ErrNoArchives, runner.InImage)
	}
	return nil
}

// MakeArchives makes a folder of this machine, for the pods that are made from now on.
func (r *Runner) MakeArchives(ctx context.Context, base string) (runner.Archives, error) {
	if err := r.template.hasArchives(); err != nil {
		return nil, err
	}
	return r.ImageArchives.MakeArchives(ctx, base)
}

// OpenArchives takes a folder of this machine, for the pods that are made from now on.
func (r *Runner) OpenArchives(ctx context.Context, dir string) (runner.Archives, error) {
	if err := r.template.hasArchives(); err != nil {
		return nil, err
	}
	return r.ImageArchives.OpenArchives(ctx, dir)
}

// inPods is the path in pods of a file directly in the folder of archives.
func inPods(file string) string { return path.Join(runner.InImage, filepath.Base(file)) }

// OpenTraining has the trial that names the path write the file in its pod.
func (a *archives) OpenTraining(ctx context.Context, file string) (string, error) {
	if a.Shared() == "" || filepath.Dir(file) != a.Shared() {
		return "", fmt.Errorf("class archive %s: %w", file, runner.ErrNoArchives)
	}
	if err := runner.ThisHost().Remove(ctx, file); err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.training, a.untrained = file, nil
	return inPods(file), nil
}

// TakeTrained says what became of the file: the trial has fetched it.
func (a *archives) TakeTrained(ctx context.Context, _ string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := cmp.Or(ctx.Err(), a.untrained)
	a.training, a.untrained = "", nil
	return err
}

// trainedBy is the file that a trial is to train, "" for none.
func (a *archives) trainedBy(s trial.Spec) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	writes := inPods(a.training)
	if a.training == "" || !slices.ContainsFunc(slices.Concat(s.Args, s.Env), func(x string) bool { return strings.Contains(x, writes) }) {
		return ""
	}
	return a.training
}

// isNested says that a jar is the application's and holds jars; here is its copy.
func (a *archives) isNested(jar string) (ok bool, here string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return jar != "" && jar == a.nested.jar, a.nested.here
}

// nested is the application's jar where it holds jars: as its command names it, where it
// is in the image, and the time that a copy of it gets. here is that copy, "" for none yet.
type nested struct {
	jar, from string
	changed   time.Time
	here      string
}

// Nested tells the runner that the application's jar holds jars. From is where it is in
// the image, links resolved; its copies get the time changed.
func (a *archives) Nested(jar, from string, changed time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nested = nested{jar: jar, from: from, changed: changed}
}

// Extract copies the application's jar out of a pod, and takes it apart on this machine;
// the agents of later pods do so there.
func (r *Runner) Extract(ctx context.Context, jar, dir string) (string, error) {
	ok, here := r.isNested(jar)
	if !ok || filepath.Dir(dir) != r.Shared() {
		return "", fmt.Errorf("jar %s: %w", jar, runner.ErrNoArchives)
	}
	if here == "" {
		var err error
		if _, err = Anew(ctx, func() error { here, err = r.copyOut(ctx); return err }); err != nil {
			return "", fmt.Errorf("jar %s: %w", jar, err)
		}
	}
	return runner.ThisHost().Extract(ctx, here, dir)
}

const (
	copyMemory = 512 << 20
	maxSaid    = 4 << 10
)

// copyOut has the application's container put its jar into the volume, with no more
// rights than the application has, and copies it from there.
func (r *Runner) copyOut(ctx context.Context) (here string, err error) {
	jar := &r.nested
	if r.scratch == nil {
		if r.scratch, err = runner.ThisHost().MakeArchives(ctx, ""); err != nil {
			return "", err
		}
	}
	why := &bounded.Buffer{Most: maxSaid}
	process, err := r.start(ctx, runner.Spec{Args: runner.PodCopy(jar.from), Stderr: why, Limits: runner.Limits{MemoryBytes: copyMemory}})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, process.Close()) }()
	select {
	case <-process.Done():
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if e := process.Exit(); e != (runner.Exit{}) {
		return "", fmt.Errorf("it cannot be copied: exit code %d: %s", e.Code, linux.PrintableName(strings.TrimSpace(why.String())))
	}
	here = filepath.Join(r.scratch.Dir(), filepath.Base(jar.from))
	if err := process.pod.take(ctx, here); err != nil {
		return "", orLost(ctx, err)
	}
	if err := os.Chtimes(here, jar.changed, jar.changed); err != nil {
		return "", err
	}
	r.archives.mu.Lock()
	defer r.archives.mu.Unlock()
	jar.here = here
	return here, nil
}

// forget removes the copy of the jar.
func (a *archives) forget() error {
	if a.scratch == nil {
		return nil
	}
	return a.scratch.Close()
}

// put gives the pod what there is of the files that its trial starts from; one may be
// named more than once.
func (p *inPod) put(ctx context.Context, files []string) error {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(files))) {
		if p.runner.Shared() == "" || path.Dir(name) != runner.InImage || path.Clean(name) != name {
			continue // it is in the image, or in a folder that is named as well
		}
		here := filepath.Join(p.runner.Shared(), path.Base(name))
		st, err := os.Stat(here)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // the JVM will say so
		case err != nil:
			return err
		case st.IsDir():
			err = p.putExtracted(ctx, name)
		default:
			err = p.putFile(ctx, name, here)
		}
		if err != nil {
			return fmt.Errorf("%s for pod %s: %w", name, p.pod, orLost(ctx, err))
		}
	}
	return nil
}

func (p *inPod) putFile(ctx context.Context, name, here string) error {
	f, err := os.Open(here)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.client.Put(ctx, name, f)
}

// putExtracted has the agent make a folder of extracted jars as there is one here: it is
// of the same jar, with the same time.
func (p *inPod) putExtracted(ctx context.Context, dir string) error {
	_, here := p.runner.isNested("")
	jar := inPods(here)
	if err := p.putFile(ctx, jar, here); err != nil {
		return err
	}
	_, err := p.client.Extract(ctx, jar, dir)
	return err
}

// fetch fetches what the trial was to train.
func (p *inPod) fetch(ctx context.Context, s trial.Spec) error {
	file := p.runner.trainedBy(s)
	if file == "" {
		return nil
	}
	err := p.persist(ctx, func() string { return "" }, func() error { return p.take(ctx, file) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, runner.ErrNotWritten):
		p.runner.archives.mu.Lock()
		defer p.runner.archives.mu.Unlock()
		p.runner.untrained = err
		return nil
	case err != nil:
		return fmt.Errorf("class archive of pod %s: %w", p.pod, err)
	}
	return nil
}

// take copies a file of the pod to this machine; on an error nothing is left.
func (p *inPod) take(ctx context.Context, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = p.client.Take(ctx, inPods(file), f)
	err = errors.Join(err, f.Chmod(0o644), f.Close()) // others may run what is recommended
	if err != nil {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

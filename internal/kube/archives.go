package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tare.dev/tare/internal/remote"
	"tare.dev/tare/internal/runner"
)

// The archives of a fit are in a folder of this machine. The pod of a trial has a volume
// at runner.InImage, which is as old as the pod and goes with it: its agent puts there what
// the trial needs, before the application starts, and gives what a training run wrote, when
// the application has ended.

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

// OpenTraining has the next trial write the file in its pod.
func (r *Runner) OpenTraining(ctx context.Context, file string) (string, error) {
	if r.Shared() == "" || filepath.Dir(file) != r.Shared() {
		return "", fmt.Errorf("class archive %s: %w", file, runner.ErrNoArchives)
	}
	if err := runner.ThisHost().Remove(ctx, file); err != nil {
		return "", err
	}
	r.training, r.untrained = file, nil
	return path.Join(runner.InImage, filepath.Base(file)), nil
}

// TakeTrained says what became of the file: the trial has fetched it.
func (r *Runner) TakeTrained(ctx context.Context, _ string) error {
	err := errors.Join(ctx.Err(), r.untrained)
	r.training, r.untrained = "", nil
	return err
}

// Extract cannot be done: what an image holds is not known before a pod is there.
func (r *Runner) Extract(_ context.Context, jar, _ string) (string, error) {
	return "", fmt.Errorf("jar %s: %w", jar, runner.ErrNoArchives)
}

// put gives the pod what there is of the files that its trial starts from.
func (p *inPod) put(ctx context.Context, files []string) error {
	for _, name := range files {
		base, ok := strings.CutPrefix(name, runner.InImage+"/")
		if !ok || p.runner.Shared() == "" {
			continue // it is in the image
		}
		f, err := os.Open(filepath.Join(p.runner.Shared(), base))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the JVM will say so
		}
		if err != nil {
			return err
		}
		err = p.client.Put(ctx, name, f)
		f.Close()
		if err != nil && !remote.Answered(err) && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", errLost, err)
		}
		if err != nil {
			return fmt.Errorf("class archive for pod %s: %w", p.pod, err)
		}
	}
	return nil
}

// fetch fetches what the trial was to train.
func (p *inPod) fetch(ctx context.Context) error {
	file := p.runner.training
	if file == "" {
		return nil
	}
	err := p.persist(ctx, func() string { return "" }, func() error { return p.take(ctx, file) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, runner.ErrNotWritten):
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
	err = p.client.Take(ctx, path.Join(runner.InImage, filepath.Base(file)), f)
	err = errors.Join(err, f.Chmod(0o644), f.Close()) // others may run what is recommended
	if err != nil {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

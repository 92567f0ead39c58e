package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tare.dev/tare/internal/remote"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/bootjartest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/runnertest"
	"tare.dev/tare/internal/trial"
)

func runnerOf(mounts ...corev1.VolumeMount) *Runner {
	return &Runner{archives: &archives{}, template: Template{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", VolumeMounts: mounts}}}}}
}

// The folder of archives is one of this machine, as of a runner of containers.
func TestArchives(t *testing.T) {
	runnertest.Archives(t, runnerOf(), runner.InImage, runnertest.Abandon(t))
}

// A pod that has something at the place of the archives has none, and says so.
func TestPlaceOfArchivesTaken(t *testing.T) {
	runnertest.NoArchives(t, runnerOf(corev1.VolumeMount{Name: "data", MountPath: "/tare/"}))
}

// volumeOf is the volume of a pod, which is elsewhere here.
type volumeOf struct {
	runner.Runner
	here runner.Volume
}

func (v volumeOf) path(name string) string {
	return filepath.Join(v.here.Dir, strings.TrimPrefix(name, runner.InImage))
}

func (v volumeOf) Put(ctx context.Context, name string, changed time.Time, content io.Reader) error {
	return v.here.Put(ctx, v.path(name), changed, content)
}

func (v volumeOf) Take(ctx context.Context, name string) (*os.File, error) {
	return v.here.Take(ctx, v.path(name))
}

func (v volumeOf) Extract(ctx context.Context, jar, dir string) (string, error) {
	return v.here.TakeApart(ctx, v.path(jar), v.path(dir))
}

// inPodOf is a pod of a runner, the agent of which is in this process.
func inPodOf(t *testing.T, r *Runner) (p *inPod, volume string) {
	t.Helper()
	const token = "a token for tests alone"
	volume = t.TempDir()
	s, err := remote.NewServer(volumeOf{runnertest.OnlyHost(runner.ThisHost()), runner.Volume{Dir: volume}}, token)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := remote.NewClient(t.Context(), server.Listener.Addr().String(), token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &inPod{runner: r, pod: "trial", client: client}, volume
}

// trains is a host whose training runs are each in a pod of its own.
type trains struct {
	*Runner
	t      *testing.T
	pod    *inPod
	volume string
}

func (h *trains) OpenTraining(ctx context.Context, file string) (string, error) {
	h.pod, h.volume = inPodOf(h.t, h.Runner)
	return h.Runner.OpenTraining(ctx, file)
}

func (h *trains) TakeTrained(ctx context.Context, file string) error {
	return errors.Join(h.pod.fetch(ctx, trial.Spec{Env: []string{"JAVA_TOOL_OPTIONS=-XX:ArchiveClassesAtExit=/tare/app.jsa"}}), h.Runner.TakeTrained(ctx, file))
}

func TestTraining(t *testing.T) {
	h := &trains{Runner: runnerOf(), t: t}
	a, err := h.MakeArchives(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	runnertest.Training(t, h, a, func(file string) string {
		if file != "/tare/app.jsa" {
			t.Errorf("writes %s", file)
		}
		return filepath.Join(h.volume, filepath.Base(file))
	})
	if _, err := h.OpenTraining(t.Context(), filepath.Join(t.TempDir(), "app.jsa")); !errors.Is(err, runner.ErrNoArchives) {
		t.Errorf("a folder that no pod has was opened: %v", err)
	}
	// Another trial meanwhile, on another node say, is not taken for the training run.
	file := filepath.Join(a.Dir(), "app.jsa")
	if _, err := h.OpenTraining(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.volume, "app.jsa"), []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.pod.fetch(t.Context(), trial.Spec{Args: []string{"java", "-jar", "/app.jar"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another trial's file was taken: %v", err)
	}
}

// A pod is given what its trial starts from, and nothing of the image.
func TestPut(t *testing.T) {
	r := runnerOf()
	p, volume := inPodOf(t, r)
	if err := p.put(t.Context(), []string{"/tare/app.jsa"}); err != nil {
		t.Errorf("without a folder: %v", err)
	}
	a, err := r.MakeArchives(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	content := bytes.Repeat([]byte("archive\n"), 1<<20)
	for _, name := range []string{"app.jsa", "app.aot"} {
		if err := os.WriteFile(filepath.Join(a.Dir(), name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := filepath.Rel(a.Dir(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.put(t.Context(), []string{"/app.jar", "/tare/app.jsa", "/app.jar", "/tare/app.jsa", "/tare/none", "/tare/" + out, "/tare/.."}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(volume, "app.jsa"))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, want %d: %v", len(got), len(content), err)
	}
	if left, err := os.ReadDir(volume); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if err := p.put(t.Context(), []string{"/tare/app.jsa"}); err == nil || errors.Is(err, errLost) {
		t.Errorf("an agent that refuses is not lost: %v", err)
	}
}

// A pod has the jars that were extracted here, with their time.
func TestPutExtracted(t *testing.T) {
	r := runnerOf()
	p, volume := inPodOf(t, r)
	a, err := r.MakeArchives(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := r.Extract(t.Context(), "/app.jar", filepath.Join(a.Dir(), "extracted")); !errors.Is(err, runner.ErrNoArchives) {
		t.Errorf("a jar that is not known to hold jars: %v", err)
	}
	when := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	r.Nested("/app.jar", "/opt/shop.jar", when)
	if f, err := r.File(t.Context(), "/app.jar"); err != nil || !f.NestedJars {
		t.Errorf("%+v, %v", f, err)
	}
	r.nested.here = filepath.Join(t.TempDir(), "shop.jar") // as if copied from a pod
	bootjartest.Write(t, r.nested.here, jvmtest.Jar(t, "sysinfo.jar"), nil)
	if err := os.Chtimes(r.nested.here, when, when); err != nil {
		t.Fatal(err)
	}
	jar, err := r.Extract(t.Context(), "/app.jar", filepath.Join(a.Dir(), "extracted"))
	if err != nil || jar != filepath.Join(a.Dir(), "extracted", "shop.jar") {
		t.Fatal(jar, err)
	}
	if err := p.put(t.Context(), []string{"/tare/extracted/shop.jar", "/tare/extracted"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop.jar", "lib/a service.jar"} {
		here, err := os.ReadFile(filepath.Join(a.Dir(), "extracted", name))
		there, thereErr := os.ReadFile(filepath.Join(volume, "extracted", name))
		st, statErr := os.Stat(filepath.Join(volume, "extracted", name))
		if err := errors.Join(err, thereErr, statErr); err != nil || !bytes.Equal(here, there) || !st.ModTime().Equal(when) {
			t.Errorf("%s: %d bytes here, %d there, %v, %v", name, len(here), len(there), st, err)
		}
	}
}

// Containers have the volume where there is a folder of archives, and no others.
func TestVolumeOfJob(t *testing.T) {
	for _, archives := range []bool{false, true} {
		spec := runnerOf().template.job(metav1.OwnerReference{}, "fit", "secret", "", runner.Limits{}, archives).Spec.Template.Spec
		var mounted []string
		for _, c := range append(spec.InitContainers, spec.Containers...) {
			for _, m := range c.VolumeMounts {
				if m.MountPath == runner.InImage {
					mounted = append(mounted, c.Name)
				}
			}
		}
		var bounded bool
		for _, v := range spec.Volumes {
			bounded = bounded || v.Name == archivesName && v.EmptyDir != nil && v.EmptyDir.SizeLimit.Value() > remote.MaxFile
		}
		if want := "tare application"; archives && (strings.Join(mounted, " ") != want || !bounded) || !archives && (len(mounted) > 0 || bounded) {
			t.Errorf("archives %v: %q have the volume, bounded %v", archives, mounted, bounded)
		}
	}
}

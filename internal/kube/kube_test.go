package kube_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kube"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/bootjartest"
	"tare.dev/tare/internal/testkit/cluster"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/trial"
)

const mib = 1 << 20

const (
	agentImage = "docker.io/tare/tare:test"
	appImage   = "docker.io/tare/sysinfo:17"
)

// start is a cluster that has tare and the demo service, and tare itself.
func start(t *testing.T) (c *cluster.Cluster, tare string) {
	t.Helper()
	alone.Uses(t, "a Kubernetes cluster")
	tare = filepath.Join(t.TempDir(), "tare")
	build := exec.Command("go", "build", "-o", tare, "tare.dev/tare/cmd/tare")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	nested := filepath.Join(t.TempDir(), "nested.jar")
	bootjartest.Write(t, nested, jvmtest.Jar(t, "sysinfo.jar"), nil)
	c = cluster.Start(t, cluster.Image{Name: agentImage, Entrypoint: []string{"/usr/bin/tare"}, Files: map[string]string{"/usr/bin/tare": tare}},
		cluster.Image{Name: appImage, Files: map[string]string{"/jdk": jvmtest.Home(t, 17), "/app.jar": jvmtest.Jar(t, "sysinfo.jar"), "/nested.jar": nested, "/bin/sh": "/bin/dash", "/bin/tail": "/usr/bin/tail"}})
	return c, tare
}

func open(t *testing.T, c *cluster.Cluster, change func(*kube.Template)) *kube.Runner {
	t.Helper()
	r, err := tryOpen(t, c.Kubeconfig, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func tryOpen(t *testing.T, kubeconfig string, change func(*kube.Template)) (*kube.Runner, error) {
	t.Helper()
	client, err := kubeapi.Open(kubeapi.Options{Kubeconfig: kubeconfig, Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	template := kube.Template{Agent: agentImage, PullPolicy: corev1.PullNever, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: appImage}}}}
	if change != nil {
		change(&template)
	}
	return kube.NewRunner(t.Context(), client, template)
}

// All that trials in a cluster are, on one cluster: it takes long to start.
func TestCluster(t *testing.T) {
	c, tare := start(t)
	t.Run("process", func(t *testing.T) { testProcess(t, c) })
	t.Run("trial", func(t *testing.T) { testTrial(t, c) })
	t.Run("archive", func(t *testing.T) { testArchive(t, c) })
	t.Run("agent killed", func(t *testing.T) { testAgentKilled(t, c) })
	t.Run("sandbox killed", func(t *testing.T) { testSandboxKilled(t, c) })
	t.Run("server away", func(t *testing.T) { testServerAway(t, c) })
	t.Run("killed", func(t *testing.T) { testKilled(t, c) })
	t.Run("not started", func(t *testing.T) { testNotStarted(t, c) })
	t.Run("rights", func(t *testing.T) { testRights(t, c) })
	t.Run("copy", func(t *testing.T) { testCopy(t, c) })
	t.Run("fit", func(t *testing.T) { testFit(t, c, tare) })
	t.Run("kill -9", func(t *testing.T) { testKilledFit(t, c, tare) })
	t.Run("parallel", func(t *testing.T) { testParallel(t, c, tare) })
	c.Until(t, "", "get", "jobs,pods,secrets", "-o", "name")
	noVolumes(t, c)
}

// volumes are the volumes for archives that the node has.
func volumes(c *cluster.Cluster) []string {
	kubelet := filepath.Join(filepath.Dir(filepath.Dir(c.Kubeconfig)), "kubelet")
	found, _ := filepath.Glob(filepath.Join(kubelet, "pods", "*", "volumes", "*", "tare-archives")) // the pattern is well-formed
	return found
}

// noVolumes waits until the node has none.
func noVolumes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		if left := volumes(c); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// fitOf is a short fit of the demo service in the cluster.
func fitOf(t *testing.T, c *cluster.Cluster, tare string, more ...string) *exec.Cmd {
	args := []string{"fit", "--runner", "kubernetes", "--kubeconfig", c.Kubeconfig, "-n", "default", "--agent-image", agentImage, "--image", appImage,
		"--pull-policy", "Never", "--trials", "2", "--baselines", "1", "--confirmations", "1", "--margin", "5%", "--proof", "short", "--ample", "256m", "--warmup", "1s", "--duration", "2s",
		"--slo", "errors=0", "--store", "none", "--json", "--load", "http://127.0.0.1:8080/health"}
	args = append(append(args, more...), "--", "/jdk/bin/java", "-Xmx32m", "-jar", "/app.jar", "--port", "8080")
	return exec.CommandContext(t.Context(), tare, args...)
}

// The whole fit finds a limit, its trials are those of one node, and a class archive is
// among them.
func testFit(t *testing.T, c *cluster.Cluster, tare string) {
	t.Setenv("TARE_CACHE", t.TempDir())
	var errs bytes.Buffer
	profile := filepath.Join(t.TempDir(), "tare.json")
	cmd := fitOf(t, c, tare, "--trials", "10", "--margin", "25%", "--levers", "archive", "--profile", profile, "--out", t.TempDir())
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, &errs, out)
	}
	var got report.FitJSON
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.LimitBytes == nil || *got.LimitBytes < 30*mib || *got.LimitBytes > 256*mib || len(got.Trials) == 0 || !strings.Contains(errs.String(), "node localhost") ||
		strings.Contains(errs.String(), "not tried") {
		t.Errorf("%.3000s\n%s", out, &errs)
	}
	var tried bool
	for _, r := range got.Trials {
		tried = tried || slices.Contains(r.Options, "-XX:SharedArchiveFile=/tare/app.jsa")
	}
	if !tried {
		t.Errorf("no trial had an archive: %.5000s\n%s", out, &errs)
	}
	shown, err := exec.CommandContext(t.Context(), tare, "kube", "show", "deployment/shop", "--profile", profile).CombinedOutput()
	if want := `class archive "/tare/app.jsa": tare bake`; err != nil || strings.Contains(string(shown), want) != (got.Archive != nil) {
		t.Errorf("%s, %v", shown, err)
	}
}

// A fit on two nodes is refused where there is one; where there are two, each makes trials,
// and the answer is proven.
func testParallel(t *testing.T, c *cluster.Cluster, tare string) {
	fit := func() (out, errs string, err error) {
		cmd := fitOf(t, c, tare)
		cmd.Args = slices.Insert(cmd.Args, 2, "--parallel", "2", "--confirmations", "2", "--store", filepath.Join(t.TempDir(), "store"))
		cmd.Args = slices.Delete(cmd.Args, slices.Index(cmd.Args, "none")-1, slices.Index(cmd.Args, "none")+1)
		var b bytes.Buffer
		cmd.Stderr = &b
		text, err := cmd.Output()
		return string(text), b.String(), err
	}
	_, errs, err := fit()
	if code := (*exec.ExitError)(nil); !errors.As(err, &code) || code.ExitCode() != 2 || !strings.Contains(errs, "too few nodes for --parallel 2: trials may run on localhost alone: give --parallel 1") {
		t.Errorf("on one node: %v: %s", err, errs)
	}
	c.Until(t, "", "get", "jobs,pods,secrets", "-o", "name")
	c.AddNode(t)
	out, errs, err := fit()
	if err != nil {
		t.Fatalf("%v: %s%s", err, errs, out)
	}
	var got struct {
		LimitBytes int64
		Trials     []struct{ Node, Verdict string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for _, tr := range got.Trials {
		on[tr.Node]++
	}
	if got.LimitBytes < 30*mib || got.LimitBytes > 256*mib || on[c.Node] == 0 || on[cluster.SecondNode] == 0 || len(on) != 2 || !strings.Contains(errs, "trials run on node localhost, 127.0.0.1") {
		t.Errorf("%v %.3000s\n%s", on, out, errs)
	}
}

// What a killed tare leaves is owned by its Secret, and the next one removes that.
func testKilledFit(t *testing.T, c *cluster.Cluster, tare string) {
	t.Setenv("TARE_CACHE", t.TempDir())
	cmd := fitOf(t, c, tare)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	polltest.UntilNil(t, func() error { // the pod that is asked for Java has none
		if len(volumes(c)) == 0 {
			return errors.New("no trial has a volume yet")
		}
		return nil
	})
	c.Until(t, "Running", "get", "pods", "-l", "dev.tare/role=trial", "-o", "jsonpath={.items[*].status.phase}")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	c.Kubectl(t, "annotate", "secrets", "--overwrite", "-l", "dev.tare/role=owner", "dev.tare/seen=2026-01-01T00:00:00Z")
	open(t, c, nil)
	c.Until(t, "", "get", "jobs,pods", "-o", "name")
}

// A process in a pod is told apart as on this machine: exit code, signal, output, limit.
func testProcess(t *testing.T, c *cluster.Cluster) {
	r := open(t, c, nil)
	for name, want := range map[string]runner.Exit{"echo out; echo err >&2; exit 7": {Code: 7}, "kill -9 $$": {Code: -1, Signal: syscall.SIGKILL}} {
		var out, errs bytes.Buffer
		p, err := r.Start(t.Context(), runner.Spec{Args: []string{"/bin/sh", "-c", name}, Stdout: &out, Stderr: &errs, Limits: runner.Limits{MemoryBytes: 64 * mib}})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		u, err := p.Usage(t.Context())
		if err != nil || u.LimitBytes != 64*mib || u.OOMKills != 0 || u.PeakBytes == 0 {
			t.Errorf("%+v, %v", u, err)
		}
		if p.Exit() != want || want.Code == 7 && (out.String() != "out\n" || errs.String() != "err\n") {
			t.Errorf("%s: %+v, %q, %q", name, p.Exit(), &out, &errs)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	m, err := r.Machine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := r.Available(t.Context()); err != nil || n <= 64*mib || n > m.MemoryBytes {
		t.Errorf("%d of %d bytes available on the node, %v", n, m.MemoryBytes, err)
	}
}

func sysinfo(t *testing.T, limit int64, options ...string) trial.Spec {
	t.Helper()
	ready, err := trial.ParseReady("http://127.0.0.1:8080/health")
	if err != nil {
		t.Fatal(err)
	}
	target, err := load.ParseTarget("http://127.0.0.1:8080/health")
	if err != nil {
		t.Fatal(err)
	}
	slo, err := trial.ParseSLO("errors=0")
	if err != nil {
		t.Fatal(err)
	}
	return trial.Spec{Args: append(append([]string{"/jdk/bin/java"}, options...), "-jar", "/app.jar", "--port", "8080"), Ready: ready,
		Loader: load.HTTP{Plan: load.Plan{Targets: []load.Target{target}, Concurrency: 2, Timeout: load.RequestTimeout}},
		Warmup: 1e9, Duration: 3e9, SLO: slo, Limits: runner.Limits{MemoryBytes: limit}, Weigh: true, Squeeze: true}
}

// A trial of a real service passes with its footprint, the page cache that it needs, and
// its log.
func testTrial(t *testing.T, c *cluster.Cluster) {
	s := sysinfo(t, 200*mib, "-Xmx32m")
	s.LogFile = filepath.Join(t.TempDir(), "log")
	res, err := trial.Run(t.Context(), open(t, c, nil), s)
	if err != nil {
		t.Fatal(err)
	}
	if !res.Passed() || res.Load == nil || res.Load.OK == 0 || res.NeededBytes < 20*mib || res.NeededBytes > 200*mib || res.Limits.MemoryBytes != 200*mib {
		t.Errorf("%s %q: %+v", res.Verdict, res.Evidence, res)
	}
	if res.End == nil || res.End.RSSBytes < 20*mib || res.GCShare == nil {
		t.Errorf("footprint %v, collections %v, %q", res.End, res.GCShare, res.Warnings)
	}
	if res.CacheBytes == 0 {
		t.Errorf("not squeezed: %q", res.Warnings)
	}
	if text, err := os.ReadFile(s.LogFile); err != nil || !strings.Contains(string(text), "listening on") {
		t.Errorf("log %q, %v", text, err)
	}
}

// The jar of the image is extracted. An archive of its classes, that a trial trained in
// its pod by a JDK of the image and as a user of its own, is used by the next one in another
// pod, which pays for its pages. All of it goes with the pods.
func testArchive(t *testing.T, c *cluster.Cluster) {
	cache := t.TempDir()
	t.Setenv("TARE_CACHE", cache)
	t.Cleanup(func() { // when the runner is closed
		if left, err := os.ReadDir(filepath.Join(cache, "archives")); err != nil || len(left) > 0 {
			t.Errorf("left on this machine: %v, %v", left, err)
		}
	})
	r := open(t, c, func(x *kube.Template) {
		user := int64(1234)
		x.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
	})
	a, err := r.MakeArchives(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r.Nested("/nested.jar", "/nested.jar", time.Unix(1<<30, 0))
	jar, err := r.Extract(t.Context(), "/nested.jar", filepath.Join(a.Dir(), "extracted"))
	if err != nil || jar != filepath.Join(a.Dir(), "extracted", "nested.jar") {
		t.Fatal(jar, err)
	}
	extracted := func(limit int64, options ...string) trial.Spec {
		s := sysinfo(t, limit, append(options, "-Xmx32m")...)
		s.Args[len(s.Args)-3] = "/tare/extracted/nested.jar"
		s.JavaHome, s.Files = "/jdk", []string{"/tare/extracted/nested.jar", "/tare/extracted", "/tare/app.jsa"}
		return s
	}
	file := filepath.Join(a.Dir(), "app.jsa")
	writes, err := r.OpenTraining(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	training := extracted(300*mib, "-XX:ArchiveClassesAtExit="+writes)
	training.StopGrace = 60e9
	if res, err := trial.Run(t.Context(), r, training); err != nil || !res.Passed() {
		t.Fatalf("training: %+v, %v", res, err)
	}
	if err := r.TakeTrained(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	made, err := r.File(t.Context(), file)
	if err != nil || made.Bytes < mib {
		t.Fatalf("%+v, %v", made, err)
	}
	res, err := trial.Run(t.Context(), r, extracted(200*mib, "-XX:SharedArchiveFile=/tare/app.jsa", "-Xshare:on"))
	if err != nil || !res.Passed() || res.End == nil {
		t.Fatalf("with the archive: %+v, %v", res, err)
	}
	if _, ok := mapped(res.End, "app.jsa"); !ok {
		t.Errorf("the JVM does not use it: %+v", res.End.Rows)
	}
	// Files that were not dropped before the trial are charged to what read them first:
	// the runtime to other pods, and the archive to the agent that put it there.
	if libjvm, ok := mapped(res.End, "libjvm.so"); !ok || res.UnpaidBytes > libjvm/2 {
		t.Errorf("%d bytes are not charged to the application, %d of libjvm.so are resident", res.UnpaidBytes, libjvm)
	}
	noVolumes(t, c)
}

// mapped is what is resident of a file that a JVM has mapped; false where it has not.
func mapped(f *footprint.Footprint, name string) (int64, bool) {
	for _, r := range f.Rows {
		for _, c := range r.Children {
			if file, ok := footprint.FileOfPart(c.ID); ok && file == name {
				return c.ResidentBytes, true
			}
		}
	}
	return 0, false
}

// A trial whose agent is killed is made anew in another pod, and the application of the
// first ends with its agent.
func testAgentKilled(t *testing.T, c *cluster.Cluster) {
	passes := begin(t, c)
	uid, ids := runsJava(t, c)
	agent, err := c.Processes(uid, ids["tare"])
	if err != nil || len(agent) != 1 {
		t.Fatalf("processes of the agent: %v, %v", agent, err)
	}
	if err := syscall.Kill(agent[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	noneLeft(t, c, uid, ids[kube.Application])
	if res := passes(); !slices.ContainsFunc(res.Warnings, func(w string) bool { return strings.Contains(w, "made anew") }) {
		t.Errorf("it is not said: %q", res.Warnings)
	}
}

// A trial goes on while the API server is away, and ends when it is back.
func testServerAway(t *testing.T, c *cluster.Cluster) {
	passes := begin(t, c)
	uid, _ := runsJava(t, c)
	if err := c.KillControlPlane(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	passes()
	noneLeft(t, c, uid, "")
}

// noneLeft waits until a pod, or one of its containers, has no process.
func noneLeft(t *testing.T, c *cluster.Cluster, uid, container string) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		if left, err := c.Processes(uid, container); err != nil || len(left) > 0 {
			return fmt.Errorf("left: %v, %w", left, err)
		}
		return nil
	})
}

// begin begins a trial that is to pass.
func begin(t *testing.T, c *cluster.Cluster) (passes func() *trial.Result) {
	t.Helper()
	r, s := open(t, c, nil), sysinfo(t, 200*mib, "-Xmx32m")
	type outcome struct {
		res *trial.Result
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		res, err := r.Trial(t.Context(), s)
		done <- outcome{res, err}
	}()
	return func() *trial.Result {
		t.Helper()
		o := <-done
		if o.err != nil || !o.res.Passed() {
			t.Fatalf("%+v, %v", o.res, o.err)
		}
		return o.res
	}
}

// A pod whose sandbox is killed between two of its containers is lost: of that one the kubelet
// starts nothing more. What it was for is done in another one.
func testSandboxKilled(t *testing.T, c *cluster.Cluster) {
	kube.SetStillTime(t, 5*time.Second)
	r := open(t, c, func(x *kube.Template) {
		x.Spec.InitContainers = []corev1.Container{{Name: "wait", Image: appImage, Command: []string{"/bin/sh", "-c", "tail -f /dev/null; true"}}}
	})
	var lost []string
	done := make(chan error, 1)
	go func() {
		var err error
		lost, err = kube.Anew(t.Context(), func() error {
			p, err := r.Start(t.Context(), runner.Spec{Args: []string{"/bin/sh", "-c", "exit 0"}, Limits: runner.Limits{MemoryBytes: 64 * mib}})
			if err != nil {
				return err
			}
			<-p.Done()
			return p.Close()
		})
		done <- err
	}()
	first := release(t, c, "")
	sandbox, err := c.Processes(first, "")
	if err != nil || len(sandbox) != 1 {
		t.Fatalf("processes of the sandbox: %v, %v", sandbox, err)
	}
	if err := syscall.Kill(sandbox[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	release(t, c, first)
	if err := <-done; err != nil || len(lost) != 1 || !strings.Contains(lost[0], "the node started none of its containers") {
		t.Errorf("%q, %v", lost, err)
	}
}

// release has the first container of a trial's pod, another one than that of a UID, come to
// its end, and returns the pod's UID.
func release(t *testing.T, c *cluster.Cluster, not string) (uid string) {
	t.Helper()
	var container string
	polltest.UntilNil(t, func() error {
		pods, err := trialPods(t, c)
		for _, p := range pods {
			for _, s := range p.AllStatuses() {
				if p.Metadata.UID != not && s.Name == "wait" && s.State.Running != nil {
					uid, container = p.Metadata.UID, kubeapi.ID(s.ContainerID)
					return nil
				}
			}
		}
		return fmt.Errorf("no container waits in %d pods, %w", len(pods), err)
	})
	polltest.UntilNil(t, func() error {
		waiting, err := c.Processes(uid, container)
		for _, pid := range waiting {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "tail\n" {
				return syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return fmt.Errorf("none of %v waits, %w", waiting, err)
	})
	noneLeft(t, c, uid, container)
	return uid
}

func trialPods(t *testing.T, c *cluster.Cluster) ([]kubeapi.Pod, error) {
	text, err := c.Run(t.Context(), "", "get", "pods", "-l", "dev.tare/role=trial", "-o", "json")
	var pods kubeapi.List[kubeapi.Pod]
	if err == nil {
		err = json.Unmarshal([]byte(text), &pods)
	}
	return pods.Items, err
}

// runsJava waits until the trial's pod has a JVM, and returns its UID and its containers
// by their names.
func runsJava(t *testing.T, c *cluster.Cluster) (uid string, ids map[string]string) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		pods, err := trialPods(t, c)
		if err != nil || len(pods) != 1 {
			return fmt.Errorf("%d pods, %w", len(pods), err)
		}
		uid, ids = pods[0].Metadata.UID, map[string]string{}
		for _, status := range pods[0].AllStatuses() {
			ids[status.Name] = kubeapi.ID(status.ContainerID)
		}
		jvm, err := c.Processes(uid, ids[kube.Application])
		if err != nil || len(jvm) != 1 {
			return fmt.Errorf("processes %v, %w", jvm, err)
		}
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", jvm[0])); err != nil || string(name) != "java\n" {
			return fmt.Errorf("%q is no JVM yet, %w", name, err)
		}
		return nil
	})
	return uid, ids
}

// A limit that is too small is the kernel's kill, and the verdict says so.
func testKilled(t *testing.T, c *cluster.Cluster) {
	s := sysinfo(t, 40*mib, "-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch")
	res, err := trial.Run(t.Context(), open(t, c, nil), s)
	if err != nil {
		t.Fatal(err)
	}
	if res.Verdict != trial.OOMKilled || res.Exit.Signal != syscall.SIGKILL {
		t.Errorf("%s %q, %+v", res.Verdict, res.Evidence, res.Exit)
	}
}

// What keeps a pod from running is said in one line, and nothing is left.
func testNotStarted(t *testing.T, c *cluster.Cluster) {
	start := func(t *testing.T, change func(*kube.Template)) string {
		_, err := open(t, c, change).Start(t.Context(), runner.Spec{Args: []string{"/bin/sh"}, Limits: runner.Limits{MemoryBytes: 64 * mib}})
		if !errors.Is(err, kube.ErrPod) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if got := start(t, func(x *kube.Template) { x.Spec.Containers[0].Image = "docker.io/tare/none:1" }); !strings.Contains(got, "ErrImageNeverPull") {
		t.Errorf("no such image: %s", got)
	}
	c.Apply(t, "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {limits.memory: 10Mi}}")
	got := start(t, nil)
	c.Kubectl(t, "delete", "quota", "none")
	if !strings.Contains(got, "exceeded quota") && !strings.Contains(got, "must specify limits.memory") {
		t.Errorf("quota: %s", got)
	}
	c.Apply(t, "apiVersion: v1\nkind: LimitRange\nmetadata: {name: cpu}\nspec: {limits: [{type: Container, default: {cpu: 500m}}]}")
	got = start(t, nil)
	c.Kubectl(t, "delete", "limitrange", "cpu")
	if !strings.Contains(got, "cpu limit: asked 0, got 500m") {
		t.Errorf("changed limits: %s", got)
	}
}

// Each missing right is named before anything is made.
func testRights(t *testing.T, c *cluster.Cluster) {
	config := c.Account(t, `{apiGroups: [""], resources: [pods, events], verbs: [list]}, {apiGroups: [""], resources: [secrets], verbs: [create, list, delete, patch]}`)
	_, err := tryOpen(t, config, nil)
	if !errors.Is(err, runner.ErrUnavailable) || !strings.HasSuffix(err.Error(), "you may not: create jobs.batch -n default, delete jobs.batch -n default, create pods/portforward -n default") {
		t.Errorf("%v", err)
	}
}

// A copy of a workload has none of its labels, and says what it may reach and lacks.
func testCopy(t *testing.T, c *cluster.Cluster) {
	c.Kubectl(t, "create", "namespace", "prod")
	c.Apply(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: shop, namespace: prod}
data: {spring.datasource.url: "jdbc:postgresql://db.prod.svc:5432/shop"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: prod}
spec:
  replicas: 0
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}, annotations: {prometheus.io/scrape: "true"}}
    spec:
      serviceAccountName: shop
      containers:
      - name: shop
        image: docker.io/tare/sysinfo:17
        command: [/jdk/bin/java, -jar, /app.jar, --port, "8080"]
        env: [{name: KAFKA_BROKERS, value: "kafka-1:9092,kafka-2:9092"}, {name: PASSWORD, valueFrom: {secretKeyRef: {name: shop, key: password}}}]
        envFrom: [{configMapRef: {name: shop}}]
      - {name: proxy, image: docker.io/tare/sysinfo:17}
`)
	prod, err := kubeapi.Open(kubeapi.Options{Kubeconfig: c.Kubeconfig, Namespace: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	in, err := kubeapi.Open(kubeapi.Options{Kubeconfig: c.Kubeconfig, Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	copied, err := kube.CopyOf(t.Context(), prod, "deployment/shop", "", in)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ got, want []string }{"reaches": {copied.Reaches, []string{"db.prod.svc", "kafka-1", "kafka-2", "secret/shop"}},
		"missing": {copied.Missing, []string{"configmap/shop", "secret/shop"}}, "left": {copied.Left, []string{"container proxy"}}} {
		if strings.Join(c.got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
	if s := copied.Spec; s.ServiceAccountName != "" || len(s.Containers) != 1 || len(s.Containers[0].Env) != 2 {
		t.Errorf("%+v", s)
	}
	c.Kubectl(t, "delete", "namespace", "prod", "--wait=false")
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/testkit/bootjartest"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

// importSysinfo makes an image with JDK 17 and the demo service.
func importSysinfo(t *testing.T, e *dockertest.Engine, name string, changes ...string) {
	t.Helper()
	importFiles(t, e, name, sysinfoFiles(t), changes...)
}

// importFiles makes an image of a JDK in /jdk, and an application in /app.
func importFiles(t *testing.T, e *dockertest.Engine, name string, files map[string]string, changes ...string) {
	t.Helper()
	e.Import(t, name, files, append([]string{"WORKDIR /app", "ENV PATH=/jdk/bin:/bin"}, changes...)...)
}

// sysinfoFiles are JDK 17 and the demo service, by their paths in an image.
func sysinfoFiles(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"/jdk": jvmtest.Home(t, 17), "/app/sysinfo.jar": jvmtest.Jar(t, "sysinfo.jar"), "/app/workloads.jar": jvmtest.Jar(t, "workloads.jar"),
		"/bin/sh": "/bin/dash", "/etc/passwd": "/etc/passwd"}
}

func noContainers(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	if left := e.Docker(t, "ps", "--all", "--format", "{{.Names}}"); left != "" {
		t.Errorf("containers are left: %s", left)
	}
}

// A service in an image: its JDK, environment and command are the image's, and
// the recipe is for it. Most options are the image's own, so that little is left
// to be tried.
func TestFitInImage(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	port := strconv.Itoa(jvmtest.FreePort(t))
	importSysinfo(t, e, "tare/shop:1", `ENV MALLOC_ARENA_MAX=1 JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -Xmx32m"`,
		`ENTRYPOINT ["java","-XX:+UseSerialGC","-jar","sysinfo.jar"]`, `CMD ["--help"]`)
	url := "http://127.0.0.1:" + port
	code, out, errs := fitRun(t.Context(), []string{"--image", "tare/shop:1", "--ready", url + "/health", "--load", url + "/sys-summary", "--cpus", "1", "--ample", "512m", "--ready-timeout", "30s",
		"--warmup", "0", "--duration", "1s", "--concurrency", "1", "--slo", "errors=0", "--baselines", "1", "--trials", "3", "--confirmations", "1", "--proof", "short", "--levers", "-archive", "--json", "--", "--port", port})
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var j report.FitJSON
	if err := json.Unmarshal([]byte(out), &j); err != nil {
		t.Fatal(err)
	}
	if j.Runner != "docker" || j.Image == nil || j.Image.Name != "tare/shop:1" || !strings.HasPrefix(j.Image.ID, "sha256:") || j.Image.ByVariable {
		t.Errorf("runner %s, image %+v", j.Runner, j.Image)
	}
	if !strings.HasPrefix(j.JDK, "17.") || j.JavaHome != "/jdk" || !slices.Equal(j.Command, []string{"java", "-XX:+UseSerialGC", "-jar", "sysinfo.jar", "--port", port}) {
		t.Errorf("JDK %s in %s, command %q", j.JDK, j.JavaHome, j.Command)
	}
	if j.Peak == nil || j.Peak.Cgroup == nil || j.LimitBytes == nil || *j.LimitBytes >= 512<<20 || j.Archive != nil || len(j.Env) > 0 {
		t.Errorf("footprint %v, limit %v, archive %v, environment %q", j.Peak != nil, j.LimitBytes, j.Archive, j.Env)
	}
	for _, o := range j.Options {
		for _, own := range []string{"TieredStopAtLevel", "-Xmx", "UseSerialGC"} {
			if strings.Contains(o, own) {
				t.Errorf("the image's own option was overridden: %q", j.Options)
			}
		}
	}
	_, listed, _ := fitRun(t.Context(), []string{"list", "--json"})
	var list struct{ Fits []struct{ ID int } }
	if err := json.Unmarshal([]byte(listed), &list); err != nil || len(list.Fits) == 0 {
		t.Fatal(err, listed)
	}
	_, shown, errs := fitRun(t.Context(), []string{"show", strconv.Itoa(list.Fits[0].ID)})
	if !strings.Contains(shown, "tare/shop:1 --port "+port) || !strings.Contains(shown, "docker run -m ") || strings.Contains(shown, "on this machine\n") {
		t.Errorf("%s%s", shown, errs)
	}
	noContainers(t, e)
	surveyOfImage(t, e)
}

// surveyOfImage checks that a fit sees the jars in the jar of an image, and the files
// of properties.
func surveyOfImage(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	files := sysinfoFiles(t)
	app := filepath.Join(t.TempDir(), "boot.jar")
	bootjartest.Write(t, app, files["/app/sysinfo.jar"], map[string]string{"BOOT-INF/classes/application.yml": "a: 1\n"})
	files["/app/boot.jar"] = app
	importFiles(t, e, "tare/boot:1", files, `ENTRYPOINT ["java","-jar","boot.jar"]`)
	c := fit.Config{Levers: fit.Levers}
	o := fitOptions{image: "tare/boot:1"}
	if err := o.applicationInImage(t.Context(), &c, nil, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := c.Survey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !c.NestedJars || len(c.ClassPath.Texts) != 2 || c.ClassPath.Texts["/app/boot.jar!/BOOT-INF/classes/application.yml"] == nil {
		t.Errorf("holds jars: %v, texts %q", c.NestedJars, c.ClassPath.Texts)
	}
	closeRunner(c.Runner, t.Output())
	if f, err := c.Runner.File(t.Context(), "/app/boot.jar"); err == nil {
		t.Errorf("the copy of the jar is left: %+v", f)
	}
	noContainers(t, e)
}

// Killed in the middle of a trial, tare leaves a container, which the next start
// removes. The image's command is a shell that stays: options go by a variable, and its
// child is weighed.
func TestFitInImageKilled(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	port := strconv.Itoa(jvmtest.FreePort(t))
	importSysinfo(t, e, "shop", `ENTRYPOINT ["/bin/sh", "-c", "java -jar workloads.jar verdict ok `+port+`; exit $?"]`)
	file, out := t.TempDir()+"/tare.db", t.TempDir()
	flags := []string{"--runner", "docker", "--image", "shop", "--store", file, "--out", out, "--load", "http://127.0.0.1:" + port + "/", "--ample", "512m", "--warmup", "0", "--duration", "1s", "--rate", "20", "--proof", "short"}

	cmd, _, _ := startFit(t, "1 ", flags...)
	var name string
	polltest.Until(t, "a container", func() bool {
		name = e.Docker(t, "ps", "--format", "{{.Names}}")
		return name != ""
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if left := e.Docker(t, "ps", "--all", "--format", "{{.Names}}"); !strings.Contains(left, fmt.Sprintf("-%d-", cmd.Process.Pid)) {
		t.Fatalf("no container to be removed: %q", left)
	}
	f := theFit(t, file)
	if f.Plan.Image == nil || !f.Plan.Image.ByVariable || f.Trials < 1 {
		t.Errorf("%+v", f.Plan)
	}
	text, err := os.ReadFile(filepath.Join(out, "trial-001-end.json"))
	var weighed footprint.Footprint
	if err == nil {
		err = json.Unmarshal(text, &weighed)
	}
	if err != nil || weighed.VM != "HotSpot" {
		t.Errorf("weighed was %q (%v)", weighed.Name, err)
	}

	cmd, _, seen := startFit(t, fmt.Sprintf("%d ", f.Trials+1), "--resume", "1", "--store", file)
	if !strings.Contains(seen, "removed what an earlier run had left: container tare-") || !strings.Contains(seen, "fit 1 goes on after") {
		t.Errorf("went on with: %s", seen)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code tells
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	noContainers(t, e)
}

// A script that keeps JAVA_TOOL_OPTIONS from its JVM is found out by the JVM's flags: nothing is
// recommended that does not reach it, and its own options are the user's.
func TestFitInImageUnreached(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	port := strconv.Itoa(jvmtest.FreePort(t))
	url := "http://127.0.0.1:" + port
	importSysinfo(t, e, "shop", `ENTRYPOINT ["/bin/sh", "-c", "unset JAVA_TOOL_OPTIONS; java -Xss512k -jar sysinfo.jar --port `+port+`; exit $?"]`)
	code, out, errs := fitRun(t.Context(), []string{"--image", "shop", "--ready", url + "/health", "--load", url + "/sys-summary", "--cpus", "1", "--ample", "512m",
		"--warmup", "0", "--duration", "1s", "--concurrency", "1", "--slo", "errors=0", "--baselines", "1", "--trials", "7", "--confirmations", "1", "--proof", "short", "--levers", "collector,stacks", "--json"})
	var j report.FitJSON
	if err := json.Unmarshal([]byte(out), &j); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, errs)
	}
	if j.LimitBytes == nil || len(j.Options) > 0 || !slices.ContainsFunc(j.Warnings, func(w string) bool { return strings.Contains(w, "takes no options from JAVA_TOOL_OPTIONS") }) {
		t.Errorf("limit %v with %q: %q\n%s", j.LimitBytes, j.Options, j.Warnings, errs)
	}
	for _, l := range j.Levers {
		if want := map[string]string{"collector": "the JVM takes no options from JAVA_TOOL_OPTIONS", "stacks": "yours: -Xss512k (set by what starts the JVM)"}[l.ID]; l.Reason != want {
			t.Errorf("%s: %s, want %s", l.ID, l.Reason, want)
		}
	}
	noContainers(t, e)
}

func TestFitRefusesImages(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	e.Import(t, "nothing", map[string]string{"/bin/sh": "/bin/dash"})
	for _, c := range []struct {
		host string
		args []string
		code int
		want string
	}{
		{e.Host, []string{"--image", "none:1"}, exitTarget, `image "none:1": no such image`},
		{e.Host, []string{"--image", "nothing"}, exitUsage, `image "nothing" has no command: give one after --`},
		{e.Host, []string{"--image", "nothing", "--", "/bin/sh", "start.sh"}, exitUsage, "no Java in the image"},
		{e.Host, []string{"--image", "nothing", "--runner", "cgroup", "--", "java", "-jar", "a.jar"}, exitUsage, "--runner docker and --image go together"},
		{e.Host, []string{"--runner", "docker", "--", "java", "-jar", "a.jar"}, exitUsage, "--runner docker and --image go together"},
		{e.Host, []string{"--runner", "vm", "--", "java", "-jar", "a.jar"}, exitUsage, `--runner "vm": give cgroup, docker or kubernetes`},
		{e.Host, []string{"--image", "nothing", "--cgroup-parent", "/x", "--", "java", "-jar", "a.jar"}, exitUsage, "--cgroup-parent is for --runner cgroup"},
		{"unix:///nowhere.sock", []string{"--image", "nothing"}, exitTarget, "no Docker Engine answers"},
		{"tcp://127.0.0.1:1", []string{"--image", "nothing"}, exitTarget, "runs elsewhere"},
	} {
		t.Setenv("DOCKER_HOST", c.host)
		code, out, errs := fitRun(t.Context(), append([]string{"--ready", "tcp:80"}, c.args...))
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit code %d, want %d; stdout %q; stderr %q, want %q", c.args, code, c.code, out, errs, c.want)
		}
	}
	t.Setenv("DOCKER_HOST", e.Host)
	noContainers(t, e)
}

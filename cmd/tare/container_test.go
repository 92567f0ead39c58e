package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// runFiller starts the memory filler in a container.
func runFiller(t *testing.T, e *dockertest.Engine, name string, docker []string, java ...string) {
	t.Helper()
	args := append([]string{"run", "--detach", "--name", name, "--network", "none"}, docker...)
	args = append(args, "jdk17", "/jdk/bin/java", "-Xmx32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
	args = append(append(args, java...), "-jar", "/app/workloads.jar", "memory-filler", "5", "10", "10")
	e.Docker(t, args...)
	e.AwaitLog(t, name, "ready")
}

// With a real engine: a container's JVM is found by the container's name or id,
// weighed, diagnosed, compared and watched, and asked through its own file
// system by the id that it has in its own PID namespace.
func TestContainer(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	e.Import(t, "jdk17", map[string]string{"/jdk": jvmtest.Home(t, 17), "/app/workloads.jar": jvmtest.Jar(t, "workloads.jar"), "/bin/sleep": "/bin/sleep", "/bin/sh": "/bin/dash", "/etc/passwd": "/etc/passwd"})
	runFiller(t, e, "web", []string{"--memory", "200m"}, "-XX:NativeMemoryTracking=detail")
	runFiller(t, e, "nobody", []string{"--user", "65534:65534", "--cap-drop", "ALL"}, "-XX:NativeMemoryTracking=detail", "-XX:+PerfDisableSharedMem")
	e.Docker(t, "run", "--detach", "--name", "idle", "--network", "none", "jdk17", "/bin/sleep", "600")
	e.Docker(t, "run", "--detach", "--name", "two", "--network", "none", "jdk17", "/bin/sh", "-c",
		"for n in 1 2; do /jdk/bin/java -Xmx16m -Xint -XX:+UseSerialGC -cp /app/workloads.jar dev.tare.workloads.Main memory-filler $n 1 1 & done; wait")
	e.Docker(t, "run", "--name", "over", "--network", "none", "jdk17", "/bin/sleep", "0")

	t.Run("weigh", func(t *testing.T) { weighContainer(t, e) })
	t.Run("attach", func(t *testing.T) {
		for _, name := range []string{"web", "nobody"} {
			f := weighJSON(t, "--container", name, "--attach")
			for _, s := range f.Sources {
				if s.Error != nil {
					t.Errorf("%s: %s: %s", name, s.Name, *s.Error)
				}
			}
			if rest, _ := f.Row(footprint.Unattributed); rest.ResidentBytes > f.RSSBytes/100 {
				t.Errorf("%s: %d of %d bytes unattributed", name, rest.ResidentBytes, f.RSSBytes)
			}
		}
		if logs := e.Docker(t, "logs", "web"); strings.Contains(logs, "thread dump") {
			t.Errorf("the JVM wrote a thread dump:\n%s", logs)
		}
	})
	t.Run("other commands", func(t *testing.T) { otherCommands(t) })
	t.Run("errors", func(t *testing.T) { containerErrors(t) })
}

func weighJSON(t *testing.T, args ...string) *footprint.Footprint {
	t.Helper()
	code, out, errs := tare(t, append([]string{"weigh", "--json"}, args...)...)
	if code != exitOK {
		t.Fatalf("%q: exit code %d, %s", args, code, errs)
	}
	f, err := footprint.Read(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func weighContainer(t *testing.T, e *dockertest.Engine) {
	f := weighJSON(t, "--container", "web")
	if want := e.Docker(t, "inspect", "--format", "{{.State.Pid}}", "web"); fmt.Sprint(f.PID) != want {
		t.Errorf("process %d, the engine says %s", f.PID, want)
	}
	if f.Name != "/app/workloads.jar" || !strings.HasPrefix(f.JDK, "17.") {
		t.Errorf("%s, JDK %s", f.Name, f.JDK)
	}
	if f.Cgroup == nil || f.Cgroup.LimitBytes == nil || *f.Cgroup.LimitBytes != 200<<20 {
		t.Errorf("control group %+v, want the limit of 200 MiB", f.Cgroup)
	}
	if rest, _ := f.Row(footprint.Unattributed); rest.ResidentBytes > f.RSSBytes/100 || jvmtest.Warned(f.Warnings) {
		t.Errorf("%d of %d bytes unattributed, %q", rest.ResidentBytes, f.RSSBytes, f.Warnings)
	}
	if id := e.Docker(t, "inspect", "--format", "{{.Id}}", "web"); weighJSON(t, "--container", id[:12]).PID != f.PID {
		t.Error("by id another process was found")
	}
}

// otherCommands are those that look at a JVM beside weigh.
func otherCommands(t *testing.T) {
	f := weighJSON(t, "--container", "web")
	saved := filepath.Join(t.TempDir(), "web.json")
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(saved, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"doctor", "--container", "web", "--json"}, `"pid": ` + fmt.Sprint(f.PID)},
		{[]string{"diff", saved, "--container", "web"}, "container web"},
		{[]string{"watch", "--container", "web", "--count", "2", "--interval", "100ms"}, "heap"},
	} {
		code, out, errs := tare(t, c.args...)
		if code != exitOK || !strings.Contains(out, c.says) {
			t.Errorf("%q: exit code %d, no %q in\n%s%s", c.args, code, c.says, out, errs)
		}
	}
}

func containerErrors(t *testing.T) {
	for _, c := range []struct {
		host string
		args []string
		code int
		says []string
	}{
		{"", []string{"weigh", "--container", "none"}, exitTarget, []string{`container "none": no such container`, "docker ps"}},
		{"", []string{"weigh", "--container", "over"}, exitTarget, []string{"not running: exited", "docker ps"}},
		{"", []string{"weigh", "--container", "idle"}, exitTarget, []string{`container "idle"`, "not a JVM", "tare weigh --list"}},
		{"", []string{"weigh", "--container", "two"}, exitTarget, []string{"has 2 JVMs: name one", "its JVMs: "}},
		{"", []string{"weigh", "--container", "two", "nothing"}, exitTarget, []string{`no JVM runs "nothing"`, "its JVMs: "}},
		{"", []string{"diff", "a.json", "b.json", "--container", "web"}, exitUsage, []string{"diff --container compares one footprint"}},
		{"tcp://127.0.0.1:1", []string{"weigh", "--container", "web"}, exitTarget, []string{"runs elsewhere"}},
		{"unix:///nowhere.sock", []string{"weigh", "--container", "web"}, exitTarget, []string{"no Docker Engine answers", "DOCKER_HOST="}},
	} {
		if c.host != "" {
			t.Setenv("DOCKER_HOST", c.host)
		}
		code, out, errs := tare(t, c.args...)
		if code != c.code || out != "" || strings.Count(errs, "\n") > 2 {
			t.Errorf("%q: exit code %d, want %d; stdout %q, stderr\n%s", c.args, code, c.code, out, errs)
		}
		for _, want := range c.says {
			if !strings.Contains(errs, want) {
				t.Errorf("%q: no %q in %q", c.args, want, errs)
			}
		}
	}
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// committed is a folder of git that holds files, committed.
func committed(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, filepath.Join(dir, name), text)
	}
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qm", "one")
	return dir
}

// replaceIn replaces a text in a file.
func replaceIn(t *testing.T, name, old, new string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%v: no %q in %s", err, old, text)
	}
	put(t, name, strings.ReplaceAll(string(text), old, new))
}

// failsFor makes a check that is to fail for one measure alone.
func failsFor(t *testing.T, measure string, args ...string) *check.Result {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "r.json")
	code, out, errs := tareRun(t, append([]string{"check", "--result", kept, "--format", "markdown"}, args...)...)
	if code != exitOverBudget || !strings.Contains(out, measure+" grew by") {
		t.Fatalf("%d\n%s%s", code, out, errs)
	}
	r := resultIn(t, kept)
	for _, f := range r.Findings {
		if (f.Verdict == check.Failed) != (f.Measure == measure) {
			t.Errorf("%s: %s", f.Measure, f.Verdict)
		}
	}
	return r
}

// A service of a Compose file, with the database beside it that it writes to, against an
// earlier image and against an earlier commit, whose file names another one.
func TestCheckOfService(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	file, url := composeHere(t, e)
	importSysinfo(t, e, "shop:2", `ENV MALLOC_ARENA_MAX=1 JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -Xmx32m -Xms32m -XX:+AlwaysPreTouch"`, `ENTRYPOINT ["java","-XX:+UseSerialGC","-jar","sysinfo.jar"]`)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := committed(t, map[string]string{"compose.yaml": strings.Replace(string(text), "    x-tare: { fresh: true }\n", "", 1), budget.FileName: fmt.Sprintf(`compose: {file: compose.yaml, service: web}
run:
  ready: %[1]s/health
  limit: 256m
  load: {urls: ["PUT %[1]s/sys-stat"], concurrency: 1, requests: 20, duration: 60s}
runs: 4
mostRuns: 8
most: {needed: 256MiB}
growth: {java-heap: 20%%, threads: 5}
`, url)})
	file = filepath.Join(dir, budget.FileName)
	replaceIn(t, filepath.Join(dir, "compose.yaml"), "shop:1", "shop:2")
	r := failsFor(t, "java-heap", "--budget", file, "--base", "shop:1")
	if r.Conditions.Runner != "docker" || r.Conditions.JDK != "of the image" || r.Base.Name != "shop:1" {
		t.Errorf("%+v, %+v", r.Conditions, r.Base)
	}
	nothingOfCompose(t, e)
	r = failsFor(t, "java-heap", "--budget", file, "--base", "HEAD")
	if r.Base.Commit == "" || r.Base.Name != "HEAD" {
		t.Errorf("%+v", r.Base)
	}
	nothingOfCompose(t, e)
	for _, c := range []struct{ old, new, want string }{
		{"service: web", "service: shop", `has no service "shop": it has db, web`},
		{"compose.yaml, ", "none.yaml, ", "none.yaml"},
	} {
		replaceIn(t, file, c.old, c.new)
		if code, _, errs := tareRun(t, "check", "--budget", file); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %s", c.new, code, errs)
		}
		replaceIn(t, file, c.new, c.old)
	}
}

// Benchmarks of JMH, whose objects take more where an option of the JVM has changed since
// the base.
func TestCheckOfBenchmarks(t *testing.T) {
	dir := committed(t, map[string]string{".gitignore": "jmh.json\n", budget.FileName: fmt.Sprintf(`results:
  format: jmh
  command: >-
    %s -Xmx64m -Djmh.ignoreLock=true -jar %s HeldOrMade.right -f 1 -wi 0 -i 2 -jvmArgs "-Xmx128m -XX:+UseSerialGC"
    -prof dev.tare.jmh.RetainedMemory -rf json -rff jmh.json
  files: [jmh.json]
runs: 4
mostRuns: 8
growth:
  HeldOrMade.rightHeldByAState/mem.retained: 5%%
`, jvmtest.Java(t, 21), jvmtest.Jar(t, "caches.jar"))})
	file := filepath.Join(dir, budget.FileName)
	replaceIn(t, file, "-XX:+UseSerialGC", "-XX:+UseSerialGC -XX:-UseCompressedOops")
	r := failsFor(t, "HeldOrMade.rightHeldByAState/mem.retained", "--budget", file, "--base", "HEAD")
	if f := r.Findings[0]; f.Base < 6<<20 || f.Base > 9<<20 || f.Value.Center < 1<<20 || !strings.HasPrefix(r.Conditions.JDK, "21.") {
		t.Errorf("%+v, %+v", f, r.Conditions)
	}
	replaceIn(t, file, "HeldOrMade.right ", "HeldOrMade.none ")
	code, _, errs := tareRun(t, "check", "--budget", file, "--base", "HEAD")
	if code != exitNotReady || !strings.Contains(errs, "the working tree does not run") {
		t.Errorf("%d, %s", code, errs)
	}
}

// cacheTest is a test with a budget, and what runs it.
var cacheTest = map[string]string{
	"CacheTest.java": `import dev.tare.junit.MemoryBudget;
import org.junit.jupiter.api.Test;

class CacheTest {
    byte[] held;

    @Test
    @MemoryBudget(retained = "2 MiB", repeats = 1)
    void entries() {
        held = new byte[500_000];
    }
}
`, "Tests.java": `import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;

public class Tests {
    public static void main(String[] args) {
        SummaryGeneratingListener summary = new SummaryGeneratingListener();
        LauncherFactory.create().execute(LauncherDiscoveryRequestBuilder.request().selectors(DiscoverySelectors.selectClass("CacheTest")).build(), summary);
        System.exit((int) summary.getSummary().getTotalFailureCount());
    }
}
`, ".gitignore": "classes\n*.jsonl\n"}

// junitJars are those of JUnit that the Java tests run with.
func junitJars(t *testing.T, root string) []string {
	t.Helper()
	pom, err := os.ReadFile(filepath.Join(root, "java", "pom.xml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`<junit.version>5([0-9.]+)</junit.version>`).FindSubmatch(pom)
	home, err := os.UserHomeDir()
	if found == nil || err != nil {
		t.Fatalf("%v: no version of JUnit in java/pom.xml", err)
	}
	minor := string(found[1])
	var out []string
	for jar, version := range map[string]string{"jupiter/junit-jupiter-api": "5" + minor, "jupiter/junit-jupiter-engine": "5" + minor, "platform/junit-platform-commons": "1" + minor,
		"platform/junit-platform-engine": "1" + minor, "platform/junit-platform-launcher": "1" + minor, "../opentest4j/opentest4j": "1.3.0"} {
		name := filepath.Join(home, ".m2", "repository", "org", "junit", filepath.FromSlash(jar), version, filepath.Base(jar)+"-"+version+".jar")
		if _, err := os.Stat(name); err != nil {
			t.Fatalf("%v: run make test-java", err)
		}
		out = append(out, name)
	}
	return out
}

// Tests of JUnit with budgets, one of which holds a tenth more than in the base.
func TestCheckOfTests(t *testing.T) {
	java, root := jvmtest.Java(t, 21), jvmtest.Root(t)
	paths := []string{filepath.Join(root, "java", "libraries", "junit", "target", "classes"), filepath.Join(root, "java", "libraries", "memory", "target", "classes")}
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			t.Fatalf("%v: run make build", err)
		}
	}
	paths = append(paths, junitJars(t, root)...)
	libraries := strings.Join(paths, ":")
	files := map[string]string{budget.FileName: fmt.Sprintf(`build: %s -nowarn -cp %[3]s -d classes CacheTest.java Tests.java
results:
  format: junit
  command: %[2]s -Xmx64m -XX:+UseSerialGC -Ddev.tare.junit.results=results.jsonl -cp classes:%[3]s Tests
  files: ["*.jsonl"]
runs: 4
mostRuns: 8
growth:
  CacheTest.entries/retained: default
  CacheTest.entries/allocated: 20%%
`, filepath.Join(filepath.Dir(java), "javac"), java, libraries)}
	for name, text := range cacheTest {
		files[name] = text
	}
	dir := committed(t, files)
	file := filepath.Join(dir, budget.FileName)
	code, out, errs := tareRun(t, "check", "--budget", file, "--base", "HEAD")
	if code != exitOK || !strings.Contains(out, "All bounds hold.") {
		t.Fatalf("the same: %d\n%s%s", code, out, errs)
	}
	replaceIn(t, filepath.Join(dir, "CacheTest.java"), "500_000", "550_000")
	r := failsFor(t, "CacheTest.entries/retained", "--budget", file, "--base", "HEAD")
	if grew := r.Findings[1].Value.Center; r.Findings[1].Measure != "CacheTest.entries/retained" || grew < 49_000 || grew > 51_000 {
		t.Errorf("%+v", r.Findings)
	}
	replaceIn(t, filepath.Join(dir, "CacheTest.java"), "2 MiB", "1 KiB")
	code, _, errs = tareRun(t, "check", "--budget", file, "--base", "HEAD")
	if code != exitNotReady || !strings.Contains(errs, "the working tree does not run: the command of results: exit status 1") {
		t.Errorf("%d, %s", code, errs)
	}
}

// A JVM that cannot be asked for its objects: the bound is not known, and the reason is told.
func TestCheckOfJVMThatIsNotAsked(t *testing.T) {
	dir := repository(t)
	file := filepath.Join(dir, budget.FileName)
	replaceIn(t, file, "options: [-Xmx32m,", "options: [-Xmx32m, -Xrs, -XX:+DisableAttachMechanism,")
	replaceIn(t, file, "needed: 250MiB # far above", "heap-live: 30MiB")
	code, out, errs := tareRun(t, "check", "--budget", file)
	if want := "8 of 8 runs have warnings, the first: what a full collection leaves is unknown: "; code != exitNotKnown || strings.Count(strings.Join(strings.Fields(out), " "), want) != 1 {
		t.Errorf("%d, not once %q in\n%s%s", code, want, out, errs)
	}
}

// A user who may make no control group is told what is measured all the same, and that is.
func TestCheckWithoutRights(t *testing.T) {
	tare := program(t)
	dir, from := openDir(t), repository(t)
	for _, name := range []string{"Subject.java", ".gitignore", budget.FileName} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name), string(text))
	}
	java, _ := openJDK(t)
	file := filepath.Join(dir, budget.FileName)
	replaceIn(t, file, jvmtest.Java(t, 21), java) // and the javac beside it
	replaceIn(t, file, "needed: 250MiB # far above", "needed: 250MiB\n  rss: 250MiB\n  heap-live: 30MiB\n  malloc: 100MiB\n  cpu-time: 60s")
	if err := exec.Command("chown", "-R", fmt.Sprint(nobody), dir).Run(); err != nil {
		t.Fatal(err)
	}
	unprivileged := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	kept := filepath.Join(dir, "r.json")
	code, out, errs := as(t, tare, unprivileged, "check", "--budget", file, "--result", kept)
	if code != exitNotKnown {
		t.Fatalf("%d\n%s%s", code, out, errs)
	}
	for _, want := range []string{"cannot make a cgroup", "note: without a control group nothing is limited or pinned, and needed and peak are not measured"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in %s", want, errs)
		}
	}
	r := resultIn(t, kept)
	if len(r.Head.Runs) != 4 || r.Conditions.Runner != "no control group" || r.Conditions.Limit != "" || len(r.Warnings) == 0 {
		t.Errorf("%d runs, %+v, %q", len(r.Head.Runs), r.Conditions, r.Warnings)
	}
	for _, f := range r.Findings {
		want := check.Passed
		if f.Measure == "needed" {
			want = check.Unknown
		}
		if f.Verdict != want || want == check.Passed && f.Head <= 0 {
			t.Errorf("%+v", f)
		}
	}
	if code, out, errs := as(t, tare, unprivileged, "check", "--budget", file, "--cgroup-parent", "/none"); code != exitPermission || out != "" {
		t.Errorf("a parent that was named: %d\n%s%s", code, out, errs)
	}
	replaceIn(t, file, "  rss: 250MiB\n  heap-live: 30MiB\n  malloc: 100MiB\n  cpu-time: 60s\n", "")
	if code, out, errs := as(t, tare, unprivileged, "check", "--budget", file); code != exitPermission || out != "" || !strings.Contains(errs, "nothing that the budget bounds can be measured: of needed") {
		t.Errorf("needed alone: %d\n%s%s", code, out, errs)
	}
}

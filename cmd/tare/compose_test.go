package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// composed is the demo service, whose requests are rows of a real PostgreSQL beside it.
const composed = `
services:
  web:
    image: shop:1
    command: [ "--host", "0.0.0.0", "--port", "8080" ]
    environment: { DATABASE_URL: "postgres://tare@db/postgres" }
    ports: [ "PORT:8080" ]
    depends_on: { db: { condition: service_healthy } }
  db:
    image: postgres
    volumes: [ "data:/data" ]
    x-tare: { fresh: true }
volumes: { data: }
`

// composeHere makes the images of composed, and its file.
func composeHere(t *testing.T, e *dockertest.Engine) (file, url string) {
	t.Helper()
	port := strconv.Itoa(jvmtest.FreePort(t))
	e.ImportPostgres(t, "postgres")
	importSysinfo(t, e, "shop:1", `ENV MALLOC_ARENA_MAX=1 JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -Xmx32m"`, `ENTRYPOINT ["java","-XX:+UseSerialGC","-jar","sysinfo.jar"]`)
	file = filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(composed, "PORT", port, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, "http://127.0.0.1:" + port
}

// nothingOfCompose checks that no container, network or volume is left.
func nothingOfCompose(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	noContainers(t, e)
	if left := e.Docker(t, "volume", "ls", "--quiet") + e.Docker(t, "network", "ls", "--filter", "driver=bridge", "--quiet"); left != "" {
		t.Errorf("volumes or networks are left: %s", left)
	}
}

// A fit of a service of a Compose file, with the database that it writes to beside it,
// and a bake of that fit by the same file.
func TestFitCompose(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	file, url := composeHere(t, e)
	result := t.TempDir()
	flags := []string{"--compose", file, "--service", "web", "--ready", url + "/health", "--load", "PUT " + url + "/sys-stat", "--cpus", "1", "--ample", "512m",
		"--warmup", "0", "--duration", "1s", "--concurrency", "1", "--slo", "errors=0", "--baselines", "1", "--trials", "2", "--confirmations", "1", "--levers", "-archive", "--out", result}
	code, out, errs := fitRun(t.Context(), flags)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"compose.yaml", "services:\n", "  web:\n", "mem_limit: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if !strings.Contains(errs, "starting beside web: db") {
		t.Errorf("%s", errs)
	}
	nothingOfCompose(t, e)
	text, err := os.ReadFile(filepath.Join(result, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var j report.FitJSON
	if err := json.Unmarshal(text, &j); err != nil {
		t.Fatal(err)
	}
	if j.Image == nil || j.Image.Compose == nil || j.Image.Compose.Service != "web" || j.Image.Compose.File != file || j.Image.Name != "shop:1" || j.LimitBytes == nil {
		t.Fatalf("%+v", j.Image)
	}

	code, out, errs = tareRun(t, "bake", "--from-fit", filepath.Join(result, "result.json"), "-t", "shop:small", "--launcher", buildLauncher(t), "--runs", "1",
		"--ample", "512m", "--load", "PUT "+url+"/sys-stat")
	if code != exitOK || !strings.Contains(out, "1 of 1 fresh runs pass") {
		t.Fatalf("%d: %s%s", code, out, errs)
	}
	nothingOfCompose(t, e)
}

// Killed, tare leaves containers, a network and a volume, which the next start removes.
// A database that does not come up is said with its last lines.
func TestFitComposeKilled(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	file, url := composeHere(t, e)
	store := t.TempDir() + "/tare.db"
	flags := []string{"--compose", file, "--service", "web", "--store", store, "--ready", url + "/health", "--load", url + "/sys-summary", "--ample", "512m", "--warmup", "0", "--duration", "1s", "--rate", "20"}
	cmd, _, _ := startFit(t, "1 ", flags...)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if left := e.Docker(t, "ps", "--all", "--format", "{{.Image}}"); !strings.Contains(left, "postgres") {
		t.Fatalf("nothing is left to be removed: %q", left)
	}
	cmd, _, seen := startFit(t, "2 ", "--resume", "1", "--store", store)
	for _, want := range []string{"removed what an earlier run had left: ", "container tare-", "network tare-", "volume tare-", "fit 1 goes on after"} {
		if !strings.Contains(seen, want) {
			t.Errorf("no %q in %s", want, seen)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code tells
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	nothingOfCompose(t, e)

	broken := strings.Replace(composed, `"data:/data" ]`, `"data:/data" ]`+"\n    command: [ 'echo this is why; exit 3' ]", 1)
	for _, c := range []struct {
		text, service string
		code          int
		want          string
	}{
		{broken, "web", exitNotReady, "| this is why"},
		{strings.Replace(composed, "image: postgres", "image: none:1", 1), "web", exitTarget, "no such image"},
		{composed, "wab", exitUsage, `has no service "wab": it has db, web`},
		{strings.Replace(composed, "x-tare", "privileged: true\n    x-tare", 1), "web", exitUsage, "service db: privileged: cannot be done here"},
	} {
		if err := os.WriteFile(file, []byte(strings.Replace(c.text, "PORT", "8080", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := fitRun(t.Context(), []string{"--compose", file, "--service", c.service, "--ready", "tcp:8080", "--ample", "512m"})
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("exit code %d, want %d: %s%s, want %q", code, c.code, out, errs, c.want)
		}
		nothingOfCompose(t, e)
	}
}

// Flags of Compose files that do not go together.
func TestComposeFlags(t *testing.T) {
	for want, flags := range map[string][]string{
		"are for --compose FILE":     {"--service", "a", "--", "java", "-jar", "a.jar"},
		"give --service NAME":        {"--compose", "x"},
		"leave out the other":        {"--compose", "x", "--service", "a", "--image", "b"},
		"in a network of their own":  {"--compose", "x", "--service", "a", "--network", "b"},
		"--compose: stat /no/such/x": {"--compose", "/no/such/x", "--service", "a"},
	} {
		if code, _, errs := fitRun(t.Context(), append([]string{"--ready", "tcp:80"}, flags...)); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%q: %d: %s", flags, code, errs)
		}
	}
}

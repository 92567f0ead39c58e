package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// buildLauncher builds tare-exec.
func buildLauncher(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tare-exec")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "../tare-exec")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// trainIn makes a class archive in a container of an image, as a fit does, in a folder
// that the container has as /tare.
func trainIn(t *testing.T, e *dockertest.Engine, name, port string, command ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	args := []string{"run", "--detach", "--name", "training", "--network", "host", "--user", "0", "--volume", folder + ":/tare", "--entrypoint", command[0], name}
	e.Docker(t, append(append(args, command[1:]...), "--port", port)...)
	e.AwaitLog(t, "training", "listening on")
	e.Docker(t, "stop", "--time", "60", "training")
	e.Docker(t, "rm", "training")
	if !isFile(filepath.Join(folder, "app.jsa")) {
		t.Fatal("no archive was made")
	}
	return folder
}

// writeFit writes the result.json of a fit that might have been made of an image.
func writeFit(t *testing.T, e *dockertest.Engine, name, url, files string, args []string) string {
	t.Helper()
	fit := map[string]any{
		"schema": report.FitSchema, "time": "2026-01-02T03:04:05Z", "limitBytes": 160 << 20, "jdk": jdkVersion(t, jvmtest.Home(t, 17)), "arch": "amd64", "slo": "errors=0", "ready": url + "/health",
		"options":     []string{"-XX:+UseSerialGC", "-Xmx32m", "-XX:SharedArchiveFile=/tare/app.jsa"},
		"archive":     map[string]string{"file": "/tare/app.jsa"},
		"recommended": map[string]any{"neededBytes": 90 << 20, "peakBytes": 100 << 20}, "asGiven": map[string]any{"limitBytes": 200 << 20},
		"image": map[string]any{"name": name, "id": e.Docker(t, "inspect", "--format", "{{.Id}}", name), "args": args, "files": files},
		"load":  map[string]any{"targets": []string{"GET " + url + "/sys-summary"}, "concurrency": 1, "warmupSeconds": 0, "durationSeconds": 0.5},
	}
	text, err := json.Marshal(fit)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "result.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A baked image starts with what was proven, its JVM uses the archive, and the rest of
// the image is as it was. The same bake makes the same image.
func TestBake(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	launcher, port := buildLauncher(t), strconv.Itoa(jvmtest.FreePort(t))
	importSysinfo(t, e, "shop:1", "USER 1234", "ENV A=b", `ENTRYPOINT ["java","-jar","sysinfo.jar"]`, `CMD ["--help"]`, `HEALTHCHECK CMD ["true"]`)
	url := "http://127.0.0.1:" + port
	files := trainIn(t, e, "shop:1", port, "java", "-XX:+UseSerialGC", "-Xmx32m", "-XX:ArchiveClassesAtExit=/tare/app.jsa", "-jar", "sysinfo.jar")
	result := writeFit(t, e, "shop:1", url, files, []string{"--port", port})
	archive, layout := filepath.Join(t.TempDir(), "shop.tar"), filepath.Join(t.TempDir(), "oci")
	bake := func(more ...string) report.Bake {
		t.Helper()
		code, out, errs := tareRun(t, append([]string{"bake", "shop:1", "--from-fit", result, "-t", "shop:small", "--ample", "512m", "--launcher", launcher, "--json"}, more...)...)
		if code != exitOK {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		var b report.Bake
		if err := json.Unmarshal([]byte(out), &b); err != nil {
			t.Fatal(err, out)
		}
		return b
	}
	b := bake("--runs", "2", "--archive", archive, "--oci", layout)
	if b.Runs != 2 || b.ArchiveUsed == nil || !*b.ArchiveUsed || b.Baked.NeededBytes <= 0 || b.Given.NeededBytes <= 0 || b.Baked.ReadyMillis <= 0 || len(b.Added) != 2 || len(b.Written) != 3 {
		t.Errorf("%+v", b)
	}
	if b.Given.LimitBytes != 200<<20 || b.Baked.LimitBytes != 160<<20 || b.Baked.ImageBytes-b.Given.ImageBytes != b.Added[0].Bytes+b.Added[1].Bytes {
		t.Errorf("%+v", b)
	}
	format := `{{.Id}} {{json .Config.Entrypoint}} {{json .Config.Cmd}} {{.Config.User}} {{.Config.WorkingDir}} {{json .Config.Healthcheck.Test}} {{index .Config.Labels "dev.tare.limit"}} {{json .Config.Env}}`
	got := e.Docker(t, "inspect", "--format", format, "shop:small")
	want := b.Baked.ID + ` ["/tare/tare-exec","--","java","-jar","sysinfo.jar"] ["--help"] 1234 /app ["CMD","true"] 167772160 ["PATH=/jdk/bin:/bin","A=b","TARE_PROFILE=/tare/tare.json"]`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	// As root nothing may write there, and the launcher takes it in any container.
	if said := e.Docker(t, "run", "--rm", "--network", "host", "-m", "160m", "--entrypoint", "/tare/tare-exec", "shop:small", "--dry-run", "--", "java", "-jar", "sysinfo.jar"); !strings.Contains(said, "-XX:SharedArchiveFile=/tare/app.jsa") || !strings.Contains(said, "-Xmx32m") {
		t.Errorf("it would run %s", said)
	}
	if i, err := image.FromLayout(layout); err != nil || i.ID() != b.Baked.ID {
		t.Errorf("layout: %v", err)
	}
	if i, err := image.FromArchive(archive); err != nil || i.ID() != b.Baked.ID {
		t.Errorf("archive: %v", err)
	}
	if again := bake("--runs", "1"); again.Baked.ID != b.Baked.ID {
		t.Errorf("the same bake makes %s, and %s", b.Baked.ID, again.Baked.ID)
	}
	code, _, errs := tareRun(t, "bake", "shop:small", "--from-fit", result, "-t", "shop:smaller", "--launcher", launcher)
	if code != exitUsage || !strings.Contains(errs, "was made by tare bake") {
		t.Errorf("baked twice: %d: %s", code, errs)
	}

	// An archive that the JVM refuses: the jar that it was made for had another time.
	e.Docker(t, "rmi", "shop:small")
	e.Import(t, "shop:2", map[string]string{"/jdk": jvmtest.Home(t, 17), "/app/sysinfo.jar": touched(t, jvmtest.Jar(t, "sysinfo.jar"))}, "WORKDIR /app", "ENV PATH=/jdk/bin")
	other := trainIn(t, e, "shop:2", port, "java", "-XX:+UseSerialGC", "-Xmx32m", "-XX:ArchiveClassesAtExit=/tare/app.jsa", "-jar", "sysinfo.jar")
	result = writeFit(t, e, "shop:1", url, other, []string{"--port", port})
	code, _, errs = tareRun(t, "bake", "shop:1", "--from-fit", result, "-t", "shop:small", "--ample", "512m", "--launcher", launcher, "--runs", "1")
	if code != exitNoLimit || !strings.Contains(errs, "does not use /tare/app.jsa") || !strings.Contains(errs, "Unable to use shared archive") {
		t.Errorf("an archive for other jars: %d: %s", code, errs)
	}
	if names := slices.Sorted(slices.Values(strings.Fields(e.Docker(t, "images", "--all", "--format", "{{.Repository}}:{{.Tag}}")))); !slices.Equal(names, []string{"shop:1", "shop:2"}) {
		t.Errorf("images %q", names)
	}
	noContainers(t, e)
}

// jdkVersion is the version in a JDK's release file.
func jdkVersion(t *testing.T, home string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, "release"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "JAVA_VERSION="); ok {
			return strings.Trim(v, `"`)
		}
	}
	t.Fatal("no version")
	return ""
}

// touched is a copy of a file with another time.
func touched(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(copied, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(copied, image.FileTime, image.FileTime); err != nil {
		t.Fatal(err)
	}
	return copied
}

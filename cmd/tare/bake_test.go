package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// trainIn makes a class archive in a container of an image, as a fit does, for a jar of
// some time, in a folder that the container has as /tare.
func trainIn(t *testing.T, e *dockertest.Engine, name, port string, jarTime time.Time) (folder string) {
	t.Helper()
	folder = t.TempDir()
	jar := filepath.Join(folder, "extracted", "sysinfo.jar")
	text, err := os.ReadFile(jvmtest.Jar(t, "sysinfo.jar"))
	if err := errors.Join(err, os.Mkdir(filepath.Dir(jar), 0o755), os.WriteFile(jar, text, 0o644), os.Chtimes(jar, jarTime, jarTime)); err != nil {
		t.Fatal(err)
	}
	command := []string{"java", "-XX:+UseSerialGC", "-Xmx32m", "-XX:ArchiveClassesAtExit=/tare/app.jsa", "-jar", "/tare/extracted/sysinfo.jar"}
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
		"jar":         "/tare/extracted/sysinfo.jar",
		"archive":     map[string]string{"file": "/tare/app.jsa", "trainOption": "-XX:ArchiveClassesAtExit=/tare/app.jsa"},
		"recommended": map[string]any{"neededBytes": 90 << 20, "peakBytes": 100 << 20}, "asGiven": map[string]any{"limitBytes": 200 << 20},
		"image": map[string]any{"name": name, "id": e.Docker(t, "inspect", "--format", "{{.Id}}", name), "args": args, "files": files, "byVariable": files == ""},
		"load":  map[string]any{"targets": []string{"GET " + url + "/sys-summary"}, "concurrency": 1, "warmupSeconds": 0, "durationSeconds": 0.5},
	}
	if files == "" { // of a script
		fit["options"], fit["jar"], fit["archive"] = []string{"-XX:+UseSerialGC", "-Xmx32m"}, "", nil
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

// bakedFormat shows of an image what a bake changes, and what it must not.
const bakedFormat = `{{json .Config.Entrypoint}} {{json .Config.Cmd}} {{.Config.User}} {{.Config.WorkingDir}} {{json .Config.Healthcheck.Test}} {{index .Config.Labels "dev.tare.limit"}} {{json .Config.Env}}`

// A baked image starts with what was proven, its JVM uses the archive, and the rest of
// the image is as it was. The same bake makes the same image.
func TestBake(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	launcher, port := buildLauncher(t), strconv.Itoa(jvmtest.FreePort(t))
	files := sysinfoFiles(t)
	files["/bin/curl"], files["/bin/sleep"] = "/usr/bin/curl", "/bin/sleep" // for training in docker build
	importFiles(t, e, "shop:1", files, "USER 1234", "ENV A=b", `ENTRYPOINT ["java","-jar","sysinfo.jar"]`, `CMD ["--help"]`, `HEALTHCHECK CMD ["true"]`)
	url := "http://127.0.0.1:" + port
	result := writeFit(t, e, "shop:1", url, trainIn(t, e, "shop:1", port, image.FileTime), []string{"--port", port})
	archive, layout, context := filepath.Join(t.TempDir(), "shop.tar"), filepath.Join(t.TempDir(), "oci"), filepath.Join(t.TempDir(), "build")
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
	b := bake("--runs", "2", "--archive", archive, "--oci", layout, "--dockerfile", context)
	if b.Runs != 2 || b.ArchiveUsed == nil || !*b.ArchiveUsed || b.Baked.NeededBytes <= 0 || b.Given.NeededBytes <= 0 || b.Baked.ReadyMillis <= 0 || len(b.Added) != 3 || len(b.Written) != 4 {
		t.Errorf("%+v", b)
	}
	if b.Given.LimitBytes != 200<<20 || b.Baked.LimitBytes != 160<<20 || b.Baked.ImageBytes-b.Given.ImageBytes != b.Added[0].Bytes+b.Added[1].Bytes+b.Added[2].Bytes {
		t.Errorf("%+v", b)
	}
	got := e.Docker(t, "inspect", "--format", "{{.Id}} "+bakedFormat, "shop:small")
	want := b.Baked.ID + ` ["/tare/tare-exec","--","java","-jar","/tare/extracted/sysinfo.jar"] ["--help"] 1234 /app ["CMD","true"] 167772160 ["PATH=/jdk/bin:/bin","A=b","TARE_PROFILE=/tare/tare.json"]`
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
	e.Docker(t, "build", "--quiet", "--tag", "shop:built", context)
	if built := e.Docker(t, "inspect", "--format", bakedFormat, "shop:built"); built != strings.TrimPrefix(want, b.Baked.ID+" ") {
		t.Errorf("docker build makes %s\nwant %s", built, want)
	}
	if !usesArchive(t, e, "shop:built", port) {
		t.Error("the image that docker build makes does not use the archive")
	}
	trains := filepath.Join(t.TempDir(), "trains")
	if again := bake("--runs", "1", "--dockerfile", trains, "--train", "curl -fsS "+url+"/sys-summary"); again.Baked.ID != b.Baked.ID {
		t.Errorf("the same bake makes %s, and %s", b.Baked.ID, again.Baked.ID)
	}
	trainsInBuild(t, e, trains, strings.TrimPrefix(want, b.Baked.ID+" "), port)
	code, _, errs := tareRun(t, "bake", "shop:small", "--from-fit", result, "-t", "shop:smaller", "--launcher", launcher)
	if code != exitUsage || !strings.Contains(errs, "was made by tare bake") {
		t.Errorf("baked twice: %d: %s", code, errs)
	}

	// On another machine's engine, whose store is empty.
	elsewhere := dockertest.Start(t)
	elsewhere.Docker(t, "load", "--input", archive)
	if !usesArchive(t, elsewhere, "shop:small", port) {
		t.Error("in another engine the image does not use the archive")
	}

	// An archive that the JVM refuses: the jar that it was made for had another time.
	e.Docker(t, "rmi", "shop:small", "shop:built", "shop:trained")
	other := trainIn(t, e, "shop:1", port, image.FileTime.Add(time.Hour))
	result = writeFit(t, e, "shop:1", url, other, []string{"--port", port})
	before := allImages(t, e)
	code, _, errs = tareRun(t, "bake", "shop:1", "--from-fit", result, "-t", "shop:small", "--ample", "512m", "--launcher", launcher, "--runs", "1")
	if code != exitNoLimit || !strings.Contains(errs, "does not use /tare/app.jsa") || !strings.Contains(errs, "Unable to use shared archive") {
		t.Errorf("an archive for other jars: %d: %s", code, errs)
	}
	if images := allImages(t, e); !slices.Equal(images, before) {
		t.Errorf("images %q, before %q", images, before)
	}
	noContainers(t, e)
}

// allImages are the ids of the images of an engine, which lists those of one second in
// any order.
func allImages(t *testing.T, e *dockertest.Engine) []string {
	t.Helper()
	ids := strings.Fields(e.Docker(t, "images", "--all", "--quiet"))
	slices.Sort(ids)
	return ids
}

// trainsInBuild builds a context that has no class archive: the archive is trained in
// the build, and in use in the image, which is as want says.
func trainsInBuild(t *testing.T, e *dockertest.Engine, context, want, port string) {
	t.Helper()
	if made, err := filepath.Glob(filepath.Join(context, "tare", "*.jsa")); err != nil || len(made) > 0 {
		t.Errorf("in the context of a build that trains is %q, %v", made, err)
	}
	e.Docker(t, "build", "--quiet", "--network", "none", "--tag", "shop:trained", context)
	if built := e.Docker(t, "inspect", "--format", bakedFormat, "shop:trained"); built != want {
		t.Errorf("docker build that trains makes %s\nwant %s", built, want)
	}
	if !usesArchive(t, e, "shop:trained", port) {
		t.Error("the image that docker build trains does not use the archive")
	}
	// A load that never ends well, beside a JVM that ends: no image.
	file := filepath.Join(context, "Dockerfile")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.ReplaceAll(strings.ReplaceAll(string(text), "sys-summary", "no-such-page"), "-XX:+UseSerialGC", "-XX:+NoSuchOption")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("docker", "--host", e.Host, "build", "--force-rm", "--network", "none", "--tag", "shop:untrained", context).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "NoSuchOption") {
		t.Errorf("a build whose application does not start: %v: %s", err, out)
	}
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

// usesArchive says that the JVM of a container of an image has the class archive mapped.
func usesArchive(t *testing.T, e *dockertest.Engine, name, port string) bool {
	t.Helper()
	e.Docker(t, "run", "--detach", "--name", "built", "--network", "host", "-m", "160m", name, "--port", port)
	defer e.Docker(t, "rm", "--force", "built")
	e.AwaitLog(t, "built", "listening on")
	maps, err := os.ReadFile(filepath.Join("/proc", e.Docker(t, "inspect", "--format", "{{.State.Pid}}", "built"), "maps"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(maps), "/tare/app.jsa")
}

// An image whose command is a script keeps it: what was proven goes by a variable.
func TestBakeScript(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	port := strconv.Itoa(jvmtest.FreePort(t))
	importSysinfo(t, e, "shop:1", `ENV JAVA_TOOL_OPTIONS="-Dmine=1"`, `ENTRYPOINT ["/bin/sh","-c","java -jar sysinfo.jar --port `+port+`; exit $?"]`)
	result := writeFit(t, e, "shop:1", "http://127.0.0.1:"+port, "", nil)
	code, out, errs := tareRun(t, "bake", "shop:1", "--from-fit", result, "-t", "shop:small", "--ample", "512m", "--launcher", buildLauncher(t), "--runs", "1")
	if code != exitOK || !strings.Contains(out, "160 MiB is enough for shop:small: 1 of 1 fresh runs pass.") || !strings.Contains(out, "JAVA_TOOL_OPTIONS") {
		t.Fatalf("%d: %s%s", code, out, errs)
	}
	got := e.Docker(t, "inspect", "--format", "{{json .Config.Env}} {{len .RootFS.Layers}} {{index .Config.Entrypoint 0}}", "shop:small")
	if want := `["PATH=/jdk/bin:/bin","JAVA_TOOL_OPTIONS=-XX:+UseSerialGC -Xmx32m -Dmine=1"] 1 /bin/sh`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	noContainers(t, e)
}

// Where tare-exec and the extracted jar go in a command, whatever its parts are in.
func TestBakingCommand(t *testing.T) {
	front := []string{launcherInImage, "--"}
	for _, c := range []struct {
		name                    string
		entrypoint, cmd, args   []string
		jar                     string
		wantEntrypoint, wantCmd []string
		byVariable, refused     bool
	}{
		{name: "entry point", entrypoint: []string{"java", "-jar", "a.jar"}, cmd: []string{"--x"}, args: []string{"--y"}, wantEntrypoint: append(front, "java", "-jar", "a.jar")},
		{name: "command", cmd: []string{"java", "-jar", "a.jar"}, wantCmd: append(front, "java", "-jar", "a.jar")},
		{name: "given command", cmd: []string{"sh"}, args: []string{"java", "-jar", "a.jar"}, wantCmd: append(front, "java", "-jar", "a.jar")},
		{name: "jar in entry point", entrypoint: []string{"java", "-jar", "a.jar"}, jar: "/tare/extracted/a.jar", wantEntrypoint: append(front, "java", "-jar", "/tare/extracted/a.jar")},
		{name: "jar in command", entrypoint: []string{"java"}, cmd: []string{"-jar", "a.jar", "x"}, jar: "/tare/extracted/a.jar", wantEntrypoint: append(front, "java"), wantCmd: []string{"-jar", "/tare/extracted/a.jar", "x"}},
		{name: "jar in arguments", entrypoint: []string{"java"}, args: []string{"-jar", "a.jar"}, jar: "/tare/extracted/a.jar", refused: true},
		{name: "script", entrypoint: []string{"/start.sh"}, byVariable: true},
	} {
		b := baking{config: image.Config{Entrypoint: c.entrypoint, Cmd: c.cmd}}
		text := fmt.Sprintf(`{"jar":%q,"image":{"args":%s,"byVariable":%v}}`, c.jar, words(c.args), c.byVariable)
		if err := json.Unmarshal([]byte(text), &b.fit); err != nil {
			t.Fatal(err)
		}
		entrypoint, cmd, err := b.command()
		if c.jar != "" {
			if _, err := b.parts(); err == nil || !strings.Contains(err.Error(), "fit the image again") {
				t.Errorf("%s: the jar is not there: %v", c.name, err)
			}
		}
		if c.refused != errors.Is(err, errJarElsewhere) || !slices.Equal(entrypoint, c.wantEntrypoint) || !slices.Equal(cmd, c.wantCmd) {
			t.Errorf("%s: %q, %q, %v", c.name, entrypoint, cmd, err)
		}
		if c.jar != "" && !slices.Contains(append(c.entrypoint, append(c.cmd, c.args...)...), "a.jar") {
			t.Errorf("%s: the image's own command was changed", c.name)
		}
	}
}

// The training run of a build is the image's command with what was proven, but for the
// archive that it is to make.
func TestBakingTrains(t *testing.T) {
	for _, c := range []struct {
		entrypoint, cmd []string
		args            string
		byVariable      bool
		want            string
	}{
		{[]string{"java", "-jar", "a.jar"}, []string{"--help"}, `[]`, false, "A='b c' java -Xmx32m -XX:ArchiveClassesAtExit=/tare/app.jsa -jar a.jar --help"},
		{[]string{"java", "-jar", "a.jar"}, []string{"--help"}, `["it's"]`, false, `A='b c' java -Xmx32m -XX:ArchiveClassesAtExit=/tare/app.jsa -jar a.jar 'it'\''s'`},
		{nil, []string{"java", "-jar", "a.jar"}, `[]`, false, "A='b c' java -Xmx32m -XX:ArchiveClassesAtExit=/tare/app.jsa -jar a.jar"},
		{[]string{"/start.sh"}, []string{"$HOME"}, `[]`, true, "A='b c' JAVA_TOOL_OPTIONS='-Xmx32m -XX:ArchiveClassesAtExit=/tare/app.jsa' /start.sh '$HOME'"},
	} {
		b := baking{config: image.Config{Entrypoint: c.entrypoint, Cmd: c.cmd}}
		text := fmt.Sprintf(`{"options":["-Xmx32m","-XX:SharedArchiveFile=/tare/app.jsa"],"env":["A=b c"],"archive":{"file":"/tare/app.jsa","trainOption":"-XX:ArchiveClassesAtExit=/tare/app.jsa"},"image":{"args":%s,"byVariable":%v}}`, c.args, c.byVariable)
		if err := json.Unmarshal([]byte(text), &b.fit); err != nil {
			t.Fatal(err)
		}
		var change image.Change
		var err error
		if change.Entrypoint, change.Cmd, err = b.command(); err != nil {
			t.Fatal(err)
		}
		if got := b.trained(change); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// What is wrong is said in one line before anything runs.
func TestBakeRefuses(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	e.Import(t, "nothing", map[string]string{"/bin/sh": "/bin/dash"}, `ENTRYPOINT ["/bin/sh"]`)
	launcher, full, file := buildLauncher(t), t.TempDir(), filepath.Join(t.TempDir(), "result.json")
	if err := errors.Join(os.WriteFile(filepath.Join(full, "x"), nil, 0o600), os.WriteFile(file, []byte(`{"schema":"tare.fit/1"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host string
		args []string
		code int
		want string
	}{
		{e.Host, nil, exitUsage, "bake takes one image"},
		{e.Host, []string{"a", "b", "-t", "c"}, exitUsage, "bake takes one image"},
		{e.Host, []string{"a"}, exitUsage, "give -t NAME"},
		{e.Host, []string{"a", "-t", "A b"}, exitUsage, "no name of an image"},
		{e.Host, []string{"a", "--jib"}, exitUsage, "name it with --from-fit"},
		{e.Host, []string{"a", "--jib", "--from-fit", file}, exitNoLimit, "nothing to bake"},
		{e.Host, []string{"a", "-t", "b", "--runs", "0"}, exitUsage, "--runs 0"},
		{e.Host, []string{"no-image", "-t", "b", "--launcher", "/etc/passwd", "--ready", "tcp:80"}, exitTarget, "/etc/passwd is not tare-exec"},
		{e.Host, []string{"a", "-t", "b", "--launcher", launcher, "--dockerfile", full}, exitUsage, "name a new folder"},
		{e.Host, []string{"a", "-t", "b", "--train", "true"}, exitUsage, "name its folder with --dockerfile"},
		{e.Host, []string{"a", "-t", "b", "--dockerfile", file + ".d", "--train", "true\nUSER 0"}, exitUsage, "one line"},
		{e.Host, []string{"a", "-t", "b", "--dockerfile", file + ".d", "--train", "cat <<USER"}, exitUsage, "beginning of a file"},
		{e.Host, []string{"a", "-t", "b", "--launcher", launcher, "--from-fit", "/no/such/file"}, exitUsage, "--from-fit"},
		{e.Host, []string{"a", "-t", "b", "--launcher", launcher, "--from-fit", file}, exitUsage, "not of an image"},
		// No hexadecimal name: the engine takes that for the beginning of an image's digest.
		{e.Host, []string{"no-image", "-t", "b", "--launcher", launcher, "--ready", "tcp:80"}, exitTarget, "no such image"},
		{e.Host, []string{"nothing", "-t", "b", "--launcher", launcher, "--ready", "tcp:80"}, exitUsage, "no Java in the image"},
		{"unix:///nowhere.sock", []string{"a", "-t", "b", "--launcher", launcher, "--ready", "tcp:80"}, exitTarget, "no Docker Engine answers"},
	} {
		t.Setenv("DOCKER_HOST", c.host)
		code, out, errs := tareRun(t, append([]string{"bake"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit code %d, want %d; stdout %q; stderr %q, want %q", c.args, code, c.code, out, errs, c.want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if code, _, errs := tareRun(t, "bake", "a", "-t", "b"); code != exitTarget || !strings.Contains(errs, "--launcher") {
		t.Errorf("no tare-exec: %d: %s", code, errs)
	}
	for file, want := range map[string]string{"/bin/sh": "shared libraries", "/etc/passwd": "bad magic"} {
		if err := checkLauncher(file, runtime.GOARCH); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := checkLauncher(launcher, "arm64"); runtime.GOARCH != "arm64" && (err == nil || !strings.Contains(err.Error(), "--launcher")) {
		t.Errorf("another architecture: %v", err)
	}
}

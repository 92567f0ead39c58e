package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// An archive, an OCI layout and a jar are images in the engine, each time the same.
func TestBakeInputs(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	importSysinfo(t, e, "shop:1", `ENTRYPOINT ["java","-jar","sysinfo.jar"]`, `CMD ["--help"]`)
	id := e.Docker(t, "inspect", "--format", "{{.Id}}", "shop:1")
	dir := t.TempDir()
	archive, layout, jar := filepath.Join(dir, "My Shop.tar"), filepath.Join(dir, "oci"), filepath.Join(dir, "shop.jar")
	e.Docker(t, "save", "--output", archive, "shop:1")
	saved, err := image.FromArchive(archive)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := image.ParseTag("shop:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := saved.ToLayout(layout, tag); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(jvmtest.Jar(t, "sysinfo.jar"), jar); err != nil {
		t.Fatal(err)
	}
	taken := func(file, base string) string {
		t.Helper()
		o := bakeOptions{base: base}
		o.image = file
		if err := o.takeIn(t.Context(), io.Discard); err != nil {
			t.Fatal(err)
		}
		return o.image
	}
	for _, file := range []string{archive, layout} {
		if got := e.Docker(t, "inspect", "--format", "{{.Id}}", taken(file, "")); got != id {
			t.Errorf("%s is image %s, want %s", file, got, id)
		}
	}
	if name := taken(archive, ""); !strings.HasPrefix(name, "tare-input/my-shop:") {
		t.Error(name)
	}
	name := taken(jar, "shop:1")
	if again := taken(jar, "shop:1"); again != name {
		t.Errorf("the same jar is %s, and %s", name, again)
	}
	if got := e.Docker(t, "inspect", "--format", "{{json .Config.Entrypoint}} {{json .Config.Cmd}}", name); got != `["java","-jar","/app/shop.jar"] []` && got != `["java","-jar","/app/shop.jar"] null` {
		t.Error(got)
	}
	if said := e.Docker(t, "run", "--rm", "--network", "none", name, "--help"); !strings.Contains(said, "--port") {
		t.Error(said)
	}
}

// What is no image, archive, layout or jar that starts is said before anything runs.
func TestBakeInputsRefused(t *testing.T) {
	dir := t.TempDir()
	empty, jar := filepath.Join(dir, "empty.tar"), filepath.Join(dir, "text.jar")
	for _, file := range []string{empty, jar} {
		if err := os.WriteFile(file, []byte("no archive"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DOCKER_HOST", "unix:///nowhere.sock")
	for _, c := range []struct{ input, base, want string }{
		{"/no/such.tar", "", "no such file"},
		{empty, "", "image archive"},
		{empty, "jdk", "--base jdk is for a jar"},
		{dir, "", "OCI layout"},
		{jar, "", "name one with --base"},
		{jar, "jdk", "not a jar"},
		{"shop:1", "jdk", "--base jdk is for a jar"},
	} {
		o := bakeOptions{base: c.base}
		o.image = c.input
		err := o.takeIn(t.Context(), io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The command of a pod is the whole one; the image's entry point stands before it.
func TestBehindEntryPoint(t *testing.T) {
	java := []string{"java", "-jar", "/app.jar"}
	for _, c := range []struct {
		entry, command []string
		want           string
		ok             bool
	}{
		{java, append(java[:3:3], "--port", "8080"), "--port 8080", true}, {java, java, "", true}, {java, nil, "", true}, {nil, java, "java -jar /app.jar", true},
		{java, []string{"java"}, "", false}, {[]string{"/entry.sh"}, java, "", false},
	} {
		got, err := behind(c.entry, c.command)
		if strings.Join(got, " ") != c.want || (err == nil) != c.ok {
			t.Errorf("%q behind %q: %q, %v", c.command, c.entry, got, err)
		}
	}
}

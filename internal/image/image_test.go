package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/testkit/dockertest"
)

// A configuration with all that must stay, some of it known to no program here.
const configOfBase = `{"architecture":"amd64","os":"linux","created":"2026-01-02T03:04:05Z","future":{"a":1},
"config":{"User":"1001:0","WorkingDir":"/srv","Env":["PATH=/jdk/bin","A=<&>"],"Entrypoint":["java","-jar","a.jar"],"Cmd":["--x"],
"Labels":{"who":"me"},"StopTimeout":7,"Healthcheck":{"Test":["CMD","true"],"StartInterval":5000000000},"ExposedPorts":{"80/tcp":{}},"Volumes":{"/data":{}}},
"history":[{"created":"2026-01-02T03:04:05Z","created_by":"COPY"}],"rootfs":{"type":"layers","diff_ids":["DIFF"]}}`

// writeBase writes an archive as docker save does, of one layer with a file that has
// a time, an owner and an extended attribute.
func writeBase(t *testing.T) (file string, layer []byte) {
	t.Helper()
	var l bytes.Buffer
	w := tar.NewWriter(&l)
	h := &tar.Header{Name: "srv/a.jar", Mode: 0o640, Uid: 1001, Size: 3, ModTime: time.Unix(1700000000, 0), PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}
	if err := errors.Join(w.WriteHeader(h), writeAll(w, "jar"), w.Close()); err != nil {
		t.Fatal(err)
	}
	id, _, err := v1.SHA256(bytes.NewReader(l.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "base.tar")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w = tar.NewWriter(f)
	for _, e := range [][2]string{{"c.json", strings.Replace(configOfBase, "DIFF", id.String(), 1)}, {"l.tar", l.String()}, {"manifest.json", `[{"Config":"c.json","Layers":["l.tar"]}]`}} {
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: e[0], Mode: 0o644, Size: int64(len(e[1]))}), writeAll(w, e[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return file, l.Bytes()
}

func writeAll(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// source is a file on this machine with a time and mode of its own.
func source(t *testing.T, text string, mode os.FileMode, at time.Time) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "source")
	if err := errors.Join(os.WriteFile(name, []byte(text), mode), os.Chtimes(name, at, at)); err != nil {
		t.Fatal(err)
	}
	return name
}

func newLayer(t *testing.T, files ...image.File) image.Layer {
	t.Helper()
	l, err := image.NewLayer("tare bake", files)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func baked(t *testing.T, layers ...image.Layer) *image.Image {
	t.Helper()
	file, _ := writeBase(t)
	base, err := image.FromArchive(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := base.Put(image.Change{Layers: layers, Entrypoint: []string{"/tare/tare-exec", "--", "java", "-jar", "a.jar"}, Env: []string{"TARE_PROFILE=/tare/tare.json", "A=c"},
		Labels: map[string]string{"dev.tare.limit": "1"}, Annotations: map[string]string{"dev.tare.limit": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The same files make the same layer and image, whenever, by whom and in whichever
// order they were made.
func TestSameInputsSameDigest(t *testing.T) {
	one := newLayer(t, image.File{Path: "/tare/a", Source: source(t, "a", 0o600, time.Unix(1, 0)), Executable: true}, image.File{Path: "/tare/lib/b", Content: []byte("b")}, image.File{Path: "/tare/c", Link: "a"})
	two := newLayer(t, image.File{Path: "/tare/c", Link: "a"}, image.File{Path: "/tare/lib/b", Content: []byte("b")}, image.File{Path: "/tare/a", Source: source(t, "a", 0o755, time.Now()), Executable: true})
	a, b := baked(t, one), baked(t, two)
	if a.ID() != b.ID() || !strings.HasPrefix(a.ID(), "sha256:") {
		t.Errorf("%s and %s", a.ID(), b.ID())
	}
	if d, e := pushed(t, a), pushed(t, b); d != e {
		t.Errorf("pushed: %s and %s", d, e)
	}
	if other := baked(t, newLayer(t, image.File{Path: "/tare/a", Content: []byte("other")})); other.ID() == a.ID() {
		t.Error("another file gives the same image")
	}
	r, err := one.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if !h.ModTime.Equal(image.FileTime) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%+v", h)
		}
	}
	if want := []string{"tare/", "tare/a", "tare/c", "tare/lib/", "tare/lib/b"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestLayerRefuses(t *testing.T) {
	for _, files := range [][]image.File{
		{{Path: "relative"}}, {{Path: "/a/../b"}}, {{Path: "/"}}, {{Path: "/a"}, {Path: "/a"}}, {{Path: "/a"}, {Path: "/a/b"}},
		{{Path: "/a", Source: "/no/such/file"}}, {{Path: "/a", Source: "/"}},
	} {
		if l, err := image.NewLayer("x", files); err == nil {
			t.Errorf("%+v: %v", files, l)
		}
	}
}

// pushed pushes an image to a registry of its own and gives its digest.
func pushed(t *testing.T, i *image.Image) string {
	t.Helper()
	tag, digest := push(t, i)
	ref, err := name.ParseReference(tag)
	if err != nil {
		t.Fatal(err)
	}
	back, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(back); err != nil {
		t.Error(err)
	}
	if h, err := back.Digest(); err != nil || h.String() != digest {
		t.Errorf("%s, %v, want %s", h, err, digest)
	}
	return digest
}

func push(t *testing.T, i *image.Image) (tag, digest string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	tag = strings.TrimPrefix(server.URL, "http://") + "/team/shop:2"
	parsed, err := image.ParseTag(tag)
	if err != nil {
		t.Fatal(err)
	}
	if digest, err = i.Push(t.Context(), parsed); err != nil {
		t.Fatal(err)
	}
	return tag, digest
}

// What is not to be changed stays: keys that nobody here knows, and layers bit for
// bit, also as they are compressed in a layout.
func TestRestStays(t *testing.T) {
	file, layer := writeBase(t)
	base, err := image.FromArchive(file)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := image.ParseTag("shop:1")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "oci")
	if err := base.ToLayout(dir, tag); err != nil {
		t.Fatal(err)
	}
	before := layoutImage(t, dir, "shop:1")
	from, err := image.FromLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	out, err := from.Put(image.Change{Layers: []image.Layer{newLayer(t, image.File{Path: "/tare/a", Content: []byte("a")})},
		Cmd: []string{"--y"}, Labels: map[string]string{"dev.tare.limit": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := image.ParseTag("shop:2")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it takes the name from itself
		if err := out.ToLayout(dir, other); err != nil {
			t.Fatal(err)
		}
	}
	after := layoutImage(t, dir, "shop:2")
	was, is := digests(t, before), digests(t, after)
	if len(is) != len(was)+1 || !slices.Equal(is[:len(was)], was) {
		t.Errorf("compressed layers %q, before %q", is, was)
	}
	layers, err := after.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || !bytes.Equal(text, layer) {
		t.Errorf("another layer: %v", err)
	}
	if size, err := out.Size(); err != nil || size <= int64(len(layer)) {
		t.Errorf("%d bytes, %v", size, err)
	}

	old, now := configOf(t, before), configOf(t, after)
	for _, key := range []string{"future", "created", "architecture"} {
		if !reflect.DeepEqual(old[key], now[key]) {
			t.Errorf("%s was %v, and is %v", key, old[key], now[key])
		}
	}
	oldConfig, config := old["config"].(map[string]any), now["config"].(map[string]any)
	for key, value := range oldConfig {
		if key != "Cmd" && key != "Labels" && !reflect.DeepEqual(value, config[key]) {
			t.Errorf("%s was %v, and is %v", key, value, config[key])
		}
	}
	if want := map[string]any{"who": "me", "dev.tare.limit": "1"}; !reflect.DeepEqual(config["Labels"], want) || !reflect.DeepEqual(config["Cmd"], []any{"--y"}) {
		t.Errorf("%v, %v", config["Labels"], config["Cmd"])
	}
	if len(now["history"].([]any)) != 2 {
		t.Errorf("history %v", now["history"])
	}
	if _, err := image.FromLayout(dir); !errors.Is(err, image.ErrNotOneImage) {
		t.Errorf("a layout of two images: %v", err)
	}
}

func layoutImage(t *testing.T, dir, tag string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found v1.Image
	for _, d := range m.Manifests {
		if d.Annotations["org.opencontainers.image.ref.name"] == tag {
			if found != nil {
				t.Errorf("%s is there twice", tag)
			}
			if found, err = index.Image(d.Digest); err != nil {
				t.Fatal(err)
			}
		}
	}
	if found == nil {
		t.Fatalf("no %s in the layout", tag)
	}
	if err := validate.Image(found); err != nil {
		t.Error(err)
	}
	return found
}

func digests(t *testing.T, i v1.Image) []string {
	t.Helper()
	m, err := i.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range m.Layers {
		out = append(out, l.Digest.String())
	}
	return out
}

func configOf(t *testing.T, i v1.Image) map[string]any {
	t.Helper()
	text, err := i.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Variables take the place of others of their name; the rest of the environment
// stays in its order.
func TestEnv(t *testing.T) {
	c, err := baked(t).Config()
	if err != nil || !slices.Equal(c.Env, []string{"PATH=/jdk/bin", "A=c", "TARE_PROFILE=/tare/tare.json"}) || c.Architecture != "amd64" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestParseTag(t *testing.T) {
	for text, want := range map[string]string{"shop": "shop:latest", "shop:1.4": "shop:1.4", "team/shop:1": "team/shop:1", "127.0.0.1:5000/shop:1": "127.0.0.1:5000/shop:1", "ghcr.io/a/b:c": "ghcr.io/a/b:c"} {
		if tag, err := image.ParseTag(text); err != nil || tag.String() != want {
			t.Errorf("%s: %s, %v", text, tag, err)
		}
	}
	for _, text := range []string{"", "Shop:1", "shop:a b", "shop@sha256:00"} {
		if tag, err := image.ParseTag(text); err == nil {
			t.Errorf("%q: %s", text, tag)
		}
	}
}

// A registry that refuses or is down is told of in one line, and what was said to it
// is in none.
func TestPushFails(t *testing.T) {
	const user, password = "robot", "s3cret-token"
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_ = writeAll(w, `{"errors":[{"code":"DENIED","message":"`+password+`"}]}`)
	}))
	defer refuses.Close()
	host := strings.TrimPrefix(refuses.URL, "http://")
	down := httptest.NewServer(nil)
	gone := strings.TrimPrefix(down.URL, "http://")
	down.Close()
	i := baked(t)
	for _, login := range []bool{false, true} {
		dir := t.TempDir()
		t.Setenv("DOCKER_CONFIG", dir)
		if login {
			auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
			if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"auths":{"`+host+`":{"auth":"`+auth+`"}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct{ host, want string }{{host, "docker login"}, {gone, "connection refused"}} {
			tag, err := image.ParseTag(c.host + "/shop:1")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err = i.Push(ctx, tag)
			cancel()
			if !errors.Is(err, image.ErrRegistry) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "\n") {
				t.Errorf("logged in %v, %s: %v", login, c.host, err)
			}
		}
	}
}

// A real engine takes the image, and its container has the old layers, the new one,
// and the rest of the configuration.
func TestEngine(t *testing.T) {
	e := dockertest.Start(t)
	e.Import(t, "shop:1", map[string]string{"/bin/sh": "/bin/dash"}, "WORKDIR /srv", "USER 1234", `ENTRYPOINT ["/bin/sh","-c"]`, `CMD ["exit 1"]`, "ENV A=b", `HEALTHCHECK CMD ["true"]`)
	engine, err := docker.NewEngine(e.Host)
	if err != nil {
		t.Fatal(err)
	}
	base, err := image.FromEngine(t.Context(), engine, "shop:1")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	if id := e.Docker(t, "inspect", "--format", "{{.Id}}", "shop:1"); id != base.ID() {
		t.Errorf("%s, want %s", base.ID(), id)
	}
	out, err := base.Put(image.Change{Layers: []image.Layer{newLayer(t, image.File{Path: "/tare/a", Content: []byte("from tare")})}, Cmd: []string{`read x </tare/a; echo "$x, $A, $PWD"`}})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := image.ParseTag("shop:2")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(out.ToEngine(t.Context(), engine), tag.TagIn(t.Context(), engine, out.ID())); err != nil {
		t.Fatal(err)
	}
	if said := e.Docker(t, "run", "--rm", "--network", "host", "shop:2"); said != "from tare, b, /srv" {
		t.Errorf("it says %q", said)
	}
	got := e.Docker(t, "inspect", "--format", "{{.Id}} {{.Config.User}} {{json .Config.Healthcheck.Test}}", "shop:2")
	if want := out.ID() + ` 1234 ["CMD","true"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	was, is := e.Docker(t, "inspect", "--format", "{{json .RootFS.Layers}}", "shop:1"), e.Docker(t, "inspect", "--format", "{{json .RootFS.Layers}}", "shop:2")
	if !strings.HasPrefix(is, strings.TrimSuffix(was, "]")+",") {
		t.Errorf("layers %s, before %s", is, was)
	}

	archive := filepath.Join(t.TempDir(), "shop.tar")
	if err := errors.Join(engine.RemoveImage(t.Context(), "shop:2"), engine.RemoveImage(t.Context(), "shop:2"), out.ToArchive(archive, tag)); err != nil {
		t.Fatal(err)
	}
	e.Docker(t, "load", "--input", archive)
	if id := e.Docker(t, "inspect", "--format", "{{.Id}}", "shop:2"); id != out.ID() {
		t.Errorf("loaded %s, want %s", id, out.ID())
	}
	if _, err := image.FromEngine(t.Context(), engine, "none:1"); !errors.Is(err, docker.ErrNoImage) {
		t.Error(err)
	}
	if err := engine.Load(t.Context(), strings.NewReader("no archive")); err == nil {
		t.Error("no error of what is no archive")
	}
	if _, err := engine.CopyFrom(t.Context(), "none", "/x"); err == nil {
		t.Error("no error of a container that is not there")
	}
}

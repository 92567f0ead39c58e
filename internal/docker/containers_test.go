package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"testing"
)

func frame(stream byte, text string) string {
	header := make([]byte, 8)
	header[0] = stream
	binary.BigEndian.PutUint32(header[4:], uint32(len(text)))
	return string(header) + text
}

// failing takes so many bytes and then fails.
type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("full")
	}
	return len(p), nil
}

func TestDemux(t *testing.T) {
	var out, errs bytes.Buffer
	text := frame(1, "a") + frame(2, "b") + frame(1, "") + frame(1, "c\n")
	if err := Demux(strings.NewReader(text), &out, &errs); err != nil || out.String() != "ac\n" || errs.String() != "b" {
		t.Errorf("%q, %q, %v", out.String(), errs.String(), err)
	}
	if err := Demux(strings.NewReader(text), nil, nil); err != nil {
		t.Error(err)
	}
	errs.Reset()
	if err := Demux(strings.NewReader(text), &failing{}, &errs); err != nil || errs.String() != "b" {
		t.Errorf("a writer that fails: %q, %v", errs.String(), err)
	}
	for _, text := range []string{"\x01", frame(3, "x"), frame(1, "abc")[:9]} {
		if err := Demux(strings.NewReader(text), nil, nil); !errors.Is(err, ErrFrame) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What a container prints comes out whole, and nothing else.
func FuzzDemux(f *testing.F) {
	f.Add([]byte(frame(1, "out")+frame(2, "err")), "x")
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xff"), "")
	f.Fuzz(func(t *testing.T, stream []byte, text string) {
		var out, errs bytes.Buffer
		err := Demux(bytes.NewReader(stream), &out, &errs)
		if out.Len()+errs.Len() > len(stream) || err == nil && (out.Len()+errs.Len())+8 > len(stream) && len(stream) > 0 {
			t.Fatalf("%d and %d bytes of %d, %v", out.Len(), errs.Len(), len(stream), err)
		}
		out.Reset()
		if err := Demux(strings.NewReader(frame(1, text)), &out, nil); err != nil || out.String() != text {
			t.Fatalf("%q, %v", out.String(), err)
		}
	})
}

func TestParseEnding(t *testing.T) {
	if code, err := parseEnding("3f4e8a5b7c9d", http.StatusOK, []byte(`{"Error":null,"StatusCode":137}`)); code != 137 || err != nil {
		t.Error(code, err)
	}
	for _, c := range []struct {
		status int
		text   string
	}{{http.StatusOK, `{}`}, {http.StatusOK, `{"StatusCode":256}`}, {http.StatusOK, `{"StatusCode":-1}`}, {http.StatusOK, ``},
		{http.StatusOK, `{"StatusCode":0,"Error":{"Message":"lost"}}`}, {http.StatusNotFound, `{"message":"gone"}`}} {
		if code, err := parseEnding("3f4e8a5b7c9d", c.status, []byte(c.text)); err == nil {
			t.Errorf("%d %s: %d", c.status, c.text, code)
		}
	}
}

func TestParseImage(t *testing.T) {
	i, err := parseImage("shop:1", http.StatusOK, []byte(`{"Id":"sha256:abc","Architecture":"amd64","Config":{"Env":["A=b"],"Entrypoint":null,"Cmd":["java"],"WorkingDir":"/app"}}`))
	if err != nil || i.ID != "sha256:abc" || i.Config.Cmd[0] != "java" || i.Config.Entrypoint != nil || i.Config.WorkingDir != "/app" {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := parseImage("shop:1", http.StatusNotFound, nil); !errors.Is(err, ErrNoImage) {
		t.Error(err)
	}
	for _, text := range []string{``, `{}`, `[]`, `{"Id":1}`} {
		if _, err := parseImage("shop:1", http.StatusOK, []byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// An image is known by its own id, and by those that the runtimes of a cluster tell.
func TestImageIs(t *testing.T) {
	i := Image{ID: "sha256:abc", RepoDigests: []string{"registry.example/shop@sha256:def"}}
	for id, want := range map[string]bool{
		"sha256:abc": true, "docker://sha256:abc": true, "registry.example/shop@sha256:def": true, "docker-pullable://mirror.example/shop@sha256:def": true,
		"": false, "sha256:def": false, "shop@sha256:abc": false, "shop@": false, "registry.example/shop@sha256:de": false,
	} {
		if i.Is(id) != want {
			t.Errorf("%q: %v, want %v", id, !want, want)
		}
	}
}

package docker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestParsePort(t *testing.T) {
	for text, want := range map[string]string{"8080:80": "127.0.0.1:8080:80", "0.0.0.0:1:65535": "0.0.0.0:1:65535", "8125:8125/udp": "127.0.0.1:8125:8125/udp", "8080:80/tcp": "127.0.0.1:8080:80"} {
		p, err := ParsePort(text)
		if err != nil || p.String() != want {
			t.Errorf("%s: %s, %v", text, p, err)
		}
		if again, err := ParsePort(p.String()); err != nil || again != p {
			t.Errorf("%s: %+v, %v", p, again, err)
		}
	}
	for _, text := range []string{"", "80", "0:80", "80:0", "80:65536", "a:b", "host:80:80", "80:80/sctp", "1:2:3:4", "-1:80"} {
		if p, err := ParsePort(text); err == nil {
			t.Errorf("%q: %s", text, p)
		}
	}
}

func TestRunCheck(t *testing.T) {
	r := Run{Volumes: []string{"./data:/data:ro", "/a:/b", "name:/c"}, Tmpfs: []string{"/run", "/tmp:size=8m"}, Network: "shop"}
	if err := r.Check("/home/me"); err != nil || !slices.Equal(r.Volumes, []string{"/home/me/data:/data:ro", "/a:/b", "name:/c"}) {
		t.Errorf("%q, %v", r.Volumes, err)
	}
	for want, r := range map[string]Run{
		"is no volume":          {Volumes: []string{"/data"}},
		"write it as /folder":   {Volumes: []string{"/data:relative"}},
		"is no tmpfs":           {Tmpfs: []string{"run"}},
		"leave out":             {Network: "host", Ports: []Port{{}}},
		"name one of the":       {Network: "none"},
		`network "container:a"`: {Network: "container:a"},
	} {
		if err := r.Check("/"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", r, err, want)
		}
	}
}

// What the engine is asked for (Docker Engine API 1.41, ContainerCreate).
func TestRunRequest(t *testing.T) {
	var plain createRequest
	Run{}.set(&plain)
	if text, err := json.Marshal(plain.HostConfig); err != nil || !strings.Contains(string(text), `"NetworkMode":"host"`) || strings.Contains(string(text), "PortBindings") {
		t.Errorf("%s, %v", text, err)
	}
	p, err := ParsePort("8080:80")
	if err != nil {
		t.Fatal(err)
	}
	r := Run{Volumes: []string{"/a:/b"}, Tmpfs: []string{"/run", "/tmp:size=8m"}, Ports: []Port{p}, User: "1:2", ReadOnly: true}
	var q createRequest
	r.set(&q)
	text, err := json.Marshal(q)
	if err != nil || r.Shares() {
		t.Fatal(err, r.Shares())
	}
	for _, want := range []string{`"NetworkMode":"bridge"`, `"Binds":["/a:/b"]`, `"Tmpfs":{"/run":"","/tmp":"size=8m"}`, `"PortBindings":{"80/tcp":[{"HostIp":"127.0.0.1","HostPort":"8080"}]}`,
		`"ExposedPorts":{"80/tcp":{}}`, `"User":"1:2"`, `"ReadonlyRootfs":true`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if want := []string{"-v", "/a:/b", "--tmpfs", "/run", "--tmpfs", "/tmp:size=8m", "-p", "127.0.0.1:8080:80", "--user", "1:2", "--read-only"}; !slices.Equal(r.Flags(), want) {
		t.Errorf("%q", r.Flags())
	}
}

package docker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// What the engine is asked for where a container serves others (Docker Engine API 1.41,
// ContainerCreate).
func TestServiceRequest(t *testing.T) {
	text := func(s Spec) string {
		t.Helper()
		out, err := json.Marshal(s.request())
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	init := true
	s := Spec{Image: "db", Run: Run{Network: "net", Aliases: []string{"db", "shop-db"}}, Service: Service{WorkingDir: "/w", Hostname: "h", StopSignal: "SIGINT", KeepLog: true,
		Healthcheck: &Health{Test: []string{"CMD", "true"}, Interval: time.Second, Retries: 3},
		Host:        HostConfig{CapAdd: []string{"NET_ADMIN"}, Ulimits: []Ulimit{{"nofile", 1, 2}}, ShmSize: 7, Init: &init, ExtraHosts: []string{"a:1"}}}}
	got := text(s)
	for _, want := range []string{`"Entrypoint":null`, `"Cmd":null`, `"WorkingDir":"/w"`, `"Hostname":"h"`, `"StopSignal":"SIGINT"`, `"Healthcheck":{"Test":["CMD","true"],"Interval":1000000000,"Retries":3}`,
		`"NetworkingConfig":{"EndpointsConfig":{"net":{"Aliases":["db","shop-db"]}}}`, `"LogConfig":{"Type":"json-file","Config":{"max-file":"1","max-size":"1m"}}`,
		`"CapAdd":["NET_ADMIN"]`, `"Ulimits":[{"Name":"nofile","Soft":1,"Hard":2}]`, `"ShmSize":7`, `"Init":true`, `"ExtraHosts":["a:1"]`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	// An entry point of its own has none of the image's arguments.
	got = text(Spec{Image: "app", Entrypoint: []string{"java"}})
	for _, want := range []string{`"Entrypoint":["java"],"Cmd":[]`, `"LogConfig":{"Type":"none"}`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	for _, never := range []string{"NetworkingConfig", "Healthcheck", "KeepLog", "Hostname", "CapAdd"} {
		if strings.Contains(got, never) {
			t.Errorf("%s in %s", never, got)
		}
	}
}

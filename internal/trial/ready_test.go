package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
)

func TestParseReady(t *testing.T) {
	for _, s := range []string{"http://127.0.0.1:8080/health", "https://localhost/x", "tcp:8080", "tcp:[::1]:80", "log:Started .* in"} {
		if r, err := ParseReady(s); err != nil || r.String() != s {
			t.Errorf("%q: %v, %v", s, r, err)
		}
	}
	for _, s := range []string{"", "8080", "tcp:", "tcp:0", "tcp:70000", "tcp:a:b:c", "log:", "log:(", "http://", "ftp://x"} {
		if _, err := ParseReady(s); err == nil {
			t.Errorf("%q accepted", s)
		}
	}
}

func TestReadyWaits(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	for _, s := range []string{server.URL, "tcp:" + strings.TrimPrefix(server.URL, "http://")} {
		r, err := ParseReady(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.wait(t.Context(), newCapture(nil, nil)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("asked %d times", n)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnded)
	r, _ := ParseReady("log:x")
	if err := r.wait(ctx, newCapture(nil, nil)); !errors.Is(err, errEnded) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	target, err := load.ParseTarget("http://" + l.Addr().String() + "/x")
	if err != nil {
		t.Fatal(err)
	}
	addrs := localAddrs(Ready{}, load.HTTP{Plan: load.Plan{Targets: []load.Target{target, target, {URL: "http://192.0.2.1:80/"}}}})
	if len(addrs) != 1 {
		t.Errorf("addresses %q", addrs)
	}
	var inUse *PortInUseError
	if err := checkPorts(t.Context(), runner.ThisHost(), addrs); !errors.As(err, &inUse) || !strings.HasPrefix(inUse.Who, fmt.Sprintf("process %d (", os.Getpid())) {
		t.Errorf("got %v", err)
	}
	l.Close()
	if err := checkPorts(t.Context(), runner.ThisHost(), addrs); err != nil {
		t.Errorf("free port: %v", err)
	}
}

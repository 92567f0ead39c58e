package runner_test

import (
	"net"
	"strconv"
	"testing"

	"tare.dev/tare/internal/runner"
)

// Ports are all different, and each can be listened on.
func TestFreePorts(t *testing.T) {
	const n = 20
	ports, err := runner.ThisHost().FreePorts(t.Context(), n)
	if err != nil || len(ports) != n {
		t.Fatal(ports, err)
	}
	for _, port := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatalf("port %d of %v: %v", port, ports, err)
		}
		defer l.Close() // the same port again would be in use
	}
}

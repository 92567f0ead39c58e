package kube

import (
	"testing"

	"tare.dev/tare/internal/runner"
)

func TestHost(t *testing.T) {
	r := &Runner{}
	if n, err := r.Available(t.Context()); err == nil {
		t.Errorf("%d bytes available on a node that nobody knows", n)
	}
	r.machine, r.available = &runner.Machine{CPUs: 2}, 1<<30
	if n, err := r.Available(t.Context()); err != nil || n != 1<<30 {
		t.Errorf("%d, %v", n, err)
	}
}

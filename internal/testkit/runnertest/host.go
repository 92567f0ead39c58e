package runnertest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/polltest"
)

// Host is the part of the suite for hosts that are this machine: how they describe it.
func Host(t *testing.T, h runner.Host) {
	proc := linux.NewFS("/proc")
	release, err := proc.KernelRelease()
	if err != nil {
		t.Fatal(err)
	}
	mem, err := proc.MemInfo()
	if err != nil {
		t.Fatal(err)
	}
	m, err := h.Machine(t.Context())
	if err != nil || m.Kernel != release || m.Arch != runtime.GOARCH || m.CPUs < 1 || m.MemoryBytes != mem.Total {
		t.Errorf("%+v of Linux %s with %d bytes, %v", m, release, mem.Total, err)
	}
	if n, err := h.Available(t.Context()); err != nil || n <= 0 || n > mem.Total {
		t.Errorf("%d of %d bytes available, %v", n, mem.Total, err)
	}
	if b, err := h.Busy(t.Context()); err != nil || b.At <= 0 || b.All <= 0 || b.CPUs != m.CPUs {
		t.Errorf("%+v, %v", b, err)
	}
	polltest.UntilNil(t, func() error { // a coarse clock moves now and then
		d, err := h.Pace(t.Context())
		if err == nil && (d <= 0 || d > time.Second) {
			t.Errorf("a pace of %v", d)
		}
		return err
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, machine := h.Machine(ended)
	_, available := h.Available(ended)
	_, busy := h.Busy(ended)
	_, pace := h.Pace(ended)
	for what, err := range map[string]error{"machine": machine, "available": available, "busy": busy, "pace": pace} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s after the end: %v", what, err)
		}
	}
}

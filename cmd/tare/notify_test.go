package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An agent says to its service manager that it is up, and its children do not know of it.
func TestAgentSaysThatItIsUp(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	if code, _, errs := tareRun(t, "agent", "--ledger", t.TempDir(), "--for", "100ms"); code != exitOK {
		t.Fatalf("%d, %s", code, errs)
	}
	if got := os.Getenv("NOTIFY_SOCKET"); got != "" {
		t.Errorf("children are told %q", got)
	}
	if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	n, err := l.Read(said)
	if err != nil || string(said[:n]) != "READY=1" {
		t.Errorf("%q, %v", said[:n], err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	if code, _, errs := tareRun(t, "agent", "--ledger", t.TempDir(), "--for", "100ms"); code == exitOK {
		t.Errorf("nobody was told: %s", errs)
	}
}

package nodes

import (
	"context"
	"io"
	"testing"
)

// What the ephemeral container runs ends with its line, and when it is told to.
func TestHold(t *testing.T) {
	in, line := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Hold(t.Context(), in) }()
	if _, err := line.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("it ended while somebody was connected: %v", err)
	default:
	}
	line.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	silent, _ := io.Pipe()
	if err := Hold(ctx, silent); err != nil {
		t.Error(err)
	}
}

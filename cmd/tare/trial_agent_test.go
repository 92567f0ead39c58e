package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/remote"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/polltest"
)

// The command serves whoever has the token of its file, on a socket for its
// user alone, and leaves nothing when it ends.
func TestTrialAgent(t *testing.T) {
	dir := t.TempDir()
	socket, file := filepath.Join(dir, "s"), filepath.Join(dir, "token")
	const token = "sixteen bytes or more"
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"trial-agent", "--listen", "unix:" + socket, "--token-file", file}, &errs, &errs)
	}()
	var c *remote.Client
	polltest.UntilNil(t, func() (err error) {
		c, err = remote.NewClient(t.Context(), "unix:"+socket, token)
		return err
	})
	if st, err := os.Stat(socket); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	var out bytes.Buffer
	p, err := c.Start(t.Context(), runner.Spec{Args: []string{"sh", "-c", "echo begun; sleep 600"}, Env: os.Environ(), Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	// The agent ends, and what it started with it.
	cancel()
	if code := <-ended; code != exitOK && code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, &errs)
	}
	<-p.Done()
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	for _, args := range [][]string{
		{"--listen", "unix:" + socket, "--token-file", filepath.Join(dir, "none")}, {"--listen", "0.0.0.0:1", "--token-file", file}, {"--listen", "unix:" + socket}, {},
	} {
		errs.Reset()
		if code := run(t.Context(), append([]string{"trial-agent"}, args...), &errs, &errs); code != exitUsage || errs.Len() == 0 || !strings.HasPrefix(errs.String(), "tare: ") {
			t.Errorf("%q: exit code %d: %s", args, code, &errs)
		}
	}
}

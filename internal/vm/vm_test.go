package vm

import (
	"strings"
	"testing"
	"time"
)

// The errors name what was wrong, before anything boots.
func TestNoMachine(t *testing.T) {
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{Copies: []Copy{{Host: "/nonexistent/file"}}}, "--copy /nonexistent/file: no such file"},
		{Options{Copies: []Copy{{Host: "x", Guest: "relative"}}}, "must be absolute"},
		{Options{Kernel: "../x"}, "--kernel ../x: must match"},
		{Options{Env: []string{"1=2"}}, "--env 1=: must match"},
		{Options{Timeout: time.Millisecond}, "whole seconds"},
	} {
		if _, err := Run(t.Context(), c.opts, []string{"true"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.opts, err, c.want)
		}
	}
}

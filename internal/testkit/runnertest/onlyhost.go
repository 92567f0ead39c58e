package runnertest

import (
	"context"
	"errors"

	"tare.dev/tare/internal/runner"
)

// onlyHost is a Runner that starts nothing.
type onlyHost struct{ runner.Host }

// OnlyHost is a Runner of a machine that can be asked, and starts nothing.
func OnlyHost(h runner.Host) runner.Runner { return onlyHost{h} }

// Name is "".
func (onlyHost) Name() string { return "" }

// Start fails.
func (onlyHost) Start(context.Context, runner.Spec) (runner.Process, error) {
	return nil, errors.New("this runner starts nothing")
}

// Sweep finds nothing.
func (onlyHost) Sweep(context.Context) ([]string, error) { return nil, nil }

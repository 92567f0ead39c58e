package fit

import (
	"context"
	"fmt"

	"tare.dev/tare/internal/runner"
)

// Machine is where it was measured.
type Machine = runner.Machine

// Java is an installed launcher.
type Java = runner.Java

// Survey asks the runner for what the config has to know of the machine, and of the
// application's files there.
func (c *Config) Survey(ctx context.Context) error {
	var err error
	if c.Machine, err = c.Runner.Machine(ctx); err != nil {
		return fmt.Errorf("the machine: %w", err)
	}
	if jar := c.jarPath(); jar != "" {
		// Of a jar that cannot be read the JVM will say why.
		app, err := c.Runner.File(ctx, jar)
		c.NestedJars = err == nil && app.NestedJars
	}
	if c.Image != nil {
		return nil // what disk an image lies on is not known
	}
	launcher, err := c.Runner.File(ctx, c.Java.Path)
	if err != nil {
		return fmt.Errorf("java launcher: %w", err)
	}
	c.ReadAheadBytes = launcher.ReadAheadBytes
	return nil
}

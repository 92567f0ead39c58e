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
	if jar := c.JarPath(); jar != "" {
		// Of a jar that cannot be read the JVM will say why.
		app, err := c.Runner.File(ctx, jar)
		c.NestedJars = err == nil && app.NestedJars
	}
	if err := c.surveyClassPath(ctx); err != nil {
		return err
	}
	// Of one that is in an image, the disk is not known.
	if launcher, err := c.Runner.File(ctx, c.Java.Path); err == nil {
		c.ReadAheadBytes = launcher.ReadAheadBytes
	}
	return ctx.Err()
}

// surveyClassPath asks for what the levers need to know of the class path.
func (c *Config) surveyClassPath(ctx context.Context) error {
	q := runner.ClassPathQuery{Paths: c.paths(c.Command), Folders: []string{c.Dir}, Entries: c.needs(), Texts: configures()}
	if len(q.Entries) == 0 {
		return nil
	}
	var err error
	if c.ClassPath, err = c.Runner.ClassPath(ctx, q); err != nil {
		return fmt.Errorf("class path: %w", err)
	}
	return nil
}

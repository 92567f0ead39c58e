package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
)

// framesPerSecond is how often the screen looks for something new to draw:
// soon enough for a key, and next to free of cost.
const framesPerSecond = 10

// Screen shows a session on the terminal that in and out are, until a key, the
// session, the JVM or ctx ends it; none of these is an error. The terminal is
// then as it was before, and the last picture stands on it.
func Screen(ctx context.Context, in io.Reader, out io.Writer, s *Session, interval time.Duration, record string, style document.Style) error {
	first, err := s.Next(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := func() (*footprint.Footprint, error) { return s.Next(ctx) }
	program := tea.NewProgram(
		NewModel(first, next, interval, record, style),
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out),
		tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	final, err := program.Run()
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the screen failed: %w", err)
	}
	m := final.(Model).last()
	if _, err := fmt.Fprintln(out, m.Picture()); err != nil {
		return err
	}
	return m.err
}

package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
)

// leftOn is a machine with so much memory left.
type leftOn struct {
	runner.Host
	bytes int64
}

func (m leftOn) Available(context.Context) (int64, error) { return m.bytes, nil }

// The baseline has room for the heap that the user has sized, and never takes more than half of
// what there is unless --ample says so.
func TestAmple(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		given     int64
		option    string
		available int64
		want      int64 // 0: an error
	}{
		{0, "", 64 * gib, 2 * gib},
		{0, "", 3 * gib, 3 * gib / 2},
		{0, "-Xmx512m", 64 * gib, 2 * gib},
		{0, "-Xmx4g", 64 * gib, 5 * gib},
		{0, "-XX:MaxHeapSize=4g", 64 * gib, 5 * gib},
		{0, "-XX:MaxRAMPercentage=75", 64 * gib, 2 * gib},
		{0, "-Xmx4g", 6 * gib, 3 * gib},
		{0, "-Xmx8589934591g", 64 * gib, 32 * gib},
		{3 * gib, "-Xmx4g", 64 * gib, 3 * gib},
		{3 * gib, "", 2 * gib, 0},
		{0, "", 20 << 20, 0},
	} {
		args := []string{"-jar", "app.jar"}
		if c.option != "" {
			args = slices.Insert(args, 0, c.option)
		}
		t.Run(fmt.Sprint(c.given/gib, c.option, c.available/gib), func(t *testing.T) {
			options, err := jvmopts.Read(jvmopts.Input{Release: jvmopts.ParseRelease("25.0.1"), Args: args})
			if err != nil {
				t.Fatal(err)
			}
			got, most, err := ample(t.Context(), c.given, options, leftOn{bytes: c.available})
			if got != c.want || (err == nil) != (c.want > 0) {
				t.Errorf("%d, %v, want %d", got, err, c.want)
			}
			if rises := err == nil && c.given == 0; rises != (most == c.available/2) {
				t.Errorf("it may become %d", most)
			}
		})
	}
}

package main

import (
	"strings"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	const output = "ok  \ttare.dev/tare/internal/load\t2.970s\nok  \ttare.dev/tare/cmd/tare\t310.5s\n?   \ttare.dev/tare/bench/cost\t[no test files]\nok  \ttare.dev/tare/x\t(cached)\n"
	got := text([]testRun{{"empty caches", 20 * time.Minute, nil}, {"warm caches", 16*time.Minute + 400*time.Millisecond, packageTimes(output)}})
	for _, want := range []string{"| empty | 20m0s | 25m0s | reached |\n| warm | 16m0s | 15m0s | missed |\n", "with warm caches", "| tare.dev/tare/cmd/tare | 310 |\n| tare.dev/tare/internal/load | 3 |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

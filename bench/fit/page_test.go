package main

import (
	"math"
	"strings"
	"testing"
)

// The parts of an answer's limit add up to it, but for bytes that means lose.
func TestParts(t *testing.T) {
	f, err := figuresOf(openTree(t), 10)
	if err == nil {
		err = f.replayOnNodes(openTree(t), 10, mostNodes)
	}
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, r := range f.answered() {
		if r.need == nil {
			continue
		}
		told++
		sum := 0.0
		for _, p := range parts[:6] {
			sum += p.of(r)
		}
		if math.Abs(sum-limitOf(r)) > 0.001 {
			t.Errorf("seed %d: parts of %.3f MiB, limit %.0f", r.seed, sum, limitOf(r))
		}
	}
	if text := pageOf([]figures{f}); told == 0 || !strings.Contains(text, "| difference of runs |") || strings.Contains(text, "NaN") {
		t.Errorf("%d answers have parts:\n%s", told, text)
	}
}

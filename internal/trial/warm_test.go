package trial

import (
	"testing"
	"time"
)

func TestWarm(t *testing.T) {
	const ms = time.Millisecond
	block := func(cost time.Duration, compiling float64) WarmBlock {
		return WarmBlock{Requests: 500, Cost: cost, Compiling: &compiling}
	}
	paced := func(b WarmBlock, pace time.Duration) WarmBlock { b.Pace = pace; return b }
	unseen := func(cost time.Duration) WarmBlock { return WarmBlock{Requests: 500, Cost: cost} }
	for _, c := range []struct {
		name   string
		blocks []WarmBlock
		want   bool
	}{
		{"none", nil, false},
		{"one, with much left to compile", []WarmBlock{block(30*ms, 0.5)}, false},
		{"one, with nothing left", []WarmBlock{block(5*ms, 0.04)}, true},
		{"cheaper by a fifth", []WarmBlock{block(15*ms, 0.2), block(12*ms, 0.14)}, false},
		{"as dear, and hardly compiled any more", []WarmBlock{block(12*ms, 0.2), block(12300*time.Microsecond, 0.1)}, true},
		{"as dear by chance", []WarmBlock{block(12*ms, 0.3), block(12*ms, 0.25)}, false},
		{"as dear, on a machine that was slower", []WarmBlock{paced(block(12*ms, 0.2), 1000), paced(block(12*ms, 0.1), 1200)}, false},
		{"cheaper, for the machine was faster", []WarmBlock{paced(block(12*ms, 0.2), 1200), paced(block(10*ms, 0.1), 1000)}, true},
		{"threads not seen, as dear", []WarmBlock{unseen(12 * ms), unseen(12 * ms)}, true},
		{"threads not seen, cheaper", []WarmBlock{unseen(12 * ms), unseen(9 * ms)}, false},
		{"nothing was answered", []WarmBlock{block(0, 0.1), block(0, 0.1)}, false},
	} {
		if got := Warm(c.blocks); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestWarmUpEnds(t *testing.T) {
	compiling, settled := 0.3, 0.01
	cold, warm := []WarmBlock{{Compiling: &compiling}}, []WarmBlock{{Compiling: &settled}}
	for _, c := range []struct {
		name   string
		spec   Spec
		done   int
		blocks []WarmBlock
		took   time.Duration
		want   bool
	}{
		{"once", Spec{}, 1, nil, time.Second, true},
		{"as often as in the first baseline", Spec{Work: Work{Blocks: 3}}, 2, nil, 10 * time.Second, false},
		{"that often", Spec{Work: Work{Blocks: 3}}, 3, nil, 15 * time.Second, true},
		{"far slower than that one", Spec{Work: Work{Blocks: 3, Within: 45 * time.Second}}, 2, nil, 50 * time.Second, true},
		{"still compiling", Spec{WarmBlocks: 16}, 1, cold, 5 * time.Second, false},
		{"compiled", Spec{WarmBlocks: 16}, 1, warm, 5 * time.Second, true},
		{"the last block", Spec{WarmBlocks: 16}, 16, cold, time.Second, true},
		{"a command that takes longer than it is asked to", Spec{WarmBlocks: 16}, 3, cold, 90 * time.Second, true},
	} {
		c.spec.Warmup = 5 * time.Second
		if got := (&run{spec: c.spec, blocks: c.blocks}).warmedUp(c.done, c.took); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

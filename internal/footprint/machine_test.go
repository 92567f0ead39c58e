package footprint_test

import (
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/vmtest"
)

// TestInMachine weighs on Linux 6.1, which has no PAGEMAP_SCAN, and cgroup v2.
func TestInMachine(t *testing.T) {
	jvmtest.RunInMachine(t, "./internal/footprint", "TestWeighOnThisKernel", 17)
}

// TestWeighOnThisKernel runs on the host, and in the machine above.
func TestWeighOnThisKernel(t *testing.T) {
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}, 20, 100, 50)
	f := weigh(t, p.PID(), false)
	checkRemainder(t, f, 0.01)
	if d := f.RollupRSSBytes - f.RSSBytes; d < -1<<20 || d > 1<<20 {
		t.Errorf("the rows add up to %d, smaps_rollup says %d", f.RSSBytes, f.RollupRSSBytes)
	}
	if heap := row(t, f, footprint.JavaHeap); heap.ResidentBytes < 20*100<<10 || *heap.ReservedBytes != 64<<20 {
		t.Errorf("heap %+v", heap)
	}
	if f.Cgroup == nil || f.Cgroup.UsageBytes <= 0 || f.Cgroup.Version != map[bool]int{true: 2, false: f.Cgroup.Version}[vmtest.Inside()] {
		t.Errorf("control group %+v", f.Cgroup)
	}
}

package doctor_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/vmtest"
)

// TestHugeStacks boots Linux 6.1, which makes huge pages of stacks.
func TestHugeStacks(t *testing.T) {
	jvmtest.RunInMachine(t, "./internal/doctor", "TestHugeStacksInside", 17)
}

// TestHugeStacksInside runs in the machine above, whose settings it changes.
func TestHugeStacksInside(t *testing.T) {
	if !vmtest.Inside() {
		return // TestHugeStacks runs it
	}
	const thp = "/sys/kernel/mm/transparent_hugepage/"
	for name, value := range map[string]string{
		"enabled": "always", "khugepaged/scan_sleep_millisecs": "10", "khugepaged/pages_to_scan": "65536",
	} {
		if err := os.WriteFile(thp+name, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const threads = 60
	options := []string{"-Xss2m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions"}
	// A stack becomes a huge page where the kernel looks before its guard pages are
	// set. It may be too late for all of a JVM's: then it is for the next to show.
	fill := func(mitigation string) *jvmtest.Process {
		return jvmtest.StartFiller(t, jvmtest.Java(t, 17), append(slices.Clone(options), mitigation), threads, 10, 10)
	}
	sick, deadline := fill("-XX:-THPStackMitigation"), time.Now().Add(jvmtest.StartTimeout)
	x := hugeStacks(t, sick, threads<<20)
	for ; x.BytesAtStake <= threads<<20; x = hugeStacks(t, sick, threads<<20) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", x)
		}
		if err := sick.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-sick.Ended()
		sick = fill("-XX:-THPStackMitigation")
	}
	t.Logf("%+v", x)
	if do := strings.Join(x.Do, "\n"); !strings.Contains(do, "remove -XX:-THPStackMitigation") || !strings.Contains(do, "-Xss2032k") {
		t.Errorf("%q", x.Do)
	}
	if x, ok := byRule(weigh(t, fill("-XX:+THPStackMitigation").PID()))["stacks-huge-pages"]; ok {
		t.Errorf("with the mitigation: %+v", x)
	}
}

// hugeStacks is the finding, once more than that is at stake, else after a while.
func hugeStacks(t *testing.T, p *jvmtest.Process, stake int64) doctor.Finding {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		x := byRule(weigh(t, p.PID()))["stacks-huge-pages"]
		if x.BytesAtStake > stake || time.Now().After(deadline) {
			return x
		}
	}
}

package doctor_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"tare/internal/jvmtest"
	"tare/internal/vmtest"
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
	sick := jvmtest.StartFiller(t, jvmtest.Java(t, 17), append(options, "-XX:-THPStackMitigation"), threads, 10, 10)
	deadline := time.Now().Add(jvmtest.StartTimeout)
	for {
		x, ok := byRule(weigh(t, sick.PID()))["stacks-huge-pages"]
		if ok && x.BytesAtStake > threads<<20 {
			t.Logf("%+v", x)
			do := strings.Join(x.Do, "\n")
			if !strings.Contains(do, "remove -XX:-THPStackMitigation") || !strings.Contains(do, "-Xss2032k") {
				t.Errorf("%q", x.Do)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", x)
		}
	}
	well := jvmtest.StartFiller(t, jvmtest.Java(t, 17), append(options, "-XX:+THPStackMitigation"), threads, 10, 10)
	if x, ok := byRule(weigh(t, well.PID()))["stacks-huge-pages"]; ok {
		t.Errorf("with the mitigation: %+v", x)
	}
}

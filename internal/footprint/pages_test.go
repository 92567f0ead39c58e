package footprint_test

import (
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/vmtest"
)

// TestGently runs on the host, and in the machine of TestInMachine, where the page map is
// read entry by entry: a large JVM that is weighed gently has the rows that it has
// otherwise, though nothing was read for which the kernel walks over the whole of it.
func TestGently(t *testing.T) {
	alone.Uses(t, "a large JVM")
	for name, args := range map[string][]string{
		"Serial": {"-XX:+UseSerialGC"},
		"ZGC":    {"-XX:+UseZGC"}, // its heap is shared memory, mapped three times
	} {
		t.Run(name, func(t *testing.T) {
			if name == "ZGC" && vmtest.Inside() {
				t.Skip("the machine is too small: TestGently on the host has it")
			}
			p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), append(args, "-Xms160m", "-Xmx160m", "-XX:+AlwaysPreTouch", "-Xint"), 20, 100, 50)
			full := weighDoubting(t, p.PID(), false)
			for kind, series := range map[string]*footprint.Series{"full": {Full: true}, "lean": {}} {
				gentle, err := footprint.Weigh(t.Context(), p.PID(), footprint.Options{Gentle: true, Series: series})
				if err != nil {
					t.Fatal(err)
				}
				checkSum(t, gentle)
				if slices.ContainsFunc(gentle.Sources, func(s footprint.Source) bool { return strings.HasPrefix(s.Name, "smaps") }) || gentle.PSSBytes != 0 || gentle.RollupRSSBytes != 0 {
					t.Errorf("%s: read %+v, Pss %d, Rss %d", kind, gentle.Sources, gentle.PSSBytes, gentle.RollupRSSBytes)
				}
				for _, r := range gentle.Rows {
					want := row(t, full, r.Owner)
					if d := r.ResidentBytes - want.ResidentBytes; max(d, -d) > tolerance(want.ResidentBytes) {
						t.Errorf("%s: %s has %d bytes, %d otherwise", kind, r.Owner, r.ResidentBytes, want.ResidentBytes)
					}
					if d := r.RepeatedBytes - want.RepeatedBytes; max(d, -d) > tolerance(want.RepeatedBytes) {
						t.Errorf("%s: %s has %d bytes counted again, %d otherwise", kind, r.Owner, r.RepeatedBytes, want.RepeatedBytes)
					}
					if d := r.AnonymousBytes - want.AnonymousBytes; series.Full && max(d, -d) > tolerance(want.AnonymousBytes) {
						t.Errorf("%s: %s has %d anonymous bytes, %d otherwise", kind, r.Owner, r.AnonymousBytes, want.AnonymousBytes)
					}
				}
				if series.Full && gentle.Cgroup.Parts[0].Bytes == 0 {
					t.Errorf("no anonymous memory in %+v", gentle.Cgroup.Parts)
				}
			}
		})
	}
}

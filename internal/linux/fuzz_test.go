package linux

import (
	"strings"
	"testing"
)

// The small files of the kernel: whatever stands in them, what is taken is in
// range, or it is an error.
func FuzzParseSmallFiles(f *testing.F) {
	for _, s := range []string{
		"", "running", "202 0x7f 0x0 0x7ffd1234 0x7f1234", "-1 0x7ffd1234 0x7f1234",
		"1\n", "3", "always [madvise] never", "max\n", "9223372036854771712\n",
		"42 (a) b) S 1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 123456 0 0\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if sp, err := parseStackPointer(s); err != nil && sp != 0 {
			t.Fatalf("stack pointer %#x with error %v", sp, err)
		}
		if n, err := parseYamaScope(strings.NewReader(s)); n < 0 || n > 3 || err != nil && n != 0 {
			t.Fatalf("scope %d, %v", n, err)
		}
		if mode, err := ParseTHPMode(strings.NewReader(s)); err == nil && (mode == "" || strings.ContainsAny(mode, "[] \n")) {
			t.Fatalf("mode %q", mode)
		}
		if n, err := ParseCgroupValue(strings.NewReader(s)); err == nil && n < 0 && strings.TrimSpace(s) != "max" {
			t.Fatalf("value %d of %q", n, s)
		}
		if c, err := parseThreadClock([]byte(s)); c.Time < 0 || err != nil && c != (ThreadClock{}) {
			t.Fatalf("%+v with error %v", c, err)
		}
		if b, err := parseBirth(strings.NewReader(s)); err != nil && b != (Birth{}) {
			t.Fatalf("%+v with error %v", b, err)
		}
	})
}

package linux

import (
	"os"
	"strings"
	"testing"
)

func TestParseStackLimit(t *testing.T) {
	const head = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max cpu time              unlimited            unlimited            seconds   \n"
	for line, want := range map[string]int64{
		"Max stack size            8388608              unlimited            bytes     \n": 8 << 20,
		"Max stack size            67108864             67108864             bytes     \n": 64 << 20,
		"Max stack size            unlimited            unlimited            bytes     \n": Unlimited,
	} {
		if got, err := parseStackLimit(strings.NewReader(head + line)); err != nil || got != want {
			t.Errorf("%q: %d, %v", line, got, err)
		}
	}
	for _, line := range []string{"", "Max stack size\n", "Max stack size  many unlimited bytes\n", "Max stack size -5 7 bytes\n"} {
		if got, err := parseStackLimit(strings.NewReader(head + line)); err == nil {
			t.Errorf("%q: %d", line, got)
		}
	}
	if _, err := NewFS("/proc").StackLimit(os.Getpid()); err != nil {
		t.Error(err)
	}
}

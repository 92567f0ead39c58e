package linux

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func groupOf(t *testing.T, version int, files map[string]string) MemoryGroup {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return MemoryGroup{Version: version, Dir: dir}
}

// What a group may still swap out is the least that a group on its path leaves.
func TestSwapLeft(t *testing.T) {
	inner := groupOf(t, 2, map[string]string{"memory.swap.max": "1000", "memory.swap.current": "300"})
	outer := groupOf(t, 2, map[string]string{"memory.swap.max": "5000", "memory.swap.current": "4900"})
	free := groupOf(t, 2, map[string]string{"memory.swap.max": "max", "memory.swap.current": "7"})
	root := groupOf(t, 2, nil)
	for want, path := range map[int64][]MemoryGroup{700: {inner, free, root}, 100: {inner, outer, root}, math.MaxInt64: {free, root}} {
		if got, err := swapLeftV2(path); err != nil || got != want {
			t.Errorf("%d, %v, want %d", got, err, want)
		}
	}
	both := map[string]string{
		"memory.limit_in_bytes": "1000", "memory.usage_in_bytes": "900",
		"memory.memsw.limit_in_bytes": "1500", "memory.memsw.usage_in_bytes": "1100",
	}
	if got, err := swapLeftV1(groupOf(t, 1, both)); err != nil || got != 300 {
		t.Errorf("%d, %v, want 300", got, err)
	}
	if got, err := swapLeftV1(groupOf(t, 1, nil)); err != nil || got != math.MaxInt64 {
		t.Errorf("%d, %v, want no limit", got, err)
	}
}

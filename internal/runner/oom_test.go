package runner

import (
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/linux"
)

// Files as kernels write them: of a group that reached its own limit, of one
// that was killed for the limit of a group above, and of kernels without
// memory.events.local.
func TestLimitHits(t *testing.T) {
	const (
		own   = "low 0\nhigh 0\nmax 312\noom 1\noom_kill 2\noom_group_kill 1\n"
		above = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\noom_group_kill 0\n"
	)
	for name, c := range map[string]struct {
		version int
		files   map[string]string
		want    int64
	}{
		"own limit":    {2, map[string]string{"memory.events": own, "memory.events.local": own}, 1},
		"above":        {2, map[string]string{"memory.events": above, "memory.events.local": above}, 0},
		"below":        {2, map[string]string{"memory.events": own, "memory.events.local": above}, 0},
		"Linux 5.1":    {2, map[string]string{"memory.events": own}, 1},
		"v1":           {1, map[string]string{"memory.limit_in_bytes": "16777216\n", "memory.max_usage_in_bytes": "16777216\n"}, 1},
		"v1, above":    {1, map[string]string{"memory.limit_in_bytes": "134217728\n", "memory.max_usage_in_bytes": "33554432\n"}, 0},
		"v1, no limit": {1, map[string]string{"memory.limit_in_bytes": "9223372036854771712\n", "memory.max_usage_in_bytes": "33554432\n"}, 0},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := limitHits(linux.MemoryGroup{Version: c.version, Dir: dir}); err != nil || got != c.want {
			t.Errorf("%s: %d, want %d, %v", name, got, c.want, err)
		}
	}
}

package linux

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPagesOutIdle(t *testing.T) {
	for _, c := range []struct {
		name, action, state string
		want                bool
	}{
		{"on", "pageout\n", "on\n", true},
		{"off", "pageout\n", "off\n", false},
		{"another action", "stat\n", "on\n", false},
		{"no DAMON", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			sys := t.TempDir()
			if c.action != "" {
				daemon := filepath.Join(sys, "kernel/mm/damon/admin/kdamonds/0")
				scheme := filepath.Join(daemon, "contexts/0/schemes/0")
				if err := os.MkdirAll(scheme, 0o700); err != nil {
					t.Fatal(err)
				}
				for file, text := range map[string]string{filepath.Join(scheme, "action"): c.action, filepath.Join(daemon, "state"): c.state} {
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := PagesOutIdle(sys); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

package agent

import "testing"

func TestPasses(t *testing.T) {
	for dir, want := range map[string]bool{"/tmp/hsperfdata_root": true, "/app": false, "": false, "/srv/hsperfdata": false} {
		if passes(dir) != want {
			t.Errorf("%q: %v", dir, !want)
		}
	}
}

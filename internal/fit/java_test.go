package fit

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// Each JDK starts with the options of each lever that is open for it.
func TestJDKsTakeTheLevers(t *testing.T) {
	v := sizes{heap: 48 * mib, young: 16 * mib, code: 8 * mib, cpus: 1, scale: 30, archive: filepath.Join(t.TempDir(), "none")}
	for _, major := range jvmtest.Majors(t) {
		java := jvmtest.Java(t, major)
		j, err := runner.FindJava(t.Context(), java)
		if err != nil {
			t.Fatal(err)
		}
		facts := Facts{Release: jvmopts.ParseRelease(j.Version), Allow: []Mark{Diagnostic, Experimental}}
		var tried []string
		for _, l := range Levers {
			if _, ok, _ := l.open(facts); !ok || len(l.Options) == 0 {
				continue
			}
			tried = append(tried, l.ID)
			args := append(l.setup(v).Options, "-version")
			if out, err := exec.CommandContext(t.Context(), java, args...).CombinedOutput(); err != nil || strings.Contains(string(out), "{") {
				t.Errorf("JDK %s, %s: %v: %s", j.Version, l.ID, err, out)
			}
		}
		for _, id := range []string{"collector", "c1", "hot", "heap"} {
			if !slices.Contains(tried, id) {
				t.Errorf("JDK %s: %s is not open", j.Version, id)
			}
		}
	}
}

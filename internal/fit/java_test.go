package fit

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/jvmopts"
	"tare/internal/jvmtest"
)

func TestFindJava(t *testing.T) {
	j, err := FindJava(t.Context(), "java")
	if err != nil {
		t.Fatal(err)
	}
	if jvmopts.ParseRelease(j.Version).Feature < 8 {
		t.Errorf("%+v", j)
	}
	if st, err := os.Stat(filepath.Join(j.Home, "lib")); err != nil || !st.IsDir() {
		t.Errorf("%+v has no lib", j)
	}
	if _, err := FindJava(t.Context(), filepath.Join(t.TempDir(), "java")); err == nil {
		t.Error("found a launcher that is not there")
	}
}

// Each JDK starts with the options of each lever that is open for it.
func TestJDKsTakeTheLevers(t *testing.T) {
	v := sizes{heap: 48 * mib, young: 16 * mib, code: 8 * mib, cpus: 1, scale: 30, archive: filepath.Join(t.TempDir(), "none")}
	for _, major := range []int{8, 11, 17, 21, 25, 26, 27} {
		java := jvmtest.Java(t, major)
		j, err := FindJava(t.Context(), java)
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

package launch

import (
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// Whatever the JVM and the application, heap and rest stay below the limit.
func FuzzHeapFor(f *testing.F) {
	f.Add(int64(256*mib), int64(3000), int64(50), int64(15*mib), 0, uint8(0), 2, int64(0), int64(0))
	f.Add(int64(64*mib), int64(300000), int64(5000), int64(0), 1, uint8(4), 64, int64(20*mib), int64(50))
	collectors := []string{"", "Serial", "Parallel", "G1", "Z", "Epsilon"}
	f.Fuzz(func(t *testing.T, limit, classes, threads, archive int64, how int, collector uint8, cpus int, direct, headroom int64) {
		if limit < mib || limit > 1<<50 || classes < 0 || classes > maxClasses || threads < 0 || threads > 1<<20 || archive < 0 || archive > 1<<40 ||
			direct < 0 || direct > 1<<50 || headroom < 0 || headroom > 100 {
			return // what readHints and the others let through
		}
		s := shape{classes: classes, archived: min(classes, archivedClasses), threads: threads, archiveBytes: archive, relocated: how%2 == 0,
			compilers: compilers(uint(how) % 3), collector: collectors[int(collector)%len(collectors)], cpus: cpus, directBytes: direct}
		heap, ok := s.heapFor(limit, headroom)
		if !ok {
			return
		}
		if heap%heapStep != 0 || heap < minHeapBytes || heap > limit/100*heapShare {
			t.Errorf("heap %d of %d", heap, limit)
		}
		if sum := heap + heap/100*collectorPercent(s.collector) + total(s.rest()) + reserve(limit, headroom); sum > limit {
			t.Errorf("%d in all of %d: %+v", sum, limit, s)
		}
		if smaller, ok := s.heapFor(limit-8*mib, headroom); ok && smaller > heap {
			t.Errorf("%d in %d, but %d in less", heap, limit, smaller)
		}
	})
}

func TestHints(t *testing.T) {
	h, problems := readHints([]string{"BPL_JVM_HEAD_ROOM=10", "BPL_JVM_THREAD_COUNT=300", "BPL_JVM_LOADED_CLASS_COUNT=5000", "BPL_JVM_CLASS_ADJUSTMENT=20%"})
	if len(problems) > 0 || h != (hints{10, 300, 5000, "20%"}) || h.loadedClasses(10) != 5000 {
		t.Errorf("%+v, %q", h, problems)
	}
	for adjustment, want := range map[string]int64{"": jdkClasses + 400, "50%": jdkClasses + 600, "500": jdkClasses + 600, "-100%": jdkClasses} {
		h, problems := readHints([]string{"BPL_JVM_CLASS_ADJUSTMENT=" + adjustment})
		if got := h.loadedClasses(1000); len(problems) > 0 || got != want {
			t.Errorf("adjusted by %q: %d, want %d; %q", adjustment, got, want, problems)
		}
	}
	for _, bad := range []string{"BPL_JVM_HEAD_ROOM=0.5", "BPL_JVM_HEAD_ROOM=101", "BPL_JVM_THREAD_COUNT=-1", "BPL_JVM_LOADED_CLASS_COUNT=x\x1b[2J",
		"BPL_JVM_CLASS_ADJUSTMENT=half", "BPL_JVM_CLASS_ADJUSTMENT=99999999999999999999%"} {
		if h, problems := readHints([]string{bad}); len(problems) != 1 || h != (hints{}) {
			t.Errorf("%q: %+v, %q", bad, h, problems)
		}
	}
}

func TestCountClasses(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(jvmtest.Jar(t, "workloads.jar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lib/one.jar", "lib/two.jar", "app/three.jar"} {
		writeFile(t, filepath.Join(dir, name), string(data))
	}
	writeFile(t, filepath.Join(dir, "classes/a/B.class"), "")
	writeFile(t, filepath.Join(dir, "classes/C.class"), "")
	writeFile(t, filepath.Join(dir, "lib/broken.jar"), "no jar")
	one := countClasses(dir, []string{"lib/one.jar"})
	if one < 10 {
		t.Fatalf("%d classes in workloads.jar", one)
	}
	for _, c := range []struct {
		paths []string
		want  int64
	}{
		{[]string{"lib/one.jar", filepath.Join(dir, "lib/one.jar")}, one}, // the same one
		{[]string{"lib/*"}, 2 * one},
		{[]string{"lib"}, 2 * one}, // as on a module path
		{[]string{"classes", "app/three.jar", "nowhere.jar"}, 2 + one},
	} {
		if got := countClasses(dir, c.paths); got != c.want {
			t.Errorf("%q: %d, want %d", c.paths, got, c.want)
		}
	}
}

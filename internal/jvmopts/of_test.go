package jvmopts

import "testing"

// What a script tells its JVM counts: what it sets cannot be set beside it, and the heap that
// follows the limit does so by its share. A share that the user did not ask for leaves the size
// of the heap open.
func TestOptionsOfAScript(t *testing.T) {
	const limit = 1000 * mib
	for _, c := range []struct {
		env, args []string
		heap      int64
		open      map[string]bool
	}{
		{nil, []string{"-XX:MaxRAMPercentage=70", "-XX:+UseG1GC"}, 700 * mib, map[string]bool{"-Xmx64m": true, "-XX:+UseSerialGC": false}},
		{[]string{"JAVA_OPTS=-Dmine=1 -XX:MaxRAMPercentage=70"}, []string{"-Dmine=1", "-XX:MaxRAMPercentage=70"}, 700 * mib, map[string]bool{"-Xmx64m": false, "-XX:+UseSerialGC": true}},
		{nil, []string{"-Xms64m", "-Xmx512m"}, 512 * mib, map[string]bool{"-Xmx64m": false}},
		{[]string{"JAVA_TOOL_OPTIONS=-Xmx100m"}, nil, 100 * mib, map[string]bool{"-Xmx64m": false, "-Xss512k": true}},
		{nil, []string{"@/no/such/file"}, 250 * mib, map[string]bool{"-Xmx64m": false, "-Xss512k": false}},
	} {
		given, err := Read(Input{Env: c.env})
		if err != nil {
			t.Fatal(err)
		}
		o := given.Of(Release{Feature: 25}, c.args)
		if got := o.MaxHeap(limit); got != c.heap {
			t.Errorf("%q: heap of %d MiB, want %d", c.args, got/mib, c.heap/mib)
		}
		if _, by, set := o.Value("MaxHeapSize"); set && by.Source.Place == CommandLine {
			t.Errorf("%q: %v", c.args, by)
		}
		for text, open := range c.open {
			if by, taken := o.Conflict(text); taken == open {
				t.Errorf("%q beside %q: taken %v (%v)", text, c.args, taken, by)
			}
		}
	}
}

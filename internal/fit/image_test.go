package fit

import (
	"slices"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/runnertest"
)

// Options stand in a java command, and go by JAVA_TOOL_OPTIONS to what starts a
// JVM itself: before the user's own, which so has the last word.
func TestOptionsReachTheJVM(t *testing.T) {
	setup := Setup{Options: []string{"-Xmx20m", "-Dname=two words"}, Env: []string{"MALLOC_ARENA_MAX=1"}}
	java, err := jvmopts.Parse([]string{"java", "-Xss1m", "-jar", "a.jar", "x"})
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=/bin", "JAVA_TOOL_OPTIONS=-Xmx30m"}
	script, err := CommandOf([]string{"/start.sh", "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config     Config
		byVariable bool
		args, env  []string
	}{
		{Config{Command: java, Java: Java{Path: "/jdk/bin/java"}, Env: env}, false,
			[]string{"/jdk/bin/java", "-Xmx20m", "-Dname=two words", "-Xss1m", "-jar", "a.jar", "x"},
			[]string{"PATH=/bin", "JAVA_TOOL_OPTIONS=-Xmx30m", "MALLOC_ARENA_MAX=1"}},
		{Config{Command: java, Java: Java{Path: "/jdk/bin/java"}, Env: env}, true,
			[]string{"/jdk/bin/java", "-Xss1m", "-jar", "a.jar", "x"},
			[]string{"PATH=/bin", "MALLOC_ARENA_MAX=1", "JAVA_TOOL_OPTIONS=-Xmx20m '-Dname=two words' -Xmx30m"}},
		{Config{Command: script, Java: Java{Path: "/jdk/bin/java"}, Env: env}, false,
			[]string{"/start.sh", "x"},
			[]string{"PATH=/bin", "MALLOC_ARENA_MAX=1", "JAVA_TOOL_OPTIONS=-Xmx20m '-Dname=two words' -Xmx30m"}},
	} {
		args, got := c.config.started(setup, c.byVariable)
		if !slices.Equal(args, c.args) || !slices.Equal(got, c.env) {
			t.Errorf("%q with %q, want %q with %q", args, got, c.args, c.env)
		}
		if _, without := c.config.started(Setup{}, c.byVariable); !slices.Equal(without, env) {
			t.Errorf("nothing added: %q", without)
		}
	}
}

// A plan is of the image that it was made with, and can be read again.
func TestPlanOfAnImage(t *testing.T) {
	script, err := CommandOf([]string{"/start.sh"})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Runner: runnertest.OnlyHost(&runner.Docker{}), Command: script, Job: true, Image: &Image{Name: "shop:1", ID: "sha256:a", ByVariable: true}}
	p, err := NewPlan(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p.SLO = "time<=1.1x"
	back, err := p.Record()
	if err != nil || back.Image == nil || back.Command.Java != "/start.sh" {
		t.Errorf("%+v, %v", back, err)
	}
	later := p
	later.Image = &Image{Name: "shop:1", ID: "sha256:b", ByVariable: true}
	if d := p.Differences(later); !slices.Equal(d, []string{"the image was shop:1 sha256:a, and is shop:1 sha256:b"}) {
		t.Errorf("%q", d)
	}
}

package hotspot

import (
	"strings"
	"testing"
)

func TestProgramName(t *testing.T) {
	for line, want := range map[string]string{
		"java -jar /opt/app.jar serve":                    "/opt/app.jar",
		"java -Xmx1g -cp a.jar:b.jar dev.tare.Main -x":    "dev.tare.Main",
		"java --class-path a.jar -ea dev.tare.Main":       "dev.tare.Main",
		"java -p mods -m app/dev.tare.Main":               "app/dev.tare.Main",
		"java --module-path=mods --module app":            "app",
		"java @options dev.tare.Main":                     "dev.tare.Main",
		"java -version":                                   "",
		"java":                                            "",
		"java -jar":                                       "",
		"jshell":                                          "",
		"java --add-opens java.base/java.lang=ALL Main x": "Main",
	} {
		if got := programName(strings.Fields(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		program, name string
		want          bool
	}{
		{"/opt/app.jar", "app.jar", true},
		{"/opt/app.jar", "app", true},
		{"/opt/app.jar", "/opt/app.jar", true},
		{"/opt/app.jar", "pp.jar", false},
		{"dev.tare.Main", "Main", true},
		{"dev.tare.Main", "dev.tare.Main", true},
		{"dev.tare.Main", "ain", false},
		{"dev.tare.Main", "tare.Main", true},
	} {
		if got := matches(c.program, c.name); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.program, c.name, got)
		}
	}
}

func TestMajor(t *testing.T) {
	for version, want := range map[string]int{"1.8.0_504": 8, "25.0.3": 25, "11": 11, "17-ea": 17} {
		if got, err := Major(version); err != nil || got != want {
			t.Errorf("%s: %d, %v", version, got, err)
		}
	}
	for _, bad := range []string{"", "x", "-1"} {
		if n, err := Major(bad); err == nil {
			t.Errorf("%q is %d", bad, n)
		}
	}
}

package process

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

package main

import (
	"testing"

	"tare.dev/tare/internal/jdks"
)

// Of several JDKs of a major version the declared one is taken, else the newest.
func TestChooseJDK(t *testing.T) {
	jdk := func(home, version string, sources ...string) jdks.JDK {
		return jdks.JDK{Home: home, Version: version, Sources: sources}
	}
	cached, home := jdk("/cache/17", "17.0.1", jdks.SourceCache), jdk("/home/17", "17.0.2", jdks.SourceJavaHome)
	newest, broken := jdk("/usr/17", "17.0.9", "/usr/lib/jvm"), jdk("/broken", "17.0.10", jdks.SourceCache)
	broken.Error = "does not start"
	other := jdk("/cache/21", "21.0.1", jdks.SourceCache)
	for _, c := range []struct {
		found []jdks.JDK
		want  string
	}{
		{[]jdks.JDK{cached, home, newest, broken, other}, "/cache/17"},
		{[]jdks.JDK{home, newest, broken, other}, "/home/17"},
		{[]jdks.JDK{jdk("/old", "17.0.3", "PATH"), newest, other}, "/usr/17"},
		{[]jdks.JDK{broken, other}, ""},
	} {
		if got, ok := chooseJDK(c.found, 17); got.Home != c.want || ok != (c.want != "") {
			t.Errorf("%s, want %s", got.Home, c.want)
		}
	}
}

package hotspot

import "testing"

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

func TestCollectorByFlags(t *testing.T) {
	for _, c := range []struct {
		on    string
		major int
		want  string
	}{
		{"UseSerialGC", 25, "Serial"},
		{"", 8, "Serial"},
		{"", 25, ""},
		{"UseParallelGC", 8, "Parallel"},
	} {
		if got := CollectorByFlags(c.major, func(flag string) bool { return flag == c.on }); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

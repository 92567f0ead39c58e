package jvmopts

import "testing"

func TestMaxHeap(t *testing.T) {
	for _, c := range []struct {
		options []string
		limit   int64 // MiB, as all
		want    int64
		fixed   bool
	}{
		{nil, 100, 50, false}, {nil, 250, 125, false}, {nil, 300, 126, false}, {nil, 504, 126, false}, {nil, 1024, 256, false},
		{[]string{"-Xmx64m"}, 1024, 64, true}, {[]string{"-XX:MaxHeapSize=64m"}, 100, 64, true},
		{[]string{"-XX:MaxRAMPercentage=75"}, 1024, 768, false}, {[]string{"-XX:MaxRAMPercentage=75.0"}, 300, 225, false},
		{[]string{"-XX:MaxRAMPercentage=75"}, 100, 50, false}, // little memory: MinRAMPercentage
		{[]string{"-XX:MaxRAMPercentage=75", "-XX:MinRAMPercentage=80"}, 100, 80, false},
		{[]string{"-XX:MaxRAMFraction=2"}, 1024, 512, false}, {[]string{"-XX:MaxRAMFraction=2", "-XX:MaxRAMPercentage=30"}, 1000, 300, false},
		{[]string{"-XX:MaxRAM=512m"}, 1024, 128, false}, {[]string{"-XX:InitialRAMPercentage=50"}, 1024, 256, false},
		{[]string{"-Xms400m"}, 1024, 400, false}, {[]string{"-XX:+AggressiveHeap"}, 256, 96, false}, {[]string{"-XX:+AggressiveHeap"}, 1024, 512, false},
		{[]string{"-XX:MaxRAMPercentage=nonsense"}, 1024, 256, false},
	} {
		o, err := Read(Input{Args: append(c.options, "-jar", "a.jar")})
		if err != nil {
			t.Fatal(err)
		}
		if got := o.MaxHeap(c.limit * mib); got/mib != c.want || o.FixesHeap() != c.fixed {
			t.Errorf("%q in %d MiB: %d MiB, fixed %t; want %d, %t", c.options, c.limit, got/mib, o.FixesHeap(), c.want, c.fixed)
		}
	}
}

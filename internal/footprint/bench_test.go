package footprint_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// BenchmarkWeigh weighs an idle JVM with 1000 threads.
func BenchmarkWeigh(b *testing.B) {
	p := jvmtest.StartFiller(b, jvmtest.Java(b, 17), []string{"-Xmx256m"}, 1000, 10, 10)
	spent := map[string]float64{}
	before := processorTime(b)
	for b.Loop() {
		f, err := footprint.Weigh(context.Background(), p.PID(), footprint.Options{})
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range f.Sources {
			spent[s.Name] += s.Millis
		}
	}
	// What others do on the machine shows less in it than in the time.
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	for name, ms := range spent {
		b.ReportMetric(ms/float64(b.N), strings.ReplaceAll(name, " ", "-")+"-ms/op")
	}
}

// processorTime is what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

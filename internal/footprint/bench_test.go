package footprint_test

import (
	"context"
	"strings"
	"testing"

	"tare/internal/footprint"
	"tare/internal/jvmtest"
)

// BenchmarkWeigh weighs an idle JVM with 1000 threads.
func BenchmarkWeigh(b *testing.B) {
	p := jvmtest.StartFiller(b, jvmtest.Java(b, 17), []string{"-Xmx256m"}, 1000, 10, 10)
	spent := map[string]float64{}
	for b.Loop() {
		f, err := footprint.Weigh(context.Background(), p.PID(), footprint.Options{})
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range f.Sources {
			spent[s.Name] += s.Millis
		}
	}
	for name, ms := range spent {
		b.ReportMetric(ms/float64(b.N), strings.ReplaceAll(name, " ", "-")+"-ms/op")
	}
}

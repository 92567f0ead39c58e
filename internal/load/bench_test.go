package load

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// benchServer is set in the process that the benchmarks start to serve them,
// so that the processor time of this one is the generator's alone.
const benchServer = "TARE_LOAD_BENCH_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(benchServer) != "" {
		serveBench()
		return
	}
	if os.Getenv(TestGenerator) != "" {
		generate()
		return
	}
	os.Exit(m.Run())
}

// serveBench serves until its standard input ends.
func serveBench() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("http://%s/\n", l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	body := []byte(strings.Repeat("x", 200))
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
}

func startBenchServer(b *testing.B) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), benchServer+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url)
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCost reports requests per second of wall time, and the generator's
// own processor time per request.
func reportCost(b *testing.B, start time.Time, before time.Duration) {
	n := float64(b.N)
	used := (processorTime() - before).Seconds()
	b.ReportMetric(n/time.Since(start).Seconds(), "req/s")
	b.ReportMetric(used/n*1e6, "cpu-us/req")
	b.ReportMetric(n/used, "req/s/core")
	b.ReportMetric(0, "ns/op")
}

const benchWorkers = 16

func BenchmarkRun(b *testing.B) {
	url := startBenchServer(b)
	r, err := newRequest(Target{Method: "GET", URL: url}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	start, before := time.Now(), processorTime()
	t := newTally(start)
	workers, err := newWorkers(benchWorkers, false)
	if err != nil {
		b.Fatal(err)
	}
	job{[]*request{r}, &counted{total: int64(b.N)}, t, time.Minute}.run(b.Context(), workers)
	reportCost(b, start, before)
	if t.result.OK != int64(b.N) {
		b.Fatalf("%d of %d requests OK: %v", t.result.OK, b.N, t.result.Errors)
	}
}

// BenchmarkOpenLoop sends 5000 requests a second.
func BenchmarkOpenLoop(b *testing.B) {
	url := startBenchServer(b)
	const rate = 5000
	b.ResetTimer()
	start, before := time.Now(), processorTime()
	plan := Plan{
		Targets: []Target{{Method: "GET", URL: url}}, Concurrency: benchWorkers, Rate: rate,
		Duration: time.Duration(b.N) * time.Second / rate, Timeout: time.Minute,
	}
	r, err := Run(b.Context(), plan)
	reportCost(b, start, before)
	b.ReportMetric(float64(r.Latency.P50.d.Microseconds()), "p50-us")
	if err != nil || r.Failed > 0 {
		b.Fatal(r, err)
	}
}

// BenchmarkNetHTTP does the same with the standard library's client, to know
// whether a client of our own is still worth it.
func BenchmarkNetHTTP(b *testing.B) {
	url := startBenchServer(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: benchWorkers, DisableCompression: true}}
	defer client.CloseIdleConnections()
	b.ReportAllocs()
	b.ResetTimer()
	start, before := time.Now(), processorTime()
	s := &counted{total: int64(b.N)}
	var all sync.WaitGroup
	for range benchWorkers {
		all.Go(func() {
			for _, _, ok := s.claim(start); ok; _, _, ok = s.claim(start) {
				answer, err := client.Get(url)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		})
	}
	all.Wait()
	reportCost(b, start, before)
}

package load

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func us(n float64) Time { return TimeOf(time.Duration(n * float64(time.Microsecond))) }

// What the generators printed once is read as they meant it: wrk 4.1.0, hey
// 0.1.4, k6 1.3.0 and oha 1.16.0, of a service that answers at once; of one that
// answers a tenth of the requests with 503, and every 400th after the timeout
// ("mixed"); and where nothing listens.
func TestRecorded(t *testing.T) {
	refused := func(n int64) Result {
		return Result{Due: n, Sent: n, Failed: n, Errors: map[string]int64{"connection refused": n}}
	}
	k6Refused := refused(7459)
	k6Refused.Errors, k6Refused.Elapsed = map[string]int64{"other": 7459}, 1022429853
	heyRefused, ohaRefused := refused(20), refused(20)
	heyRefused.Elapsed, ohaRefused.Elapsed = 1300*time.Microsecond, 1100523
	for name, want := range map[string]Result{
		"wrk.txt": {Due: 60778, Sent: 60778, OK: 60778, Errors: map[string]int64{}, Elapsed: time.Second,
			Latency: Latency{Mean: us(306.57), P50: us(44), P90: us(813), P99: us(4440), Max: us(11870)}},
		"wrk-plain.txt": {Due: 51584, Sent: 51584, OK: 51584, Errors: map[string]int64{}, Elapsed: time.Second,
			Latency: Latency{Mean: us(524.27), Max: us(20730)}},
		"wrk-mixed.txt": {Due: 2667, Sent: 2667, OK: 2405, Failed: 262, Errors: map[string]int64{"timeout": 4, "HTTP 4xx or 5xx": 258}, Elapsed: 6010 * time.Millisecond,
			NoLatency: "4 requests timed out, and wrk leaves them out of its times"},
		"hey.txt": {Due: 22204, Sent: 22204, OK: 22204, Errors: map[string]int64{}, Elapsed: 1035500 * time.Microsecond,
			Latency: Latency{Mean: us(200), P50: us(100), P90: us(300), P99: us(1600), Max: us(8300)}},
		"hey-mixed.txt": {Due: 7577, Sent: 7577, OK: 6846, Failed: 731, Errors: map[string]int64{"HTTP 503": 719, "timeout": 12}, Elapsed: 6685700 * time.Microsecond,
			NoLatency: "12 requests timed out, and hey leaves them out of its times"},
		"hey-refused.txt": heyRefused,
		"oha.json": {Due: 48966, Sent: 48966, OK: 48966, Errors: map[string]int64{}, Elapsed: 1001609491,
			Latency: Latency{Mean: us(80.352), P50: us(55.444), P90: us(119.76), P99: us(493.716), P999: us(3304.479), Max: us(7074.212)}},
		"oha-mixed.json": {Due: 6529, Sent: 6529, OK: 5879, Failed: 650, Errors: map[string]int64{"HTTP 503": 637, "timeout": 13}, Elapsed: 6002357061,
			NoLatency: "13 requests timed out, and oha leaves them out of its times"},
		"oha-refused.json": ohaRefused,
		"k6.json": {Due: 10524, Sent: 10524, OK: 10524, Errors: map[string]int64{}, Elapsed: 1003452477,
			Latency: Latency{Mean: us(313.905), P50: us(169.947), P90: us(550.183), P99: us(2973.703), P999: us(6210.858), Max: us(29723.275)}},
		"k6-mixed.json": {Due: 4563, Sent: 4563, OK: 4074, Failed: 489, Errors: map[string]int64{"other": 489}, Elapsed: 6985972403,
			Latency: Latency{Mean: us(5533.158), P50: us(1468.076), P90: us(1855.707), P99: us(5223.989), P999: us(1001156.173), Max: us(1002115.21)}},
		"k6-refused.json": k6Refused,
	} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		f, _, _ := strings.Cut(strings.TrimSuffix(name, filepath.Ext(name)), "-")
		got, err := generators[Format(f)].parse(text, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got.Elapsed, want.Elapsed = got.Elapsed.Round(time.Microsecond), want.Elapsed.Round(time.Microsecond)
		// Shares of a microsecond are not told by all.
		for _, d := range []*Time{&got.Latency.Mean, &got.Latency.P50, &got.Latency.P90, &got.Latency.P99, &got.Latency.P999, &got.Latency.Max} {
			d.d = d.d.Round(time.Microsecond)
		}
		for _, d := range []*Time{&want.Latency.Mean, &want.Latency.P50, &want.Latency.P90, &want.Latency.P99, &want.Latency.P999, &want.Latency.Max} {
			d.d = d.d.Round(time.Microsecond)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

// What is not the output of a generator is no result.
func TestSummariesRefuse(t *testing.T) {
	hey := "Summary:\n Total: 1.0 secs\n Requests/sec: 10\nStatus code distribution:\n [200] 10 responses\n"
	for f, texts := range map[Format][]string{
		Wrk: {"", "unable to connect", "x requests in 1s, 2B read", "5 requests in 1s, 2B read\n5 requests in 1s, 2B read", "5 requests in -1s, 2B read",
			"-5 requests in 1s, 2B read", "5 requests in 1s, 2B read\nNon-2xx or 3xx responses: 6", "5 requests in 1s, 2B read\nSocket errors: connect -1",
			"Latency 1ms 2ms 1h30 5%\n5 requests in 1s, 2B read", "Latency Distribution\n50% 2s\n99% 1s\n5 requests in 2s, 2B read",
			"Latency 3s 2ms 1s 5%\n5 requests in 1s, 2B read", "5 requests in 1s, 2B read\nNon-2xx or 3xx responses: 99999999999999999999"},
		Hey: {"", "Summary:\n", strings.Replace(hey, "[200]", "[9999]", 1), strings.Replace(hey, "10 responses", "-1 responses", 1),
			strings.Replace(hey, "10 responses", "9 responses", 1) + "[200] 9000000000000000000 responses", strings.Replace(hey, "sec: 10", "sec: 1000000", 1),
			strings.Replace(hey, "1.0 secs", "-1 secs", 1), strings.Replace(hey, "1.0 secs", "NaN secs", 1), strings.Replace(hey, "[200]", "200", 1)},
		Oha: {"", "{}", "[]", `{"summary":{"total":1}}`, `{"summary":{"total":-1},"statusCodeDistribution":{"200":1}}`, `{"summary":{"total":1},"statusCodeDistribution":{"200":-1}}`,
			`{"summary":{"total":1},"statusCodeDistribution":{"200":1.5}}`, `{"summary":{"total":1},"statusCodeDistribution":{"x":1}}`,
			`{"summary":{"total":1,"slowest":1e300},"statusCodeDistribution":{"200":1}}`, `{"summary":{"total":1},"latencyPercentiles":{"p50":3,"p99":2},"statusCodeDistribution":{"200":1}}`},
		K6: {"", "{}", `{"metrics":{}}`, `{"metrics":{"http_reqs":{"count":-1}}}`, `{"metrics":{"http_reqs":{"count":1.5}}}`, `{"metrics":{"http_reqs":{"count":1e30}}}`,
			`{"metrics":{"http_reqs":{"count":1},"http_req_failed":{"passes":2}}}`, `{"metrics":{"http_reqs":{"count":1,"rate":1e-9}}}`,
			`{"metrics":{"http_reqs":{"count":1},"http_req_duration":{"med":-1}}}`, `{"metrics":{"http_reqs":{"count":1},"http_req_duration":{"med":3,"max":2}}}`},
	} {
		for _, text := range texts {
			if r, err := generators[f].parse([]byte(text), nil); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s of %q: %+v, %v", f, text, r, err)
			}
		}
	}
	if _, err := generators[Hey].parse([]byte(hey), nil); err != nil {
		t.Error(err)
	}
}

// wrk2 prints more quantiles, and a second, uncorrected list.
func TestWrk2(t *testing.T) {
	r, err := parseWrk([]byte(`  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    1.21ms
 75.000%    1.55ms
 90.000%    1.98ms
 99.000%    3.00ms
 99.900%    9.01ms
100.000%   10.00ms
  Detailed Percentile spectrum:
       1.207     0.500000         3000         2.00
  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))
 50.000%    0.10ms
  6000 requests in 3.00s, 1.00MB read
`), nil)
	if want := (Latency{P50: us(1210), P90: us(1980), P99: us(3000), P999: us(9010)}); err != nil || r.Latency != want || r.OK != 6000 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNewCommand(t *testing.T) {
	for shell, want := range map[string]struct {
		format    Format
		measures  Measures
		addresses []string
	}{
		"wrk -t2 -L http://127.0.0.1:80/a":                 {Wrk, Requests | Failures | Mean | Max | P50 | P90 | P99, []string{"127.0.0.1:80"}},
		"/opt/wrk http://localhost":                        {Wrk, Requests | Failures | Mean | Max, []string{"localhost:80"}},
		"hey -x http://proxy:3128 http://h:1/":             {Hey, All &^ P999, []string{"h:1"}},
		"oha --output-format json --no-tui https://[::1]/": {Oha, All, []string{"[::1]:443"}},
		"k6 run load.js -e URL=http://h/":                  {K6, All, nil},
		"./load.sh http://h/":                              {Line, All, nil},
		"status http://h/":                                 {Line, All, nil},
		"wrk http://h/ | tee log":                          {Line, All, nil},
	} {
		c, err := NewCommand(shell, nil, "")
		if err != nil || c.Format != want.format || c.Measures() != want.measures || !slices.Equal(c.Addresses(), want.addresses) || c.InMoments() {
			t.Errorf("%s: %s, measures %s, addresses %q, %v", shell, c.Format, c.Measures(), c.Addresses(), err)
		}
	}
	for shell, want := range map[string]string{
		"oha http://h/":                  "--output-format json",
		"hey -o csv http://h/":           "leave out -o",
		"k6 run --no-summary x.js":       "--no-summary",
		"k6 run --summary-export=a x.js": "--summary-export",
	} {
		if _, err := NewCommand(shell, nil, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", shell, err)
		}
	}
	if got := (Requests | P99).String(); got != "requests, p99" {
		t.Error(got)
	}
}

// A script that was edited is another load.
func TestCommandDigest(t *testing.T) {
	script := filepath.Join(t.TempDir(), "load.js")
	digest := func(text string) string {
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return newCommand(t, "k6 run "+script, "").Digest()
	}
	if a, b, again := digest("a"), digest("b"), digest("a"); a == b || a != again {
		t.Errorf("%s, %s, %s", a, b, again)
	}
}

// FuzzSummaries: a summary that is accepted is one that adds up, in whatever
// format it is.
func FuzzSummaries(f *testing.F) {
	formats := slices.Sorted(maps.Keys(generators))
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for i, format := range formats {
			if strings.HasPrefix(filepath.Base(name), string(format)) {
				f.Add(uint8(i), text)
			}
		}
	}
	f.Add(uint8(slices.Index(formats, Line)), []byte(`{"requests":10,"failed":3,"p50Millis":1.5,"p99Millis":20}`))
	f.Add(uint8(slices.Index(formats, Line)), []byte(`{"requests":1e3,"x":null}`))
	f.Fuzz(func(t *testing.T, i uint8, text []byte) {
		format := formats[int(i)%len(formats)]
		r, err := generators[format].parse(text, nil)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of more than a line: %v", err)
			}
			return
		}
		var errs int64
		for _, n := range r.Errors {
			if n < 0 {
				t.Fatalf("%s: %+v", format, r)
			}
			errs += n
		}
		l := r.Latency
		var known []time.Duration
		for _, q := range []Time{l.P50, l.P90, l.P99, l.P999, l.Max} {
			if d, ok := q.Value(); ok {
				known = append(known, d)
			}
		}
		if r.Sent < 0 || r.Failed < 0 || r.OK < 0 || r.Sent > maxSummary || r.Due != r.Sent || r.Elapsed < 0 || r.Elapsed > maxTime ||
			!r.NoFailures && (r.Sent != r.OK+r.Failed || errs != r.Failed) || len(r.Errors) > MaxErrorKinds ||
			!slices.IsSorted(known) || len(known) > 0 && (known[0] < 0 || known[len(known)-1] > maxTime) {
			t.Fatalf("%s of %q: %+v", format, text, r)
		}
	})
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// benchmarks writes an experiment with a jar of benchmarks: the cache, and what
// is passed on to the measured JVM.
func benchmarks(t *testing.T, entries int, options, more string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "caches.yaml")
	text := fmt.Sprintf(`title: Caches
run:
  workload: jmh
  jdk: %s
  options: [-Djmh.ignoreLock=true, -Xmx32m, -XX:+UseSerialGC]
  command: [-jar, %s, ZipfianSequenceLoading, -f, "1", -wi, "0", -i, "2", -r, 200ms, -t, "1", -jvmArgs, %q,
    -p, "cache={cache}", -p, entries=%d, -p, keys=200%%,
    -prof, dev.tare.jmh.RetainedMemory, -prof, dev.tare.caches.CacheStatistics]
  limit: 384m
  readyTimeout: 3m
%s`, jvmtest.Java(t, 17), jvmtest.Jar(t, "caches.jar"), options, entries, more)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLabRunsBenchmarks(t *testing.T) {
	file := benchmarks(t, 20_000, "-XX:+UseSerialGC -Xmx64m", `factors:
  - {name: cache, values: [guava, ehcache]}
repeats: 1
measure: [jmh.score, jmh.mem.retained, jmh.mem.alloc.norm, jmh.cache.hit.rate, jmh.none, cgroup-peak, passed]
`)
	code, stdout, stderr := labRun(t, "run", file)
	if code != exitOK || strings.Count(stderr, " passed ") != 2 {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	for _, r := range resultsOf(t, file).Records {
		v := r.Values
		// An entry is 16 bytes of key at least; the limit holds for JMH too.
		if v["jmh.mem.retained"] < 20_000*16 || v["jmh.mem.retained"] > 64<<20 || v["cgroup-peak"] < 32<<20 || v["cgroup-peak"] > 384<<20 ||
			v["jmh.score"] < 100 || v["jmh.cache.hit.rate"] < 20 || v["jmh.cache.hit.rate"] > 100 || v["passed"] != 1 {
			t.Errorf("%v: %v", r.Cell, v)
		}
		if _, ok := v["jmh.none"]; ok {
			t.Errorf("a metric that is not there has the value %v", v["jmh.none"])
		}
	}
	nothingLeft(t)
}

// A benchmark that the memory does not suffice for is a result, not a number.
func TestLabBenchmarksFail(t *testing.T) {
	file := benchmarks(t, 1_000_000, "-XX:+UseSerialGC -Xmx24m", `factors:
  - {name: cache, values: [guava]}
repeats: 1
measure: [jmh.score, passed]
`)
	code, stdout, stderr := labRun(t, "run", file)
	r := resultsOf(t, file).Records
	if code != exitOK || len(r) != 1 || r[0].Verdict != "out-of-memory" || r[0].Values["passed"] != 0 {
		t.Fatalf("exit code %d: %+v\n%s%s", code, r, stdout, stderr)
	}
	if score, ok := r[0].Values["jmh.score"]; ok {
		t.Errorf("the score of what failed is %v", score)
	}
	nothingLeft(t)
}

// More than one result is none: which would it be?
func TestLabWantsOneBenchmark(t *testing.T) {
	file := benchmarks(t, 1000, "-XX:+UseSerialGC -Xmx64m", `factors:
  - {name: cache, values: ["guava,ehcache"]}
repeats: 1
measure: [jmh.score, passed]
`)
	code, _, stderr := labRun(t, "run", file)
	r := resultsOf(t, file).Records
	if code != exitOK || len(r) != 1 || len(r[0].Values) != 1 || !strings.Contains(strings.Join(r[0].Warnings, " "), "2 benchmarks ran: name one") {
		t.Fatalf("exit code %d: %+v\n%s", code, r, stderr)
	}
	nothingLeft(t)
}

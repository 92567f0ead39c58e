package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/jmh"
	"tare.dev/tare/internal/jmhreport"
	"tare.dev/tare/internal/testkit/results"
)

// matrix is what caches are compared under.
type matrix struct{ collectors, threads, entries, keys []string }

// matrixFlags defines the flags of the matrix; what they say is known once they
// are parsed.
func matrixFlags() func() matrix {
	collectors := flag.String("collectors", "21:G1,21:Parallel,21:Serial,21:Z,11:ConcMarkSweep", "JDK:COLLECTOR, the caches'")
	threads := flag.String("threads", "4", "threads, the caches'; of the full matrix 1,2,4")
	entries := flag.String("entries", "100000", "capacities, the caches'; of the full matrix 100000,1000000")
	keys := flag.String("keys", "500%", "keys as a share of the capacity, the caches'; of the full matrix 110%,500%,1000%")
	return func() matrix {
		list := func(s *string) []string { return strings.Split(*s, ",") }
		return matrix{list(collectors), list(threads), list(entries), list(keys)}
	}
}

// shown are the metrics of the tables.
var shown = []string{jmh.Score, "cache.hit.rate", "mem.retained", "mem.heap.settled", "mem.used.fin", "mem.used.settled", "mem.committed.settled",
	"mem.peak.used", "proc.rss.peak", "proc.hwm", "mem.alloc.norm"}

func (b bench) caches(ctx context.Context, m matrix) (string, error) {
	versions, err := libraries("java/programs/caches/pom.xml")
	if err != nil {
		return "", err
	}
	all, err := b.measureCaches(ctx, m)
	if err != nil {
		return "", err
	}
	report, err := jmhreport.Rank(all, jmhreport.Options{Contender: "cache", Metrics: shown})
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "Versions: %s; Ehcache needs JDK 17, and is absent below. Each reads through with keys of Zipf's distribution (exponent 0.99); a miss costs 1000 tokens of JMH's blackhole. Heap: -Xmx1g; capacities %s, keys %s of them, threads %s. %s.\n\n",
		strings.Join(versions, ", "), strings.Join(m.entries, ", "), strings.Join(m.keys, ", "), strings.Join(m.threads, ", "), upper(b.setup()))
	out.WriteString("Published: [The 6 Memory Metrics You Should Track in Your Java Benchmarks](https://cruftex.net/2017/03/28/The-6-Memory-Metrics-You-Should-Track-in-Your-Java-Benchmarks.html)," +
		" with 5 forks, iterations of 20 s, 4 threads and 1 million entries.\n\n## What was published, and what was found\n\n")
	for _, f := range findings(all, report) {
		fmt.Fprintf(&out, "- **%s**: %s. %s.\n", f.claim, f.verdict, f.evidence)
	}
	out.WriteString("\n## Results\n\n")
	if err := jmhreport.Markdown(&out, report); err != nil {
		return "", err
	}
	page, err := os.Create(filepath.Join(b.runs, "caches.html"))
	if err != nil {
		return "", err
	}
	return out.String(), errors.Join(jmhreport.HTML(page, report), page.Close())
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (b bench) measureCaches(ctx context.Context, m matrix) ([]jmh.Result, error) {
	var all []jmh.Result
	for _, c := range m.collectors {
		jdk, collector, ok := strings.Cut(c, ":")
		if !ok {
			return nil, fmt.Errorf("collector %q: write JDK:COLLECTOR, such as 21:G1", c)
		}
		for _, threads := range m.threads {
			for _, entries := range m.entries {
				for _, keys := range m.keys {
					name := fmt.Sprintf("caches-%s-%s-%s-%s-%s", jdk, collector, threads, entries, strings.TrimSuffix(keys, "%"))
					args := slices.Concat([]string{"ZipfianSequenceLoading", "-t", threads, "-p", "cache=" + contenders(jdk), "-p", "entries=" + entries, "-p", "keys=" + keys},
						profilers, []string{"-prof", "dev.tare.caches.CacheStatistics"})
					results, err := b.rounds(ctx, name, jdk, "-Xmx1g -XX:+Use"+collector+"GC", args...)
					if err != nil {
						return nil, err
					}
					all = append(all, results...)
				}
			}
		}
	}
	return all, nil
}

// contenders are the caches that run on a JDK: Ehcache 3.12 is compiled for 17.
func contenders(jdk string) string {
	names := "caffeine,guava,cache2k"
	if major, err := strconv.Atoi(jdk); err != nil || major >= 17 {
		names += ",ehcache"
	}
	return names
}

// libraries are the versions of the caches, by the project that builds them in.
func libraries(pom string) ([]string, error) {
	text, err := os.ReadFile(pom)
	if err != nil {
		return nil, err
	}
	var project struct {
		Dependencies []struct {
			Artifact string `xml:"artifactId"`
			Version  string `xml:"version"`
		} `xml:"dependencies>dependency"`
	}
	if err := xml.Unmarshal(text, &project); err != nil {
		return nil, fmt.Errorf("%s: %w", pom, err)
	}
	var out []string
	for _, d := range project.Dependencies {
		if slices.Contains([]string{"caffeine", "guava", "cache2k-core", "ehcache"}, d.Artifact) {
			out = append(out, strings.TrimSuffix(d.Artifact, "-core")+" "+d.Version)
		}
	}
	return out, nil
}

// finding is what was published, whether it holds here, and by which numbers.
type finding struct{ claim, verdict, evidence string }

func judged(claim string, holds bool, evidence string, args ...any) finding {
	verdict := "refuted"
	if holds {
		verdict = "confirmed"
	}
	return finding{claim, verdict, fmt.Sprintf(evidence, args...)}
}

// majority judges what holds of so many of n results by a sign test at 5 %.
func majority(claim string, of, n int, evidence string, args ...any) finding {
	f := judged(claim, 2*of > n, evidence, args...)
	if signTest(of, n) >= 0.05 {
		f.verdict = "unclear"
	}
	return f
}

// signTest is how likely chance alone gives a majority, of either side, as large
// as this one.
func signTest(of, n int) float64 {
	p, term := 0.0, math.Pow(0.5, float64(n)) // of k = 0
	for k := 0; k <= min(of, n-of); k++ {
		p += term
		term *= float64(n-k) / float64(k+1)
	}
	return min(1, 2*p)
}

func findings(all []jmh.Result, report *jmhreport.Report) []finding {
	return []finding{committed(all), onceForced(all), rankings(report), allocation(all), moreForks(all)}
}

// alike groups results that differ in the collector alone.
func alike(all []jmh.Result, pick func(jmh.Result) bool) map[string][]jmh.Result {
	groups := map[string][]jmh.Result{}
	for _, r := range all {
		if pick(r) {
			k := fmt.Sprintf("%s %d %v", r.Benchmark, r.Threads, r.Params)
			groups[k] = append(groups[k], r)
		}
	}
	return groups
}

// ratios are those of the largest to the smallest mean of a metric in each
// group of two results or more.
func ratios(groups map[string][]jmh.Result, metric string) []float64 {
	var out []float64
	for _, group := range groups {
		var means []float64
		for _, r := range group {
			means = append(means, mean(forks(r, metric)))
		}
		if low, high := extremes(means); len(means) > 1 {
			out = append(out, high/low)
		}
	}
	return out
}

func committed(all []jmh.Result) finding {
	groups := alike(all, func(jmh.Result) bool { return true })
	c, r := ratios(groups, "mem.committed.settled"), ratios(groups, "mem.heap.live")
	return judged("Committed memory is unreliable", results.Median(c) > 2*results.Median(r),
		"For the same cache what is committed once settled differs between collectors by a factor of %s, the live heap by %s (median, least … most of %d caches and loads)",
		results.Spread(c, "%.2f"), results.Spread(r, "%.2f"), len(c))
}

func onceForced(all []jmh.Result) finding {
	var fin, settled []float64
	larger := 0
	for _, r := range all {
		f, s := variation(forks(r, "mem.used.fin")), variation(forks(r, "mem.used.settled"))
		if math.IsNaN(f) || math.IsNaN(s) {
			continue
		}
		fin, settled = append(fin, 100*f), append(settled, 100*s)
		if f > s {
			larger++
		}
	}
	return majority("What is in use after one forced collection varies more than once settled", larger, len(fin),
		"Between forks the former varies by %s %%, the latter by %s %%, more than the latter in %d of %d results",
		results.Spread(fin, "%.2f"), results.Spread(settled, "%.2f"), larger, len(fin))
}

// rankings counts groups where the order by settled heap is not that by peak
// resident memory, and the pairs of caches of which that is sure.
func rankings(report *jmhreport.Report) finding {
	differ, sure, groups := 0, 0, 0
	for _, g := range report.Groups {
		heap, resident := g.Ranking("mem.heap.settled"), g.Ranking("proc.rss.peak")
		if len(heap.Order) < 2 || len(resident.Order) < 2 {
			continue
		}
		groups++
		if !slices.Equal(heap.Order, resident.Order) {
			differ++
		}
		for _, a := range g.Contenders {
			for _, b := range g.Contenders {
				if below(a, b, "mem.heap.settled") && below(b, a, "proc.rss.peak") {
					sure++
				}
			}
		}
	}
	f := judged("The ranking by settled heap differs from that by peak resident memory", sure > 0,
		"The order of the caches differs in %d of %d groups; %d pairs of caches stand the other way round with intervals that do not overlap", differ, groups, sure)
	if sure == 0 && differ > 0 {
		f.verdict = "unclear"
	}
	return f
}

// below says that one contender takes less than another, by intervals that do
// not overlap.
func below(a, b jmhreport.Contender, metric string) bool {
	ea, eb := a.Estimates[metric], b.Estimates[metric]
	return len(ea.Values) > 0 && len(eb.Values) > 0 && ea.Center < eb.Center && !ea.Overlaps(eb)
}

func allocation(all []jmh.Result) finding {
	compressed := func(r jmh.Result) bool { return collector(r) != "Z" && !strings.HasPrefix(r.JDK, "11") }
	same := ratios(alike(all, compressed), "mem.alloc.norm")
	any := ratios(alike(all, func(r jmh.Result) bool { return !strings.HasPrefix(r.JDK, "11") }), "mem.alloc.norm")
	if len(same) == 0 {
		return finding{"Normalised allocation does not depend on the collector", "not measured", "It takes two collectors of one JDK"}
	}
	_, most := extremes(same)
	return judged("Normalised allocation does not depend on the collector", most <= 1.05,
		"Bytes per operation differ between collectors of one JDK by a factor of %s; with ZGC too, which knows no compressed references, by %s",
		results.Spread(same, "%.3f"), results.Spread(any, "%.3f"))
}

func moreForks(all []jmh.Result) finding {
	const few = 3
	var narrow, wide []float64
	most, narrower := 0, 0
	for _, r := range all {
		values := forks(r, "mem.committed.settled")
		if len(values) <= few {
			continue
		}
		most = max(most, len(values))
		w, n := 100*precision(values, few), 100*precision(values, len(values))
		wide, narrow = append(wide, w), append(narrow, n)
		if n < w {
			narrower++
		}
	}
	if most == 0 {
		return finding{"More forks steady the total", "not measured", fmt.Sprintf("It takes more than %d forks", few)}
	}
	return majority("More forks steady the total", narrower, len(narrow),
		"Half the 99.9 %% interval of what is committed is %s %% of it with %d forks, %s %% with %d, less for %d of %d results", results.Spread(wide, "%.1f"), few, results.Spread(narrow, "%.1f"), most, narrower, len(narrow))
}

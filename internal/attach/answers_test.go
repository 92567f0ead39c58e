package attach

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answer is what a real JVM answered.
func answer(t testing.TB, name string) *bytes.Reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "answers", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(text)
}

func TestParseHeapUsed(t *testing.T) {
	for name, want := range map[string]int64{
		"jdk8-cms":         3629 << 10,
		"jdk8-parallel":    3455 << 10,
		"jdk17-g1":         3092 << 10,
		"jdk17-serial":     3793 << 10,
		"jdk25-g1":         5538 << 10,
		"jdk25-serial":     (3437 + 1156) << 10,
		"jdk25-parallel":   (3437 + 1156) << 10,
		"jdk25-z":          6 << 20,
		"jdk25-shenandoah": 4608 << 10,
		"jdk25-epsilon":    0x276810,
	} {
		if got, err := ParseHeapUsed(answer(t, name+"-heap")); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, want)
		}
	}
}

func TestParseCodeCache(t *testing.T) {
	for name, used := range map[string][]int64{"jdk11": {21, 73, 1050}, "jdk25": {3, 8, 1274}} {
		got, err := ParseCodeCache(answer(t, name+"-codecache"))
		if err != nil || len(got) != 3 {
			t.Errorf("%s: got %+v, %v", name, got, err)
			continue
		}
		for i, u := range used {
			if got[i].UsedBytes != u<<10 || got[i].Memory.Size() < 5692<<10 {
				t.Errorf("%s: got %+v, want %d KiB used", name, got[i], u)
			}
		}
	}
	one := "CodeCache: size=10240Kb used=1241Kb max_used=1255Kb free=8999Kb\n bounds [0x00007f52242c7000, 0x00007f5224537000, 0x00007f5224cc7000]\n total_blobs=316\n"
	got, err := ParseCodeCache(strings.NewReader(one))
	if err != nil || len(got) != 1 || got[0].UsedBytes != 1241<<10 || got[0].Memory.Size() != 10<<20 {
		t.Errorf("one heap: got %+v, %v", got, err)
	}
}

func TestParseSystemMap(t *testing.T) {
	regions, err := ParseSystemMap(answer(t, "jdk25-system-map"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, r := range regions {
		sizes[r.Category] += r.Size()
	}
	for category, want := range map[string]int64{
		"Java Heap": 256 << 20, "Class": 1 << 30, "Metaspace": 64 << 20, "Shared class space": 16 << 20,
	} {
		if sizes[category] != want {
			t.Errorf("%s has %d bytes, want %d", category, sizes[category], want)
		}
	}
	if sizes["Thread Stack"] < 10*512<<10 || sizes["GC"] == 0 {
		t.Errorf("got %v", sizes)
	}
}

func TestParseHistogram(t *testing.T) {
	for name, want := range map[string]Histogram{
		"jdk8":  {Classes: []ClassUse{{"[B", 53, 1054488}, {"[C", 1060, 84824}}, Instances: 4987, Bytes: 1327256},
		"jdk25": {Classes: []ClassUse{{"[B", 8619, 1409080}, {"java.lang.Class", 1690, 223728}}, Instances: 28005, Bytes: 2294360},
	} {
		got, err := ParseHistogram(answer(t, name+"-histogram"), 2)
		if err != nil || len(got.Classes) != 2 || got.Classes[0] != want.Classes[0] || got.Classes[1] != want.Classes[1] ||
			got.Instances != want.Instances || got.Bytes != want.Bytes {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
}

// Kotlin's names may have blanks in them, and a name may be as long as the JVM's
// longest symbol.
func TestHistogramNames(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	text := "   1:  2  48  a test of two words$1\n   2:  1  24  dev.A (java.base@25.0.3)\n   3:  1  16  a b (m)\n   4:  1  8  " + long + "\nTotal  5  96\n"
	h, err := ParseHistogram(strings.NewReader(text), 9)
	if err != nil || len(h.Classes) != 4 {
		t.Fatalf("%+v, %v", h, err)
	}
	for i, want := range []string{"a test of two words$1", "dev.A", "a b", long[:maxName] + "…"} {
		if h.Classes[i].Name != want {
			t.Errorf("got %.40q, want %.40q", h.Classes[i].Name, want)
		}
	}
}

func TestParseMetaspace(t *testing.T) {
	for name, want := range map[string]MetaspaceUse{
		"jdk11":       {Loaders: 2, Classes: 527, CommittedBytes: 19 << 18, WasteBytes: 4771020}, // 4.75 MB, 4.55 MB
		"jdk17-noccp": {Loaders: 2, Classes: 614, CommittedBytes: 4655677, WasteBytes: 22200},
		"jdk27":       {Loaders: 2, Classes: 538, CommittedBytes: 320 << 10, WasteBytes: 77137},
	} {
		got, err := ParseMetaspace(answer(t, name+"-metaspace"))
		if err != nil || *got != want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
}

func TestParseLoaders(t *testing.T) {
	for name, want := range map[string]LoaderUse{
		"jdk8":  {"<boot class loader>", 1, 493, 4587520, 2909216},
		"jdk25": {"<boot class loader>", 1, 521, 4456448, 103768},
	} {
		got, all, err := ParseLoaders(answer(t, name+"-loaders"), 2)
		if err != nil || len(got) != 2 || got[0] != want || all.Loaders != 3 || all.Classes != want.Classes+2 {
			t.Errorf("%s: got %+v, %+v, %v", name, got, all, err)
		}
	}
}

// Whatever a JVM answers, what is taken from it is bounded.
func FuzzAnswers(f *testing.F) {
	names, err := filepath.Glob(filepath.Join("testdata", "answers", "*.txt"))
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		bounded := func(what string, err error, sizes ...int64) {
			for _, n := range sizes {
				if err == nil && (n < 0 || n > maxBytes) {
					t.Errorf("%s: %d bytes", what, n)
				}
			}
		}
		used, err := ParseHeapUsed(bytes.NewReader(text))
		bounded("heap", err, used)
		heaps, err := ParseCodeCache(bytes.NewReader(text))
		for _, h := range heaps {
			bounded("code heap", err, h.UsedBytes)
		}
		_, tracked, _ := ParseNMTDetail(bytes.NewReader(text))
		for _, r := range tracked {
			if r.End < r.Start || len(r.Category) > maxCategoryName {
				t.Errorf("region %+v", r)
			}
		}
		regions, err := ParseSystemMap(bytes.NewReader(text))
		for _, r := range regions {
			if err == nil && r.End < r.Start {
				t.Errorf("region %+v", r)
			}
		}
		if h, err := ParseHistogram(bytes.NewReader(text), 3); err == nil {
			bounded("histogram", nil, h.Bytes, h.Instances)
			if len(h.Classes) > 3 {
				t.Errorf("%d classes", len(h.Classes))
			}
		}
		if m, err := ParseMetaspace(bytes.NewReader(text)); err == nil {
			bounded("metaspace", nil, m.CommittedBytes, m.WasteBytes, m.Classes, m.Loaders)
		}
		if types, all, err := ParseLoaders(bytes.NewReader(text), 3); err == nil && (len(types) > 3 || all.Loaders < 0) {
			t.Errorf("loaders %+v", all)
		}
	})
}

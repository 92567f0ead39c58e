package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/results"
)

var (
	bakeOut = flag.String("bake.out", "", "file for the figures of baked images; without one they are not measured")
	bakeRaw = flag.String("bake.raw", "", "file of the bakes so far, which are not made again")
)

// bakedService is one bake that was measured.
type bakedService struct {
	Service string      `json:"service"`
	JDK     int         `json:"jdk"`
	Bake    report.Bake `json:"bake"`
}

// bakeFlags are those of every bake that is measured.
var bakeFlags = []string{"--cpus", "1", "--warmup", "2s", "--duration", "8s", "--confirmations", "3", "--runs", "20", "--json"}

// TestBakedServices measures images as given and baked, of a service on two JDKs. It
// takes half an hour, so it runs where a file for the figures is named.
func TestBakedServices(t *testing.T) {
	if *bakeOut == "" {
		t.Skip("-bake.out names no file: make bench-images does")
	}
	all, err := readBaked(*bakeRaw)
	if err != nil {
		t.Fatal(err)
	}
	done := func(service string, jdk int) bool {
		for _, b := range all {
			if b.Service == service && b.JDK == jdk {
				return true
			}
		}
		return false
	}
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	t.Setenv("PATH", filepath.Dir(buildLauncher(t))+":"+os.Getenv("PATH"))
	const service = "camel"
	for _, jdk := range []int{17, 25} {
		if done(service, jdk) {
			continue
		}
		b := bakedService{service, jdk, bakeService(t, e, service+":"+strconv.Itoa(jdk), jdk, "camel-25.jar", "/order")}
		all = append(all, b)
		if err := appendBaked(*bakeRaw, b); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(all, func(a, b bakedService) int { return a.JDK - b.JDK })
	if err := os.WriteFile(*bakeOut, []byte(results.Text("Images as given and baked", "make bench-images", bakedText(all))), 0o644); err != nil {
		t.Fatal(err)
	}
}

// bakeService bakes an image of a service on a JDK.
func bakeService(t *testing.T, e *dockertest.Engine, name string, jdk int, jar, path string) report.Bake {
	t.Helper()
	glibc := filepath.Join(jvmtest.Cache(t), "jdks", ".glibc") // newer JDKs in the cache name it
	e.Import(t, name, map[string]string{"/jdk": jvmtest.Home(t, jdk), glibc: glibc, "/app/app.jar": jvmtest.Jar(t, jar)},
		"ENV PATH=/jdk/bin:/bin", "WORKDIR /app", "USER 1000", `ENTRYPOINT ["java","-jar","/app/app.jar"]`)
	const url = "http://127.0.0.1:8080"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, append([]string{"bake", name, "-t", name + "-small", "--ready", url + "/health", "--load", url + path}, bakeFlags...)...)
	cmd.Env = append(os.Environ(), runAsTare+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var b report.Bake
	if err := json.Unmarshal(out.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func readBaked(file string) (all []bakedService, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var b bakedService
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, b)
	}
	return all, lines.Err()
}

func appendBaked(file string, b bakedService) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

// bakedText is the page.
func bakedText(all []bakedService) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Each image is of a JDK, its libraries and one jar, its user is not root, and its command is java with no options. Each was baked with `tare bake %s`: a fit with its own load at concurrency 8, then 20 fresh runs of the new image at its limit, all of which passed.\n\n", strings.Join(bakeFlags[:len(bakeFlags)-1], " "))
	b.WriteString("The limit as given is the smallest that the fit saw pass, by two trials: behind it the largest that failed. Needed is without page cache: as given of one run with ample memory, baked the median of 20. MiB.\n\n")
	b.WriteString("| service | JDK | | limit | needed | requests/s | ready (s) | image | archive |\n|---|---:|---|---:|---:|---:|---:|---:|---|\n")
	var limits, starts []float64
	for _, s := range all {
		g, n := s.Bake.Given, s.Bake.Baked
		fails := ""
		if g.FailsBytes > 0 {
			fails = fmt.Sprintf(" (%d)", g.FailsBytes>>20)
		}
		fmt.Fprintf(&b, "| %s | %d | as given | %d%s | %s | %.0f | %.2f | %d | |\n", s.Service, s.JDK, g.LimitBytes>>20, fails, mibText(g.NeededBytes), g.Throughput, g.ReadyMillis/1000, g.ImageBytes>>20)
		archive := "none"
		if s.Bake.Archive {
			archive = "in use"
		}
		fmt.Fprintf(&b, "| | | baked | %d | %s (%s … %s) | %.0f | %.2f | %d | %s |\n", n.LimitBytes>>20, mibText(n.NeededBytes), mibText(n.LeastNeededBytes), mibText(n.MostNeededBytes), n.Throughput, n.ReadyMillis/1000, n.ImageBytes>>20, archive)
		limits, starts = append(limits, float64(n.LimitBytes)/float64(g.LimitBytes)), append(starts, n.ReadyMillis/g.ReadyMillis)
	}
	fmt.Fprintf(&b, "\nBaked over as given, geometric mean: limit %.2f (at most 0.55 was wanted: %s), start %.2f (at most 0.5: %s).\n", geometric(limits), results.Reached(geometric(limits) <= 0.55), geometric(starts), results.Reached(geometric(starts) <= 0.5))
	return b.String()
}

func mibText(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// geometric is the geometric mean.
func geometric(ratios []float64) float64 {
	sum := 0.0
	for _, r := range ratios {
		sum += math.Log(r)
	}
	return math.Exp(sum / float64(len(ratios)))
}

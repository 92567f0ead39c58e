package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

const recorded = `{"schema":"tare.footprint/1","jdk":"17<script>","collector":"G1","rssBytes":3145728,"millis":41.6,
"rows":[{"owner":"metaspace","residentBytes":1048576,"how":"layout"},{"owner":"java-heap","residentBytes":2097152,"how":"exact"}]}`

func TestDraw(t *testing.T) {
	var out bytes.Buffer
	if err := draw(strings.NewReader(recorded), &out); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, out.Bytes())
	heap, metaspace := strings.Index(out.String(), "java-heap"), strings.Index(out.String(), "metaspace")
	if heap < 0 || metaspace < heap || strings.Contains(out.String(), "<script>") || !strings.Contains(out.String(), `width="215.0"`) {
		t.Error(out.String())
	}
	for _, bad := range []string{"", "{}", `{"schema":"tare.diff/1","rssBytes":1,"rows":[{}]}`, "[1]"} {
		if err := draw(strings.NewReader(bad), io.Discard); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The picture of the README is one of a whole footprint: its rows add up.
func TestKept(t *testing.T) {
	picture, err := os.ReadFile(filepath.Join(jvmtest.Root(t), "docs", "weigh.svg"))
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, picture)
	var figures []float64
	for _, m := range regexp.MustCompile(`text-anchor="end" fill="#222">([0-9.]+)<`).FindAllSubmatch(picture, -1) {
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		figures = append(figures, n)
	}
	if len(figures) < 8 {
		t.Fatalf("%v", figures)
	}
	sum, rss := 0.0, figures[len(figures)-1]
	for _, n := range figures[:len(figures)-1] {
		sum += n
	}
	if math.Abs(sum-rss) > 0.05*float64(len(figures)) { // each is rounded
		t.Errorf("the rows add up to %.1f MiB, Rss is %.1f", sum, rss)
	}
}

func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

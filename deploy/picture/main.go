// Picture draws a footprint, as tare weigh --json writes it, as SVG: each owner's resident
// memory, from the largest on.
//
//	tare weigh --json PID | go run ./deploy/picture >docs/weigh.svg
package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := draw(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// footprint is what is drawn of the schema tare.footprint/1.
type footprint struct {
	Schema, JDK, Collector, Name string
	RssBytes                     int64
	Millis                       float64
	Rows                         []row
}

type row struct {
	Owner         string
	ResidentBytes int64
	How           string
}

const (
	width, left, bar = 760, 150, 430
	line             = 24
)

func draw(r io.Reader, w io.Writer) error {
	var f footprint
	if err := json.NewDecoder(io.LimitReader(r, 16<<20)).Decode(&f); err != nil {
		return fmt.Errorf("not a footprint: %w", err)
	}
	if f.Schema != "tare.footprint/1" || len(f.Rows) == 0 || f.RssBytes <= 0 {
		return errors.New("not a footprint: write one with tare weigh --json")
	}
	slices.SortStableFunc(f.Rows, func(a, b row) int { return int(min(1, max(-1, b.ResidentBytes-a.ResidentBytes))) })
	largest := max(f.Rows[0].ResidentBytes, 1)
	height := (len(f.Rows) + 3) * line
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" font-family="ui-monospace, monospace" font-size="14" role="img">`+"\n", width, height)
	title := fmt.Sprintf("java %s %s · %s MiB resident", f.JDK, f.Collector, mib(f.RssBytes))
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", escape(title), width, height)
	text(&b, 8, line-6, "start", title)
	for i, r := range f.Rows {
		y := (i + 2) * line
		text(&b, left-8, y-7, "end", r.Owner)
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"16\" fill=\"#2a6fb5\"/>\n", left, y-line+4, float64(r.ResidentBytes)/float64(largest)*bar)
		text(&b, width-110, y-7, "end", mib(r.ResidentBytes))
		text(&b, width-100, y-7, "start", r.How)
	}
	end := (len(f.Rows) + 2) * line
	text(&b, left-8, end-5, "end", "= Rss")
	text(&b, width-110, end-5, "end", mib(f.RssBytes))
	text(&b, 8, end+line-8, "start", fmt.Sprintf("weighed in %.0f ms, nothing was sent to the JVM", f.Millis))
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func text(b *strings.Builder, x, y int, anchor, s string) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" fill=\"#222\">%s</text>\n", x, y, anchor, escape(s))
}

func mib(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(fmt.Sprintf("%.80s", s))) // a Builder does not fail
	return b.String()
}

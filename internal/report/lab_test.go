package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/lab"
)

const labFile = `title: Thread stacks
question: Does a larger -Xss cost resident memory?
source: https://example.com/stacks
run: {jdk: "{jdk}", options: ["-Xss{xss}"], command: [-jar, app.jar], ready: "tcp:80"}
factors:
  - {name: jdk, values: [8, 25]}
  - {name: xss, values: [512k, 2048k]}
repeats: 3
mostRepeats: 5
seed: 1
measure: [rss, start]
claims:
  - {text: A larger -Xss costs nothing | at all, measure: rss, compare: {xss: [2048k, 512k]}, expect: 0.9 .. 1.1}
  - {text: It is small, measure: rss, expect: <= 100MiB, why: JDK 25 takes 110.}
published:
  - {where: {jdk: 8, xss: 2048k}, measure: rss, value: 300MiB, note: on another machine, why: That machine has larger pages.}
  - {where: {xss: 512k}, measure: rss, value: 299MiB, note: on another machine, why: That machine has larger pages.}
remarks: |
  Stacks are touched as deep
  as they are used.

  A second paragraph.
`

// labResults are made-up: JDK 8 takes 90 MiB, JDK 25 110; one run
// of JDK 25 was killed before it could be weighed, one cell has no result, and one a
// round more.
func labResults(t *testing.T, more float64) *lab.Results {
	t.Helper()
	e, err := lab.Read(strings.NewReader(labFile), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for i, c := range e.Cells()[:3] {
		for round := 1; round <= []int{4, 3, 3}[i]; round++ {
			rss := []float64{90, 91, 110}[i] + 0.1*float64(round) + more
			values := fmt.Sprintf(`{"rss": %g, "start": 0.%d}`, rss*MiB, 3+round)
			verdict := "passed"
			if i == 2 && round == 2 {
				values, verdict = "{}", "oom-killed"
			}
			fmt.Fprintf(&lines, `{"schema":"tare.lab/1","hash":%q,"cell":{"jdk":%q,"xss":%q},"round":%d,"time":%q,"jdk":%q,"runner":"cgroup v2","machine":{"kernel":"6.1.0","arch":"amd64","cpus":2,"memoryBytes":25232932864},`+
				`"trials":1,"verdict":%q,"others":0.%d,"warnings":["time in garbage collection is unknown"],"values":%s}`+"\n",
				e.Hash(c), c.Labels[0], c.Labels[1], round, time.Date(2026, 1, round, 0, 0, 0, 0, time.UTC).Format(time.RFC3339), c.Labels[0], verdict, round, values)
		}
	}
	r, err := lab.ReadResults(&lines, "x.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func labSet(t *testing.T, more float64) *lab.Set {
	t.Helper()
	e, err := lab.Read(strings.NewReader(labFile), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return lab.Analyse(e, labResults(t, more))
}

// rendered is a document as one renderer shows it.
func rendered(t *testing.T, d *document.Document, write func(io.Writer, *document.Document) error) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, d); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// terminal is a document as a terminal without colours shows it.
func terminal(t *testing.T, d *document.Document) []byte {
	t.Helper()
	return rendered(t, d, func(w io.Writer, d *document.Document) error { return document.WriteText(w, d, document.Style{}) })
}

func TestLabReport(t *testing.T) {
	set := labSet(t, 0)
	nothing, err := lab.ReadResults(strings.NewReader(""), "")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "lab.txt", terminal(t, Lab(set, "")))
	golden(t, "lab.md", rendered(t, Lab(set, "tare lab run stacks.yaml"), document.WriteMarkdown))
	golden(t, "lab-compare.txt", terminal(t, LabDifferences(lab.Compare(labResults(t, 0), labResults(t, 5)))))
	golden(t, "lab-plan.txt", terminal(t, LabPlan(set.Experiment, nothing, set.Experiment.Plan())))
}

func TestLabProgress(t *testing.T) {
	set := labSet(t, 0)
	var out bytes.Buffer
	job := set.Experiment.Plan()[0]
	LabProgress(&out, set.Experiment, lab.Event{Job: job, Number: 1, Total: 12})
	rec := &lab.Record{Verdict: "passed", Machine: fit.Machine{}, Values: map[string]float64{"rss": 90 * MiB, "start": 0.5}}
	LabProgress(&out, set.Experiment, lab.Event{Job: job, Number: 2, Total: 12, Record: rec, Left: 90 * time.Second})
	want := " 2 of 12  " + set.Experiment.Key(job.Cell) + "  passed  rss 90.0 MiB, start 500.0 ms · about 1 m 30 s left\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

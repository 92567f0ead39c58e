// Command steady measures how steady the answers of tare fit are: it makes several
// fits of a service, each with the defaults, and says how far apart they come out.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/testkit/results"
)

const mib = 1 << 20

// service is an application to fit.
type service struct {
	name, jar string
	targets   []string
}

var services = []service{
	{"shop", "shop.jar", []string{"/products?page=2", "/products/7", "/products?name=1"}},
	{"camel", "camel-current.jar", []string{"/health", "/order"}},
}

// fitted is what is kept of a fit: a line of the raw file.
type fitted struct {
	Service, JDK string
	Concurrency  int
	Report       report
}

// report is what is kept of a fit's JSON.
type report struct {
	Error       *string `json:"error,omitempty"`
	TookSeconds float64 `json:"tookSeconds"`
	LimitBytes  *int64  `json:"limitBytes"`
	AsGiven     *run    `json:"asGiven"`
	Recommended *run    `json:"recommended"`
	Trials      []run   `json:"trials"`
	FreshRuns   int     `json:"freshRuns"`
	Levers      []lever `json:"levers"`
}

type run struct {
	Phase           string   `json:"phase,omitempty"`
	Lever           string   `json:"lever,omitempty"`
	LimitBytes      int64    `json:"limitBytes"`
	NeededBytes     int64    `json:"neededBytes"`
	Verdict         string   `json:"verdict,omitempty"`
	SlowElsewhere   bool     `json:"slowElsewhere,omitempty"`
	Requests        *int64   `json:"requests,omitempty"`
	Throughput      *float64 `json:"throughput,omitempty"`
	AnswerCPUMillis float64  `json:"answerCpuMillis"`
	ReadyMillis     float64  `json:"readyMillis"`
	GCShare         *float64 `json:"gcShare"`
}

type lever struct {
	ID         string  `json:"id"`
	Kept       bool    `json:"kept"`
	SavedBytes int64   `json:"savedBytes"`
	CostRatio  float64 `json:"costRatio,omitempty"`
	Reason     string  `json:"reason,omitempty"`
}

type bench struct {
	cache, raw  string
	jdks, names []string
	fits        int
	concurrency int
	port        int
}

func main() {
	var b bench
	flag.StringVar(&b.cache, "cache", os.Getenv("TARE_CACHE"), "folder that holds jdks and services")
	flag.StringVar(&b.raw, "raw", "docs/results/raw/steady.jsonl", "file of the fits so far")
	jdks := flag.String("jdks", "25,17", "JDKs to fit on")
	names := flag.String("services", "shop,camel", "services to fit")
	flag.IntVar(&b.fits, "fits", 3, "fits of each service on each JDK")
	flag.IntVar(&b.concurrency, "concurrency", 32, "requests at a time")
	flag.IntVar(&b.port, "port", 18670, "port of the service")
	flag.Parse()
	b.jdks, b.names = strings.Split(*jdks, ","), strings.Split(*names, ",")
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run makes the fits that are missing, and writes the page.
func (b bench) run() error {
	all, err := b.read()
	if err != nil {
		return err
	}
	for n := range b.fits { // in rounds: a machine that changes changes all cells
		for _, s := range services {
			for _, jdk := range b.jdks {
				if !slices.Contains(b.names, s.name) || count(all, s.name, jdk) > n {
					continue
				}
				f, err := b.fit(s, jdk)
				if err != nil {
					return err
				}
				all = append(all, f)
				if err := b.keep(f); err != nil {
					return err
				}
			}
		}
	}
	text := b.page(all)
	fmt.Print(text)
	return results.Write("steady", "How steady the answers of a fit are", "make bench-steady", text)
}

func count(all []fitted, service, jdk string) int {
	n := 0
	for _, f := range all {
		if f.Service == service && f.JDK == jdk {
			n++
		}
	}
	return n
}

func (b bench) read() ([]fitted, error) {
	text, err := os.ReadFile(b.raw)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []fitted
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 16*mib)
	for lines.Scan() {
		var f fitted
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return nil, fmt.Errorf("%s: %w", b.raw, err)
		}
		all = append(all, f)
	}
	return all, lines.Err()
}

func (b bench) keep(f fitted) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(b.raw, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}

// fit makes one fit with the defaults on one processor. One that finds no answer is a
// result as well.
func (b bench) fit(s service, jdk string) (fitted, error) {
	at := "http://127.0.0.1:" + strconv.Itoa(b.port)
	args := []string{"fit", "--json", "--cpus", "1", "--concurrency", strconv.Itoa(b.concurrency), "--ready", at + "/health"}
	for _, t := range s.targets {
		args = append(args, "--load", at+t)
	}
	args = append(args, "--", filepath.Join(b.cache, "jdks", jdk, "bin", "java"), "-jar", filepath.Join(b.cache, "services", s.jar), "--server.port="+strconv.Itoa(b.port))
	fmt.Fprintln(os.Stderr, "bin/tare", strings.Join(args, " "))
	var out bytes.Buffer
	cmd := exec.Command("bin/tare", args...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err := cmd.Run()
	f := fitted{Service: s.name, JDK: jdk, Concurrency: b.concurrency}
	if json.Unmarshal(out.Bytes(), &f.Report) != nil {
		return f, fmt.Errorf("bin/tare %s: %w", strings.Join(args, " "), errors.Join(err, errors.New("it wrote no report")))
	}
	return f, nil
}

// page is the text of the results.
func (b bench) page(all []fitted) string {
	var t strings.Builder
	fmt.Fprintf(&t, "Each fit was made with the defaults of `tare fit`, `--cpus 1`, and a closed loop of %d requests at a time; the services are those of bench/services. MiB; from the least to the most of the fits. Trials are those before the proof. What is used of their reports is in raw/steady.jsonl.\n\n", b.concurrency)
	t.WriteString("| service | JDK | fits | as given | recommended | apart | ms/request as given | recommended | trials | fresh runs | minutes |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, s := range services {
		for _, jdk := range b.jdks {
			t.WriteString(rowOf(all, s.name, jdk))
		}
	}
	return t.String()
}

func rowOf(all []fitted, service, jdk string) string {
	var limits, given, cost, costGiven, trials, fresh, minutes []float64
	fits, unanswered := 0, 0
	for _, f := range all {
		if f.Service != service || f.JDK != jdk {
			continue
		}
		r := f.Report
		fits++
		minutes = append(minutes, r.TookSeconds/60)
		if r.LimitBytes == nil || r.AsGiven == nil || r.Recommended == nil {
			unanswered++
			continue
		}
		limits, given = append(limits, float64(*r.LimitBytes)/mib), append(given, float64(r.AsGiven.LimitBytes)/mib)
		cost, costGiven = append(cost, r.Recommended.AnswerCPUMillis), append(costGiven, r.AsGiven.AnswerCPUMillis)
		trials = append(trials, float64(len(slices.DeleteFunc(slices.Clone(r.Trials), func(t run) bool { return t.Phase == "confirm" || t.Phase == "below" }))))
		fresh = append(fresh, float64(r.FreshRuns))
	}
	if fits == 0 {
		return ""
	}
	apart := "-"
	if len(limits) > 1 {
		apart = fmt.Sprintf("%.1f %%", 100*(slices.Max(limits)/slices.Min(limits)-1))
	}
	made := strconv.Itoa(fits)
	if unanswered > 0 {
		made += fmt.Sprintf(", %d without an answer", unanswered)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", service, jdk, made, extent(given, "%.0f"), extent(limits, "%.0f"), apart,
		extent(costGiven, "%.1f"), extent(cost, "%.1f"), extent(trials, "%.0f"), extent(fresh, "%.0f"), extent(minutes, "%.0f"))
}

// extent is from the least to the most.
func extent(values []float64, format string) string {
	if len(values) == 0 {
		return "-"
	}
	low, high := fmt.Sprintf(format, slices.Min(values)), fmt.Sprintf(format, slices.Max(values))
	if low == high {
		return low
	}
	return low + " … " + high
}

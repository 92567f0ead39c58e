package serve_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare.dev/tare/internal/collect"
	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/historytest"
	"tare.dev/tare/internal/testkit/pgtest"
	"tare.dev/tare/internal/testkit/results"
)

var (
	benchOut    = flag.String("serve.out", "", "page that the figures of a hub with a thousand JVMs are written to; they are measured only for it")
	benchPeriod = flag.Duration("serve.period", time.Minute, "how long the load lasts")
)

const (
	benchMachines, benchJVMs = 10, 100 // of each machine
	pastJVMs                 = 20      // that have thirty days behind them
)

// TestBenchServe measures what a hub takes for a thousand JVMs that are looked at
// every ten seconds, and how fast it answers, on both databases.
func TestBenchServe(t *testing.T) {
	if *benchOut == "" {
		t.Skip("it measures for make bench-serve")
	}
	alone.Measures(t, "a hub under load")
	rows := []string{benchOne(t, "SQLite", filepath.Join(t.TempDir(), "h.db"), func() time.Duration { return 0 })}
	server := pgtest.Start(t)
	rows = append(rows, benchOne(t, "PostgreSQL", server.Database(t), postgresTime))
	body := fmt.Sprintf(`%d agents send the counters of %d JVMs every 10 s, and a footprint of each every 30 s, over HTTP to a hub on the loopback, for %s, while the metrics are scraped every 15 s. %d other JVMs have 30 days behind them, a look and a footprint each 10 minutes. Processor time is the hub's, and with PostgreSQL also the database's. The last two columns are answers of the API to a client on the same machine: all 1000 JVMs and the kills of the week (what the fleet page asks for), and samples and footprints of 30 days of one JVM in 1000 points (what the page of a JVM asks for). 20 times each, under the load: median, and the slowest.

| database | of one processor (goal: 0.5) | hub's resident memory | records a second | a fleet of 1000 (goal: 200 ms) | 30 days of one JVM (goal: 300 ms) | load of the machine, before and after |
|---|---:|---:|---:|---:|---:|---:|
%s`, benchMachines, benchMachines*benchJVMs, *benchPeriod, pastJVMs, strings.Join(rows, ""))
	if err := os.WriteFile(*benchOut, []byte(results.Text("tare serve with a thousand JVMs", "make bench-serve", body)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func benchOne(t *testing.T, name, location string, database func() time.Duration) string {
	loadBefore := load(t)
	d := historytest.Open(t, location)
	past := fillPast(t, d)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + free.Addr().String()
	address := free.Addr().String()
	free.Close()
	h := play(t, asHub, location+" "+address)
	defer h.kill()
	h.until(t, "ready", 1)
	go func() { // it would wait for a reader
		for range h.lines {
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), *benchPeriod)
	defer cancel()
	var agents sync.WaitGroup
	var clients []func(ctx context.Context) int
	for m := range benchMachines {
		machine := fmt.Sprintf("machine-%d", m)
		token, err := d.AddToken(t.Context(), machine, history.Write, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c, err := collect.NewClient(url, token, "")
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, agentOf(t, machine, c))
	}
	for _, send := range clients { // the JVMs begin before it is measured
		send(t.Context())
	}
	before, databaseBefore, began := processorTime(t, h.cmd.Process.Pid), database(), time.Now()
	counts := make([]int, len(clients))
	for i, send := range clients {
		agents.Go(func() {
			ticker := time.NewTicker(5 * time.Second) // half of the JVMs each
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
					counts[i] += send(ctx)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	agents.Go(func() { scrape(ctx, t, url) })
	fleet := timed(t, url, "/api/v1/jvms?limit=1000", "/api/v1/kills?limit=200")
	from := time.Now().Add(-30 * 24 * time.Hour).Unix()
	series := fmt.Sprintf("?from=%d&points=1000", from)
	month := timed(t, url, fmt.Sprintf("/api/v1/jvms/%d/samples%s", past, series), fmt.Sprintf("/api/v1/jvms/%d/footprints%s", past, series))
	agents.Wait()
	took := time.Since(began)
	cpu := (processorTime(t, h.cmd.Process.Pid) - before + database() - databaseBefore).Seconds() / took.Seconds()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return fmt.Sprintf("| %s | %.2f | %d MiB | %.0f | %s | %s | %s, %s |\n", name, cpu, residentOf(t, h.cmd.Process.Pid)>>20, float64(sum)/took.Seconds(), fleet, month, loadBefore, load(t))
}

// load is the load of the machine over the last minute.
func load(t *testing.T) string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	minute, _, _ := strings.Cut(string(text), " ")
	return minute
}

// fillPast gives some JVMs thirty days, and returns the number of one of them.
func fillPast(t *testing.T, d *history.DB) int64 {
	a := historytest.NewAgent("past")
	now := time.Now()
	begin := now.Add(-30 * 24 * time.Hour)
	for pid := 1; pid <= pastJVMs; pid++ {
		a.Add(begin, ledger.Record{Process: historytest.ID(pid), Start: historytest.Process(pid)})
	}
	for i := 0; ; i++ {
		at := begin.Add(time.Duration(i) * 10 * time.Minute)
		if at.After(now) {
			break
		}
		for pid := 1; pid <= pastJVMs; pid++ {
			a.Add(at, ledger.Record{Process: historytest.ID(pid), Counters: counters(pid, i)})
			a.Add(at, ledger.Record{Process: historytest.ID(pid), Footprint: print(counters(pid, i).Resident)})
		}
		if i%50 == 0 {
			send(t, d, a, now)
		}
	}
	send(t, d, a, now)
	all, err := d.JVMs(t.Context(), history.Filter{Limit: 1})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0].ID
}

// agentOf sends at each call the counters of half the JVMs of a machine, and now and
// then their footprints. It returns how many records it sent.
func agentOf(t *testing.T, machine string, c *collect.Client) func(ctx context.Context) int {
	a := historytest.NewAgent(machine)
	for pid := 1; pid <= benchJVMs; pid++ {
		p := historytest.Process(pid)
		for i := range 40 { // as many options as a JVM has
			p.Flags[fmt.Sprintf("Option%dOfTheMemoryOfAJVM", i)] = "123456789"
		}
		a.Add(time.Now(), ledger.Record{Process: p.ID, Start: p})
	}
	round := 0
	return func(ctx context.Context) int {
		for pid := 1 + round%2; pid <= benchJVMs; pid += 2 {
			a.Add(time.Now(), ledger.Record{Process: historytest.ID(pid), Counters: counters(pid, round)})
			if (round/2+pid/2)%3 == 0 {
				a.Add(time.Now(), ledger.Record{Process: historytest.ID(pid), Footprint: print(counters(pid, round).Resident)})
			}
		}
		round++
		b := a.Batch(time.Now())
		b.Uptime, b.Boot = 1<<50, strings.Repeat("1", 8)+historytest.Boot[8:]
		if got, err := c.Take(ctx, b); err != nil && ctx.Err() == nil || got.Refused > 0 {
			t.Errorf("%+v, %v", got, err)
		}
		return len(b.Records)
	}
}

func scrape(ctx context.Context, t *testing.T, url string) {
	ticker := time.NewTicker(15 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if resp, _ := do(t, http.DefaultClient, "GET", url+"/metrics", ""); resp.StatusCode != http.StatusOK {
				t.Error(resp.Status)
			}
		}
	}
}

// timed asks for what a page asks for, 20 times.
func timed(t *testing.T, url string, paths ...string) string {
	var all []time.Duration
	for range 20 {
		began := time.Now()
		for _, p := range paths {
			if resp, text := do(t, http.DefaultClient, "GET", url+p, "", "Accept-Encoding", "gzip"); resp.StatusCode != http.StatusOK || len(text) < 10 {
				t.Errorf("%s: %s", p, resp.Status)
			}
		}
		all = append(all, time.Since(began))
		time.Sleep(500 * time.Millisecond) // so that the load is spread beside it
	}
	slices.Sort(all)
	return fmt.Sprintf("%d ms, at most %d", all[len(all)/2].Milliseconds(), all[len(all)-1].Milliseconds())
}

// stat is the fields of /proc/PID/stat behind the name.
func stat(pid int) (name string, fields []string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", nil
	}
	head, rest, _ := strings.Cut(string(text), ") ")
	_, name, _ = strings.Cut(head, "(")
	return name, strings.Fields(rest)
}

// ticks adds up fields of proc_pid_stat(5), which are numbered from 1.
func ticks(fields []string, numbers ...int) (d time.Duration) {
	for _, n := range numbers {
		v, _ := strconv.ParseInt(fields[n-3], 10, 64)
		d += time.Duration(v) * 10 * time.Millisecond
	}
	return d
}

func processorTime(t *testing.T, pid int) time.Duration {
	_, fields := stat(pid)
	if fields == nil {
		t.Fatal("the hub has ended")
	}
	return ticks(fields, 14, 15)
}

func residentOf(t *testing.T, pid int) int64 {
	_, fields := stat(pid)
	pages, err := strconv.ParseInt(fields[21], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// postgresTime is the processor time of the database that this test started, with
// those of its processes that have ended.
func postgresTime() (sum time.Duration) {
	own := strconv.Itoa(os.Getpid())
	parents := map[string]bool{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for range 2 {
		sum = 0
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			name, fields := stat(pid)
			if name != "postgres" || fields == nil {
				continue
			}
			switch {
			case fields[1] == own:
				parents[e.Name()] = true
				sum += ticks(fields, 14, 15, 16, 17)
			case parents[fields[1]]:
				sum += ticks(fields, 14, 15)
			}
		}
	}
	return sum
}

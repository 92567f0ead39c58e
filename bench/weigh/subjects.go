package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/deathsig"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/testkit/program"
)

// subject is a program to weigh.
type subject struct {
	name  string
	args  func(env place) []string
	ready *regexp.Regexp // its submatch, if any, is the address or port to load
	// load loads the program until ctx ends; it returns once the program has
	// been under load for a while. nil is an idle program.
	load func(ctx context.Context, env place, address string) error
}

// place is where a subject finds what it needs.
type place struct {
	major string // of the JDK
	java  string
	jars  string
	dir   string // to write to
}

// jar is the path of a jar, of the older version on JDK 8.
func (p place) jar(name, old string) string {
	if p.major == "8" {
		name = old
	}
	return filepath.Join(p.jars, name+".jar")
}

func (p place) h2() string { return p.jar("h2-2.3.232", "h2-2.2.224") }

func (p place) wireMock() string {
	return p.jar("wiremock-standalone-3.13.1", "wiremock-jre8-standalone-2.35.2")
}

var subjects = []subject{
	{
		name:  "memory filler, 1000 threads",
		args:  fixed("-Xmx512m", "-jar", "bin/workloads.jar", "memory-filler", "1000", "100", "100"),
		ready: regexp.MustCompile(`^ready()$`),
	},
	{
		name:  "sysinfo under load",
		args:  fixed("-Xmx128m", "-jar", "bin/sysinfo.jar", "--port", "0"),
		ready: regexp.MustCompile(`listening on 127\.0\.0\.1:(\d+)`),
		load:  requests("/sys-summary", "/work?alloc-kib=256"),
	},
	{
		name: "WireMock under load",
		args: func(p place) []string {
			return []string{"-Xmx256m", "-jar", p.wireMock(), "--port", "0", "--bind-address", "127.0.0.1", "--no-request-journal", "--root-dir", p.dir}
		},
		ready: regexp.MustCompile(`^port:\s+(\d+)`),
		load:  requests("/hello", "/__admin/mappings"),
	},
	{
		name: "H2 server under queries",
		args: func(p place) []string {
			return []string{"-Xmx256m", "-cp", p.h2(), "org.h2.tools.Server", "-tcp", "-tcpPort", "0", "-ifNotExists", "-baseDir", p.dir}
		},
		ready: regexp.MustCompile(`^TCP server running at tcp://[^:]+:(\d+)`),
		load:  queries,
	},
}

func fixed(args ...string) func(place) []string {
	return func(place) []string { return args }
}

// warmUp is how long a program is under load before it is weighed.
const warmUp = 5 * time.Second

// requests loads a service with some paths in turn.
func requests(paths ...string) func(context.Context, place, string) error {
	return func(ctx context.Context, _ place, port string) error {
		var targets []load.Target
		for _, path := range paths {
			t, err := load.ParseTarget("http://127.0.0.1:" + port + path)
			if err != nil {
				return err
			}
			targets = append(targets, t)
		}
		plan := load.Plan{Targets: targets, Concurrency: 8, Rate: 500, Duration: warmUp, Timeout: 10 * time.Second}
		if _, err := load.Run(ctx, plan); err != nil {
			return err
		}
		plan.Duration = 10 * time.Minute
		go func() { _, _ = load.Run(ctx, plan) }() // ends with ctx
		return nil
	}
}

// stub is an answer for WireMock, found below its root folder.
const stub = `{"request": {"method": "GET", "url": "/hello"}, "response": {"status": 200, "body": "hello"}}`

// prepare writes what the programs read.
func (p place) prepare() error {
	dir := filepath.Join(p.dir, "mappings")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "hello.json"), []byte(stub), 0o644)
}

const (
	table = "CREATE TABLE item(id INT PRIMARY KEY, name VARCHAR, n INT);\n" +
		"INSERT INTO item SELECT x, 'item ' || x, MOD(x * 7919, 1000) FROM SYSTEM_RANGE(1, 50000);\n" +
		"CREATE INDEX item_n ON item(n);\nSELECT 'filled';\n"
	query = "SELECT n, COUNT(*), MAX(name) FROM item WHERE n < %d GROUP BY n ORDER BY 2 DESC LIMIT 5;\n" +
		"UPDATE item SET n = MOD(n + 1, 1000) WHERE id BETWEEN %d AND %[2]d + 100;\n"
	maxQueries = 1 << 20
)

// queries has H2's own shell fill a table of a database in memory, and then ask
// without an end. The shell prints a line for each answer.
func queries(ctx context.Context, p place, port string) error {
	shell := exec.CommandContext(ctx, p.java, "-Xmx64m", "-cp", p.h2(), "org.h2.tools.Shell", "-user", "sa", "-password", "",
		"-url", "jdbc:h2:tcp://127.0.0.1:"+port+"/mem:bench;DB_CLOSE_DELAY=-1")
	in, w := io.Pipe()
	shell.Stdin = in
	answered := make(chan struct{}, 1)
	shell.Stdout = writer(func(text []byte) {
		if strings.Contains(string(text), "5 rows") {
			select {
			case answered <- struct{}{}:
			default:
			}
		}
	})
	if err := deathsig.Start(shell, syscall.SIGKILL); err != nil {
		return err
	}
	go func() { _ = shell.Wait(); in.Close() }() // ends with ctx
	go func() {
		_, err := io.WriteString(w, table)
		for i := 0; i < maxQueries && err == nil; i++ {
			_, err = fmt.Fprintf(w, query, 1+i%1000, i%49000)
		}
	}()
	late, enough := time.After(program.StartTimeout), time.After(warmUp)
	for queries := 0; ; queries++ {
		select {
		case <-answered:
			select {
			case <-enough:
				return nil
			default:
			}
		case <-late:
			return fmt.Errorf("H2 answered %d queries within %s", queries, program.StartTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

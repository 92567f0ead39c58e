package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
	"tare.dev/tare/internal/trial"
)

func TestFitRefusesBadInput(t *testing.T) {
	jar := jvmtest.Jar(t, "workloads.jar")
	tests := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no command", nil, exitUsage, "fit takes a command after --"},
		{"no java", []string{"--ready", "tcp:80", "--", "/nowhere/start.sh"}, exitUsage, "no such program: exec: \"/nowhere/start.sh\""},
		{"an option first", []string{"--ready", "tcp:80", "--", "-jar", "app.jar"}, exitUsage, "no such program"},
		{"a script in a profile", []string{"--ready", "tcp:80", "--profile", "tare.json", "--", "/bin/true"}, exitUsage, "--profile tare.json: tare exec starts java commands, and /bin/true is none"},
		{"parallel here", []string{"--ready", "tcp:80", "--parallel", "2", "--", "java", "-jar", jar}, exitUsage, "--parallel: trials beside each other on one machine disturb each other"},
		{"parallel on none", []string{"--ready", "tcp:80", "--parallel", "0", "--", "java", "-jar", jar}, exitUsage, "--parallel 0: give 1 to 16"},
		{"no such launcher", []string{"--ready", "tcp:80", "--", "/nowhere/java", "-jar", jar}, exitUsage, "install a JDK"},
		{"missing jar", []string{"--ready", "tcp:80", "--", "java", "-jar", "missing.jar"}, exitUsage, "no such jar: missing.jar"},
		{"no main class", []string{"--ready", "tcp:80", "--", "java", "-Xmx1g"}, exitUsage, "names no jar, module or main class"},
		{"SLO", []string{"--ready", "tcp:80", "--slo", "p99>1s", "--", "java", "-jar", jar}, exitUsage, `SLO clause "p99>1s": p99 takes < or <=`},
		{"SLO without load", []string{"--ready", "tcp:80", "--slo", "p99<1s", "--", "java", "-jar", jar}, exitUsage, "give --load"},
		{"job with load", []string{"--job", "--load", "http://127.0.0.1/", "--", "java", "-jar", jar}, exitUsage, "--load is for services"},
		{"job's SLO", []string{"--job", "--slo", "p99<1s", "--", "java", "-jar", jar}, exitUsage, "time is what a job is measured by"},
		{"time of a service", []string{"--ready", "tcp:80", "--slo", "time<1s", "--", "java", "-jar", jar}, exitUsage, "time is what a job is measured by"},
		{"preference", []string{"--ready", "tcp:80", "--prefer", "speed", "--", "java", "-jar", jar}, exitUsage, "--prefer \"speed\" is none of memory, balanced and throughput"},
		{"no readiness", []string{"--", "java", "-jar", jar}, exitUsage, "when is the application ready?"},
		{"readiness", []string{"--ready", "tcp:x", "--", "java", "-jar", jar}, exitUsage, "no port from 1 to 65535"},
		{"load", []string{"--load", "example.com", "--", "java", "-jar", jar}, exitUsage, "http"},
		{"load file", []string{"--load", "@missing.http", "--", "java", "-jar", jar}, exitUsage, "missing.http"},
		{"requests of a load command", []string{"--ready", "tcp:80", "--requests", "100", "--load-command", "wrk http://h/", "--", "java", "-jar", jar}, exitUsage, "--requests needs --load"},
		{"requests and a warm-up", []string{"--load", "http://127.0.0.1/", "--requests", "100", "--warmup", "1s", "--", "java", "-jar", jar}, exitUsage, "leave out --warmup"},
		{"requests", []string{"--load", "http://127.0.0.1/", "--requests", "-1", "--", "java", "-jar", jar}, exitUsage, "--requests -1: give up to"},
		{"load command without quantiles", []string{"--ready", "tcp:80", "--slo", "p99<1s", "--load-command", "wrk http://h/", "--", "java", "-jar", jar}, exitUsage, `SLO clause "p99<1s" looks at p99, and wrk does not tell it (it tells requests, failed requests, mean, max)`},
		{"load command with an exit status", []string{"--ready", "tcp:80", "--load-command", "true", "--load-output", "status", "--", "java", "-jar", jar}, exitUsage, `SLO clause "cost<=1.1x" looks at requests, and status does not tell it`},
		{"load command's output", []string{"--ready", "tcp:80", "--load-command", "oha http://h/", "--", "java", "-jar", jar}, exitUsage, "add --no-tui --output-format json"},
		{"load output", []string{"--ready", "tcp:80", "--load-command", "true", "--load-output", "x", "--", "java", "-jar", jar}, exitUsage, `load output "x": give one of hey, k6, line, oha, status, wrk`},
		{"load time", []string{"--ready", "tcp:80", "--load-command", "true", "--load-timeout", "-1s", "--", "java", "-jar", jar}, exitUsage, "--load-timeout -1s"},
		{"size", []string{"--ready", "tcp:80", "--ample", "2x", "--", "java", "-jar", jar}, exitUsage, `"2x" is no size`},
		{"too small", []string{"--ready", "tcp:80", "--ample", "1m", "--", "java", "-jar", jar}, exitUsage, "no JVM starts in less"},
		{"too large", []string{"--ready", "tcp:80", "--ample", "900000g", "--", "java", "-jar", jar}, exitUsage, "are available where the trials run"},
		{"env", []string{"--ready", "tcp:80", "--env", "X", "--", "java", "-jar", jar}, exitUsage, "NAME=VALUE"},
		{"flag", []string{"--nope", "--", "java", "-jar", jar}, exitUsage, "unknown flag: --nope"},
		{"CPUs", []string{"--cpus", "NaN", "--ready", "tcp:80", "--", "java", "-jar", jar}, exitUsage, "--cpus NaN"},
		{"confirmations", []string{"--confirmations", "0", "--ready", "tcp:80", "--", "java", "-jar", jar}, exitUsage, "--confirmations 0"},
		{"trials", []string{"--trials", "2", "--ready", "tcp:80", "--", "java", "-jar", jar}, exitUsage, "--trials 2: give more than the 2 baselines"},
		{"budget", []string{"--budget", "-1s", "--ready", "tcp:80", "--", "java", "-jar", jar}, exitUsage, "--budget -1s"},
		{"own lever", []string{"--lever", "a: words", "--ready", "tcp:80", "--", "java", "-jar", jar}, exitUsage, "--lever \"a: words\": \"words\" is neither an option"},
		{"own lever in a profile", []string{"--lever", "a: -Da=b", "--profile", "tare.json", "--ready", "tcp:80", "--", "java", "-jar", jar}, exitUsage, "--profile holds nothing but"},
		{"levers", []string{"--levers", "c1,-c3", "--ready", "tcp:80", "--", "java", "-jar", jar}, exitUsage, "--levers \"-c3\" is no lever: there are collector, "},
		{"margin", []string{"--margin", "5", "--ready", "tcp:80", "--", "java", "-jar", jar}, exitUsage, "--margin \"5\" is no percentage"},
		{"allow", []string{"--allow", "all", "--ready", "tcp:80", "--", "java", "-jar", jar}, exitUsage, "--allow \"all\" is neither diagnostic nor experimental nor framework"},
		{"profile", []string{"--ready", "tcp:80", "--profile", "/nowhere/tare.json", "--", "java", "-jar", jar}, exitUsage, "--profile /nowhere/tare.json"},
		{"no cgroup", []string{"--ready", "tcp:80", "--cgroup-parent", "/does/not/exist", "--", "java", "-jar", jar}, exitPermission, "/does/not/exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := fitRun(t.Context(), tt.args)
			if code != tt.code || !strings.Contains(stderr, tt.want) || stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q; stderr %q, want %q", code, tt.code, stdout, stderr, tt.want)
			}
			if !strings.HasPrefix(stderr, "tare: ") {
				t.Errorf("stderr %q", stderr)
			}
		})
	}
}

func TestFitTellsWhatTheApplicationDid(t *testing.T) {
	alone.Measures(t, "trials")
	workloads, sysinfo := jvmtest.Jar(t, "workloads.jar"), jvmtest.Jar(t, "sysinfo.jar")
	java := jvmtest.Java(t, 17)
	port := strconv.Itoa(jvmtest.FreePort(t))
	url := "http://127.0.0.1:" + port

	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, busyPort, _ := net.SplitHostPort(busy.Addr().String())

	tests := []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"port in use", []string{"--ready", "tcp:" + busyPort, "--", java, "-jar", workloads, "verdict", "ok", busyPort}, exitNotReady,
			[]string{"port " + busyPort + " is already in use by process " + strconv.Itoa(os.Getpid())}},
		{"ends before it is ready", []string{"--ready", "tcp:" + port, "--", java, "-jar", workloads, "verdict", "crash", port, "0"}, exitNotReady,
			[]string{"fails, crashed", "exit code 7", "its last lines:", "| fatal: crashed at start"}},
		{"never ready", []string{"--ready", "tcp:" + port, "--ready-timeout", "3s", "--", java, "-jar", workloads, "verdict", "never-ready", port}, exitNotReady,
			[]string{"never-ready", "not ready after 3s", "| not listening, by design"}},
		{"no such page", []string{"--ready", url + "/health", "--load", url + "/nowhere", "--", java, "-jar", sysinfo, "--port", port}, exitUsage,
			[]string{"/nowhere answers 404 Not Found: check the URL"}},
		{"a limit that no JVM starts in", []string{"--ready", "tcp:" + port, "--ready-timeout", "10s", "--ample", "16m", "--", java, "-jar", sysinfo, "--port", port}, 0,
			[]string{"with ample memory (16 MiB) the application fails, "}},
		{"an SLO that the baseline breaks", []string{"--load", url + "/", "--warmup", "0", "--duration", "1s", "--slo", "p50<1ms", "--", java, "-jar", workloads, "verdict", "slow", port, "50"},
			exitNoLimit, []string{"too-slow", "p50 is 5", "relax --slo"}},
		{"a heap that is too small", []string{"--load", url + "/", "--warmup", "0", "--duration", "1s", "--slo", "p50<1us", "--", java, "-Xmx32m", "-jar", workloads, "verdict", "thrash", port, "90", "1000"},
			exitNoLimit, []string{"thrashing", "its heap may become 32 MiB by -Xmx32m (command line): set a larger one"}},
		{"too little memory for its heap", []string{"--ample", "128m", "--load", url + "/", "--warmup", "0", "--duration", "1s", "--slo", "p50<1us", "--", java, "-jar", workloads, "verdict", "thrash", port, "90", "1000"},
			exitNoLimit, []string{"thrashing", "its heap may become 64 MiB of that: raise --ample"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := fitRun(t.Context(), tt.args)
			if code == exitOK || tt.code != 0 && code != tt.code || stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", code, tt.code, stdout)
			}
			for _, w := range tt.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("stderr lacks %q: %s", w, stderr)
				}
			}
		})
	}
	nothingLeft(t)
}

// An application that answers with errors has said why in its log.
func TestFitOfErrors(t *testing.T) {
	failed := fit.Trial{Attempt: fit.Attempt{LimitBytes: 2 << 30}, Outcome: fit.Outcome{Verdict: trial.Errors,
		Measured: trial.Measured{Start: time.Second}, Result: &trial.Result{Evidence: []string{"errors is 3, wanted = 0"}, Log: []string{"no connection\x1b"}}}}
	err := baselineError(&fit.BaselineError{Trial: failed})
	if want := "with ample memory (2048 MiB) the application fails, errors: errors is 3, wanted = 0\nits last lines:\n  | no connection\uFFFD\nmend what fails, or relax --slo, or the load"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestFitInterrupted(t *testing.T) {
	alone.Uses(t, "a JVM")
	port := jvmtest.FreePort(t)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		code, _, stderr := fitRun(ctx, []string{"--load", "http://" + addr + "/", "--duration", "10m", "--",
			jvmtest.Java(t, 17), "-jar", jvmtest.Jar(t, "workloads.jar"), "verdict", "ok", strconv.Itoa(port)})
		ended <- fmt.Sprint(code, " ", stderr)
	}()
	polltest.Until(t, "an answer from "+addr, func() bool { return answers(addr) })
	cancel()
	select {
	case got := <-ended:
		if !strings.HasPrefix(got, strconv.Itoa(exitInterrupted)+" ") || !strings.Contains(got, "interrupted") {
			t.Errorf("got %s", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("does not end")
	}
	if answers(addr) {
		t.Error("the application is left running")
	}
	nothingLeft(t)
}

// Without levers it finds the smallest limit of what runs already.
func TestFitWithoutLevers(t *testing.T) {
	alone.Measures(t, "trials")
	port := strconv.Itoa(jvmtest.FreePort(t))
	url := "http://127.0.0.1:" + port
	code, stdout, stderr := fitRun(t.Context(), []string{"--json", "--store", "none", "--levers", "none", "--proof", "short", "--ample", "512m", "--warmup", "0", "--duration", "1s", "--concurrency", "1", "--slo", "errors=0",
		"--baselines", "1", "--trials", "5", "--confirmations", "1", "--ready", url + "/health", "--load", url + "/sys-summary",
		"--", jvmtest.Java(t, 17), "-Xmx32m", "-jar", jvmtest.Jar(t, "sysinfo.jar"), "--port", port})
	var got report.FitJSON
	if err := json.Unmarshal([]byte(stdout), &got); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if got.LimitBytes == nil || *got.LimitBytes >= 512<<20 || len(got.Options)+len(got.Env)+len(got.Levers) > 0 || len(got.Confirmations) != 1 {
		t.Errorf("%s", stdout)
	}
}

// The whole of fit on the demo service.
// A JVM that the application starts is the one that is fitted, and has its options by a variable.
func TestFitOfAnotherJVM(t *testing.T) {
	alone.Measures(t, "trials")
	out := t.TempDir()
	port := strconv.Itoa(jvmtest.FreePort(t))
	code, stdout, stderr := fitRun(t.Context(), []string{"--json", "--out", out, "--warmup", "1s", "--duration", "1s", "--concurrency", "4", "--slo", "errors=0 throughput>=0.3x",
		"--baselines", "1", "--trials", "8", "--confirmations", "1", "--proof", "short", "--ample", "512m", "--levers", "none", "--lever", "mine: -XX:ReservedCodeCacheSize=64m",
		"--ready", "tcp:" + port, "--load", "http://127.0.0.1:" + port + "/",
		"--", jvmtest.Java(t, 25), "-Xmx16m", "-jar", jvmtest.Jar(t, "workloads.jar"), "verdict", "child-thrash", port, "70", "64"})
	if code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	var got report.FitJSON
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.LimitBytes == nil || got.Peak == nil {
		t.Fatalf("no answer: %s", stderr)
	}
	if !got.ByVariable || !slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.Contains(w, "starts another JVM") }) {
		t.Errorf("by variable %v: %q", got.ByVariable, got.Warnings)
	}
	if others := got.Peak.Cgroup.OthersBytes(); others < 16<<20 {
		t.Errorf("the JVM that was started has %d bytes", others)
	}
	seen := map[bool]string{}
	for _, tr := range got.Trials {
		var f footprint.Footprint
		text, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("trial-%03d-end.json", tr.Trial)))
		if err == nil {
			err = json.Unmarshal(text, &f)
		}
		if err == nil { // it lived until then
			seen[len(tr.Options) > 0] = f.Flags["ReservedCodeCacheSize"]
			if f.Flags["MaxHeapSize"] != strconv.Itoa(64<<20) {
				t.Errorf("trial %d weighs %s with a heap of %s", tr.Trial, f.Name, f.Flags["MaxHeapSize"])
			}
		}
	}
	if seen[true] != strconv.Itoa(64<<20) || seen[false] == seen[true] {
		t.Errorf("code caches with and without the lever: %v\n%+v\n%s", seen, got.Levers, stderr)
	}
	nothingLeft(t)
}

// A script of this machine starts the JVM: options go to it by JAVA_TOOL_OPTIONS, and it is the
// one that is weighed. One that starts none is refused after its first run, and so is one that
// starts another JDK's than the environment tells.
func TestFitOfAScript(t *testing.T) {
	alone.Measures(t, "trials")
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"Job.java": "public class Job { public static void main(String[] args) { System.out.println(\"done\"); } }",
		"job.sh":   "#!/bin/sh\n" + jvmtest.Java(t, 25) + " -Xmx48m Job.java\nexit $?\n",
		"none.sh":  "#!/bin/sh\nexit 0\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	job := func(script string, jdk int) (code int, stdout, stderr string) {
		return fitRun(t.Context(), []string{"--json", "--job", "--slo", "time<=3x", "--baselines", "1", "--trials", "6", "--confirmations", "1", "--proof", "short", "--ample", "512m",
			"--levers", "none", "--lever", "mine: -XX:ReservedCodeCacheSize=64m", "--env", "JAVA_HOME=" + jvmtest.Home(t, jdk), "--", script})
	}
	code, stdout, stderr := job("./job.sh", 25)
	var got report.FitJSON
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || got.LimitBytes == nil || got.Peak == nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if flags := got.Peak.Flags; !got.ByVariable || flags["MaxHeapSize"] != strconv.Itoa(48<<20) {
		t.Errorf("by variable %v, flags %v", got.ByVariable, flags)
	}
	tried := false
	for _, tr := range got.Trials {
		tried = tried || len(tr.Options) > 0 && tr.Verdict == trial.Passed
	}
	if !tried {
		t.Errorf("options were not tried: %s", stderr)
	}
	for script, want := range map[string]string{"./job.sh": "(JDK 25.", "./none.sh": "the command has started no JVM that could be seen: give one that does"} {
		code, _, stderr := job(script, 17)
		if code != exitUsage || !strings.Contains(stderr, want) || strings.Contains(stderr, "--resume") || strings.Count(stderr, "baseline:") != 1 {
			t.Errorf("%s: exit code %d: %s", script, code, stderr)
		}
	}
	nothingLeft(t)
}

func TestFitSysinfo(t *testing.T) {
	alone.Measures(t, "trials")
	out := filepath.Join(t.TempDir(), "out")
	proven := filepath.Join(filepath.Dir(out), "tare.json")
	port := strconv.Itoa(jvmtest.FreePort(t))
	url := "http://127.0.0.1:" + port
	code, stdout, stderr := fitRun(t.Context(), []string{"--json", "--out", out, "--profile", proven, "--warmup", "1s", "--duration", "2s", "--concurrency", "8", "--slo", "errors=0",
		"--baselines", "1", "--trials", "9", "--confirmations", "2", "--ready", url + "/health", "--load", url + "/sys-summary", "--load", url + "/work?alloc-kib=64&cpu-us=200",
		"--", jvmtest.Java(t, 17), "-jar", jvmtest.Jar(t, "sysinfo.jar"), "--port", port})
	t.Log(stderr)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var got report.FitJSON
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil || string(kept) != stdout {
		t.Errorf("result.json is another than stdout, or %v", err)
	}
	if got.Schema != report.FitSchema || got.LimitBytes == nil || got.AsGiven == nil || got.Baseline == nil || got.Peak == nil {
		t.Fatalf("incomplete: %s", stdout)
	}
	if *got.LimitBytes >= got.AsGiven.LimitBytes || len(got.Options) == 0 {
		t.Errorf("%d bytes recommended, %d as given, with %q", *got.LimitBytes, got.AsGiven.LimitBytes, got.Options)
	}
	checkLevers(t, got)
	sized := slices.ContainsFunc(got.Options, func(o string) bool { return strings.HasPrefix(o, "-Xmx") })
	if sized != (got.Need != nil) || sized && (got.Need.Samples == 0 || got.Need.MeanBytes > *got.LimitBytes) || got.LongTrial == 0 || got.HalfTrial == 0 {
		t.Errorf("need %+v, long run %d, half the processors %d", got.Need, got.LongTrial, got.HalfTrial)
	}
	if len(got.Confirmations) != 2 {
		t.Errorf("%d confirmations", len(got.Confirmations))
	}
	for _, c := range got.Confirmations {
		if c.Verdict != "passed" || c.LimitBytes != *got.LimitBytes || c.PeakBytes > c.LimitBytes {
			t.Errorf("confirmation %+v", c)
		}
	}
	for _, tr := range got.Trials {
		log, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("trial-%03d.log", tr.Trial)))
		if err != nil || tr.Verdict == "passed" && len(log) == 0 {
			t.Errorf("log of trial %d: %d bytes, %v", tr.Trial, len(log), err)
		}
		if tr.Verdict != "passed" && len(tr.Evidence) == 0 {
			t.Errorf("trial %d is %s without evidence", tr.Trial, tr.Verdict)
		}
	}
	if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !strings.Contains(string(page), "fits in "+report.Limit(*got.LimitBytes)) {
		t.Errorf("report.html: %v", err)
	}
	storedAlike(t, stdout)
	if got.Archive != nil {
		if _, err := os.Stat(got.Archive.File); err != nil {
			t.Errorf("the recommended archive: %v", err)
		}
	}
	nothingLeft(t)
	startsProven(t, proven, got)
}

// checkLevers checks that few trials were made, that the rows decided which, and
// that failure was shown.
func checkLevers(t *testing.T, got report.FitJSON) {
	t.Helper()
	before, below := 0, 0
	for _, tr := range got.Trials {
		switch tr.Phase {
		case string(fit.PhaseBelow):
			below++
			if tr.LimitBytes > *got.LimitBytes*9/10 {
				t.Errorf("%d bytes are not below", tr.LimitBytes)
			}
		case string(fit.PhaseConfirm), string(fit.PhaseLong), string(fit.PhaseHalf):
		default:
			before++
		}
	}
	if before > 9 || below != 1 {
		t.Errorf("%d trials before the confirmations, %d below", before, below)
	}
	for _, l := range got.Levers {
		if l.ID == "stacks" && (l.BoundBytes == nil || l.Trial > 0 || !strings.HasPrefix(l.Reason, "could save at most")) {
			t.Errorf("thread stacks: %+v", l)
		}
		if l.Kept && (l.Trial == 0 || l.BoundBytes == nil || *l.BoundBytes <= 0) {
			t.Errorf("%s is kept: %+v", l.ID, l)
		}
	}
}

// storedAlike checks that the newest stored fit is the one that was just
// written as JSON.
func storedAlike(t *testing.T, want string) {
	t.Helper()
	_, stdout, stderr := fitRun(t.Context(), []string{"list", "--json"})
	var fits report.FitListJSON
	if err := json.Unmarshal([]byte(stdout), &fits); err != nil || len(fits.Fits) == 0 {
		t.Fatalf("list: %v, %s", err, stderr)
	}
	id := fmt.Sprint(fits.Fits[0].ID)
	code, got, stderr := fitRun(t.Context(), []string{"show", id, "--json"})
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Errorf("show: line %d is %s, was %s", i+1, gotLines[i], wantLines[i])
			break
		}
	}
	if code != exitOK || len(gotLines) != len(wantLines) {
		t.Errorf("show: exit code %d, %s, %d lines, were %d", code, stderr, len(gotLines), len(wantLines))
	}
	if code, got, stderr := fitRun(t.Context(), []string{"show", id}); code != exitOK || !strings.Contains(got, "is enough (as given it needs") {
		t.Errorf("show: exit code %d, %s, %s", code, got, stderr)
	}
	if code, _, stderr := fitRun(t.Context(), []string{"--resume", id}); code != exitUsage || !strings.Contains(stderr, "has ended") {
		t.Errorf("a fit that has ended goes on: exit code %d, %s", code, stderr)
	}
}

// fitRun runs tare fit.
func fitRun(ctx context.Context, args []string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, append([]string{"fit"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// nothingLeft fails when a group of an ended trial is still there.
func nothingLeft(t *testing.T) {
	t.Helper()
	r, err := runner.NewCgroup(runner.CgroupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	if left, err := r.Sweep(context.Background()); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func answers(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare.dev/tare/internal/serve"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

func TestServeUsage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "serve.yaml")
	for text, want := range map[string]string{
		"listen: 0.0.0.0:1":                           "beyond this machine",
		"lisen: 127.0.0.1:1":                          "lisen",
		"tls: {certificate: x.pem}":                   "give both",
		"metricsJvms: many":                           "metricsJvms",
		"agent: {of: true}":                           "of",
		"listen: nowhere":                             "is no address",
		"metricsJvms: -4":                             "from 1 to 100000",
		"a: &a [*a]":                                  "",
		"tls: {certificate: /nowhere, key: /nowhere}": "tls",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"serve", "check", file}, {"serve", "--config", file, "--history", filepath.Join(dir, "h.db")}} {
			if code, _, errs := tareRun(t, args...); code != exitUsage || !strings.Contains(errs, want) {
				t.Errorf("%s: %d, %s", text, code, errs)
			}
		}
	}
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:9275\nagent:\n  budget: 2%\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := tareRun(t, "serve", "check", file); code != exitOK || out != file+" is right\n" {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	if code, out, _ := tareRun(t, "serve", "check", "--schema"); code != exitOK || out != serve.SettingsSchema {
		t.Errorf("%d, %s", code, out)
	}
	for _, c := range []struct{ args, want string }{
		{"serve --listen 0.0.0.0:1", "beyond this machine"}, {"serve --tls-cert x", "give both"},
		{"agent --to http://hub:1 --token-file " + file, "not sent in the clear"}, {"agent --to ftp://x --token-file " + file, "no address of a hub"},
		{"agent --to https://hub:1", "--token-file"}, {"agent --ca x", "are for --to"}, {"agent --enrol-file x", "are for --to"}, {"agent --to https://hub:1 --token-file x --name y", "is for --enrol-file"},
		{"agent --to https://hub:1 --token-file " + dir + "/none --enrol-file " + dir + "/none", "no such file"}, {"serve token add x --write --enrol", "one of them"}, {"serve token add x --for 1h", "are for --enrol"},
		{"serve token add x --enrol --for -1h", "less than 0"}, {"agent --to https://hub:1 --token-file " + dir + "/none", "no such file"},
	} {
		if code, _, errs := tareRun(t, strings.Fields(c.args)...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %s", c.args, code, errs)
		}
	}
}

// The whole thing: tare serve alone sees a JVM, weighs it, serves it, and ends with
// its agent on SIGTERM; a second machine sends to it with a token; and what it kept
// can be backed up while it runs.
func TestServe(t *testing.T) {
	service := jvmtest.Start(t, jvmtest.Java(t, 25), "-Xmx64m", "-XX:+UseG1GC", "-jar", jvmtest.Jar(t, "sysinfo.jar"), "--port", "0")
	service.Await(t, "listening on")
	dir := t.TempDir()
	db := filepath.Join(dir, "history.db")
	cmd := tareCommand(t, "serve", "--ledger", filepath.Join(dir, "ledger"), "--history", db, "--listen", "127.0.0.1:0", "--interval", "1s", "--budget", "100%", "--store", filepath.Join(dir, "fits.db"))
	errs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(errs)
	url := ""
	for url == "" && lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "serving at "); ok {
			url, _, _ = strings.Cut(rest, ";")
		}
	}
	rest := make(chan string, 1)
	go func() {
		text := ""
		for lines.Scan() {
			text += lines.Text() + "\n"
		}
		rest <- text
	}()
	awaitFootprint(t, url, service.PID(), "")
	code, token, said := tareRun(t, "serve", "token", "add", "web-2", "--write", "--history", db)
	if code != exitOK {
		t.Fatal(said)
	}
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, said = tareRun(t, "agent", "--to", url, "--token-file", file, "--ledger", filepath.Join(dir, "other"), "--interval", "1s", "--budget", "100%", "--for", "8s")
	if code != exitOK || strings.Contains(said, "hub") {
		t.Errorf("%d, %s", code, said)
	}
	awaitFootprint(t, url, service.PID(), "web-2")
	// A third machine has no token, and one that enrols.
	if code, token, said = tareRun(t, "serve", "token", "add", "fleet", "--enrol", "--machines", "5", "--history", db); code != exitOK {
		t.Fatal(said)
	}
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, said = tareRun(t, "agent", "--to", url, "--token-file", filepath.Join(dir, "own"), "--enrol-file", file, "--name", "web-3", "--ledger", filepath.Join(dir, "third"), "--interval", "1s", "--budget", "100%", "--for", "8s")
	if code != exitOK || strings.Contains(said, "hub") {
		t.Errorf("%d, %s", code, said)
	}
	awaitFootprint(t, url, service.PID(), "web-3")
	if code, out, _ := tareRun(t, "serve", "token", "list", "--history", db); code != exitOK || !strings.Contains(out, "fleet  1 of 5 machines, until ") || !strings.Contains(out, "web-3  enrolled with fleet\n") {
		t.Errorf("%d, %s", code, out)
	}
	copied := filepath.Join(dir, "copy.db")
	if code, _, said := tareRun(t, "serve", "backup", copied, "--history", db); code != exitOK {
		t.Error(said)
	}
	if code, out, _ := tareRun(t, "serve", "token", "list", "--history", copied); code != exitOK || !strings.Contains(out, "web-2") || strings.Contains(out, strings.TrimSpace(token)) {
		t.Errorf("%d, %s", code, out)
	}
	if code, _, said := tareRun(t, "serve", "token", "remove", "web-2", "--history", db); code != exitOK {
		t.Error(said)
	}
	if code, _, _ := tareRun(t, "serve", "token", "remove", "web-2", "--history", db); code == exitOK {
		t.Error("a token is removed twice")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	text := <-rest
	if err := cmd.Wait(); err != nil {
		t.Errorf("tare serve ended with %v: %s", err, text)
	}
	if strings.Contains(text, "tare:") {
		t.Errorf("it says %s", text)
	}
	// Its agent has ended with it: the ledger is free.
	if code, _, said := tareRun(t, "agent", "--ledger", filepath.Join(dir, "ledger"), "--for", "1s"); code != exitOK {
		t.Errorf("%d, %s", code, said)
	}
}

// awaitFootprint waits until a hub has a footprint of a JVM, of a machine unless that
// is "", and checks it.
func awaitFootprint(t *testing.T, url string, pid int, machine string) {
	t.Helper()
	var detail struct {
		Footprint *struct {
			Footprint struct {
				Resident int64
				Owners   []struct{ Resident int64 }
			}
		}
	}
	polltest.UntilNil(t, func() error {
		var list struct {
			Items []struct {
				ID      int64
				PID     int
				Machine string
				JDK     string
			}
		}
		if err := json.Unmarshal([]byte(get(t, url+"/api/v1/jvms?limit=1000&machine="+machine)), &list); err != nil {
			return err
		}
		for _, j := range list.Items {
			if j.PID != pid || j.JDK == "" {
				continue
			}
			if err := json.Unmarshal([]byte(get(t, fmt.Sprintf("%s/api/v1/jvms/%d", url, j.ID))), &detail); err != nil {
				return err
			}
			if detail.Footprint != nil {
				return nil
			}
		}
		return fmt.Errorf("no footprint of process %d among %d JVMs", pid, len(list.Items))
	})
	f := detail.Footprint.Footprint
	sum := int64(0)
	for _, o := range f.Owners {
		sum += o.Resident
	}
	if sum != f.Resident || sum == 0 {
		t.Errorf("the owners add up to %d of %d", sum, f.Resident)
	}
}

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"tare.dev/tare/internal/report"
)

// What a ledger has of a JVM that is gone can be watched, and two moments of it compared.
func TestLedgerOfOneGone(t *testing.T) {
	dir := ledgerOfKill(t)
	code, out, errs := tareRun(t, "watch", "--ledger", dir, "shop.jar")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitOK || errs != "" || len(lines) != 6 || !strings.Contains(lines[0], "shop.jar") || !strings.Contains(lines[4], "160.0   40.0  120.0") || lines[5] != "the JVM has ended" {
		t.Errorf("%d, %s\n%s", code, errs, out)
	}
	if _, out, _ = tareRun(t, "watch", "--ledger", dir, "239", "--count", "1"); strings.Count(out, "\n") != 3 {
		t.Errorf("one footprint: %s", out)
	}
	for _, c := range []struct {
		args string
		a, b int64 // MiB of direct buffers
	}{{"", 10, 120}, {"--from 1s", 60, 120}, {"--to 1s", 10, 60}, {"--from 2s --to 1s", 10, 60}, {"--from 0s", 120, 120}} {
		code, out, errs := tareRun(t, append([]string{"diff", "--json", "--ledger", dir, "shop.jar"}, strings.Fields(c.args)...)...)
		var d report.Diff
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitOK {
			t.Fatalf("%q: %d, %s, %v", c.args, code, errs, err)
		}
		if d.ChangeBytes != (c.b-c.a)<<20 || d.A.RSSBytes != (c.a+40)<<20 || d.A.JDK != "17.0.12" || len(d.Warnings) != 0 {
			t.Errorf("%q: %+v", c.args, d)
		}
		if row := d.Rows[0]; c.a != c.b && (row.Name != "malloc" || row.ChangeBytes != d.ChangeBytes || len(row.Children) != 1 || row.Children[0].Name != "direct buffers") {
			t.Errorf("%q: %+v", c.args, row)
		}
	}
	_, out, _ = tareRun(t, "diff", "--ledger", dir, "shop.jar")
	for _, want := range []string{"the ledger", "direct buffers", "+110.0", "the limit sees", "headroom"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestLedgerMomentsRefused(t *testing.T) {
	dir, none := ledgerOfKill(t), t.TempDir()
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"diff --from 1m a b", "name it with --ledger", exitUsage},
		{"diff --ledger DIR", "takes one JVM", exitUsage},
		{"diff --ledger DIR a b", "takes one JVM", exitUsage},
		{"diff --ledger DIR shop.jar --from yesterday", "is no moment", exitUsage},
		{"diff --ledger DIR shop.jar --from 1h", "no footprint", exitTarget},
		{"diff --ledger DIR nobody", "tare autopsy --since", exitTarget},
		{"diff --ledger NONE shop.jar", "no ledger", exitTarget},
		{"watch --ledger NONE shop.jar", "no ledger", exitTarget},
		{"watch --ledger DIR nobody", "tare autopsy --since", exitTarget},
		{"watch --ledger DIR shop.jar --record x.jsonl", "leave out --record", exitUsage},
		{"watch --ledger DIR", "takes one JVM", exitUsage},
	} {
		args := strings.Fields(strings.NewReplacer("DIR", dir, "NONE", none).Replace(c.args))
		code, out, errs := tareRun(t, args...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") > 2 {
			t.Errorf("%s: exit code %d, want %d: %q %q", c.args, code, c.code, out, errs)
		}
	}
	if _, err := os.Stat("x.jsonl"); err == nil {
		t.Error("a refused watch made its record")
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// ledgerOfKill makes a ledger with a JVM that the log of kernelLog kills: process 239,
// of group /kubepods/pod1/web, of this boot, 15 s after it.
func ledgerOfKill(t *testing.T) (dir string) {
	t.Helper()
	boot, err := linux.NewFS("/proc").BootID()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	w, err := ledger.Create(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	id := ledger.ID{Boot: boot, PID: 239, StartTicks: 1000}
	now := time.Now()
	add := func(second int, r ledger.Record) {
		t.Helper()
		r.Process, r.Uptime, r.At = id, time.Duration(second)*time.Second, now.Add(time.Duration(second-16)*time.Second)
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	add(11, ledger.Record{Start: &ledger.Process{ID: id, PIDs: []int{239, 7}, Name: "/app/shop.jar", Kind: "HotSpot", JDK: "17.0.12", Collector: "Serial", Started: now.Add(-6 * time.Second),
		Group: ledger.Group{Version: 2, Path: "/kubepods/pod1/web", LimitPath: "/kubepods/pod1"}}})
	for second, direct := range []int64{10, 60, 120} {
		add(12+second, ledger.Record{Footprint: &ledger.Footprint{Reason: ledger.Moved, Usage: (direct + 70) << 20, Limit: 200 << 20, Resident: (direct + 40) << 20,
			Owners: []ledger.Owned{{Owner: footprint.JavaHeap, Resident: 40 << 20}, {Owner: footprint.Malloc, Resident: direct << 20, Parts: []ledger.Part{{ID: footprint.PartDirectBuffers, Bytes: direct << 20}}}}}})
	}
	add(16, ledger.Record{Event: &ledger.Event{Kind: ledger.Ended, Values: ledger.ExitValues(0, 9)}})
	return dir
}

func kernelLog(t *testing.T) string {
	return filepath.Join(jvmtest.Root(t), "internal", "kernellog", "testdata", "linux-6.1-v2.kmsg")
}

func TestAutopsy(t *testing.T) {
	dir, log := ledgerOfKill(t), kernelLog(t)
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"both":              {[]string{"239", "--ledger", dir, "--log", log}, []string{"shop.jar was killed by the limit of 200 MiB of a group above its own, the pod's", "certain  a parent's limit", "Direct buffers grew by 110 MiB", "-XX:MaxDirectMemorySize="}},
		"by its name":       {[]string{"shop.jar", "--ledger", dir, "--log", log}, []string{"shop.jar was killed by the limit"}},
		"by its inner id":   {[]string{"7", "--ledger", dir, "--log", log}, []string{"pid 239"}},
		"last":              {[]string{"--last", "--ledger", dir, "--log", log}, []string{"shop.jar was killed by the limit"}},
		"ledger alone":      {[]string{"shop.jar", "--ledger", dir, "--log", "none"}, []string{"SIGKILL", "the kernel's log could not be read"}},
		"log alone":         {[]string{"133", "--ledger", dir, "--log", log}, []string{"java (process 133) was killed by its own limit of 160 MiB", "no ledger has it"}},
		"list":              {[]string{"--since", "1h", "--ledger", dir, "--log", log}, []string{"1 JVM ended in the last 60 m", "parent's limit", "direct +110"}},
		"markdown":          {[]string{"239", "--markdown", "--ledger", dir, "--log", log}, []string{"# shop.jar was killed", "| direct |"}},
		"an hs_err of hers": {[]string{"239", "--ledger", dir, "--log", "none", "--hs-err", filepath.Join(jvmtest.Root(t), "internal", "autopsy", "testdata", "hs_err-fault-17.log")}, []string{"crashed in native code", "Unsafe_PutByte"}},
	} {
		code, out, errs := tareRun(t, append([]string{"autopsy"}, c.args...)...)
		if code != exitOK || errs != "" {
			t.Errorf("%s: %d, %s", name, code, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
		}
	}
}

func TestAutopsyJSON(t *testing.T) {
	_, out, errs := tareRun(t, "autopsy", "239", "--json", "--ledger", ledgerOfKill(t), "--log", kernelLog(t))
	var r autopsy.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Schema != autopsy.Schema || r.Verdict != autopsy.ParentLimit || r.Kill == nil || r.LimitGroup != "/kubepods/pod1" || len(r.Moments) != 3 {
		t.Errorf("%v, %s\n%s", err, errs, out)
	}
	_, out, _ = tareRun(t, "autopsy", "--since", "1h", "--json", "--ledger", ledgerOfKill(t), "--log", "none")
	var all []autopsy.Report
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
}

// The exit codes are those of the help, and each error says what to do.
func TestAutopsyRefuses(t *testing.T) {
	dir, log, none := ledgerOfKill(t), kernelLog(t), t.TempDir()
	newer := t.TempDir()
	if err := os.WriteFile(filepath.Join(newer, "ledger.json"), []byte(`{"format":99,"id":"x","next":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"two names":         {[]string{"a", "b"}, exitUsage, "takes one JVM"},
		"a name and last":   {[]string{"a", "--last"}, exitUsage, "exclude each other"},
		"last and since":    {[]string{"--last", "--since", "1h"}, exitUsage, "exclude each other"},
		"negative":          {[]string{"--since", "-1h"}, exitUsage, "less than 0"},
		"unknown":           {[]string{"nobody", "--ledger", dir, "--log", log}, exitTarget, "tare autopsy --since"},
		"no ledger there":   {[]string{"--ledger", none, "--log", log}, exitTarget, "no ledger"},
		"a newer ledger":    {[]string{"--ledger", newer, "--log", log}, exitFailure, "update tare"},
		"no log there":      {[]string{"--ledger", dir, "--log", none + "/x"}, exitTarget, "no such file"},
		"no hs_err":         {[]string{"--ledger", dir, "--log", log, "--hs-err", log}, exitTarget, "no hs_err file"},
		"no hs_err there":   {[]string{"--ledger", dir, "--log", log, "--hs-err", none + "/x"}, exitTarget, "no such file"},
		"json and markdown": {[]string{"--json", "--markdown"}, exitUsage, "exclude each other"},
	} {
		code, out, errs := tareRun(t, append([]string{"autopsy"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d, want %d: %s%s", name, code, c.code, errs, out)
		}
	}
	t.Setenv("TARE_LEDGER", none)
	if code, _, errs := tareRun(t, "autopsy", "--log", "none"); code != exitTarget || !strings.Contains(errs, "--ledger FOLDER and --log FILE") {
		t.Errorf("neither: %d, %s", code, errs)
	}
}

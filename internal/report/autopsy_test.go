package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/testkit/documenttest"
)

// killedShop is the autopsy of a JVM whose direct buffers grew to its limit.
func killedShop(name string) *autopsy.Report {
	const mib = 1 << 20
	const group = "/kubepods/burstable/pod28fcb1a0-a45c-44e7-b9bf-e3b9360bedba/3e5e5eab87df615f4777e6f7f261a7fb62f4a7ee5bc3e25e3a5b5223ccd368fe"
	start := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	p := ledger.Process{ID: ledger.ID{Boot: "b", PID: 4242, StartTicks: 10_000}, Name: name, JDK: "21.0.5", Collector: "G1", Started: start, Group: ledger.Group{Version: 2, Path: group}}
	p.Container, p.PodUID = ledger.ContainerOf(group)
	in := autopsy.Input{Process: p, LogBoot: "b"}
	add := func(second int, r ledger.Record) {
		r.At, r.Uptime = start.Add(time.Duration(second)*time.Second), time.Duration(100+second)*time.Second
		in.Records = append(in.Records, r)
	}
	for _, m := range []struct{ second, direct int64 }{{10, 12}, {300, 188}, {599, 322}} {
		add(int(m.second), ledger.Record{Footprint: &ledger.Footprint{Usage: (m.direct + 189) * mib, Limit: 512 * mib, Resident: (m.direct + 189) * mib, Heap: &ledger.Heap{Max: 240 * mib, Used: 96 * mib, AfterGC: 70 * mib},
			Owners: []ledger.Owned{{Owner: footprint.JavaHeap, Resident: 98 * mib}, {Owner: footprint.Metaspace, Resident: 61 * mib}, {Owner: footprint.ClassSpace, Resident: 10 * mib}, {Owner: footprint.CodeCache, Resident: 20 * mib},
				{Owner: footprint.Malloc, Resident: m.direct * mib, Parts: []ledger.Part{{ID: footprint.PartDirectBuffers, Bytes: m.direct * mib}}}}}})
	}
	add(600, ledger.Record{Event: &ledger.Event{Kind: ledger.Ended, Values: ledger.ExitValues(0, 9)}})
	in.Log = &kernellog.Events{Lines: 9, Kills: []kernellog.Kill{{Stamp: kernellog.Stamp{Uptime: 700 * time.Second}, Cause: kernellog.GroupLimit, LimitGroup: group, TaskGroup: group, PID: 4242, Name: "java", Usage: 512 * mib, Limit: 512 * mib, Anon: 500 * mib}}}
	return autopsy.Examine(in)
}

func TestAutopsyDocument(t *testing.T) {
	r := killedShop("/app/shop.jar")
	d := Autopsy(r)
	documenttest.Check(t, d)
	var out bytes.Buffer
	if err := document.WriteText(&out, d, document.Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"^shop.jar was killed by its own limit of 512 MiB, not by the machine.\n",
		`Its heap was 40 % used 1.0 s before the end. Direct buffers grew by 310 MiB`,
		`MiB +before +usage +direct +heap +metaspace +code +rest`,
		`\d\d:\d\d:\d\d +1.0 s +511 +322 +98 +61 +20 +10`,
		`limit +512`, `certain  the container's limit`, `kernel log  killed process 4242 \(java\)`, `exit +by SIGKILL`,
		`do  -XX:MaxDirectMemorySize=297m: fails`, `java 21.0.5 G1 · pid 4242`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	fits(t, out.String())
}

// fits checks that what can be broken is no wider than a terminal: the path of a group
// cannot.
func fits(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > document.Width && !strings.Contains(line, "/kubepods/") {
			t.Errorf("%d columns: %s", w, line)
		}
	}
}

func TestAutopsiesDocument(t *testing.T) {
	d := Autopsies([]*autopsy.Report{killedShop("/app/shop.jar"), killedShop("/app/a-service-with-a-very-long-name-0.0.1-SNAPSHOT.jar"), killedShop("evil\x1b[2J\nname")}, "24 h")
	documenttest.Check(t, d)
	var out bytes.Buffer
	if err := document.WriteText(&out, d, document.Style{}); err != nil {
		t.Fatal(err)
	}
	fits(t, out.String())
	if strings.Count(out.String(), "container limit") != 3 || !strings.Contains(out.String(), "direct +310") {
		t.Errorf("%s", out.String())
	}
	documenttest.Check(t, Autopsies(nil, "1 h"))
}

// What a JVM is called does no harm.
func TestAutopsyOfHostileNames(t *testing.T) {
	documenttest.Check(t, Autopsy(killedShop("evil\x1b[2J\nname\u202e `*<script>")))
}

package serve_test

import (
	"flag"
	"fmt"
	"math"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/serve"
	"tare.dev/tare/internal/testkit/browsertest"
	"tare.dev/tare/internal/testkit/historytest"
	"tare.dev/tare/internal/testkit/polltest"
)

// shots is where pictures of the pages go that a person looks at.
var shots = flag.String("serve.shots", "", "folder for pictures of the dashboard")

const hostileName = `<img src=x onerror="document.title='owned'"> '"></a><script>document.title="owned"</script>`

// fleet fills a history with JVMs that were seen for the last hour.
func fleet(t testing.TB, d *history.DB, jvms int) *historytest.Agent {
	t.Helper()
	now := time.Now()
	a := historytest.NewAgent("web-1")
	add := func(at time.Time, r ledger.Record) {
		a.Add(at, r)
	}
	for pid := 1; pid <= jvms; pid++ {
		p := historytest.Process(pid)
		p.Name = fmt.Sprintf("service-%03d.jar", pid)
		if pid == 2 {
			p.Name = hostileName
		}
		add(now.Add(-time.Hour), ledger.Record{Process: p.ID, Start: p})
		if pid%5 == 1 {
			add(now.Add(-time.Hour), ledger.Record{Process: p.ID, Findings: []ledger.Finding{
				{ID: "thread-stacks", Bytes: 12 << 20, Certainty: doctor.Certain, Title: "200 threads of 1 MiB of stack each"},
				{ID: "malloc-arenas", Bytes: 30 << 20, Certainty: doctor.Likely, Title: "glibc keeps 16 arenas"}}})
		}
		steps := 60
		if pid > 20 {
			steps = 12
		}
		for i := range steps {
			if pid == 3 && i >= 50 {
				break // it is killed
			}
			at := now.Add(-time.Hour + time.Duration(i+1)*time.Hour/time.Duration(steps))
			add(at, ledger.Record{Process: p.ID, Counters: counters(pid, i)})
			if pid <= 20 && i%5 == 0 {
				add(at, ledger.Record{Process: p.ID, Footprint: print(counters(pid, i).Resident)})
			}
		}
		if pid%100 == 0 {
			send(t, d, a, now)
		}
	}
	// The third was killed.
	add(now.Add(-10*time.Minute), ledger.Record{Process: historytest.ID(3), Event: &ledger.Event{Kind: ledger.OOMKill, Values: map[string]int64{"before": 0, "after": 1}}})
	add(now.Add(-10*time.Minute), ledger.Record{Process: historytest.ID(3), Event: &ledger.Event{Kind: ledger.Ended}})
	add(now.Add(-10*time.Minute), ledger.Record{Autopsy: &ledger.Autopsy{JVM: historytest.ID(3), Verdict: "container-limit", Confidence: "certain",
		Headline: "service-003.jar was killed by its own limit of 390 MiB", What: "Direct buffers grew by 110 MiB in the 9.0 s before.",
		Evidence: []ledger.Fact{{Source: "kernel log", Text: hostileName}}, Growth: []ledger.Change{{Account: "direct-buffers", From: 10 << 20, To: 120 << 20}},
		Do: []ledger.Step{{Option: "-XX:MaxDirectMemorySize=100m", Text: "fails with an OutOfMemoryError"}}}})
	send(t, d, a, now)
	return a
}

func send(t testing.TB, d *history.DB, a *historytest.Agent, now time.Time) {
	t.Helper()
	b := a.Batch(now)
	for len(b.Records) > 0 {
		part := *b
		part.Records = b.Records[:min(len(b.Records), history.MaxRecords)]
		part.Uptime = 1 << 50 // before, as times here are
		part.Boot = strings.Repeat("1", 8) + historytest.Boot[8:]
		got, err := d.Take(t.Context(), a.Machine, &part, now)
		if err != nil || got.Refused > 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		b.After, b.Records = got.Position, b.Records[len(part.Records):]
	}
}

func counters(pid, i int) *ledger.Counters {
	base := int64(150+pid%7*40) << 20
	needed := base + int64(float64(30<<20)*math.Sin(float64(i)/6+float64(pid))) + int64(i*pid%50)<<18
	return &ledger.Counters{Usage: needed + 40<<20, Reclaimable: 40 << 20, Limit: base + 120<<20, Resident: needed - 10<<20, Threads: 40,
		HeapUsed: needed/3 + int64(i%4)<<23, HeapCommitted: needed / 2, HeapAfterGC: needed / 4, Collections: int64(i / 3)}
}

func print(resident int64) *ledger.Footprint {
	f := &ledger.Footprint{Reason: ledger.Moved, Resident: resident}
	rest := resident
	for i, o := range []footprint.Owner{footprint.ClassSpace, footprint.Metaspace, footprint.CodeCache, footprint.ThreadStacks, footprint.GC, footprint.CDS, footprint.Malloc, footprint.MappedFiles, footprint.JVMOther} {
		part := resident / int64(40-3*i)
		f.Owners = append(f.Owners, ledger.Owned{Owner: o, Resident: part})
		rest -= part
	}
	f.Owners = append(f.Owners, ledger.Owned{Owner: footprint.Unattributed, Resident: 4096}, ledger.Owned{Owner: footprint.JavaHeap, Resident: rest - 4096, Committed: resident})
	return f
}

// start serves a history on the loopback.
func start(t testing.TB, d *history.DB, change func(*serve.Config)) *httptest.Server {
	t.Helper()
	cfg := serve.Config{History: d, Version: "test", Local: true, Say: func(err error) { t.Error(err) }}
	if change != nil {
		change(&cfg)
	}
	s, err := serve.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv
}

// awaitTrue waits until an expression is true in a page.
func awaitTrue(t *testing.T, p *browsertest.Page, expression string) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		var ok bool
		if p.Eval(t, "Boolean("+expression+")", &ok); !ok {
			var text string
			p.Eval(t, "document.body.innerText.slice(0, 800)", &text)
			return fmt.Errorf("%s is not so in: %s; %q", expression, text, p.Problems())
		}
		return nil
	})
}

func shot(t *testing.T, p *browsertest.Page, name string) {
	if *shots != "" {
		p.Screenshot(t, filepath.Join(*shots, name+".png"))
	}
}

const rowCount = `document.querySelectorAll("table.fleet tbody tr").length`

// The dashboard in a real browser: every page and plot is drawn, with a keyboard, on a
// phone, in the dark and on paper, without a word on the console.
func TestDashboard(t *testing.T) {
	b := browsertest.Start(t)
	d := historytest.Open(t, filepath.Join(t.TempDir(), "h.db"))
	a := fleet(t, d, 500)
	srv := start(t, d, nil)
	p := b.Open(t, srv.URL, browsertest.View{Width: 1280, Height: 900})
	awaitTrue(t, p, rowCount+" === 499") // the third has ended
	awaitTrue(t, p, `document.querySelector(".kills li").innerText.includes("service-003.jar")`)
	var sorted bool
	p.Eval(t, `document.querySelectorAll("table.fleet th button")[2].click(), (() => { const v = [...document.querySelectorAll("table.fleet tbody tr")].map(r => parseFloat(r.children[2].innerText)); return v.every((x, i) => i === 0 || x <= v[i-1] + 0.5); })()`, &sorted)
	if !sorted {
		t.Error("the fleet is not sorted by what is needed")
	}
	p.Eval(t, `(() => { const f = document.getElementById("filter"); f.value = "service-01"; f.dispatchEvent(new Event("input")); })()`, nil)
	awaitTrue(t, p, rowCount+" === 10")
	shot(t, p, "fleet")
	legible(t, p)
	// A JVM that begins is there within two intervals, without a reload.
	born := historytest.Process(9999)
	born.Name = "service-01-born.jar"
	a.Add(time.Now(), ledger.Record{Process: born.ID, Start: born})
	a.Add(time.Now(), ledger.Record{Process: born.ID, Counters: counters(1, 1)})
	send(t, d, a, time.Now())
	awaitTrue(t, p, rowCount+" === 11")
	// With the keyboard alone.
	p.Eval(t, `document.querySelector("table.fleet tbody a").focus(), document.activeElement.click()`, nil)
	awaitTrue(t, p, `location.hash.startsWith("#/jvm/")`)
	jvmPages(t, b, srv.URL)
	for _, page := range []string{"#/kills", "#/fits"} {
		p := b.Open(t, srv.URL+"/"+page, browsertest.View{Width: 1280, Height: 700, Dark: page == "#/kills"})
		awaitTrue(t, p, `document.body.dataset.shown === "`+page+`"`)
		shot(t, p, strings.Trim(page, "#/"))
		legible(t, p)
		quiet(t, p)
		if page == "#/kills" {
			awaitTrue(t, p, `document.querySelector("tbody").innerText.includes("killed by its own limit of 390 MiB")`)
		}
	}
	phone := b.Open(t, srv.URL, browsertest.View{Width: 390, Height: 800, Dark: true})
	awaitTrue(t, phone, rowCount+" > 400")
	var wide int
	if phone.Eval(t, "document.documentElement.scrollWidth", &wide); wide > 390 {
		t.Errorf("on a phone the fleet is %d pixels wide", wide)
	}
	phone.Eval(t, `(() => { const f = document.getElementById("filter"); f.value = "service-00"; f.dispatchEvent(new Event("input")); })()`, nil)
	shot(t, phone, "fleet-phone")
	legible(t, phone)
	phone.Look(t, browsertest.View{Width: 800, Height: 1000, Print: true})
	if phone.Eval(t, "document.documentElement.scrollWidth", &wide); wide > 800 {
		t.Errorf("on paper the fleet is %d pixels wide", wide)
	}
	shot(t, phone, "fleet-print")
	legible(t, phone)
	login := b.Open(t, srv.URL+"/login#failed", browsertest.View{Width: 600, Height: 500})
	shot(t, login, "login")
	legible(t, login)
	for _, page := range []*browsertest.Page{p, phone, login} {
		quiet(t, page)
	}
}

func jvmPages(t *testing.T, b *browsertest.Browser, url string) {
	for _, v := range []struct {
		name string
		id   int
		view browsertest.View
	}{{"jvm", 1, browsertest.View{Width: 1280, Height: 1000}}, {"jvm-hostile", 2, browsertest.View{Width: 1280, Height: 1000}},
		{"jvm-killed", 3, browsertest.View{Width: 1280, Height: 1000, Dark: true}}, {"jvm-phone", 5, browsertest.View{Width: 390, Height: 900}}} {
		p := b.Open(t, fmt.Sprintf("%s/#/jvm/%d", url, v.id), v.view)
		awaitTrue(t, p, `document.querySelectorAll(".plot canvas").length === 2`)
		awaitTrue(t, p, drawn)
		awaitTrue(t, p, `document.querySelectorAll(".moments tbody tr").length === 12`)
		awaitTrue(t, p, fmt.Sprintf(`document.querySelector(".why").hidden === %t`, v.id != 3))
		if v.id == 3 {
			awaitTrue(t, p, `["killed by its own limit of 390 MiB", "direct buffers +110", "kernel log", "-XX:MaxDirectMemorySize=100m"].every(s => document.querySelector(".why").innerText.includes(s))`)
		}
		shot(t, p, v.name)
		legible(t, p)
		var wide int
		if p.Eval(t, "document.documentElement.scrollWidth", &wide); wide > v.view.Width {
			t.Errorf("%s is %d pixels wide", v.name, wide)
		}
		// Two moments are compared, and what is drawn agrees with its sum.
		var sums bool
		p.Eval(t, `(() => { const s = document.querySelector(".moments input"); s.value = 3; s.dispatchEvent(new Event("input"));
			const rows = [...document.querySelectorAll(".moments tbody tr")].map(r => parseFloat(r.children[1].innerText)); const total = rows.pop();
			return Math.abs(rows.reduce((a, b) => a + b, 0) - total) < 1.5; })()`, &sums)
		if !sums {
			t.Errorf("%s: the owners do not add up", v.name)
		}
		// A part is looked at closer, and left again.
		p.Eval(t, `(async () => { const o = document.querySelector(".u-over"), r = o.getBoundingClientRect();
			for (const [type, x] of [["mousemove", 0.4], ["mousedown", 0.4], ["mousemove", 0.5], ["mousemove", 0.8], ["mouseup", 0.8]]) {
				(type === "mouseup" ? document : o).dispatchEvent(new MouseEvent(type, {clientX: r.left + x * r.width, clientY: r.top + 50, bubbles: true, button: 0, movementX: 5}));
				await new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)));
			} })()`, nil)
		awaitTrue(t, p, `[...document.querySelectorAll(".tools button")].some(b => b.textContent === "Zoom out" && !b.disabled)`)
		awaitTrue(t, p, drawn)
		p.Eval(t, `dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}))`, nil)
		awaitTrue(t, p, `[...document.querySelectorAll(".tools button")].some(b => b.textContent === "Zoom out" && b.disabled)`)
		var title string
		if p.Eval(t, "document.title", &title); title != "tare" {
			t.Errorf("a JVM's name ran as a program: %q", title)
		}
		quiet(t, p)
	}
}

// drawn says that every canvas has more than one colour.
const drawn = `[...document.querySelectorAll(".plot canvas")].every(c => { const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i+3] > 100) seen.add(d[i] << 16 | d[i+1] << 8 | d[i+2]); return seen.size > 3; })`

// faint lists the texts of a page whose contrast is below 4.5 (WCAG 2.2, 1.4.3).
const faint = `(() => {
	const rgb = c => c.match(/[\d.]+/g).map(Number), linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
	const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
	const bad = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; n = walk.nextNode();) {
		const e = n.parentElement;
		if (!n.data.trim() || e.disabled || e.closest("svg, script, noscript, .skip") || !e.getClientRects().length) continue;
		const a = light(rgb(getComputedStyle(e).color)), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + n.data.slice(0, 30));
	}
	return [...bad];
})()`

// legible checks the contrast of a page.
func legible(t *testing.T, p *browsertest.Page) {
	t.Helper()
	var bad []string
	if p.Eval(t, faint, &bad); len(bad) > 0 {
		t.Errorf("too faint: %q", bad)
	}
}

func quiet(t *testing.T, p *browsertest.Page) {
	t.Helper()
	for _, problem := range p.Problems() {
		if !strings.Contains(problem, `"canceled":true`) { // a request of a page that was left
			t.Error(problem)
		}
	}
}

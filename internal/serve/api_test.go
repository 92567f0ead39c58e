package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/serve"
	"tare.dev/tare/internal/store"
	"tare.dev/tare/internal/testkit/historytest"
	"tare.dev/tare/internal/testkit/schematest"
	"tare.dev/tare/internal/testkit/storetest"
)

// do asks for something, and returns the status and the body.
func do(t *testing.T, client *http.Client, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// Every answer is as the published description says, and every path in it answers.
func TestAnswersAreAsDescribed(t *testing.T) {
	d := historytest.Open(t, filepath.Join(t.TempDir(), "h.db"))
	fleet(t, d, 30)
	fits := filepath.Join(t.TempDir(), "fits.db")
	st := storetest.Open(t, fits)
	run, err := st.Begin(t.Context(), storetest.Plan(), store.Invocation{})
	if err == nil {
		err = run.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	srv := start(t, d, func(c *serve.Config) { c.Fits = opener(fits); c.LocalToken, c.LocalMachine = "own", "here" })
	_, text := do(t, srv.Client(), "GET", srv.URL+"/api/v1/openapi.json", "")
	schema := func(name string) *jsonschema.Schema { return schematest.Compile(t, text, "/components/schemas/"+name) }
	var described struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &described); err != nil {
		t.Fatal(err)
	}
	queries := map[string][]string{
		"/api/v1/jvms":                 {"", "state=all", "machine=web-1", "limit=3", "after=5&limit=2"},
		"/api/v1/jvms/{id}":            {"", "x=1"},
		"/api/v1/jvms/{id}/samples":    {"", "points=10", "from=0&to=1000", "from=2026-01-01T00:00:00Z&to=2026-05-01T00:00:00Z"},
		"/api/v1/jvms/{id}/footprints": {"", "points=1"},
		"/api/v1/kills":                {"", "limit=1"},
	}
	batch, err := json.Marshal(historytest.NewAgent("here").Batch(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	enrolment, err := d.AddEnrolment(t.Context(), "fleet", 1, time.Time{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for path, methods := range described.Paths {
		for method, op := range methods {
			name := strings.TrimPrefix(op.Responses["200"].Content["application/json"].Schema.Ref, "#/components/schemas/")
			for _, id := range []string{"1", "3"} {
				for _, q := range append([]string{}, queriesOf(queries, path)...) {
					if strings.Contains(path, "fits/") {
						id = "1"
					}
					url := srv.URL + strings.ReplaceAll(path, "{id}", id) + "?" + q
					body := ""
					if method == "post" {
						body = string(batch)
					}
					if path == "/api/v1/enrol" {
						body = `{"machine": "web-7", "token": "tare-write-` + strings.Repeat("A", 26) + `"}`
					}
					resp, text := do(t, srv.Client(), strings.ToUpper(method), url, body, "Authorization", auth(path, enrolment))
					if resp.StatusCode != http.StatusOK {
						t.Errorf("%s: %s: %s", url, resp.Status, text)
						continue
					}
					v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
					if err != nil {
						t.Fatal(err)
					}
					if err := schema(name).Validate(v); err != nil {
						t.Errorf("%s: %v", url, err)
					}
				}
			}
		}
	}
	// What nobody can ask for is refused in one line, by the same schema.
	for _, path := range []string{"jvms/0", "jvms/x", "jvms/999999", "jvms?limit=100000", "jvms?after=-1", "jvms?state=dead", "kills?from=yesterday", "kills?from=5&to=4",
		"jvms/1/samples?points=99999", "jvms/1/samples?from=1&to=9999999999", "jvms/1/footprint?at=1", "fits/99", "jvms/1/samples?points=1e9", "jvms/1/events?to=NaN"} {
		resp, text := do(t, srv.Client(), "GET", srv.URL+"/api/v1/"+path, "")
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil || schema("Problem").Validate(v) != nil || resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusNotFound || strings.Contains(text, "\n") {
			t.Errorf("%s: %s: %s", path, resp.Status, text)
		}
	}
	resp, text := do(t, srv.Client(), "GET", srv.URL+"/fits/1", "")
	if resp.StatusCode != http.StatusOK || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "sandbox") || !strings.Contains(text, "<html") {
		t.Errorf("%s: %.200s", resp.Status, text)
	}
}

func queriesOf(all map[string][]string, path string) []string {
	if q := all[path]; q != nil {
		return q
	}
	return []string{""}
}

func auth(path, enrolment string) string {
	if path == "/api/v1/enrol" {
		return "Bearer " + enrolment
	}
	if path == "/api/v1/position" || path == "/api/v1/records" {
		return "Bearer own"
	}
	return ""
}

func TestListsComeInParts(t *testing.T) {
	d := historytest.Open(t, filepath.Join(t.TempDir(), "h.db"))
	fleet(t, d, 25)
	srv := start(t, d, nil)
	seen := map[int64]bool{}
	for after := int64(0); ; {
		_, text := do(t, srv.Client(), "GET", fmt.Sprintf("%s/api/v1/jvms?state=all&limit=10&after=%d", srv.URL, after), "")
		var got struct {
			Items []struct{ ID int64 }
			Next  *int64
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		for _, j := range got.Items {
			seen[j.ID] = true
		}
		if got.Next == nil {
			break
		}
		after = *got.Next
	}
	if len(seen) != 25 {
		t.Errorf("%d", len(seen))
	}
}

// The metrics are Prometheus' in form; the owners of each JVM add up to its Rss; and
// hostile JVMs make no more series than others.
func TestMetrics(t *testing.T) {
	d := historytest.Open(t, filepath.Join(t.TempDir(), "h.db"))
	a := fleet(t, d, 12)
	strange := historytest.Footprint(100 << 20)
	for i := range 12 {
		strange.Owners = append(strange.Owners, ledger.Owned{Owner: "new-owner", Resident: 1 << 20})
		strange.Owners[len(strange.Owners)-1].Owner += ledgerOwner(i)
		strange.Resident += 1 << 20
	}
	var found []ledger.Finding
	for i := range 90 {
		found = append(found, ledger.Finding{ID: fmt.Sprintf("<%d>\n", i), Bytes: 1, Certainty: "\"\\"})
	}
	now := time.Now()
	a.Add(now, ledger.Record{Process: historytest.ID(2), Footprint: strange})
	a.Add(now, ledger.Record{Process: historytest.ID(2), Findings: found})
	a.Add(now, ledger.Record{Spent: &ledger.Spent{MemTotal: 1 << 34, Processor: 3 * time.Second, Resident: 40 << 20}})
	send(t, d, a, now)
	srv := start(t, d, func(c *serve.Config) { c.MaxJVMs = 10 })
	_, text := do(t, srv.Client(), "GET", srv.URL+"/metrics", "")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%+v, %v", problems, err)
	}
	for _, want := range []string{"tare_serve_jvms_left_out 1", `tare_kills_total{machine="web-1",verdict="jvm-ended"} 1`, `tare_kills_total{machine="web-1",verdict="other-process"} 0`,
		`tare_machine_agent_cpu_seconds_total{machine="web-1"} 3`} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "tare_jvm_info{"); n != 10 {
		t.Errorf("%d JVMs", n)
	}
	var sum, series int64
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "tare_jvm_resident_bytes{jvm=\"2\"") {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &v); err != nil {
				t.Fatal(err)
			}
			sum += int64(v)
			series++
		}
	}
	if sum != strange.Resident || series != 3 {
		t.Errorf("%d series add up to %d, resident are %d", series, sum, strange.Resident)
	}
	if n := strings.Count(text, "tare_jvm_finding_bytes{"); n > 2*10+2 {
		t.Errorf("%d findings", n)
	}
	resp, text := do(t, srv.Client(), "GET", srv.URL+"/metrics", "", "Accept", "application/openmetrics-text; version=1.0.0")
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("%s", resp.Header.Get("Content-Type"))
	}
	for _, m := range serve.Metrics {
		if m.Help == "" || !strings.HasPrefix(m.Name, "tare_") {
			t.Errorf("%+v", m)
		}
	}
}

func FuzzBatch(f *testing.F) {
	a := historytest.NewAgent("web")
	a.Add(historytest.Now, ledger.Record{Process: historytest.ID(1), Start: historytest.Process(1)})
	a.Add(historytest.Now, ledger.Record{Process: historytest.ID(1), Footprint: historytest.Footprint(1 << 20)})
	text, err := json.Marshal(a.Batch(historytest.Now))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"records":[{}]}`))
	d, err := history.Open(f.Context(), filepath.Join(f.TempDir(), "h.db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { d.Close() })
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := serve.ParseBatch(text)
		if err != nil {
			return
		}
		before, err := d.Position(t.Context(), "web", b.Ledger)
		if err != nil {
			t.Skip() // no text that a database takes
		}
		got, err := d.Take(t.Context(), "web", b, historytest.Now)
		after, err2 := d.Position(t.Context(), "web", b.Ledger)
		if err2 != nil || after < before || err == nil && after != got.Position || err != nil && after != before {
			t.Errorf("%d, then %d of %+v: %v, %v", before, after, got, err, err2)
		}
		all, err := d.JVMs(t.Context(), history.Filter{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range all {
			if f := j.Footprint; f != nil {
				sum := int64(0)
				for _, o := range f.Owners {
					sum += o.Resident
				}
				if sum != f.Resident {
					t.Errorf("%d of %d", sum, f.Resident)
				}
			}
			if v, err := json.Marshal(j.Process); err != nil || !bytes.Contains(v, []byte("name")) {
				t.Error(err)
			}
		}
	})
}

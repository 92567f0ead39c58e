package nodes

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
)

// node serves a ledger with a JVM of a pod that has ended, as an agent does.
func node(t *testing.T) (_ *http.Client, address string, answers *atomic.Int64) {
	t.Helper()
	dir := t.TempDir()
	answers = &atomic.Int64{}
	w, err := ledger.Create(dir, ledger.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	id := ledger.ID{Boot: "b", PID: 1 << 30, StartTicks: 7}
	at := time.Date(2026, 11, 25, 1, 0, 0, 0, time.UTC)
	for _, r := range []ledger.Record{
		{Start: &ledger.Process{ID: id, Name: "Hold", Kind: "HotSpot", Pod: "shop-0", Namespace: "prod", ContainerName: "shop", PodUID: "u-1"}},
		{Counters: &ledger.Counters{Usage: 100, Limit: 200}},
		{Event: &ledger.Event{Kind: ledger.Ended, Values: ledger.ExitValues(7, 0)}},
	} {
		r.Process, r.At, r.Uptime = id, at, time.Hour
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	secure, err := Certificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") })
	s := httptest.NewUnstartedServer(NewHandler(Handler{Proc: linux.NewFS("/proc"), Dir: dir, Token: "secret", Metrics: metrics, Around: func(answer func()) { answers.Add(1); answer() }}))
	s.TLS = secure
	s.StartTLS()
	t.Cleanup(s.Close)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, s.URL, answers
}

func get(t *testing.T, c *http.Client, url, token string) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set(TokenHeader, token)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, text
}

func TestAnAgentAnswers(t *testing.T) {
	c, url, answers := node(t)
	for _, q := range []struct {
		path, token string
		want        int
	}{
		{"/metrics", "", 200},
		{"/v1/jvms", "", 401}, {"/v1/jvms", "other", 401}, {"/v1/jvms", "secret", 200},
		{"/v1/weigh?namespace=prod&pod=shop-0", "secret", 404}, // it has ended
		{"/v1/weigh?namespace=prod&pod=../x", "secret", 400},
		{"/v1/autopsy?namespace=prod&pod=shop-1", "secret", 404},
		{"/v1/autopsy?namespace=prod&pod=shop-0&uid=another", "secret", 404},
		{"/v1/autopsy?namespace=prod&pod=shop-0&container=a%00b", "secret", 400},
		{"/v1/autopsy?namespace=prod&pod=shop-0&uid=another&id=zz", "secret", 404},
		{"/v1/autopsy?namespace=prod&pod=shop-0&uid=u-1", "secret", 200},
	} {
		status, text := get(t, c, url+q.path, q.token)
		if status != q.want {
			t.Errorf("%s: %d %s", q.path, status, text)
		}
	}
	if n := answers.Load(); n != 8 { // without metrics, and those who had no token
		t.Errorf("%d answers", n)
	}
	_, text := get(t, c, url+"/v1/autopsy?namespace=prod&pod=shop-0&container=shop", "secret")
	var r autopsy.Report
	if err := json.Unmarshal(text, &r); err != nil || r.Verdict != autopsy.Exited || r.JVM.Pod != "shop-0" {
		t.Errorf("%s, %v", text, err)
	}
}

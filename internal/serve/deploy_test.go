package serve_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/serve"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// dashboard is what is checked of Grafana's dashboard.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []struct {
		ID      int
		Type    string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ RefID, Expr string }
	}
	Templating struct{ List []struct{ Name, Type string } }
}

// The rules and the dashboard's queries are Prometheus', and of metrics that there
// are; panels do not overlap.
func TestRulesAndDashboard(t *testing.T) {
	alone.Uses(t, "Prometheus' parser, which is built")
	root := jvmtest.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "deploy", "grafana", "tare.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil || d.SchemaVersion < 36 || d.UID == "" || len(d.Templating.List) != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
	var queries []string
	seen := map[int]bool{}
	for i, p := range d.Panels {
		if seen[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || p.GridPos.H == 0 || len(p.Targets) == 0 {
			t.Errorf("panel %d is %+v", i, p)
		}
		seen[p.ID] = true
		for _, o := range d.Panels[:i] {
			if a, b := p.GridPos, o.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %d and %d overlap", p.ID, o.ID)
			}
		}
		for _, q := range p.Targets {
			queries = append(queries, strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$machine", ".*", "$name", ".*").Replace(q.Expr))
		}
	}
	checker := filepath.Join(t.TempDir(), "checkrules")
	build := exec.Command("go", "build", "-o", checker, ".")
	build.Dir = filepath.Join(root, "internal", "testkit", "promtest", "checkrules")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	check := exec.Command(checker, filepath.Join(root, "deploy", "prometheus", "tare.rules.yaml"))
	check.Stdin = strings.NewReader(strings.Join(queries, "\n"))
	out, err := check.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names := bytes.Fields(out)
	if len(names) < len(queries) {
		t.Errorf("%d selectors", len(names))
	}
	for _, name := range names {
		if !slices.ContainsFunc(serve.Metrics, func(m *serve.Metric) bool { return m.Name == string(name) }) {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// Each rule says what it is to, when it is to: by Prometheus' engine, in a module of its own.
func TestRulesEvaluate(t *testing.T) {
	alone.Uses(t, "Prometheus' engine, which is built")
	test := exec.Command("go", "test", "-count=1", ".")
	test.Dir = filepath.Join(jvmtest.Root(t), "internal", "testkit", "promtest", "checkrules")
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// systemd takes the units, and knows every option in them.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil && testing.Short() {
		t.Skip(err)
	}
	units, err := filepath.Glob(filepath.Join(jvmtest.Root(t), "deploy", "systemd", "*.service"))
	if err != nil || len(units) != 2 {
		t.Fatal(units, err)
	}
	program, err := os.Executable() // one that is there: that of the units is not yet installed
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for name, wrong := range map[string]string{"whole": "", "with a mistake": "\n[Service]\nNoSuchOption=1\n"} {
			copied := filepath.Join(t.TempDir(), filepath.Base(unit))
			if err := os.WriteFile(copied, append(bytes.ReplaceAll(text, []byte("/usr/bin/tare"), []byte(program)), wrong...), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", copied).CombinedOutput()
			if said := strings.Contains(string(out), filepath.Base(unit)); said != (wrong != "") || wrong == "" && err != nil {
				t.Errorf("%s, %s: %v: %s", unit, name, err, out)
			}
		}
	}
}

// Every metric is explained.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(jvmtest.Root(t), "docs", "serve.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range serve.Metrics {
		if !bytes.Contains(text, []byte("`"+m.Name)) {
			t.Errorf("docs/serve.md does not explain %s", m.Name)
		}
	}
}

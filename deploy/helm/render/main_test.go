package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const chart = "../tare"

func values(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// What kustomize starts from is what the chart makes.
func TestKustomizeIsUpToDate(t *testing.T) {
	for _, part := range []string{"agent", "hub"} {
		objects, err := render(chart, "../../kustomize/"+part+".values.yaml", "tare", "tare")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := write(dir, "tare", objects); err != nil {
			t.Fatal(err)
		}
		made, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(made) < 3 {
			t.Fatalf("%q, %v", made, err)
		}
		for _, file := range made {
			want, _ := os.ReadFile(file)
			got, err := os.ReadFile(filepath.Join("../../kustomize", part, filepath.Base(file)))
			if err != nil || string(got) != string(want) {
				t.Errorf("%s of kustomize/%s is not what the chart makes: make kubernetes-manifests (%v)", filepath.Base(file), part, err)
			}
		}
	}
}

// Each feature brings the capability that it needs, and none brings no other.
func TestCapabilities(t *testing.T) {
	for text, want := range map[string]string{
		"": "add: [SYS_PTRACE, DAC_READ_SEARCH, SYSLOG]",
		"agent: {features: {otherUsers: false, kernelLog: false}}":               "add: [SYS_PTRACE]",
		"agent: {features: {weigh: false, otherUsers: false, kernelLog: true}}":  "add: [SYSLOG]",
		"agent: {features: {weigh: false, otherUsers: false, kernelLog: false}}": "",
	} {
		objects, err := render(chart, values(t, text), "tare", "tare")
		if err != nil {
			t.Fatal(err)
		}
		ds := objects["agent-daemonset.yaml"]
		if !strings.Contains(ds, "drop: [ALL]") || !strings.Contains(ds, want) || want == "" && strings.Contains(ds, "add:") {
			t.Errorf("%q: want %q in\n%s", text, want, ds)
		}
	}
	objects, err := render(chart, values(t, "agent: {features: {podNames: false}}"), "tare", "tare")
	if err != nil {
		t.Fatal(err)
	}
	if text := objects["agent-rbac.yaml"]; strings.Contains(text, "ClusterRole") {
		t.Errorf("rights without a use:\n%s", text)
	}
}

func TestValuesAreChecked(t *testing.T) {
	for _, text := range []string{"agent: {budget: lots}", "agent: {features: {wiegh: true}}", "image: {pullPolicy: Sometimes}", "hub: {enabled: true}", "agnet: {}"} {
		if _, err := render(chart, values(t, text), "tare", "tare"); err == nil {
			t.Errorf("taken: %s", text)
		}
	}
}

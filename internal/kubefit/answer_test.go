package kubefit

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/profile"
)

var update = flag.Bool("update", false, "write what is expected anew")

func shop(t *testing.T) (Target, *profile.Profile) {
	t.Helper()
	w, name, err := kubeapi.ParseWorkload("deploy/shop")
	if err != nil {
		t.Fatal(err)
	}
	return Target{Workload: w, Namespace: "prod", Name: name}, &profile.Profile{Schema: profile.Schema, JDK: "25.0.5", LimitBytes: 134<<20 + 1, CPUs: 1.5,
		Options: []string{"-XX:+UseSerialGC", "-Xmx64m", "-XX:AOTCache=/app/the cache.aot"}, Env: []string{"MALLOC_ARENA_MAX=1", "PRICE=$(cat x) 'a'"},
		Archive: &profile.Archive{File: "/app/the cache.aot", Bytes: 1, FNV128a: "0"}, NoHugePages: true}
}

func TestShow(t *testing.T) {
	target, p := shop(t)
	for _, format := range Formats() {
		got, err := Show(format, target, Of(p, "shop", ""))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", format+".yaml")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("%s, %v:\n%s", format, err, got)
		}
		if _, err := fromYAML(got); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
	if _, err := Show("toml", target, Of(p, "shop", "")); err == nil {
		t.Error("an unknown format")
	}
}

// What JAVA_TOOL_OPTIONS was stays in front, for of two options the last one counts.
func TestOptionsThatWereThereStay(t *testing.T) {
	_, p := shop(t)
	a := Of(p, "shop", "-Xmx128m -Dx=y")
	if got := a.Env[len(a.Env)-1].Value; got != `-Xmx128m -Dx=y -XX:+UseSerialGC -Xmx64m "-XX:AOTCache=/app/the cache.aot"` {
		t.Error(got)
	}
	if a.Memory != "135Mi" || a.CPU != "1500m" {
		t.Errorf("%+v", a)
	}
}

func TestChanges(t *testing.T) {
	live := map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "side", "image": "x"},
		map[string]any{"name": "shop", "env": []any{map[string]any{"name": "A", "value": "1"}}, "resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}},
	}}}
	after := map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "shop", "env": []any{map[string]any{"name": "B", "value": "2"}}, "resources": map[string]any{"limits": map[string]any{"memory": "64Mi"}}},
		map[string]any{"name": "side", "image": "x"},
	}}}
	got := ""
	for _, c := range changes(flat(live), flat(after)) {
		got += c.String() + "\n"
	}
	want := "spec.containers[shop].env[A].value: 1 → -\nspec.containers[shop].resources.limits.memory: 1Gi → 64Mi\nspec.containers[shop].env[B].value: - → 2\n"
	if got != want {
		t.Error(got)
	}
}

func TestWhatWasThereBefore(t *testing.T) {
	for _, text := range []string{`{}`, `{"metadata":{"annotations":{"tare.dev/before":"{}"}}}`, `{"metadata":{"annotations":{"tare.dev/before":"x"}}}`} {
		o, err := decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := o.before(); err == nil {
			t.Errorf("%s: %+v", text, b)
		}
	}
	o, err := decode([]byte(`{"metadata":{"annotations":{"tare.dev/before":"{\"container\":\"shop\",\"resources\":{\"limits\":{\"memory\":\"1Gi\"}}}"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := o.before(); err != nil || b.Container != "shop" || b.Resources.Limits["memory"] != "1Gi" {
		t.Errorf("%+v, %v", b, err)
	}
}

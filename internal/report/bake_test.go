package report

import (
	"strings"
	"testing"

	"tare.dev/tare/internal/document"
)

func bakedFit() FitJSON {
	limit := int64(150 << 20)
	return FitJSON{LimitBytes: &limit, Options: []string{"-Xmx32m", "-XX:SharedArchiveFile=/tare/app.jsa", "-XX:+UnlockDiagnosticVMOptions"}, Env: []string{"MALLOC_ARENA_MAX=1"}}
}

func textOf(t *testing.T, d *document.Document) string {
	t.Helper()
	var s strings.Builder
	if err := document.WriteText(&s, d, document.Style{}); err != nil {
		t.Fatal(err)
	}
	return s.String()
}

// What other builders are told has no archive of tare's, and says that nobody tried it.
func TestOtherBuilders(t *testing.T) {
	for name, c := range map[string]struct {
		d    *document.Document
		want []string
	}{
		"buildpack": {BuildpackDocument(bakedFit()), []string{"pack build NAME", "--env BP_JVM_CDS_ENABLED=true", "'BPE_DELIM_JAVA_TOOL_OPTIONS= '",
			"'BPE_APPEND_JAVA_TOOL_OPTIONS=-Xmx32m -XX:+UnlockDiagnosticVMOptions'", "--env BPE_MALLOC_ARENA_MAX=1", "150 MiB will not", "not tried here"}},
		"jib": {JibDocument(bakedFit()), []string{"jvmFlags = ['-Xmx32m', '-XX:+UnlockDiagnosticVMOptions']", "environment = ['MALLOC_ARENA_MAX': '1']", "containerizingMode = 'packaged'", "not tried here"}},
	} {
		text := textOf(t, c.d)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		if strings.Contains(text, "app.jsa") {
			t.Errorf("%s: names the archive:\n%s", name, text)
		}
	}
	if got := groovyQuote(`a'b\c`); got != `'a\'b\\c'` {
		t.Error(got)
	}
}

// Both images stand side by side, and what could not be seen is said.
func TestBakeDocument(t *testing.T) {
	used := true
	b := Bake{Given: BakeImage{Name: "shop:1", LimitBytes: 200 << 20, NeededBytes: 180 << 20, ReadyMillis: 6000, Throughput: 1000, ImageBytes: 230 << 20},
		Baked: BakeImage{Name: "shop:small", LimitBytes: 150 << 20, NeededBytes: 97 << 20, ReadyMillis: 2000, Throughput: 2000, ImageBytes: 300 << 20},
		Runs:  20, Added: []BakeLayer{{"class archive", 50 << 20}}, Archive: true, ArchiveUsed: &used}
	text := textOf(t, BakeDocument(b))
	for _, want := range []string{"150 MiB is enough for shop:small: 20 of 20 fresh runs pass, and use", "200 MiB", "97.0 MiB", "class archive, 50.0 MiB", "docker run -m 150m --memory-swap 150m shop:small"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	b.ArchiveUsed, b.Given.LimitBytes, b.Given.Throughput = nil, 0, 0
	if text := textOf(t, BakeDocument(b)); !strings.Contains(text, "could not be seen") || strings.Contains(text, "and use the") {
		t.Errorf("not known to be used:\n%s", text)
	}
}

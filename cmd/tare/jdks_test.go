package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tare.dev/tare/internal/jdks"
)

func TestJDKsTable(t *testing.T) {
	got := jdksTable([]jdks.JDK{
		{
			Home: "/usr/lib/jvm/java-8-openjdk-amd64", Version: "1.8.0_504", Major: 8, Vendor: "Debian", Arch: "amd64",
			ThreadStackSizeBytes: 2040 << 10, CompilerThreadStackSizeBytes: 1 << 20, VMThreadStackSizeBytes: 1 << 20,
			DefaultCollector: "Parallel", DefaultMaxHeapBytes: 500 << 20, Sources: []string{"JAVA_HOME", "/usr/lib/jvm"},
		},
		{
			Home: "/opt/j", Version: "27.0.1.0.3", Major: 27, Vendor: "Azul Systems, Inc.", Arch: "amd64",
			ThreadStackSizeBytes: 1 << 20, CompilerThreadStackSizeBytes: 4 << 20, VMThreadStackSizeBytes: 1 << 20,
			DefaultCollector: "G1", DefaultMaxHeapBytes: 6320816128, CDSArchive: true, Sources: []string{"PATH"},
		},
		{Home: "/bro\x1bken", Sources: []string{"cache"}, Error: "does not start"},
	})
	want := `VERSION     VENDOR            GC        MAX HEAP  STACK  COMPILER  VM     CDS
1.8.0_504   Debian            Parallel  500 MiB   2040k  1024k     1024k  no
  /usr/lib/jvm/java-8-openjdk-amd64 (JAVA_HOME, /usr/lib/jvm)
27.0.1.0.3  Azul Systems, I…  G1        5.9 GiB   1024k  4096k     1024k  yes
  /opt/j (PATH)
–           –                 –         –         –      –         –      no
  /bro` + "\uFFFD" + `ken (cache)
  error: does not start
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestJDKsNone(t *testing.T) {
	nowhere := jdks.Search{Root: t.TempDir(), Timeout: time.Minute}
	for _, c := range []struct {
		json bool
		want string
	}{
		{false, "no JDK found: install one (apt-get install default-jdk-headless), or set JAVA_HOME\n"},
		{true, "[]\n"},
	} {
		var out bytes.Buffer
		if err := runJDKs(t.Context(), &out, jdksOptions{JSON: c.json, Search: nowhere}); err != nil || out.String() != c.want {
			t.Errorf("--json=%t: %v, %q, want %q", c.json, err, out.String(), c.want)
		}
	}
}

// On the JDKs of this machine, as a user calls it.
func TestJDKsCommand(t *testing.T) {
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := newJDKsCommand()
		cmd.SetArgs(append([]string{}, args...)) // of nil it would take the test's own
		cmd.SetOut(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	var jdks []map[string]any
	if err := json.Unmarshal([]byte(run("--json")), &jdks); err != nil {
		t.Fatal(err)
	}
	if len(jdks) == 0 {
		t.Fatal("there is no JDK: run scripts/setup.sh")
	}
	table := run()
	for _, jdk := range jdks {
		home, _ := jdk["home"].(string)
		version, _ := jdk["version"].(string)
		if home == "" || version == "" || !strings.Contains(table, home) || !strings.Contains(table, version) {
			t.Errorf("%v is not in the table\n%s", jdk, table)
		}
	}
}

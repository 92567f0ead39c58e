package jvmopts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// TestExpansionAgainstLaunchers compares the arguments that the launcher has
// after it read JDK_JAVA_OPTIONS and @files of random text with the model's. The
// launcher tells them when _JAVA_LAUNCHER_DEBUG is set (libjli, DumpState).
func TestExpansionAgainstLaunchers(t *testing.T) {
	for _, major := range jvmtest.Majors(t) {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			java := jvmtest.Java(t, major)
			r := rand.New(rand.NewPCG(6, uint64(major)))
			compared := 0
			for i := range *realCases {
				in := randomArguments(t, r, Release{Feature: major}, t.TempDir())
				m := reader{in: in}
				m.in.ReadFile = ReadFile
				model := texts(m.expand())
				real, output := launcherArguments(t, java, in)
				switch {
				case real == nil && len(m.problems) == 0:
					t.Errorf("case %d: the launcher refuses %q with %q, the model does not:\n%s", i, in.Args, in.Env, output)
				case real != nil && !slices.Equal(real, model):
					t.Errorf("case %d: %q with %q\nlauncher %q\nmodel    %q\nfile     %q", i, in.Args, in.Env, short(real), short(model), short([]string{readText(t, in.Dir, "f")}))
				case real != nil:
					compared++
				}
			}
			figures.expanded[major] = compared
			if compared < *realCases/3 {
				t.Errorf("only %d of %d compared", compared, *realCases)
			}
		})
	}
}

func randomArguments(t *testing.T, r *rand.Rand, rel Release, dir string) Input {
	t.Helper()
	text := func(n int, alphabet string) string {
		var b strings.Builder
		for range n {
			b.WriteByte(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	file := ""
	for range 1 + r.IntN(8) {
		file += pick(r, "-", "-D", `"-D`, "'-", "-Xb", "", "# ", "-c\\") + text(r.IntN(12), "abtn=\"' \t\n\r\f\\#@-") + pick(r, " ", "\n", "", "\r\n")
	}
	if r.IntN(5) == 0 { // a word across the end of a buffer
		file = "-D" + strings.Repeat("x", argFileBuffer-2-r.IntN(6)) + file
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	// An option that no JVM knows ends it before it does anything.
	in := Input{Release: rel, Dir: dir, Args: []string{"-Xnosuchoption"}}
	for range r.IntN(6) {
		in.Args = append(in.Args, pick(r, "@f", "@f", "@@f", "-Dx=@f", "-cp", "--add-opens", "--disable-@files", "-jar", "@", "Main", "--source", "-d", "-ea"))
	}
	if r.IntN(2) == 0 {
		in.Env = []string{"JDK_JAVA_OPTIONS=-Dk " + strings.ReplaceAll(text(r.IntN(16), "-Dab=\"' \t\n\v\f#\\"), " a", " -a") + pick(r, "", " @f", " -cp", ` '-D a'"b"`)}
	}
	return in
}

var argvLine = regexp.MustCompile(`(?m)^argv\[\d+\] = `)

// launcherArguments are the arguments that the launcher has in the end; nil when
// it refused them before.
func launcherArguments(t *testing.T, java string, in Input) (args []string, output string) {
	t.Helper()
	cmd := exec.Command(java, in.Args...)
	cmd.Dir = in.Dir
	cmd.Env = append(slices.Clone(in.Env), "_JAVA_LAUNCHER_DEBUG=1")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, _ := cmd.Output() // it fails, by -Xnosuchoption
	output = string(out)
	_, list, found := strings.Cut(output, "Command line args:\n")
	if !found {
		return nil, output + complaint.String()
	}
	for _, end := range []string{"JRE path is", "Attempt to get J"} {
		list, _, _ = strings.Cut(list, "\n"+end)
	}
	parts := argvLine.Split(list, -1)[2:] // what stands before, and the launcher itself
	for i, p := range parts {
		parts[i] = strings.TrimSuffix(p, "\n")
	}
	return parts, output
}

// short leaves out the padding of long words.
func short(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		if n := strings.Count(w, "x"); n > 1000 {
			out[i] = fmt.Sprintf("<%d bytes, %d x>%s", len(w), n, strings.ReplaceAll(w, "xxx", ""))
		}
	}
	return out
}

func readText(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSources(t *testing.T) {
	files := map[string]string{
		"/d/args":  "# heap\n-Xmx\"64m\" '-Dname=a b'\n",
		"/d/vm":    "-Xss1m '-XX:ErrorFile=/tmp/a b'\t-XX:+UseG1GC",
		"/d/flags": "+UseParallelGC # one\n# two\nMaxHeapSize=40m\nErrorFile='a b'",
	}
	in := Input{
		Release: Release{Feature: 21}, Dir: "/d",
		Args: []string{"-XX:Flags=flags", "@args", "-XX:VMOptionsFile=vm", "-cp", "x:y", "@@main", "@args", "-Xmx1g"},
		Env:  []string{"JAVA_TOOL_OPTIONS=-Xint", "_JAVA_OPTIONS=-Xmx\"70\"m", "JDK_JAVA_OPTIONS=-Xmx50m -cp z", "JAVA_TOOL_OPTIONS=-Xbatch"},
		ReadFile: func(name string) ([]byte, error) {
			text, ok := files[name]
			if !ok {
				return nil, fmt.Errorf("%s: %w", name, os.ErrNotExist)
			}
			return []byte(text), nil
		},
	}
	o, err := Read(in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range o.All {
		got = append(got, p.String())
	}
	want := []string{
		"-XX:+UseParallelGC (-XX:Flags=flags)", "-XX:MaxHeapSize=40m (-XX:Flags=flags)", "-XX:ErrorFile=a b (-XX:Flags=flags)",
		"-Xbatch (JAVA_TOOL_OPTIONS)", "-Xmx50m (JDK_JAVA_OPTIONS)", "-cp z (JDK_JAVA_OPTIONS)", "-XX:Flags=flags (command line)",
		"-Xmx64m (@args)", "-Dname=a b (@args)",
		"-Xss1m (-XX:VMOptionsFile=vm)", "-XX:ErrorFile=/tmp/a b (-XX:VMOptionsFile=vm)", "-XX:+UseG1GC (-XX:VMOptionsFile=vm)",
		"-cp x:y (command line)", "-Xmx70m (_JAVA_OPTIONS)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if c := o.Command; !slices.Equal(c.Main, []string{"@main"}) || !slices.Equal(c.Args, []string{"@args", "-Xmx1g"}) || !slices.Contains(c.Options, "-Xmx64m") ||
		slices.Contains(c.Options, "-Xmx50m") {
		t.Errorf("%+v", c)
	}
	for flag, want := range map[string]string{"MaxHeapSize": "73400320", "ThreadStackSize": "1024", "ErrorFile": "/tmp/a b", "UseG1GC": "true", "BackgroundCompilation": "false"} {
		if v, by, ok := o.Value(flag); !ok || v != want {
			t.Errorf("%s is %q by %s, want %q", flag, v, by, want)
		}
	}
	if v, by, ok := o.Value("UseCompiler"); ok {
		t.Errorf("UseCompiler is %s by %s, of a variable that a later one replaces", v, by)
	}
}

func TestReadJDK8(t *testing.T) {
	read := func(string) ([]byte, error) { return []byte("+UseG1GC"), nil }
	long := "JAVA_TOOL_OPTIONS=-Xmx9m -Dx=" + strings.Repeat("y", 1024)
	o, err := Read(Input{Release: Release{Feature: 8}, ReadFile: read, Args: []string{"-Xmx1m", "-XX:VMOptionsFile=f", "@f"},
		Env: []string{long, "JDK_JAVA_OPTIONS=-Xmx3m", "_JAVA_OPTIONS=-XX:Flags=f" + strings.Repeat(" -ea", 63) + " -Xint"}})
	if err == nil || !strings.Contains(err.Error(), "JAVA_TOOL_OPTIONS is longer") || !strings.Contains(err.Error(), "_JAVA_OPTIONS holds more") {
		t.Errorf("%v", err)
	}
	for _, flag := range []string{"UseG1GC", "UseCompiler"} {
		if v, by, ok := o.Value(flag); ok {
			t.Errorf("%s is %s by %s", flag, v, by)
		}
	}
	if v, _, _ := o.Value("MaxHeapSize"); v != "1048576" {
		t.Errorf("heap %s", v)
	}
	if !slices.Equal(o.Command.Main, []string{"@f"}) {
		t.Errorf("%+v", o.Command)
	}
}

func TestReadReports(t *testing.T) {
	for _, tt := range []struct {
		in   Input
		want string // in the error
		heap string // what is read nevertheless
	}{
		{Input{Env: []string{"JDK_JAVA_OPTIONS=-Xmx1m Main"}}, `JDK_JAVA_OPTIONS: "Main" names what to run`, "1048576"},
		{Input{Env: []string{"JDK_JAVA_OPTIONS=-Xmx1m -version -Xint"}}, `JDK_JAVA_OPTIONS: "-version" names`, "1048576"},
		{Input{Env: []string{"JAVA_TOOL_OPTIONS=-Xmx1m 'open"}}, "JAVA_TOOL_OPTIONS: a quote is not closed", "1048576"},
		{Input{Args: []string{"-Xmx1m", "-cp"}}, "-cp lacks its value", "1048576"},
		{Input{Args: []string{"-Xmx1m", "-jar"}}, "-jar lacks its value", "1048576"},
		{Input{Args: []string{"-Xmx1m", "@gone", "-jar", "a.jar"}}, "@gone in command line", "1048576"},
		{Input{Args: []string{"-XX:Flags=gone", "-Xmx1m"}}, "-XX:Flags=gone in command line", "1048576"},
		{Input{Env: []string{"_JAVA_OPTIONS=-XX:VMOptionsFile=gone -Xmx1m"}}, "-XX:VMOptionsFile=gone in _JAVA_OPTIONS", "1048576"},
	} {
		tt.in.Dir = t.TempDir()
		o, err := Read(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v, want %q", tt.in, err, tt.want)
		}
		if v, _, _ := o.Value("MaxHeapSize"); v != tt.heap {
			t.Errorf("%+v: heap %q", tt.in, v)
		}
	}
}

package jdks

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestParsePrintFlagsFinal(t *testing.T) {
	for _, c := range []struct {
		file string
		n    int
		want map[string]string
	}{
		{"jdk8.txt", 738, map[string]string{
			"CompilerThreadStackSize": "0", "UseParallelGC": "true", "MaxHeapSize": "6320816128",
			"OnError": "a {b}\nsecond; third", "ErrorFile": "", "NativeMemoryTracking": "off",
			"ObjectAlignmentInBytes": "8", "SafepointTimeout": "false",
		}},
		{"jdk11-vm-flags-all.txt", 673, map[string]string{
			"CompilerThreadStackSize": "1024", "ThreadStackSize": "512", "MaxHeapSize": "268435456",
			"UseG1GC": "true", "ActiveProcessorCount": "-1", "EscapeAnalysisTimeout": "20.000000",
		}},
		{"jdk21.txt", 533, map[string]string{
			"OnError": "a {b}\nsecond; third", "UseG1GC": "true", "ShenandoahGCMode": "satb",
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			f, err := os.Open(filepath.Join("testdata/flags", c.file))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			flags, err := ParsePrintFlagsFinal(f)
			if err != nil {
				t.Fatal(err)
			}
			if len(flags) != c.n {
				t.Errorf("%d flags, want %d", len(flags), c.n)
			}
			for name, want := range c.want {
				if got, ok := flags[name]; !ok || got != want {
					t.Errorf("%s is %q (%t), want %q", name, got, ok, want)
				}
			}
		})
	}
}

func TestParsePrintFlagsFinalRejects(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "flags: none in 0 lines"},
		{"usage: java\n", "flags: none in 1 lines"},
		{"     bool UseG1GC = maybe {product}\n", `flags, line 1: UseG1GC is no bool: "maybe"`},
		{"\n  uintx MaxHeapSize = -1 {product}\n", `flags, line 2: MaxHeapSize is no uintx: "-1"`},
		{"     intx A = 1\n     intx A = 1\n", "flags, line 2: A a second time"},
		{"     intx A = 1\n" + strings.Repeat("x", maxFlagLine), "flags, line 2: bufio.Scanner: token too long"},
	} {
		_, err := ParsePrintFlagsFinal(strings.NewReader(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.40q: error %v, want %s…", c.text, err, c.want)
		}
	}
}

func TestParsePrintFlagsFinalIgnoresOtherLines(t *testing.T) {
	flags, err := ParsePrintFlagsFinal(strings.NewReader(
		"OpenJDK 64-Bit Server VM warning: MaxPermSize = 3m is ignored\n[Global flags]\n" +
			"     intx A := -7 {pd product}\n          B += of no text\n"))
	if want := map[string]string{"A": "-7"}; err != nil || !maps.Equal(flags, want) {
		t.Errorf("%v, %v, want %v", flags, err, want)
	}
}

// Whatever is printed: names are words, and the flags printed again read the same.
func FuzzParsePrintFlagsFinal(f *testing.F) {
	files, err := filepath.Glob("testdata/flags/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no testdata/flags", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text[:2000]))
	}
	f.Add("ccstrlist A = a {b}\n A += c {product} {command line}\n bool B = true\n")
	word := regexp.MustCompile(`^\w+$`)
	f.Fuzz(func(t *testing.T, text string) {
		flags, err := ParsePrintFlagsFinal(strings.NewReader(text))
		if err != nil {
			return
		}
		if len(flags) == 0 || len(flags) > strings.Count(text, "\n")+1 {
			t.Errorf("%d flags of %q", len(flags), text)
		}
		var again strings.Builder
		for name, value := range flags {
			if !word.MatchString(name) {
				t.Errorf("a flag is called %q", name)
			}
			lines := strings.Split(value, "\n")
			fmt.Fprintf(&again, "ccstr %s = %s", name, lines[0])
			for _, line := range lines[1:] {
				fmt.Fprintf(&again, "\n %s += %s", name, line)
			}
			fmt.Fprintln(&again, " {product} {default}")
		}
		flagsAgain, err := ParsePrintFlagsFinal(strings.NewReader(again.String()))
		if err != nil || !maps.Equal(flags, flagsAgain) {
			t.Errorf("%q\nprinted again:\n%q, %v", flags, flagsAgain, err)
		}
	})
}

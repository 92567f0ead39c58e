package linux

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func parseFile[T any](t testing.TB, path string, parse func(string) (T, error)) T {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

func parseSmapsText(s string) ([]VMA, error) { return ParseSmaps(strings.NewReader(s)) }

func TestParseSmaps(t *testing.T) {
	for _, name := range []string{"jdk25-serial", "jdk17-z"} {
		vmas := parseFile(t, "testdata/smaps/"+name+".txt", parseSmapsText)
		rollup := parseFile(t, "testdata/smaps/"+name+".rollup.txt", parseSmapsText)
		if len(rollup) != 1 {
			t.Fatalf("%s: %d sums", name, len(rollup))
		}
		var sum VMA
		for _, v := range vmas {
			sum.RSS += v.RSS
			sum.PSS += v.PSS
			sum.Anonymous += v.Anonymous
			sum.Dirty += v.Dirty
		}
		got := [...]int64{sum.RSS, sum.Anonymous, sum.Dirty}
		want := [...]int64{rollup[0].RSS, rollup[0].Anonymous, rollup[0].Dirty}
		if got != want {
			t.Errorf("%s: mappings add up to %v, rollup says %v", name, got, want)
		}
		// Each mapping's Pss is rounded down to KiB on its own.
		if d := rollup[0].PSS - sum.PSS; d < 0 || d > int64(len(vmas))<<10 {
			t.Errorf("%s: Pss adds up to %d, rollup says %d", name, sum.PSS, rollup[0].PSS)
		}
	}
}

func TestParseSmapsFields(t *testing.T) {
	const text = `7f00000000-7f00002000 rw-s 00001000 fe:00 42         /tmp/a b (deleted)
Rss:                   8 kB
Unknown:            junk
VmFlags: rd wr pf
7f00002000-7f00003000 ---p 00000000 00:00 0
Rss:                   0 kB
`
	vmas, err := parseSmapsText(text)
	if err != nil {
		t.Fatal(err)
	}
	want := VMA{Start: 0x7f00000000, End: 0x7f00002000, Perms: "rw-s", Offset: 0x1000, Inode: 42, Device: unix.Mkdev(0xfe, 0),
		Path: "/tmp/a b (deleted)", RSS: 8 << 10, Flags: "rd wr pf"}
	if vmas[0] != want {
		t.Errorf("got %+v, want %+v", vmas[0], want)
	}
	if !vmas[0].Uncounted() || vmas[1].Accessible() || vmas[1].FileBacked() {
		t.Errorf("kinds of %+v", vmas)
	}
}

func TestParseSmapsRejects(t *testing.T) {
	for _, text := range []string{
		"Rss: 4 kB\n",
		"7f00-7e00 rw-p 0 00:00 0\n",
		"zz-7e00 rw-p 0 00:00 0\n",
		"7e00-7f00 rw 0 00:00 0\n",
		"1000-2000 rw-p 0 00:00 0\nRss: 4 MB\n",
		"1000-2000 rw-p 0 00:00 0\nRss: -4 kB\n",
	} {
		if _, err := parseSmapsText(text); err == nil {
			t.Errorf("accepted %q", text)
		} else if !strings.Contains(err.Error(), "line ") {
			t.Errorf("error without a line: %v", err)
		}
	}
}

// The list is made a piece at a time while the process goes on.
func TestParseSmapsOfAChangingProcess(t *testing.T) {
	const text = `1000-3000 rw-p 0 00:00 0
Rss: 8 kB
2000-5000 rw-p 0 00:00 0
Rss: 12 kB
4000-5000 rw-p 0 00:00 0
Rss: 4 kB
6000-7000 rw-p 0 00:00 0
`
	vmas, err := parseSmapsText(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []VMA{
		{Start: 0x1000, End: 0x3000, Perms: "rw-p", RSS: 8 << 10},
		{Start: 0x3000, End: 0x5000, Perms: "rw-p", Offset: 0x1000, RSS: 12 << 10},
		{Start: 0x6000, End: 0x7000, Perms: "rw-p"},
	}
	if !slices.Equal(vmas, want) {
		t.Errorf("got %+v, want %+v", vmas, want)
	}
}

func FuzzParseSmaps(f *testing.F) {
	text, err := os.ReadFile("testdata/smaps/jdk25-serial.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text[:4000])
	f.Add([]byte("1000-2000 rw-p 0 00:00 0 [heap]\nRss: 4 kB\nVmFlags: rd\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		vmas, err := ParseSmaps(bytes.NewReader(b))
		if err != nil {
			return
		}
		var end uint64
		for _, v := range vmas {
			if v.Start < end || v.End <= v.Start || len(v.Perms) != 4 || v.RSS < 0 {
				t.Fatalf("bad mapping %+v", v)
			}
			end = v.End
		}
	})
}

// recordedRuns parses lines "start-end FLAGS"; Z is the zero page.
func recordedRuns(t testing.TB, path string) []PageRun {
	return parseFile(t, path, func(text string) ([]PageRun, error) {
		var runs []PageRun
		for line := range strings.Lines(text) {
			var r PageRun
			var flags string
			if _, err := fmt.Sscanf(line, "%x-%x %s", &r.Start, &r.End, &flags); err != nil {
				return nil, err
			}
			if !strings.Contains(flags, "Z") {
				runs = append(runs, r)
			}
		}
		return runs, nil
	})
}

func TestDeviceNumber(t *testing.T) {
	for _, c := range [][2]uint32{{0, 0}, {8, 1}, {0xfe, 0}, {0xabcde, 0x12345678}, {1<<32 - 1, 1<<32 - 1}} {
		if got, want := deviceNumber(uint64(c[0]), uint64(c[1])), unix.Mkdev(c[0], c[1]); got != want {
			t.Errorf("%x: %x, want %x", c, got, want)
		}
	}
}

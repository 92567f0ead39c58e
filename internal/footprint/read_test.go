package footprint_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/footprint"
)

// saved is a small footprint that adds up.
func saved(pid int) *footprint.Footprint {
	limit, headroom := int64(300<<20), int64(30<<20)
	return &footprint.Footprint{
		Schema: footprint.Schema, PID: pid, Name: "app.jar", JDK: "17.0.12", Collector: "G1",
		Time: time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC), RSSBytes: 30 << 20,
		Rows: []footprint.Row{
			{Owner: footprint.JavaHeap, ResidentBytes: 20 << 20, Children: []footprint.Child{{Name: "young", ResidentBytes: 5 << 20}}},
			{Owner: footprint.Malloc, ResidentBytes: 10 << 20},
		},
		Cgroup:   &footprint.Cgroup{Version: 2, Path: "/a", LimitBytes: &limit, UsageBytes: 270 << 20, HeadroomBytes: &headroom},
		Warnings: []string{},
	}
}

func line(t testing.TB, f *footprint.Footprint) string {
	t.Helper()
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRead(t *testing.T) {
	one, two := line(t, saved(1)), line(t, saved(2))
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(one), "", "  "); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		pid        int
	}{
		{"one line", one, 1},
		{"indented", indented.String(), 1},
		{"record", one + "\n" + two + "\n", 2},
		{"record without a last newline", one + "\n" + two, 2},
		{"torn at the end", one + "\n" + two + "\n" + one[:100], 2},
		{"torn at the end, completed", one + "\n" + two + "\n" + one[:100] + "\n\n", 2},
		{"torn in between", one + "\n" + one[:100] + "\n" + two + "\n", 2},
		{"torn at the beginning", one[:1] + "\n" + two + "\n", 2},
		{"torn before the newline", one + "\n" + two, 2},
		{"fields and owners to come", strings.Replace(strings.Replace(one, `"pid"`, `"new":{"a":[1]},"pid"`, 1), `"malloc"`, `"other"`, 1), 1},
	} {
		f, err := footprint.Read(strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if f.PID != c.pid || f.RSSBytes != 30<<20 || len(f.Rows) != 2 {
			t.Errorf("%s: got %+v", c.name, f)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	one := line(t, saved(1))
	change := func(from, to string) string {
		if !strings.Contains(one, from) {
			t.Fatalf("no %s in %s", from, one)
		}
		return strings.Replace(one, from, to, 1)
	}
	for _, c := range []struct{ name, text, says string }{
		{"empty", " \n", "it is empty"},
		{"no JSON", "PK\x03\x04", "not a saved footprint: no JSON object: invalid character"},
		{"torn alone", one[:100], "not a saved footprint: no JSON object: unexpected end"},
		{"no object", "[1]", "not a saved footprint"},
		{"another schema", change(footprint.Schema, "tare.fit/1"), `its schema is "tare.fit/1"`},
		{"no schema", "{}", "it names no schema"},
		{"a later schema last", one + "\n" + change(footprint.Schema, "tare.footprint/2") + "\n", "tare.footprint/2"},
		{"too little", change(`"rssBytes":31457280`, `"rssBytes":31457281`), "its rows add up to 31457280 bytes, rssBytes says 31457281"},
		{"too much", change(`"rssBytes":31457280`, `"rssBytes":31457279`), "its rows add"},
		{"overflow", change(`"residentBytes":20971520`, `"residentBytes":9223372036854775807`), "out of range"},
		{"negative", change(`"residentBytes":20971520`, `"residentBytes":-1`), "out of range"},
		{"negative part", change(`"residentBytes":5242880`, `"residentBytes":-1`), "java-heap young"},
		{"one owner twice", change(`"malloc"`, `"java-heap"`), "two rows"},
		{"fraction", change(`"rssBytes":31457280`, `"rssBytes":3.5`), "rssBytes"},
		{"limit without headroom", change(`"headroomBytes":31457280`, `"headroomBytes":null`), "headroomBytes"},
	} {
		f, err := footprint.Read(strings.NewReader(c.text))
		if err == nil {
			t.Errorf("%s: accepted %+v", c.name, f)
		} else if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A record may be longer than what is read of it; a stream may not.
func TestReadTheEndOfALongRecord(t *testing.T) {
	one, two := line(t, saved(1)), line(t, saved(2))
	path := filepath.Join(t.TempDir(), "record.jsonl")
	text := strings.Repeat(one+"\n", 16<<20/len(one)+2) + two + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if f, err := footprint.Read(file); err != nil || f.PID != 2 {
		t.Errorf("got %+v, %v", f, err)
	}
	stream := struct{ io.Reader }{strings.NewReader(text)}
	if _, err := footprint.Read(stream); err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Errorf("stream: %v", err)
	}
	long := strings.Repeat(" ", 16<<20) + one
	if _, err := footprint.Read(strings.NewReader(long)); err == nil {
		t.Error("accepted a document of more than 16 MiB")
	}
}

// Whatever is accepted adds up, and is the same when it is saved again.
func FuzzRead(f *testing.F) {
	one := line(f, saved(1))
	for _, seed := range []string{
		one, one + "\n" + one[:200], one[:200] + "\n" + one, "{}", "[]", "",
		strings.Replace(one, `"rows":[`, `"rows":[],"Rows":[`, 1),
		strings.Replace(one, `"cgroup":{`, `"cgroup":null,"x":{`, 1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := footprint.Read(bytes.NewReader(text))
		if err != nil {
			if got != nil {
				t.Error("a footprint beside an error")
			}
			return
		}
		var sum int64
		for _, r := range got.Rows {
			if r.ResidentBytes < 0 {
				t.Errorf("%s has %d bytes", r.Owner, r.ResidentBytes)
			}
			sum += r.ResidentBytes
		}
		if sum != got.RSSBytes {
			t.Errorf("rows add up to %d, Rss is %d", sum, got.RSSBytes)
		}
		if got.Cgroup != nil && got.Cgroup.LimitBytes != nil && got.Cgroup.HeadroomBytes == nil {
			t.Error("a limit without headroom")
		}
		again, err := footprint.Read(strings.NewReader(line(t, got)))
		if err != nil || again.RSSBytes != got.RSSBytes || len(again.Rows) != len(got.Rows) {
			t.Errorf("saved again: %+v, %v", again, err)
		}
	})
}

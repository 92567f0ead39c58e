package footprint

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func saved(t testing.TB) []byte {
	t.Helper()
	limit, headroom, cpus := int64(300<<20), int64(-5), 0.5
	f := &Footprint{
		Schema: Schema, PID: 7, JDK: "21.0.2", Threads: 3, Time: time.Unix(1, 0).UTC(), RSSBytes: 8192,
		Heap: &Heap{MaxBytes: 1 << 30, UsedBytes: 100}, Flags: map[string]string{"MaxHeapSize": "1073741824"},
		Cgroup: &Cgroup{Version: 2, LimitBytes: &limit, HeadroomBytes: &headroom, CPUs: &cpus, Events: map[string]int64{"max": 3}},
		Host:   &Host{MemTotalBytes: 2, MemAvailableBytes: 1, Kernel: "6.1.0", THP: "always"},
		Rows: []Row{
			{Owner: JavaHeap, ResidentBytes: 4096, ReservedBytes: &limit, How: Exact, Children: []Child{{ID: "old", Name: "old", ResidentBytes: 5}}},
			{Owner: Malloc, ResidentBytes: 4096, How: Layout},
		},
		Warnings: []string{},
	}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDecode(t *testing.T) {
	text := saved(t)
	f, err := Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(f)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("%s\nbecame\n%s, %v", text, again, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, says string }{
		{"", "", "no JSON object"},
		{`{`, `[`, "no JSON object"},
		{`"schema":"tare.footprint/1"`, `"schema":"tare.fit/1"`, `its schema is "tare.fit/1"`},
		{`"schema"`, `"skema"`, "names no schema"},
		{`"residentBytes":4096`, `"residentBytes":-1`, "-1 is out of range"},
		{`"residentBytes":4096`, `"residentBytes":9007199254740992`, "out of range"},
		{`"residentBytes":5`, `"residentBytes":-5`, `"java-heap old": -5 is out of range`},
		{`"owner":"malloc"`, `"owner":"java-heap"`, `two rows of "java-heap"`},
		{`"headroomBytes":-5`, `"headroomBytes":-9223372036854775808`, "out of range"},
		{`"cpus":0.5`, `"cpus":-1`, "-1 processors"},
		{`"max":3`, `"max":-3`, "out of range"},
		{`"rssBytes":8192`, `"rssBytes":"many"`, "cannot unmarshal"},
		{`{`, `{}{`, "no JSON object"},
	} {
		text := strings.Replace(string(saved(t)), c.old, c.new, 1)
		if c.old == "" {
			text = "hello"
		}
		f, err := Decode(strings.NewReader(text))
		if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s → %s: %v, %v", c.old, c.new, f, err)
		}
	}
	if _, err := Decode(strings.NewReader(strings.Repeat(" ", maxSaved+1))); !errors.Is(err, ErrForeign) {
		t.Errorf("too long: %v", err)
	}
}

// What is read can be written and read again, and is the same.
func FuzzDecode(f *testing.F) {
	f.Add(saved(f))
	f.Add([]byte(`{"schema":"tare.footprint/1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Decode(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, err := json.Marshal(got)
		if err != nil {
			return // a year that JSON cannot have
		}
		same, err := Decode(bytes.NewReader(again))
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if third, err := json.Marshal(same); err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%s\nbecame\n%s, %v", again, third, err)
		}
	})
}

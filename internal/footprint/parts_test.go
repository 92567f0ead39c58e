package footprint

import (
	"encoding/json"
	"strings"
	"testing"
)

// A footprint that was saved before parts had ids is given the same ids.
func TestDecodeWithoutIDs(t *testing.T) {
	parts := func(ids ...string) (out []Child) {
		for _, id := range ids {
			out = append(out, NewChild(id, 1))
		}
		return out
	}
	with := func(c Child, children ...Child) Child { c.Children = children; return c }
	f := Footprint{Schema: Schema, Rows: []Row{
		{Owner: JavaHeap, Children: parts(PartEden, PartFreeHeap, "humongous")},
		{Owner: CodeCache, Children: []Child{with(NewChild(PartJVMCode, 1), parts(partSegmentMap)...)}},
		{Owner: ThreadStacks, Children: append(parts(PartGCThreads, partPrimordial), NewChild(PartLargestThreads, 1))},
		{Owner: CDS, Children: []Child{with(NewChild(FilePart("classes.jsa"), 1), parts(partWritten, partClean)...)}},
		{Owner: Malloc, Children: []Child{
			with(NewChild(PartArenas, 1), parts(kindArena+":1", kindArena+":2")...), NewChild(PartLargeChunks, 1), NewChild(PartFreeMalloc, 1),
			with(NewChild(PartTracked, 1), parts(kindTracked+":Symbol", kindTracked+":old")...),
		}},
		{Owner: MappedFiles, Children: []Child{with(NewChild(FilePart("libjvm.so"), 1), parts(partText, partData, partReadOnly, partZero)...), NewChild(partShared, 1)}},
	}}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	old := map[string]any{}
	if err := json.Unmarshal(text, &old); err != nil {
		t.Fatal(err)
	}
	dropIDs(old)
	without, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(without), `"id"`) {
		t.Fatal("an id is left")
	}
	got, err := Decode(strings.NewReader(string(without)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(text) {
		t.Errorf("got  %s\nwant %s", again, text)
	}
}

func dropIDs(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "id")
		for _, inner := range v {
			dropIDs(inner)
		}
	case []any:
		for _, inner := range v {
			dropIDs(inner)
		}
	}
}

// Every name is that of one id alone, so that it leads back to it.
func TestPartNames(t *testing.T) {
	for id, name := range partNames {
		if idOf(name) != id {
			t.Errorf("%s and %s are both named %q", id, idOf(name), name)
		}
		if strings.ContainsAny(id, "/:") {
			t.Errorf("%s has a separator", id)
		}
	}
}

package jarfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Classes are found at the root of a jar, in its folders of classes, in a jar inside
// that is stored, and in folders; not by part of a name, nor under another package.
func TestHolds(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	in := func(class string) []byte { return pack(t, map[string][]byte{class: nil}) }
	jar := write("app.jar", pack(t, map[string][]byte{
		"a/Root.class": nil, "BOOT-INF/classes/a/Own.class": nil, "BOOT-INF/lib/x.jar!": in("a/Inside.class"), "BOOT-INF/lib/y.jar": in("a/Squeezed.class"),
		"BOOT-INF/lib/broken.jar!": []byte("no jar"), "shaded/a/Shaded.class": nil, "a/Longer$Threads.class": nil,
	}))
	write("classes/a/Folder.class", nil)
	write("broken.jar", []byte("PK"))
	entries := []string{"a/Root.class", "a/Own.class", "a/Inside.class", "a/Squeezed.class", "a/Shaded.class", "a/Longer.class", "a/Folder.class", "a/Longer$Threads.class"}
	got := Holds([]string{jar, filepath.Join(dir, "classes"), filepath.Join(dir, "broken.jar"), "/nowhere"}, entries)
	for _, e := range entries {
		want := !slices.Contains([]string{"a/Squeezed.class", "a/Shaded.class", "a/Longer.class"}, e)
		if got[e] != want {
			t.Errorf("%s: %v", e, got[e])
		}
	}
}

func TestTexts(t *testing.T) {
	dir := t.TempDir()
	jar := filepath.Join(dir, "app.jar")
	data := pack(t, map[string][]byte{
		"BOOT-INF/classes/application.yml": []byte("a: 1"), "application-x.properties": []byte("b=2"), "config/application.yaml": []byte("c: 3"),
		"other/application.yml": nil, "BOOT-INF/classes/notes.txt": nil,
	})
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{jar: data, filepath.Join(dir, "config", "application.properties"): []byte("d=4"), filepath.Join(dir, "huge.yml"): make([]byte, maxManifest+1)} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := Texts([]string{jar, dir, "/nowhere"}, func(base string) bool { return base != "notes.txt" && base != "app.jar" })
	want := map[string]string{jar + "!/BOOT-INF/classes/application.yml": "a: 1", jar + "!/application-x.properties": "b=2", jar + "!/config/application.yaml": "c: 3",
		filepath.Join(dir, "config", "application.properties"): "d=4"}
	if len(got) != len(want) {
		t.Errorf("%d files: %v", len(got), got)
	}
	for name, text := range want {
		if string(got[name]) != text {
			t.Errorf("%s: %q", name, got[name])
		}
	}
}

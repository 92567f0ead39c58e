package jarfile

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// pack makes a jar by archive/zip; a name with "!" at its end is stored.
func pack(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range files {
		h := &zip.FileHeader{Name: strings.TrimSuffix(name, "!"), Method: zip.Deflate}
		if h.Name != name {
			h.Method = zip.Store
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(t testing.TB, data []byte) (*Jar, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.jar")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	j, err := Open(path)
	if err == nil {
		t.Cleanup(func() { j.Close() })
	}
	return j, err
}

func TestClasses(t *testing.T) {
	inner := map[string][]byte{"x/A.class": nil, "x/B.class": nil, "x/readme": nil}
	jar := pack(t, map[string][]byte{
		"a/Main.class": []byte("x"), "BOOT-INF/lib/in.jar!": pack(t, inner), "notes.txt": nil,
		"META-INF/MANIFEST.MF": []byte("Manifest-Version: 1.0\r\nMain-Class: a.Ma\r\n in\r\nClass-Path: lib/a.jar\r\n  lib/b.jar\r\n\r\nName: x\r\nMain-Class: other\r\n"),
	})
	for name, data := range map[string][]byte{"plain": jar, "behind a script": append([]byte("#!/bin/sh\nexec java -jar $0\n"), jar...)} {
		j, err := open(t, data)
		if err != nil {
			t.Fatal(name, err)
		}
		if n := j.Classes(); n != 3 {
			t.Errorf("%s: %d classes", name, n)
		}
		m, err := j.Manifest()
		if err != nil || m["main-class"] != "a.Main" || m["class-path"] != "lib/a.jar lib/b.jar" {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

// Real jars, against archive/zip.
func TestRealJar(t *testing.T) {
	path := jvmtest.Jar(t, "sysinfo.jar")
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	want := 0
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, ".class") {
			want++
		}
	}
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	m, err := j.Manifest()
	if n := j.Classes(); n != want || want < 1000 || m["main-class"] != "dev.tare.sysinfo.Main" || err != nil {
		t.Errorf("%d classes, want %d; %v, %v", n, want, m, err)
	}
}

// More entries than the old record can count.
func TestZip64(t *testing.T) {
	files := map[string][]byte{}
	for i := range 70000 {
		files[fmt.Sprintf("C%d.class", i)] = nil
	}
	j, err := open(t, pack(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if n := j.Classes(); n != 70000 {
		t.Errorf("%d classes", n)
	}
}

func TestNoJar(t *testing.T) {
	for _, data := range []string{"", "PK", "no jar at all", magicEnd, magicEnd + strings.Repeat("\xff", 18)} {
		if _, err := open(t, []byte(data)); err == nil || !strings.Contains(err.Error(), "x.jar: not a jar") {
			t.Errorf("%q: %v", data, err)
		}
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a folder was opened")
	}
	if j, err := open(t, pack(t, nil)); err != nil {
		t.Error(err)
	} else if m, err := j.Manifest(); err != nil || len(m) != 0 || j.Classes() != 0 {
		t.Errorf("an empty jar: %v, %v", m, err)
	}
}

// Whatever the file holds, what is counted fits into it.
func FuzzOpen(f *testing.F) {
	f.Add(pack(f, map[string][]byte{"A.class": nil, "in.jar!": pack(f, map[string][]byte{"B.class": nil}), "META-INF/MANIFEST.MF": []byte("Main-Class: x\n")}))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := newJar("x.jar", bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		seen := 0
		eachEntry(j.entries, func(entry) bool { seen++; return true })
		if seen*directorySize > len(data) {
			t.Errorf("%d entries in %d bytes", seen, len(data))
		}
		if n := j.Classes(); n < 0 {
			t.Errorf("%d classes", n)
		}
		if m, err := j.Manifest(); err == nil {
			for k := range m {
				if k != strings.ToLower(k) {
					t.Errorf("%q", k)
				}
			}
		}
	})
}

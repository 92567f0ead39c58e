package bootjar

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/testkit/bootjartest"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/smalldisk"
)

func TestExtract(t *testing.T) {
	dir := t.TempDir()
	jar, out := filepath.Join(dir, "app.jar"), filepath.Join(dir, "out")
	bootjartest.Write(t, jar, jvmtest.Jar(t, "sysinfo.jar"), map[string]string{"BOOT-INF/lib/../../evil.jar": "x", "BOOT-INF/classes/META-INF/MANIFEST.MF": "Main-Class: Evil\n"})
	when := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(jar, when, when); err != nil {
		t.Fatal(err)
	}
	if !Nested(jar) || Nested(jvmtest.Jar(t, "sysinfo.jar")) || Nested(filepath.Join(dir, "none.jar")) {
		t.Error("which jar holds jars?")
	}
	if got, err := Extract(jar, out); err != nil || got != filepath.Join(out, "app.jar") {
		t.Fatal(got, err)
	}
	if _, err := Extract(jar, out); err == nil || !strings.Contains(err.Error(), out+" holds files") {
		t.Errorf("over another one: %v", err)
	}
	for _, name := range []string{"app.jar", "lib/a service.jar"} {
		if st, err := os.Stat(filepath.Join(out, name)); err != nil || !st.ModTime().Equal(when) {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "evil.jar")); err == nil {
		t.Error("a file is outside of the folder")
	}
	z, err := zip.OpenReader(filepath.Join(out, "app.jar"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if len(z.File) != 2 || z.File[0].Name != "META-INF/MANIFEST.MF" || z.File[1].Name != "application.properties" {
		t.Errorf("%d files", len(z.File))
	}
	// The service runs from it, and its manifest tells the version.
	port := jvmtest.FreePort(t)
	p := jvmtest.Start(t, jvmtest.Java(t, 17), "-jar", filepath.Join(out, "app.jar"), "--port", strconv.Itoa(port))
	p.Await(t, "listening on")
	manifest, err := z.Open("META-INF/MANIFEST.MF")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(manifest)
	if err != nil || !strings.Contains(string(text), "Class-Path: lib/a%20service.jar\r\n") || !strings.Contains(string(text), "Implementation-Version: 1.2") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestExtractRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.jar")
	if err := os.WriteFile(bad, []byte("PK no zip"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, jar := range []string{bad, jvmtest.Jar(t, "sysinfo.jar")} {
		if _, err := Extract(jar, filepath.Join(dir, "out")); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v", jar, err)
		}
	}
}

func TestManifestLines(t *testing.T) {
	b := bootJar{manifest: map[string]string{"start-class": "a.Main"}}
	for range 40 {
		b.libraries = append(b.libraries, &zip.File{FileHeader: zip.FileHeader{Name: "BOOT-INF/lib/some-library-1.2.3.jar"}})
	}
	for line := range strings.SplitSeq(b.plainManifest(), "\r\n") {
		if len(line) > 70 {
			t.Errorf("%d bytes: %s", len(line), line)
		}
	}
}

// On a full disk nothing is left of what was extracted, and the reason is told.
func TestExtractToAFullDisk(t *testing.T) {
	dir := t.TempDir()
	jar := filepath.Join(dir, "app.jar")
	bootjartest.Write(t, jar, jvmtest.Jar(t, "sysinfo.jar"), nil)
	out := filepath.Join(smalldisk.Mount(t, 64<<10), "out")
	_, err := Extract(jar, out)
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), "jars extracted from "+jar) {
		t.Error(err)
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

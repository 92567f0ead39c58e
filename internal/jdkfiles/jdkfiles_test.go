package jdkfiles

import (
	"bytes"
	"maps"
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

// What the files of every JDK say is what its JVM says.
func TestOpen(t *testing.T) {
	for _, major := range jvmtest.Majors(t) {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			r, err := Open(jvmtest.Java(t, major))
			if err != nil {
				t.Fatal(err)
			}
			prefix := strconv.Itoa(major) + "."
			if major == 8 {
				prefix = "1.8.0_"
			}
			if !strings.HasPrefix(r.Version, prefix) || !r.HotSpot() {
				t.Errorf("%+v", r.Release)
			}
			out, err := exec.Command(r.Java, "-version").CombinedOutput()
			if err != nil || !strings.Contains(string(out), `"`+r.Version) {
				t.Errorf("version %s, but: %s, %v", r.Version, out, err)
			}
			if v := libraryVersion(r.readOnly().data); v != r.Version {
				t.Errorf("the library says %q, the release file %q", v, r.Version)
			}
			if path := DefaultArchive(r.Home); path == "" || filepath.Dir(path) != filepath.Dir(r.LibJVM) {
				t.Errorf("archive %q", path)
			}
			// It is the one that the JVM takes: without it, there is none to share.
			if path := CompactArchive(r.Home); path != "" {
				out, err := exec.Command(r.Java, "-XX:+UnlockExperimentalVMOptions", "-XX:+UseCompactObjectHeaders", "-Xshare:on", "-Xlog:cds", "-version").CombinedOutput()
				if err != nil || !bytes.Contains(out, []byte(path)) {
					t.Errorf("archive for compact headers %q, but %v\n%s", path, err, out)
				}
			}
		})
	}
}

// The names that are looked for are there exactly when the JVM has the option:
// every option's own name, and nothing that one of them merely ends with.
func TestHasAgreesWithTheJVM(t *testing.T) {
	printed := regexp.MustCompile(`(?m)^\s*\w+\s+(\w+)\s+:?= `)
	others := []string{"NoSuchOption", "MemoryTracking", "StackSizeX", "CompactObjectHeaders", "Tracking"}
	for _, major := range jvmtest.Majors(t) {
		r, err := Open(jvmtest.Java(t, major))
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(r.Java, "-XX:+UnlockDiagnosticVMOptions", "-XX:+UnlockExperimentalVMOptions",
			"-XX:+PrintFlagsFinal", "-version").Output()
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]bool{}
		for _, m := range printed.FindAllSubmatch(out, -1) {
			has[string(m[1])] = true
		}
		if len(has) < 500 {
			t.Fatalf("JDK %d has %d options", major, len(has))
		}
		for _, flag := range append(slices.Collect(maps.Keys(has)), others...) {
			if r.Has(flag) != has[flag] {
				t.Errorf("JDK %d, %s: %v, want %v", major, flag, r.Has(flag), has[flag])
			}
		}
	}
}

// A launcher that is no part of a JDK, or is damaged, can still be started.
func TestOpenOther(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	java := filepath.Join(dir, "bin", "java")
	if r, err := Open(java); err == nil || r.Java != java || r.HotSpot() {
		t.Errorf("no launcher: %+v, %v", r, err)
	}
	write("bin/java", "#!/bin/sh\n")
	if r, err := Open(java); err != nil || r.Version != "" || r.HotSpot() || r.Has("UseG1GC") {
		t.Errorf("a script: %+v, %v", r, err)
	}
	write("lib/server/libjvm.so", "no library")
	write("release", "JAVA_VERSION=\"21.0.1\"\nJVM_VARIANT=\"Openj9\"\n")
	r, err := Open(java)
	if err != nil || r.Version != "21.0.1" || r.HotSpot() || r.Has("UseG1GC") || r.Problem() == nil || !strings.Contains(r.Problem().Error(), "libjvm.so") {
		t.Errorf("a damaged library: %+v, %v, %v", r, err, r.Problem())
	}
	write("release", "JAVA_VERSION=21\n")
	if r, err := Open(java); err == nil || !strings.Contains(err.Error(), "release, line 1") || r.Version != "" {
		t.Errorf("a damaged release file: %+v, %v", r, err)
	}
}

func TestParseReleaseRejects(t *testing.T) {
	for _, line := range []string{
		`JAVA_VERSION=17`, `JAVA_VERSION="17`, `JAVA_VERSION=""`, `JAVA_VERSION`, "IMPLEMENTOR=\"a\x1b[2Jb\"", "IMPLEMENTOR=\"\xff\"",
		`OS_ARCH="x" y`, `JAVA_VERSION="` + strings.Repeat("1", maxValue+1) + `"`, "OS_ARCH=\"a\"\nOS_ARCH=\"b\"",
	} {
		if r, err := ParseRelease("SOURCE=anything\n" + line + "\n"); err == nil || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q gives %+v, %v", line, r, err)
		}
	}
}

func TestLibraryVersion(t *testing.T) {
	for text, want := range map[string]string{
		"VM (25.504-b01) for linux-amd64 JRE (1.8.0_504-8u504-ga-1-b01), built": "1.8.0_504",
		"VM (17.0.12+7-D) for linux-aarch64 JRE (17.0.12+7-Debian-2), built":    "17.0.12",
		"VM (27-ea) for linux-amd64 JRE (27-ea+3), built":                       "27",
		"VM (1) for linux-amd64 JRE (":                                          "", "VM (1) for linux-amd64 JRE (x)": "", "": "", ") for linux-": "",
	} {
		if got := libraryVersion([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzParseRelease(f *testing.F) {
	f.Add("JAVA_VERSION=\"17.0.12\"\nIMPLEMENTOR=\"Debian\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRelease(text)
		for _, s := range []string{r.Version, r.Vendor, r.Arch, r.Libc} {
			if s != "" && (err != nil || !IsName(s)) {
				t.Errorf("%q gives %+q, %v", text, r, err)
			}
		}
	})
}

func FuzzLibraryVersion(f *testing.F) {
	f.Add([]byte("VM (25.504-b01) for linux-amd64 JRE (1.8.0_504-8u504-ga-1-b01), built"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if v := libraryVersion(data); v != "" && (!IsName(v) || !bytes.Contains(data, []byte(v))) {
			t.Errorf("%q gives %q", data, v)
		}
	})
}

// Whatever a library's headers say, no more is read than is there, or allowed.
func FuzzSection(f *testing.F) {
	h := make([]byte, 64+3*64)
	copy(h, "\x7fELF\x02\x01")
	h[40], h[58], h[60], h[62] = 64, 64, 3, 2
	f.Add(append(h, ".rodata\x00"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := readSection(bytes.NewReader(data), ".rodata"); err == nil && len(got.data) > maxSection {
			t.Errorf("%d bytes", len(got.data))
		}
	})
}

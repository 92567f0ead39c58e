package main

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/hex"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/names"
)

// staged checks that the Java libraries and plugins are as Maven Central wants them, signed,
// and that builds take them from there.
func staged(t *testing.T, tree, out string) {
	r := release{out: out, key: newKey(t)}
	if err := r.sign(); err != nil {
		t.Fatal(err)
	}
	sums := filepath.Join(r.out, "SHA256SUMS")
	if said, err := exec.Command("gpg", "--batch", "--verify", sums+".asc", sums).CombinedOutput(); err != nil {
		t.Errorf("SHA256SUMS: %v: %s", err, said)
	}
	central := filepath.Join(r.out, "maven", "dev", "tare")
	artifacts := map[string]bool{"tare-bom": false, "tare-java": false, "tare-memory": true, "tare-jmh": true, "tare-junit": true,
		"tare-check": true, "tare-maven-plugin": true, "tare-gradle-plugin": true, "dev.tare.gradle.plugin": false}
	for artifact, jars := range artifacts {
		base := filepath.Join(central, artifact, names.Version, artifact+"-"+names.Version)
		files := []string{base + ".pom"}
		if jars {
			files = append(files, base+".jar", base+"-sources.jar", base+"-javadoc.jar")
		}
		for _, file := range files {
			isSummedAndSigned(t, file)
		}
		hasMetadata(t, base+".pom")
	}
	if found, _ := filepath.Glob(filepath.Join(central, "*")); len(found) != len(artifacts) {
		t.Errorf("%q", found)
	}
	resolves(t, r.out)
	plugins(t, tree, r.out)
}

// newKey makes a key of gpg that goes with the test.
func newKey(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") // short: the path of a socket is
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GNUPGHOME", home)
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	const name = "release-test@localhost"
	if said, err := exec.Command("gpg", "--batch", "--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "never").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s: run scripts/setup.sh test", err, said)
	}
	return name
}

func isSummedAndSigned(t *testing.T, file string) {
	t.Helper()
	content := []byte(read(t, file))
	one, other := md5.Sum(content), sha1.Sum(content)
	for ext, want := range map[string]string{".md5": hex.EncodeToString(one[:]), ".sha1": hex.EncodeToString(other[:])} {
		if got := read(t, file+ext); strings.TrimSpace(got) != want {
			t.Errorf("%s%s: %q, want %q", file, ext, got, want)
		}
	}
	if said, err := exec.Command("gpg", "--batch", "--verify", file+".asc", file).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", file, err, said)
	}
}

// hasMetadata checks what central.sonatype.org/publish/requirements asks of a POM: in it,
// or in its parent.
func hasMetadata(t *testing.T, file string) {
	t.Helper()
	var p struct {
		Name        string `xml:"name"`
		Description string `xml:"description"`
		URL         string `xml:"url"`
		Parent      string `xml:"parent>artifactId"`
		Licence     string `xml:"licenses>license>name"`
		Developer   string `xml:"developers>developer>name"`
		SCM         string `xml:"scm>url"`
	}
	if err := xml.Unmarshal([]byte(read(t, file)), &p); err != nil {
		t.Fatal(err)
	}
	own := p.URL == names.Repository && p.Licence == "Apache-2.0" && p.Developer != "" && p.SCM == names.Repository
	if p.Name == "" || p.Description == "" || !own && p.Parent != "tare-java" {
		t.Errorf("%s: %+v", file, p)
	}
}

// resolves builds a program with the libraries as staged, and with nothing else of tare.
// What Maven itself needs comes from what the build of the libraries has fetched.
func resolves(t *testing.T, out string) {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"settings.xml": settings(filepath.Join(dir, "local"), fetchedByMaven(t)),
		"pom.xml": `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>user</artifactId><version>1</version>
<properties><maven.compiler.release>8</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<repositories><repository><id>staged</id><url>file://` + out + `/maven</url></repository></repositories>
<dependencyManagement><dependencies><dependency><groupId>` + names.MavenGroup + `</groupId><artifactId>tare-bom</artifactId><version>` + names.Version + `</version><type>pom</type><scope>import</scope></dependency></dependencies></dependencyManagement>
<dependencies><dependency><groupId>` + names.MavenGroup + `</groupId><artifactId>tare-memory</artifactId></dependency></dependencies>
<build><pluginManagement><plugins>` + fetchedPlugins + `</plugins></pluginManagement></build></project>`,
		"src/main/java/User.java": "import dev.tare.memory.ClassHistogram;\n\nclass User {\n    Class<?> used = ClassHistogram.class;\n}\n",
	} {
		if err := writeBelow(dir, file, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("mvn", "-B", "-ntp", "-q", "-s", "settings.xml", "compile")
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, file := range []string{"target/classes/User.class", "local/dev/tare/tare-memory/" + names.Version + "/tare-memory-" + names.Version + ".jar"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
}

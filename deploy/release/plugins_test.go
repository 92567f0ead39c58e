package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// A tool is a build tool that runs tare check by a plugin of the release, as docs/ci.md sets it up.
type tool struct {
	// files is what a project of it is.
	files map[string]string
	// classes are where it compiles to, reports where the check leaves its. compile is
	// the budget's own build, where no tool does it.
	classes, reports, compile string
	// build is its command, in which what is set has this prefix.
	build  []string
	prefix string
}

// plugins builds projects with the plugins as staged: one that keeps its budget, the same
// with too small a budget, and without tare. Each build, check and run is real.
func plugins(t *testing.T, tree, out string) {
	tare := filepath.Join(t.TempDir(), "tare")
	if said, err := exec.Command("go", "build", "-o", tare, "./cmd/tare").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	page := read(t, filepath.Join(tree, "docs", "ci.md"))
	for name, of := range map[string]tool{"Maven": mavenOf(t, page, out), "Gradle": gradleOf(t, page, out)} {
		t.Run(name, func(t *testing.T) {
			dir := project(t, tree, of)
			reports := filepath.Join(dir, of.reports)
			said, err := of.run(dir, "program="+tare)
			if err != nil || !strings.Contains(said, "All bounds hold.") || !strings.Contains(read(t, filepath.Join(reports, "TEST-tare.xml")), `failures="0"`) {
				t.Fatalf("%v\n%s", err, said)
			}
			budget := filepath.Join(dir, "tare.budget.yaml")
			if err := os.WriteFile(budget, []byte(strings.Replace(read(t, budget), "250MiB", "10MiB", 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			said, err = of.run(dir, "program="+tare)
			if err == nil || !strings.Contains(said, "is not kept") || !strings.Contains(read(t, filepath.Join(reports, "TEST-tare.xml")), `failures="1"`) || !strings.Contains(read(t, filepath.Join(reports, "check.md")), "needed is ") {
				t.Fatalf("%v\n%s", err, said)
			}
			said, err = of.run(dir, "base=none.json", "program="+tare)
			if err == nil || !strings.Contains(said, "bounds no growth") || !strings.Contains(said, "without a verdict, with code 2") {
				t.Errorf("%v\n%s", err, said)
			}
			t.Setenv("PATH", withoutTare(t))
			if said, err = of.run(dir); err == nil || !strings.Contains(said, "tare is not on PATH: install it") {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

// withoutTare is PATH without the folders in which there is a tare.
func withoutTare(t *testing.T) string {
	t.Helper()
	var folders []string
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(folder, "tare")); err != nil {
			folders = append(folders, folder)
		}
	}
	return strings.Join(folders, string(filepath.ListSeparator))
}

func (of tool) run(dir string, set ...string) (string, error) {
	args := of.build[1:]
	for _, s := range set {
		args = append(args, of.prefix+"tare."+s)
	}
	cmd := exec.Command(of.build[0], args...)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// project is a folder with a service of one class and its budget.
func project(t *testing.T, tree string, of tool) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"src/main/java/Subject.java": read(t, filepath.Join(tree, "bench", "check", "subject", "Subject.java")),
		"tare.budget.yaml": fmt.Sprintf(`build: %q
run:
  jdk: %s
  options: [-Xmx32m, -XX:+UseSerialGC, -cp, %s]
  command: [Subject, "{port}"]
  limit: 256m
  load: {urls: ["http://127.0.0.1:{port}/"], requests: 50, duration: 30s}
runs: 4
most:
  needed: 250MiB
`, of.compile, jvmtest.Java(t, 21), of.classes),
	}
	for name, text := range of.files {
		files[name] = text
	}
	for name, text := range files {
		if err := writeBelow(dir, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// blocks are the fenced blocks of a page in a language.
func blocks(t *testing.T, page, language string, want int) []string {
	t.Helper()
	var texts []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		texts = append(texts, m[1])
	}
	if len(texts) != want {
		t.Fatalf("%d blocks of %s", len(texts), language)
	}
	return texts
}

func mavenOf(t *testing.T, page, out string) tool {
	t.Helper()
	local, fetched := t.TempDir(), fetchedByMaven(t)
	return tool{
		classes: "target/classes", reports: "target/tare", prefix: "-D",
		build: []string{"mvn", "-B", "-ntp", "-s", "settings.xml", "verify"},
		files: map[string]string{
			"settings.xml": settings(local, fetched),
			"pom.xml": `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>user</artifactId><version>1</version>
<properties><maven.compiler.release>17</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<pluginRepositories><pluginRepository><id>staged</id><url>file://` + out + `/maven</url></pluginRepository></pluginRepositories>
<build><pluginManagement><plugins>` + fetchedPlugins + `</plugins></pluginManagement><plugins>
` + blocks(t, page, "xml", 1)[0] + `</plugins></build></project>`,
		},
	}
}

func gradleOf(t *testing.T, page, out string) tool {
	t.Helper()
	if _, err := exec.LookPath("gradle"); err != nil {
		t.Fatalf("%v: run scripts/setup.sh test", err)
	}
	groovy := blocks(t, page, "groovy", 2)
	// The plugin as staged, and what Maven has fetched for it, in the place of what serves them.
	repositories := fmt.Sprintf("maven { url 'file://%s/maven' }\n    maven { url 'file://%s' }", out, fetchedByMaven(t))
	settings := strings.Replace(groovy[0], "mavenCentral()\n    gradlePluginPortal()", repositories, 1)
	if settings == groovy[0] {
		t.Fatalf("docs/ci.md names other repositories:\n%s", settings)
	}
	return tool{
		classes: "build/classes/java/main", reports: "build/tare", prefix: "-P",
		build: []string{"gradle", "--no-daemon", "--offline", "-g", t.TempDir(), "tareCheck"},
		files: map[string]string{"settings.gradle": settings, "build.gradle": groovy[1]},
	}
}

// fetchedByMaven is the repository with what the build of the libraries has fetched.
func fetchedByMaven(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(home, ".m2", "repository")
}

// settings let Maven keep its files in a folder, and take those of Central from another.
func settings(local, fetched string) string {
	return `<settings><localRepository>` + local + `</localRepository><mirrors><mirror><id>fetched</id><mirrorOf>central</mirrorOf><url>file://` + fetched + `</url></mirror></mirrors></settings>`
}

// fetchedPlugins are the versions of Maven's own plugins that the build of the libraries has.
const fetchedPlugins = `
<plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin>
<plugin><artifactId>maven-compiler-plugin</artifactId><version>3.14.1</version></plugin>
<plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.6</version></plugin>
<plugin><artifactId>maven-jar-plugin</artifactId><version>3.5.1</version></plugin>`

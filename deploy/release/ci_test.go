package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"tare.dev/tare/internal/names"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// action is what the runner reads of action.yml:
// docs.github.com/actions/reference/workflows-and-actions/metadata-syntax.
type action struct {
	Name, Description, Author string
	Branding                  map[string]string
	Inputs                    map[string]struct {
		Description, Default string
		Required             bool
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []struct {
			Name, ID, Shell, Run string
			WorkingDirectory     string `yaml:"working-directory"`
			Env                  map[string]string
		}
	}
}

var expression = regexp.MustCompile(`\$\{\{\s*([^}]*?)\s*\}\}`)

// ran is what a run of the action left.
type ran struct {
	ok                    bool
	said, summary, result string
}

// runAction does what the runner does with the action in a folder: inputs are filled in,
// steps run by bash one after the other until one fails, and files carry on what they say.
func runAction(t *testing.T, root string, inputs map[string]string) ran {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.UnmarshalWithOptions(text, &a, yaml.Strict()); err != nil {
		t.Fatalf("action.yml: %v", err)
	}
	temp := t.TempDir()
	values := map[string]string{"runner.temp": temp, "github.action_path": root}
	for name, in := range a.Inputs {
		values["inputs."+name] = in.Default
	}
	for name, value := range inputs {
		if _, ok := a.Inputs[name]; !ok {
			t.Fatalf("the action has no input %s", name)
		}
		values["inputs."+name] = value
	}
	fill := func(text string) string {
		return expression.ReplaceAllStringFunc(text, func(e string) string {
			name := expression.FindStringSubmatch(e)[1]
			value, ok := values[name]
			if !ok && !strings.HasPrefix(name, "steps.run.outputs.") { // empty, if that step was not reached
				t.Errorf("action.yml: nothing is called %s", name)
			}
			return value
		})
	}
	if a.Runs.Using != "composite" || len(a.Runs.Steps) == 0 {
		t.Fatalf("action.yml: %+v", a.Runs)
	}
	r := ran{ok: true}
	path := os.Getenv("PATH")
	for i, step := range a.Runs.Steps {
		if step.Shell != "bash" || expression.MatchString(step.Run) {
			t.Errorf("step %q: shell %q; an expression in a script is evaluated by it", step.Name, step.Shell)
		}
		file := func(name string) string { return filepath.Join(temp, name+string(rune('0'+i))) }
		for _, name := range []string{"PATH", "OUTPUT", "SUMMARY", "ENV"} {
			if err := os.WriteFile(file(name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(file("script"), []byte(step.Run), 0o644); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", file("script"))
		cmd.Dir = temp
		if step.WorkingDirectory != "" {
			cmd.Dir = fill(step.WorkingDirectory)
		}
		cmd.Env = append(os.Environ(), "PATH="+path, "GITHUB_PATH="+file("PATH"), "GITHUB_OUTPUT="+file("OUTPUT"), "GITHUB_ENV="+file("ENV"), "GITHUB_STEP_SUMMARY="+file("SUMMARY"))
		for name, value := range step.Env {
			cmd.Env = append(cmd.Env, name+"="+fill(value))
		}
		said, err := cmd.CombinedOutput()
		r.said += string(said)
		r.summary += read(t, file("SUMMARY"))
		for line := range strings.Lines(read(t, file("PATH"))) {
			path = strings.TrimSpace(line) + ":" + path
		}
		for line := range strings.Lines(read(t, file("OUTPUT"))) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values["steps."+step.ID+".outputs."+name] = value
		}
		if err != nil {
			r.ok = false
			break
		}
	}
	r.result = fill(a.Outputs["exit-code"].Value)
	return r
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// downloads is a folder of versions with a release in it.
func downloads(t *testing.T, out string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(out, filepath.Join(dir, "v"+names.Version)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// actionRuns runs the action of the tree with a release.
func actionRuns(t *testing.T, root, out string) {
	dir := downloads(t, out)
	r := runAction(t, root, map[string]string{"downloads": dir, "command": "version", "args": "--json\n"})
	if !r.ok || r.result != "0" || !strings.Contains(r.summary, `"schema": "tare.version/1"`) {
		t.Errorf("%+v", r)
	}
	r = runAction(t, root, map[string]string{"downloads": dir, "command": "version", "sudo": "true"})
	if !r.ok || r.result != "0" || !strings.Contains(r.summary, "tare "+names.Version) {
		t.Errorf("as root: %+v", r)
	}
	// What fails, fails the step, with its code; and words are words.
	r = runAction(t, root, map[string]string{"downloads": dir, "command": "weigh", "args": "$(touch evaluated); `touch evaluated`\n"})
	if r.ok || r.result == "0" || r.result == "" || !strings.Contains(r.summary, "$(touch evaluated)") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat("evaluated"); err == nil {
		t.Error("an argument was evaluated")
	}
	// By default it checks a budget, and the summary is its table.
	r = runAction(t, root, map[string]string{"downloads": dir, "working-directory": checked(t, root)})
	if !r.ok || r.result != "0" || !strings.Contains(r.summary, "All bounds hold.") || !strings.Contains(r.summary, "| needed |") || strings.Contains(r.summary, "~~~") {
		t.Errorf("%+v", r)
	}
	r = runAction(t, root, map[string]string{"downloads": dir, "working-directory": t.TempDir()})
	if r.ok || r.result != "2" || !strings.Contains(r.summary, "write one as docs/check.md shows") {
		t.Errorf("%+v", r)
	}
	if r = runAction(t, root, map[string]string{"downloads": dir, "version": "7.7.7"}); r.ok || !strings.Contains(r.said, "install.sh: error: ") {
		t.Errorf("%+v", r)
	}
}

// checked is a folder with a budget that is kept.
func checked(t *testing.T, root string) string {
	t.Helper()
	javac := filepath.Join(jvmtest.Home(t, 21), "bin", "javac")
	return project(t, root, tool{classes: "classes", compile: javac + " -nowarn -d classes src/main/java/Subject.java"})
}

// gitlabRuns fills in the inputs of the component and runs its job, as
// docs.gitlab.com/ci/inputs says.
func gitlabRuns(t *testing.T, root, out string) {
	header, body, ok := bytes.Cut([]byte(read(t, filepath.Join(root, "deploy", "gitlab", "tare.yml"))), []byte("\n---\n"))
	var spec struct {
		Spec struct {
			Inputs map[string]struct{ Description, Default string }
		}
	}
	if err := yaml.UnmarshalWithOptions(header, &spec, yaml.Strict()); err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	filled := regexp.MustCompile(`\$\[\[\s*inputs\.(\w+)\s*\]\]`).ReplaceAllStringFunc(string(body), func(e string) string {
		in, ok := spec.Spec.Inputs[strings.Trim(strings.TrimPrefix(strings.Trim(e, "$[] "), "inputs."), " ")]
		if !ok {
			t.Errorf("no input %s", e)
		}
		return in.Default
	})
	var jobs map[string]struct {
		Stage, Image string
		Variables    map[string]string
		Script       []string
		Artifacts    struct {
			When    string
			Paths   []string
			Reports map[string]string
		}
	}
	if err := yaml.UnmarshalWithOptions([]byte(filled), &jobs, yaml.Strict()); err != nil || len(jobs) != 1 {
		t.Fatalf("%v: %s", err, filled)
	}
	job, dir := jobs["tare"], checked(t, root)
	// The one address is made a file's.
	script := strings.ReplaceAll(strings.Join(job.Script, "\n"), "curl -fsSL \"${TARE_DOWNLOADS:-"+names.Downloads+"}", "cat \"${TARE_DOWNLOADS}")
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TARE_DOWNLOADS="+downloads(t, out), "CI_PROJECT_DIR="+dir)
	for name, value := range job.Variables {
		cmd.Env = append(cmd.Env, name+"="+strings.ReplaceAll(value, "$CI_PROJECT_DIR", dir))
	}
	if said, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(said), "All bounds hold.") {
		t.Errorf("%v: %s", err, said)
	}
	for _, path := range append(job.Artifacts.Paths, job.Artifacts.Reports["junit"]) {
		if read(t, filepath.Join(dir, path)) == "" {
			t.Errorf("%s is empty", path)
		}
	}
}

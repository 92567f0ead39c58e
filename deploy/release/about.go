package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"text/template"

	"tare.dev/tare/internal/names"
)

// A sum is a file of the release and the SHA-256 of what it has.
type sum struct{ name, sha256 string }

// sumsOf sums all files below a folder, in the order of their names.
func sumsOf(dir string) ([]sum, error) {
	var sums []sum
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		hash := sha256.New()
		if _, err := io.Copy(hash, f); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		sums = append(sums, sum{filepath.ToSlash(name), hex.EncodeToString(hash.Sum(nil))})
		return err
	})
	return sums, err
}

//go:embed tare.rb.tmpl
var formulaText string

var formulaTemplate = template.Must(template.New("tare.rb").Option("missingkey=error").Parse(formulaText))

// formula is the formula of Homebrew: docs.brew.sh/Formula-Cookbook.
func (r *release) formula(sums []sum) ([]byte, error) {
	data := map[string]string{"Class": strings.ToUpper(names.Formula[:1]) + names.Formula[1:], "Summary": summary, "Homepage": names.Repository, "Version": r.version, "Downloads": names.Downloads + "/v" + r.version}
	for _, s := range sums {
		for _, arch := range []string{"amd64", "arm64"} {
			if s.name == "tare-"+r.version+"-linux-"+arch+".tar.gz" {
				data[arch] = s.sha256
			}
		}
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if data[arch] == "" {
			return nil, fmt.Errorf("the formula: no archive for %s", arch)
		}
	}
	var b bytes.Buffer
	err := formulaTemplate.Execute(&b, data)
	return b.Bytes(), err
}

var toolVersion = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)

// provenance says what the files were made from and how: a statement of in-toto
// (in-toto.io/Statement/v1) with the predicate slsa.dev/spec/v1.0/provenance. It has no
// time and no machine, which the bytes do not depend on.
func (r *release) provenance(sums []sum) ([]byte, error) {
	type digest map[string]string
	type artifact struct {
		Name   string `json:"name,omitempty"`
		URI    string `json:"uri,omitempty"`
		Digest digest `json:"digest,omitempty"`
	}
	var subjects []artifact
	for _, s := range sums {
		subjects = append(subjects, artifact{Name: s.name, Digest: digest{"sha256": s.sha256}})
	}
	modules, err := os.ReadFile("go.sum")
	if err != nil {
		return nil, err
	}
	tools := map[string]any{"go": runtime.Version(), "nfpm": nfpm, "sourceDateEpoch": r.date.Unix()}
	if r.java {
		for name, args := range map[string][]string{"javac": {"javac", "-version"}, "maven": {"mvn", "-q", "--version"}} {
			said, err := command(args[0], args[1:]...)
			if err != nil {
				return nil, err
			}
			tools[name] = toolVersion.FindString(said)
		}
	}
	return json.MarshalIndent(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          names.Repository + "/blob/main/deploy/release",
				"externalParameters": map[string]any{"version": r.version, "architectures": r.architectures, "command": "make release VERSION=" + r.version},
				"internalParameters": tools,
				"resolvedDependencies": []artifact{
					{URI: "git+" + names.Repository, Digest: digest{"gitCommit": r.commit}},
					{Name: "go.sum", Digest: digest{"sha256": fmt.Sprintf("%x", sha256.Sum256(modules))}},
				},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": names.Repository + "/blob/main/Makefile"}},
		},
	}, "", "  ")
}

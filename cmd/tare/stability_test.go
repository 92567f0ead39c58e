package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/budget"
	"tare.dev/tare/internal/check"
	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/jmhreport"
	"tare.dev/tare/internal/lab"
	"tare.dev/tare/internal/profile"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/testkit/jvmtest"
)

var updateFields = flag.Bool("stability.update", false, "write the fields of the JSON as they are, after a field was added")

// promised is the text below a heading of docs/stability.md.
func promised(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(jvmtest.Root(t), "docs", "stability.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/stability.md has no part %q", heading)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

// quoted are the words in code marks of the first column, or of a list.
func quoted(text, pattern string) []string {
	var words []string
	for _, m := range regexp.MustCompile("`("+pattern+")`").FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	slices.Sort(words)
	return words
}

// What docs/stability.md promises is what the program has.
func TestStable(t *testing.T) {
	if got, want := quoted(promised(t, "Schemas"), `tare\.[\w.-]+/\d+`), slices.Sorted(slices.Values(schemas)); !slices.Equal(got, want) {
		t.Errorf("schemas: the page has %q, the program %q", got, want)
	}
	var owners []string
	for _, m := range budget.Measures() {
		if string(m.Owner) == m.Name {
			owners = append(owners, m.Name)
		}
	}
	slices.Sort(owners)
	if got := quoted(promised(t, "Owners"), `[a-z][a-z-]+`); !slices.Equal(got, owners) {
		t.Errorf("owners: the page has %q, the program %q", got, owners)
	}
	var codes []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(promised(t, "Exit codes"), -1) {
		codes = append(codes, m[1])
	}
	var help []string
	for _, m := range regexp.MustCompile(`(?:^|[·\n] ?)(\d+) `).FindAllStringSubmatch(exitCodesHelp, -1) {
		help = append(help, m[1])
	}
	if !slices.Equal(codes, help) || len(codes) < 10 {
		t.Errorf("exit codes: the page has %q, the help %q", codes, help)
	}
}

// written are the types whose JSON is promised; tare.exec/1, tare.document/1 and
// tare.kube.top/1 are of no exported type.
var written = map[string]any{
	autopsy.Schema: autopsy.Report{}, autopsy.PodSchema: autopsy.PodReport{}, check.Schema: check.Result{}, check.TrendSchema: check.Point{},
	doctor.Schema: doctor.Report{}, report.BakeSchema: report.Bake{}, report.DiffSchema: report.Diff{}, report.FitListSchema: report.FitListJSON{},
	report.FitSchema: report.FitJSON{}, footprint.Schema: footprint.Footprint{}, jmhreport.ComparisonSchema: jmhreport.Comparison{},
	jmhreport.ReportSchema: jmhreport.Report{}, lab.Schema: lab.Record{}, profile.Schema: profile.Profile{}, versionSchema: version{},
}

// No field of the JSON that was there goes, or changes its type, under the same number of
// its schema. One that is added is written down with -stability.update.
func TestFieldsAreKept(t *testing.T) {
	fields := map[string]string{}
	for schema, v := range written {
		jsonFields(reflect.TypeOf(v), schema, nil, fields)
	}
	file := filepath.Join("testdata", "fields.txt")
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(kept)) {
		path, kind, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		known[path] = true
		if fields[path] != kind {
			t.Errorf("%s was of type %s, and is %q: give the schema another number", path, kind, fields[path])
		}
	}
	if *updateFields && !t.Failed() {
		var text strings.Builder
		for _, path := range slices.Sorted(maps.Keys(fields)) {
			fmt.Fprintf(&text, "%s %s\n", path, fields[path])
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for path := range fields {
		if !known[path] {
			t.Errorf("%s is new: go test ./cmd/tare -run TestFieldsAreKept -stability.update", path)
		}
	}
	if len(known) < 200 {
		t.Errorf("%d fields", len(known))
	}
}

// jsonFields notes what encoding/json writes of a type, by its path.
func jsonFields(of reflect.Type, path string, above []reflect.Type, fields map[string]string) {
	switch {
	case of.Kind() == reflect.Pointer:
		jsonFields(of.Elem(), path, above, fields)
	case of == reflect.TypeFor[time.Time]() || of == reflect.TypeFor[json.RawMessage]() || of.Implements(reflect.TypeFor[json.Marshaler]()):
		fields[path] = of.String()
	case of.Kind() == reflect.Slice || of.Kind() == reflect.Array:
		jsonFields(of.Elem(), path+"[]", above, fields)
	case of.Kind() == reflect.Map:
		jsonFields(of.Elem(), path+"{}", above, fields)
	case of.Kind() == reflect.Struct:
		if slices.Contains(above, of) {
			fields[path] = "as above"
			return
		}
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported() && !f.Anonymous:
			case f.Anonymous && name == "":
				jsonFields(f.Type, path, append(above, of), fields)
			default:
				if name == "" {
					name = f.Name
				}
				jsonFields(f.Type, fmt.Sprintf("%s.%s", path, name), append(above, of), fields)
			}
		}
	default:
		fields[path] = of.Kind().String()
	}
}

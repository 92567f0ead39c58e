package jvmtest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A JDK that is no longer served is left out by name; one that is required, or
// missing for another reason, is an error.
func TestServed(t *testing.T) {
	for _, c := range []struct {
		what     string
		there    []int
		unserved []int
		want     []int
		err      string
	}{
		{"all", []int{8, 11, 17, 21, 25, 26, 27}, nil, []int{8, 11, 17, 21, 25, 26, 27}, ""},
		{"some gone", []int{8, 17, 25, 27}, []int{11, 21, 26}, []int{8, 17, 25, 27}, ""},
		{"a newer one", []int{8, 11, 17, 21, 25, 29, 28}, []int{26, 27}, []int{8, 11, 17, 21, 25, 28, 29}, ""},
		{"missing", []int{8, 11, 17, 25, 26, 27}, nil, nil, "JDK 21 is not in the cache: run scripts/jdks.sh 21"},
		{"required", []int{8, 11, 21, 25, 26, 27}, []int{17}, nil, "JDK 17 is not in the cache"},
		{"none newer", []int{8, 11, 17, 21, 25}, []int{26, 27}, nil, "no JDK newer than 25"},
		{"nothing", nil, nil, nil, "JDK 8 is not in the cache"},
	} {
		jdks := t.TempDir()
		for _, major := range c.there {
			touch(t, filepath.Join(jdks, strconv.Itoa(major), "bin", "java"), "")
		}
		for _, major := range c.unserved {
			touch(t, filepath.Join(jdks, ".unserved", strconv.Itoa(major)), "no suite has it\n")
		}
		got, gone, err := served(jdks)
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", c.what, got, err)
		}
		if err != nil {
			continue
		}
		var want []string
		for _, major := range c.unserved {
			want = append(want, "JDK "+strconv.Itoa(major)+" is left out: no suite has it")
		}
		if !slices.Equal(gone, want) {
			t.Errorf("%s: %q, want %q", c.what, gone, want)
		}
	}
}

func touch(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindJava(t *testing.T) {
	dir := t.TempDir()
	program := func(name string) string {
		path := filepath.Join(dir, name)
		writeFile(t, path, "#!/bin/sh\n")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second, home := program("a/java"), program("b/java"), program("home/bin/java")
	writeFile(t, filepath.Join(dir, "plain/java"), "no program")
	self, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + strings.Join([]string{".", filepath.Join(dir, "plain"), filepath.Dir(first), filepath.Dir(second)}, ":")
	javaHome := "JAVA_HOME=" + filepath.Join(dir, "home")
	for _, c := range []struct {
		what, name string
		env        []string
		self       os.FileInfo
		homeFirst  bool
		want       string
	}{
		{"PATH", "java", []string{path, javaHome}, nil, false, first},
		{"not itself", "java", []string{path}, self, false, second},
		{"JAVA_HOME after PATH", "java", []string{"PATH=/nonexistent", javaHome}, nil, false, home},
		{"JAVA_HOME first", "java", []string{path, javaHome}, self, true, home},
		{"no JAVA_HOME", "java", []string{path}, self, true, second},
		{"the last setting counts", "java", []string{"PATH=" + filepath.Dir(second), path}, nil, false, first},
		{"by path", second, nil, self, true, second},
	} {
		got, err := findJava(c.name, c.env, c.self, c.homeFirst)
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.what, got, err, c.want)
		}
	}
	for _, c := range []struct {
		name, want string
		env        []string
	}{
		{"java", "PATH and JAVA_HOME are empty", nil},
		{"java", "there is no java in " + dir + "/plain, " + dir + "/bin: install", []string{"PATH=" + dir + "/plain", "JAVA_HOME=" + dir}},
		{dir + "/plain/java", "is no program", nil},
		{first, "is this launcher itself", nil},
		{dir + "/none/java", "no such file", nil},
	} {
		got, err := findJava(c.name, c.env, self, false)
		if !errors.Is(err, ErrNoJava) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

func TestKernelBefore(t *testing.T) {
	for release, want := range map[string]bool{
		"6.1.0-18-amd64": true, "6.7.0": false, "6.18.44": false, "5.15.0": true, "7.0": false, "6.6+": true, "": false, "linux": false,
	} {
		if got := kernelBefore(release, 6, 7); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tare.dev/tare/internal/elffile"
	"tare.dev/tare/internal/jvmopts"
)

// ErrNoJava says that there is no java launcher to start.
var ErrNoJava = errors.New("no java found")

// findJava finds the launcher that a command names. A name with a slash is taken
// as it is. For a bare name the folders of PATH are searched, as a shell would,
// and then JAVA_HOME; with homeFirst, for a launcher that itself is called
// java, JAVA_HOME goes first. self is this program, which is never found, nor is a
// copy of it, which would look for java in its turn.
func findJava(name string, env []string, self os.FileInfo, homeFirst bool) (string, error) {
	if strings.Contains(name, "/") {
		if err := runnable(name, self); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoJava, err)
		}
		return name, nil
	}
	places := searchPath(env)
	if home := getenv(env, "JAVA_HOME"); home != "" {
		bin := filepath.Join(home, "bin")
		if homeFirst {
			places = append([]string{bin}, places...)
		} else {
			places = append(places, bin)
		}
	}
	for _, dir := range places {
		if path := filepath.Join(dir, name); runnable(path, self) == nil && (self == nil || !isLauncher(path)) {
			return path, nil
		}
	}
	if len(places) == 0 {
		return "", fmt.Errorf("%w: PATH and JAVA_HOME are empty: set one of them", ErrNoJava)
	}
	return "", fmt.Errorf("%w: there is no %s in %s: install a JDK there, or set JAVA_HOME or PATH",
		ErrNoJava, name, strings.Join(places, ", "))
}

// searchPath is the absolute folders of PATH: what a relative one holds depends
// on the working folder.
func searchPath(env []string) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(getenv(env, "PATH")) {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func runnable(path string, self os.FileInfo) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is no program", path)
	case self != nil && os.SameFile(st, self):
		return fmt.Errorf("%s is this launcher itself", path)
	}
	return nil
}

// isLauncher says whether a program is this launcher, of whatever version: two
// copies that are called java would start each other for ever. Go writes the path
// of a program's module into it (Go: cmd/go/internal/modload, build.go).
func isLauncher(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	section, err := elffile.Find(f, ".go.buildinfo")
	if err != nil {
		return false
	}
	text := make([]byte, min(section.Size(), maxBuildInfo))
	n, _ := f.ReadAt(text, int64(section.Start))
	return bytes.Contains(text[:n], []byte("path\t"+launcherPath+"\n"))
}

const (
	// launcherPath is the package of the program that is called java.
	launcherPath = "tare.dev/tare/cmd/tare-exec"
	maxBuildInfo = 64 << 10
)

// getenv looks a variable up; of several settings the last counts, as in
// os/exec.
func getenv(env []string, name string) string {
	value, _ := jvmopts.LookupEnv(env, name)
	return value
}

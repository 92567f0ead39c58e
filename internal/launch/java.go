package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrNoJava says that there is no java launcher to start.
var ErrNoJava = errors.New("no java found")

// findJava finds the launcher that a command names. A name with a slash is taken
// as it is. For a bare name the folders of PATH are searched, as a shell would,
// and then JAVA_HOME; with homeFirst, for a launcher that itself is called
// java, JAVA_HOME goes first. self is this program, which is never found.
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
		if path := filepath.Join(dir, name); runnable(path, self) == nil {
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

// getenv looks a variable up; of several settings the last counts, as in
// os/exec.
func getenv(env []string, name string) string {
	value, _ := lookupEnv(env, name)
	return value
}

func lookupEnv(env []string, name string) (string, bool) {
	value, found := "", false
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value, found = v, true
		}
	}
	return value, found
}

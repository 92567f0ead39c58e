package runjava

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare.dev/tare/internal/jvmopts"
)

// maxFile is far above what the files hold that are read here.
const maxFile = 1 << 20

func isFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

func isDir(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

// readFile reads a file of bounded size.
func readFile(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes: check that it is the right file", name, maxFile)
	}
	return string(text), err
}

// archives are the names in a folder of what java -jar may run. What the shade
// plugin of Maven leaves beside its work starts with "original-".
func archives(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		name := e.Name()
		archive := strings.HasSuffix(name, ".jar") || strings.HasSuffix(name, ".war")
		if archive && name[0] != '.' && !strings.HasPrefix(name, "original-") && isFile(filepath.Join(dir, name)) {
			names = append(names, name)
		}
	}
	return names, err
}

// firstFile finds a file by its name or else, as the script's shell does, by a
// pattern: the first in order.
func firstFile(name string) (string, bool) {
	if isFile(name) {
		return name, true
	}
	if !strings.ContainsAny(name, "*?[") {
		return "", false
	}
	found, err := filepath.Glob(name)
	if err != nil {
		return "", false
	}
	slices.Sort(found)
	if i := slices.IndexFunc(found, isFile); i >= 0 {
		return found[i], true
	}
	return "", false
}

// ScriptDir is the folder of the launcher as it was called: of argv0, found in
// PATH if it has no slash. dir is the working folder. Links are not followed:
// run-java.sh may be one.
func ScriptDir(argv0, dir string, env []string) string {
	if strings.Contains(argv0, "/") {
		return absolute(filepath.Dir(argv0), dir)
	}
	path, _ := jvmopts.LookupEnv(env, "PATH")
	for _, place := range filepath.SplitList(path) {
		if !filepath.IsAbs(place) {
			continue
		}
		if st, err := os.Stat(filepath.Join(place, argv0)); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return filepath.Clean(place)
		}
	}
	return dir
}

func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// run is the command run: it finds the application and what java needs.
func (p *planner) run(args []string) error {
	if err := p.loadEnv(); err != nil {
		return err
	}
	p.plan.Args = args
	app := p.vars.get("JAVA_APP_DIR")
	if !isDir(app) {
		return exit("No directory " + app + " found: set JAVA_APP_DIR to the application's folder")
	}
	p.vars.export("OLDPWD", p.plan.Dir)
	p.vars.export("PWD", app)
	p.plan.Dir = app
	if main := words(p.vars.get("JAVA_MAIN_CLASS")); len(main) > 0 {
		p.plan.Main = main
	} else {
		p.plan.Main = []string{"-jar", p.vars.get("JAVA_APP_JAR")}
	}
	if name := p.vars.get("JAVA_APP_NAME"); name != "" {
		p.plan.Argv0 = name
	}
	hide := p.vars.get("HIDE_CMD_LINE")
	p.plan.Quiet = hide == "1" || hide == "true"
	p.addAll()
	var err error
	p.plan.Classpath, err = p.classpath()
	return err
}

// loadEnv reads run-env.sh and settles where the application is.
func (p *planner) loadEnv() error {
	if err := p.source(); err != nil {
		return err
	}
	app := p.vars.get("JAVA_APP_DIR")
	if app == "" {
		app = p.in.ScriptDir
	}
	app = absolute(app, p.in.Dir)
	p.vars.export("JAVA_APP_DIR", app)
	lib := p.vars.get("JAVA_LIB_DIR")
	if lib == "" {
		lib = app
	}
	p.vars.export("JAVA_LIB_DIR", lib)
	main, jar := p.vars.get("JAVA_MAIN_CLASS"), p.vars.get("JAVA_APP_JAR")
	if len(words(main)) == 0 && jar == "" {
		var err error
		if jar, err = p.detectJar(app); err != nil {
			return err
		}
	}
	if jar == "" {
		p.vars.export("JAVA_MAIN_CLASS", main)
		return nil
	}
	path, err := p.findJar(jar, app, lib)
	if err != nil {
		return err
	}
	p.vars.export("JAVA_APP_JAR", path)
	return nil
}

// detectJar finds the one jar or war of a folder.
func (p *planner) detectJar(dir string) (string, error) {
	if !isDir(dir) {
		return "", exit("No directory " + dir + " found for auto detection: set JAVA_APP_DIR to the application's folder")
	}
	names, err := archives(dir)
	if err != nil {
		return "", fmt.Errorf("the jars in %s cannot be listed: %w: check its permissions, or set JAVA_APP_JAR", dir, err)
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", exit(fmt.Sprintf("Neither JAVA_MAIN_CLASS nor JAVA_APP_JAR is set and %d found in %s (1 expected)%s", len(names), dir, choices(names)))
}

// choices is the next step after several jars, or none.
func choices(names []string) string {
	const most = 3
	switch {
	case len(names) == 0:
		return ": put a jar or war there, or set JAVA_APP_DIR"
	case len(names) > most:
		return ": set JAVA_APP_JAR to one of " + strings.Join(names[:most], ", ") + " …"
	}
	return ": set JAVA_APP_JAR to one of " + strings.Join(names, ", ")
}

// findJar finds a jar by its path, or by its name in the application's folder
// and then that of its libraries.
func (p *planner) findJar(jar, app, lib string) (string, error) {
	if filepath.IsAbs(jar) {
		if path, ok := firstFile(jar); ok {
			return path, nil
		}
		return "", exit("No such file " + jar + ": set JAVA_APP_JAR to the application's jar")
	}
	for _, dir := range []string{app, lib} {
		name := dir + "/" + jar
		if path, ok := firstFile(absolute(name, app)); ok {
			if strings.HasSuffix(path, "/"+jar) {
				path = name
			}
			return path, nil
		}
	}
	return "", exit("No " + jar + " found in " + app + " " + lib + ": set JAVA_APP_JAR to the application's jar")
}

// classpath is the value of -cp: JAVA_CLASSPATH, else the folders, and with
// JAVA_MAIN_CLASS what the file classpath lists, or all jars.
func (p *planner) classpath() (string, error) {
	if given := p.vars.get("JAVA_CLASSPATH"); given != "" {
		return given, nil
	}
	app, lib, jar := p.vars.get("JAVA_APP_DIR"), p.vars.get("JAVA_LIB_DIR"), p.vars.get("JAVA_APP_JAR")
	parts := []string{"."}
	if lib != app {
		parts = append(parts, lib)
	}
	if len(words(p.vars.get("JAVA_MAIN_CLASS"))) == 0 {
		return strings.Join(parts, ":"), nil
	}
	if jar != "" {
		parts = append(parts, jar)
	}
	file := filepath.Join(absolute(lib, app), "classpath")
	if !isFile(file) {
		return strings.Join(append(parts, app+"/*"), ":"), nil
	}
	list, err := readFile(file)
	if err != nil {
		return "", fmt.Errorf("the class path cannot be read: %w: correct the file, or set JAVA_CLASSPATH", err)
	}
	parts = append(parts, listedClasspath(list, lib, jar)...)
	return strings.Join(parts, ":"), nil
}

// listedClasspath reads the file classpath: a class path in one line, or a jar
// in each of several, named from the folder of the libraries. The application's
// jar is not repeated.
func listedClasspath(list, lib, jar string) []string {
	var parts []string
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	if len(parts) < 2 {
		return parts
	}
	for i, line := range parts {
		if !filepath.IsAbs(line) {
			parts[i] = lib + "/" + line
		}
	}
	return slices.DeleteFunc(parts, func(path string) bool { return path == jar })
}

package runjava

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tare.dev/tare/internal/jvmopts"
)

const (
	shell   = "/bin/sh"
	envFile = "run-env.sh"

	optionsProgram = "run-java-options"
)

// OptionsFile is where the script looks first for run-java-options.
const OptionsFile = "/opt/" + optionsProgram

// known are the variables that are asked of run-env.sh: it need not export them.
var known = []string{
	"JAVA_APP_DIR", "JAVA_LIB_DIR", "JAVA_APP_JAR", "JAVA_MAIN_CLASS", "JAVA_CLASSPATH", "JAVA_APP_NAME",
	"JAVA_OPTIONS", "JAVA_MAJOR_VERSION", "JAVA_VERSION", "JAVA_MAX_MEM_RATIO", "JAVA_INIT_MEM_RATIO", "JAVA_MAX_CORE",
	"JAVA_CORE_LIMIT", "CONTAINER_MAX_MEMORY", "CONTAINER_CORE_LIMIT", "JAVA_DIAGNOSTICS", "JAVA_DEBUG", "JAVA_ENABLE_DEBUG",
	"JAVA_DEBUG_ENABLE", "JAVA_DEBUG_PORT", "JAVA_DEBUG_SUSPEND", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy",
	"https_proxy", "no_proxy", "HIDE_CMD_LINE",
}

// Shell is what run-env.sh leaves to the process beside variables.
type Shell struct {
	Umask int
	// Limits are the resource limits by their number (getrlimit(2)).
	Limits []syscall.Rlimit
}

// Apply makes the process of the caller as run-env.sh left its own.
func (s *Shell) Apply() error {
	syscall.Umask(s.Umask)
	var errs []error
	for resource, limit := range s.Limits {
		if err := syscall.Setrlimit(resource, &limit); err != nil {
			errs = append(errs, fmt.Errorf("the resource limit %d that %s set cannot be kept: %w", resource, envFile, err))
		}
	}
	return errors.Join(errs...)
}

// source takes over what run-env.sh sets, beside the launcher and then in the
// application's folder.
func (p *planner) source() error {
	first := filepath.Join(p.in.ScriptDir, envFile)
	app := p.vars.get("JAVA_APP_DIR")
	if !isFile(first) && (app == "" || !isFile(absolute(filepath.Join(app, envFile), p.in.Dir))) {
		return nil
	}
	before := p.vars.get("JAVA_MAJOR_VERSION")
	err := p.sourceByShell()
	if errors.Is(err, fs.ErrNotExist) {
		err = p.sourceLines(first)
	}
	if err != nil {
		return err
	}
	// run-env.sh may say which Java it is, or lead to another.
	if _, given := parseMajor(mustLookup(p.in.Env, "JAVA_MAJOR_VERSION")); !given && p.vars.get("JAVA_MAJOR_VERSION") == before {
		p.vars.set("JAVA_MAJOR_VERSION", "")
	}
	p.setMajor()
	return nil
}

func mustLookup(env []string, name string) string {
	value, _ := jvmopts.LookupEnv(env, name)
	return value
}

// sourceScript runs the files in one shell, as the script does, and then tells
// on descriptor 3 the umask, the variables, whether exported or not, the
// resource limits and the environment. $0 is the launcher's path. No text of a
// variable becomes part of it.
var sourceScript = func() string {
	var s strings.Builder
	s.WriteString(`set -eu
if [ -f "${0%/*}/` + envFile + `" ]; then . "${0%/*}/` + envFile + `" 3>&-; fi
JAVA_APP_DIR="${JAVA_APP_DIR:-${0%/*}}"
if [ -f "$JAVA_APP_DIR/` + envFile + `" ] && ! [ "$JAVA_APP_DIR/` + envFile + `" -ef "${0%/*}/` + envFile + `" ]; then . "$JAVA_APP_DIR/` + envFile + `" 3>&-; fi
{ printf '%s\0' "$(umask)"
`)
	for _, name := range known {
		s.WriteString(`if [ "${` + name + `+x}" ]; then printf '%s\0' "` + name + `=$` + name + "\"; fi\n")
	}
	s.WriteString(`printf '\0'
command -p cat /proc/self/limits
printf '\0'
command -p cat /proc/self/environ; } >&3
`)
	return s.String()
}()

// withheld are variables that a shell itself acts on: bash expands PS4 for a
// trace that SHELLOPTS switches on, and runs what ENV and BASH_ENV name. A name
// that is none for a shell, such as that of a function bash exports
// (BASH_FUNC_ls%%), is withheld too.
func withheld(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	switch name {
	case "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS":
		return true
	}
	return !isIdentifier(name)
}

// forShell is an environment without what is withheld, and that.
func forShell(env []string) (given, kept []string) {
	for _, e := range env {
		if withheld(e) {
			kept = append(kept, e)
		} else {
			given = append(given, e)
		}
	}
	return given, kept
}

func (p *planner) launcher() string { return p.in.ScriptDir + "/" + p.in.Name }

func (p *planner) sourceByShell() error {
	given, kept := forShell(p.vars.env)
	out, status, err := p.in.Run(Process{Path: shell, Args: []string{"sh", "-c", sourceScript, p.launcher()}, Env: given, Dir: p.in.Dir, FD: 3})
	if err != nil {
		return fmt.Errorf("%s cannot be run: %w", envFile, err)
	}
	vars, sh, ok := parseSourced(out)
	switch {
	case status != 0:
		return &ExitError{Code: status, Err: fmt.Errorf("%s ended with status %d: correct it", envFile, status)}
	case !ok: // it called exit
		return &ExitError{}
	}
	p.plan.Shell = sh
	p.vars = vars
	for _, e := range kept {
		if name, _, _ := strings.Cut(e, "="); !hasName(p.vars.env, name) {
			p.vars.env = append(p.vars.env, e)
		}
	}
	p.restore("_", "SHLVL")
	return nil
}

func hasName(env []string, name string) bool {
	_, ok := jvmopts.LookupEnv(env, name)
	return ok
}

// restore undoes what a shell does to variables on its own.
func (p *planner) restore(names ...string) {
	for _, name := range names {
		p.vars.env = slices.DeleteFunc(p.vars.env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if value, ok := jvmopts.LookupEnv(p.in.Env, name); ok {
			p.vars.export(name, value)
		}
	}
}

// parseSourced reads what sourceScript tells.
func parseSourced(out []byte) (variables, *Shell, bool) {
	v := variables{local: map[string]string{}}
	head, rest, ok := bytes.Cut(out, []byte("\x00\x00"))
	limits, environ, ok2 := bytes.Cut(rest, []byte{0})
	if !ok || !ok2 {
		return v, nil, false
	}
	for e := range strings.SplitSeq(strings.TrimSuffix(string(environ), "\x00"), "\x00") {
		if name, _, ok := strings.Cut(e, "="); ok && name != "" {
			v.env = append(v.env, e)
		}
	}
	mask, entries, _ := strings.Cut(string(head), "\x00")
	umask, err := strconv.ParseUint(mask, 8, 12)
	if err != nil {
		return v, nil, false
	}
	for e := range strings.SplitSeq(entries, "\x00") {
		if name, value, ok := strings.Cut(e, "="); ok && !hasName(v.env, name) {
			v.local[name] = value
		}
	}
	return v, &Shell{Umask: int(umask), Limits: parseLimits(string(limits))}, true
}

// parseLimits reads /proc/PID/limits: after the heading a line for each resource
// in the order of their numbers, with columns of fixed width (proc(5); Linux:
// proc_pid_limits in fs/proc/base.c). None if a line is not understood.
func parseLimits(text string) []syscall.Rlimit {
	var limits []syscall.Rlimit
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if i == 0 {
			continue
		}
		const soft, hard, units = 26, 47, 68
		if len(line) < units {
			return nil
		}
		cur, err := parseLimit(line[soft:hard])
		most, err2 := parseLimit(line[hard:units])
		if err != nil || err2 != nil {
			return nil
		}
		limits = append(limits, syscall.Rlimit{Cur: cur, Max: most})
	}
	return limits
}

func parseLimit(column string) (uint64, error) {
	text := strings.TrimSpace(column)
	if text == "unlimited" {
		return ^uint64(0), nil // RLIM_INFINITY
	}
	return strconv.ParseUint(text, 10, 64)
}

// sourceLines reads the files in an image without a shell.
func (p *planner) sourceLines(first string) error {
	if err := p.sourceFile(first); err != nil {
		return err
	}
	app := p.vars.get("JAVA_APP_DIR")
	if app == "" {
		return nil
	}
	if second := absolute(filepath.Join(app, envFile), p.in.Dir); second != first {
		return p.sourceFile(second)
	}
	return nil
}

func (p *planner) sourceFile(path string) error {
	if !isFile(path) {
		return nil
	}
	text, err := readFile(path)
	if err != nil {
		return err
	}
	assignments, err := parseAssignments(text)
	if err != nil {
		return fmt.Errorf("%s:%w", path, err)
	}
	for _, a := range assignments {
		if a.export {
			p.vars.export(a.name, a.value)
		} else {
			p.vars.set(a.name, a.value)
		}
	}
	return nil
}

type assignment struct {
	name, value string
	export      bool
}

// parseAssignments reads lines of NAME=value and export NAME=value that mean the
// same to every shell: the value is a bare word or quoted, and nothing in it is
// to be expanded. Anything else is an error that starts with the line's number.
func parseAssignments(text string) ([]assignment, error) {
	var out []assignment
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		rest, export := strings.CutPrefix(line, "export ")
		name, quoted, ok := strings.Cut(strings.TrimLeft(rest, " \t"), "=")
		value, plain := unquote(quoted)
		if !ok || !plain || !isIdentifier(name) {
			return nil, fmt.Errorf("%d: %s needs a shell, and there is no %s: write NAME=value, or add a shell to the image", n, shortened(line), shell)
		}
		out = append(out, assignment{name, value, export})
	}
	return out, nil
}

// unquote is the value of a word of the shell that holds nothing to expand.
func unquote(s string) (string, bool) {
	if len(s) >= 2 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] {
		inner := s[1 : len(s)-1]
		special := "'"
		if s[0] == '"' {
			special = "\"$`\\"
		}
		return inner, !strings.ContainsAny(inner, special)
	}
	for _, c := range []byte(s) {
		if c != '_' && !(c|0x20 >= 'a' && c|0x20 <= 'z') && !(c >= '+' && c <= ':') && c != '=' && c != '@' && c != '%' {
			return "", false
		}
	}
	return s, true
}

// runJavaOptions are the words that the image's program prints. If it fails the
// application starts without.
func (p *planner) runJavaOptions() []string {
	process := Process{Dir: p.plan.Dir, FD: 1}
	process.Env, _ = forShell(p.vars.env)
	// To a program that the script reads into its shell every variable is known.
	for name, value := range p.vars.local {
		process.Env = append(process.Env, name+"="+value)
	}
	file := p.in.OptionsFile
	if isFile(file) {
		process.Path, process.Args = shell, []string{"sh", "-c", `set -eu; . "$1"`, p.launcher(), file}
	} else {
		if file = p.findProgram(optionsProgram); file == "" {
			return nil
		}
		process.Path, process.Args = file, []string{optionsProgram}
	}
	out, status, err := p.in.Run(process)
	if errors.Is(err, syscall.ENOEXEC) { // a script without #!
		process.Path, process.Args = shell, []string{"sh", file}
		out, status, err = p.in.Run(process)
	}
	switch {
	case err != nil:
		p.warn(file + " cannot be run, its options are left out: " + err.Error())
		return nil
	case status != 0:
		p.warn(file + " ended with status " + strconv.Itoa(status) + ": correct it")
	}
	return words(strings.ReplaceAll(string(out), "\x00", ""))
}

// findProgram finds a program in the absolute folders of PATH.
func (p *planner) findProgram(name string) string {
	for _, dir := range filepath.SplitList(p.vars.get("PATH")) {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return ""
}

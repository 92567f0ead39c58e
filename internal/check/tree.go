package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrReference says that git has no commit of that name.
var ErrReference = errors.New("no such commit")

// Tree is a working tree of git, or a folder in it.
type Tree struct {
	dir    string
	prefix string // of dir below the top
}

// OpenTree is the working tree that a folder lies in; the error says that it lies in none.
func OpenTree(ctx context.Context, dir string) (*Tree, error) {
	prefix, err := git(ctx, dir, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	return &Tree{dir, prefix}, nil
}

// Head is the commit that is checked out, and whether files of it were changed.
func (t *Tree) Head(ctx context.Context) (commit string, changed bool, err error) {
	if commit, err = git(ctx, t.dir, "rev-parse", "--verify", "HEAD"); err != nil {
		return "", false, err
	}
	status, err := git(ctx, t.dir, "status", "--porcelain", "--untracked-files=no")
	return commit, status != "", err
}

// Resolve is the commit that a reference names. The error wraps ErrReference.
func (t *Tree) Resolve(ctx context.Context, ref string) (commit string, err error) {
	commit, err = git(ctx, t.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("%w as %q: fetch it first, for a shallow clone has only the last ones", ErrReference, ref)
	}
	return commit, nil
}

// CheckOut checks a commit out into a folder of its own, and returns what of it is this
// tree's folder. remove removes it again, and must be called.
func (t *Tree) CheckOut(ctx context.Context, commit string) (dir string, remove func() error, err error) {
	top, err := os.MkdirTemp("", "tare-check-")
	if err != nil {
		return "", nil, err
	}
	tree := filepath.Join(top, "base")
	remove = func() error {
		// Also after an interrupt: git would keep a record of the folder.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_, err := git(ctx, t.dir, "worktree", "remove", "--force", tree)
		return errors.Join(err, os.RemoveAll(top))
	}
	// A hook of the repository is no part of a check-out that nobody works in.
	if _, err := git(ctx, t.dir, "-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return filepath.Join(tree, t.prefix), remove, nil
}

// git runs git in a folder, and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(errs.String()); text != "" {
			return "", fmt.Errorf("git: %s", text)
		}
		return "", fmt.Errorf("git: %w", err)
	}
	return strings.TrimSpace(out.String()), nil
}

// BuildError is a build that failed.
type BuildError struct {
	Side, Command string
	Err           error
	// Output is the end of what it printed.
	Output string
}

// Error says which build failed, and what it printed last.
func (e *BuildError) Error() string {
	return strings.TrimRight(fmt.Sprintf("%s does not build: %s: %v\n%s", e.Side, e.Command, e.Err, e.Output), "\n")
}

// Unwrap is why.
func (e *BuildError) Unwrap() error { return e.Err }

// buildTail is how much of a build's output is told of.
const buildTail = 2000

// Build runs a shell's command in a folder; no command builds nothing. Output goes to log.
// What the command started ends with it. A failure is a *BuildError.
func Build(ctx context.Context, side, dir, command string, log io.Writer) error {
	if command == "" {
		return nil
	}
	if out, err := shell(ctx, dir, command, log); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &BuildError{Side: side, Command: command, Err: err, Output: out}
	}
	return nil
}

// shell runs a shell's command in a folder, and returns the end of what it prints. What the
// command started ends with it.
func shell(ctx context.Context, dir, command string, log io.Writer) (string, error) {
	last := &tail{most: buildTail}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-e", "-c", command)
	both := io.MultiWriter(log, last)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, both, both
	inGroup(cmd)
	err := cmd.Run()
	return last.text(), err
}

// tail keeps the end of what is written.
type tail struct {
	most int
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-t.most):]
	return len(p), nil
}

func (t *tail) text() string { return strings.ToValidUTF8(string(t.kept), "?") }

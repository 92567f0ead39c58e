// Release makes all that a version is given out as: archives, packages for Debian and for
// Fedora, the container image, the Java libraries as Maven Central wants them, a formula
// for Homebrew, the installer, licences, lists of parts, provenance and sums. The same
// commit makes the same bytes, in any folder; signatures alone differ.
//
//	go run ./deploy/release -version 0.1.0 -out bin/release
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/deploy/licences"
	"tare.dev/tare/internal/names"
)

func main() {
	r := release{architectures: []string{"amd64", "arm64"}, image: true, java: true}
	flag.StringVar(&r.version, "version", "", "the `version`, as the tree has it")
	flag.StringVar(&r.out, "out", "bin/release", "new `folder` for the release")
	flag.StringVar(&r.key, "sign", "", "sign with this `key` of gpg")
	next := flag.String("next", "", "give the tree this `version` instead, and release nothing")
	flag.Parse()
	err := error(nil)
	if *next != "" {
		err = setVersion(".", *next)
	} else {
		err = r.make()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is what is asked for.
type release struct {
	version, out  string
	architectures []string
	// image and java say whether those parts are made.
	image, java bool
	// key is a key of gpg; empty: nothing is signed.
	key string

	commit string
	// date is the commit's: the time of every file.
	date time.Time
}

// make makes the release of the tree in the working directory.
func (r *release) make() error {
	if r.version != names.Version {
		return fmt.Errorf("the tree is of version %s, not %q: go run ./deploy/release -next %s changes it", names.Version, r.version, r.version)
	}
	if err := r.readCommit(); err != nil {
		return err
	}
	changes, err := changesOf("CHANGELOG.md", r.version, r.date)
	if err != nil {
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "tare-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := os.Setenv("SOURCE_DATE_EPOCH", strconv.FormatInt(r.date.Unix(), 10)); err != nil {
		return err
	}
	if err := r.programs(work, changes); err != nil {
		return err
	}
	if r.java {
		if err := r.libraries(); err != nil {
			return fmt.Errorf("the Java libraries: %w", err)
		}
	}
	return r.finish(changes)
}

// readCommit reads which commit is released, and refuses what is in none.
func (r *release) readCommit() error {
	changed, err := command("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the tree has changes that are in no commit: commit or stash them: %.200s", changed)
	}
	line, err := command("git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, epoch, _ := strings.Cut(line, " ")
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	r.commit, r.date = commit, time.Unix(seconds, 0).UTC()
	return err
}

// programs makes what has the programs in it.
func (r *release) programs(work string, changes []byte) error {
	images := filepath.Join(work, "image")
	args := append([]string{"run", "./deploy/image", "-out", images, "-name", "tare:" + r.version}, r.architectures...)
	if _, err := command("go", args...); err != nil {
		return fmt.Errorf("the image: %w", err)
	}
	generated := filepath.Join(work, "generated")
	if err := generate(filepath.Join(images, "programs", runtime.GOARCH, "tare"), generated); err != nil {
		return err
	}
	for _, arch := range r.architectures {
		notices, err := licences.Collect(".", arch, "./cmd/tare", "./cmd/tare-exec")
		if err != nil {
			return fmt.Errorf("licences: %w", err)
		}
		files, err := treeOf(filepath.Join(images, "programs", arch), filepath.Join(images, "tare-"+arch+".cdx.json"), generated, changes, licences.Text(notices))
		if err != nil {
			return err
		}
		name := "tare-" + r.version + "-linux-" + arch
		if err := writeArchive(filepath.Join(r.out, name+".tar.gz"), name, files, r.date); err != nil {
			return err
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(work, format, arch, files); err != nil {
				return fmt.Errorf("the %s for %s: %w", format, arch, err)
			}
		}
		if err := copyFile(filepath.Join(images, "tare-"+arch+".cdx.json"), filepath.Join(r.out, name+".cdx.json")); err != nil {
			return err
		}
		if !r.image {
			continue
		}
		if err := copyFile(filepath.Join(images, "tare-"+arch+".tar"), filepath.Join(r.out, "tare-"+r.version+"-image-"+arch+".tar")); err != nil {
			return err
		}
	}
	if !r.image {
		return nil
	}
	layout, err := filesBelow(filepath.Join(images, "oci"), "")
	if err != nil {
		return err
	}
	return writeArchive(filepath.Join(r.out, "tare-"+r.version+"-oci.tar.gz"), "", layout, r.date)
}

// finish writes what tells of the other files.
func (r *release) finish(changes []byte) error {
	if err := os.WriteFile(filepath.Join(r.out, "CHANGES.md"), changes, 0o644); err != nil {
		return err
	}
	if err := copyFile("install.sh", filepath.Join(r.out, "install.sh")); err != nil {
		return err
	}
	sums, err := sumsOf(r.out)
	if err != nil {
		return err
	}
	for file, text := range map[string]func([]sum) ([]byte, error){"tare.rb": r.formula, "provenance.json": r.provenance} {
		b, err := text(sums)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, file), b, 0o644); err != nil {
			return err
		}
	}
	if sums, err = sumsOf(r.out); err != nil {
		return err
	}
	var text strings.Builder
	for _, s := range sums {
		if !strings.Contains(s.name, "/") {
			fmt.Fprintf(&text, "%s  %s\n", s.sha256, s.name)
		}
	}
	if err := os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	if r.key == "" {
		return nil
	}
	return r.sign()
}

// sign signs the sums, and each file that goes to Maven Central, as
// https://central.sonatype.org/publish/requirements/gpg asks.
func (r *release) sign() error {
	files := []string{filepath.Join(r.out, "SHA256SUMS")}
	sums, err := sumsOf(filepath.Join(r.out, "maven"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, s := range sums {
		if !slices.Contains([]string{".md5", ".sha1", ".sha256", ".sha512"}, filepath.Ext(s.name)) {
			files = append(files, filepath.Join(r.out, "maven", s.name))
		}
	}
	for _, file := range files {
		if _, err := command("gpg", "--batch", "--yes", "--local-user", r.key, "--armor", "--detach-sign", file); err != nil {
			return fmt.Errorf("signing: %w", err)
		}
	}
	return nil
}

// command runs a program and returns what it prints, or why it failed.
func command(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %.60s: %w: %s", name, strings.Join(args, " "), err, lastOf(stderr.String()+string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}

// lastOf is the end of what a program said.
func lastOf(text string) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-2000):]
}

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// libraries stages the Java libraries and plugins below maven, as a repository has them: jars with
// sources and documentation, POMs, sums. That is what Maven Central takes as a bundle:
// central.sonatype.org/publish/publish-portal-upload.
func (r *release) libraries() error {
	staging := filepath.Join(r.out, "maven")
	_, err := command("mvn", "-B", "-ntp", "-q", "-f", filepath.Join("java", "pom.xml"), "-P", "release,gradle", "-DskipTests", "clean", "deploy",
		"-pl", "bom,libraries/memory,libraries/jmh,libraries/junit,libraries/check,maven-plugin,gradle-plugin,gradle-marker", "-am", "-DaltDeploymentRepository=staging::file://"+staging)
	if err != nil {
		return err
	}
	// The index of a repository is the repository's own, and has times.
	return filepath.WalkDir(staging, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), "maven-metadata") {
			return os.Remove(path)
		}
		return err
	})
}

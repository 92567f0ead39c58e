// Package names holds what tare is called outside of this tree. A release under
// other names, or of another version, changes this file; its test lists what
// must follow.
package names

const (
	// Module is the Go module, as in go install tare.dev/tare/cmd/tare@latest.
	Module = "tare.dev/tare"
	// MavenGroup is the group of the Java libraries on Maven Central.
	MavenGroup = "dev.tare"
	// Image is the container image.
	Image = "tare.dev/tare"
	// Formula is the Homebrew formula.
	Formula = "tare"
	// Repository is where the source is.
	Repository = "https://tare.dev/tare"
	// Downloads has the files of a release, each version in a folder such as v1.2.3.
	Downloads = Repository + "/releases/download"
	// Maintainers are who packages name.
	Maintainers = "The tare maintainers <maintainers@tare.dev>"
	// Version is the one that is next to be released, or was.
	Version = "0.1.0"
)

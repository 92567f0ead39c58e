package fit

import (
	"path"
	"path/filepath"
	"strings"
)

// InImage is where a fit's folder of class archives and extracted jars is in the
// containers of an image. An image that is to have them has them there as well: an
// archive holds for jars of one path alone.
const InImage = "/tare"

// inside is the path that the application knows a file of the folder of archives by.
func (c Config) inside(file string) string {
	rel, err := filepath.Rel(c.ArchiveDir, file)
	if c.Image == nil || err != nil {
		return file
	}
	return path.Join(InImage, filepath.ToSlash(rel))
}

// outside is the path on this machine of a file that a setup names.
func (c Config) outside(file string) string {
	if c.Image == nil {
		return file
	}
	return Outside(c.ArchiveDir, file)
}

// Outside is the path on this machine of a file that the setup of a fit of an image
// names; dir is the fit's folder of archives.
func Outside(dir, file string) string {
	rel, ok := strings.CutPrefix(file, InImage+"/")
	if !ok {
		return file
	}
	return filepath.Join(dir, filepath.FromSlash(rel))
}

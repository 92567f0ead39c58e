package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
)

// pageStyle and sortScript are those of all pages.
//
//go:embed page.css
var pageStyle string

//go:embed sort.js
var sortScript string

// pagePolicy is a Content-Security-Policy that forbids everything but a page's
// own style and this script.
func pagePolicy() string {
	sum := sha256.Sum256([]byte(sortScript))
	return "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

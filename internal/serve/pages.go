package serve

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"

	"tare.dev/tare/internal/plot"
)

//go:embed assets
var embedded embed.FS

// assets are the files of the dashboard, in memory.
type assets map[string]asset

type asset struct {
	body       []byte
	kind, etag string
}

func newAssets() (assets, error) {
	out := assets{}
	files, err := fs.ReadDir(embedded, "assets")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		body, err := embedded.ReadFile(path.Join("assets", f.Name()))
		if err != nil {
			return nil, err
		}
		if f.Name() == "style.css" {
			body = append([]byte(plot.Colours), body...)
		}
		sum := sha256.Sum256(body)
		out[f.Name()] = asset{body, mime.TypeByExtension(path.Ext(f.Name())), `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return out, nil
}

// page serves one file.
func (a assets) page(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { a.write(w, r, name) }
}

// serve serves the files that anybody may have: they tell nothing of JVMs.
func (a assets) serve(w http.ResponseWriter, r *http.Request) { a.write(w, r, r.PathValue("name")) }

func (a assets) write(w http.ResponseWriter, r *http.Request, name string) {
	f, ok := a[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(f.body) // a client that has gone needs no page
}

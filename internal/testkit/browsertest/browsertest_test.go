package browsertest

import (
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(`<!DOCTYPE html><link rel=icon href=data:><p id=x>one</p><div style="height:3000px"></div>`))
	}))
	defer srv.Close()
	b := Start(t)
	p := b.Open(t, srv.URL, View{Width: 390, Height: 800, Dark: true})
	var got struct {
		Text  string
		Width int
		Dark  bool
	}
	look := `({text: document.getElementById("x").textContent, width: innerWidth, dark: matchMedia("(prefers-color-scheme:dark)").matches})`
	p.Eval(t, look, &got)
	if got.Text != "one" || got.Width != 390 && got.Width != 980 || !got.Dark {
		t.Errorf("%+v", got)
	}
	p.Look(t, View{Width: 700, Height: 500})
	p.Eval(t, look, &got)
	if got.Width != 700 || got.Dark {
		t.Errorf("%+v", got)
	}
	file := filepath.Join(t.TempDir(), "x.png")
	p.Screenshot(t, file)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if img, err := png.DecodeConfig(f); err != nil || img.Width != 700 || img.Height < 3000 {
		t.Errorf("%+v, %v", img, err)
	}
	if got := p.Problems(); len(got) > 0 {
		t.Errorf("problems of a sound page: %q", got)
	}
	// And those of an unsound one.
	p.Eval(t, `fetch("/missing").then(() => { console.error("told"); setTimeout(() => { throw new Error("thrown") }); return new Promise(r => setTimeout(() => setTimeout(r))) })`, nil)
	all := strings.Join(p.Problems(), "\n")
	for _, want := range []string{"404", "told", "thrown"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
}

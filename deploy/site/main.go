// Site makes the pages of the documentation, as HTML that needs no server and no network:
//
//	go run ./deploy/site -out bin/site
//
// It reads the Markdown that is read in the tree, and fails on a link that leads nowhere.
// It is goldmark, a page and a search over an index that the browser loads as a script,
// for a file:// page may load nothing else. A generator of sites would want its own
// layout of the tree.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed page.html
var pageText string

//go:embed style.css
var style []byte

//go:embed search.js
var search []byte

var pageTemplate = template.Must(template.New("page").Parse(pageText))

func main() {
	out := flag.String("out", "bin/site", "new `folder` for the pages")
	flag.Parse()
	if err := run(".", *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// A page is a file of Markdown and what becomes of it.
type page struct {
	// source is its path below the root, with slashes; Target that of the page.
	source, Target string
	text           []byte
	tree           ast.Node
	Title          string
	anchors        []string
	sections       []section
}

// A section is what the search finds.
type section struct {
	URL   string `json:"url"`
	Page  string `json:"page"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// run makes the site of a tree.
func run(root, out string) error {
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	pages, err := readPages(root, markdown)
	if err != nil {
		return err
	}
	groups := navigation(pages) // before links lead elsewhere
	copied := map[string]bool{}
	for _, p := range pages {
		err = errors.Join(err, p.links(root, pages, copied))
	}
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	var index []section
	for _, p := range pages {
		if err := p.write(out, groups, markdown); err != nil {
			return err
		}
		index = append(index, p.sections...)
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	for name := range copied {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if err := write(out, name, content); err != nil {
			return err
		}
	}
	return errors.Join(write(out, "style.css", style), write(out, "search.js", search), write(out, "index.js", fmt.Appendf(nil, "const searchIndex = %s;\n", data)))
}

func write(out, name string, content []byte) error {
	to := filepath.Join(out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// readPages reads the pages of the root, of docs and of its results.
func readPages(root string, markdown goldmark.Markdown) (map[string]*page, error) {
	pages := map[string]*page{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/results/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			source, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			p := &page{source: filepath.ToSlash(source)}
			if p.text, err = os.ReadFile(file); err != nil {
				return nil, err
			}
			p.Target = strings.TrimSuffix(p.source, ".md") + ".html"
			if path.Base(p.source) == "README.md" {
				p.Target = path.Join(path.Dir(p.source), "index.html")
			}
			p.tree = markdown.Parser().Parse(text.NewReader(p.text))
			p.readSections()
			pages[p.source] = p
		}
	}
	if pages["README.md"] == nil {
		return nil, fmt.Errorf("%s has no README.md", root)
	}
	return pages, nil
}

// readSections reads title, anchors and what each part says.
func (p *page) readSections() {
	at := -1
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			p.anchors = append(p.anchors, string(anchor))
			title := p.plain(n)
			if p.Title == "" {
				p.Title = title
			}
			p.sections = append(p.sections, section{URL: p.Target + "#" + string(anchor), Page: p.Title, Title: title})
			at = len(p.sections) - 1
		} else if at >= 0 {
			p.sections[at].Text += p.plain(n) + " "
		}
	}
}

// A group is the pages under a heading of the navigation.
type group struct {
	Title string
	Pages []*page
}

// navigation has the pages in the order in which the first page leads to them, under its
// headings; what it does not lead to comes last. Results are found by their index alone.
func navigation(pages map[string]*page) []group {
	first := pages["README.md"]
	groups := []group{{Pages: []*page{first}}}
	known := map[*page]bool{first: true}
	add := func(p *page) {
		if p == nil || known[p] || path.Dir(p.source) == "docs/results" && path.Base(p.source) != "README.md" {
			return
		}
		known[p] = true
		last := &groups[len(groups)-1]
		last.Pages = append(last.Pages, p)
	}
	_ = ast.Walk(first.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			groups = append(groups, group{Title: first.plain(n)})
		case *ast.Link:
			add(pages[string(n.Destination)])
		}
		return ast.WalkContinue, nil
	})
	for _, source := range slices.Sorted(maps.Keys(pages)) {
		add(pages[source])
	}
	return slices.DeleteFunc(groups, func(g group) bool { return len(g.Pages) == 0 })
}

// plain is the text of a node without its marks.
func (p *page) plain(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(p.text))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock:
			if entering {
				b.Write(n.Lines().Value(p.text))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// links makes links to pages those to their HTML, and fails on what leads nowhere. A file
// that is no page is copied.
func (p *page) links(root string, pages map[string]*page, copied map[string]bool) error {
	var problems error
	lead := func(to []byte) []byte {
		target, err := p.lead(root, string(to), pages, copied)
		problems = errors.Join(problems, err)
		return []byte(target)
	}
	err := ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch n := n.(type) {
			case *ast.Link:
				n.Destination = lead(n.Destination)
			case *ast.Image:
				n.Destination = lead(n.Destination)
			}
		}
		return ast.WalkContinue, nil
	})
	return errors.Join(err, problems)
}

func (p *page) lead(root, to string, pages map[string]*page, copied map[string]bool) (string, error) {
	u, err := url.Parse(to)
	if err != nil {
		return "", fmt.Errorf("%s: link to %q: %w", p.source, to, err)
	}
	if u.Scheme != "" {
		return to, nil
	}
	source := p.source
	if u.Path != "" {
		source = path.Join(path.Dir(p.source), u.Path)
	}
	if target := pages[source]; target != nil {
		if u.Fragment != "" && !slices.Contains(target.anchors, u.Fragment) {
			return "", fmt.Errorf("%s: %s has no part #%s", p.source, source, u.Fragment)
		}
		from := strings.Repeat("../", strings.Count(p.Target, "/"))
		if u.Fragment != "" {
			return from + target.Target + "#" + u.Fragment, nil
		}
		return from + target.Target, nil
	}
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(source)))
	if err != nil || !filepath.IsLocal(source) {
		return "", fmt.Errorf("%s: there is no %s", p.source, to)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: %s is a folder, which is no page", p.source, to)
	}
	copied[source] = true
	return to, nil
}

// write writes the page.
func (p *page) write(out string, groups []group, markdown goldmark.Markdown) error {
	var body, all bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.text, p.tree); err != nil {
		return err
	}
	up := strings.Repeat("../", strings.Count(p.Target, "/"))
	err := pageTemplate.Execute(&all, map[string]any{"Here": p, "Up": up, "Groups": groups, "Body": template.HTML(body.String())})
	if err != nil {
		return err
	}
	return write(out, p.Target, all.Bytes())
}

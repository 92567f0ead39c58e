package fit

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"tare.dev/tare/internal/jvmopts"
)

// Application is what can be seen of an application before it runs.
type Application struct {
	// Classes are those of all levers' Needs that its class path holds.
	Classes map[string]bool
	// Set are the properties that its user set, by their plain names, each with where:
	// on the command line, in the environment, or in the files that Spring Boot,
	// Quarkus and Micronaut read by themselves.
	Set map[string]string
	// Unseen names a source of properties that could not be read, or "".
	Unseen string
}

// has says that the class path holds what a lever needs.
func (a Application) has(needs []string) bool {
	for _, n := range needs {
		if !slices.ContainsFunc(strings.Split(n, "|"), func(class string) bool { return a.Classes[class] }) {
			return false
		}
	}
	return true
}

// plain is the name of a property without what frameworks do not tell apart:
// SERVER_TOMCAT_THREADS_MAX and server.tomcat.threads.max are one (Spring Boot
// reference, "Relaxed Binding"; MicroProfile Config, "Environment Variables Mapping
// Rules").
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, name)
}

// otherSources are the properties that name other sources of properties, which are not
// read here.
var otherSources = []string{"spring.config.location", "spring.config.additional-location", "spring.config.import", "spring.config.name", "spring.cloud.config.uri",
	"quarkus.config.locations", "smallrye.config.locations", "micronaut.config.files"}

// needs are the classes of all levers' Needs.
func (c Config) needs() []string {
	var classes []string
	for _, l := range c.Levers {
		for _, n := range l.Needs {
			classes = append(classes, strings.Split(n, "|")...)
		}
	}
	return classes
}

// application looks at the class path, as Survey found it, with the files of
// properties in there and beside it, the command line, and the environment.
func (c Config) application() Application {
	a := Application{Set: map[string]string{}}
	if len(c.needs()) == 0 {
		return a
	}
	a.Classes = c.ClassPath.Holds
	for file, text := range c.ClassPath.Texts {
		a.file(file, text)
	}
	for _, e := range c.Env {
		name, value, _ := strings.Cut(e, "=")
		a.Set[plain(name)] = name + " (environment)"
		if name == "SPRING_APPLICATION_JSON" {
			a.yaml(name, []byte(value))
		}
	}
	for _, o := range c.Given.All {
		a.option(o)
	}
	for _, arg := range c.Command.Args {
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			a.Set[plain(name)] = "--" + name + " (command line)"
		}
	}
	for _, name := range otherSources {
		if by := a.Set[plain(name)]; by != "" && a.Unseen == "" {
			a.Unseen = "perhaps, by " + by + ", which is not read"
		}
	}
	return a
}

// option notes the property that an option of the JVM sets.
func (a *Application) option(o jvmopts.Option) {
	text, ok := strings.CutPrefix(o.Text, "-D")
	if !ok {
		return
	}
	name, value, _ := strings.Cut(text, "=")
	a.Set[plain(name)] = "-D" + name + " (" + o.Source.String() + ")"
	if name == "spring.application.json" {
		a.yaml(name, []byte(value))
	}
}

// configures are patterns of the files that hold properties of an application: those
// of Spring Boot (its reference, "External Application Properties"), Quarkus and
// Micronaut.
func configures() []string {
	var patterns []string
	for _, stem := range []string{"application", "application-*", "bootstrap", "bootstrap-*"} {
		for _, ext := range []string{".properties", ".yml", ".yaml"} {
			patterns = append(patterns, stem+ext)
		}
	}
	return patterns
}

func (a *Application) file(name string, text []byte) {
	if path.Ext(name) == ".properties" {
		a.properties(path.Base(name), text)
	} else {
		a.yaml(path.Base(name), text)
	}
}

// properties notes the names of a file as java.util.Properties reads it: name and
// value parted by "=", ":" or a blank, lines that end in "\" going on, remarks behind
// "#" or "!".
func (a *Application) properties(file string, text []byte) {
	goesOn := false
	for line := range bytes.Lines(text) {
		trimmed := strings.TrimSpace(string(line))
		first := !goesOn
		goesOn = strings.HasSuffix(trimmed, `\`) && !strings.HasSuffix(trimmed, `\\`)
		if !first || trimmed == "" || trimmed[0] == '#' || trimmed[0] == '!' {
			goesOn = goesOn && (!first || trimmed[0] != '#' && trimmed[0] != '!')
			continue
		}
		name := trimmed
		if i := strings.IndexAny(trimmed, "=: \t"); i >= 0 {
			name = trimmed[:i]
		}
		a.note(name, file)
	}
}

// note notes a property of a file; "%prod.a" is a of Quarkus's profile prod.
func (a *Application) note(name, file string) {
	if rest, ok := strings.CutPrefix(name, "%"); ok {
		_, name, _ = strings.Cut(rest, ".")
	}
	a.Set[plain(name)] = name + " (" + file + ")"
}

// Bounds of a file in YAML: the parser's time grows with the square of its depth.
const (
	maxYAML  = 256 << 10 // bytes
	maxDepth = 32
)

// yaml notes the names of a file in YAML, of which JSON is a part. Its aliases are
// not followed.
func (a *Application) yaml(file string, text []byte) {
	if len(text) > maxYAML || deep(text) {
		a.Unseen = "perhaps, by " + file + ", which is too large to be read"
		return
	}
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		a.Unseen = "perhaps, by " + file + ", which could not be read"
		return
	}
	for _, d := range parsed.Docs {
		a.node(file, "", d.Body, 0)
	}
}

// deep says that brackets are nested deeper, or more dashes begin one line, than in any
// file of properties. Brackets in texts count as well.
func deep(text []byte) bool {
	depth, dashes := 0, 0
	for i, b := range text {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '-', '?', ':':
			if i+1 < len(text) && text[i+1] == ' ' {
				dashes++
			}
		case '\n':
			dashes = 0
		}
		if depth > maxDepth || dashes > maxDepth {
			return true
		}
	}
	return false
}

func (a *Application) node(file, prefix string, n ast.Node, depth int) {
	if depth > maxDepth {
		a.Unseen = "perhaps, by " + file + ", which is nested too deep"
		return
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			a.node(file, prefix, v, depth+1)
		}
	case *ast.MappingValueNode:
		a.node(file, prefix+strings.Trim(n.Key.String(), `"'`)+".", n.Value, depth+1)
	case *ast.AnchorNode:
		a.node(file, prefix, n.Value, depth+1)
	case *ast.TagNode:
		a.node(file, prefix, n.Value, depth+1)
	case *ast.AliasNode:
		a.Unseen = "perhaps, by an alias in " + file + ", which is not followed"
	default:
		if prefix != "" {
			a.note(strings.TrimSuffix(prefix, "."), file)
		}
	}
}

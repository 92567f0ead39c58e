package report

import (
	"fmt"
	"strings"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/shell"
)

// notTried says that nobody here has run what is shown.
const notTried = "From the builder's own documents; it was not tried here."

// BuildpackDocument is what to set where Paketo's buildpacks make the image (Paketo,
// "Java Buildpack Reference" and the buildpack "Environment Variables"; Spring Boot,
// "Class Data Sharing").
func BuildpackDocument(r FitJSON) *document.Document {
	options, archive := withoutArchive(r)
	words := []string{"pack", "build", "NAME"}
	if archive {
		words = append(words, "--env", "BP_JVM_CDS_ENABLED=true")
	}
	if len(options) > 0 {
		words = append(words, "--env", "BPE_DELIM_JAVA_TOOL_OPTIONS= ", "--env", "BPE_APPEND_JAVA_TOOL_OPTIONS="+fit.Record{}.ToolOptions(options))
	}
	for _, e := range r.Env {
		words = append(words, "--env", "BPE_"+e)
	}
	d := builderDocument("Paketo's buildpacks", strings.Join(brokenWords(words), " \\\n  "), archive,
		"The buildpack trains its class archive when it builds, without your load, so classes that only requests load are missing from it.")
	d.Add(document.Paragraph{Role: document.Note, Text: document.Prose(fmt.Sprintf("The buildpack's memory calculator counts reserved memory as if it were resident, and refuses limits below some 650 MiB: %s will not start with its defaults. Set `BPL_JVM_THREAD_COUNT`, `-XX:ReservedCodeCacheSize` and `-XX:MaxMetaspaceSize` to what the fit's footprint shows, with room.", Limit(*r.LimitBytes)))})
	return d
}

// JibDocument is what to set where Jib makes the image (Jib, "Extended usage" of its
// plugins).
func JibDocument(r FitJSON) *document.Document {
	options, archive := withoutArchive(r)
	var s strings.Builder
	s.WriteString("jib {\n  container {\n")
	if len(options) > 0 {
		fmt.Fprintf(&s, "    jvmFlags = [%s]\n", groovyList(options))
	}
	if len(r.Env) > 0 {
		var pairs []string
		for _, e := range r.Env {
			name, value, _ := strings.Cut(e, "=")
			pairs = append(pairs, groovyQuote(name)+": "+groovyQuote(value))
		}
		fmt.Fprintf(&s, "    environment = [%s]\n", strings.Join(pairs, ", "))
	}
	s.WriteString("  }\n")
	if archive {
		s.WriteString("  containerizingMode = 'packaged' // a class archive holds no classes of folders\n")
	}
	s.WriteString("}")
	return builderDocument("Jib, in build.gradle", s.String(), archive, "Jib trains no class archive. The command of its image is java: tare bake takes it as it is.")
}

func builderDocument(builder, text string, archive bool, aboutArchive string) *document.Document {
	d := &document.Document{}
	d.Add(heading(builder), document.Code{Text: text}, document.Paragraph{Role: document.Note, Text: document.Plain(notTried)})
	if archive {
		d.Add(document.Paragraph{Role: document.Note, Text: document.Plain(aboutArchive)})
	}
	return d
}

// withoutArchive are the options but for those that need a class archive.
func withoutArchive(r FitJSON) (options []string, archive bool) {
	for _, o := range r.Options {
		if _, _, ok := fit.TrainingOf(o); ok {
			archive = true
			continue
		}
		options = append(options, o)
	}
	return options, archive
}

// brokenWords are the words of a command, quoted, a flag and its value on a line each.
func brokenWords(words []string) []string {
	lines := []string{shell.Words(words[:3])}
	for i := 3; i+1 < len(words); i += 2 {
		lines = append(lines, shell.Words(words[i:i+2]))
	}
	return lines
}

func groovyList(words []string) string {
	quoted := make([]string, 0, len(words))
	for _, w := range words {
		quoted = append(quoted, groovyQuote(w))
	}
	return strings.Join(quoted, ", ")
}

// groovyQuote quotes text as a string in single quotes (Groovy, "Single-quoted string").
func groovyQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

package report

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/shell"
)

// fitNext is what to paste.
func fitNext(r *fit.Result) []document.Block {
	if r.Config.Image != nil && (r.Archive != "" || r.Setup.Jar != "") {
		return bakeNext(r)
	}
	image := imageSetup(r)
	out := []document.Block{heading("Next: what to set")}
	add := func(label, text string) {
		out = append(out, document.Code{Label: document.Strong(label), Text: text})
	}
	if r.Config.Image == nil {
		add("On this machine", continued(localLines(r)))
	}
	if r.Setup.NoHugePages {
		out = append(out, document.Paragraph{Text: document.Plain("Huge pages are off by prctl(PR_SET_THP_DISABLE), which its starter has to call.")})
	}
	if of := composeOf(r); of != nil {
		add(filepath.Base(of.File), strings.Join(composeLines(r, image), "\n"))
	} else {
		add("docker run", continued(dockerLines(r, image)))
	}
	if lines := dockerfileLines(r, image); len(lines) > 0 {
		label := "Dockerfile"
		if r.Archive != "" {
			label += " (the archive holds for this JDK, jar and path alone)"
		}
		add(label, strings.Join(lines, "\n"))
	}
	add("Kubernetes, of the container", strings.Join(kubernetesLines(r, image), "\n"))
	return out
}

// bakeNext is what to do where the image lacks files of the recommendation.
func bakeNext(r *fit.Result) []document.Block {
	out := []document.Block{heading("Next: a new image, and its limit"),
		document.Paragraph{Text: document.Plain("What was proven has files that the image lacks: tare bake puts them into a new one.")},
		document.Code{Label: document.Strong("Image, from this fit's number or its result.json"), Text: "tare bake " + shell.Quote(r.Config.Image.Name) + " --from-fit FIT -t NAME"}}
	if of := composeOf(r); of != nil {
		out = append(out, document.Code{Label: document.Strong(filepath.Base(of.File)), Text: strings.Join(append(composeLines(r, fit.Setup{}), "    image: NAME"), "\n")})
	}
	return append(out, document.Code{Label: document.Strong("Kubernetes, of the container"), Text: strings.Join(kubernetesLines(r, fit.Setup{}), "\n")})
}

// composeOf is the Compose file that the application is a service of, nil for none.
func composeOf(r *fit.Result) *fit.Compose {
	if r.Config.Image == nil {
		return nil
	}
	return r.Config.Image.Compose
}

// composeLines are what to set for the service in its Compose file.
func composeLines(r *fit.Result, s fit.Setup) []string {
	m := fmt.Sprintf("%dm", r.LimitBytes/MiB)
	lines := []string{"services:", "  " + composeOf(r).Service + ":", "    mem_limit: " + m, "    memswap_limit: " + m}
	if r.Config.CPUs > 0 {
		lines = append(lines, fmt.Sprintf("    cpus: %g", r.Config.CPUs))
	}
	env := variables(r, s)
	if len(env) > 0 {
		lines = append(lines, "    environment:")
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		// Compose takes a dollar for a variable's name.
		lines = append(lines, "      "+name+": "+yamlQuote(strings.ReplaceAll(value, "$", "$$")))
	}
	return lines
}

// imageArchive is where the examples put the archive in an image.
const imageArchive = "/app/"

// imageSetup is the setup with the paths of archive and jar inside an image.
func imageSetup(r *fit.Result) fit.Setup {
	s := r.Setup
	s.Options, s.Env = slices.Clone(s.Options), slices.Clone(s.Env)
	if s.Jar != "" {
		s.Jar = imageArchive + filepath.Base(s.Jar)
	}
	if r.Archive == "" {
		return s
	}
	for i, o := range s.Options {
		s.Options[i] = strings.ReplaceAll(o, r.Archive, imageArchive+filepath.Base(r.Archive))
	}
	return s
}

// variables are those of a setup, with its options in JAVA_TOOL_OPTIONS.
func variables(r *fit.Result, s fit.Setup) []string {
	env := slices.Clone(s.Env)
	if len(s.Options) > 0 {
		env = append(env, toolOptions(r, s.Options))
	}
	return env
}

// toolOptions are options as the variable that each JVM reads.
func toolOptions(r *fit.Result, options []string) string {
	return "JAVA_TOOL_OPTIONS=" + r.Config.ToolOptions(options)
}

// localLines is the recommendation as a command, its environment before it.
func localLines(r *fit.Result) []string {
	var words []string
	setup := r.Setup
	if r.OptionsByVariable() {
		setup.Env, setup.Options = variables(r, setup), nil
	}
	for _, e := range setup.Env {
		words = append(words, shell.Assign(e))
	}
	for _, w := range setup.Command(r.Config.Command) {
		words = append(words, shell.Quote(w))
	}
	return broken(words)
}

// copyLines are the lines of a Dockerfile that take the extracted jars along. A
// comment has a line of its own there, and names with blanks are a JSON array
// (Dockerfile reference, "Format" and "COPY").
func copyLines(r *fit.Result) []string {
	folder := filepath.Dir(r.Setup.Jar)
	from, _ := json.Marshal([]string{filepath.Base(folder) + "/", imageArchive}) // strings always can
	return []string{"# from " + linux.Printable(filepath.Dir(folder)), "COPY " + string(from)}
}

// continued joins lines to what a shell reads as one command.
func continued(lines []string) string { return strings.Join(lines, " \\\n  ") }

// dockerfileLines are the lines that bring archive, options and environment into
// an image.
func dockerfileLines(r *fit.Result, image fit.Setup) []string {
	var lines []string
	if r.Setup.Jar != "" {
		lines = append(lines, copyLines(r)...)
	}
	if r.Archive != "" {
		lines = append(lines, trainNote(r)...)
		lines = append(lines, continued(trainLines(r, image)))
	}
	for _, e := range variables(r, image) {
		name, value, _ := strings.Cut(e, "=")
		lines = append(lines, "ENV "+name+"="+DockerfileQuote(value))
	}
	if len(lines) > 0 && r.Config.Image != nil {
		lines = append([]string{"FROM " + r.Config.Image.Name}, lines...)
	}
	return lines
}

// DockerfileQuote quotes a value of ENV (Dockerfile reference, "Environment
// replacement": backslash escapes, and $ begins a variable).
func DockerfileQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(s) + `"`
}

// broken breaks a command of quoted words into lines of up to 72 columns.
func broken(words []string) []string {
	var lines []string
	line := ""
	for _, w := range words {
		if line != "" && len(line)+1+len(w) > 72 {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}

func dockerLines(r *fit.Result, s fit.Setup) []string {
	m := fmt.Sprintf("%dm", r.LimitBytes/MiB)
	words := []string{"docker", "run", "-m", m, "--memory-swap", m}
	if r.Config.CPUs > 0 {
		words = append(words, "--cpus", fmt.Sprintf("%g", r.Config.CPUs))
	}
	if r.Config.Cpuset != "" {
		words = append(words, "--cpuset-cpus", r.Config.Cpuset)
	}
	lines := []string{shell.Words(words)}
	for _, e := range variables(r, s) {
		lines = append(lines, "-e "+shell.Quote(e))
	}
	if i := r.Config.Image; i != nil {
		if flags := i.Run.Flags(); len(flags) > 0 {
			lines = append(lines, shell.Words(flags))
		}
		return append(lines, shell.Words(append([]string{i.Name}, i.Args...)))
	}
	return append(lines, "IMAGE")
}

func kubernetesLines(r *fit.Result, s fit.Setup) []string {
	m := fmt.Sprintf("%dMi", r.LimitBytes/MiB)
	lines := []string{"resources:", "  requests:", "    memory: " + m, "  limits:", "    memory: " + m}
	if r.Config.CPUs > 0 {
		lines = append(lines, fmt.Sprintf("    cpu: %q", fmt.Sprintf("%g", r.Config.CPUs)))
	}
	env := variables(r, s)
	if len(env) == 0 {
		return lines
	}
	lines = append(lines, "env:")
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		lines = append(lines, "- name: "+name, "  value: "+yamlQuote(value))
	}
	return lines
}

// yamlQuote quotes text as a YAML 1.2 single-quoted scalar.
func yamlQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// trainNote says, as comments of a Dockerfile, how the archive of trainLines differs
// from the one that was proven.
func trainNote(r *fit.Result) []string {
	how := loadText(r.Config)
	if r.Config.Job || len(r.Config.Load.Targets) == 0 && len(r.Config.Load.Command) == 0 {
		return nil // the proof's was made alike
	}
	return []string{
		"# The archive of the proof was trained under load: " + how + ".",
		"# Here nothing is sent, so classes that only requests load are missing, and more",
		"# memory is needed than was proven. Send the same requests while this line runs.",
	}
}

// trainLines is the command that makes the archive, as a line of a Dockerfile.
func trainLines(r *fit.Result, s fit.Setup) []string {
	option := strings.ReplaceAll(r.TrainOption, r.Archive, imageArchive+filepath.Base(r.Archive))
	c := r.Config.Command
	var train []string
	for _, o := range s.Options {
		if !strings.Contains(o, imageArchive+filepath.Base(r.Archive)) {
			train = append(train, o)
		}
	}
	s.Options = append(train, option)
	words := []string{"RUN"}
	if r.OptionsByVariable() {
		words = append(words, shell.Assign(toolOptions(r, s.Options)))
		s.Options = nil
	}
	words = append(words, "timeout", "-s", "TERM", "60")
	for _, w := range s.Command(c) {
		words = append(words, shell.Quote(w))
	}
	lines := broken(words)
	lines[len(lines)-1] += " || [ $? -ge 124 ]"
	return lines
}

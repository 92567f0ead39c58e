package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/fit"
)

// fitNext writes what to paste.
func fitNext(p *printer, r *fit.Result, s Style) {
	image := imageSetup(r)
	if r.Config.Image == nil {
		p.line("  next: %s", s.Strong("on this machine"))
		p.paste(shellLines(localCommand(r)))
		p.line("")
	}
	if r.Setup.Jar != "" {
		p.line("  %s", s.Strong("in the image: the extracted jars"))
		p.line("    %s", copyLine(r))
		p.line("")
	}
	if r.Setup.NoHugePages {
		p.line("  huge pages are off by prctl(PR_SET_THP_DISABLE), which its starter has to call")
		p.line("")
	}
	if r.Archive != "" {
		p.line("  %s (it holds for this JDK, jar and path alone)", s.Strong("in the image: make the class archive"))
		p.paste(trainLines(r, image))
		p.line("")
	}
	p.line("  %s", s.Strong("docker"))
	p.paste(dockerLines(r, image))
	p.line("")
	p.line("  %s (container)", s.Strong("Kubernetes"))
	for _, l := range kubernetesLines(r, image) {
		p.line("    %s", l)
	}
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

// localCommand is the recommendation as a command, its environment before it.
func localCommand(r *fit.Result) []string {
	return append(slices.Clone(r.Setup.Env), r.Setup.Command(r.Config.Command)...)
}

// copyLine is the line of a Dockerfile that takes the extracted jars along.
func copyLine(r *fit.Result) string {
	return "COPY " + ShellQuote(filepath.Base(filepath.Dir(r.Setup.Jar))+"/") + " " + imageArchive + "   # from " + filepath.Dir(filepath.Dir(r.Setup.Jar))
}

// paste writes a command over several lines, which a shell reads as one.
func (p *printer) paste(lines []string) {
	for i, l := range lines {
		if i < len(lines)-1 {
			l += ` \`
		}
		if i > 0 {
			l = "  " + l
		}
		p.line("    %s", l)
	}
}

// shellLines quotes words and breaks them into lines of up to 72 columns.
func shellLines(words []string) []string {
	var lines []string
	line := ""
	for _, w := range words {
		q := ShellQuote(w)
		if line != "" && len(line)+1+len(q) > 72 {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += q
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
	lines := []string{ShellWords(words)}
	for _, e := range s.Env {
		lines = append(lines, "-e "+ShellQuote(e))
	}
	if len(s.Options) > 0 {
		lines = append(lines, "-e "+ShellQuote("JAVA_TOOL_OPTIONS="+r.Config.ToolOptions(s.Options)))
	}
	if i := r.Config.Image; i != nil {
		return append(lines, ShellWords(append([]string{i.Name}, i.Args...)))
	}
	return append(lines, "IMAGE")
}

func kubernetesLines(r *fit.Result, s fit.Setup) []string {
	m := fmt.Sprintf("%dMi", r.LimitBytes/MiB)
	lines := []string{"resources:", "  requests:", "    memory: " + m, "  limits:", "    memory: " + m}
	if r.Config.CPUs > 0 {
		lines = append(lines, fmt.Sprintf("    cpu: %q", fmt.Sprintf("%g", r.Config.CPUs)))
	}
	if len(s.Env) == 0 && len(s.Options) == 0 {
		return lines
	}
	lines = append(lines, "env:")
	for _, e := range s.Env {
		name, value, _ := strings.Cut(e, "=")
		lines = append(lines, "- name: "+name, "  value: "+yamlQuote(value))
	}
	if len(s.Options) > 0 {
		lines = append(lines, "- name: JAVA_TOOL_OPTIONS", "  value: "+yamlQuote(r.Config.ToolOptions(s.Options)))
	}
	return lines
}

// yamlQuote quotes text as a YAML 1.2 single-quoted scalar.
func yamlQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
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
	words := append([]string{"RUN", "timeout", "-s", "TERM", "60"}, s.Command(c)...)
	lines := shellLines(words)
	lines[len(lines)-1] += " || [ $? -ge 124 ]"
	return lines
}

// Package kubefit gives workloads of Kubernetes what a fit has proven: as text to paste,
// and as objects to apply.
package kubefit

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/profile"
)

// toolOptions is the variable that a JVM takes options from, however it is started
// (JVM TI 1.2, "JAVA_TOOL_OPTIONS").
const toolOptions = "JAVA_TOOL_OPTIONS"

// Answer is what a container is to have.
type Answer struct {
	Container string
	// Memory is the limit and the request, a quantity; CPU the limit, "" for none.
	Memory, CPU string
	// Env is in the order of the profile, JAVA_TOOL_OPTIONS last. Values are literal.
	Env []kubeapi.EnvVar
	// Files are what must be in the image for it: the class archive.
	Archive string
	// NoHugePages says that a starter must switch huge pages off (tare-exec does).
	NoHugePages bool
}

// Of is what a profile says for a container. before is what JAVA_TOOL_OPTIONS is without
// tare, which stays in front.
func Of(p *profile.Profile, container, before string) Answer {
	const mi = 1 << 20
	a := Answer{Container: container, Memory: fmt.Sprintf("%dMi", (p.LimitBytes+mi-1)/mi), NoHugePages: p.NoHugePages}
	if p.CPUs > 0 {
		a.CPU = fmt.Sprintf("%dm", int64(p.CPUs*1000+0.5))
	}
	for _, e := range p.Env {
		name, value, _ := strings.Cut(e, "=")
		a.Env = append(a.Env, kubeapi.EnvVar{Name: name, Value: value})
	}
	if len(p.Options) > 0 {
		options := make([]string, len(p.Options))
		for i, o := range p.Options {
			options[i] = quoted(o)
		}
		a.Env = append(a.Env, kubeapi.EnvVar{Name: toolOptions, Value: strings.TrimSpace(before + " " + strings.Join(options, " "))})
	}
	if p.Archive != nil {
		a.Archive = p.Archive.File
	}
	return a
}

// quoted is an option as JAVA_TOOL_OPTIONS takes it: blanks part options unless they are
// quoted (JDK: Arguments::parse_options_buffer in arguments.cpp).
func quoted(option string) string {
	switch {
	case !strings.ContainsAny(option, " \t\n\r'\""):
		return option
	case !strings.Contains(option, `"`):
		return `"` + option + `"`
	}
	return "'" + strings.ReplaceAll(option, "'", `'"'"'`) + "'"
}

// literal is a value that Kubernetes does not look for variables in: $$ is a dollar
// (k8s.io/kubernetes/third_party/forked/golang/expansion).
func literal(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// resources and env are as a container has them.
func (a Answer) resources() yaml.MapSlice {
	limits := yaml.MapSlice{{Key: "memory", Value: a.Memory}}
	if a.CPU != "" {
		limits = append(limits, yaml.MapItem{Key: "cpu", Value: a.CPU})
	}
	return yaml.MapSlice{{Key: "requests", Value: yaml.MapSlice{{Key: "memory", Value: a.Memory}}}, {Key: "limits", Value: limits}}
}

func (a Answer) env() []yaml.MapSlice {
	var out []yaml.MapSlice
	for _, e := range a.Env {
		out = append(out, yaml.MapSlice{{Key: "name", Value: e.Name}, {Key: "value", Value: literal(e.Value)}})
	}
	return out
}

// container is what of a container is said.
func (a Answer) container() yaml.MapSlice {
	c := yaml.MapSlice{{Key: "resources", Value: a.resources()}}
	if env := a.env(); len(env) > 0 {
		c = append(c, yaml.MapItem{Key: "env", Value: env})
	}
	return c
}

// Target is the workload that gets it.
type Target struct {
	kubeapi.Workload
	Namespace, Name string
}

// object is the workload with what is said alone, as server-side apply and strategic
// merge patches take it.
func (t Target) object(a Answer) yaml.MapSlice {
	inner := any(yaml.MapSlice{{Key: "spec", Value: yaml.MapSlice{{Key: "containers", Value: []yaml.MapSlice{append(yaml.MapSlice{{Key: "name", Value: a.Container}}, a.container()...)}}}}})
	for i := len(t.Template) - 1; i >= 0; i-- {
		inner = yaml.MapSlice{{Key: t.Template[i], Value: inner}}
	}
	meta := yaml.MapSlice{{Key: "name", Value: t.Name}}
	if t.Namespace != "" {
		meta = append(meta, yaml.MapItem{Key: "namespace", Value: t.Namespace})
	}
	return append(yaml.MapSlice{{Key: "apiVersion", Value: t.APIVersion}, {Key: "kind", Value: t.Kind}, {Key: "metadata", Value: meta}}, inner.(yaml.MapSlice)...)
}

// Formats are the names that Show knows.
func Formats() []string { return []string{"kubernetes", "kustomize", "helm-values", "patch", "vpa"} }

// Show writes an answer as text to paste: kubernetes is what the container has, patch the
// workload with that alone, kustomize a kustomization with the patch, helm-values the keys
// that most charts have, and vpa an autoscaler that goes no lower.
func Show(format string, t Target, a Answer) (string, error) {
	var doc any
	switch format {
	case "kubernetes", "helm-values":
		doc = a.container()
	case "patch":
		doc = t.object(a)
	case "kustomize":
		patch, err := encode(t.object(a))
		if err != nil {
			return "", err
		}
		doc = yaml.MapSlice{{Key: "apiVersion", Value: "kustomize.config.k8s.io/v1beta1"}, {Key: "kind", Value: "Kustomization"},
			{Key: "resources", Value: []string{"base"}},
			{Key: "patches", Value: []yaml.MapSlice{{{Key: "patch", Value: patch}}}}}
	case "vpa":
		doc = t.autoscaler(a)
	default:
		return "", fmt.Errorf("format %.40q: want one of %s", format, strings.Join(Formats(), ", "))
	}
	text, err := encode(doc)
	if err != nil {
		return "", err
	}
	return comments(a) + text, nil
}

func encode(v any) (string, error) {
	text, err := yaml.MarshalWithOptions(v, yaml.IndentSequence(false), yaml.UseLiteralStyleIfMultiline(true))
	return string(text), err
}

// comments say what the text alone does not bring.
func comments(a Answer) string {
	out := ""
	if a.Archive != "" {
		out += "# The image must have the class archive " + fmt.Sprintf("%q", a.Archive) + ": tare bake puts it in.\n"
	}
	if a.NoHugePages {
		out += "# It was proven without huge pages: start the JVM by tare-exec, or the limit does not hold.\n"
	}
	return out
}

// autoscaler is a VerticalPodAutoscaler that recommends and applies no less memory than
// was proven (autoscaling.k8s.io/v1).
func (t Target) autoscaler(a Answer) yaml.MapSlice {
	meta := yaml.MapSlice{{Key: "name", Value: t.Name}}
	if t.Namespace != "" {
		meta = append(meta, yaml.MapItem{Key: "namespace", Value: t.Namespace})
	}
	policy := yaml.MapSlice{{Key: "containerName", Value: a.Container}, {Key: "controlledResources", Value: []string{"memory"}},
		{Key: "controlledValues", Value: "RequestsAndLimits"}, {Key: "minAllowed", Value: yaml.MapSlice{{Key: "memory", Value: a.Memory}}}}
	return yaml.MapSlice{{Key: "apiVersion", Value: "autoscaling.k8s.io/v1"}, {Key: "kind", Value: "VerticalPodAutoscaler"}, {Key: "metadata", Value: meta},
		{Key: "spec", Value: yaml.MapSlice{
			{Key: "targetRef", Value: yaml.MapSlice{{Key: "apiVersion", Value: t.APIVersion}, {Key: "kind", Value: t.Kind}, {Key: "name", Value: t.Name}}},
			{Key: "resourcePolicy", Value: yaml.MapSlice{{Key: "containerPolicies", Value: []yaml.MapSlice{policy}}}}}}}
}

// fromYAML is what a YAML text says, as JSON does.
func fromYAML(text string) (map[string]any, error) {
	var out map[string]any
	err := yaml.Unmarshal([]byte(text), &out)
	return out, err
}

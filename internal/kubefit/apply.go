package kubefit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/profile"
)

// Manager is tare's name as a field manager of server-side apply.
const Manager = "tare"

// beforeKey is the annotation with what the container had before tare.
const beforeKey = "tare.dev/before"

// before is what a container had of what tare sets. A variable that is not there was not.
type before struct {
	Container string            `json:"container"`
	Resources kubeapi.Resources `json:"resources"`
	Env       map[string]string `json:"env,omitempty"`
}

// object is what is read of a workload.
type object struct {
	Metadata struct {
		kubeapi.Meta
		Managed []struct {
			Manager   string `json:"manager"`
			Operation string `json:"operation"`
		} `json:"managedFields"`
	} `json:"metadata"`
	raw map[string]any
}

// The errors that a user can do something about.
var (
	ErrNoContainer = errors.New("name the container")
	ErrNothing     = errors.New("tare has applied nothing to it")
	ErrReference   = errors.New("is set from elsewhere (valueFrom), which tare would replace")
)

func read(ctx context.Context, c *kubeapi.Client, t Target) (*object, error) {
	text, err := c.Do(ctx, kubeapi.Request{Method: http.MethodGet, Path: t.Path(t.Namespace, t.Name)})
	if err != nil {
		return nil, err
	}
	return decode(text)
}

func decode(text []byte) (*object, error) {
	o := &object{}
	if err := json.Unmarshal(text, o); err != nil {
		return nil, err
	}
	return o, json.Unmarshal(text, &o.raw)
}

// template is the pod template of a workload.
func (o *object) template(t Target) map[string]any {
	at := o.raw
	for _, key := range t.Template {
		at, _ = at[key].(map[string]any)
	}
	return at
}

// containers of a workload, by name, in their order.
func (o *object) containers(t Target) (names []string, all map[string]map[string]any) {
	all = map[string]map[string]any{}
	spec, _ := o.template(t)["spec"].(map[string]any)
	list, _ := spec["containers"].([]any)
	for _, one := range list {
		c, _ := one.(map[string]any)
		if name, _ := c["name"].(string); name != "" {
			names, all[name] = append(names, name), c
		}
	}
	return names, all
}

// had is what a container has now of what may be set.
func had(name string, c map[string]any) (before, map[string]bool) {
	b := before{Container: name, Env: map[string]string{}}
	elsewhere := map[string]bool{}
	if text, err := json.Marshal(c["resources"]); err == nil {
		_ = json.Unmarshal(text, &b.Resources) // quantities are strings, as the server writes them
	}
	list, _ := c["env"].([]any)
	for _, one := range list {
		e, _ := one.(map[string]any)
		name, _ := e["name"].(string)
		if value, ok := e["value"].(string); ok || e["valueFrom"] == nil {
			b.Env[name] = value
		} else {
			elsewhere[name] = true
		}
	}
	return b, elsewhere
}

// Plan is what would be applied, and what that changes.
type Plan struct {
	Target  Target
	Answer  Answer
	Changes []Change
	// Differs is what the server made other than was asked: an admission webhook, or a
	// LimitRange.
	Differs []Change

	apply map[string]any
}

// Change is one field before and after; "" is absent.
type Change struct{ Field, From, To string }

// String is the change on one line.
func (c Change) String() string {
	show := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	return c.Field + ": " + show(c.From) + " → " + show(c.To)
}

// Prepare asks the server what applying a profile to a container would change, and
// changes nothing (dryRun=All). container may be empty where there is one alone.
func Prepare(ctx context.Context, c *kubeapi.Client, t Target, container string, p *profile.Profile) (*Plan, error) {
	live, err := read(ctx, c, t)
	if err != nil {
		return nil, err
	}
	names, all := live.containers(t)
	if container == "" && len(names) == 1 {
		container = names[0]
	}
	if all[container] == nil {
		return nil, fmt.Errorf("%s %s has the containers %s: %w", t.Kind, t.Name, strings.Join(names, ", "), ErrNoContainer)
	}
	first, elsewhere := had(container, all[container])
	if old, err := live.before(); err == nil && old.Container == container {
		first = old // what was there before tare, and not what tare set
	}
	a := Of(p, container, first.Env[toolOptions])
	for _, e := range a.Env {
		if elsewhere[e.Name] {
			return nil, fmt.Errorf("variable %s of container %s %w", e.Name, container, ErrReference)
		}
	}
	plan := &Plan{Target: t, Answer: a}
	if plan.apply, err = plan.object(first); err != nil {
		return nil, err
	}
	text, err := c.Apply(ctx, t.Path(t.Namespace, t.Name), Manager, plan.apply, true, true)
	if err != nil {
		return nil, err
	}
	after, err := decode(text)
	if err != nil {
		return nil, err
	}
	plan.Changes = changes(flat(live.template(t)), flat(after.template(t)))
	_, got := after.containers(t)
	plan.Differs = plan.differs(got[container])
	return plan, nil
}

// object is what is applied: the answer, and the annotation to undo it.
func (p *Plan) object(first before) (map[string]any, error) {
	text, err := encode(p.Target.object(p.Answer))
	if err != nil {
		return nil, err
	}
	o, err := fromYAML(text)
	if err != nil {
		return nil, err
	}
	kept := before{Container: first.Container, Resources: first.Resources, Env: map[string]string{}}
	for _, e := range p.Answer.Env {
		if value, ok := first.Env[e.Name]; ok {
			kept.Env[e.Name] = value
		}
	}
	note, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	o["metadata"].(map[string]any)["annotations"] = map[string]any{beforeKey: string(note)}
	return o, nil
}

// differs compares what was asked for with what the server would make of it.
func (p *Plan) differs(got map[string]any) []Change {
	now, _ := had(p.Answer.Container, got)
	var out []Change
	check := func(field, asked, got string) {
		if asked != "" && asked != got {
			out = append(out, Change{field, asked, got})
		}
	}
	check("limits.memory", p.Answer.Memory, now.Resources.Limits["memory"])
	check("requests.memory", p.Answer.Memory, now.Resources.Requests["memory"])
	for _, e := range p.Answer.Env {
		check("env "+e.Name, literal(e.Value), now.Env[e.Name])
	}
	return out
}

// Apply applies a plan. Without force a field that another manager has is an answer 409.
func (p *Plan) Apply(ctx context.Context, c *kubeapi.Client, force bool) error {
	_, err := c.Apply(ctx, p.Target.Path(p.Target.Namespace, p.Target.Name), Manager, p.apply, false, force)
	return err
}

// before is what the annotation says; the error is ErrNothing without one.
func (o *object) before() (before, error) {
	var b before
	text := o.Metadata.Annotations[beforeKey]
	if text == "" {
		return b, ErrNothing
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil || b.Container == "" {
		return b, fmt.Errorf("annotation %s is not tare's: %w", beforeKey, ErrNothing)
	}
	return b, nil
}

// Undo gives a workload back what it had before, and gives up the fields. It returns what
// that changes; without do it changes nothing.
func Undo(ctx context.Context, c *kubeapi.Client, t Target, do bool) ([]Change, error) {
	live, err := read(ctx, c, t)
	if err != nil {
		return nil, err
	}
	old, err := live.before()
	if err != nil {
		return nil, err
	}
	container := map[string]any{"name": old.Container}
	resources := map[string]any{}
	// What has stayed another manager's would keep tare's value: it is set, too.
	if len(old.Resources.Limits) > 0 {
		resources["limits"] = old.Resources.Limits
	}
	if len(old.Resources.Requests) > 0 {
		resources["requests"] = old.Resources.Requests
	}
	if len(resources) > 0 {
		container["resources"] = resources
	}
	var env []map[string]string
	for _, name := range slices.Sorted(maps.Keys(old.Env)) {
		env = append(env, map[string]string{"name": name, "value": old.Env[name]})
	}
	if len(env) > 0 {
		container["env"] = env
	}
	inner := map[string]any{"spec": map[string]any{"containers": []any{container}}}
	for i := len(t.Template) - 1; i >= 0; i-- {
		inner = map[string]any{t.Template[i]: inner}
	}
	inner["apiVersion"], inner["kind"], inner["metadata"] = t.APIVersion, t.Kind, map[string]any{"name": t.Name, "namespace": t.Namespace}
	text, err := c.Apply(ctx, t.Path(t.Namespace, t.Name), Manager, inner, !do, true)
	if err != nil {
		return nil, err
	}
	after, err := decode(text)
	if err != nil {
		return nil, err
	}
	if do {
		err = release(ctx, c, t, after)
	}
	return changes(flat(live.template(t)), flat(after.template(t))), err
}

// release gives up what tare manages of a workload, so that who applies it next finds no
// conflict.
func release(ctx context.Context, c *kubeapi.Client, t Target, o *object) error {
	for i, m := range o.Metadata.Managed {
		if m.Manager != Manager || m.Operation != "Apply" {
			continue
		}
		path := fmt.Sprintf("/metadata/managedFields/%d", i)
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": path + "/manager", "value": Manager},
			{"op": "remove", "path": path},
		})
		if err != nil {
			return err
		}
		_, err = c.Do(ctx, kubeapi.Request{Method: http.MethodPatch, Path: t.Path(t.Namespace, t.Name), ContentType: "application/json-patch+json", Body: patch})
		return err
	}
	return nil
}

// flat lists the fields of an object by their paths; parts of lists go by their name.
func flat(o map[string]any) map[string]string {
	out := map[string]string{}
	flatten(out, "", o)
	return out
}

func flatten(out map[string]string, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			flatten(out, strings.TrimPrefix(at+"."+key, "."), value)
		}
	case []any:
		for i, value := range v {
			key := fmt.Sprint(i)
			if m, ok := value.(map[string]any); ok {
				if name, ok := m["name"].(string); ok {
					key = name
				}
			}
			flatten(out, at+"["+key+"]", value)
		}
	case nil:
	default:
		if !strings.HasSuffix(at, "].name") {
			out[at] = fmt.Sprint(v)
		}
	}
}

// changes are the fields that differ, in the order of their paths.
func changes(from, to map[string]string) []Change {
	var out []Change
	for _, field := range slices.Sorted(maps.Keys(from)) {
		if from[field] != to[field] {
			out = append(out, Change{field, from[field], to[field]})
		}
	}
	for _, field := range slices.Sorted(maps.Keys(to)) {
		if _, ok := from[field]; !ok {
			out = append(out, Change{field, "", to[field]})
		}
	}
	return out
}

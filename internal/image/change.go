package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Change is what is put on top of an image.
type Change struct {
	Layers []Layer
	// Entrypoint and Cmd take the place of the image's own; nil leaves those.
	Entrypoint, Cmd []string
	// Env are variables, "NAME=value", that are set or take the place of others.
	Env []string
	// Labels are added to the configuration, Annotations to the manifest.
	Labels, Annotations map[string]string
}

// Put is an image with a change on top. The configuration is edited as JSON: what
// the change does not name stays as it is, fields that tare does not know and the
// time of creation included.
func (i *Image) Put(c Change) (*Image, error) {
	out := &Image{layers: slices.Clone(i.layers), annotations: c.Annotations, close: func() error { return nil }}
	top, err := object(i.config)
	if err == nil {
		err = errors.Join(c.editContainer(top), c.addLayers(top))
	}
	if err != nil {
		return nil, fmt.Errorf("configuration of the image: %w", err)
	}
	if out.config, err = encode(top); err != nil {
		return nil, err
	}
	for _, l := range c.Layers {
		out.layers = append(out.layers, l.Layer)
	}
	return out, nil
}

// editContainer edits the key "config".
func (c Change) editContainer(top map[string]json.RawMessage) error {
	inner, err := object(top["config"])
	if err != nil {
		return err
	}
	var now Config
	if err := json.Unmarshal(top["config"], &now); err != nil && len(top["config"]) > 0 {
		return err
	}
	labels := maps.Clone(now.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, c.Labels)
	set := func(key string, value any, changed bool) {
		if changed && err == nil {
			inner[key], err = encode(value)
		}
	}
	set("Entrypoint", c.Entrypoint, c.Entrypoint != nil)
	set("Cmd", c.Cmd, c.Cmd != nil)
	set("Env", withEnv(now.Env, c.Env), len(c.Env) > 0)
	set("Labels", labels, len(c.Labels) > 0)
	if err == nil {
		top["config"], err = encode(inner)
	}
	return err
}

// withEnv is an environment with variables set, in their old places.
func withEnv(env, set []string) []string {
	out := slices.Clone(env)
	for _, e := range set {
		name, _, _ := strings.Cut(e, "=")
		at := slices.IndexFunc(out, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		if at < 0 {
			out = append(out, e)
		} else {
			out[at] = e
		}
	}
	return out
}

// addLayers edits the keys "rootfs" and, where there is one, "history".
func (c Change) addLayers(top map[string]json.RawMessage) error {
	fs, err := object(top["rootfs"])
	if err != nil {
		return err
	}
	var ids []v1.Hash
	if err := json.Unmarshal(fs["diff_ids"], &ids); err != nil {
		return fmt.Errorf("rootfs: %w", err)
	}
	var history []json.RawMessage
	if len(top["history"]) > 0 {
		if err := json.Unmarshal(top["history"], &history); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	kept := len(history) > 0
	for _, l := range c.Layers {
		id, err := l.DiffID()
		if err != nil {
			return err
		}
		line := map[string]any{"created_by": l.CreatedBy}
		if created := top["created"]; len(created) > 0 {
			line["created"] = created
		}
		text, err := encode(line)
		if err != nil {
			return err
		}
		ids, history = append(ids, id), append(history, text)
	}
	if fs["diff_ids"], err = encode(ids); err != nil {
		return err
	}
	if kept {
		if top["history"], err = encode(history); err != nil {
			return err
		}
	}
	top["rootfs"], err = encode(fs)
	return err
}

// object reads a JSON object whose values stay as they are; of null or nothing, an
// empty one.
func object(text []byte) (map[string]json.RawMessage, error) {
	m := map[string]json.RawMessage{}
	if len(text) == 0 {
		return m, nil
	}
	err := json.Unmarshal(text, &m)
	if m == nil {
		m = map[string]json.RawMessage{}
	}
	return m, err
}

// encode writes JSON with sorted keys, and with <, > and & as they are.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tare.dev/tare/internal/bounded"
	"tare.dev/tare/internal/linux"
)

// What a container of an application has beside it: networks, volumes, and commands
// that run in other containers.

// CreateNetwork makes a bridge network.
func (e *Engine) CreateNetwork(ctx context.Context, name string, labels map[string]string) error {
	body := struct {
		Name, Driver   string
		CheckDuplicate bool
		Labels         map[string]string
	}{name, "bridge", true, labels}
	return e.expect(ctx, http.MethodPost, "/networks/create", nil, body, "making of network "+name, http.StatusCreated)
}

// RemoveNetwork removes a network that no container is in; that there is none is no
// error.
func (e *Engine) RemoveNetwork(ctx context.Context, name string) error {
	return e.expect(ctx, http.MethodDelete, "/networks/"+url.PathEscape(name), nil, nil, "removal of network "+name, http.StatusNoContent, http.StatusNotFound)
}

// CreateVolume makes a volume of the engine's own driver; one of that name that is there
// stays as it is.
func (e *Engine) CreateVolume(ctx context.Context, name string, labels map[string]string) error {
	body := struct {
		Name   string
		Labels map[string]string
	}{name, labels}
	return e.expect(ctx, http.MethodPost, "/volumes/create", nil, body, "making of volume "+name, http.StatusCreated)
}

// RemoveVolume removes a volume that no container has; that there is none is no error.
func (e *Engine) RemoveVolume(ctx context.Context, name string) error {
	return e.expect(ctx, http.MethodDelete, "/volumes/"+url.PathEscape(name), nil, nil, "removal of volume "+name, http.StatusNoContent, http.StatusNotFound)
}

// HasVolume says whether there is a volume, and which running containers have it.
func (e *Engine) HasVolume(ctx context.Context, name string) (there bool, users []string, err error) {
	status, text, err := e.ask(ctx, http.MethodGet, "/volumes/"+url.PathEscape(name), nil, nil)
	if err != nil || status == http.StatusNotFound {
		return false, nil, err
	}
	if status != http.StatusOK {
		return false, nil, fmt.Errorf("volume %.100q: %w", name, refusal(status, text))
	}
	var all []struct{ Names []string }
	if err := e.list(ctx, "/containers/json", map[string][]string{"volume": {name}, "status": {"running"}}, &all); err != nil {
		return true, nil, err
	}
	for _, c := range all {
		users = append(users, linux.PrintableName(strings.TrimPrefix(strings.Join(c.Names, ","), "/")))
	}
	return true, users, nil
}

// LabelledNetworks and LabelledVolumes list what has a label: its value by the name.
func (e *Engine) LabelledNetworks(ctx context.Context, label string) (map[string]string, error) {
	var all []labelled
	err := e.list(ctx, "/networks", map[string][]string{"label": {label}}, &all)
	return byName(all, label), err
}

// LabelledVolumes is as LabelledNetworks.
func (e *Engine) LabelledVolumes(ctx context.Context, label string) (map[string]string, error) {
	var all struct{ Volumes []labelled }
	err := e.list(ctx, "/volumes", map[string][]string{"label": {label}}, &all)
	return byName(all.Volumes, label), err
}

type labelled struct {
	Name   string
	Labels map[string]string
}

func byName(all []labelled, label string) map[string]string {
	found := map[string]string{}
	for _, l := range all {
		if value, ok := l.Labels[label]; ok {
			found[l.Name] = value
		}
	}
	return found
}

// list reads a list that filters narrow.
func (e *Engine) list(ctx context.Context, path string, filters map[string][]string, to any) error {
	f, err := json.Marshal(filters)
	if err != nil {
		return err
	}
	status, text, err := e.work(ctx, http.MethodGet, path, url.Values{"filters": {string(f)}}, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("list of %s: %w", path, refusal(status, text))
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("list of %s: reading the answer of the Docker Engine: %w", path, err)
	}
	return nil
}

// expect asks for something that is done when the answer has one of the statuses.
func (e *Engine) expect(ctx context.Context, method, path string, query url.Values, body any, what string, done ...int) error {
	status, text, err := e.work(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	for _, d := range done {
		if status == d {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", what, refusal(status, text))
}

// CopyTo unpacks a tar archive into a folder of a container, which need not run.
func (e *Engine) CopyTo(ctx context.Context, id, folder string, archive io.Reader) error {
	resp, err := e.sendRaw(ctx, http.MethodPut, containerPath(id, "/archive"), url.Values{"path": {folder}, "copyUIDGID": {"1"}}, archive, http.Header{"Content-Type": {"application/x-tar"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // of a message that breaks off there is less
	return fmt.Errorf("%.200q of container %.12s: %w", folder, id, refusal(resp.StatusCode, text))
}

// maxOutput bounds what is kept of what a command or a container prints.
const maxOutput = 16 << 10

// Exec runs a command in a running container, and returns its exit code and the
// beginning of what it printed.
func (e *Engine) Exec(ctx context.Context, id string, args []string) (code int, output string, err error) {
	fail := func(err error) (int, string, error) {
		return 0, "", fmt.Errorf("command in container %.12s: %w", id, err)
	}
	status, text, err := e.work(ctx, http.MethodPost, containerPath(id, "/exec"), nil, struct {
		Cmd                        []string
		AttachStdout, AttachStderr bool
	}{args, true, true})
	var made struct{ ID string }
	if err == nil && status != http.StatusCreated {
		err = refusal(status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil {
		return fail(err)
	}
	path := "/exec/" + url.PathEscape(made.ID)
	resp, err := e.send(ctx, http.MethodPost, path+"/start", nil, struct{ Detach, Tty bool }{}, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"tcp"}})
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // of a message that breaks off there is less
		return fail(refusal(resp.StatusCode, text))
	}
	stop := context.AfterFunc(ctx, func() { resp.Body.Close() }) // a connection that was taken over heeds no context
	defer stop()
	out := &bounded.Buffer{Most: maxOutput}
	err = Demux(resp.Body, out, out)
	if err := ctx.Err(); err != nil {
		return 0, "", err
	}
	if err != nil {
		return fail(err)
	}
	status, text, err = e.ask(ctx, http.MethodGet, path+"/json", nil, nil)
	var state struct{ ExitCode *int }
	if err == nil && status != http.StatusOK {
		err = refusal(status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err == nil && state.ExitCode == nil {
		err = errors.New("the Docker Engine names no exit code")
	}
	if err != nil {
		return fail(err)
	}
	return *state.ExitCode, out.String(), nil
}

// Log is the end of what a container printed, where its spec has KeepLog.
func (e *Engine) Log(ctx context.Context, id string, lines int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := e.send(ctx, http.MethodGet, containerPath(id, "/logs"), url.Values{"stdout": {"1"}, "stderr": {"1"}, "tail": {fmt.Sprint(lines)}}, nil, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // of a message that breaks off there is less
		return "", fmt.Errorf("log of container %.12s: %w", id, refusal(resp.StatusCode, text))
	}
	out := &bounded.Buffer{Most: maxOutput}
	err = Demux(resp.Body, out, out)
	return out.String(), err
}

// Stop ends a container: by its stop signal, and after the grace by SIGKILL.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	return e.expect(ctx, http.MethodPost, containerPath(id, "/stop"), url.Values{"t": {fmt.Sprint(int(grace.Seconds()))}}, nil, fmt.Sprintf("end of container %.12s", id),
		http.StatusNoContent, http.StatusNotModified, http.StatusNotFound)
}

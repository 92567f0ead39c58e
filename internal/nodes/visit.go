package nodes

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/linux"
)

// Visit is tare in a pod itself, where its node has no agent: in an ephemeral container
// that sees the processes of one container of the pod (Kubernetes: ephemeral containers,
// targetContainerName). That ends with the connection, and stays in the pod's
// specification, for Kubernetes removes none.
type Visit struct {
	client    *kubeapi.Client
	pod       *kubeapi.Pod
	container string
	line      *io.PipeWriter // its standard input
	hangUp    context.CancelFunc
	ended     chan struct{}
}

// VisitRights are what a visit of a pod in a namespace needs.
func VisitRights(namespace string) []kubeapi.Right {
	return []kubeapi.Right{
		{Verb: "get", Resource: "pods", Namespace: namespace},
		{Verb: "patch", Resource: "pods", Subresource: "ephemeralcontainers", Namespace: namespace},
		{Verb: "create", Resource: "pods", Subresource: "attach", Namespace: namespace},
		{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: namespace},
	}
}

const (
	// program is tare in its own image.
	program = "/usr/bin/tare"
	// visitStart bounds the start of the container, in which the image is pulled, visitEnd
	// its end.
	visitStart = 3 * time.Minute
	visitEnd   = 10 * time.Second
	visitPoll  = 300 * time.Millisecond
	// holdTime is how long the container waits for somebody to connect.
	holdTime = time.Minute
)

// ErrVisit says that the ephemeral container did not come to run.
var ErrVisit = errors.New("tare's ephemeral container does not run")

// Begin starts tare's image beside a container of a pod.
func Begin(ctx context.Context, c *kubeapi.Client, p *kubeapi.Pod, target, image string) (*Visit, error) {
	v := &Visit{client: c, pod: p, container: "tare-" + strings.ToLower(rand.Text()[:8]), ended: make(chan struct{})}
	if err := v.create(ctx, target, image); err != nil {
		return nil, err
	}
	if err := v.await(ctx); err != nil {
		return nil, err
	}
	in, line := io.Pipe()
	var long context.Context
	long, v.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	v.line = line
	go func() {
		defer close(v.ended)
		in.CloseWithError(v.client.Attach(long, p.Metadata.Namespace, p.Metadata.Name, v.container, in)) // the next write fails with it
	}()
	stop := context.AfterFunc(ctx, v.hangUp)
	_, err := line.Write([]byte{'\n'}) // when it is connected
	if stop(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrVisit, err), v.Close())
	}
	return v, nil
}

// create adds the container to the pod. Capabilities: SYS_PTRACE reads the memory of the
// JVM, DAC_READ_SEARCH the files of one that does not run as root.
func (v *Visit) create(ctx context.Context, target, image string) error {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"ephemeralContainers": []any{map[string]any{
		"name": v.container, "image": image, "command": []string{program, "kube", "hold"}, "targetContainerName": target,
		"stdin": true, "stdinOnce": true,
		"securityContext": map[string]any{"runAsUser": 0, "runAsNonRoot": false, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": map[string]any{"drop": []string{"ALL"}, "add": []string{"SYS_PTRACE", "DAC_READ_SEARCH"}}}}}}})
	if err != nil {
		return err
	}
	_, err = v.client.Do(ctx, kubeapi.Request{Method: http.MethodPatch, Path: kubeapi.PodPath(v.pod.Metadata.Namespace, v.pod.Metadata.Name) + "/ephemeralcontainers",
		ContentType: "application/strategic-merge-patch+json", Body: body})
	return err
}

// await waits until the container runs.
func (v *Visit) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, visitStart)
	defer cancel()
	why := "the node has not started it"
	for {
		var p kubeapi.Pod
		if err := v.client.Get(ctx, kubeapi.PodPath(v.pod.Metadata.Namespace, v.pod.Metadata.Name), nil, &p); err != nil {
			return err
		}
		for _, s := range p.Status.Ephemeral {
			switch {
			case s.Name != v.container:
			case s.State.Running != nil:
				return nil
			case s.State.Terminated != nil:
				return fmt.Errorf("%w: it ended with exit code %d: %s", ErrVisit, s.State.Terminated.ExitCode, linux.PrintableName(s.State.Terminated.Message))
			case s.State.Waiting != nil:
				why = linux.PrintableName(s.State.Waiting.Reason + ": " + s.State.Waiting.Message)
				if help, ok := kubeapi.Broken(s.State.Waiting.Reason); ok {
					return fmt.Errorf("%w: %s: %s", ErrVisit, why, help)
				}
			}
		}
		select {
		case <-time.After(visitPoll):
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: %w", ErrVisit, why, ctx.Err())
		}
	}
}

// Weigh weighs the JVM of the container.
func (v *Visit) Weigh(ctx context.Context) (*footprint.Footprint, error) {
	text, err := v.run(ctx, "weigh", "--list", "--json")
	if err != nil {
		return nil, err
	}
	var all []struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("JVMs of pod %s: %w", v.pod.Metadata.Name, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pod %s has no JVM in that container", v.pod.Metadata.Name)
	}
	if text, err = v.run(ctx, "weigh", "--json", strconv.Itoa(all[0].PID)); err != nil {
		return nil, err
	}
	return footprint.Decode(bytes.NewReader(text))
}

func (v *Visit) run(ctx context.Context, args ...string) ([]byte, error) {
	return v.client.Exec(ctx, v.pod.Metadata.Namespace, v.pod.Metadata.Name, v.container, append([]string{program}, args...)...)
}

// Close ends the container.
func (v *Visit) Close() error {
	defer v.hangUp()
	err := v.line.Close()
	select {
	case <-v.ended:
	case <-time.After(visitEnd):
	}
	return err
}

// Hold waits until in ends, and where nothing comes no longer than holdTime: it is what the
// container runs.
func Hold(ctx context.Context, in io.Reader) error {
	connected, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := io.ReadFull(in, make([]byte, 1)); err != nil {
			return
		}
		close(connected)
		_, _ = io.Copy(io.Discard, in) // its end is all that is waited for
	}()
	select {
	case <-connected:
	case <-ended:
	case <-time.After(holdTime):
		return fmt.Errorf("nobody connected within %s", holdTime)
	case <-ctx.Done():
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

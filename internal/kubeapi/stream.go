package kubeapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/tools/remotecommand"

	"tare.dev/tare/internal/bounded"
	"tare.dev/tare/internal/linux"
)

// maxSaid bounds what is kept of what a command says on its standard error.
const maxSaid = 4 << 10

// Exec runs a command in a container of a pod, and returns what it prints. The error of one
// that fails has the beginning of what it says on its standard error.
func (c *Client) Exec(ctx context.Context, namespace, pod, container string, command ...string) ([]byte, error) {
	out, said := &bounded.Buffer{Most: maxAnswer + 1}, &bounded.Buffer{Most: maxSaid}
	q := url.Values{"container": {container}, "command": command, "stdout": {"true"}, "stderr": {"true"}}
	err := c.stream(ctx, PodPath(namespace, pod)+"/exec", q, remotecommand.StreamOptions{Stdout: out, Stderr: said})
	switch {
	case err != nil:
		return nil, fmt.Errorf("pod %s: %s: %s: %s", pod, strings.Join(command, " "), linux.PrintableName(err.Error()), linux.Printable(strings.TrimSpace(said.String())))
	case len(out.Bytes()) > maxAnswer:
		return nil, fmt.Errorf("pod %s: %s: an answer of more than %d MiB", pod, strings.Join(command, " "), maxAnswer>>20)
	}
	return out.Bytes(), nil
}

// Attach is the standard input of a container's first process until in ends, or the
// process, or ctx.
func (c *Client) Attach(ctx context.Context, namespace, pod, container string, in io.Reader) error {
	q := url.Values{"container": {container}, "stdin": {"true"}}
	if err := c.stream(ctx, PodPath(namespace, pod)+"/attach", q, remotecommand.StreamOptions{Stdin: in}); err != nil {
		return fmt.Errorf("attach to pod %s: %s", pod, linux.PrintableName(err.Error()))
	}
	return nil
}

func (c *Client) stream(ctx context.Context, path string, query url.Values, options remotecommand.StreamOptions) error {
	quiet()
	u, err := url.Parse(strings.TrimSuffix(c.base.String(), "/") + path)
	if err != nil {
		return err
	}
	u.RawQuery = query.Encode()
	e, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, u)
	if err != nil {
		return err
	}
	return e.StreamWithContext(ctx, options)
}

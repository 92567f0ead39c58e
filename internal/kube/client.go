// Package kube makes trials in a Kubernetes cluster: each a Job of one Pod, in which the
// application and tare's agent are containers.
package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"tare.dev/tare/internal/linux"
)

// Client speaks to an API server in JSON. It knows no types of its own, so that they cost
// nothing where no cluster is asked.
type Client struct {
	config    *rest.Config
	http      *http.Client
	base      string
	namespace string
	accept    string
}

const (
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 32 << 20
	callTime  = 30 * time.Second
)

// Open finds the cluster: that of a kubeconfig file ($KUBECONFIG and ~/.kube/config where
// none is named), or the one that this process is a pod of. The namespace is the context's
// where none is named.
func Open(kubeconfig, kubeContext, namespace string) (*Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w: give --kubeconfig, or set KUBECONFIG", err)
	}
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("namespace: %w", err)
		}
	}
	config.UserAgent = "tare"
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return &Client{config: config, http: client, base: strings.TrimSuffix(base.String(), "/"), namespace: namespace}, nil
}

// withAccept is the client for another form of answers.
func (c *Client) withAccept(form string) *Client {
	of := *c
	of.accept = form
	return &of
}

// Namespace is where objects are made.
func (c *Client) Namespace() string { return c.namespace }

// StatusError is what an API server says of a request that it did not do.
type StatusError struct {
	Code    int
	Reason  metav1.StatusReason
	Message string
}

// Error is the server's message.
func (e *StatusError) Error() string { return linux.PrintableName(e.Message) }

// is tells whether an error is the API server's of a reason.
func is(err error, reason metav1.StatusReason) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Reason == reason
}

// do sends a request; in and out may be nil.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	return c.send(ctx, method, path, query, "application/json", in, out)
}

func (c *Client) send(ctx context.Context, method, path string, query url.Values, content string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", cmp.Or(c.accept, "application/json"))
	r.Header.Set("Content-Type", content)
	resp, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d MiB", maxAnswer>>20)
	}
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return statusError(resp.StatusCode, text)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("API server: answer of %s: %w", path, err)
	}
	return nil
}

// patch changes an object (JSON Merge Patch, RFC 7396).
func (c *Client) patch(ctx context.Context, path string, change any) error {
	return c.send(ctx, http.MethodPatch, path, nil, "application/merge-patch+json", change, nil)
}

func statusError(code int, text []byte) error {
	var s metav1.Status
	if err := json.Unmarshal(text, &s); err != nil || s.Message == "" {
		s.Message = fmt.Sprintf("%s: %.200s", http.StatusText(code), text)
	}
	return &StatusError{Code: code, Reason: s.Reason, Message: s.Message}
}

// path is where objects of a resource are, in the client's namespace; group is such as
// api/v1 or apis/batch/v1.
func (c *Client) path(group, resource string, name ...string) string {
	p := "/" + group + "/namespaces/" + url.PathEscape(c.namespace) + "/" + resource
	for _, n := range name {
		p += "/" + url.PathEscape(n)
	}
	return p
}

// Right is something that a user may do in a namespace.
type Right struct {
	Verb, Group, Resource, Subresource string
}

// String is the right as kubectl auth can-i names it.
func (r Right) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	return s
}

// Missing are those of the rights that the user does not have (SelfSubjectAccessReview).
func (c *Client) Missing(ctx context.Context, rights []Right) ([]Right, error) {
	var missing []Right
	for _, right := range rights {
		review := authorizationv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Namespace: c.namespace, Verb: right.Verb, Group: right.Group, Resource: right.Resource, Subresource: right.Subresource}
		var answer authorizationv1.SelfSubjectAccessReview
		if err := c.do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", nil, review, &answer); err != nil {
			return nil, fmt.Errorf("rights in namespace %s: %w", c.namespace, err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

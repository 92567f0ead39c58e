package nodes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kubeapi"
)

const (
	// Port is where the chart has agents listen.
	Port = 9276
	// AgentLabel is what the chart's agents have, TokenSecret the secret with their token.
	AgentLabel  = "app.kubernetes.io/name=tare,app.kubernetes.io/component=agent"
	TokenSecret = "tare-agent"
	maxNodes    = 20_000
)

// Fleet is the agents of a cluster.
type Fleet struct {
	client    *kubeapi.Client
	namespace string // of the agents
	token     string
	agents    map[string]string // pods by node
}

// ErrNoAgent says that no agent runs on a node.
var ErrNoAgent = errors.New("no agent of tare runs there")

// Rights are what asking agents needs.
func Rights(namespace string) []kubeapi.Right {
	return []kubeapi.Right{
		{Verb: "list", Resource: "pods", Namespace: namespace},
		{Verb: "get", Resource: "secrets", Namespace: namespace, Name: TokenSecret},
		{Verb: "get", Resource: "pods", Subresource: "proxy", Namespace: namespace},
	}
}

// Find finds the agents in a namespace.
func Find(ctx context.Context, c *kubeapi.Client, namespace string) (*Fleet, error) {
	f := &Fleet{client: c, namespace: namespace, agents: map[string]string{}}
	list, err := kubeapi.GetAll[kubeapi.Pod](ctx, c, kubeapi.PodPath(namespace, ""), url.Values{"labelSelector": {AgentLabel}}, maxNodes)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Metadata.Deleted == nil && p.Status.Phase == "Running" {
			f.agents[p.Spec.NodeName] = p.Metadata.Name
		}
	}
	if len(f.agents) == 0 {
		return nil, fmt.Errorf("namespace %s: %w", namespace, ErrNoAgent)
	}
	var secret struct {
		Data map[string]string `json:"data"`
	}
	if err := c.Get(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/secrets/"+TokenSecret, nil, &secret); err != nil {
		return nil, err
	}
	token, err := base64.StdEncoding.DecodeString(secret.Data["token"])
	if err != nil || len(token) == 0 {
		return nil, fmt.Errorf("secret %s of namespace %s has no token", TokenSecret, namespace)
	}
	f.token = string(token)
	return f, nil
}

// ask asks the agent of a node.
func (f *Fleet) ask(ctx context.Context, node, path string, query url.Values, out any) error {
	pod, ok := f.agents[node]
	if !ok {
		return fmt.Errorf("node %.253q: %w", node, ErrNoAgent)
	}
	text, err := f.client.Do(ctx, kubeapi.Request{Method: http.MethodGet, Path: kubeapi.Proxied(f.namespace, pod, Port, path), Query: query, Header: http.Header{TokenHeader: {f.token}}})
	if err != nil {
		return fmt.Errorf("the agent of node %s: %w", node, err)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the agent of node %s: %w", node, err)
	}
	return nil
}

func about(namespace, pod, container string) url.Values {
	q := url.Values{"namespace": {namespace}, "pod": {pod}}
	if container != "" {
		q.Set("container", container)
	}
	return q
}

// Weigh has a JVM of a pod weighed on its node.
func (f *Fleet) Weigh(ctx context.Context, node, namespace, pod, container string) (*footprint.Footprint, error) {
	out := &footprint.Footprint{}
	return out, f.ask(ctx, node, "/v1/weigh", about(namespace, pod, container), out)
}

// Autopsy has the autopsy of a pod's JVM made on its node.
func (f *Fleet) Autopsy(ctx context.Context, p *kubeapi.Pod, container string) (*autopsy.Report, error) {
	q := about(p.Metadata.Namespace, p.Metadata.Name, container)
	q["uid"] = p.UIDs()
	for _, s := range p.AllStatuses() {
		for _, t := range []*kubeapi.Terminated{s.State.Terminated, s.LastState.Terminated} {
			if t != nil && (container == "" || s.Name == container) {
				q.Add("id", kubeapi.ID(t.ContainerID))
			}
		}
	}
	out := &autopsy.Report{}
	if err := f.ask(ctx, p.Spec.NodeName, "/v1/autopsy", q, out); err != nil {
		return nil, err
	}
	return out, nil
}

// atOnce bounds the agents that are asked at the same time.
const atOnce = 8

// JVMs lists the JVMs of all nodes. An error names the nodes that did not answer; what
// the others told is there beside it.
func (f *Fleet) JVMs(ctx context.Context) ([]JVM, error) {
	var mu sync.Mutex
	var all []JVM
	var problems []error
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for node := range f.agents {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			var some []JVM
			err := f.ask(ctx, node, "/v1/jvms", nil, &some)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				problems = append(problems, err)
			}
			all = append(all, some...)
		})
	}
	group.Wait()
	return all, errors.Join(problems...)
}

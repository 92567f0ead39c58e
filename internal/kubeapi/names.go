package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Identity is what people call a container of a pod.
type Identity struct{ Namespace, Pod, Container string }

// Names knows the pods of one node by the ids that control groups have. What it knows
// stays known while the API server is away.
type Names struct {
	client *Client
	node   string

	mu   sync.Mutex
	pods map[string]named // by UID
}

// named is a pod with the names of its containers by their ids.
type named struct {
	namespace, name string
	containers      map[string]string
	alias           string // the UID that the kubelet knows a static pod by
}

const (
	// maxPods and maxContainers bound what is kept of a node; the kubelet's own bound is
	// 110 pods unless it is told otherwise.
	maxPods       = 4096
	maxContainers = 256 // of a pod, with those that were restarted
	// soonest and latest bound the time between two tries to reach the API server.
	soonest, latest = time.Second, time.Minute
	// watchFor is how long one watch may last.
	watchFor = 5 * time.Minute
	// staticUID is the annotation of a mirror pod that has the UID of the static pod,
	// which its group is named after (Kubernetes: pkg/kubelet/types, ConfigHashAnnotationKey).
	staticUID = "kubernetes.io/config.hash"
)

// NewNames makes names of a node's pods, which it knows once Run has read them.
func NewNames(c *Client, node string) *Names {
	return &Names{client: c, node: node, pods: map[string]named{}}
}

// Of is what the group with this path is called, as far as that is known: with the pod's
// name and not the container's while the kubelet has not told the API server of that.
func (n *Names) Of(path string) Identity {
	uid, container := Placed(path)
	if uid == "" {
		return Identity{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.pods[uid]
	if !ok {
		for _, other := range n.pods {
			if other.alias == uid {
				p, ok = other, true
			}
		}
	}
	if !ok {
		return Identity{}
	}
	return Identity{p.namespace, p.name, p.containers[container]}
}

// Len is how many pods are known.
func (n *Names) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pods)
}

// Run lists and watches the pods of the node until the context ends. say is called with
// an error once until the API server answers again.
func (n *Names) Run(ctx context.Context, say func(error)) {
	wait, told := soonest, false
	for ctx.Err() == nil {
		err := n.follow(ctx, func() {
			if told {
				say(fmt.Errorf("the API server tells the names of pods again"))
			}
			wait, told = soonest, false
		})
		if ctx.Err() != nil || err == nil || IsCode(err, http.StatusGone) {
			continue // the watch's time is over: the list is read anew
		}
		if !told {
			told = true
			say(fmt.Errorf("names of pods: %w; those known stay, and it is tried again", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait)): // not all nodes at once
		}
		wait = min(2*wait, latest)
	}
}

// follow lists the pods, and then follows what changes.
func (n *Names) follow(ctx context.Context, listed func()) error {
	only := url.Values{"fieldSelector": {"spec.nodeName=" + n.node}}
	list, err := GetAll[Pod](ctx, n.client, PodPath("", ""), only, maxPods)
	if err != nil {
		return err
	}
	n.replace(list.Items)
	listed()
	only.Set("resourceVersion", list.Metadata.ResourceVersion)
	only.Set("timeoutSeconds", fmt.Sprint(int(watchFor.Seconds())))
	ctx, cancel := context.WithTimeout(ctx, watchFor+patience)
	defer cancel()
	return n.client.Watch(ctx, PodPath("", ""), only, func(e Event) error {
		var p Pod
		if e.Type == "BOOKMARK" {
			return nil
		}
		if err := json.Unmarshal(e.Object, &p); err != nil {
			return err
		}
		n.take(&p, e.Type == "DELETED")
		return nil
	})
}

// replace forgets what it knew for what was listed.
func (n *Names) replace(all []Pod) {
	n.mu.Lock()
	n.pods = make(map[string]named, len(all))
	n.mu.Unlock()
	for i := range all {
		n.take(&all[i], false)
	}
}

func (n *Names) take(p *Pod, gone bool) {
	uid := p.Metadata.UID
	n.mu.Lock()
	defer n.mu.Unlock()
	if gone {
		delete(n.pods, uid)
		return
	}
	old, known := n.pods[uid]
	if !ValidName(p.Metadata.Name) || !ValidName(p.Metadata.Namespace) || !known && len(n.pods) >= maxPods {
		return
	}
	// A container that was restarted keeps its old id for the JVM that is just ending.
	containers := map[string]string{}
	add := func(id, name string) {
		if id != "" && ValidName(name) && len(containers) < maxContainers {
			containers[id] = name
		}
	}
	for _, c := range p.AllStatuses() {
		add(ID(c.ContainerID), c.Name)
		if t := c.LastState.Terminated; t != nil {
			add(ID(t.ContainerID), c.Name)
		}
	}
	if len(containers) == 0 {
		containers = old.containers
	}
	n.pods[uid] = named{p.Metadata.Namespace, p.Metadata.Name, containers, p.Metadata.Annotations[staticUID]}
}

// UIDs are what the pod's control groups may be named after: a static pod's have the UID
// that the kubelet gave it.
func (p *Pod) UIDs() []string {
	uids := []string{p.Metadata.UID}
	if static := p.Metadata.Annotations[staticUID]; static != "" {
		uids = append(uids, static)
	}
	return uids
}

// GetAll reads a list in parts; one of more than most items is an error.
func GetAll[T any](ctx context.Context, c *Client, path string, query url.Values, most int) (*List[T], error) {
	q := url.Values{"limit": {"500"}}
	for k, v := range query {
		q[k] = v
	}
	var all List[T]
	for {
		var part List[T]
		if err := c.Get(ctx, path, q, &part); err != nil {
			return nil, err
		}
		all.Metadata = part.Metadata
		all.Items = append(all.Items, part.Items...)
		if len(all.Items) > most {
			return nil, fmt.Errorf("GET %s: more than %d", path, most)
		}
		if part.Metadata.Continue == "" {
			return &all, nil
		}
		q.Set("continue", part.Metadata.Continue)
	}
}

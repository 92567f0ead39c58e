package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// cluster answers as an API server does: a list, then a watch that sends what is put in.
type cluster struct {
	away   atomic.Bool
	pods   atomic.Pointer[[]Pod]
	events chan Event
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.away.Load() {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	if r.FormValue("fieldSelector") != "spec.nodeName=node-1" {
		http.Error(w, "not this node's alone", http.StatusForbidden)
		return
	}
	if r.FormValue("watch") == "" {
		_ = json.NewEncoder(w).Encode(List[Pod]{Items: *c.pods.Load()})
		return
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case e := <-c.events:
			_ = json.NewEncoder(w).Encode(e)
			w.(http.Flusher).Flush()
			if e.Type == "ERROR" {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func pod(uid, name, container, id string) Pod {
	p := Pod{Metadata: Meta{Name: name, Namespace: "prod", UID: uid}}
	if id != "" {
		p.Status.Containers = []ContainerStatus{{Name: container, ContainerID: "containerd://" + id}}
	}
	return p
}

func event(t *testing.T, kind string, p Pod) Event {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return Event{Type: kind, Object: text}
}

func startNames(t *testing.T, c *cluster) (*Names, <-chan error) {
	t.Helper()
	s := httptest.NewServer(c)
	client, err := newClient(&rest.Config{Host: s.URL}, "default")
	if err != nil {
		t.Fatal(err)
	}
	n := NewNames(client, "node-1")
	said := make(chan error, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx, func(err error) { said <- err }) }()
	t.Cleanup(func() { cancel(); <-done; s.CloseClientConnections(); s.Close() })
	return n, said
}

func await(t *testing.T, n *Names, path string, want Identity) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); n.Of(path) != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v, want %v", path, n.Of(path), want)
		}
	}
}

func TestNamesFollowTheNode(t *testing.T) {
	c := &cluster{events: make(chan Event)}
	c.pods.Store(&[]Pod{pod(podA, "shop-0", "shop", idA)})
	n, said := startNames(t, c)
	ofA, ofB := "/kubepods/pod"+podA+"/"+idA, "/kubepods/burstable/pod"+podB+"/"+idB
	await(t, n, ofA, Identity{"prod", "shop-0", "shop"})
	if got := n.Of("/kubepods/pod" + podA + "/" + idB); got != (Identity{"prod", "shop-0", ""}) {
		t.Errorf("a container that is not the pod's: %v", got)
	}
	// The API server has a pod before it knows its container.
	c.events <- event(t, "ADDED", pod(podB, "cart-0", "cart", ""))
	await(t, n, ofB, Identity{"prod", "cart-0", ""})
	c.events <- event(t, "MODIFIED", pod(podB, "cart-0", "cart", idB))
	await(t, n, ofB, Identity{"prod", "cart-0", "cart"})
	// While it is away, what is known stays; it is said once.
	c.away.Store(true)
	c.events <- Event{Type: "ERROR", Object: json.RawMessage(`{"code":500,"message":"over"}`)}
	if err := <-said; err == nil {
		t.Error("nothing said")
	}
	if got := n.Of(ofB); got != (Identity{"prod", "cart-0", "cart"}) {
		t.Errorf("forgotten: %v", got)
	}
	c.pods.Store(&[]Pod{pod(podB, "cart-0", "cart", idB)})
	c.away.Store(false)
	await(t, n, ofA, Identity{})
	if got := n.Of(ofB); got != (Identity{"prod", "cart-0", "cart"}) {
		t.Errorf("forgotten: %v", got)
	}
	c.events <- event(t, "DELETED", pod(podB, "cart-0", "cart", idB))
	await(t, n, ofB, Identity{})
}

func TestHostilePods(t *testing.T) {
	n := NewNames(nil, "node-1")
	bad := pod(podA, "a\x1b[31m", "c", idA)
	n.take(&bad, false)
	if n.Len() != 0 {
		t.Error("a name with control characters was taken")
	}
	many := pod(podA, "shop-0", "shop", "")
	for i := range 2 * maxContainers {
		many.Status.Containers = append(many.Status.Containers, ContainerStatus{Name: fmt.Sprint("c", i), ContainerID: fmt.Sprintf("containerd://%064x", i)})
	}
	n.take(&many, false)
	if got := len(n.pods[podA].containers); got != maxContainers {
		t.Errorf("%d containers", got)
	}
	for i := range 2 * maxPods {
		p := pod(fmt.Sprintf("%08x-0000-0000-0000-000000000000", i), "p", "c", "")
		n.take(&p, false)
	}
	if n.Len() != maxPods {
		t.Errorf("%d pods", n.Len())
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"256Mi": 256 << 20, "1G": 1e9, "1.5Gi": 3 << 29, "1000": 1000, "128974848000m": 128974848, "0": 0} {
		if got, ok := ParseBytes(text); !ok || got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "Mi", "-1", "1e3", "1 Mi", "1mi", "9999999Ti", "NaN"} {
		if got, ok := ParseBytes(text); ok {
			t.Errorf("%s: %d", text, got)
		}
	}
}

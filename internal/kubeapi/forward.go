package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"tare.dev/tare/internal/linux"
)

// quiet keeps client-go from writing to stderr what the one who asks is told, or the next
// try mends.
var quiet = sync.OnceFunc(func() { utilruntime.ErrorHandlers = nil })

const forwardTime = 15 * time.Second

// Forward is a port of this machine's loopback that leads to one of a pod's.
type Forward struct {
	Address string // host:port here
	end     chan struct{}
	ended   chan struct{}
}

// Forward leads a free port of this machine to a port of a pod, through the API server.
func (c *Client) Forward(ctx context.Context, namespace, pod string, port int) (*Forward, error) {
	quiet()
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSuffix(c.base.String(), "/") + PodPath(namespace, pod) + "/portforward")
	if err != nil {
		return nil, err
	}
	f := &Forward{end: make(chan struct{}), ended: make(chan struct{})}
	ready := make(chan struct{})
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	p, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, f.end, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() {
		defer close(f.ended)
		failed <- p.ForwardPorts()
	}()
	timer := time.NewTimer(forwardTime)
	defer timer.Stop()
	select {
	case <-ready:
	case err := <-failed:
		if err == nil {
			err = errors.New("it ended")
		}
		return nil, fmt.Errorf("port-forward to pod %s: %s", pod, linux.PrintableName(err.Error()))
	case <-timer.C:
		close(f.end)
		return nil, fmt.Errorf("port-forward to pod %s: no answer within %s", pod, forwardTime)
	case <-ctx.Done():
		close(f.end)
		return nil, ctx.Err()
	}
	ports, err := p.GetPorts()
	if err != nil || len(ports) != 1 {
		close(f.end)
		return nil, fmt.Errorf("port-forward to pod %s: %w", pod, err)
	}
	f.Address = fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
	return f, nil
}

// Close ends it.
func (f *Forward) Close() {
	close(f.end)
	<-f.ended
}

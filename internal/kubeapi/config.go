// Package kubeapi speaks with the API server of a Kubernetes cluster: JSON over HTTPS, with
// the few parts of its objects that tare reads. Where the server is, and who asks, is found
// by client-go; its typed clients would cost every command the registration of all kinds at
// its start.
package kubeapi

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"tare.dev/tare/internal/authorities"
)

// ErrNoConfig says that there is neither a kubeconfig nor a pod around.
var ErrNoConfig = errors.New("no cluster is known: give --kubeconfig FILE, or set KUBECONFIG")

// Options choose a cluster, as kubectl's flags do.
type Options struct{ Kubeconfig, Context, Namespace string }

// Open finds the cluster: that of the options' file, of those of KUBECONFIG, of
// ~/.kube/config, and else the one that this process is a pod of. The namespace is the
// context's where none is named. Nothing is asked yet.
func Open(o Options) (*Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, ErrNoConfig
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	namespace := o.Namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("kubeconfig: namespace: %w", err)
		}
	}
	return newClient(config, namespace)
}

func newClient(config *rest.Config, namespace string) (*Client, error) {
	config.UserAgent = "tare"
	if len(config.CAData) == 0 && config.CAFile == "" {
		authorities.Trust()
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the cluster's server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("the cluster's server: %w", err)
	}
	c := &Client{Namespace: namespace, config: config, base: base}
	c.http.Transport = transport
	c.http.CheckRedirect = noRedirect
	return c, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/nodes"
)

// cluster is the flags of the commands that ask a Kubernetes cluster.
type cluster struct {
	kubeapi.Options
	container, agents string
	// ephemeral is tare's image where the pod is looked at from a container of its own.
	ephemeral string
}

func (c *cluster) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "`file` that names the cluster (default: KUBECONFIG, ~/.kube/config, the pod's own)")
	f.StringVar(&c.Context, "context", "", "`name` of a context of that file")
	f.StringVarP(&c.Namespace, "namespace", "n", "", "`namespace` (default: that of the context)")
}

// podFlags are those of the commands that look at a pod.
func (c *cluster) podFlags(cmd *cobra.Command) {
	c.flags(cmd)
	cmd.Flags().StringVarP(&c.container, "container", "c", "", "`container` of the pod (default: the one with a JVM)")
	c.agentFlag(cmd)
}

func (c *cluster) agentFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.agents, "agents", "tare", "`namespace` of tare's agents")
}

func (c *cluster) ephemeralFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.ephemeral, "ephemeral", "", "tare's `image`, such as registry.example/tare:1: ask no agent, and start it as an ephemeral container of the pod")
}

func (c *cluster) client() (*kubeapi.Client, error) {
	client, err := kubeapi.Open(c.Options)
	if err != nil {
		return nil, usageError(err)
	}
	return client, nil
}

// fleet finds the agents, and names the rights that are missing where it may not.
func (c *cluster) fleet(ctx context.Context, client *kubeapi.Client) (*nodes.Fleet, error) {
	f, err := nodes.Find(ctx, client, c.agents)
	if kubeapi.IsCode(err, http.StatusForbidden) {
		return nil, clusterError(ctx, client, err, nodes.Rights(c.agents)...)
	}
	if errors.Is(err, nodes.ErrNoAgent) {
		return nil, &exitError{exitTarget, fmt.Errorf("%w\nname the namespace of the agents with --agents, install them (docs/kubernetes-agent.md), or look from the pod itself with --ephemeral IMAGE", err)}
	}
	return f, err
}

// pod reads a pod.
func (c *cluster) pod(ctx context.Context, client *kubeapi.Client, name string) (*kubeapi.Pod, error) {
	name = strings.TrimPrefix(name, "pod/")
	if !kubeapi.ValidName(name) {
		return nil, usageError(fmt.Errorf("%.100q is no name of a pod", name))
	}
	p := &kubeapi.Pod{}
	if err := client.Get(ctx, kubeapi.PodPath(client.Namespace, name), nil, p); err != nil {
		return nil, clusterError(ctx, client, err, kubeapi.Right{Verb: "get", Resource: "pods", Namespace: client.Namespace})
	}
	return p, nil
}

// clusterError adds the exit code to an error of the API server, and the rights that are
// missing.
func clusterError(ctx context.Context, client *kubeapi.Client, err error, needed ...kubeapi.Right) error {
	switch {
	case kubeapi.IsCode(err, http.StatusNotFound):
		return &exitError{exitTarget, fmt.Errorf("%w\nlist what there is with: kubectl get pods -n %s", err, client.Namespace)}
	case kubeapi.IsCode(err, http.StatusForbidden), kubeapi.IsCode(err, http.StatusUnauthorized):
		missing, unknown := client.Missing(ctx, needed...)
		if unknown != nil || len(missing) == 0 {
			return &exitError{exitPermission, err}
		}
		return missingRights(err.Error(), missing)
	}
	return err
}

// missingRights is the error of what cannot be done without some rights.
func missingRights(what string, missing []kubeapi.Right) error {
	lines := []string{what, "these rights are missing:"}
	for _, m := range missing {
		lines = append(lines, "  kubectl auth can-i "+m.String())
	}
	return &exitError{exitPermission, errors.New(strings.Join(lines, "\n"))}
}

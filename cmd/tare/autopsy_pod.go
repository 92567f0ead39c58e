package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/nodes"
	"tare.dev/tare/internal/report"
)

// maxPodEvents bounds the events of a pod.
const maxPodEvents = 5000

// runPodAutopsy joins what the cluster tells of a pod with the autopsy that the agent of
// its node makes of its JVM.
func runPodAutopsy(ctx context.Context, w, errs io.Writer, c cluster, name string, asJSON, markdown bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	p, err := c.pod(ctx, client, name)
	if err != nil {
		return err
	}
	in := autopsy.PodInput{Pod: *p, Container: c.container}
	events, err := kubeapi.GetAll[kubeapi.EventObject](ctx, client, kubeapi.EventPath(p.Metadata.Namespace), url.Values{"fieldSelector": {"involvedObject.uid=" + p.Metadata.UID}}, maxPodEvents)
	if err == nil {
		in.Events = events.Items
	} else {
		complain(errs, fmt.Errorf("events are missing: %w", clusterError(ctx, client, err, kubeapi.Right{Verb: "list", Resource: "events", Namespace: p.Metadata.Namespace})))
	}
	if in.JVM, err = c.jvmAutopsy(ctx, client, p); err != nil {
		complain(errs, fmt.Errorf("the JVM's own autopsy is missing: %w", err))
	}
	r, err := autopsy.ExaminePod(in)
	if errors.Is(err, autopsy.ErrNotFound) {
		return &exitError{exitTarget, err}
	}
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(w, r)
	}
	return show(w, report.PodAutopsy(r), markdown)
}

func (c *cluster) jvmAutopsy(ctx context.Context, client *kubeapi.Client, p *kubeapi.Pod) (*autopsy.Report, error) {
	fleet, err := c.fleet(ctx, client)
	if err != nil {
		return nil, err
	}
	r, err := fleet.Autopsy(ctx, p, c.container)
	if err != nil {
		return nil, clusterError(ctx, client, err, nodes.Rights(c.agents)...)
	}
	return r, nil
}

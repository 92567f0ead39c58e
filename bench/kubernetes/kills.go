package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/testkit/cluster"
)

// kill is what was found of a pod that ended.
type kill struct {
	Cell       string             `json:"cell"`
	Verdict    autopsy.PodVerdict `json:"verdict"`
	Confidence string             `json:"confidence"`
	ExitCode   *int               `json:"exitCode"`
	Headline   string             `json:"headline"`
	// Agent says that the node's agent told of the JVM.
	Agent bool `json:"agent"`
}

func killsOf(all []record) map[string]kill {
	done := map[string]kill{}
	for _, r := range all {
		if r.Kill != nil {
			done[r.Kill.Cell] = *r.Kill
		}
	}
	return done
}

func (b *bench) nextKills() []cell {
	done := killsOf(b.all)
	var out []cell
	for _, c := range cells() {
		if _, ok := done[c.name]; !ok {
			out = append(out, c)
		}
	}
	return out[:min(len(out), b.o.kills)]
}

func (b *bench) killsLeft() bool { return len(b.nextKills()) > 0 }

// kills makes pods end, one after the other, beside an agent with its defaults.
func (b *bench) kills(ctx context.Context) (err error) {
	if err := b.InstallAgent(ctx, ".", agentImage, filepath.Join(b.dir, "kills")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.uninstallAgent()) }()
	for i, c := range b.nextKills() {
		k, err := b.kill(ctx, "kill-"+strconv.Itoa(i), c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(os.Stderr, "%-65s %-15s %s%s\n", c.name, k.Verdict, k.Confidence, wrong(k.Verdict, c.want))
		if err := b.keep(record{Kill: k}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) uninstallAgent() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := b.Helm(ctx, ".", "uninstall", cluster.AgentNamespace, "-n", cluster.AgentNamespace, "--ignore-not-found")
	return err
}

const (
	// known bounds the time until the agent has weighed a new JVM, over the time until a pod
	// has ended, and settled is how long after that it is asked for.
	known   = 3 * time.Minute
	over    = 3 * time.Minute
	settled = 3 * time.Second
)

// pod is one of the cluster.
type pod struct {
	name string
	kubeapi.Pod
}

// read reads how it is now.
func (b *bench) read(ctx context.Context, p *pod) error {
	text, err := b.Run(ctx, "", "get", "pod", p.name, "-o", "json")
	if err != nil {
		return err
	}
	p.Pod = kubeapi.Pod{}
	return json.Unmarshal([]byte(text), &p.Pod)
}

// kill makes a pod, has it end, and makes its autopsy. The finalizer keeps what was
// deleted until it was looked at.
func (b *bench) kill(ctx context.Context, name string, c cell) (_ *kill, err error) {
	p := &pod{name: name}
	object := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"finalizers":["dev.tare/bench"]},"spec":%s}`, name, c.spec)
	if _, err := b.Run(ctx, object, "create", "-f", "-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.removePod(name)) }()
	if c.end != nil {
		if err := until(ctx, known, "a footprint of its JVM", func() (bool, error) { return b.weighed(ctx, name) }); err != nil {
			state, _ := b.Run(ctx, "", "describe", "pod", name) // what it does not say is missing
			return nil, fmt.Errorf("%w\n%s", err, state)
		}
		if err := b.read(ctx, p); err != nil {
			return nil, err
		}
		if err := c.end(ctx, b, p); err != nil {
			return nil, err
		}
	}
	if err := until(ctx, over, "its end", func() (bool, error) { err := b.read(ctx, p); return p.over(c.ended), err }); err != nil {
		return nil, err
	}
	select {
	case <-time.After(settled):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var r autopsy.PodReport
	if err := b.tare(ctx, &r, "kube", "autopsy", name, "-n", "default", "--json"); err != nil {
		return nil, err
	}
	return &kill{Cell: c.name, Verdict: r.Verdict, Confidence: string(r.Confidence), ExitCode: r.ExitCode, Headline: r.Headline, Agent: r.JVM != nil}, nil
}

// weighed says that the agent has a footprint of a pod's JVM.
func (b *bench) weighed(ctx context.Context, name string) (bool, error) {
	var top struct {
		JVMs []struct {
			Pod           string
			ResidentBytes int64
		}
	}
	if err := b.tare(ctx, &top, "kube", "top", "-n", "default", "-o", "json"); err != nil {
		return false, err
	}
	for _, j := range top.JVMs {
		if j.Pod == name && j.ResidentBytes > 0 {
			return true, nil
		}
	}
	return false, nil
}

// over says that a container has ended, now or before it was started again.
func (p *pod) over(container string) bool {
	for _, s := range p.AllStatuses() {
		if s.Name == container || container == "" && s.Name == "shop" {
			return s.State.Terminated != nil || s.LastState.Terminated != nil
		}
	}
	return false
}

// removePod removes a pod, whatever keeps it.
func (b *bench) removePod(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := b.Run(ctx, "", "patch", "pod", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if err != nil && !strings.Contains(err.Error(), "not found") {
		return err
	}
	_, err = b.Run(ctx, "", "delete", "pod", name, "--ignore-not-found", "--force", "--grace-period=0")
	return err
}

// grow lets what waits in the containers of a pod begin to take memory.
func grow(ctx context.Context, b *bench, p *pod) error {
	for _, c := range p.Spec.Containers {
		if _, err := b.Run(ctx, "", "exec", p.name, "-c", c.Name, "--", "/bin/sh", "-c", ": >/tmp/go"); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a pod, and does not wait for its end.
func remove(ctx context.Context, b *bench, p *pod) error {
	_, err := b.Run(ctx, "", "delete", "pod", p.name, "--wait=false")
	return err
}

// evict asks for an eviction, as kubectl drain does.
func evict(ctx context.Context, b *bench, p *pod) error {
	_, err := b.Run(ctx, fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":"default"}}`, p.name),
		"create", "--raw", "/api/v1/namespaces/default/pods/"+p.name+"/eviction", "-f", "-")
	return err
}

// taint has the node keep no pods that do not tolerate it, until this one is to go.
func taint(ctx context.Context, b *bench, p *pod) error {
	const what = "dev.tare/bench=x:NoExecute"
	_, err := b.Run(ctx, "", "taint", "node", b.Node, what)
	if err == nil {
		err = until(ctx, known, "the taint's eviction", func() (bool, error) { err := b.read(ctx, p); return p.Metadata.Deleted != nil, err })
	}
	_, last := b.Run(context.WithoutCancel(ctx), "", "taint", "node", b.Node, what+"-")
	return errors.Join(err, last)
}

// send sends a signal to the JVM that is the first process of its container.
func send(s syscall.Signal) func(context.Context, *bench, *pod) error {
	return func(_ context.Context, b *bench, p *pod) error {
		for _, c := range p.AllStatuses() {
			pids, err := b.Processes(p.Metadata.UID, kubeapi.ID(c.ContainerID))
			if err != nil {
				return err
			}
			for _, pid := range pids {
				if err := syscall.Kill(pid, s); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func wrong(got, want autopsy.PodVerdict) string {
	if got == want {
		return ""
	}
	return " (**wrong**: " + string(want) + ")"
}

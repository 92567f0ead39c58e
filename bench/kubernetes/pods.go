package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/cluster"
	"tare.dev/tare/internal/testkit/results"
)

// podsRun is what an agent did on a node of many pods.
type podsRun struct {
	Pods int `json:"pods"`
	// Delays are how many seconds after the start of each JVM the ledger had the name of its
	// pod, Containers those of pod and container.
	Delays     []float64 `json:"delays"`
	Containers []float64 `json:"containers"`
	// StartSeconds is how long it took until all pods ran.
	StartSeconds float64 `json:"startSeconds"`
	// Percents are the processor time of the agent in each minute after that, in percent of
	// one processor; AllSeconds that from before the first pod on, of LifeSeconds.
	Percents    []float64 `json:"percents"`
	AllSeconds  float64   `json:"allSeconds"`
	LifeSeconds float64   `json:"lifeSeconds"`
	PeakBytes   int64     `json:"peakBytes"` // VmHWM
}

func (b *bench) podsLeft() bool {
	return !slices.ContainsFunc(b.all, func(r record) bool { return r.Pods != nil && r.Pods.Pods >= b.o.pods })
}

// startAll bounds the time until all pods run.
const startAll = 15 * time.Minute

// pods starts many pods beside an agent with its defaults, and watches it.
func (b *bench) pods(ctx context.Context) (err error) {
	state := filepath.Join(b.dir, "pods")
	if err := b.InstallAgent(ctx, ".", agentImage, state); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.uninstallAgent()) }()
	agent := 0
	if err := until(ctx, time.Minute, "the agent", func() (running bool, err error) {
		agent, err = b.agent(ctx)
		return err == nil, err
	}); err != nil {
		return err
	}
	begun := time.Now()
	idle, err := processor(agent)
	if err != nil {
		return err
	}
	deployment := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"many"},"spec":{"replicas":%d,"selector":{"matchLabels":{"app":"many"}},
"template":{"metadata":{"labels":{"app":"many"}},"spec":{"terminationGracePeriodSeconds":1,"containers":[%s]}}}}`, b.o.pods, container("shop", still, limited("96Mi")))
	if _, err := b.Run(ctx, deployment, "create", "-f", "-"); err != nil {
		return err
	}
	if err := until(ctx, startAll, "all pods ready", func() (bool, error) {
		ready, err := b.Run(ctx, "", "get", "deployment", "many", "-o", "jsonpath={.status.readyReplicas}")
		return ready == strconv.Itoa(b.o.pods), err
	}); err != nil {
		return err
	}
	p := podsRun{Pods: b.o.pods, StartSeconds: time.Since(begun).Seconds()}
	fmt.Fprintf(os.Stderr, "%d pods run after %.0f s\n", p.Pods, p.StartSeconds)
	if err := p.watch(ctx, agent, b.o.watched); err != nil {
		return err
	}
	all, err := processor(agent)
	if err != nil {
		return err
	}
	p.AllSeconds, p.LifeSeconds = (all - idle).Seconds(), time.Since(begun).Seconds()
	status, err := linux.NewFS("/proc").Status(agent)
	if err != nil {
		return fmt.Errorf("the agent, which may have been restarted: %w", err)
	}
	p.PeakBytes = status.VmHWM
	// A ledger is read whole when nobody writes to it.
	if err := b.uninstallAgent(); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, "the agent's end", func() (bool, error) { return syscall.Kill(agent, 0) != nil, nil }); err != nil {
		return err
	}
	if err := p.names(filepath.Join(state, "ledger")); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d pods, %d named after %s s, %d with their containers after %s s\n", p.Pods, len(p.Delays), results.Spread(p.Delays, "%.1f"), len(p.Containers), results.Spread(p.Containers, "%.1f"))
	if err := b.keep(record{Pods: &p}); err != nil {
		return err
	}
	_, err = b.Run(ctx, "", "delete", "deployment", "many")
	return err
}

// agent is the id, on this machine, of the agent's process.
func (b *bench) agent(ctx context.Context) (int, error) {
	text, err := b.Run(ctx, "", "get", "pods", "-n", cluster.AgentNamespace, "-o", "json")
	if err != nil {
		return 0, err
	}
	var all kubeapi.List[kubeapi.Pod]
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return 0, err
	}
	i := slices.IndexFunc(all.Items, func(p kubeapi.Pod) bool { return p.Status.Phase == "Running" && p.Metadata.Deleted == nil })
	if i < 0 || len(all.Items[i].AllStatuses()) != 1 {
		return 0, fmt.Errorf("the agent does not run: %.2000s", text)
	}
	p := all.Items[i]
	pids, err := b.Processes(p.Metadata.UID, kubeapi.ID(p.AllStatuses()[0].ContainerID))
	if err != nil || len(pids) != 1 {
		return 0, fmt.Errorf("processes %v of the agent: %w", pids, err)
	}
	return pids[0], nil
}

// watch measures the processor time of each minute.
func (p *podsRun) watch(ctx context.Context, agent int, total time.Duration) error {
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	last, err := processor(agent)
	for range int(total / time.Minute) {
		if err != nil {
			return err
		}
		select {
		case <-minute.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		var now time.Duration
		now, err = processor(agent)
		p.Percents = append(p.Percents, 100*(now-last).Seconds()/60)
		last = now
	}
	return err
}

// names reads from the ledger when it had the names of each JVM.
func (p *podsRun) names(dir string) error {
	r, err := ledger.OpenReader(dir)
	if err != nil {
		return err
	}
	pods, containers := map[ledger.ID]bool{}, map[ledger.ID]bool{}
	_, err = r.Since(0, func(rec ledger.Record) bool {
		s := rec.Start
		if s == nil || !strings.HasPrefix(s.Pod, "many-") {
			return true
		}
		delay := max(0, rec.At.Sub(s.Started).Seconds())
		if !pods[s.ID] {
			pods[s.ID] = true
			p.Delays = append(p.Delays, delay)
		}
		if s.ContainerName == "shop" && !containers[s.ID] {
			containers[s.ID] = true
			p.Containers = append(p.Containers, delay)
		}
		return true
	})
	return err
}

// processor is the processor time of a process (proc_pid_stat(5)), in ticks of a
// hundredth of a second.
func processor(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

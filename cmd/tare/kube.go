package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/nodes"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/watch"
)

// pluginName is what the program is called as a plugin of kubectl: kubectl tare.
const pluginName = "kubectl-tare"

// asPlugin puts the command kube before the arguments of the plugin.
func asPlugin(program string, args []string) []string {
	if program != pluginName || len(args) > 0 && strings.HasPrefix(args[0], "__complete") {
		return args
	}
	return append([]string{"kube"}, args...)
}

func newKubeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kube",
		Short: "The JVMs of a Kubernetes cluster: weighed, explained, given what a fit has proven",
		Long: `Kube looks at the JVMs of pods, through tare's agent on their node and the API
server's proxy, and gives workloads what a fit has proven. Installed as
kubectl-tare it is a plugin: kubectl tare top.

It asks with the rights of the kubeconfig. To reach agents it needs, in their
namespace: list pods, get the secret tare-agent, and get pods/proxy. Where there is
no agent, weigh, doctor and watch can do with an ephemeral container of the pod
(--ephemeral): for that they need, in the pod's namespace, patch
pods/ephemeralcontainers, and create pods/attach and pods/exec.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKubeTopCommand(), newKubeWeighCommand(), newKubeDoctorCommand(), newKubeWatchCommand(), newKubeAutopsyCommand(), newKubeDiffCommand(), newKubeUndoCommand(), newKubeShowCommand(), newKubeHoldCommand())
	return cmd
}

// onePod takes the name of one pod.
func onePod(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError(errors.New("name one pod, such as shop-0"))
	}
	return nil
}

// weigher weighs the JVM of a pod, as often as is asked for until its end.
type weigher struct {
	weigh func(context.Context) (*footprint.Footprint, error)
	end   func() error
}

// weighPod has a pod's JVM weighed by the agent of its node, or from an ephemeral container.
func (c *cluster) weighPod(ctx context.Context, name string) (*weigher, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	p, err := c.pod(ctx, client, name)
	if err != nil {
		return nil, err
	}
	if c.ephemeral != "" {
		return c.visit(ctx, client, p)
	}
	fleet, err := c.fleet(ctx, client)
	if err != nil {
		return nil, err
	}
	return &weigher{func(ctx context.Context) (*footprint.Footprint, error) {
		f, err := fleet.Weigh(ctx, p.Spec.NodeName, p.Metadata.Namespace, p.Metadata.Name, c.container)
		return f, clusterError(ctx, client, err, nodes.Rights(c.agents)...)
	}, func() error { return nil }}, nil
}

// visit has it weighed from an ephemeral container.
func (c *cluster) visit(ctx context.Context, client *kubeapi.Client, p *kubeapi.Pod) (*weigher, error) {
	target := c.container
	if target == "" {
		if len(p.Spec.Containers) != 1 {
			return nil, usageError(fmt.Errorf("pod %s has %d containers: name the one with the JVM with -c", p.Metadata.Name, len(p.Spec.Containers)))
		}
		target = p.Spec.Containers[0].Name
	}
	missing, err := client.Missing(ctx, nodes.VisitRights(p.Metadata.Namespace)...)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 { // an ephemeral container would stay
		return nil, missingRights("you may not start an ephemeral container in pod "+p.Metadata.Name+", and run commands there: nothing was started", missing)
	}
	v, err := nodes.Begin(ctx, client, p, target, c.ephemeral)
	if errors.Is(err, nodes.ErrVisit) {
		return nil, &exitError{exitTarget, err}
	}
	if err != nil {
		return nil, err
	}
	return &weigher{v.Weigh, v.Close}, nil
}

// newKubeHoldCommand is what the ephemeral container runs.
func newKubeHoldCommand() *cobra.Command {
	return &cobra.Command{
		Use: "hold", Short: "Wait until standard input ends: what an ephemeral container of kubectl tare runs", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return nodes.Hold(cmd.Context(), cmd.InOrStdin()) },
	}
}

func newKubeWeighCommand() *cobra.Command {
	return newPodCommand(&cobra.Command{
		Use: "weigh POD", Short: "Where every resident page of a pod's JVM goes",
		Example: "  kubectl tare weigh shop-0 -n prod -c shop",
	}, footprint.Schema, func(f *footprint.Footprint) (any, *document.Document) { return f, report.Footprint(f) })
}

func newKubeDoctorCommand() *cobra.Command {
	return newPodCommand(&cobra.Command{
		Use: "doctor POD", Short: "What costs a pod's JVM memory without need",
	}, doctor.Schema, func(f *footprint.Footprint) (any, *document.Document) {
		r := doctor.Diagnose(f)
		return r, report.Findings(r)
	})
}

// newPodCommand completes a command that weighs a pod's JVM once, and tells of it in JSON
// or as a document.
func newPodCommand(cmd *cobra.Command, schema string, tell func(*footprint.Footprint) (any, *document.Document)) *cobra.Command {
	var c cluster
	var asJSON, markdown bool
	cmd.Args = onePod
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := c.weighPod(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		f, err := w.weigh(cmd.Context())
		if err := errors.Join(err, w.end()); err != nil {
			return err
		}
		data, d := tell(f)
		if asJSON {
			return writeJSON(cmd.OutOrStdout(), data)
		}
		return show(cmd.OutOrStdout(), d, markdown)
	}
	c.podFlags(cmd)
	c.ephemeralFlag(cmd)
	formats(cmd, &asJSON, &markdown, schema)
	return cmd
}

func newKubeWatchCommand() *cobra.Command {
	var c cluster
	var interval time.Duration
	var count int
	cmd := &cobra.Command{
		Use: "watch POD", Short: "The footprint of a pod's JVM as it changes", Args: onePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			if interval < time.Second || count < 0 {
				return usageError(errors.New("--interval is 1s at least, --count 0 or more"))
			}
			w, err := c.weighPod(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			ticker := time.NewTicker(interval)
			defer ticker.Stop()
			s := &watch.Session{Weigh: w.weigh, Ticks: ticker.C, Count: count}
			err = watch.Lines(cmd.Context(), cmd.OutOrStdout(), s)
			return errors.Join(err, s.Close(), w.end())
		},
	}
	c.podFlags(cmd)
	c.ephemeralFlag(cmd)
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two weighings")
	cmd.Flags().IntVar(&count, "count", 0, "end after so many weighings; 0 is without an end")
	return cmd
}

func newKubeAutopsyCommand() *cobra.Command {
	var c cluster
	var asJSON, markdown bool
	cmd := &cobra.Command{
		Use: "autopsy POD", Short: "Why a pod's JVM ended: kernel, group, status and events joined", Args: onePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPodAutopsy(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), c, args[0], asJSON, markdown)
		},
	}
	c.podFlags(cmd)
	formats(cmd, &asJSON, &markdown, "tare.autopsy.pod/1")
	return cmd
}

// fleetRow is a JVM in kube top. Sizes are bytes.
type fleetRow struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Name      string `json:"name"`
	JDK       string `json:"jdk"`
	Collector string `json:"collector"`
	// Limit is 0 without one; Headroom is absent then.
	Limit    int64  `json:"limitBytes"`
	Needed   int64  `json:"neededBytes"`
	Headroom *int64 `json:"headroomBytes,omitempty"`
	Resident int64  `json:"residentBytes"`
	Sure     int64  `json:"sureBytes"`
	Findings int    `json:"findings"`
}

// topSchema names the JSON form of kube top.
const topSchema = "tare.kube.top/1"

func newKubeTopCommand() *cobra.Command {
	var c cluster
	var output, by string
	cmd := &cobra.Command{
		Use: "top", Short: "The JVMs of the cluster: limit, needed, headroom, what sure findings could save",
		Example: "  kubectl tare top -n prod --sort headroom\n  kubectl tare top -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "wide", "json"}, output) || sorts[by] == nil {
				return usageError(errors.New("-o is wide or json; --sort is save, headroom, needed or limit"))
			}
			return runKubeTop(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), c, output, by)
		},
	}
	c.flags(cmd)
	c.agentFlag(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "wide or json (schema "+topSchema+")")
	cmd.Flags().StringVar(&by, "sort", "save", "save, headroom, needed or limit")
	return cmd
}

// sorts order rows; headroom begins with the least, the others with the most.
var sorts = map[string]func(a, b fleetRow) int{
	"save":     func(a, b fleetRow) int { return cmp.Compare(b.Sure, a.Sure) },
	"needed":   func(a, b fleetRow) int { return cmp.Compare(b.Needed, a.Needed) },
	"limit":    func(a, b fleetRow) int { return cmp.Compare(b.Limit, a.Limit) },
	"headroom": func(a, b fleetRow) int { return cmp.Compare(a.room(), b.room()) },
}

func (r fleetRow) room() int64 {
	if r.Headroom == nil {
		return 1 << 62
	}
	return *r.Headroom
}

func newFleetRow(j *nodes.JVM) fleetRow {
	r := fleetRow{Namespace: j.Namespace, Pod: j.Pod, Container: j.ContainerName, Name: j.Name, JDK: j.JDK, Collector: j.Collector,
		Resident: j.Resident, Sure: j.SureBytes, Findings: len(j.Findings)}
	if c := j.Counters; c != nil {
		r.Limit, r.Needed = c.Limit, max(0, c.Usage-c.Reclaimable)
		if c.Limit > 0 {
			room := max(0, c.Limit-r.Needed)
			r.Headroom = &room
		}
	}
	return r
}

func runKubeTop(ctx context.Context, w, errs io.Writer, c cluster, output, by string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	fleet, err := c.fleet(ctx, client)
	if err != nil {
		return err
	}
	all, problem := fleet.JVMs(ctx)
	if problem != nil {
		if len(all) == 0 {
			return clusterError(ctx, client, problem, nodes.Rights(c.agents)...)
		}
		complain(errs, problem)
	}
	rows := []fleetRow{}
	for i := range all {
		if c.Namespace == "" || all[i].Namespace == c.Namespace {
			rows = append(rows, newFleetRow(&all[i]))
		}
	}
	slices.SortFunc(rows, func(a, b fleetRow) int {
		return cmp.Or(sorts[by](a, b), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	if output == "json" {
		return writeJSON(w, map[string]any{"schema": topSchema, "jvms": rows})
	}
	return show(w, fleetTable(rows, output == "wide"), false)
}

func fleetTable(rows []fleetRow, wide bool) *document.Document {
	columns := []string{"namespace", "pod", "container", ">limit", ">needed", ">headroom", ">save"}
	if wide {
		columns = append(columns, ">Rss", ">findings", "JDK", "collector", "JVM")
	}
	t := document.Table{Columns: document.Columns(columns...)}
	var sum fleetRow
	for _, r := range rows {
		limit, room := "-", "-"
		if r.Headroom != nil {
			limit, room = report.Size(r.Limit), report.Size(*r.Headroom)
		}
		cells := []string{r.Namespace, r.Pod, r.Container, limit, report.Size(r.Needed), room, report.Size(r.Sure)}
		if wide {
			cells = append(cells, report.Size(r.Resident), fmt.Sprint(r.Findings), r.JDK, r.Collector, r.Name)
		}
		t.Rows = append(t.Rows, document.Row{Cells: document.Cells(cells...)})
		sum.Needed, sum.Sure = sum.Needed+r.Needed, sum.Sure+r.Sure
	}
	d := &document.Document{Title: fmt.Sprintf("%d JVMs in pods need %s; sure findings could save %s.", len(rows), report.Size(sum.Needed), report.Size(sum.Sure))}
	if len(rows) > 0 {
		d.Add(t)
	}
	return d
}

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tare.dev/tare/internal/runner"
)

// ErrNodes says that there are too few nodes of one kind; the rest of the text says which
// there are, and what would help.
var ErrNodes = errors.New("too few nodes for --parallel")

// Spread finds as many nodes for trials, the first of which is that of the first process. The
// scheduler finds them: of each other one it is asked for a node that is none of those before.
// They are of one kind (ErrNodes).
func (r *Runner) Spread(ctx context.Context, nodes int) error {
	all := r.Nodes()
	for len(all) < nodes {
		other := &Runner{archives: r.archives, client: r.client, template: r.template, fit: r.fit, token: r.token, owner: r.owner}
		for _, n := range all {
			other.template.avoid = append(other.template.avoid, n.Name)
		}
		_, err := Anew(ctx, func() error { return other.look(ctx) })
		if errors.Is(err, ErrPod) && other.Node() == "" {
			return fmt.Errorf("%w %d: trials may run on %s alone: give --parallel %d, or a --node-selector that more nodes have (%w)", ErrNodes, nodes, strings.Join(other.template.avoid, ", "), len(all), err)
		}
		if err != nil {
			return err
		}
		if differ := otherKind(*r.machine, *other.machine); differ != "" {
			return fmt.Errorf("%w %d: node %s is of another kind than %s (%s): trials on both would not compare: give a --node-selector of nodes that are alike", ErrNodes, nodes, other.Node(), r.Node(), differ)
		}
		all = append(all, runner.Node{Name: other.Node(), Runner: other})
	}
	r.others = all[1:]
	return nil
}

// look finds the node, and asks its agent for the machine.
func (r *Runner) look(ctx context.Context) (err error) {
	p, err := r.open(ctx, runner.Limits{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return orLost(ctx, r.describe(ctx, p.client))
}

// Nodes are those that trials run on.
func (r *Runner) Nodes() []runner.Node {
	return slices.Concat([]runner.Node{{Name: r.Node(), Runner: r}}, r.others)
}

// Lost says that no pod came to run on a node, or that it was lost there, so often that
// another node has to do.
func (r *Runner) Lost(err error) bool { return errors.Is(err, errLost) || errors.Is(err, ErrPod) }

// alikeMemory is the share by which the memory of nodes of one kind may differ: the kernel
// takes some of it.
const alikeMemory = 0.05

// otherKind says how machines differ, as "2 processors, and 4"; empty where they are of one
// kind.
func otherKind(a, b runner.Machine) string {
	switch {
	case a.Arch != b.Arch:
		return a.Arch + ", and " + b.Arch
	case a.Kernel != b.Kernel:
		return "Linux " + a.Kernel + ", and " + b.Kernel
	case a.CPUs != b.CPUs:
		return fmt.Sprintf("%d processors, and %d", a.CPUs, b.CPUs)
	case float64(max(a.MemoryBytes, b.MemoryBytes)) > (1+alikeMemory)*float64(min(a.MemoryBytes, b.MemoryBytes)):
		return fmt.Sprintf("%d MiB, and %d", a.MemoryBytes>>20, b.MemoryBytes>>20)
	}
	return ""
}

// avoid has the scheduler take none of some nodes. What is asked for otherwise stays: terms
// are alternatives, so each gets it.
func avoid(spec *corev1.PodSpec, nodes []string) {
	not := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	of := spec.Affinity.NodeAffinity
	if of.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		of.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	terms := of.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		for _, n := range nodes { // a field is compared with one value
			not.Values = []string{n}
			terms[i].MatchFields = append(terms[i].MatchFields, not)
		}
	}
}

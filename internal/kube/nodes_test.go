package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tare.dev/tare/internal/runner"
)

// A pod that is to avoid nodes keeps what is asked for otherwise: all alternatives get it.
func TestAvoid(t *testing.T) {
	zone := func(name string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}
	}
	some := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{zone("a"), zone("b")}}}}
	for name, given := range map[string]*corev1.Affinity{"nothing": nil, "zones": some} {
		template := Template{Spec: corev1.PodSpec{Affinity: given, Containers: []corev1.Container{{Name: "app"}}}, avoid: []string{"n1", "n2"}}
		spec := template.job(metav1.OwnerReference{}, "fit", "secret", "", runner.Limits{}, false).Spec.Template.Spec
		terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if want := map[string]int{"nothing": 1, "zones": 2}[name]; len(terms) != want {
			t.Errorf("%s: %d terms, want %d", name, len(terms), want)
		}
		for i, term := range terms {
			if len(term.MatchFields) != 2 || term.MatchFields[0].Operator != corev1.NodeSelectorOpNotIn || strings.Join(term.MatchFields[0].Values, "") != "n1" || strings.Join(term.MatchFields[1].Values, "") != "n2" {
				t.Errorf("%s: term %d has the fields %+v", name, i, term.MatchFields)
			}
			if name == "zones" && len(term.MatchExpressions) != 1 {
				t.Errorf("term %d lost its zone: %+v", i, term)
			}
		}
		if name == "zones" && len(given.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields) > 0 {
			t.Error("the template was changed")
		}
		pinned := template.job(metav1.OwnerReference{}, "fit", "secret", "n3", runner.Limits{}, false).Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(pinned) != 1 || pinned[0].MatchFields[0].Operator != corev1.NodeSelectorOpIn || pinned[0].MatchFields[0].Values[0] != "n3" {
			t.Errorf("%s: pinned to %+v", name, pinned)
		}
	}
}

func TestOtherKind(t *testing.T) {
	base := runner.Machine{Kernel: "6.1", Arch: "amd64", CPUs: 4, MemoryBytes: 16 << 30}
	for name, c := range map[string]struct {
		change func(*runner.Machine)
		want   string
	}{
		"the same":         {func(*runner.Machine) {}, ""},
		"a little memory":  {func(m *runner.Machine) { m.MemoryBytes -= 64 << 20 }, ""},
		"half the memory":  {func(m *runner.Machine) { m.MemoryBytes /= 2 }, "16384 MiB, and 8192"},
		"other processors": {func(m *runner.Machine) { m.CPUs = 2 }, "4 processors, and 2"},
		"another kernel":   {func(m *runner.Machine) { m.Kernel = "6.8" }, "Linux 6.1, and 6.8"},
		"arm":              {func(m *runner.Machine) { m.Arch = "arm64" }, "amd64, and arm64"},
	} {
		other := base
		c.change(&other)
		if got := otherKind(base, other); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

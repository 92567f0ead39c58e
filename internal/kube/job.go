package kube

import (
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tare.dev/tare/internal/runner"
)

// Labels of all that tare makes.
const (
	labelManaged = "app.kubernetes.io/managed-by"
	labelFit     = "dev.tare/fit"
	labelRole    = "dev.tare/role"
)

// Names of the containers of a trial.
const (
	Application = "application"
	agentName   = "tare"
	installName = "tare-install"
)

const (
	// agentPort is a port of the pod's loopback.
	agentPort = 17071
	tokenKey  = "token"
	groupsDir = "/sys/fs/cgroup"
	// maxTrialTime is when Kubernetes ends a trial that tare did not.
	maxTrialTime = 6 * 60 * 60
	// ttl is how long an ended job stays that its owner did not remove.
	ttl = 60
)

// Template is the pod that trials copy.
type Template struct {
	// Spec has the application as its first container. Its command, arguments and memory
	// are each trial's.
	Spec corev1.PodSpec
	// Agent is tare's own image.
	Agent string
	// PullPolicy is of the agent's image, and of the application's where none is given.
	PullPolicy corev1.PullPolicy
	// NodeSelector is added to the pod's own.
	NodeSelector map[string]string
	// avoid are nodes that are not taken.
	avoid []string
}

// job is the job of one trial; archives says that its pod has the volume for them.
func (t Template) job(owner metav1.OwnerReference, fit, secret, node string, limits runner.Limits, archives bool) batchv1.Job {
	labels := map[string]string{labelManaged: "tare", labelFit: fit, labelRole: "trial"}
	spec := *t.Spec.DeepCopy()
	app := &spec.Containers[0]
	app.Name = Application
	if app.ImagePullPolicy == "" {
		app.ImagePullPolicy = t.PullPolicy
	}
	app.Command, app.Args = runner.PodGate(), nil
	app.LivenessProbe, app.ReadinessProbe, app.StartupProbe, app.Lifecycle = nil, nil, nil, nil // tare waits and judges itself
	app.Resources = resources(app.Resources, limits)
	shared := corev1.VolumeMount{Name: "tare", MountPath: runner.InPod}
	app.VolumeMounts = append(app.VolumeMounts, shared)
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "tare", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "tare-groups", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: groupsDir}}})
	spec.InitContainers = append([]corev1.Container{t.install(shared)}, spec.InitContainers...)
	agent := t.agent(secret, shared)
	if archives {
		volume, mount := archivesVolume()
		spec.Volumes = append(spec.Volumes, volume)
		app.VolumeMounts, agent.VolumeMounts = append(app.VolumeMounts, mount), append(agent.VolumeMounts, mount)
	}
	spec.Containers = append([]corev1.Container{agent}, spec.Containers...)
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.ShareProcessNamespace = ptr(true)
	spec.AutomountServiceAccountToken = ptr(false)
	spec.TerminationGracePeriodSeconds = ptr(int64(1))
	spec.NodeSelector = mapsJoined(spec.NodeSelector, t.NodeSelector)
	if node != "" {
		pin(&spec, node)
	} else if len(t.avoid) > 0 {
		avoid(&spec, t.avoid)
	}
	return batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: "tare-trial-" + strings.ToLower(rand.Text()[:10]), Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: batchv1.JobSpec{BackoffLimit: ptr(int32(0)), ActiveDeadlineSeconds: ptr(int64(maxTrialTime)), TTLSecondsAfterFinished: ptr(int32(ttl)),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"sidecar.istio.io/inject": "false"}}, Spec: spec}},
	}
}

// install copies tare to the volume that the application's gate is run from.
func (t Template) install(shared corev1.VolumeMount) corev1.Container {
	return corev1.Container{Name: installName, Image: t.Agent, ImagePullPolicy: t.PullPolicy, Command: []string{"/usr/bin/tare", "trial-agent", "--install"},
		VolumeMounts: []corev1.VolumeMount{shared}, SecurityContext: secured()}
}

// agent is tare's container beside the application. It has no limit of its own: what it
// uses is in another group.
func (t Template) agent(secret string, shared corev1.VolumeMount) corev1.Container {
	return corev1.Container{Name: agentName, Image: t.Agent, ImagePullPolicy: t.PullPolicy,
		Command: []string{"/usr/bin/tare", "trial-agent", "--pod", "--listen", "127.0.0.1:" + strconv.Itoa(agentPort)},
		Env: []corev1.EnvVar{{Name: "TARE_AGENT_TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: tokenKey}}}, {Name: "TMPDIR", Value: runner.InPod}},
		VolumeMounts: []corev1.VolumeMount{shared, {Name: "tare-groups", MountPath: groupsDir}},
		// SYS_PTRACE and DAC_READ_SEARCH: to weigh a JVM of any user, and to know how it
		// ended. KILL: to end it.
		SecurityContext: secured("SYS_PTRACE", "DAC_READ_SEARCH", "KILL")}
}

func secured(capabilities ...corev1.Capability) *corev1.SecurityContext {
	return &corev1.SecurityContext{RunAsUser: ptr(int64(0)), RunAsNonRoot: ptr(false), AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities}}
}

// resources are those of a trial: the memory asked for is the limit, so that the node has
// it, and processors are as before where the trial names none.
func resources(given corev1.ResourceRequirements, l runner.Limits) corev1.ResourceRequirements {
	r := *given.DeepCopy()
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	delete(r.Limits, corev1.ResourceMemory)
	delete(r.Requests, corev1.ResourceMemory)
	if l.MemoryBytes > 0 {
		q := *resource.NewQuantity(l.MemoryBytes, resource.BinarySI)
		r.Limits[corev1.ResourceMemory], r.Requests[corev1.ResourceMemory] = q, q
	}
	if l.CPUs > 0 {
		q := *resource.NewMilliQuantity(int64(l.CPUs*1000+0.5), resource.DecimalSI)
		r.Limits[corev1.ResourceCPU] = q
		if asked, ok := r.Requests[corev1.ResourceCPU]; !ok || asked.Cmp(q) > 0 {
			r.Requests[corev1.ResourceCPU] = q
		}
	}
	return r
}

// pin has the scheduler take one node, whatever else is asked for.
func pin(spec *corev1.PodSpec, node string) {
	field := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{field}}}}}
}

// otherLimits are the resources of the application that something changed on the way, as
// "asked 100Mi, got 200Mi".
func otherLimits(asked, got corev1.ResourceRequirements) string {
	var changed []string
	for _, of := range []struct {
		name       string
		asked, got corev1.ResourceList
	}{{"limit", asked.Limits, got.Limits}, {"request", asked.Requests, got.Requests}} {
		for _, r := range slices.Sorted(maps.Keys(mapsJoined(of.asked, of.got))) {
			a, b := of.asked[r], of.got[r]
			if a.Cmp(b) != 0 {
				changed = append(changed, string(r)+" "+of.name+": asked "+a.String()+", got "+b.String())
			}
		}
	}
	return strings.Join(changed, "; ")
}

func mapsJoined[K comparable, V any](a, b map[K]V) map[K]V {
	all := map[K]V{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

func ptr[T any](v T) *T { return &v }

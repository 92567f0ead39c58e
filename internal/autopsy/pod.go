package autopsy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/kubeapi"
)

// PodSchema names the JSON form of a PodReport.
const PodSchema = "tare.autopsy.pod/1"

// PodVerdict is why a container of a pod ended.
type PodVerdict string

// The verdicts.
const (
	PodContainerLimit PodVerdict = "container-limit" // the kernel, for the container's own limit
	PodLimit          PodVerdict = "pod-limit"       // the kernel, for the limit of the whole pod
	PodNode           PodVerdict = "node"            // the kernel, for want of the node's memory
	PodChild          PodVerdict = "child"           // the kernel killed a process of it, not its first
	PodSidecar        PodVerdict = "sidecar"         // another container of the pod was killed
	PodEvicted        PodVerdict = "evicted"         // the kubelet, or who asked for an eviction
	PodProbe          PodVerdict = "liveness-probe"  // the kubelet, after a failed probe
	PodStopped        PodVerdict = "stopped"         // the pod was deleted, or the container told to stop
	PodExited         PodVerdict = "exited"          // by itself
	PodJVM            PodVerdict = "jvm"             // as the JVM's own autopsy says
	PodRunning        PodVerdict = "running"
	PodNeverRan       PodVerdict = "never-ran"
	PodUnknown        PodVerdict = "not-known"
)

// PodInput is what is known of a pod.
type PodInput struct {
	Pod    kubeapi.Pod
	Events []kubeapi.EventObject
	// Container is the one that is asked for; "" is the one that ended last.
	Container string
	// JVM is the autopsy of its JVM, made on its node; nil without one.
	JVM *Report
}

// PodReport is the outcome of an autopsy of a pod.
type PodReport struct {
	Schema     string           `json:"schema"`
	Namespace  string           `json:"namespace"`
	Pod        string           `json:"pod"`
	Container  string           `json:"container"`
	Node       string           `json:"node"`
	Verdict    PodVerdict       `json:"verdict"`
	Confidence doctor.Certainty `json:"confidence"`
	Headline   string           `json:"headline"`
	At         time.Time        `json:"at,omitzero"`
	ExitCode   *int             `json:"exitCode,omitempty"`
	Restarts   int              `json:"restarts"`
	// LimitBytes is the limit that was reached; 0 where none was.
	LimitBytes int64      `json:"limitBytes,omitempty"`
	Evidence   []Evidence `json:"evidence"`
	Missing    []string   `json:"missing"`
	JVM        *Report    `json:"jvm,omitempty"`
}

// ExaminePod finds out why a container of a pod ended.
func ExaminePod(in PodInput) (*PodReport, error) {
	p := &in.Pod
	r := &PodReport{Schema: PodSchema, Namespace: p.Metadata.Namespace, Pod: p.Metadata.Name, Node: p.Spec.NodeName,
		Evidence: []Evidence{}, Missing: []string{}, JVM: in.JVM}
	c := &podCase{PodInput: in, r: r}
	if err := c.choose(); err != nil {
		return nil, err
	}
	for _, judge := range []func() bool{c.evicted, c.neverRan, c.sidecar, c.running, c.byProbe, c.outOfMemory, c.byExit} {
		if judge() {
			break
		}
	}
	if in.JVM == nil {
		r.Missing = append(r.Missing, "No agent told of its JVM: what grew before the end, and the kernel's own words, are not known.")
	}
	return r, nil
}

// podCase is a pod with the container that is asked for.
type podCase struct {
	PodInput
	r      *PodReport
	status *kubeapi.ContainerStatus // nil where the kubelet has told of none
	end    *kubeapi.Terminated      // its last; nil where it has not ended
}

// lastEnd is how a container ended last.
func lastEnd(s *kubeapi.ContainerStatus) *kubeapi.Terminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	return s.LastState.Terminated
}

// choose picks the container, and its end.
func (c *podCase) choose() error {
	all := c.Pod.AllStatuses()
	want := c.Container
	if want == "" && c.JVM != nil {
		want = c.JVM.JVM.ContainerName
	}
	for i := range all {
		s := &all[i]
		if want != "" {
			if s.Name == want {
				c.status = s
			}
			continue
		}
		end := lastEnd(s)
		if c.status == nil || end != nil && (c.end == nil || telling(end) > telling(c.end) || telling(end) == telling(c.end) && end.FinishedAt.After(c.end.FinishedAt)) {
			c.status, c.end = s, end
		}
	}
	if c.status == nil && c.Container != "" {
		names := []string{}
		for i := range all {
			names = append(names, all[i].Name)
		}
		return fmt.Errorf("pod %s has no container %.100q: it has %s: %w", c.r.Pod, c.Container, strings.Join(names, ", "), ErrNotFound)
	}
	if c.status != nil {
		c.end = lastEnd(c.status)
		c.r.Container, c.r.Restarts = c.status.Name, c.status.RestartCount
	}
	if c.end != nil {
		code := c.end.ExitCode
		c.r.At, c.r.ExitCode = c.end.FinishedAt, &code
	}
	return nil
}

// telling ranks ends: one that completed says nothing of why another failed.
func telling(t *kubeapi.Terminated) int {
	if t.Reason == "Completed" {
		return 0
	}
	return 1
}

func (c *podCase) add(source, format string, args ...any) {
	c.r.Evidence = append(c.r.Evidence, Evidence{source, fmt.Sprintf(format, args...)})
}

func (c *podCase) verdict(v PodVerdict, how doctor.Certainty, format string, args ...any) bool {
	c.r.Verdict, c.r.Confidence, c.r.Headline = v, how, fmt.Sprintf(format, args...)
	return true
}

// name is what the container is called.
func (c *podCase) name() string {
	if c.r.Container == "" {
		return c.r.Pod
	}
	return c.r.Pod + "/" + c.r.Container
}

// addStatus tells of the end as the kubelet does.
func (c *podCase) addStatus() {
	if c.end == nil {
		return
	}
	c.add("status", "container %s ended with exit code %d, reason %s", c.status.Name, c.end.ExitCode, printable(c.end.Reason))
}

// event is the last event of some reasons that is of the container, or of the whole pod.
func (c *podCase) event(reason, text string) *kubeapi.EventObject {
	var found *kubeapi.EventObject
	for i := range c.Events {
		e := &c.Events[i]
		if e.Reason != reason || !strings.Contains(e.Message, text) || e.Involved.Name != c.Pod.Metadata.Name || e.Involved.UID != "" && e.Involved.UID != c.Pod.Metadata.UID {
			continue
		}
		if path := e.Involved.FieldPath; strings.Contains(path, "{") && !strings.HasSuffix(path, "{"+c.r.Container+"}") {
			continue
		}
		if found == nil || !e.At().Before(found.At()) {
			found = e
		}
	}
	return found
}

func (c *podCase) addEvent(e *kubeapi.EventObject) {
	c.add("event", "%s: %s", printable(e.Reason), printable(clip(e.Message)))
}

// evicted goes by the pod's own reason: its containers are stopped then, whatever their
// exit codes (Kubernetes: pkg/kubelet/eviction, DisruptionTarget condition of pods).
func (c *podCase) evicted() bool {
	why := ""
	if c.Pod.Status.Reason == "Evicted" {
		why = c.Pod.Status.Message
	}
	for _, cond := range c.Pod.Status.Conditions {
		if cond.Type == "DisruptionTarget" && cond.Status == "True" && cond.Reason != "DeletionByPodGC" && why == "" {
			why = cond.Reason + ": " + cond.Message
		}
	}
	if why == "" {
		return false
	}
	c.add("status", "%s", printable(clip(why)))
	if e := c.event("Evicted", ""); e != nil {
		c.addEvent(e)
	}
	c.addStatus()
	return c.verdict(PodEvicted, doctor.Certain, "%s was evicted: %s", c.r.Pod, printable(strings.TrimSuffix(strings.TrimSpace(clip(why)), "."))+".")
}

// neverRan tells of a container that no process of ever was.
func (c *podCase) neverRan() bool {
	if c.end != nil || c.status != nil && c.status.State.Running != nil {
		return false
	}
	reason, message := "", ""
	if c.status != nil && c.status.State.Waiting != nil {
		reason, message = c.status.State.Waiting.Reason, c.status.State.Waiting.Message
	}
	if e := c.event("FailedScheduling", ""); e != nil && c.status == nil {
		reason, message = e.Reason, e.Message
	}
	if reason == "" {
		return c.verdict(PodNeverRan, doctor.Certain, "%s has not run yet.", c.name())
	}
	c.add("status", "%s: %s", printable(reason), printable(clip(message)))
	return c.verdict(PodNeverRan, doctor.Certain, "%s has not run: %s.", c.name(), printable(reason))
}

// near bounds how far apart the end and an event of it are, besides the pod's time to stop.
const near = 2 * time.Minute

// byProbe goes by the events of a failed liveness probe, or a startup probe, which is
// what the kubelet kills a container for (pkg/kubelet/kuberuntime, "failed liveness probe").
func (c *podCase) byProbe() bool {
	if c.end == nil || c.end.Reason == "OOMKilled" {
		return false
	}
	for _, kind := range []string{"liveness", "startup"} {
		failed := c.event("Unhealthy", strings.ToUpper(kind[:1])+kind[1:]+" probe failed")
		killing, how := c.event("Killing", "failed "+kind+" probe"), doctor.Certain
		if killing == nil && c.stoppedAfter(failed) {
			killing, how = c.event("Killing", stopping), doctor.Likely
		}
		if killing == nil || c.end.FinishedAt.Sub(killing.At()).Abs() > near {
			continue
		}
		c.addEvent(killing)
		if failed != nil {
			c.addEvent(failed)
		}
		c.addStatus()
		return c.verdict(PodProbe, how, "%s was killed by the kubelet, because its %s probe failed: memory was not why.", c.name(), kind)
	}
	return false
}

// stopping begins the event of a container that is stopped with its whole pod.
const stopping = "Stopping container"

// stoppedAfter says that nobody asked for the end of the pod, which came with a failed
// probe: where no container is started again, the kubelet stops the pod in place of the
// container, and its event names no probe (pkg/kubelet/kuberuntime, computePodActions).
func (c *podCase) stoppedAfter(failed *kubeapi.EventObject) bool {
	if failed == nil || c.Pod.Metadata.Deleted != nil || c.Pod.Status.Reason != "" {
		return false
	}
	end := c.end.FinishedAt.Sub(failed.At())
	return end >= 0 && end <= near
}

// sidecar tells of a pod in which another container than the one that is meant was
// killed for want of memory, while that one was not.
func (c *podCase) sidecar() bool {
	if c.end != nil && c.end.Reason == "OOMKilled" {
		return false
	}
	all := c.Pod.AllStatuses()
	for i := range all {
		s := &all[i]
		end := lastEnd(s)
		if s.Name == c.r.Container || end == nil || end.Reason != "OOMKilled" {
			continue
		}
		if c.end != nil && c.end.FinishedAt.Sub(end.FinishedAt).Abs() > near {
			continue
		}
		c.add("status", "container %s ended with exit code %d, reason OOMKilled", s.Name, end.ExitCode)
		limit, of := c.limitOf(s.Name)
		if limit > 0 {
			c.add("spec", "the limit of %s is %s", of, size(limit))
		}
		c.r.LimitBytes = limit
		rest := "which runs"
		if c.end != nil {
			c.addStatus()
			rest = fmt.Sprintf("which ended with exit code %d", c.end.ExitCode)
		}
		return c.verdict(PodSidecar, doctor.Certain, "The kernel killed container %s of %s for want of memory, not %s, %s.", s.Name, c.r.Pod, c.r.Container, rest)
	}
	return false
}

func (c *podCase) running() bool {
	if c.end != nil {
		return false
	}
	return c.verdict(PodRunning, doctor.Certain, "%s runs, and has not ended before.", c.name())
}

// limitOf is the memory limit of a container, and of what it is.
func (c *podCase) limitOf(container string) (int64, string) {
	for _, all := range [][]kubeapi.Container{c.Pod.Spec.Containers, c.Pod.Spec.InitContainers} {
		for i := range all {
			if n, ok := kubeapi.ParseBytes(all[i].Resources.Limits["memory"]); ok && all[i].Name == container {
				return n, "container " + container
			}
		}
	}
	if n, ok := kubeapi.ParseBytes(c.Pod.Spec.Resources.Limits["memory"]); ok {
		return n, "the pod"
	}
	return 0, ""
}

// outOfMemory goes by the kubelet's reason OOMKilled, which it takes from the runtime: a
// process of the container's group was killed, and it may not have been the first one.
// Whose limit it was the kernel says, where an agent has its words; else the limits tell.
func (c *podCase) outOfMemory() bool {
	if c.end == nil || c.end.Reason != "OOMKilled" && !(c.JVM != nil && c.JVM.Verdict.OutOfMemory() && c.JVM.Verdict != OutOfMemoryError && c.jvmOfEnd()) {
		return false
	}
	c.addStatus()
	limit, of := c.limitOf(c.r.Container)
	if limit > 0 {
		c.add("spec", "the limit of %s is %s", of, size(limit))
	}
	if c.end.ExitCode != 137 {
		c.r.LimitBytes = limit
		return c.verdict(PodChild, doctor.Likely, "The kernel killed a process of %s for want of memory, and not its first, which then ended with exit code %d.", c.name(), c.end.ExitCode)
	}
	if k := c.kill(); k != "" {
		pod, container := kubeapi.Placed(k)
		c.r.LimitBytes = c.JVM.LimitBytes
		switch {
		case container != "", pod != "" && c.alone():
			return c.verdict(PodContainerLimit, doctor.Certain, "%s was killed by its own limit of %s, not by the node.", c.name(), size(c.r.LimitBytes))
		case pod != "":
			return c.podLimit(doctor.Certain)
		}
		return c.verdict(PodNode, doctor.Certain, "%s was killed for want of memory of the node, in %s.", c.name(), printable(k))
	}
	c.r.LimitBytes = limit
	switch {
	case limit == 0:
		return c.verdict(PodNode, doctor.Likely, "%s was killed for want of memory, most likely the node's: neither it nor its pod has a limit.", c.name())
	case of == "the pod":
		return c.podLimit(doctor.Likely)
	}
	return c.verdict(PodContainerLimit, doctor.Likely, "%s was killed for want of memory, most likely by its own limit of %s.", c.name(), size(limit))
}

// alone says that the pod's limit is its only container's: the kubelet gives a pod without
// a limit of its own the sum of those of its containers.
func (c *podCase) alone() bool {
	limit, of := c.limitOf(c.r.Container)
	return limit > 0 && of != "the pod" && c.Pod.Spec.Resources.Limits["memory"] == "" && len(c.Pod.Spec.Containers)+len(c.Pod.Spec.InitContainers) == 1
}

// podLimit is the verdict where the pod has less than its containers together may take.
func (c *podCase) podLimit(how doctor.Certainty) bool {
	return c.verdict(PodLimit, how, "%s was killed by the limit of its whole pod, %s, and not by one of its own.", c.name(), size(c.r.LimitBytes))
}

// jvmOfEnd says that the JVM's autopsy is of the container whose end this is.
func (c *podCase) jvmOfEnd() bool {
	return c.JVM != nil && c.JVM.JVM.Container != "" && c.JVM.JVM.Container == kubeapi.ID(c.end.ContainerID)
}

// kill is the group whose limit the kernel named as it killed the JVM; "" where it is not
// known.
func (c *podCase) kill() string {
	if !c.jvmOfEnd() || c.JVM.Kill == nil {
		return ""
	}
	for _, e := range c.JVM.Evidence {
		if e.Source == "kernel log" {
			c.r.Evidence = append(c.r.Evidence, e)
		}
	}
	return c.JVM.Kill.LimitGroup
}

// stops are the exit codes of a process that a signal ended, or that answered to it.
var stops = []int{129, 130, 143, 137}

// byExit goes by the exit code, and by who asked for the end.
func (c *podCase) byExit() bool {
	c.addStatus()
	code := c.end.ExitCode
	if slices.Contains(stops, code) {
		e := c.event("Killing", stopping)
		if e == nil && c.Pod.Metadata.Deleted == nil {
			if code == 137 {
				return c.verdict(PodUnknown, doctor.Possible, "%s was killed with SIGKILL; no event says by whom, and nothing tells of a want of memory.", c.name())
			}
			return c.verdict(PodStopped, doctor.Likely, "%s was told to stop (exit code %d): memory was not why.", c.name(), code)
		}
		if e != nil {
			c.addEvent(e)
		}
		return c.verdict(PodStopped, doctor.Certain, "%s was stopped with its pod: memory was not why.", c.name())
	}
	if c.jvmOfEnd() && (c.JVM.Verdict == OutOfMemoryError || c.JVM.Verdict == NativeCrash) {
		c.r.Evidence = append(c.r.Evidence, c.JVM.Evidence...)
		return c.verdict(PodJVM, c.JVM.Confidence, "%s", c.JVM.Headline)
	}
	return c.verdict(PodExited, doctor.Certain, "%s ended by itself with exit code %d.", c.name(), code)
}

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/linux"
)

// Deadlines of a pod's start. Each counts from when the step before was done.
const (
	podPoll      = 150 * time.Millisecond
	createTime   = 20 * time.Second
	scheduleTime = time.Minute
	startTime    = 5 * time.Minute // images are pulled
)

// stillTime is how long a pod of which nothing runs may show nothing new before its events
// are looked at. A variable for tests.
var stillTime = time.Minute

// ErrPod says that a trial's pod did not come to run; the rest of the text says why, and
// what would help.
var ErrPod = errors.New("the trial's pod does not run")

// podOf waits until a job's pod runs, with the resources that were asked for.
func podOf(ctx context.Context, c *kubeapi.Client, job batchv1.Job) (*corev1.Pod, error) {
	begun := time.Now()
	tick := time.NewTicker(podPoll)
	defer tick.Stop()
	query := url.Values{"labelSelector": {"batch.kubernetes.io/job-name=" + job.Name}}
	var last error
	var still stillness
	for {
		var pods corev1.PodList
		err := c.Get(ctx, kubeapi.PodPath(c.Namespace, ""), query, &pods)
		switch {
		case err != nil:
			last = err // the API server may be away for a moment
		case len(pods.Items) > 0:
			pod := &pods.Items[0]
			ready, err := state(pod, time.Since(begun))
			if err == nil && still.since(pod) > stillTime {
				err = forgotten(ctx, c, pod)
				still = stillness{}
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrPod, err)
			}
			if ready {
				return pod, asked(job, pod)
			}
			last = nil
		case time.Since(begun) > createTime:
			return nil, fmt.Errorf("%w: %w", ErrPod, notMade(ctx, c, job))
		}
		if time.Since(begun) > createTime+scheduleTime+startTime {
			return nil, fmt.Errorf("%w within %s: %w", ErrPod, createTime+scheduleTime+startTime, last)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// notMade is why a job has no pod: its events say so.
func notMade(ctx context.Context, c *kubeapi.Client, job batchv1.Job) error {
	events, err := eventsOf(ctx, c, "Job", job.Name)
	if err != nil {
		return fmt.Errorf("none was made within %s, and the events cannot be read: %w", createTime, err)
	}
	for _, e := range events {
		if e.Type == corev1.EventTypeWarning {
			return fmt.Errorf("none was made: %s", linux.PrintableName(e.Message))
		}
	}
	return fmt.Errorf("none was made within %s: is the job controller of the cluster at work?", createTime)
}

func eventsOf(ctx context.Context, c *kubeapi.Client, kind, name string) ([]corev1.Event, error) {
	var events corev1.EventList
	query := url.Values{"fieldSelector": {"involvedObject.kind=" + kind + ",involvedObject.name=" + name}}
	err := c.Get(ctx, kubeapi.EventPath(c.Namespace), query, &events)
	return events.Items, err
}

// stillness is since when a pod has shown nothing new while none of its containers runs.
type stillness struct {
	version string
	begun   time.Time
}

// since is for how long; 0 for a pod that no node has yet, or of which something runs.
func (s *stillness) since(pod *corev1.Pod) time.Duration {
	running := func(c corev1.ContainerStatus) bool { return c.State.Running != nil }
	busy := slices.ContainsFunc(pod.Status.InitContainerStatuses, running) || slices.ContainsFunc(pod.Status.ContainerStatuses, running)
	if busy || pod.Spec.NodeName == "" || pod.ResourceVersion != s.version {
		*s = stillness{pod.ResourceVersion, time.Now()}
	}
	return time.Since(s.begun)
}

// forgotten is errLost where the kubelet does nothing more for a pod that does not run. It
// starts no container of a pod whose sandbox went when a first one had been made and that
// is never restarted (computePodActions, pkg/kubelet/kuberuntime/kuberuntime_manager.go),
// and says nothing. What takes long otherwise has an event: an image that is pulled, or
// the warning of what it tries again.
func forgotten(ctx context.Context, c *kubeapi.Client, pod *corev1.Pod) error {
	events, err := eventsOf(ctx, c, "Pod", pod.Name)
	if err != nil {
		return nil // the API server may be away for a moment
	}
	pulls := 0
	for _, e := range events {
		switch {
		case e.Type == corev1.EventTypeWarning:
			return nil
		case e.Reason == "Pulling":
			pulls++
		case e.Reason == "Pulled":
			pulls--
		}
	}
	if pulls > 0 {
		return nil
	}
	return fmt.Errorf("%w: the node started none of its containers, and nothing happens there: its sandbox was killed, or the kubelet is away", errLost)
}

// state says whether tare's containers of a pod run, and the application's waits at its
// gate. The error says why that will not be.
func state(pod *corev1.Pod, since time.Duration) (ready bool, err error) {
	for _, s := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		if w := s.State.Waiting; w != nil {
			if help, ok := kubeapi.Broken(w.Reason); ok {
				return false, fmt.Errorf("container %s: %s: %s: %s", s.Name, w.Reason, linux.PrintableName(w.Message), help)
			}
		}
		if e := s.State.Terminated; e != nil && e.ExitCode != 0 {
			return false, fmt.Errorf("%w: container %s ended with exit code %d (%s) before the trial: %s", errLost, s.Name, e.ExitCode, linux.PrintableName(e.Reason), linux.PrintableName(e.Message))
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return false, fmt.Errorf("%w: %s: %s", errLost, linux.PrintableName(pod.Status.Reason), linux.PrintableName(pod.Status.Message))
	}
	for _, cond := range pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse && since > scheduleTime {
			return false, fmt.Errorf("it was not scheduled within %s: %s: free a node, or give another --node-selector", scheduleTime, linux.PrintableName(cond.Message))
		}
	}
	running := 0
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil {
			running++
		}
	}
	if pod.Status.Phase == corev1.PodRunning && running == len(pod.Spec.Containers) {
		return true, nil
	}
	if pod.Spec.NodeName != "" && since > scheduleTime+startTime {
		return false, fmt.Errorf("its containers do not run %s after it was made: see kubectl describe pod %s", since.Round(time.Second), pod.Name)
	}
	return false, nil
}

// asked says whether the application has the resources that were asked for: admission may
// have changed them.
func asked(job batchv1.Job, pod *corev1.Pod) error {
	for _, want := range job.Spec.Template.Spec.Containers {
		for _, got := range pod.Spec.Containers {
			if want.Name != Application || got.Name != Application {
				continue
			}
			if changed := otherLimits(want.Resources, got.Resources); changed != "" {
				return fmt.Errorf("%w as asked for: something in the cluster changes it (%s): a LimitRange, or an admission webhook", ErrPod, linux.PrintableName(changed))
			}
		}
	}
	return nil
}

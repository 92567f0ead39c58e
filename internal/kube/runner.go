// Package kube makes trials in a Kubernetes cluster: each a Job of one Pod, in which the
// application and tare's agent are containers.
package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/remote"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/trial"
)

// Runner makes trials in a cluster, all on one node: that of the first; others are made on
// nodes of their own (Spread). All that it makes
// is owned by one Secret, which holds the agents' token: when that is removed, Kubernetes
// removes the rest. What a killed tare left goes by itself: the agent ends a trial that
// nobody asks for, its job is removed a minute after its end, and the next Sweep removes
// the Secret.
type Runner struct {
	*archives
	client   *kubeapi.Client
	template Template
	fit      string
	token    string
	owner    metav1.OwnerReference
	others   []runner.Node

	// stop ends the goroutine that says that this tare lives.
	stop context.CancelFunc

	mu    sync.Mutex
	node  string
	image string
	// machine and available are what the agent of the last process said.
	machine   *runner.Machine
	available int64
}

var (
	_ runner.Fleet  = (*Runner)(nil)
	_ trial.Trialer = (*Runner)(nil)
)

// Rights are those that a Runner needs in its namespace.
func Rights(namespace string) []kubeapi.Right {
	rights := []kubeapi.Right{
		{Verb: "create", Resource: "secrets"}, {Verb: "list", Resource: "secrets"}, {Verb: "delete", Resource: "secrets"}, {Verb: "patch", Resource: "secrets"},
		{Verb: "create", Group: "batch", Resource: "jobs"}, {Verb: "delete", Group: "batch", Resource: "jobs"},
		{Verb: "list", Resource: "pods"}, {Verb: "create", Resource: "pods", Subresource: "portforward"}, {Verb: "list", Resource: "events"},
	}
	for i := range rights {
		rights[i].Namespace = namespace
	}
	return rights
}

// NewRunner checks the rights and makes the owner of all trials.
func NewRunner(ctx context.Context, c *kubeapi.Client, t Template) (*Runner, error) {
	if len(t.Spec.Containers) == 0 {
		return nil, errors.New("a pod without containers")
	}
	missing, err := c.Missing(ctx, Rights(c.Namespace)...)
	if err != nil {
		return nil, fmt.Errorf("rights in namespace %s: %w", c.Namespace, err)
	}
	if len(missing) > 0 {
		names := make([]string, len(missing))
		for i, r := range missing {
			names[i] = r.String()
		}
		return nil, fmt.Errorf("%w: you may not: %s", runner.ErrUnavailable, strings.Join(names, ", "))
	}
	r := &Runner{archives: &archives{}, client: c, template: t, fit: strings.ToLower(rand.Text()[:10]), token: rand.Text()}
	if _, err := r.Sweep(ctx); err != nil {
		return nil, err
	}
	secret := corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, StringData: map[string]string{tokenKey: r.token},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "tare-fit-", Labels: map[string]string{labelManaged: "tare", labelFit: r.fit, labelRole: "owner"},
			Annotations: map[string]string{seenKey: time.Now().UTC().Format(time.RFC3339)}}}
	var made corev1.Secret
	if err := c.Create(ctx, secretPath(c, ""), secret, &made); err != nil {
		return nil, fmt.Errorf("secret of the fit: %w", err)
	}
	r.owner = metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: made.Name, UID: made.UID}
	var living context.Context
	living, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	go r.live(living)
	return r, nil
}

const (
	// seenKey is an annotation of the owner: when its tare last lived, said anew each
	// seenEvery. abandonedAfter is how long ago that is of one that is swept.
	seenKey        = "dev.tare/seen"
	seenEvery      = 3 * time.Minute
	abandonedAfter = 15 * time.Minute
)

// live says that this tare lives until the context ends, however long a trial takes.
func (r *Runner) live(ctx context.Context) {
	tick := time.NewTicker(seenEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			patch := map[string]any{"metadata": map[string]any{"annotations": map[string]string{seenKey: time.Now().UTC().Format(time.RFC3339)}}}
			_ = r.client.Merge(ctx, secretPath(r.client, r.owner.Name), patch) // the next one says it
		case <-ctx.Done():
			return
		}
	}
}

// Sweep removes the owners of fits the tare of which has not been seen for long, and with
// them all that they made. Clocks that are apart by minutes do no harm.
func (r *Runner) Sweep(ctx context.Context) (removed []string, err error) {
	var all corev1.SecretList
	query := map[string][]string{"labelSelector": {labelManaged + "=tare," + labelRole + "=owner"}}
	if err := r.client.Get(ctx, secretPath(r.client, ""), query, &all); err != nil {
		return nil, fmt.Errorf("look for leftovers: %w", err)
	}
	for _, s := range all.Items {
		seen, parseErr := time.Parse(time.RFC3339, s.Annotations[seenKey])
		if s.Name == r.owner.Name || parseErr == nil && time.Since(seen) < abandonedAfter {
			continue
		}
		if e := r.client.Remove(ctx, secretPath(r.client, s.Name)); e != nil {
			err = errors.Join(err, fmt.Errorf("remove secret %s: %w", s.Name, e))
			continue
		}
		removed = append(removed, "secret "+s.Name)
	}
	return removed, err
}

func secretPath(c *kubeapi.Client, name string) string {
	return kubeapi.Path("/api/v1", c.Namespace, "secrets", name)
}

func jobPath(c *kubeapi.Client, name string) string {
	return kubeapi.Path("/apis/batch/v1", c.Namespace, "jobs", name)
}

// removeTime is how long a removal may take at the end.
const removeTime = 30 * time.Second

// Close removes all that was made, but for the folder of archives.
func (r *Runner) Close() error {
	r.stop()
	return errors.Join(r.remove(secretPath(r.client, r.owner.Name)), r.forget())
}

// remove removes an object, and waits where the API server is away.
func (r *Runner) remove(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	return insist(ctx, func() error { return r.client.Remove(ctx, path) })
}

// insist tries until the API server is not away, for awayTime.
func insist(ctx context.Context, try func() error) error {
	for end := time.Now().Add(awayTime); ; {
		err := try()
		if err == nil || !away(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(awayPoll):
		case <-ctx.Done():
			return err
		}
	}
}

// away says that the API server did not answer, or that it, or what is before it, cannot
// at the moment.
func away(err error) bool {
	var answer *kubeapi.StatusError
	if !errors.As(err, &answer) {
		return true
	}
	switch answer.Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// Name is "kubernetes".
func (r *Runner) Name() string { return "kubernetes" }

// Node is where the trials run, "" before the first. Image is the digest of the image that
// the application's container was made of.
func (r *Runner) Node() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// Image is the digest of the application's image; "" before the first trial.
func (r *Runner) Image() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.image
}

// inPod is a trial's pod and its agent.
type inPod struct {
	runner  *Runner
	job     string
	pod     string
	forward *kubeapi.Forward
	client  *remote.Client
}

// open makes a job and returns when its agent answers.
func (r *Runner) open(ctx context.Context, limits runner.Limits) (_ *inPod, err error) {
	if limits.Cpuset != "" {
		return nil, errors.New("--cpuset: a pod cannot name its processors: give --cpus")
	}
	job := r.template.job(r.owner, r.fit, r.owner.Name, r.Node(), limits, r.Shared() != "")
	tries := 0
	if err := insist(ctx, func() error {
		tries++
		err := r.client.Create(ctx, jobPath(r.client, ""), job, nil)
		if tries > 1 && kubeapi.IsCode(err, http.StatusConflict) {
			return nil // the answer to an earlier try was lost
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("job of a trial: %w", err)
	}
	p := &inPod{runner: r, job: job.Name}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	pod, err := podOf(ctx, r.client, job)
	if err != nil {
		return nil, err
	}
	p.pod = pod.Name
	r.mu.Lock()
	r.node = pod.Spec.NodeName
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == Application {
			r.image = s.ImageID
		}
	}
	r.mu.Unlock()
	return p, p.connect(ctx, connectTime)
}

const (
	connectTime = time.Minute
	// awayTime is how long the API server, or the way to the agent, may be away.
	awayTime = 3 * time.Minute
	awayPoll = time.Second
)

// connect leads to the agent, which may not listen yet or be away for a while, as long as
// the pod is there.
func (p *inPod) connect(ctx context.Context, limit time.Duration) error {
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); {
		f, err := p.runner.client.Forward(ctx, p.runner.client.Namespace, p.pod, agentPort)
		if err == nil {
			var c *remote.Client
			if c, err = remote.NewClient(ctx, f.Address, p.runner.token); err == nil {
				p.forward, p.client = f, c
				return nil
			}
			f.Close()
		}
		last = err
		if err := p.gone(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(podPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%w: agent of pod %s: %w", errLost, p.pod, last)
}

func (p *inPod) disconnect() {
	if p.client != nil {
		_ = p.client.Close()
		p.forward.Close()
		p.client, p.forward = nil, nil
	}
}

// close removes the job, and with it the pod.
func (p *inPod) close() error {
	p.disconnect()
	return p.runner.remove(jobPath(p.runner.client, p.job))
}

// errLost says that a pod was lost, or the way to it, through no doing of what ran there.
var errLost = errors.New("the trial's pod was lost")

// maxLost is how often what a lost pod was for is done anew.
const maxLost = 3

// Anew does what needs a pod; where that is lost, once more in another one, up to maxLost
// times. Lost says what became of the pods before.
func Anew(ctx context.Context, do func() error) (lost []string, err error) {
	for {
		err = do()
		if !errors.Is(err, errLost) || ctx.Err() != nil {
			return lost, err
		}
		if len(lost) == maxLost {
			return lost, fmt.Errorf("%w\n%d pods were lost, one after the other: see kubectl get events, and kubectl describe node", err, maxLost+1)
		}
		lost = append(lost, "it was made anew: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// orLost takes an error of a call that the agent did not answer for a lost pod.
func orLost(ctx context.Context, err error) error {
	if unanswered(err) && !errors.Is(err, errLost) && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// Trial makes a trial in a pod; where that is lost, in another one.
func (r *Runner) Trial(ctx context.Context, s trial.Spec) (*trial.Result, error) {
	if s.Inspect != nil {
		return nil, errors.New("a trial in a cluster cannot be looked into")
	}
	var res *trial.Result
	lost, err := Anew(ctx, func() (err error) {
		res, err = r.trialOnce(ctx, s)
		return err
	})
	if err == nil {
		res.Warnings = append(res.Warnings, lost...)
	}
	return res, err
}

func (r *Runner) trialOnce(ctx context.Context, s trial.Spec) (res *trial.Result, err error) {
	log, err := openLog(s.LogFile)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	p, err := r.open(ctx, s.Limits)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.put(ctx, s.Files); err != nil {
		return nil, err
	}
	if res, err = p.trial(ctx, s, log); err != nil {
		return nil, err
	}
	return res, p.fetch(ctx, s)
}

// trial makes the trial, whatever becomes of the connection meanwhile.
func (p *inPod) trial(ctx context.Context, s trial.Spec, log io.Writer) (*trial.Result, error) {
	t, err := p.client.BeginTrial(ctx, s)
	if err != nil {
		return nil, orLost(ctx, err)
	}
	var res *trial.Result
	err = p.persist(ctx, t.Known, func() (err error) {
		res, err = t.Follow(ctx, p.client, s.Stage, log)
		return err
	})
	return res, err
}

// persist asks the agent until it answers, whatever becomes of the connection meanwhile.
// Known changes where there is something new before the answer.
func (p *inPod) persist(ctx context.Context, known func() string, ask func() error) error {
	var away time.Time
	for {
		before := known()
		err := ask()
		if !unanswered(err) || ctx.Err() != nil {
			return err
		}
		if away.IsZero() || known() != before {
			away = time.Now()
		}
		if time.Since(away) > awayTime {
			return fmt.Errorf("%w: it cannot be reached for %s: %w", errLost, awayTime, err)
		}
		p.disconnect()
		if err := p.connect(ctx, awayTime-time.Since(away)); err != nil {
			return err
		}
	}
}

// unanswered says of an error that the agent did not answer, though this machine did its
// part.
func unanswered(err error) bool {
	var here *fs.PathError
	return err != nil && !errors.Is(err, remote.ErrTrial) && !remote.Answered(err) && !errors.As(err, &here)
}

// gone says that the pod is no more: evicted, removed, or its node lost.
func (p *inPod) gone(ctx context.Context) error {
	var pods corev1.PodList
	query := map[string][]string{"labelSelector": {"batch.kubernetes.io/job-name=" + p.job}}
	if err := p.runner.client.Get(ctx, kubeapi.PodPath(p.runner.client.Namespace, ""), query, &pods); err != nil {
		return nil // the API server is away
	}
	for _, pod := range pods.Items {
		if pod.Name != p.pod || pod.DeletionTimestamp != nil {
			continue
		}
		if pod.Status.Phase == corev1.PodFailed {
			return fmt.Errorf("%w: pod %s failed: %s %s", errLost, p.pod, linux.PrintableName(pod.Status.Reason), linux.PrintableName(pod.Status.Message))
		}
		return nil
	}
	return fmt.Errorf("%w: pod %s was removed during its trial", errLost, p.pod)
}

func openLog(name string) (io.WriteCloser, error) {
	if name == "" {
		return discard{}, nil
	}
	return os.Create(name)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

// Start starts a process in a pod of its own. The error is one that Anew knows where the
// pod was lost.
func (r *Runner) Start(ctx context.Context, s runner.Spec) (runner.Process, error) {
	p, err := r.start(ctx, s)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (r *Runner) start(ctx context.Context, s runner.Spec) (*podProcess, error) {
	p, err := r.open(ctx, s.Limits)
	if err != nil {
		return nil, err
	}
	err = r.describe(ctx, p.client)
	if err == nil {
		err = p.put(ctx, s.Cold.Files)
	}
	var process runner.Process
	if err == nil {
		process, err = p.client.Start(ctx, s)
	}
	if err != nil {
		return nil, errors.Join(orLost(ctx, err), p.close())
	}
	return &podProcess{Process: process, pod: p}, nil
}

// describe asks an agent for its machine.
func (r *Runner) describe(ctx context.Context, agent *remote.Client) error {
	machine, err := agent.Machine(ctx)
	if err != nil {
		return err
	}
	available, err := agent.Available(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.machine, r.available = &machine, available
	return err
}

// podProcess is a process in a pod that goes with it.
type podProcess struct {
	runner.Process
	pod  *inPod
	once sync.Once
	err  error
}

// Close ends the process and removes its pod. The error is one that Anew knows where the
// pod was lost before: how the process ended is not known then.
func (p *podProcess) Close() error {
	err := orLost(context.Background(), p.Process.Close())
	p.once.Do(func() { p.err = p.pod.close() })
	return errors.Join(err, p.err)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	corev1 "k8s.io/api/core/v1"

	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/image"
	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/kube"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/runner"
)

const inCluster = "kubernetes"

// maxParallel bounds the nodes of a fit.
const maxParallel = 16

// kubeFlags are the flags of a fit in a cluster.
type kubeFlags struct {
	kubeapi.Options
	in              string
	from, container string
	consent         []string
	nodeSelector    map[string]string
	agentImage      string
	pullPolicy      string
	parallel        int
}

func (k *kubeFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&k.Kubeconfig, "kubeconfig", "", "`file` that names the cluster (default: $KUBECONFIG, ~/.kube/config, or the cluster that tare is in)")
	f.StringVar(&k.Context, "context", "", "`context` of that file")
	f.StringVarP(&k.Namespace, "namespace", "n", "", "`namespace` of --from, and of the trials where --in is not given (default: the context's)")
	f.StringVar(&k.in, "in", "", "`namespace` that the trials run in")
	f.StringVar(&k.from, "from", "", "`KIND/NAME` of a workload the pod template of which the trials copy, such as deployment/shop; it is not changed")
	f.StringVar(&k.container, "container", "", "`name` of the application's container in --from (default: the first)")
	f.StringSliceVar(&k.consent, "yes-it-may-reach", nil, "`HOST,…` that the copy of --from names and may reach; tare lists them where they are not given")
	f.StringToStringVar(&k.nodeSelector, "node-selector", nil, "`LABEL=VALUE,…` of the nodes that trials run on")
	f.IntVar(&k.parallel, "parallel", 1, "`N` trials at once, each on a node of its own, all of one kind")
	f.StringVar(&k.agentImage, "agent-image", "tare:latest", "tare's own `image`, where the cluster finds it")
	f.StringVar(&k.pullPolicy, "pull-policy", string(corev1.PullIfNotPresent), "Always, IfNotPresent or Never: whether the node asks for images that it has")
}

// given says whether one of them was given that means a cluster.
func (k *kubeFlags) given() bool {
	return k.from != "" || k.in != "" || k.Options != (kubeapi.Options{}) || k.container != "" || len(k.consent)+len(k.nodeSelector) > 0
}

// check checks what goes together.
func (o *fitOptions) checkKubernetes() error {
	switch {
	case o.parallel < 1 || o.parallel > maxParallel:
		return fmt.Errorf("--parallel %d: give 1 to %d", o.parallel, maxParallel)
	case o.runner != inCluster && o.parallel > 1:
		return errors.New("--parallel: trials beside each other on one machine disturb each other: give --runner kubernetes, where each has a node, or leave it out")
	case o.runner != inCluster && o.kubeFlags.given():
		return errors.New("--from, --in, --namespace, --kubeconfig, --context, --container, --yes-it-may-reach and --node-selector are for --runner kubernetes: give that, or leave them out")
	case o.runner != inCluster:
		return nil
	case (o.from == "") == (o.image == ""):
		return errors.New("--runner kubernetes takes the application from --from KIND/NAME, or from --image IMAGE: give one of them")
	case o.composeFlags.given() || o.runFlags.given():
		return errors.New("--compose and the flags of docker run are not for --runner kubernetes: leave them out")
	case o.loadCommand != "":
		return errors.New("--load-command would run here, and not beside the pod: give --load")
	case o.cpuset != "":
		return errors.New("--cpuset: a pod cannot name its processors: give --cpus")
	case !slices.Contains([]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}, corev1.PullPolicy(o.pullPolicy)):
		return fmt.Errorf("--pull-policy %.40q: give Always, IfNotPresent or Never", o.pullPolicy)
	}
	return nil
}

// applicationInCluster finds the application in a pod, and opens the runner.
func (o fitOptions) applicationInCluster(ctx context.Context, c *fit.Config, args []string, stderr io.Writer) error {
	template, client, err := o.podTemplate(ctx, stderr)
	if err != nil {
		return err
	}
	app := &template.Spec.Containers[0]
	command := slices.Concat(app.Command, app.Args)
	if len(args) > 0 {
		command = args
	}
	if err := notBaked(app.Image, command); err != nil {
		return err
	}
	if len(command) == 0 {
		return usageError(fmt.Errorf("what does image %.200q run? the pod does not say, and tare does not look into the registry: give the command after --, such as: java -jar /app.jar", app.Image))
	}
	r, err := kube.NewRunner(ctx, client, template)
	if errors.Is(err, runner.ErrUnavailable) {
		return &exitError{exitPermission, err}
	}
	if err != nil {
		return err
	}
	c.Runner = r
	if err := o.lookIntoPod(ctx, c, r, app.Image, command, args); err != nil {
		return errors.Join(err, r.Close())
	}
	if err := r.Spread(ctx, o.parallel); err != nil {
		if errors.Is(err, kube.ErrNodes) {
			err = usageError(err)
		}
		return errors.Join(err, r.Close())
	}
	var nodes []string
	for _, n := range r.Nodes() {
		nodes = append(nodes, n.Name)
	}
	fmt.Fprintf(stderr, "trials run on node %s, in namespace %s\n", strings.Join(nodes, ", "), client.Namespace)
	return nil
}

// podTemplate is the pod that trials copy, and the client of the namespace that they run in.
func (o fitOptions) podTemplate(ctx context.Context, stderr io.Writer) (kube.Template, *kubeapi.Client, error) {
	t := kube.Template{Agent: o.agentImage, PullPolicy: corev1.PullPolicy(o.pullPolicy), NodeSelector: o.nodeSelector}
	from, err := kubeapi.Open(o.kubeFlags.Options)
	if err != nil {
		return t, nil, usageError(err)
	}
	in := from
	if o.in != "" {
		other := *from
		other.Namespace = o.in
		in = &other
	}
	if o.from == "" {
		t.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: kube.Application, Image: o.image}}}
		return t, in, nil
	}
	copied, err := kube.CopyOf(ctx, from, o.from, o.container, in)
	if err != nil {
		return t, nil, usageError(err)
	}
	if len(copied.Missing) > 0 {
		return t, nil, usageError(fmt.Errorf("namespace %s lacks what the pod refers to: %s\ncopy them from namespace %s, or make others of these names for the trials", in.Namespace, strings.Join(copied.Missing, ", "), from.Namespace))
	}
	if err := o.consented(copied.Reaches); err != nil {
		return t, nil, usageError(err)
	}
	if len(copied.Left) > 0 {
		fmt.Fprintf(stderr, "not copied from %s: %s\n", o.from, strings.Join(copied.Left, ", "))
	}
	t.Spec = copied.Spec
	return t, in, nil
}

// consented says what a copy may reach that nobody has agreed to.
func (o fitOptions) consented(reaches []string) error {
	open := slices.DeleteFunc(slices.Clone(reaches), func(h string) bool { return slices.Contains(o.consent, h) })
	if len(open) == 0 {
		return nil
	}
	return fmt.Errorf("a copy of %s may reach: %s\nnothing was started. What a trial does there it does many times over: let it reach test systems, and say so with --yes-it-may-reach %s",
		o.from, strings.Join(open, ", "), strings.Join(reaches, ","))
}

// lookIntoPod finds Java and its options in a pod that runs nothing else.
func (o fitOptions) lookIntoPod(ctx context.Context, c *fit.Config, r *kube.Runner, name string, command, args []string) error {
	var facts imageFacts
	_, err := kube.Anew(ctx, func() (err error) {
		facts, err = askImage(ctx, r, runner.PodProgram, command, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if c.Env, err = applicationEnv(facts.Env, o.env); err != nil {
		return usageError(err)
	}
	c.Java, c.Dir = facts.Java, facts.Dir
	c.Image = &fit.Image{Name: name, ID: r.Image(), Args: args, ByVariable: !isJava(command)}
	if c.Command, err = fit.CommandOf(command); err != nil {
		return usageError(err)
	}
	c.Given, err = jvmopts.Read(jvmopts.Input{Release: jvmopts.ParseRelease(c.Java.Version), Args: javaArgs(command), Env: c.Env, Dir: facts.Dir, ReadFile: facts.read})
	if err != nil {
		return usageError(err)
	}
	if facts.NestedJar != "" {
		r.Nested(c.JarPath(), facts.NestedJar, image.FileTime)
	}
	return nil
}

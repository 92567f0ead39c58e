package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/kubefit"
	"tare.dev/tare/internal/nodes"
	"tare.dev/tare/internal/profile"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/cluster"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

const (
	tareImage = "docker.io/tare/tare:agent"
	appImage  = "docker.io/tare/sysinfo:nodes"
)

// TestCluster has the agent that is deployed watch a real node, on one cluster for all: it
// takes long to start.
func TestCluster(t *testing.T) {
	alone.Uses(t, "a Kubernetes cluster")
	tare := filepath.Join(t.TempDir(), "tare")
	build := exec.Command("go", "build", "-o", tare, "tare.dev/tare/cmd/tare")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := cluster.Start(t, cluster.Image{Name: tareImage, Entrypoint: []string{"/usr/bin/tare"}, Files: map[string]string{"/usr/bin/tare": tare}},
		cluster.Image{Name: appImage, Files: map[string]string{"/jdk": jvmtest.Home(t, 25), "/app.jar": jvmtest.Jar(t, "sysinfo.jar"), "/bin/sh": "/bin/dash"}})
	config, err := kubeapi.Load(kubeapi.Options{Kubeconfig: c.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubeapi.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	deploy(t, c, config.Server)
	c.Apply(t, pods)
	var fleet *nodes.Fleet
	polltest.UntilNil(t, func() (err error) { fleet, err = nodes.Find(t.Context(), client, "tare"); return err })
	t.Run("names", func(t *testing.T) { testNames(t, fleet) })
	t.Run("ends", func(t *testing.T) { testEnds(t, client, fleet) })
	t.Run("apply", func(t *testing.T) { testApply(t, c, client) })
	t.Run("rights", func(t *testing.T) { testRights(t, c, client) })
}

// deploy deploys what kustomize starts from. Pods reach this cluster's API server by the
// loopback of the node alone.
func deploy(t *testing.T, c *cluster.Cluster, server string) {
	t.Helper()
	out, err := exec.Command("kubectl", "kustomize", filepath.Join(jvmtest.Root(t), "deploy", "kustomize", "agent")).Output()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	for from, to := range map[string]string{
		"image: tare:latest":    "image: " + tareImage,
		"hostNetwork: false":    "hostNetwork: true",
		"path: /var/lib/tare\n": "path: " + t.TempDir() + "\n",
		"--interval=10s":        "--interval=1s",
		"        env:\n":        fmt.Sprintf("        env:\n        - {name: KUBERNETES_SERVICE_HOST, value: %q}\n        - {name: KUBERNETES_SERVICE_PORT, value: %q}\n", host, port),
	} {
		if !strings.Contains(text, from) {
			t.Fatalf("what kustomize starts from has no %q:\n%s", from, text)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	c.Kubectl(t, "create", "namespace", "tare")
	c.Kubectl(t, "create", "secret", "generic", "tare-agent", "-n", "tare", "--from-literal=token=0123456789abcdef")
	c.Apply(t, text)
	c.Kubectl(t, "rollout", "status", "-n", "tare", "daemonset/tare-agent", "--timeout=60s")
}

// pods end in different ways, but the first.
const pods = `
{apiVersion: v1, kind: Pod, metadata: {name: lives}, spec: {terminationGracePeriodSeconds: 1, containers: [
  {name: shop, image: ` + appImage + `, command: [/jdk/bin/java, -Xmx32m, -jar, /app.jar, --port, "0"], resources: {limits: {memory: 256Mi}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: limit}, spec: {restartPolicy: Never, containers: [
  {name: shop, image: ` + appImage + `, command: [/jdk/bin/java, -Xms300m, -Xmx300m, -XX:+AlwaysPreTouch, -jar, /app.jar, --port, "0"], resources: {limits: {memory: 128Mi}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: child}, spec: {restartPolicy: Never, containers: [
  {name: shop, image: ` + appImage + `, command: [/bin/sh, -c, "/jdk/bin/java -Xms300m -Xmx300m -XX:+AlwaysPreTouch -jar /app.jar --port 0; exit 3"], resources: {limits: {memory: 128Mi}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: probe}, spec: {terminationGracePeriodSeconds: 1, containers: [
  {name: shop, image: ` + appImage + `, command: [/jdk/bin/java, -Xmx32m, -jar, /app.jar, --port, "0"], resources: {limits: {memory: 256Mi}},
   livenessProbe: {exec: {command: [/bin/sh, -c, "exit 1"]}, periodSeconds: 1, failureThreshold: 1}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: exit}, spec: {restartPolicy: Never, containers: [
  {name: shop, image: ` + appImage + `, command: [/jdk/bin/java, -Xmx32m, -cp, /app.jar, Nothing], resources: {limits: {memory: 256Mi}}}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: shop}, spec: {replicas: 0, selector: {matchLabels: {app: shop}}, template: {metadata: {labels: {app: shop}}, spec: {containers: [
  {name: shop, image: ` + appImage + `, env: [{name: JAVA_TOOL_OPTIONS, value: -Dx=y}], resources: {limits: {memory: 512Mi}}}]}}}}
`

// The agent names pod and container, and weighs the JVM when it is asked.
func testNames(t *testing.T, fleet *nodes.Fleet) {
	var found nodes.JVM
	polltest.UntilNil(t, func() error {
		all, err := fleet.JVMs(t.Context())
		for _, j := range all {
			if j.Namespace == "default" && j.Pod == "lives" && j.ContainerName == "shop" && j.Counters != nil && j.Resident > 0 {
				found = j
				return nil
			}
		}
		return fmt.Errorf("not among %d JVMs: %w", len(all), err)
	})
	if c := found.Counters; c.Limit != 256<<20 || c.Usage < 10<<20 {
		t.Errorf("its group: %+v", c)
	}
	f, err := fleet.Weigh(t.Context(), "localhost", "default", "lives", "shop")
	if err != nil || f.RSSBytes < 10<<20 || len(f.Rows) == 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

// ended makes the autopsy of a pod as the command does.
func ended(ctx context.Context, client *kubeapi.Client, fleet *nodes.Fleet, name string) (*autopsy.PodReport, error) {
	in := autopsy.PodInput{}
	if err := client.Get(ctx, kubeapi.PodPath("default", name), nil, &in.Pod); err != nil {
		return nil, err
	}
	events, err := kubeapi.GetAll[kubeapi.EventObject](ctx, client, kubeapi.EventPath("default"), url.Values{"fieldSelector": {"involvedObject.uid=" + in.Pod.Metadata.UID}}, 1000)
	if err != nil {
		return nil, err
	}
	in.Events = events.Items
	in.JVM, err = fleet.Autopsy(ctx, &in.Pod, "")
	if err != nil && !kubeapi.IsCode(err, http.StatusNotFound) {
		return nil, err
	}
	return autopsy.ExaminePod(in)
}

func testEnds(t *testing.T, client *kubeapi.Client, fleet *nodes.Fleet) {
	for name, want := range map[string]autopsy.PodVerdict{
		"lives": autopsy.PodRunning, "limit": autopsy.PodContainerLimit, "child": autopsy.PodChild, "probe": autopsy.PodProbe, "exit": autopsy.PodExited,
	} {
		polltest.UntilNil(t, func() error {
			r, err := ended(t.Context(), client, fleet, name)
			if err == nil && (r.Verdict != want || r.Confidence == doctor.Possible) {
				err = fmt.Errorf("%s: %+v", name, r)
			}
			return err
		})
	}
}

// What a fit has proven is applied on consent alone, and taken back to the last field.
func testApply(t *testing.T, c *cluster.Cluster, client *kubeapi.Client) {
	ctx := t.Context()
	w, name, err := kubeapi.ParseWorkload("deployment/shop")
	if err != nil {
		t.Fatal(err)
	}
	target := kubefit.Target{Workload: w, Namespace: "default", Name: name}
	p := &profile.Profile{Schema: profile.Schema, JDK: "25", LimitBytes: 128 << 20, Options: []string{"-Xmx64m"}, Env: []string{"MALLOC_ARENA_MAX=1"}}
	const spec = "jsonpath={.spec.template.spec.containers}"
	before := c.Kubectl(t, "get", "deployment", "shop", "-o", spec)
	plan, err := kubefit.Prepare(ctx, client, target, "", p)
	if err != nil || len(plan.Changes) != 4 || len(plan.Differs) != 0 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if err := plan.Apply(ctx, client, false); !kubeapi.IsCode(err, http.StatusConflict) {
		t.Errorf("fields of kubectl were taken: %v", err)
	}
	if now := c.Kubectl(t, "get", "deployment", "shop", "-o", spec); now != before {
		t.Errorf("changed without consent: %s", now)
	}
	if err := plan.Apply(ctx, client, true); err != nil {
		t.Fatal(err)
	}
	const options = `jsonpath={.spec.template.spec.containers[0].env[?(@.name=="JAVA_TOOL_OPTIONS")].value} {.spec.template.spec.containers[0].resources.limits.memory}`
	if now := c.Kubectl(t, "get", "deployment", "shop", "-o", options); now != "-Dx=y -Xmx64m 128Mi" {
		t.Errorf("applied: %q", now)
	}
	if again, err := kubefit.Prepare(ctx, client, target, "", p); err != nil || len(again.Changes) != 0 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	if _, err := kubefit.Undo(ctx, client, target, true); err != nil {
		t.Fatal(err)
	}
	if now := c.Kubectl(t, "get", "deployment", "shop", "-o", spec); now != before {
		t.Errorf("taken back: %s, was %s", now, before)
	}
	if who := c.Kubectl(t, "get", "deployment", "shop", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}"); strings.Contains(" "+who+" ", " tare ") {
		t.Errorf("managers: %s", who)
	}
	if _, err := kubefit.Undo(ctx, client, target, true); !errors.Is(err, kubefit.ErrNothing) {
		t.Errorf("nothing to undo: %v", err)
	}
}

// The agent's account may list and watch pods, and no more.
func testRights(t *testing.T, c *cluster.Cluster, admin *kubeapi.Client) {
	config, err := kubeapi.Load(kubeapi.Options{Kubeconfig: c.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	config.Cert, config.Key, config.Token = nil, nil, c.Kubectl(t, "create", "token", "-n", "tare", "tare-agent")
	client, err := kubeapi.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	pods := func(verb string) kubeapi.Right { return kubeapi.Right{Verb: verb, Resource: "pods"} }
	missing, err := client.Missing(t.Context(), pods("list"), pods("watch"), pods("get"), pods("delete"), kubeapi.Right{Verb: "get", Resource: "secrets", Namespace: "tare"})
	if err != nil || len(missing) != 3 {
		t.Errorf("%v, %v", missing, err)
	}
	if _, err := nodes.Find(t.Context(), client, "tare"); !kubeapi.IsCode(err, http.StatusForbidden) {
		t.Errorf("the agent's account read the token: %v", err)
	}
	if missing, err := admin.Missing(t.Context(), nodes.Rights("tare")...); err != nil || len(missing) != 0 {
		t.Errorf("the administrator: %v, %v", missing, err)
	}
}

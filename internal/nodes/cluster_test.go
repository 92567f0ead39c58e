package nodes_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/nodes"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/cluster"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

const (
	agentImage = "docker.io/tare/tare:test"
	appImage   = "docker.io/tare/sysinfo:17"
	namespace  = cluster.AgentNamespace
)

// The chart on a real cluster: Helm installs it, its agent names and weighs the JVM of a
// pod, an upgrade and a rollback keep what it knows, and nothing of it stays.
func TestCluster(t *testing.T) {
	alone.Uses(t, "a Kubernetes cluster")
	root := jvmtest.Root(t)
	tare := filepath.Join(t.TempDir(), "tare")
	build := exec.Command("go", "build", "-o", tare, "tare.dev/tare/cmd/tare")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := cluster.Start(t, cluster.Image{Name: agentImage, Entrypoint: []string{"/usr/bin/tare"}, Files: map[string]string{"/usr/bin/tare": tare}},
		cluster.Image{Name: appImage, Files: map[string]string{"/jdk": jvmtest.Home(t, 17), "/sysinfo.jar": jvmtest.Jar(t, "sysinfo.jar")}})
	client, err := kubeapi.Open(kubeapi.Options{Kubeconfig: c.Kubeconfig, Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	ledger := t.TempDir()
	install := func(values ...string) {
		t.Helper()
		if err := c.InstallAgent(t.Context(), root, agentImage, ledger, values...); err != nil {
			t.Fatal(err)
		}
	}
	install("agent.interval=1s")
	c.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: shop-0}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: shop
    image: `+appImage+`
    imagePullPolicy: Never
    command: [/jdk/bin/java, -Xmx24m, -jar, /sysinfo.jar, --log-level, error]
    resources: {limits: {memory: 128Mi}}
`)
	named(t, client)
	f := find(t, client)
	if w, err := f.Weigh(t.Context(), c.Node, "default", "shop-0", "shop"); err != nil || w.RSSBytes < 10<<20 {
		t.Errorf("weighed: %+v, %v", w, err)
	}
	if _, err := f.Weigh(t.Context(), c.Node, "default", "shop-1", ""); !kubeapi.IsCode(err, 404) {
		t.Errorf("a pod that is not there: %v", err)
	}

	secret := c.Kubectl(t, "get", "secret", nodes.TokenSecret, "-n", namespace, "-o", "jsonpath={.data.token}")
	install("agent.interval=2s", "agent.features.otherUsers=false")
	agentRuns(t, c, "--interval=2s", false)
	named(t, client)
	if _, err := c.Helm(t.Context(), root, "rollback", namespace, "1", "-n", namespace, "--wait", "--timeout", "2m"); err != nil {
		t.Fatal(err)
	}
	agentRuns(t, c, "--interval=1s", true)
	named(t, client)
	if got := c.Kubectl(t, "get", "secret", nodes.TokenSecret, "-n", namespace, "-o", "jsonpath={.data.token}"); got != secret || got == "" {
		t.Error("the upgrade changed the token")
	}

	if _, err := c.Helm(t.Context(), root, "uninstall", namespace, "-n", namespace, "--wait"); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes.Find(t.Context(), client, namespace); !errors.Is(err, nodes.ErrNoAgent) {
		t.Errorf("without an agent: %v", err)
	}
	visited(t, c, tare)
	c.Until(t, "", "get", "daemonsets,pods,secrets,serviceaccounts,networkpolicies,clusterroles,clusterrolebindings", "-n", namespace, "-l", "app.kubernetes.io/instance="+namespace, "-o", "name")
	// What kustomize starts from is taken by the API server as it is.
	for _, part := range []string{"agent", "hub"} {
		c.Kubectl(t, "apply", "--server-side", "--dry-run=server", "-k", filepath.Join(root, "deploy", "kustomize", part))
	}
}

// visited weighs the JVM of the pod without an agent, from ephemeral containers that end.
func visited(t *testing.T, c *cluster.Cluster, tare string) {
	t.Helper()
	ask := func(args ...string) (string, error) {
		var errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), tare, append([]string{"kube", args[0], "--kubeconfig", c.Kubeconfig, "-n", "default"}, args[1:]...)...)
		cmd.Stderr = &errs
		out, err := cmd.Output()
		return string(out) + errs.String(), err
	}
	if said, err := ask("weigh", "shop-0"); err == nil || !strings.Contains(said, "--ephemeral IMAGE") {
		t.Errorf("without an agent: %s, %v", said, err)
	}
	text, err := ask("weigh", "shop-0", "--json", "--ephemeral", agentImage)
	if f, bad := footprint.Decode(strings.NewReader(text)); err != nil || bad != nil || f.RSSBytes < 10<<20 || f.PID != 1 {
		t.Errorf("weighed: %v, %v: %.2000s", err, bad, text)
	}
	if text, err := ask("watch", "shop-0", "-c", "shop", "--count", "2", "--interval", "1s", "--ephemeral", agentImage); err != nil || strings.Count(text, "\n") < 2 {
		t.Errorf("watched: %v: %s", err, text)
	}
	for name, want := range map[string]string{"tare:nowhere": "does not run: ImagePullBackOff", "UPPER": "UPPER"} {
		if said, err := ask("weigh", "shop-0", "--ephemeral", name); err == nil || !strings.Contains(said, want) {
			t.Errorf("image %s: %s, %v", name, said, err)
		}
	}
	mayLook := c.Account(t, `{apiGroups: [""], resources: [pods], verbs: [get]}`)
	said, err := ask("weigh", "shop-0", "--ephemeral", agentImage, "--kubeconfig", mayLook)
	if code := (*exec.ExitError)(nil); !errors.As(err, &code) || code.ExitCode() != 4 || !strings.Contains(said, "kubectl auth can-i patch pods/ephemeralcontainers -n default") || !strings.Contains(said, "create pods/exec") {
		t.Errorf("without rights: %s, %v", said, err)
	}
	c.Until(t, "0 0", "get", "pod", "shop-0", "-o", "jsonpath={.status.ephemeralContainerStatuses[*].state.terminated.exitCode}")
}

// find finds the agent that runs now.
func find(t *testing.T, client *kubeapi.Client) *nodes.Fleet {
	t.Helper()
	f, err := nodes.Find(t.Context(), client, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// named waits until the agent names the JVM of the pod, and nothing else.
func named(t *testing.T, client *kubeapi.Client) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		f, err := nodes.Find(t.Context(), client, namespace)
		if err != nil {
			return err
		}
		all, err := f.JVMs(t.Context())
		if err != nil {
			return err
		}
		if len(all) != 1 || all[0].Namespace != "default" || all[0].Pod != "shop-0" || all[0].ContainerName != "shop" || all[0].Resident == 0 || all[0].Counters == nil || all[0].Counters.Limit != 128<<20 {
			return fmt.Errorf("JVMs: %+v", all)
		}
		return nil
	})
}

// agentRuns waits until the agent runs with an argument, and with or without the right to
// read other users' files. Helm's --wait is over before it runs: as many of a DaemonSet's
// pods as maxUnavailable allows, on one node the only one, need not be ready for it.
func agentRuns(t *testing.T, c *cluster.Cluster, arg string, othersFiles bool) {
	t.Helper()
	polltest.UntilNil(t, func() error {
		got := c.Kubectl(t, "get", "pods", "-n", namespace, "-l", nodes.AgentLabel, "--field-selector", "status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[0]['args','securityContext']}")
		if !strings.Contains(got, arg) || strings.Contains(got, "DAC_READ_SEARCH") != othersFiles {
			return fmt.Errorf("the agent runs with %s", got)
		}
		return nil
	})
}

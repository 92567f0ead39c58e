package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// AgentNamespace is where InstallAgent has tare's agents, and the name of their release.
const AgentNamespace = "tare"

// Helm runs Helm as the administrator, in the folder root, and returns what it prints.
func (c *Cluster) Helm(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(c.program), "helm"), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Dir = root
	for _, kind := range []string{"CACHE", "CONFIG", "DATA"} {
		cmd.Env = append(cmd.Env, "HELM_"+kind+"_HOME="+filepath.Join(c.dir, "helm"))
	}
	cmd.Env = append(os.Environ(), cmd.Env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, &errs)
	}
	return strings.TrimSpace(out.String()), nil
}

// InstallAgent installs tare's chart, of the tree in root, or upgrades it: an agent of an
// image as Image.Name, which has its ledger in the folder ledger of state, a folder of
// this machine. It returns when the agent runs. Values are more of the chart, as NAME=VALUE.
func (c *Cluster) InstallAgent(ctx context.Context, root, image, state string, values ...string) error {
	repository, tag, _ := strings.Cut(image, ":")
	// There are no Services here: the API server is reached at the node's loopback.
	all := append([]string{"image.repository=" + repository, "image.tag=" + tag, "image.pullPolicy=Never", "agent.ledger.hostPath=" + state,
		"agent.hostNetwork=true", "agent.apiServer.host=127.0.0.1", "agent.apiServer.port=" + strconv.Itoa(c.ports.api)}, values...)
	args := []string{"upgrade", "--install", AgentNamespace, "deploy/helm/tare", "-n", AgentNamespace, "--create-namespace", "--wait", "--timeout", "2m"}
	for _, value := range all {
		args = append(args, "--set", value)
	}
	_, err := c.Helm(ctx, root, args...)
	return err
}

package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/testkit/cluster"
)

// The cluster runs pods, sees a limit exceeded, and leaves nothing.
func TestCluster(t *testing.T) {
	var left string
	t.Run("runs", func(t *testing.T) {
		c := cluster.Start(t, cluster.Image{Name: "docker.io/tare/shell:1", Files: map[string]string{"/bin/sh": "/bin/dash", "/bin/tail": "/usr/bin/tail"}})
		left = filepath.Dir(filepath.Dir(c.Kubeconfig))
		c.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: good}
spec:
  restartPolicy: Never
  containers: [{name: c, image: docker.io/tare/shell:1, command: [/bin/sh, -c, "exit 3"]}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: large}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: docker.io/tare/shell:1, command: [/bin/tail, /dev/zero], resources: {limits: {memory: 32Mi}}}]
`)
		c.Until(t, "3", "get", "pod", "good", "-o", "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}")
		c.Until(t, "OOMKilled", "get", "pod", "-l", "job-name=large", "-o", "jsonpath={.items[0].status.containerStatuses[0].state.terminated.reason}")
		c.Until(t, "True", "get", "job", "large", "-o", `jsonpath={.status.conditions[?(@.type=="Failed")].status}`)
	})
	if left == "" {
		return
	}
	if groups, err := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(left)); err != nil || len(groups) > 0 {
		t.Errorf("left: %v, %v", groups, err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", left, err)
	}
}

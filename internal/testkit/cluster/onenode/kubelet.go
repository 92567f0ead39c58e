package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
)

// runKubelet writes the kubelet's configuration and runs it in this process.
func runKubelet(args []string) error {
	fl := flag.NewFlagSet("kubelet", flag.ExitOnError)
	dir := fl.String("dir", "", "state directory of the cluster")
	cri := fl.String("cri", "", "CRI socket, unix:///...")
	node := fl.String("node", "localhost", "node name")
	cgroot := fl.String("cgroup-root", "/", "parent cgroup of all pods")
	port := fl.Int("port", 10250, "kubelet port on 127.0.0.1")
	v := fl.Int("v", 1, "log level")
	if err := fl.Parse(args); err != nil {
		return err
	}
	p := func(n string) string { return filepath.Join(*dir, "pki", n) }
	for _, d := range []string{"kubelet", "podlogs", "manifests"} {
		if err := os.MkdirAll(filepath.Join(*dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(*dir, "resolv.conf"), []byte("nameserver 127.0.0.1\n"), 0o644); err != nil {
		return err
	}
	cfg := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: %d
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
healthzPort: 0
tlsCertFile: %s
tlsPrivateKeyFile: %s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %s}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: %s
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: %s
podLogsDir: %s
clusterDNS: [10.96.0.10]
resolvConf: %s
volumePluginDir: %s
makeIPTablesUtilChains: false
protectKernelDefaults: false
localStorageCapacityIsolation: true
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, imagefs.available: 1%%}
maxPods: 110
syncFrequency: 10s
nodeStatusUpdateFrequency: 5s
fileCheckFrequency: 5s
registerNode: true
enableServer: true
logging: {verbosity: %d}
shutdownGracePeriod: 0s
crashLoopBackOff: {maxContainerRestartPeriod: 5s}
`, *port, p("kubelet-server.crt"), p("kubelet-server.key"), p("ca.crt"), *cgroot, *cri,
		filepath.Join(*dir, "podlogs"), filepath.Join(*dir, "resolv.conf"), filepath.Join(*dir, "volplugins"), *v)
	f := filepath.Join(*dir, "kubelet.yaml")
	if err := os.WriteFile(f, []byte(cfg), 0o600); err != nil {
		return err
	}
	cmd := kubeletapp.NewKubeletCommand(context.Background())
	cmd.SetArgs([]string{
		"--config=" + f, "--kubeconfig=" + p("kubelet.kubeconfig"), "--root-dir=" + filepath.Join(*dir, "kubelet"),
		"--hostname-override=" + *node, "--cert-dir=" + filepath.Join(*dir, "kubelet", "pki"),
	})
	return cmd.Execute()
}

// Command onenode is a whole Kubernetes of one node in one binary, for tests. It
// is a module of its own: nothing of it is in tare.
//
//	onenode control-plane -dir D -port N -etcd N -peer N   etcd, API server, controller manager, scheduler
//	onenode node -dir D -cgroup-root G -port N …           containerd and the kubelet, as the first process of a PID namespace
//	onenode kubelet -dir D …                               what node starts
package main

import (
	"fmt"
	"os"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	commands := map[string]func([]string) error{"control-plane": runControlPlane, "node": runNode, "kubelet": runKubelet}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: onenode control-plane|node|kubelet …")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "onenode:", err)
		os.Exit(1)
	}
}

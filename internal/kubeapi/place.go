package kubeapi

import (
	"strings"

	"tare.dev/tare/internal/lazy"
)

var (
	// podFolder is what the kubelet's cgroupfs driver calls the group of a pod, podSlice
	// what the systemd driver does, with underscores for the UID's hyphens, and below a
	// cgroup root of its own with that in front (Kubernetes: pkg/kubelet/cm,
	// pod_container_manager_linux.go and cgroup_manager_linux.go). The UID of a static pod
	// is a hash.
	podFolder = lazy.Regexp(`^pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$`)
	podSlice  = lazy.Regexp(`^(?:[A-Za-z0-9_.-]{1,128}-)?kubepods(?:-burstable|-besteffort)?-pod([0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}|[0-9a-f]{32})\.slice$`)
	// containerFolder is the group of a container: its id, with what the runtime puts
	// around it. containerd's is cri-containerd-ID.scope, CRI-O's crio-ID.scope, with
	// cgroupfs ID and crio-ID.
	containerFolder = lazy.Regexp(`^(?:(?:cri-containerd|crio|docker|libpod)-)?([0-9a-f]{64})(?:\.scope)?$`)
)

// Placed reads from the path of a control group which pod of the kubelet, and which of
// its containers, it belongs to; "" where it names none. Containers may make groups below
// their own, whatever their names: the outermost pod counts, and the folder right below
// it.
func Placed(path string) (podUID, container string) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		// With the systemd driver and a runtime that does not use systemd the whole is one
		// folder: SLICE:cri-containerd:ID.
		slice, rest, joined := strings.Cut(part, ":")
		uid := ""
		if m := podSlice().FindStringSubmatch(slice); m != nil {
			uid = strings.ReplaceAll(m[1], "_", "-")
		} else if m := podFolder().FindStringSubmatch(part); m != nil && i > 0 && aboveAPod(parts[i-1]) {
			uid = m[1]
		}
		if uid == "" {
			continue
		}
		below := ""
		if joined {
			_, below, _ = strings.Cut(rest, ":")
		} else if i+1 < len(parts) {
			below = parts[i+1]
		}
		if m := containerFolder().FindStringSubmatch(below); m != nil {
			container = m[1]
		}
		return uid, container
	}
	return "", ""
}

// aboveAPod says that a folder is one that the kubelet has pods in: that of a class of
// service, or of all pods, which is where Guaranteed ones are. A path that begins outside
// of the reader's cgroup namespace may show none of them.
func aboveAPod(folder string) bool {
	switch folder {
	case "kubepods", "burstable", "besteffort", "..":
		return true
	}
	return false
}

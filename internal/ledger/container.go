package ledger

import (
	"strings"

	"tare.dev/tare/internal/lazy"
)

var (
	// Container runtimes name groups after the container's id: docker-ID.scope,
	// cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope, or the id alone.
	containerID = lazy.Regexp(`(?:^|[-/:])([0-9a-f]{64})(?:\.scope)?(?:/|$)`)
	// The kubelet names groups after the pod's UID: kubepods-burstable-podUID.slice,
	// with underscores for hyphens, or kubepods/burstable/podUID. The UID of
	// a static pod is a hash.
	podUID = lazy.Regexp(`(?:^|[-/])pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:[/:]|$)`)
)

// ContainerOf is the id of the container, and the UID of the pod, that the path of
// a control group names; "" where it names none. Of nested containers it is the
// innermost.
func ContainerOf(path string) (container, pod string) {
	for rest := path; ; {
		m := containerID().FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		container, rest = rest[m[2]:m[3]], rest[m[3]:]
	}
	if m := podUID().FindStringSubmatch(path); m != nil {
		pod = strings.ReplaceAll(m[1], "_", "-")
	}
	return container, pod
}

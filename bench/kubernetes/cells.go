package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"tare.dev/tare/internal/autopsy"
)

// cell is a pod that is made to end. Its container that is asked for is called shop.
type cell struct {
	name string
	spec string // of the pod, JSON
	// end makes it end, when the agent has weighed its JVM; nil where the pod does by itself.
	end func(context.Context, *bench, *pod) error
	// ended is the container the end of which is waited for; "" for shop.
	ended string
	want  autopsy.PodVerdict
}

// java is a shell command that becomes a JVM: the holder, which takes more each tenth of a
// second as it is told, once the file /tmp/go is there.
func java(take, options string) string {
	return "mkfifo /tmp/in; (until [ -e /tmp/go ]; do sleep 0.2; done; n=0; while n=$((n+1)); do echo " + take + "; sleep 0.1; done) >/tmp/in & " +
		"exec " + launcher + " -XX:+UseSerialGC -Xint " + options + " -jar /workloads.jar holder 1 </tmp/in"
}

const (
	heap   = "heap 4096"
	direct = "direct 4096"
	mapped = "mapped 4096 /shm/$n"
	// still is a JVM that takes no more.
	still = "mkfifo /tmp/in; exec 3<>/tmp/in; exec " + launcher + " -XX:+UseSerialGC -Xint -Xmx16m -jar /workloads.jar holder 1 <&3"
	large = "-Xmx1g -XX:MaxDirectMemorySize=1g"
	// eats is a shell command that takes memory until it is killed.
	eats = "exec tail /dev/zero"
)

// container is one of a pod, in JSON: a shell command, and more fields.
func container(name, command string, more ...string) string {
	fields := append([]string{fmt.Sprintf(`"name":%q,"image":%q,"imagePullPolicy":"Never","command":["/bin/sh","-c",%q]`, name, appImage, command)}, more...)
	return "{" + strings.Join(fields, ",") + "}"
}

func limited(memory string) string { return `"resources":{"limits":{"memory":"` + memory + `"}}` }

// podOf is a pod of containers that are not started again.
func podOf(containers ...string) string {
	return `{"restartPolicy":"Never","terminationGracePeriodSeconds":2,"containers":[` + strings.Join(containers, ",") + `]}`
}

// with adds fields to a pod.
func with(spec, more string) string { return strings.TrimSuffix(spec, "}") + "," + more + "}" }

const shm = `"volumes":[{"name":"shm","emptyDir":{"medium":"Memory"}}]`

const probing = `"initialDelaySeconds":15,"periodSeconds":2,"failureThreshold":2,"timeoutSeconds":1`

// cells are all ends that are made.
func cells() []cell {
	mount := `"volumeMounts":[{"name":"shm","mountPath":"/shm"}]`
	of := func(name string, want autopsy.PodVerdict, end func(context.Context, *bench, *pod) error, spec string) cell {
		return cell{name: name, spec: spec, end: end, want: want}
	}
	small, wide := limited("128Mi"), limited("300Mi")
	whole := `"resources":{"limits":{"memory":"160Mi"}}`
	again := strings.Replace(podOf(container("shop", java(direct, large), small)), `"Never","term`, `"Always","term`, 1)
	side := container("side", "exec sleep 3600")
	all := []cell{
		of("heap grows to the container's limit", autopsy.PodContainerLimit, grow, podOf(container("shop", java(heap, large), small))),
		of("direct buffers grow to the container's limit", autopsy.PodContainerLimit, grow, podOf(container("shop", java(direct, large), small))),
		of("mapped files grow to the container's limit", autopsy.PodContainerLimit, grow, with(podOf(container("shop", java(mapped, large), small, mount)), shm)),
		of("a heap that is larger than the container's limit at the start", autopsy.PodContainerLimit, nil, podOf(container("shop", "exec "+launcher+" -Xms300m -Xmx300m -XX:+AlwaysPreTouch -jar /workloads.jar holder 1", small))),
		of("the container's limit, and it is started again", autopsy.PodContainerLimit, grow, again),
		of("the container's limit, beside another container", autopsy.PodContainerLimit, grow, podOf(container("shop", java(heap, large), small), side)),
		of("heap grows to the pod's limit", autopsy.PodLimit, grow, with(podOf(container("shop", java(heap, large)), side), whole)),
		of("direct buffers grow to the pod's limit", autopsy.PodLimit, grow, with(podOf(container("shop", java(direct, large)), side), whole)),
		of("a heap that is larger than the pod's limit at the start", autopsy.PodLimit, nil, with(podOf(container("shop", "exec "+launcher+" -Xms300m -Xmx300m -XX:+AlwaysPreTouch -jar /workloads.jar holder 1"), side), whole)),
		of("a child of the first process takes too much", autopsy.PodChild, nil, podOf(container("shop", "tail /dev/zero; exit 3", small))),
		of("a JVM that is a child of the first process takes too much", autopsy.PodChild, grow, podOf(container("shop", "sh -c '"+java(direct, large)+"'; exit 5", small))),
		of("a volume is fuller than it may be", autopsy.PodEvicted, nil, with(podOf(container("shop", "head -c 8000000 /dev/zero >/shm/full; "+still, wide, mount)), `"volumes":[{"name":"shm","emptyDir":{"sizeLimit":"1Mi"}}]`)),
		of("more files than it may have", autopsy.PodEvicted, nil, podOf(container("shop", "head -c 8000000 /dev/zero >/full; "+still, `"resources":{"limits":{"memory":"300Mi","ephemeral-storage":"1Mi"}}`))),
		of("evicted by the API", autopsy.PodEvicted, evict, podOf(container("shop", still, wide))),
		of("evicted by a taint of the node", autopsy.PodEvicted, taint, podOf(container("shop", still, wide))),
		of("the liveness probe fails", autopsy.PodProbe, nil, podOf(container("shop", still, wide, `"livenessProbe":{"exec":{"command":["/bin/sh","-c","exit 1"]},`+probing+`}`))),
		of("the liveness probe finds nobody at its port", autopsy.PodProbe, nil, podOf(container("shop", still, wide, `"livenessProbe":{"tcpSocket":{"port":8080},`+probing+`}`))),
		of("the startup probe fails", autopsy.PodProbe, nil, podOf(container("shop", still, wide, `"startupProbe":{"exec":{"command":["/bin/sh","-c","exit 1"]},`+probing+`}`))),
		of("the JVM ends with an exit code", autopsy.PodExited, nil, podOf(container("shop", "sleep 12; exec "+launcher+" -jar /workloads.jar holder 0", wide))),
		of("the pod is deleted", autopsy.PodStopped, remove, podOf(container("shop", still, wide))),
		of("OutOfMemoryError", autopsy.PodJVM, grow, podOf(container("shop", java(heap, "-Xmx24m -XX:+ExitOnOutOfMemoryError"), wide))),
		of("the JVM crashes", autopsy.PodJVM, send(syscall.SIGSEGV), podOf(container("shop", still, wide))),
		of("SIGKILL of somebody else", autopsy.PodUnknown, send(syscall.SIGKILL), podOf(container("shop", still, wide))),
	}
	sidecar := of("a sidecar takes more than its limit", autopsy.PodSidecar, grow, podOf(container("shop", still, wide), container("side", "until [ -e /tmp/go ]; do sleep 0.2; done; "+eats, limited("48Mi"))))
	sidecar.ended = "side"
	return append(all, sidecar)
}

package kubeapi

import (
	"regexp"
	"strings"
	"testing"
)

const (
	podA = "3fa1c2d4-0b5e-4c1a-9f6e-1234567890ab"
	podB = "9b2f7c10-77aa-4d3c-8c11-abcdefabcdef"
)

var (
	idA = strings.Repeat("0123456789abcdef", 4)
	idB = strings.Repeat("fedcba9876543210", 4)
)

func slice(uid string) string { return strings.ReplaceAll(uid, "-", "_") }

// placements are paths of control groups as kubelets and runtimes make them.
func placements() map[string][2]string {
	static := idB[:32]
	burstable := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice(podA) + ".slice"
	return map[string][2]string{
		// cgroupfs: containerd, CRI-O, a root of its own, Guaranteed without a folder of its class.
		"/kubepods/burstable/pod" + podA + "/" + idA:             {podA, idA},
		"/kubepods/besteffort/pod" + podA + "/crio-" + idA:       {podA, idA},
		"/kubepods/pod" + podA + "/" + idA:                       {podA, idA},
		"/k8sone/kubepods/burstable/pod" + podA + "/" + idA:      {podA, idA},
		"/kubepods/burstable/pod" + static + "/" + idA:           {static, idA},
		"/kubepods/burstable/pod" + podA:                         {podA, ""},
		"/kubepods/burstable/pod" + podA + "/crio-conmon-" + idA: {podA, ""},
		// systemd: containerd, CRI-O with crun's folder below, Guaranteed.
		burstable + "/cri-containerd-" + idA + ".scope":                                                                {podA, idA},
		burstable + "/crio-" + idA + ".scope":                                                                          {podA, idA},
		burstable + "/crio-" + idA + ".scope/container":                                                                {podA, idA},
		"/kubepods.slice/kubepods-pod" + slice(podA) + ".slice/cri-containerd-" + idA + ".scope":                       {podA, idA},
		"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + static + ".slice/crio-" + idA + ".scope": {static, idA},
		// systemd's slices with a runtime that makes folders itself.
		"/system.slice/containerd.service/kubepods-burstable-pod" + slice(podA) + ".slice:cri-containerd:" + idA: {podA, idA},
		// A node that is a container itself (kind).
		"/docker/" + idB + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + slice(podA) + ".slice/cri-containerd-" + idA + ".scope": {podA, idA},
		// From within a cgroup namespace (v2).
		"/../../../kubepods-burstable.slice/kubepods-burstable-pod" + slice(podA) + ".slice/cri-containerd-" + idA + ".scope": {podA, idA},
		"/../../pod" + podA + "/" + idA: {podA, idA},
		// What a container makes below its own group says nothing.
		"/kubepods/burstable/pod" + podA + "/" + idA + "/kubepods/pod" + podB + "/" + idB: {podA, idA},
		"/kubepods/burstable/pod" + podA + "/" + idA + "/docker/" + idB:                   {podA, idA},
		// None.
		"": {}, "/": {}, "/docker/" + idA: {}, "/user.slice/pod" + podA + "/" + idA: {}, "/kubepods/podX/" + idA: {},
		"/kubepods/pod" + strings.ToUpper(podA) + "/" + idA: {}, "/kubepods/pod" + podA + "x/" + idA: {},
	}
}

func TestPlaced(t *testing.T) {
	for path, want := range placements() {
		if pod, container := Placed(path); pod != want[0] || container != want[1] {
			t.Errorf("%s: %q, %q; want %q", path, pod, container, want)
		}
	}
}

func FuzzPlaced(f *testing.F) {
	for path := range placements() {
		f.Add(path)
	}
	uid := regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})$`)
	id := regexp.MustCompile(`^[0-9a-f]{64}$`)
	f.Fuzz(func(t *testing.T, path string) {
		pod, container := Placed(path)
		if pod != "" && !uid.MatchString(pod) || container != "" && (pod == "" || !id.MatchString(container)) {
			t.Errorf("%q: %q, %q", path, pod, container)
		}
		if pod == "" {
			return
		}
		// What lies below a pod's container changes nothing.
		if p, c := Placed(path + "/kubepods/pod" + podB + "/" + idB); p != pod || container != "" && c != container {
			t.Errorf("%q: %q, %q with more below, %q, %q without", path, p, c, pod, container)
		}
	})
}

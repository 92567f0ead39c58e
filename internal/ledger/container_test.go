package ledger

import (
	"strings"
	"testing"
)

func TestContainerOf(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	inner := strings.Repeat("fedcba9876543210", 4)
	const uid = "3fa1c2d4-0b5e-4c1a-9f6e-1234567890ab"
	for path, want := range map[string][2]string{
		"/": {}, "/system.slice/ssh.service": {}, "/user.slice/pod": {},
		"/docker/" + id:                                    {id, ""},
		"/docker/" + id + "/app":                           {id, ""},
		"/system.slice/docker-" + id + ".scope":            {id, ""},
		"/docker/" + id + "/docker/" + inner:               {inner, ""},
		"/machine.slice/libpod-" + id + ".scope/container": {id, ""},
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + id + ".scope": {id, uid},
		"/kubepods/besteffort/pod" + uid + "/" + id:                                           {id, uid},
		"/system.slice/containerd.service/kubepods-pod" + uid + ".slice:cri-containerd:" + id: {id, uid},
		"/kubepods/burstable/pod" + inner[:32] + "/crio-" + id:                                {id, inner[:32]},
	} {
		if c, p := ContainerOf(path); c != want[0] || p != want[1] {
			t.Errorf("%s: %q, %q", path, c, p)
		}
	}
}

package linux

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Files that lie in memory are told by their file system, or their name.
func TestMemoryDevices(t *testing.T) {
	const text = "22 1 254:0 / / rw - ext4 /dev/vda rw\n" +
		"25 22 0:24 / /dev/shm rw,nosuid - tmpfs tmpfs rw\n" +
		"31 22 0:300 /a b /mnt rw master:1 - hugetlbfs none rw\n"
	devices, err := parseDevices(strings.NewReader(text), []string{"tmpfs", "hugetlbfs"})
	if err != nil || len(devices) != 2 || !devices[unix.Mkdev(0, 24)] || !devices[unix.Mkdev(0, 300)] {
		t.Errorf("%v, %v", devices, err)
	}
	for _, bad := range []string{"22 1\n", "25 22 0:x / / rw - tmpfs tmpfs rw\n"} {
		if devices, err := parseDevices(strings.NewReader(bad), []string{"tmpfs"}); err == nil {
			t.Errorf("%q: %v", bad, devices)
		}
	}
	for _, c := range []struct {
		v    VMA
		want bool
	}{
		{VMA{Path: "/tmp/x", Inode: 1, Device: unix.Mkdev(0, 24)}, true},
		{VMA{Path: "/tmp/x", Inode: 1, Device: unix.Mkdev(254, 0)}, false},
		{VMA{Path: "/memfd:buffers (deleted)", Inode: 1, Device: 1}, true},
		{VMA{Device: unix.Mkdev(0, 24)}, false}, // anonymous
	} {
		if got := c.v.InMemory(devices); got != c.want {
			t.Errorf("%+v: %v", c.v, got)
		}
	}
	if _, err := NewFS("/proc").MemoryDevices(os.Getpid()); err != nil {
		t.Error(err)
	}
}

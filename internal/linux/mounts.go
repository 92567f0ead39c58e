package linux

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// MemoryDevices are the file systems that process pid sees whose files lie in
// memory alone, so that the kernel cannot drop their pages: tmpfs, ramfs and
// hugetlbfs, by their devices, from /proc/PID/mountinfo (kernel:
// Documentation/filesystems/proc.rst, section 3.5). Shared memory without a file
// has a file system that is mounted nowhere: see VMA.InMemory.
func (fs FS) MemoryDevices(pid int) (map[uint64]bool, error) {
	return fs.devices(pid, "tmpfs", "ramfs", "hugetlbfs", "devtmpfs")
}

// devices are those of file systems of some kinds that process pid sees.
func (fs FS) devices(pid int, kinds ...string) (map[uint64]bool, error) {
	return open(fs, pid, "mountinfo", func(r io.Reader) (map[uint64]bool, error) { return parseDevices(r, kinds) })
}

func parseDevices(r io.Reader, kinds []string) (map[uint64]bool, error) {
	devices := map[uint64]bool{}
	err := eachLine(r, func(line string) error {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 3 {
			return errors.New("too few fields")
		}
		kind, _, _ := strings.Cut(after, " ")
		if !slices.Contains(kinds, kind) {
			return nil
		}
		major, minor, _ := strings.Cut(fields[2], ":") // decimal, unlike in maps
		a, err1 := strconv.ParseUint(major, 10, 32)
		b, err2 := strconv.ParseUint(minor, 10, 32)
		if err1 != nil || err2 != nil {
			return errors.New("bad device")
		}
		devices[deviceNumber(a, b)] = true
		return nil
	})
	return devices, err
}

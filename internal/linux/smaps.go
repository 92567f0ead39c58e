package linux

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// VMA is one mapping of a process as /proc/PID/smaps lists it (kernel:
// Documentation/filesystems/proc.rst, "1.1 Process-Specific Subdirectories").
// Sizes are bytes.
type VMA struct {
	Start, End uint64
	Perms      string // such as "rw-p"
	Offset     uint64 // of the mapped file
	Inode      uint64 // 0 when no file is mapped
	Device     uint64 // that the inode is on, as in a Stat_t
	Path       string // file, or a pseudo-path such as "[heap]"
	RSS        int64
	PSS        int64
	Anonymous  int64
	Dirty      int64 // Private_Dirty + Shared_Dirty
	Swap       int64
	AnonHuge   int64
	Hugetlb    int64  // in pages of hugetlbfs, which are not part of Rss
	Flags      string // VmFlags, such as "rd wr mr mw me ac"
}

// Size is the length of the mapping.
func (v *VMA) Size() int64 { return int64(v.End - v.Start) }

// Accessible says that the mapping can be read or written; one that cannot
// is address space that was reserved, or a guard.
func (v *VMA) Accessible() bool { return v.Perms[0] == 'r' || v.Perms[1] == 'w' }

// Writable says that the mapping can be written.
func (v *VMA) Writable() bool { return v.Perms[1] == 'w' }

// FileBacked says that a file is mapped; memory files (memfd) are files too.
func (v *VMA) FileBacked() bool { return v.Inode != 0 }

// InMemory says that what is mapped is a file that lies in memory alone: its
// pages cannot be dropped. devices are the file systems of such files.
func (v *VMA) InMemory(devices map[uint64]bool) bool {
	if !v.FileBacked() {
		return false
	}
	for _, prefix := range []string{"/memfd:", "/SYSV", "/dev/shm/", "/dev/zero", "/anon_hugepage", "[anon_shmem:"} {
		if strings.HasPrefix(v.Path, prefix) {
			return true
		}
	}
	return devices[v.Device]
}

// Uncounted says that the pages of the mapping are not part of its Rss: raw
// page frames such as the vvar page, device memory, and hugetlbfs.
func (v *VMA) Uncounted() bool {
	if v.isVvar() {
		return true
	}
	for f := range strings.FieldsSeq(v.Flags) {
		if f == "pf" || f == "io" || f == "ht" {
			return true
		}
	}
	return false
}

func (v *VMA) isVvar() bool { return strings.HasPrefix(v.Path, "[vvar") }

// mayNotCount says that the mapping may have pages that are not part of its
// Rss, as far as its name tells: flags tell it surely.
func (v *VMA) mayNotCount() bool {
	if v.isVvar() || v.Path == "" || strings.HasPrefix(v.Path, "/dev/shm/") || strings.HasPrefix(v.Path, "/dev/zero") || v.isSharedMemory() {
		return false
	}
	for _, prefix := range []string{"/dev/", "/anon_hugepage", "/memfd:", "/SYSV", "anon_inode:", "socket:"} {
		if strings.HasPrefix(v.Path, prefix) {
			return true
		}
	}
	return false
}

// isSharedMemory says that the mapping is of shared memory in pages of the usual size,
// such as the heap of ZGC.
func (v *VMA) isSharedMemory() bool { return v.Device != 0 && v.Device == sharedMemory() }

// mayBeHuge says that the mapping may be of hugetlbfs, wherever that is mounted: such
// mappings are of whole huge pages, the smallest of which has 64 KiB (arm64).
func (v *VMA) mayBeHuge() bool {
	const smallest = 64 << 10
	return v.FileBacked() && !v.isSharedMemory() && (v.Start|v.End|v.Offset)%smallest == 0
}

// inHugetlb says that the mapping is of hugetlbfs. devices are those where it is mounted;
// what has no file lies on one that is mounted nowhere.
func (v *VMA) inHugetlb(devices map[uint64]bool) bool {
	if !v.mayBeHuge() {
		return false
	}
	for _, prefix := range []string{"/anon_hugepage", "/memfd:", "/SYSV"} {
		if strings.HasPrefix(v.Path, prefix) {
			return true
		}
	}
	return devices[v.Device]
}

// shared is what sharedMemory has found.
var shared struct {
	sync.Once
	device uint64
}

// sharedMemory is the device of the file system that holds shared memory without a file
// on this machine (kernel: shm_mnt in mm/shmem.c); 0 when it is not known.
func sharedMemory() uint64 {
	shared.Do(func() {
		b, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_SHARED|syscall.MAP_ANON)
		if err != nil {
			return
		}
		defer func() { _ = syscall.Munmap(b) }()
		if v := ownMapping(b); v != nil {
			shared.device = v.Device
		}
	})
	return shared.device
}

// ownMapping is the mapping of this process that b lies in, nil when it cannot be read.
func ownMapping(b []byte) *VMA {
	own, err := NewFS("/proc").Maps(os.Getpid())
	if err != nil {
		return nil
	}
	at := addressOf(b)
	for i := range own {
		if w := &own[i]; w.Start <= at && at < w.End {
			return w
		}
	}
	return nil
}

// NoReserve says that the kernel need not promise memory for the mapping
// (MAP_NORESERVE); false also where flags were not read.
func (v *VMA) NoReserve() bool {
	for f := range strings.FieldsSeq(v.Flags) {
		if f == "nr" {
			return true
		}
	}
	return false
}

// maxVMAs bounds what a hostile process can make us keep; the kernel's own
// default bound, vm.max_map_count, is 65530.
const maxVMAs = 4 << 20

// maxPaths bounds the paths that are kept whole, in bytes. Of others only the
// end is kept: a hostile process can map 65 530 files with paths of 4 KiB.
const (
	maxPaths   = 16 << 20
	keptOfPath = 64
)

// Smaps reads the mappings of process pid, in order of address.
func (fs FS) Smaps(pid int) ([]VMA, error) { return open(fs, pid, "smaps", ParseSmaps) }

// SmapsRollup reads the sums over all mappings of process pid.
func (fs FS) SmapsRollup(pid int) (VMA, error) {
	return open(fs, pid, "smaps_rollup", func(r io.Reader) (VMA, error) {
		vmas, err := ParseSmaps(r)
		if err != nil {
			return VMA{}, err
		}
		if len(vmas) != 1 {
			return VMA{}, fmt.Errorf("%d mappings instead of one sum", len(vmas))
		}
		return vmas[0], nil
	})
}

// Maps reads the mappings of process pid without their page counts, which
// costs the kernel much less than smaps.
func (fs FS) Maps(pid int) ([]VMA, error) { return open(fs, pid, "maps", ParseSmaps) }

// ParseSmaps parses the text of smaps, smaps_rollup or maps.
func ParseSmaps(r io.Reader) ([]VMA, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 8<<10), 1<<20)
	var vmas []VMA
	var passed VMA // takes the fields of a mapping that is passed over
	current := (*VMA)(nil)
	paths, words := 0, interned{}
	for line := 1; sc.Scan(); line++ {
		text := sc.Bytes()
		if len(text) == 0 {
			continue
		}
		if isFieldLine(text) {
			if current == nil {
				return nil, fmt.Errorf("line %d: field before the first mapping: %q", line, text)
			}
			if err := current.setField(text, words); err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			continue
		}
		v, err := parseMapping(text, words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		// The kernel lists a piece at a time. A mapping that grew or merged in
		// between may begin before the end of the last one: the rest counts.
		if n := len(vmas); n > 0 && v.Start < vmas[n-1].End {
			v.Offset += vmas[n-1].End - v.Start
			v.Start = vmas[n-1].End
		}
		if v.End <= v.Start {
			current = &passed
			continue
		}
		if len(vmas) == maxVMAs {
			return nil, fmt.Errorf("line %d: more than %d mappings", line, maxVMAs)
		}
		if n := len(vmas); n > 0 && vmas[n-1].Path == v.Path {
			v.Path = vmas[n-1].Path // one copy for all parts of a file
		} else if paths += len(v.Path); paths > maxPaths {
			v.Path = strings.Clone(v.Path[max(0, len(v.Path)-keptOfPath):])
		}
		vmas = append(vmas, v)
		current = &vmas[len(vmas)-1]
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	return vmas, nil
}

// isFieldLine tells "Rss:  12 kB" from "7f00-7f01 rw-p 0 00:00 0": a field
// starts with a capital letter, an address with a lower-case digit.
func isFieldLine(line []byte) bool { return line[0] >= 'A' && line[0] <= 'Z' }

// interned keeps one copy of each text of which there are few different ones.
type interned map[string]string

func (t interned) text(b []byte) string {
	if s, ok := t[string(b)]; ok {
		return s
	}
	s := string(b)
	t[s] = s
	return s
}

func (v *VMA) setField(line []byte, words interned) error {
	name, rest, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return fmt.Errorf("field without a colon: %q", line)
	}
	var to *int64
	switch string(name) {
	case "Rss":
		to = &v.RSS
	case "Pss":
		to = &v.PSS
	case "Anonymous":
		to = &v.Anonymous
	case "Private_Dirty", "Shared_Dirty":
		to = &v.Dirty
	case "Swap":
		to = &v.Swap
	case "AnonHugePages":
		to = &v.AnonHuge
	case "Private_Hugetlb", "Shared_Hugetlb":
		to = &v.Hugetlb
	case "VmFlags":
		v.Flags = words.text(bytes.TrimSpace(rest))
		return nil
	default:
		return nil
	}
	n, err := parseKB(rest)
	if err != nil {
		return fmt.Errorf("%w: %q", err, line)
	}
	*to += n
	return nil
}

// parseKB parses "   1234 kB" into bytes.
func parseKB(b []byte) (int64, error) {
	num, ok := bytes.CutSuffix(bytes.TrimSpace(b), []byte(" kB"))
	if !ok {
		return 0, fmt.Errorf("size without kB")
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(num)), 10, 64)
	if err != nil || n < 0 || n > 1<<52 {
		return 0, fmt.Errorf("bad size")
	}
	return n << 10, nil
}

// parseMapping parses "start-end perms offset dev inode path".
func parseMapping(line []byte, words interned) (VMA, error) {
	bad := func(what string) (VMA, error) {
		return VMA{}, fmt.Errorf("bad %s in mapping %q", what, line)
	}
	var field [5][]byte
	rest := line
	for i := range field {
		rest = bytes.TrimLeft(rest, " ")
		field[i], rest, _ = bytes.Cut(rest, []byte(" "))
	}
	from, to, _ := bytes.Cut(field[0], []byte("-"))
	var v VMA
	var err error
	if v.Start, err = strconv.ParseUint(string(from), 16, 64); err != nil {
		return bad("start")
	}
	if v.End, err = strconv.ParseUint(string(to), 16, 64); err != nil || v.End <= v.Start {
		return bad("end")
	}
	if len(field[1]) != 4 {
		return bad("permissions")
	}
	v.Perms = words.text(field[1])
	if v.Offset, err = strconv.ParseUint(string(field[2]), 16, 64); err != nil {
		return bad("offset")
	}
	major, minor, _ := bytes.Cut(field[3], []byte(":"))
	if v.Device, err = parseDevice(major, minor); err != nil {
		return bad("device")
	}
	if v.Inode, err = strconv.ParseUint(string(field[4]), 10, 64); err != nil {
		return bad("inode")
	}
	v.Path = string(bytes.TrimSpace(rest))
	return v, nil
}

// parseDevice puts the hexadecimal numbers of a device together as stat(2) does.
func parseDevice(major, minor []byte) (uint64, error) {
	a, err1 := strconv.ParseUint(string(major), 16, 32)
	b, err2 := strconv.ParseUint(string(minor), 16, 32)
	return deviceNumber(a, b), errors.Join(err1, err2)
}

// deviceNumber is makedev(3).
func deviceNumber(major, minor uint64) uint64 {
	return major&0xfff<<8 | major&^0xfff<<32 | minor&0xff | minor&^0xff<<12
}

package linux

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// VMA is one mapping of a process as /proc/PID/smaps lists it (kernel:
// Documentation/filesystems/proc.rst, "1.1 Process-Specific Subdirectories").
// Sizes are bytes.
type VMA struct {
	Start, End uint64
	Perms      string // such as "rw-p"
	Offset     uint64 // of the mapped file
	Inode      uint64 // 0 when no file is mapped
	Path       string // file, or a pseudo-path such as "[heap]"
	RSS        int64
	PSS        int64
	Anonymous  int64
	Dirty      int64 // Private_Dirty + Shared_Dirty
	Swap       int64
	AnonHuge   int64
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
	if v.isVvar() || v.Path == "" || strings.HasPrefix(v.Path, "/dev/shm/") || strings.HasPrefix(v.Path, "/dev/zero") {
		return false
	}
	for _, prefix := range []string{"/dev/", "/anon_hugepage", "/memfd:", "/SYSV", "anon_inode:", "socket:"} {
		if strings.HasPrefix(v.Path, prefix) {
			return true
		}
	}
	return false
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
	for line := 1; sc.Scan(); line++ {
		text := sc.Bytes()
		if len(text) == 0 {
			continue
		}
		if isFieldLine(text) {
			if current == nil {
				return nil, fmt.Errorf("line %d: field before the first mapping: %q", line, text)
			}
			if err := current.setField(text); err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			continue
		}
		v, err := parseMapping(text)
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

func (v *VMA) setField(line []byte) error {
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
	case "VmFlags":
		v.Flags = string(bytes.TrimSpace(rest))
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
func parseMapping(line []byte) (VMA, error) {
	bad := func(what string) (VMA, error) {
		return VMA{}, fmt.Errorf("bad %s in mapping %q", what, line)
	}
	var field [5]string
	rest := line
	for i := range field {
		var f []byte
		rest = bytes.TrimLeft(rest, " ")
		f, rest, _ = bytes.Cut(rest, []byte(" "))
		field[i] = string(f)
	}
	from, to, _ := strings.Cut(field[0], "-")
	var v VMA
	var err error
	if v.Start, err = strconv.ParseUint(from, 16, 64); err != nil {
		return bad("start")
	}
	if v.End, err = strconv.ParseUint(to, 16, 64); err != nil || v.End <= v.Start {
		return bad("end")
	}
	if v.Perms = field[1]; len(v.Perms) != 4 {
		return bad("permissions")
	}
	if v.Offset, err = strconv.ParseUint(field[2], 16, 64); err != nil {
		return bad("offset")
	}
	if v.Inode, err = strconv.ParseUint(field[4], 10, 64); err != nil {
		return bad("inode")
	}
	v.Path = string(bytes.TrimSpace(rest))
	return v, nil
}

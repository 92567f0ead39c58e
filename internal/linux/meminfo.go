package linux

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// MemInfo is what tare needs of /proc/meminfo, in bytes (kernel:
// Documentation/filesystems/proc.rst, section 1.2).
type MemInfo struct {
	// Total is the memory that the kernel manages, Available an estimate of
	// what a new program can have without swapping.
	Total, Available int64
	// SwapFree is the swap space that is not used.
	SwapFree int64
}

// MemInfo reads the memory of the machine.
func (fs FS) MemInfo() (MemInfo, error) {
	return readFile(filepath.Join(fs.root, "meminfo"), ParseMemInfo)
}

// ParseMemInfo parses /proc/meminfo. Before Linux 3.14 there is no
// MemAvailable, which is an error.
func ParseMemInfo(r io.Reader) (MemInfo, error) {
	m := MemInfo{Total: -1, Available: -1}
	err := eachLine(r, func(line string) error {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil
		}
		var to *int64
		switch name {
		case "MemTotal":
			to = &m.Total
		case "MemAvailable":
			to = &m.Available
		case "SwapFree":
			to = &m.SwapFree
		default:
			return nil
		}
		digits, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		kib, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || kib < 0 || kib > math.MaxInt64>>10 {
			return errors.New("want a number of kB")
		}
		*to = kib << 10
		return nil
	})
	if err == nil && (m.Total < 0 || m.Available < 0) {
		err = errors.New("no MemTotal or no MemAvailable")
	}
	return m, err
}

// KernelRelease is the release of the running kernel, such as
// "6.1.0-18-amd64", from /proc/sys/kernel/osrelease.
func (fs FS) KernelRelease() (string, error) {
	return readFile(filepath.Join(fs.root, "sys", "kernel", "osrelease"), func(r io.Reader) (string, error) {
		text, err := io.ReadAll(io.LimitReader(r, 256))
		return Printable(strings.TrimSpace(string(text))), err
	})
}

// THPMode says when the kernel takes transparent huge pages for anonymous
// memory: "always", "madvise" or "never". sys is the sysfs, "/sys" on a live
// machine.
func THPMode(sys string) (string, error) {
	return readFile(filepath.Join(sys, "kernel", "mm", "transparent_hugepage", "enabled"), ParseTHPMode)
}

// ParseTHPMode parses "always [madvise] never", where the brackets mark what is
// chosen (kernel: Documentation/admin-guide/mm/transhuge.rst).
func ParseTHPMode(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, 256))
	if err != nil {
		return "", err
	}
	for word := range strings.FieldsSeq(string(text)) {
		if len(word) < 3 || word[0] != '[' || word[len(word)-1] != ']' {
			continue
		}
		if mode := word[1 : len(word)-1]; strings.Trim(mode, "abcdefghijklmnopqrstuvwxyz_") == "" {
			return mode, nil
		}
	}
	return "", fmt.Errorf("no mode in brackets: %.80q", text)
}

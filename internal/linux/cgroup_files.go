package linux

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ReadCgroupKeyed reads a file of "name value" lines in a group's directory:
// memory.stat, memory.events, memory.oom_control, cpu.stat.
func ReadCgroupKeyed(dir, name string) (map[string]int64, error) {
	return readFile(filepath.Join(dir, name), ParseCgroupKeyed)
}

// ParseCgroupKeyed parses a flat keyed file ("Format" in
// Documentation/admin-guide/cgroup-v2.rst). A value above the largest int64,
// with which old kernels say "unlimited", becomes that.
func ParseCgroupKeyed(r io.Reader) (map[string]int64, error) {
	values := map[string]int64{}
	err := eachLine(r, func(line string) error {
		name, value, ok := strings.Cut(line, " ")
		if !ok || name == "" {
			return errors.New("want a name and a value")
		}
		n, err := parseCounter(value)
		if err != nil {
			return err
		}
		if _, twice := values[name]; twice {
			return errors.New("the name is there twice")
		}
		values[name] = n
		return nil
	})
	return values, err
}

// ReadCgroupValue reads a file of a single number in a group's directory;
// limited is false for "max".
func ReadCgroupValue(dir, name string) (n int64, limited bool, err error) {
	n, err = readFile(filepath.Join(dir, name), ParseCgroupValue)
	return n, n != math.MaxInt64, err
}

// ParseCgroupValue parses a single number, or "max", which is the largest
// int64.
func ParseCgroupValue(r io.Reader) (int64, error) {
	text, err := io.ReadAll(io.LimitReader(r, 64))
	if err != nil {
		return 0, err
	}
	value := string(bytes.TrimSuffix(text, []byte("\n")))
	if value == "max" {
		return math.MaxInt64, nil
	}
	n, err := parseCounter(value)
	if err != nil {
		return 0, fmt.Errorf("line 1: %w: %.200q", err, value)
	}
	return n, nil
}

func parseCounter(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, errors.New("the value is not a number")
	}
	return int64(min(n, math.MaxInt64)), nil
}

// Pressure is how long tasks have waited for a resource since the group was
// made (Documentation/accounting/psi.rst).
type Pressure struct {
	Some time.Duration // at least one task waited
	Full time.Duration // all tasks that were not idle waited at once
	// Some300 is the share of the last five minutes, in percent, in which at
	// least one task waited.
	Some300 float64
}

// ReadCgroupPressure reads memory.pressure or one of its siblings in a group's
// directory. Without PSI in the kernel the error is fs.ErrNotExist or
// syscall.EOPNOTSUPP.
func ReadCgroupPressure(dir, name string) (Pressure, error) {
	return readFile(filepath.Join(dir, name), ParsePressure)
}

// ParsePressure parses a pressure file; its totals are microseconds.
func ParsePressure(r io.Reader) (Pressure, error) {
	var p Pressure
	some := false
	err := eachLine(r, func(line string) error {
		kind, rest, _ := strings.Cut(line, " ")
		if kind != "some" && kind != "full" {
			return nil
		}
		_, total, ok := strings.Cut(rest, "total=")
		if !ok {
			return errors.New("no total")
		}
		us, err := strconv.ParseInt(total, 10, 64)
		if err != nil || us < 0 || us > math.MaxInt64/int64(time.Microsecond) {
			return errors.New("the total is not a number of microseconds")
		}
		if kind == "some" {
			p.Some, some = time.Duration(us)*time.Microsecond, true
			if p.Some300, err = average(rest, "avg300="); err != nil {
				return err
			}
		} else {
			p.Full = time.Duration(us) * time.Microsecond
		}
		return nil
	})
	if err == nil && !some {
		err = errors.New(`no line "some"`)
	}
	return p, err
}

// average is the percentage that stands behind name; 0 when it is not there.
func average(text, name string) (float64, error) {
	_, value, ok := strings.Cut(text, name)
	if !ok {
		return 0, nil
	}
	value, _, _ = strings.Cut(value, " ")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n >= 0 && n <= 100) {
		return 0, errors.New("the average is not a percentage")
	}
	return n, nil
}

// maxCPUs bounds the numbers in a list of processors: the largest NR_CPUS of
// any architecture of Linux.
const maxCPUs = 8192

// ParseCPUList parses a list of processors such as "0-1,3" ("List format" in
// cpuset(7)) into their numbers, in ascending order, each once.
func ParseCPUList(s string) ([]int, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	var in [maxCPUs]bool
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := parseCPU(first)
		b := a
		if err == nil && isRange {
			b, err = parseCPU(last)
		}
		if err != nil || b < a {
			return nil, fmt.Errorf("bad list of processors %.200q, want one such as 0-1,3", s)
		}
		for i := a; i <= b; i++ {
			in[i] = true
		}
	}
	var cpus []int
	for i, is := range in {
		if is {
			cpus = append(cpus, i)
		}
	}
	return cpus, nil
}

func parseCPU(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err == nil && n >= maxCPUs {
		err = strconv.ErrRange
	}
	return int(n), err
}

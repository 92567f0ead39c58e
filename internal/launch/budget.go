package launch

import (
	"fmt"
	"math"
	"strconv"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/linux"
)

// Budget is what the JVM may use: of memory the smallest bound, of processors
// what the JVM itself will count.
type Budget struct {
	// MemoryBytes is 0 when it could not be read.
	MemoryBytes int64
	// MemoryFrom names the bound, such as "memory.max of /sys/fs/cgroup/app", or
	// "the machine" when no group has a limit below it.
	MemoryFrom string
	// Limited says that a control group bounds the memory.
	Limited bool
	// CPUs is how many processors the JVM counts, at least 1.
	CPUs int
	// CPUsFrom says why: "quota 0.5", "shares 512", "the machine", "cpuset".
	CPUsFrom string
	// QuotaCPUs is the quota, rounded up; 0 without one.
	QuotaCPUs int
	// SetCPUs says that the JVM would not see this number by itself.
	SetCPUs bool
	// OthersBytes is in use by others when nothing limits the memory.
	OthersBytes int64
	// Problem says what could not be read; nil when all could.
	Problem error
}

// System is where the launcher looks: "/" on a live machine.
type System struct {
	Proc linux.FS
	// Groups are the control groups.
	Groups linux.CgroupFS
	// Sys is the sysfs.
	Sys string
	// PID is the process that will be the JVM.
	PID int
	// CPUs is how many processors it is allowed to run on (sched_getaffinity).
	CPUs int
}

// readBudget reads what bounds the process. What cannot be read is unbounded
// and Problem says so, except that nothing is sized by memory that is unknown.
func readBudget(s System, java jvmopts.Release) Budget {
	b := Budget{CPUs: max(1, s.CPUs), CPUsFrom: "processors to run on"}
	m, err := s.Proc.MemInfo()
	if err != nil {
		b.Problem = fmt.Errorf("the machine's memory cannot be read, so nothing is sized by it: %w", err)
		return b
	}
	b.OthersBytes = max(0, m.Total-m.Available)
	g, err := s.Groups.Group(s.PID)
	if err == nil {
		err = b.readMemory(m.Total, g)
	}
	if err != nil {
		b.MemoryBytes, b.Problem = 0, fmt.Errorf("the memory limit cannot be read, so nothing is sized by it: %w", err)
	}
	if g == nil {
		return b
	}
	if err := b.readCPUs(g, java); err != nil && b.Problem == nil {
		b.Problem = fmt.Errorf("the CPU quota cannot be read, so processors are counted without it: %w", err)
	}
	return b
}

func (b *Budget) readMemory(machine int64, g *linux.Group) error {
	b.MemoryBytes, b.MemoryFrom = machine, "the machine: no control group limits it"
	l, err := g.MemoryLimit()
	if err != nil {
		return err
	}
	bound := func(n int64, from string) {
		if n > 0 && n < b.MemoryBytes {
			b.MemoryBytes, b.MemoryFrom, b.Limited, b.OthersBytes = n, from, true, 0
		}
	}
	file := "memory.max"
	if l.Group.Version == 1 {
		file = "memory.limit_in_bytes"
	}
	from := file + " of " + l.Group.Dir
	if l.Hidden {
		from = "a control group above " + l.Group.Dir
	}
	bound(l.Bytes, from)
	bound(l.HighBytes, "memory.high of "+l.HighDir)
	return nil
}

// readCPUs counts as HotSpot does: the processors of the affinity mask, which a
// cpuset sets, or the quota rounded up, whichever is less (JDK:
// CgroupUtil::processor_count in src/hotspot/os/linux/cgroupUtil_linux.cpp).
func (b *Budget) readCPUs(g *linux.Group, java jvmopts.Release) error {
	quota, limited, err := g.CPUQuota()
	if err != nil {
		return err
	}
	allowed := b.CPUs
	if limited {
		b.QuotaCPUs = int(math.Ceil(quota))
		b.boundCPUs(math.Ceil(quota), "quota "+strconv.FormatFloat(quota, 'g', 3, 64))
	}
	aware := countsGroups(java, g.Version)
	b.SetCPUs = !aware && b.CPUs < allowed
	if !countsShares(java) || !aware || limited { // a quota goes before shares
		return nil
	}
	shares, err := g.CPUShares()
	if err != nil {
		return err
	}
	if shares != 1024 { // what a group has unless it is set
		b.boundCPUs(math.Ceil(float64(shares)/1024), "shares "+strconv.FormatInt(shares, 10)+", which this JVM counts")
	}
	return nil
}

func (b *Budget) boundCPUs(n float64, from string) {
	if n < float64(b.CPUs) {
		b.CPUs, b.CPUsFrom = max(1, int(n)), from
	}
}

// countsGroups says that a JVM reads control groups of that version: v1 since
// 8u191 and 10 (JDK-8146115), v2 since 15 (JDK-8230305), 11.0.16 and 8u372.
func countsGroups(java jvmopts.Release, version int) bool {
	switch {
	case java.Feature == 8:
		return java.Update >= 372 || version == 1 && java.Update >= 191
	case java.Feature == 11 && version == 2:
		return java.Update >= 16
	case version == 2:
		return java.Feature >= 15
	}
	return java.Feature >= 10
}

// countsShares says that a JVM takes shares / 1024 for its number of
// processors, as all did until JDK-8281181: fixed in 19, 18.0.2, 17.0.5 and
// 11.0.17, and never in 8.
func countsShares(java jvmopts.Release) bool {
	switch java.Feature {
	case 11:
		return java.Update < 17
	case 17:
		return java.Update < 5
	case 18:
		return java.Update < 2
	}
	return java.Feature > 0 && java.Feature < 19
}

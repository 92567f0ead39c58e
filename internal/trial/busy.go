package trial

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// disturbedShare is the share of the machine's processor time taken by others
// from which a slow trial may be their doing.
const disturbedShare = 0.1

// userHZ is the unit of /proc/stat: 100 on every architecture that Go builds
// Linux programs for (include/asm-generic/param.h).
const userHZ = 100

// busyTime is processor time since boot, and this process's part of it.
type busyTime struct {
	all, own, group time.Duration
	at              time.Time
}

// readBusy reads /proc/stat (proc_stat(5)). Interrupts are left out: those of
// the load's own packets cannot be told from others. ok is false where it
// cannot be read.
func readBusy(group time.Duration) (b busyTime, ok bool) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return b, false
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	if !s.Scan() {
		return b, false
	}
	// cpu user nice system idle iowait irq softirq steal guest guest_nice
	w := strings.Fields(s.Text())
	if len(w) < 9 || w[0] != "cpu" {
		return b, false
	}
	for _, i := range []int{1, 2, 3, 8} {
		n, err := strconv.ParseInt(w[i], 10, 64)
		if err != nil || n < 0 {
			return b, false
		}
		b.all += time.Duration(n) * time.Second / userHZ
	}
	b.own = rusage(syscall.RUSAGE_SELF) + rusage(syscall.RUSAGE_CHILDREN)
	b.group, b.at = group, time.Now()
	return b, true
}

func rusage(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// othersSince is the share of the machine's processor time that went neither
// to the group nor to this process.
func (b busyTime) othersSince(a busyTime) float64 {
	wall := b.at.Sub(a.at).Seconds() * float64(runtime.NumCPU())
	if wall <= 0 {
		return 0
	}
	others := (b.all - a.all) - (b.own - a.own) - (b.group - a.group)
	return min(1, max(0, others.Seconds()/wall))
}

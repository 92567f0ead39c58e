package linux

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseThreadClock(t *testing.T) {
	const rest = " S 1 1 1 0 -1 4194304 9 0 2 0 %u 17 0 0 20 0 1 0 123456 0 0\n"
	line := func(name, user string) []byte {
		return []byte("42 (" + name + ")" + strings.Replace(rest, "%u", user, 1))
	}
	c, err := parseThreadClock(line("a) b (1", "25"))
	if want := (ThreadClock{Name: "a) b (1", StartTicks: 123456, Time: 420 * time.Millisecond}); err != nil || c != want {
		t.Errorf("%+v, %v, want %+v", c, err, want)
	}
	for name, text := range map[string][]byte{
		"empty": nil, "no name": []byte("42 S 1"), "short": []byte("42 (a) S 1 1 1 0 -1 4194304 9 0 2 0 1"),
		"no number": line("a", "x"), "negative": line("a", "-1"), "too much": line("a", "9223372036854775807"),
	} {
		if c, err := parseThreadClock(text); err == nil || c != (ThreadClock{}) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// A thread's clock goes on by what the thread uses, and no other thread's with it.
func TestThreadClocks(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mine := func() ThreadClock {
		clocks, _, err := NewFS("/proc").ThreadClocks(os.Getpid(), func(tid int) bool { return tid != syscall.Gettid() })
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range clocks {
			if c.TID == syscall.Gettid() {
				return c
			}
		}
		t.Fatalf("no thread %d in %v", syscall.Gettid(), clocks)
		return ThreadClock{}
	}
	before := mine()
	var used syscall.Rusage
	const threadUsage = 1 // RUSAGE_THREAD
	for used.Utime.Nano()+used.Stime.Nano() < int64(before.Time+200*time.Millisecond) {
		if err := syscall.Getrusage(threadUsage, &used); err != nil {
			t.Fatal(err)
		}
	}
	after := mine()
	if d := after.Time - before.Time; d < 160*time.Millisecond || after.StartTicks != before.StartTicks || after.Name != before.Name {
		t.Errorf("%+v, then %+v", before, after)
	}
}

func BenchmarkThreadClocks(b *testing.B) {
	clocks := 0
	for b.Loop() {
		c, _, err := NewFS("/proc").ThreadClocks(os.Getpid(), nil)
		if err != nil {
			b.Fatal(err)
		}
		clocks += len(c)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(clocks), "ns/thread")
}

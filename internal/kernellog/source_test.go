package kernellog

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What both ring and journal have is taken once; what one alone has is kept, and the
// ring's is of this boot.
func TestJoin(t *testing.T) {
	const boot, before = "0f1c2a9e-3b52-4a7e-9d9c-5a5b6c7d8e9f", "1f1c2a9e-3b52-4a7e-9d9c-5a5b6c7d8e9f"
	at := func(ms int, boot string) Stamp {
		return Stamp{Uptime: time.Duration(ms)*time.Millisecond + 250*time.Microsecond, Boot: boot}
	}
	ring := &Events{Lines: 5, First: at(1, ""), Kills: []Kill{{Stamp: at(900, ""), PID: 7}, {Stamp: at(1900, ""), PID: 8}}, Faults: []Fault{{Stamp: at(5, ""), TID: 9}}}
	journal := &Events{Lines: 7, First: at(3, before), Kills: []Kill{{Stamp: at(900, before), PID: 7}, {Stamp: at(900, boot), PID: 7}}, OOMD: []GroupKill{{Group: "/a"}}}
	got := Join(ring, boot, journal)
	if len(got.Kills) != 3 || got.Kills[2].PID != 8 || got.Kills[2].Boot != boot || len(got.Faults) != 1 || len(got.OOMD) != 1 || got.Lines != 12 {
		t.Errorf("%+v", got)
	}
	if got.First.Boot != boot || got.First.Uptime != ring.First.Uptime {
		t.Errorf("it reaches back to %+v", got.First)
	}
	if len(journal.Kills) != 2 {
		t.Error("the journal was changed")
	}
	if Join(ring, boot, nil) != ring || Join(nil, boot, journal) != journal || Join(nil, boot, nil) != nil {
		t.Error("one alone is not as it is")
	}
}

// The kernel's ring is read to its end, without waiting for more.
func TestKmsg(t *testing.T) {
	e, err := Kmsg()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		t.Skip(err)
	}
	if err != nil || e.Lines == 0 || e.Last.Uptime < e.First.Uptime {
		t.Errorf("%+v, %v", e, err)
	}
}

func BenchmarkRead(b *testing.B) {
	for b.Loop() {
		if e := readText(b, "linux-7.2-v2.kmsg"); len(e.Kills) == 0 {
			b.Fatal("no kill")
		}
	}
}

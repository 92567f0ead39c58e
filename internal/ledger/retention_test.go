package ledger

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var retentionOut = flag.String("retention.out", "", "write the retention of the default ledger to this `file`, as a table")

// weighEvery is how many of a JVM's counters come for one footprint, as of an
// agent that finds little moved: one in five minutes.
const weighEvery = 30

// For how long a ledger keeps what an agent writes of a number of JVMs: filled with
// records of real size. With -retention.out it is of the default size.
func TestRetention(t *testing.T) {
	sizes, size := []int{10}, int64(4<<20)
	if *retentionOut != "" {
		sizes, size = []int{10, 100, 1000}, DefaultBytes
	}
	var table strings.Builder
	table.WriteString("| JVMs | kept of each, at least | at most |\n|---:|---:|---:|\n")
	for _, jvms := range sizes {
		least, most := retention(t, size, jvms)
		fmt.Fprintf(&table, "| %d | %.1f h | %.1f h |\n", jvms, least.Hours(), most.Hours())
		// The live have three quarters, a record of counters is below 130 bytes, and
		// a thirtieth of a footprint below 30: that is what docs/ledger.md computes.
		if computed := time.Duration(size*3/4/int64(jvms)/160) * 10 * time.Second; least < computed*8/10 {
			t.Errorf("%d JVMs: %v are kept, computed %v", jvms, least, computed)
		}
	}
	if *retentionOut != "" {
		if err := os.WriteFile(*retentionOut, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// retention fills a ledger one and a half times, and returns the shortest and the
// longest time that is left of a JVM.
func retention(t *testing.T, size int64, jvms int) (least, most time.Duration) {
	dir := t.TempDir()
	w := create(t, dir, size)
	for pid := 1; pid <= jvms; pid++ {
		add(t, w, start(pid))
	}
	rounds := int(size) * 3 / 2 / 115 / jvms
	for n := 1; n <= rounds; n++ {
		for pid := 1; pid <= jvms; pid++ {
			add(t, w, counters(pid, n))
			if (n+pid)%weighEvery == 0 {
				add(t, w, weighed(pid, n))
			}
		}
	}
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := r.Processes()
	if err != nil || len(all) != jvms {
		t.Fatalf("%d JVMs, %v", len(all), err)
	}
	least = time.Duration(1 << 62)
	for _, s := range all {
		least, most = min(least, s.Last.Sub(s.First)), max(most, s.Last.Sub(s.First))
	}
	return least, most
}

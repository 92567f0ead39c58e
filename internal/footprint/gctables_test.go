package footprint

import (
	"reflect"
	"testing"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
)

// Tables are found alone, side by side, with what is reserved behind them, and
// not where their size has another owner or another mapping's flags.
func TestClaimTables(t *testing.T) {
	vmas := []linux.VMA{
		mapping(1*mib, 5*mib, "rw-p"), mapping(5*mib, 9*mib, "---p"), // one of 8 MiB, half used
		mapping(20*mib, 36*mib, "rw-p"), // two
		mapping(40*mib, 41*mib, "rw-p"), mapping(41*mib, 49*mib, "rw-p"),
		mapping(50*mib, 53*mib, "rw-p"),
		{Start: 60 * mib, End: 68 * mib, Perms: "rw-p", Flags: "rd wr nr"},
		{Start: 70 * mib, End: 78 * mib, Perms: "rw-p", Path: "/a", Inode: 1},
	}
	tables := []hotspot.GCTable{{Name: "mark bitmap", Bytes: 8 * mib}}
	var got []span
	// Not a table: a large chunk of malloc of that size.
	vmas = append(vmas, mapping(80*mib, 88*mib, "rw-p"))
	mem := words{80 * mib: 0, 80*mib + 8: 8*mib | mmapped}
	segs, err := partition(t.Context(), vmas, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newLayout(vmas, mem, page).claimTables(segs, tables, nil, Layout) {
		if c.owner != GC || c.part != "mark-bitmap" {
			t.Errorf("claim %+v", c)
		}
		got = append(got, c.span)
	}
	want := []span{{1 * mib, 9 * mib}, {20 * mib, 36 * mib}, {41 * mib, 49 * mib}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

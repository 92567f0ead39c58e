package footprint

import (
	"strings"
	"testing"

	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
)

// A heap in pages of hugetlbfs is in its row, though Rss does not count it.
func TestHugetlbHeap(t *testing.T) {
	vmas, err := linux.ParseSmaps(strings.NewReader("80000000-a0000000 rw-p 00000000 00:0f 77 /anon_hugepage (deleted)\n" +
		"Rss: 0 kB\nShared_Hugetlb: 0 kB\nPrivate_Hugetlb: 307200 kB\nVmFlags: rd wr mr mw me de ht sd\n" +
		"c0000000-c0100000 rw-p 00000000 00:00 0\nRss: 1024 kB\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := guessing(vmas, hotspot.VM{Heap: hotspot.Region{Start: 0x80000000, End: 0xa0000000}}, closed{})
	s.runs = []linux.PageRun{{Start: 0xc0000000, End: 0xc0100000}}
	f := s.footprint(attributed(t, s))
	heap := f.row(JavaHeap)
	if heap.HugetlbBytes != 300*mib || heap.ResidentBytes != 0 || f.RSSBytes != mib {
		t.Errorf("heap %+v, Rss %d", heap, f.RSSBytes)
	}
	if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "java-heap: 300.0 MiB more") {
		t.Errorf("warnings %q", f.Warnings)
	}
}

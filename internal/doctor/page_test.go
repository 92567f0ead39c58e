package doctor

import "testing"

// A huge page has the size that the machine's pages give it.
func TestHugePage(t *testing.T) {
	for page, want := range map[int64]int64{0: 2 * mib, 4 * kib: 2 * mib, 16 * kib: 32 * mib, 64 * kib: 512 * mib} {
		f := healthy()
		f.Host.PageBytes = page
		if got := newPatient(f).hugePage(); got != want {
			t.Errorf("pages of %d: %d, want %d", page, got, want)
		}
	}
}

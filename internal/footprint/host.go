package footprint

import (
	"errors"
	"os"

	"tare.dev/tare/internal/linux"
)

// readHost reads what the machine has.
func (s *scan) readHost(proc linux.FS) {
	_ = s.timed("machine", func() error {
		m, err := proc.MemInfo()
		if err != nil {
			return err
		}
		release, err1 := proc.KernelRelease()
		thp, err2 := linux.THPMode("/sys")
		s.host = &Host{MemTotalBytes: m.Total, PageBytes: int64(os.Getpagesize()), MemAvailableBytes: m.Available, Kernel: release, THP: thp}
		return errors.Join(err1, unlessAbsent(err2))
	})
}

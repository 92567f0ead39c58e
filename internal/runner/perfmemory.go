package runner

import (
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	processes "tare.dev/tare/internal/process"
)

// perfMemory is the performance data of a JVM that has no file of them: its user has no
// name, as often in containers, or /tmp is read-only. They are in its memory all the
// same (JDK: src/hotspot/os/posix/perfMemory_posix.cpp, PerfMemory::create_memory_region).
type perfMemory struct {
	mem   *linux.Mem
	at    hotspot.Region
	asked int
}

// open looks for the data, and reads them. Looking costs some milliseconds, and with
// -XX:-UsePerfData there are none ever: so it looks less and less often. Otherwise the
// error is the given one.
func (p *perfMemory) open(proc linux.FS, pid int, none error) (*hotspot.PerfData, error) {
	if p.asked++; p.asked&(p.asked-1) != 0 {
		return nil, none
	}
	t, err := processes.Find(proc, pid)
	if err != nil {
		return nil, none // no JVM, or not yet
	}
	mem, err := proc.OpenMem(pid, t.VMAs)
	if err != nil {
		return nil, none
	}
	at, err := hotspot.FindPerfMemory(mem, t.LibjvmBase)
	if err != nil || at.Empty() {
		mem.Close()
		return nil, none
	}
	p.mem, p.at = mem, at
	return p.read()
}

func (p *perfMemory) read() (*hotspot.PerfData, error) {
	p.mem.Forget()
	return hotspot.ReadPerfMemory(p.mem, p.at)
}

func (p *perfMemory) close() {
	if p.mem != nil {
		p.mem.Close()
		p.mem = nil
	}
}

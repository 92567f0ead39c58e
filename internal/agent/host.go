package agent

import "tare.dev/tare/internal/linux"

// MachineClock is the clock of the machine.
func MachineClock() Clock { return machineClock{} }

// BootID is the kernel's random id of this boot.
func BootID(proc linux.FS) (string, error) { return bootID(proc) }

package agent

// MachineClock is the clock of the machine.
func MachineClock() Clock { return machineClock{} }

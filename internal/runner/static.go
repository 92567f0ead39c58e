package runner

import (
	"debug/elf"
	"fmt"
	"slices"
)

// checkStatic makes sure that a program starts in a container whatever is in
// there: that it names no loader of shared libraries, which an ELF program does
// by a header of type PT_INTERP (elf(5)). Without that file the kernel's error
// would be that the program itself is not there.
func checkStatic(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("the program that containers are to begin with: %w", err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%s needs shared libraries, which a container need not have: it was built with cgo; build it with CGO_ENABLED=0", program)
	}
	return nil
}

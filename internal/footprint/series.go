package footprint

import (
	"tare.dev/tare/internal/hotspot"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// Series is what one weighing of a JVM keeps for the next: only what cannot
// change. The target must be found anew for each weighing, and one must end before
// the next begins: a Series is not for several at once.
//
// Unless Full is set it also leaves out what takes the kernel long to count
// and says nothing of owners: then PSSBytes, RollupRSSBytes, AnonymousBytes,
// SwapBytes and HugeBytes mean nothing, the host is missing, and of the control
// group there are but usage, limit and headroom. Both together make a weighing
// cost a third.
type Series struct {
	Full bool
	// Tables, if any, are shared with the series of other JVMs.
	Tables *Tables

	birth   linux.Birth
	libjvm  uint64
	structs *hotspot.Structs
	last    *hotspot.VM
}

// Tables are how JVMs describe their memory, which is the same for all that run the
// same file of a library. Who weighs many JVMs shares them. They are not for several
// weighings at once.
type Tables struct{ byLibrary map[library]*hotspot.Structs }

// library is the file of a JVM's library. What one user's JVMs say is not taken for
// another user's.
type library struct {
	device, inode uint64
	uid           int
}

// maxLibraries bounds the builds that are remembered.
const maxLibraries = 16

// of reads the tables of a JVM, or takes those of the same library.
func (t *Tables) of(mem hotspot.Memory, target *process.Target) (*hotspot.Structs, error) {
	var key library
	for i := range target.VMAs {
		if v := &target.VMAs[i]; v.Start == target.LibjvmBase {
			key = library{v.Device, v.Inode, target.Status.UID}
		}
	}
	if t == nil || key.inode == 0 {
		return hotspot.ReadStructs(mem, target.LibjvmBase)
	}
	if s := t.byLibrary[key]; s != nil {
		return s, nil
	}
	s, err := hotspot.ReadStructs(mem, target.LibjvmBase)
	if err != nil {
		return nil, err
	}
	if t.byLibrary == nil || len(t.byLibrary) >= maxLibraries {
		t.byLibrary = map[library]*hotspot.Structs{}
	}
	t.byLibrary[key] = s
	return s, nil
}

// lean says that only owners are to be weighed.
func (sr *Series) lean() bool { return sr != nil && !sr.Full }

// readVM reads the JVM, by tables that were read before.
func (sr *Series) readVM(mem hotspot.Memory, t *process.Target) (*hotspot.VM, error) {
	if sr == nil {
		return hotspot.ReadVM(mem, t.LibjvmBase)
	}
	if sr.structs == nil || sr.birth != t.Birth || sr.libjvm != t.LibjvmBase {
		structs, err := sr.Tables.of(mem, t)
		if err != nil {
			return nil, err
		}
		sr.birth, sr.libjvm, sr.structs, sr.last = t.Birth, t.LibjvmBase, structs, nil
	}
	sr.last = hotspot.ReadVMAgain(mem, t.LibjvmBase, sr.structs, sr.last, !sr.Full)
	return sr.last, nil
}

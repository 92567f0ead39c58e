package footprint

import (
	"errors"
	"fmt"

	"tare.dev/tare/internal/hotspot"
)

// describedHotSpot is a HotSpot JVM that described itself in its memory.
type describedHotSpot struct{ vm *hotspot.VM }

// readHotSpot reads what the JVM's memory says. Where that is closed, or says
// nothing, its counters and its layout must do.
func readHotSpot(r reading) jvm {
	var vm *hotspot.VM
	err := r.timed("vmStructs", func() error {
		mem, err := r.open()
		if err != nil {
			return err
		}
		if vm, err = r.series.readVM(mem, r.target); err != nil {
			return fmt.Errorf("this JVM does not describe itself: %w; lost: the parts of the heap, class metadata, collector tables and Java threads by address (told by layout instead)", err)
		}
		return nil
	})
	if err != nil {
		return readCounted(r)
	}
	return describedHotSpot{vm}
}

// notes say what could not be read in the JVM; of a JVM that is still starting,
// only that.
func (d describedHotSpot) notes() []string {
	var notes []string
	for _, p := range d.vm.Problems {
		if errors.Is(p, hotspot.ErrStarting) {
			return []string{"the JVM is still starting and has no heap yet: weigh it again"}
		}
		notes = append(notes, "not readable in the JVM: "+p.Error())
	}
	return notes
}

func (d describedHotSpot) threads() []hotspot.JavaThread { return d.vm.Threads }

func (d describedHotSpot) facts(*layout) *hotspot.VM { return d.vm }

// claims are the ranges that the JVM's own data name.
func (d describedHotSpot) claims(*layout, []int64) []claim {
	vm := d.vm
	var out []claim
	add := func(r hotspot.Region, o Owner, rank rank, part string) {
		if !r.Empty() {
			out = append(out, claim{span{r.Start, r.End}, o, Exact, rank, part})
		}
	}
	add(vm.Heap, JavaHeap, rankVM, "")
	for _, sp := range vm.Spaces {
		add(sp.Region, JavaHeap, rankPart, idOf(sp.Name))
	}
	for _, h := range vm.CodeHeaps {
		add(h.Memory, CodeCache, rankVM, idOf(h.Name))
		add(h.Segmap, CodeCache, rankVM, under(idOf(h.Name), partSegmentMap))
	}
	for _, t := range vm.Threads {
		add(t.Stack, ThreadStacks, rankVM, "")
	}
	add(vm.Archive, CDS, rankVM, "")
	add(vm.PerfData, JVMOther, rankVM, partPerfData)
	add(vm.CardTable, GC, rankVM, partCardTable)
	return out
}

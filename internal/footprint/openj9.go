package footprint

import "tare.dev/tare/internal/hotspot"

// openJ9 is a JVM of Eclipse OpenJ9. It does not describe itself in memory.
type openJ9 struct{}

func readOpenJ9(r reading) jvm {
	openOthers(r)
	return openJ9{}
}

// openOthers opens the memory of a JVM that does not describe itself: its C
// library and its threads still do.
func openOthers(r reading) {
	_ = r.timed("memory", func() error {
		_, err := r.open()
		return err
	})
}

func (openJ9) notes() []string {
	return []string{"this is OpenJ9, which does not describe itself in memory: its heap, classes and collector are one, as unattributed; files, stacks, compiled code (by its permissions) and glibc's malloc are told apart. OpenJ9 itself tells more: jcmd PID Dump.java"}
}

func (openJ9) threads() []hotspot.JavaThread { return nil }

func (openJ9) facts(*layout) *hotspot.VM { return &hotspot.VM{} }

func (openJ9) claims(l *layout, _ []int64) []claim { return l.executable() }

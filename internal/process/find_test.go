package process

import (
	"errors"
	"reflect"
	"testing"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// Reading a process again gives what finding it gives, and no other process is
// taken for it.
func TestAnew(t *testing.T) {
	p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx16m", "-Xint", "-XX:+UseSerialGC"}, 1, 1, 1)
	proc := linux.NewFS("/proc")
	found, err := Find(proc, p.PID())
	if err != nil {
		t.Fatal(err)
	}
	again, err := found.Anew(proc)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.VMAs) == 0 || again.Status.Name != found.Status.Name {
		t.Errorf("%+v", again)
	}
	// They may have changed meanwhile.
	again.VMAs, again.Status = found.VMAs, found.Status
	if !reflect.DeepEqual(found, again) {
		t.Errorf("found %+v, then %+v", found, again)
	}
	other := *found
	other.Birth.StartTicks++
	if now, err := other.Anew(proc); !errors.Is(err, ErrNoProcess) {
		t.Errorf("%+v, %v", now, err)
	}
}

package runner

import (
	"os"
	"strings"
	"testing"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/polltest"
)

func FuzzOwnerOf(f *testing.F) {
	o := owner{4026531836, 4711, 304412}
	f.Add(o.groupName(7))
	f.Add(o.leafName())
	f.Add("tare-1-0-1-1")
	f.Add("tare-01-1-1-1")
	f.Fuzz(func(t *testing.T, name string) {
		o, ok := ownerOf(name)
		if ok && name != o.leafName() && !strings.HasPrefix(name, strings.TrimSuffix(o.groupName(0), "0")) {
			t.Fatalf("%q has the owner %+v", name, o)
		}
	})
}

func TestOwnerOf(t *testing.T) {
	o := owner{4026531836, 4711, 304412}
	for _, name := range []string{o.groupName(7), o.leafName()} {
		if got, ok := ownerOf(name); got != o || !ok {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	for _, name := range []string{
		"", "tare-1-1-1", "tare-self-1-1-1-1", "tare-1-0-1-1", "tare-1-1-99999999999999999999-1", "tare-1-9999999999-1-1",
		"tare-1-1-1-1\n", "tare-01-1-1-1",
	} {
		if got, ok := ownerOf(name); ok {
			t.Errorf("%q: %+v", name, got)
		}
	}
}

func TestGone(t *testing.T) {
	proc := linux.NewFS("/proc")
	self, err := thisProcess(proc)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := os.StartProcess("/proc/self/exe", []string{"x", "exit", "0"}, &os.ProcAttr{Env: []string{"TARE_RUNNERTEST_HELPER=1"}})
	if err != nil {
		t.Fatal(err)
	}
	zombie := self
	zombie.pid = ended.Pid
	birth, err := proc.Birth(ended.Pid)
	if err != nil {
		t.Fatal(err)
	}
	zombie.start = birth.StartTicks
	// Until it is waited for it stays a zombie.
	polltest.UntilState(t, ended.Pid, 'Z')
	if !zombie.gone(proc, self) {
		t.Error("a zombie counts as living")
	}
	if _, err := ended.Wait(); err != nil {
		t.Fatal(err)
	}
	if !zombie.gone(proc, self) {
		t.Error("an ended process counts as living")
	}
	later, foreign := self, self
	later.start++
	foreign.pidns++
	foreign.pid = 1 << 30
	if self.gone(proc, self) || !later.gone(proc, self) || foreign.gone(proc, self) {
		t.Errorf("self %v, other start %v, foreign %v", self.gone(proc, self), later.gone(proc, self), foreign.gone(proc, self))
	}
}

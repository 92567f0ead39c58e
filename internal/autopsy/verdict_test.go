package autopsy

import (
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kernellog"
	"tare.dev/tare/internal/ledger"
)

const (
	boot    = "0f1c2a9e-3b52-4a7e-9d9c-5a5b6c7d8e9f"
	mib     = int64(1 << 20)
	podUID  = "28fcb1a0-a45c-44e7-b9bf-e3b9360bedba"
	podPath = "/kubepods/burstable/pod" + podUID
	conID   = "3e5e5eab87df615f4777e6f7f261a7fb62f4a7ee5bc3e25e3a5b5223ccd368fe"
)

var (
	started = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	flags   = map[string]string{"ExitOnOutOfMemoryError": "true"}
)

// story is a JVM of a pod that started 100 s after boot, and its ledger.
type story struct{ in Input }

func jvmOfPod() *story {
	return &story{Input{Process: ledger.Process{
		ID: ledger.ID{Boot: boot, PID: 4242, StartTicks: 100 * ticksPerSecond}, PIDs: []int{4242, 7}, Name: "/app/shop.jar", Started: started,
		Group: ledger.Group{Version: 2, Path: podPath + "/" + conID}, Container: conID, PodUID: podUID, Flags: map[string]string{}}}}
}

// at adds a record so many seconds after the start.
func (s *story) at(second int, r ledger.Record) *story {
	r.At, r.Uptime, r.Process = started.Add(time.Duration(second)*time.Second), time.Duration(100+second)*time.Second, s.in.Process.ID
	s.in.Records = append(s.in.Records, r)
	return s
}

func (s *story) look(second int, usage, limit int64) *story {
	return s.at(second, ledger.Record{Counters: &ledger.Counters{Usage: usage, Limit: limit, HeapUsed: 40 * mib, HeapAfterGC: 30 * mib}})
}

// weighed adds a footprint with direct buffers and heap.
func (s *story) weighed(second int, usage, limit, direct, heap int64) *story {
	return s.at(second, ledger.Record{Footprint: &ledger.Footprint{Reason: ledger.Moved, Usage: usage, Limit: limit, Resident: direct + heap + 60*mib, Threads: 20,
		Heap: &ledger.Heap{Max: 100 * mib, Used: 40 * mib, AfterGC: 30 * mib},
		Owners: []ledger.Owned{{Owner: footprint.JavaHeap, Resident: heap}, {Owner: footprint.Metaspace, Resident: 20 * mib},
			{Owner: footprint.Malloc, Resident: direct + 40*mib, Parts: []ledger.Part{{ID: footprint.PartDirectBuffers, Bytes: direct}}}}}})
}

func (s *story) event(second int, kind ledger.Kind, values map[string]int64) *story {
	return s.at(second, ledger.Record{Event: &ledger.Event{Kind: kind, Values: values}})
}

func (s *story) ended(second, code, signal int) *story {
	return s.event(second, ledger.Ended, ledger.ExitValues(code, signal))
}

// kill adds a kernel's log that tells of a kill, so many seconds after the start.
func (s *story) kill(second int, k kernellog.Kill) *story {
	k.Uptime = time.Duration(100+second) * time.Second
	s.log().Kills = append(s.log().Kills, k)
	return s
}

// log gives the story a kernel's log, which reaches back to the boot.
func (s *story) log() *kernellog.Events {
	if s.in.Log == nil {
		s.in.Log, s.in.LogBoot = &kernellog.Events{Lines: 1, First: kernellog.Stamp{Uptime: time.Second}}, boot
	}
	return s.in.Log
}

func (s *story) with(change func(*Input)) *story {
	change(&s.in)
	return s
}

func grownStory() *story {
	return jvmOfPod().weighed(10, 200*mib, 512*mib, 12*mib, 96*mib).weighed(300, 400*mib, 512*mib, 188*mib, 98*mib).weighed(599, 511*mib, 512*mib, 322*mib, 98*mib)
}

func TestVerdicts(t *testing.T) {
	groupKill := map[string]int64{"before": 0, "after": 1, "peak": 512 * mib}
	own := podPath + "/" + conID
	killed := kernellog.Kill{PID: 4242, Name: "java", Cause: kernellog.GroupLimit, LimitGroup: own, TaskGroup: own, Limit: 512 * mib, Usage: 512 * mib, Anon: 500 * mib}
	change := func(f func(*kernellog.Kill)) kernellog.Kill {
		k := killed
		f(&k)
		return k
	}
	for name, c := range map[string]struct {
		story *story
		want  Verdict
		how   doctor.Certainty
		says  string
	}{
		"own limit": {grownStory().ended(600, 0, 9).kill(600, killed), ContainerLimit, doctor.Certain, "own limit of 512 MiB"},
		"own limit, exit code 3 of the container": {grownStory().ended(600, 3, 0).kill(600, killed), ContainerLimit, doctor.Certain, ""},
		"the pod's limit":                         {grownStory().ended(600, 0, 9).kill(600, change(func(k *kernellog.Kill) { k.LimitGroup = podPath })), ParentLimit, doctor.Certain, "the pod's"},
		"a group inside the container":            {grownStory().ended(600, 0, 9).kill(600, change(func(k *kernellog.Kill) { k.TaskGroup = own + "/init" })), ContainerLimit, doctor.Certain, ""},
		"lines lost":                              {grownStory().ended(600, 0, 9).kill(600, change(func(k *kernellog.Kill) { k.LimitGroup, k.TaskGroup = "", "" })), ContainerLimit, doctor.Likely, ""},
		"the machine":                             {grownStory().ended(600, 0, 9).kill(600, change(func(k *kernellog.Kill) { k.Cause, k.LimitGroup = kernellog.MachineLimit, "" })), MachineLimit, doctor.Certain, "the machine ran out"},
		"whole group, named by a thread":          {grownStory().ended(600, 0, 9).kill(600, change(func(k *kernellog.Kill) { k.PID, k.Whole = 4250, true })), ContainerLimit, doctor.Certain, ""},
		"agent that missed the end":               {grownStory().kill(600, killed), ContainerLimit, doctor.Certain, ""},
		"a kill before it lived":                  {grownStory().ended(600, 0, 9).kill(-50, killed), Killed, doctor.Certain, "memory was not why"},
		"a kill long after it":                    {grownStory().ended(600, 0, 9).kill(900, killed), Killed, doctor.Certain, ""},
		"a kill of another boot":                  {grownStory().ended(600, 0, 9).kill(600, killed).with(func(in *Input) { in.LogBoot = "1" + boot[1:] }), Killed, doctor.Likely, ""},
		"child, lives":                            {jvmOfPod().look(10, 500*mib, 512*mib).with(func(in *Input) { in.Alive = true }).kill(9, change(func(k *kernellog.Kill) { k.PID, k.Name = 4300, "convert" })), ChildKilled, doctor.Certain, "convert"},
		"child, then exit":                        {grownStory().event(600, ledger.OOMKill, groupKill).ended(601, 1, 0), ChildKilled, doctor.Likely, "exit code 1"},
		"group alone":                             {grownStory().event(600, ledger.OOMKill, groupKill).ended(600, 0, 9), ContainerLimit, doctor.Certain, ""},
		"group alone, no exit":                    {grownStory().event(600, ledger.OOMKill, groupKill).event(600, ledger.Ended, nil), ContainerLimit, doctor.Likely, ""},
		"group alone, parent":                     {grownStory().event(600, ledger.OOMKill, groupKill).ended(600, 0, 9).with(func(in *Input) { in.Process.Group.LimitPath = podPath }), ParentLimit, doctor.Certain, "the pod's"},
		"group, far from its limit":               {jvmOfPod().look(10, 100*mib, 512*mib).event(11, ledger.OOMKill, map[string]int64{"before": 0, "after": 1, "peak": 101 * mib}).ended(11, 0, 9), MachineLimit, doctor.Likely, "most likely the machine's"},
		"a kill of the group long before":         {jvmOfPod().event(10, ledger.OOMKill, groupKill).look(600, 100*mib, 512*mib).ended(601, 0, 0), Exited, doctor.Certain, "exit code 0"},
		"137 and nothing else":                    {jvmOfPod().ended(20, 0, 9), Unknown, doctor.Possible, "by whom is not known: no limit of its group was seen"},
		"137 at the limit, no more":               {grownStory().with(func(in *Input) { in.Process.Group.Version = 0 }).ended(600, 0, 9), Unknown, doctor.Possible, "by whom is not known"},
		"exit code 137 of a shell":                {jvmOfPod().look(10, 100*mib, 512*mib).ended(20, 137, 0), Exited, doctor.Certain, "137"},
		"SIGTERM":                                 {jvmOfPod().ended(20, 143, 0), Killed, doctor.Likely, "SIGTERM"},
		"OutOfMemoryError":                        {jvmOfPod().look(10, 100*mib, 512*mib).ended(20, 3, 0).with(func(in *Input) { in.Process.Flags = flags }), OutOfMemoryError, doctor.Likely, "ended itself"},
		"exit code 3 without it":                  {jvmOfPod().ended(20, 3, 0), Exited, doctor.Certain, ""},
		"heap dump of one that lives":             {jvmOfPod().look(10, 100*mib, 512*mib).with(func(in *Input) { in.Alive, in.HeapDump = true, "/app/java_pid7.hprof" }), OutOfMemoryError, doctor.Likely, "lives on"},
		"native crash":                            {jvmOfPod().ended(20, 0, 6).with(func(in *Input) { in.Crash = readCrash(t, "hs_err-fault-17.log") }), NativeCrash, doctor.Certain, "Unsafe_PutByte"},
		"crash without its file":                  {jvmOfPod().ended(20, 0, 6), NativeCrash, doctor.Likely, "SIGABRT"},
		"crash on OutOfMemoryError":               {jvmOfPod().ended(20, 0, 6).with(func(in *Input) { in.Crash = readCrash(t, "hs_err-oom-17.log") }), OutOfMemoryError, doctor.Certain, "Java heap space"},
		"systemd-oomd": {jvmOfPod().ended(20, 0, 9).with(func(in *Input) {
			in.Process.Group.Path = "/system.slice/shop.service"
			in.Log = &kernellog.Events{Lines: 1, OOMD: []kernellog.GroupKill{{Stamp: kernellog.Stamp{Uptime: 119 * time.Second, Boot: boot}, Group: "/system.slice/shop.service", Why: "memory pressure for /system.slice being 85% > 80%"}}}
		}), OOMD, doctor.Certain, "systemd-oomd"},
		"nobody saw": {jvmOfPod().look(10, 100*mib, 512*mib), Unknown, doctor.Possible, "nobody saw its end"},
		"it runs":    {jvmOfPod().look(10, 100*mib, 512*mib).with(func(in *Input) { in.Alive = true }), Running, doctor.Certain, "runs"},
	} {
		r := Examine(c.story.in)
		if r.Verdict != c.want || r.Confidence != c.how || !strings.Contains(r.Headline, c.says) {
			t.Errorf("%s: %s, %s: %s\nwant %s, %s: %s", name, r.Verdict, r.Confidence, r.Headline, c.want, c.how, c.says)
		}
		if r.Schema != Schema || r.Name != "shop.jar" || r.Moments == nil || r.Growth == nil || r.Do == nil || r.Missing == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What grew, how the heap was, and what would have stayed below the limit.
func TestGrowthAndAdvice(t *testing.T) {
	r := Examine(grownStory().ended(600, 0, 9).event(600, ledger.OOMKill, map[string]int64{"before": 0, "after": 1}).in)
	if r.What != "Its heap was 40 % used 1.0 s before the end. Direct buffers grew by 310 MiB in the 10 minutes before." {
		t.Errorf("%q", r.What)
	}
	if g := r.Growth[0]; g.Account != DirectBuffers || g.From != 12*mib || g.To != 322*mib {
		t.Errorf("%+v", r.Growth)
	}
	// 511 of 512 MiB were used; 25.6 MiB are left free: 322 less 24.6.
	if want := "-XX:MaxDirectMemorySize=297m"; r.Do[0].Option != want {
		t.Errorf("%+v, want %s", r.Do, want)
	}
	if !strings.Contains(r.Do[1].Text, "each 100 MiB more would have lasted 3 minutes") {
		t.Errorf("%+v", r.Do)
	}
	for _, m := range r.Moments {
		sum := int64(0)
		for _, n := range m.Accounts {
			sum += n
		}
		if sum != m.ResidentBytes {
			t.Errorf("%+v add up to %d", m, sum)
		}
	}
}

// Of many moments four are told, from the last trough to the last look.
func TestMoments(t *testing.T) {
	s := jvmOfPod().weighed(10, 500*mib, 512*mib, 400*mib, 20*mib)
	for i := range 100 {
		s.weighed(20+i, 100*mib+int64(i)*4*mib, 512*mib, int64(i)*4*mib, 20*mib)
	}
	r := Examine(s.ended(120, 0, 9).in)
	var before []float64
	for _, m := range r.Moments {
		before = append(before, m.BeforeSeconds)
	}
	if len(before) != 4 || before[0] != 100 || before[3] != 1 || before[1] <= before[2] {
		t.Errorf("%v", before)
	}
}

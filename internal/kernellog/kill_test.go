package kernellog

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func readText(t testing.TB, name string) *Events {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// short is what matters of a kill, in a line.
func short(k Kill) string {
	group := func(g string) string {
		parts := strings.Split(g, "/")
		last := parts[len(parts)-1]
		return last[:min(len(last), 16)]
	}
	return fmt.Sprintf("%s %s>%s %d %s uid %d %dM of %dM by %q whole %v tasks %d", k.Cause, group(k.LimitGroup), group(k.TaskGroup), k.PID, k.Name, k.UID, k.Resident()>>20, k.Limit>>20, k.Invoker, k.Whole, len(k.Tasks))
}

// Each text of the corpus tells what its README says.
func TestCorpus(t *testing.T) {
	for name, want := range map[string][]string{
		"linux-6.18-v1.dmesg": {
			`group ap1>leaf 27222 java uid 0 124M of 100M by "java" whole false tasks 1`,
			`group ap1>ap1 27279 java uid 0 124M of 100M by "java" whole false tasks 1`,
		},
		"linux-6.1-v2.kmsg": {
			`group own>own 133 java uid 0 158M of 160M by "java" whole false tasks 1`,
			`group pod1>web 239 java uid 0 198M of 200M by "java" whole false tasks 1`,
			`group grp>grp 319 java uid 0 158M of 160M by "java" whole true tasks 2`,
			`group grp>grp 316 sleep uid 0 0M of 160M by "java" whole true tasks 2`,
			`group grp>grp 319 java uid 0 158M of 160M by "java" whole true tasks 2`,
			`group child>child 480 tail uid 0 260M of 260M by "tail" whole false tasks 2`,
			`machine >free 487 java uid 0 589M of 0M by "sh" whole false tasks 7`,
		},
		"linux-3.10-el7.dmesg":      {`group > 28438 java uid -1 468M of 0M by "" whole false tasks 1`},
		"linux-3.19.syslog":         {`group > 19715 java uid -1 298M of 0M by "" whole false tasks 0`},
		"linux-4.15-docker.dmesg":   {`group 0f2b3fcdd2578165>0f2b3fcdd2578165 27281 java uid -1 524M of 512M by "" whole false tasks 1`},
		"linux-4.15-java.dmesg":     {`group > 4883 java uid -1 515M of 0M by "" whole false tasks 0`},
		"linux-4.19-kubepods.dmesg": nil,
		"ubuntu-18.04.syslog": {
			`group > 4254 python3 uid -1 8M of 0M by "" whole false tasks 0`,
			`group > 4255 python3 uid -1 8M of 0M by "" whole false tasks 0`,
		},
		"linux-5.8-ltp.dmesg":         {`group ltp_19257>ltp_19257 19289 memcg_process uid 0 1M of 0M by "memcg_process" whole false tasks 1`},
		"kubevirt.journal":            nil,
		"java-pod.dmesg":              {`group pod28fcb1a0-a45c>3e5e5eab87df615f 50624 java uid 10000 8058M of 0M by "" whole false tasks 0`},
		"linux-6.16-debian.dmesg":     {`machine > 3581527 uwsgi uid 33 285M of 0M by "" whole false tasks 0`},
		"systemd-oomd.journal":        nil,
		"systemd-oomd-marked.journal": nil,
		"faults.dmesg":                nil,
	} {
		var got []string
		for _, k := range readText(t, name).Kills {
			got = append(got, short(k))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// The three kernels of the virtual machines tell the same five stories.
func TestCorpusOfMachines(t *testing.T) {
	for _, name := range []string{"linux-6.1-v2.kmsg", "linux-6.12-v2.kmsg", "linux-7.2-v2.kmsg"} {
		e := readText(t, name)
		var stories []string
		for i, k := range e.Kills {
			if i > 0 && k.Whole && e.Kills[i-1].Whole {
				continue // of a group, the kernel names each process, some by another thread, some twice
			}
			stories = append(stories, fmt.Sprintf("%s %s %s %s %v", k.Cause, k.LimitGroup, k.TaskGroup, k.Name, k.Whole))
			if version := strings.TrimSuffix(strings.TrimPrefix(name, "linux-"), "-v2.kmsg"); !strings.HasPrefix(k.Kernel, version+".") {
				t.Errorf("%s: kernel %q", name, k.Kernel)
			}
			if k.Uptime == 0 || k.Resident() == 0 {
				t.Errorf("%s: %+v", name, k)
			}
			if i := slices.IndexFunc(k.Tasks, func(task Task) bool { return task.PID == k.PID && task.Name == k.Name }); i < 0 {
				t.Errorf("%s: %d is not in %+v", name, k.PID, k.Tasks)
			} else if r := k.Tasks[i].Resident; r < k.Resident()*9/10 || r > k.Resident()*11/10 {
				t.Errorf("%s: %d resident in the table, %d in the line of the kill", name, r, k.Resident())
			}
		}
		want := []string{
			"group /own /own java false", "group /kubepods/pod1 /kubepods/pod1/web java false", "group /grp /grp java true",
			"group /child /child tail false", "machine  /free java false",
		}
		if !slices.Equal(stories, want) {
			t.Errorf("%s:\n%s", name, strings.Join(stories, "\n"))
		}
	}
}

func TestOthers(t *testing.T) {
	for _, name := range []string{"systemd-oomd.journal", "systemd-oomd-marked.journal"} {
		e := readText(t, name)
		if len(e.OOMD) != 1 || !strings.HasPrefix(e.OOMD[0].Group, "/") || !strings.HasPrefix(e.OOMD[0].Why, "memory pressure for /") {
			t.Errorf("%s: %+v", name, e.OOMD)
		}
	}
	var faults []string
	for _, f := range readText(t, "faults.dmesg").Faults {
		faults = append(faults, fmt.Sprint(f.Name, " ", f.TID, " ", f.What, " in ", f.In))
	}
	if want := []string{"xawtv.bin 3666 segfault at 0 in libc-2.10.1.so", "depmod 483 segfault at 0 in libc-2.31.so", "core 1161856 segfault at 0 in core"}; !slices.Equal(faults, want) {
		t.Errorf("%q", faults)
	}
}

// A kill is found in all forms of a log, with what each knows of the time.
func TestForms(t *testing.T) {
	const (
		text = "Memory cgroup out of memory: Killed process 50624 (java) total-vm:59726088kB, anon-rss:8225208kB, file-rss:26912kB, shmem-rss:0kB, UID:10000 pgtables:21384kB oom_score_adj:969"
		boot = "0f1c2a9e-3b52-4a7e-9d9c-5a5b6c7d8e9f"
	)
	up := 1357*time.Second + 449915*time.Microsecond
	at := time.Date(2026, 11, 24, 9, 0, 0, 5000, time.UTC)
	for form, c := range map[string]struct {
		log  string
		want Stamp
	}{
		"kmsg":            {"3,402,1357449915,-,caller=T12;" + text + "\n SUBSYSTEM=x\n", Stamp{Uptime: up}},
		"dmesg":           {"[ 1357.449915] " + text, Stamp{Uptime: up}},
		"dmesg with ids":  {"[ 1357.449915][    C1] " + text, Stamp{Uptime: up}},
		"dmesg --decode":  {"kern  :err   : [ 1357.449915] " + text, Stamp{Uptime: up}},
		"dmesg --ctime":   {"[Thu Dec  7 00:05:14 2017] " + text, Stamp{}},
		"dmesg iso":       {"2026-11-24T10:00:00,000005+01:00 " + text, Stamp{At: at}},
		"syslog":          {"Dec 11 10:49:37 web-1 kernel: [ 1357.449915] " + text, Stamp{Uptime: up}},
		"journal short":   {"Dec 11 10:49:37 web-1 kernel: " + text, Stamp{}},
		"journal iso":     {"2026-11-24T10:00:00.000005+0100 web-1 kernel: " + text, Stamp{At: at}},
		"none":            {text, Stamp{}},
		"journal export":  {"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1795510800000005\n__MONOTONIC_TIMESTAMP=9\n_BOOT_ID=" + strings.ReplaceAll(boot, "-", "") + "\n_SOURCE_MONOTONIC_TIMESTAMP=1357449915\nSYSLOG_IDENTIFIER=kernel\nMESSAGE=" + text + "\n\n", Stamp{up, at, boot}},
		"journal, binary": {"__REALTIME_TIMESTAMP=1795510800000005\nMESSAGE\n" + string([]byte{byte(len(text)), 0, 0, 0, 0, 0, 0, 0}) + text + "\n", Stamp{At: at}},
	} {
		e, err := Read(strings.NewReader(c.log))
		if err != nil || len(e.Kills) != 1 || e.Kills[0].PID != 50624 {
			t.Errorf("%s: %+v, %v", form, e, err)
			continue
		}
		if got := e.Kills[0].Stamp; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", form, got, c.want)
		}
	}
}

// Who may write to the log, but not as the kernel, cannot tell of kills; a name that
// looks like a report does not change one.
func TestPretenders(t *testing.T) {
	for _, log := range []string{
		"Dec 11 10:49:37 web-1 app[7]: Memory cgroup out of memory: Killed process 1 (java) total-vm:1kB, anon-rss:1kB, file-rss:1kB",
		"Dec 11 10:49:37 web-1 app[7]: Killed /system.slice/web.service due to memory pressure for /system.slice being 1%",
		"__CURSOR=1\nSYSLOG_IDENTIFIER=app\nMESSAGE=Out of memory: Killed process 1 (java) total-vm:1kB, anon-rss:1kB, file-rss:1kB\n\n",
	} {
		if e, err := Read(strings.NewReader(log)); err != nil || len(e.Kills)+len(e.OOMD) != 0 {
			t.Errorf("%q: %+v, %v", log, e, err)
		}
	}
	e, err := Read(strings.NewReader("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,b,task_memcg=/a,b/c,task=x,pid=1,pid=7,uid=0\n" +
		"Memory cgroup out of memory: Killed process 7 (x) total-vm:9) total-vm:4kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB"))
	if err != nil || len(e.Kills) != 1 || e.Kills[0].PID != 7 || e.Kills[0].LimitGroup != "/a,b" || e.Kills[0].TaskGroup != "/a,b/c" || e.Kills[0].Name != "x) total-vm:9" {
		t.Errorf("%+v, %v", e.Kills, err)
	}
}

func FuzzRead(f *testing.F) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("__CURSOR=1\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xffx"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := Read(strings.NewReader(string(text)))
		if e == nil || err != nil && !strings.HasPrefix(string(text), "__") {
			t.Fatalf("%v, %v", e, err)
		}
		lines := strings.Count(string(text), "\n") + 1
		if e.Lines > lines || len(e.Kills)+len(e.Faults)+len(e.OOMD) > e.Lines {
			t.Fatalf("%d lines, %d kills, %d faults", e.Lines, len(e.Kills), len(e.Faults))
		}
		for _, k := range e.Kills {
			if k.PID < 0 || k.Anon < 0 || k.File < 0 || k.Shmem < 0 || k.Uptime < 0 || k.Limit < 0 || len(k.Tasks) > maxTasks || k.UID < -1 {
				t.Fatalf("%+v", k)
			}
			if !strings.Contains(string(text), fmt.Sprint(k.Name)) || len(k.LimitGroup) > maxPath {
				t.Fatalf("%+v is not in the text", k)
			}
		}
	})
}

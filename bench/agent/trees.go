package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/agent"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/results"
)

// watchTrees lets an agent watch many JVMs that were recorded from one, on a clock that
// waits for nothing: with its default budget, and with as much as it takes.
func watchTrees(o options) (string, error) {
	dir, err := os.MkdirTemp("/dev/shm", "tare-bench-trees-") // a sparse file of 2^47 bytes
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	h, err := start(o, "", "-Xmx16m")
	if err != nil {
		return "", err
	}
	defer h.end()
	time.Sleep(5 * time.Second) // it starts, and has performance data
	if err := plant(dir, h.Process.Pid, o.trees); err != nil {
		return "", fmt.Errorf("recording process %d: %w", h.Process.Pid, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %d JVMs by recorded trees\n\nOne JVM as above was recorded: its files in /proc, its page map and the memory that was resident. %d such trees, each with a process id, a start time and a control group (v2) of its own, stand in for /proc; the agent's own loop reads them for %s of a clock that is set forward by what the loop waits, as a process of its own. Processor time and memory are real. Files of a tree cost the kernel less than those of /proc, which it makes up at each read: 100 JVMs above have those. A recorded page map is read entry by entry, which takes longer than PAGEMAP_SCAN.\n\n",
		o.trees, o.trees, o.treesFor)
	b.WriteString("| budget | processor, % of one: all, first minute, the rest | looks, of one each every 10 s | JVMs weighed | weighings | put off | highest resident memory (VmHWM), MiB | at most 1 % and 64 MiB |\n|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, share := range []float64{0.01, 1} {
		t, err := beTold(dir, share, o)
		if err != nil {
			return "", err
		}
		judged := ""
		if share == 0.01 {
			judged = results.Reached(t.rest <= 1 && t.peak <= 64<<20)
		}
		fmt.Fprintf(&b, "| %g %% | %.2f, %.2f, %.2f | %.1f %% | %d | %d | %d | %.1f | %s |\n", 100*share, t.all, t.first, t.rest, 100*t.looks, t.weighed, t.weighings, t.deferred, float64(t.peak)/(1<<20), judged)
	}
	return b.String(), nil
}

// treesTold is what an agent took that watched recorded trees.
type treesTold struct {
	all, first, rest             float64 // of a processor, in percent
	looks                        float64 // of those that would be one for each JVM in each interval
	weighed, weighings, deferred int64
	peak                         int64
}

const treesFormat = "all %g first %g rest %g looks %g weighed %d weighings %d deferred %d peak %d\n"

// beTold has this program, as a process of its own, watch the trees.
func beTold(dir string, share float64, o options) (t treesTold, err error) {
	cmd := exec.Command(os.Args[0], "-watch-trees", dir, "-share", fmt.Sprint(share), "-trees", fmt.Sprint(o.trees), "-trees-for", o.treesFor.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return t, fmt.Errorf("watching the trees: %w", err)
	}
	_, err = fmt.Sscanf(string(out), treesFormat, &t.all, &t.first, &t.rest, &t.looks, &t.weighed, &t.weighings, &t.deferred, &t.peak)
	return t, err
}

// skipping is the machine's clock, set forward by what nobody waited for.
type skipping struct {
	agent.Clock
	skipped time.Duration
}

func (c *skipping) Now() time.Time        { return c.Clock.Now().Add(c.skipped) }
func (c *skipping) Uptime() time.Duration { return c.Clock.Uptime() + c.skipped }

// watchPlanted watches the trees in a folder, and prints what that took.
func watchPlanted(dir string, share float64, o options) error {
	ledgers, err := os.MkdirTemp("", "tare-bench-ledger-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(ledgers)
	w, err := ledger.Create(ledgers, 0)
	if err != nil {
		return err
	}
	defer w.Close()
	debug.SetMemoryLimit(36 << 20) // as tare agent with its defaults
	clock := &skipping{Clock: agent.MachineClock()}
	a, err := agent.New(agent.Config{Proc: linux.NewFS(dir), Ledger: w, Interval: 10 * time.Second, WeighEvery: 5 * time.Minute, Share: share, Clock: clock,
		Say: func(err error) { fmt.Fprintln(os.Stderr, "the agent says:", err) }})
	if err != nil {
		return err
	}
	began, spent := clock.Uptime(), clock.Processor()
	var first time.Duration
	for clock.Uptime() < began+o.treesFor {
		clock.skipped += a.Step(context.Background())
		if clock.Uptime() < began+time.Minute {
			first = clock.Processor() - spent
		}
	}
	took, all := clock.Uptime()-began, clock.Processor()-spent
	st, err := linux.NewFS("/proc").Status(os.Getpid())
	if err != nil {
		return err
	}
	if n := a.Stats.JVMs.Load(); n != int64(o.trees) || a.Stats.Failed.Load() > 0 {
		return fmt.Errorf("%d JVMs are watched, %d weighings failed", n, a.Stats.Failed.Load())
	}
	due := float64(o.trees) * took.Seconds() / 10
	fmt.Printf(treesFormat, 100*all.Seconds()/took.Seconds(), 100*first.Seconds()/60, 100*(all-first).Seconds()/(took-time.Minute).Seconds(),
		float64(a.Stats.Looks.Load())/due, a.Stats.First.Load(), a.Stats.Weighings(), a.Stats.Deferred.Load(), st.VmHWM)
	return nil
}

// plant records a process, and makes a proc file system of so many that look like it.
func plant(dir string, pid, trees int) error {
	one := filepath.Join(dir, "recorded")
	if err := record(linux.NewFS("/proc"), pid, one); err != nil {
		return err
	}
	if err := copyFile("/proc/sys/kernel/random/boot_id", filepath.Join(dir, "sys/kernel/random/boot_id")); err != nil {
		return err
	}
	for _, name := range []string{"meminfo", "vmstat"} {
		if err := copyFile("/proc/"+name, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	mounts := fmt.Sprintf("30 1 0:30 / %s/groups rw - cgroup2 cgroup2 rw\n", dir)
	if err := write(filepath.Join(dir, "self/mountinfo"), mounts); err != nil {
		return err
	}
	stat, err1 := os.ReadFile(filepath.Join(one, "stat"))
	status, err2 := os.ReadFile(filepath.Join(one, "status"))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for i := range trees {
		if err := plantOne(dir, firstTree+i, pid, i, string(stat), string(status)); err != nil {
			return err
		}
	}
	return nil
}

// firstTree is the process id of the first tree, above those that a kernel gives to
// processes by default.
const firstTree = 5_000_000

// plantOne makes the tree of a process: the files of the recorded one, and its own of
// those that name it.
func plantOne(dir string, id, pid, number int, stat, status string) error {
	tree, one := filepath.Join(dir, strconv.Itoa(id)), filepath.Join(dir, "recorded")
	group := fmt.Sprintf("/jvms/%d", number)
	name, rest := stat[:strings.LastIndexByte(stat, ')')+1], strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	_, name, _ = strings.Cut(name, " ")
	rest[19] = strconv.Itoa(100 + number) // field 22, when it started
	ids := fmt.Sprintf("\t%d\t%d\n", id, pid)
	var own strings.Builder
	for line := range strings.Lines(status) {
		if key, _, _ := strings.Cut(line, ":"); key == "NSpid" || key == "NStgid" {
			line = key + ":" + ids
		}
		own.WriteString(line)
	}
	files := map[string]string{
		filepath.Join(tree, "stat"):   fmt.Sprintf("%d %s %s\n", id, name, strings.Join(rest, " ")),
		filepath.Join(tree, "status"): own.String(),
		filepath.Join(tree, "cgroup"): "0::" + group + "\n",
	}
	for name, text := range groupFiles {
		files[filepath.Join(dir, "groups", group, name)] = text
	}
	for name, text := range files {
		if err := write(name, text); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(one)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, made := files[filepath.Join(tree, e.Name())]; made {
			continue
		}
		if err := os.Symlink(filepath.Join(one, e.Name()), filepath.Join(tree, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// groupFiles are what a control group (v2) of one JVM tells.
var groupFiles = map[string]string{
	"memory.current":  "58720256\n",
	"memory.max":      "268435456\n",
	"memory.high":     "max\n",
	"memory.peak":     "60817408\n",
	"memory.swap.max": "max\n", "memory.swap.current": "0\n",
	"memory.events":   "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
	"memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"memory.stat": "anon 33554432\nfile 20971520\nkernel 3145728\nkernel_stack 524288\npagetables 655360\nsec_pagetables 0\npercpu 1024\nsock 0\nvmalloc 0\nshmem 0\n" +
		"file_mapped 18874368\nfile_dirty 0\nfile_writeback 0\nswapcached 0\nanon_thp 0\nfile_thp 0\nshmem_thp 0\ninactive_anon 33554432\nactive_anon 0\ninactive_file 10485760\nactive_file 10485760\n" +
		"unevictable 0\nslab_reclaimable 262144\nslab_unreclaimable 524288\nslab 786432\nworkingset_refault_anon 0\nworkingset_refault_file 0\npgfault 20480\npgmajfault 12\n",
}

// record copies what weighing reads of a process: its files, its page map and the memory
// that is resident.
func record(proc linux.FS, pid int, to string) error {
	for _, name := range []string{"stat", "status", "cmdline", "maps", "smaps", "smaps_rollup", "limits", "mountinfo"} {
		if err := copyFile(proc.Path(pid, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{"root": "/", "cwd": "/", "exe": "/bin/true"} {
		if err := os.Symlink(target, filepath.Join(to, link)); err != nil {
			return err
		}
	}
	tids, err := proc.TIDs(pid)
	if err != nil {
		return err
	}
	for _, tid := range tids {
		for _, name := range []string{"syscall", "comm"} {
			elem := filepath.Join("task", strconv.Itoa(tid), name)
			if err := copyFile(proc.Path(pid, elem), filepath.Join(to, elem)); err != nil {
				return err
			}
		}
	}
	return recordPages(proc, pid, to)
}

// recordPages copies the page map and the pages that are present, to where they lie.
func recordPages(proc linux.FS, pid int, to string) (err error) {
	target, err := process.Find(proc, pid)
	if err != nil {
		return err
	}
	var files [4]*os.File
	for i, name := range []string{proc.Path(pid, "pagemap"), proc.Path(pid, "mem"), filepath.Join(to, "pagemap"), filepath.Join(to, "mem")} {
		flags := map[bool]int{false: os.O_RDONLY, true: os.O_WRONLY | os.O_CREATE}[i > 1]
		if files[i], err = os.OpenFile(name, flags, 0o600); err != nil {
			return err
		}
		defer files[i].Close()
	}
	const page, present, most = 4096, 1 << 63, 1 << 30
	copied := 0
	entries, content := make([]byte, 64<<10), make([]byte, page)
	for i := range target.VMAs {
		v := &target.VMAs[i]
		for at := v.Start; at < v.End && v.End < 1<<63; at += uint64(len(entries)) / 8 * page {
			some := entries[:min(uint64(len(entries)), (v.End-at)/page*8)]
			if _, err := files[0].ReadAt(some, int64(at/page*8)); err != nil {
				return err
			}
			for o := 0; o < len(some); o += 8 {
				where := at + uint64(o/8)*page
				if binary.NativeEndian.Uint64(some[o:])&present == 0 {
					continue
				}
				if copied += page; copied > most {
					return fmt.Errorf("it has more than %d bytes", most)
				}
				if _, err := files[2].WriteAt(some[o:o+8], int64(where/page*8)); err != nil {
					return err
				}
				if _, err := files[1].ReadAt(content, int64(where)); err != nil {
					continue // a guard, or a page of the kernel
				}
				if _, err := files[3].WriteAt(content, int64(where)); err != nil {
					return err
				}
			}
		}
	}
	// What lies behind the last page reads as zeros, as it does in the kernel's file.
	return errors.Join(files[2].Truncate(1<<47/page*8), files[3].Truncate(1<<47))
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, string(text))
}

func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o600)
}

package kernellog

import (
	"cmp"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/lazy"
)

// Cause says whose memory ran out.
type Cause string

// The causes.
const (
	GroupLimit   Cause = "group"         // of a control group
	MachineLimit Cause = "machine"       // of the machine
	CpusetLimit  Cause = "cpuset"        // of the nodes of a cpuset
	PolicyLimit  Cause = "memory-policy" // of the nodes of a memory policy
)

// Kill is one process that the kernel killed because memory ran out (mm/oom_kill.c,
// mm/memcontrol.c). Sizes are bytes; what was not said is zero.
type Kill struct {
	Stamp
	Cause Cause `json:"cause,omitempty"`
	// LimitGroup is the control group whose limit was reached, as the kernel sees
	// it from its root; TaskGroup is that of the process. "" where not told.
	LimitGroup string `json:"limitGroup,omitempty"`
	TaskGroup  string `json:"taskGroup,omitempty"`
	// PID is in the machine's own PID namespace; of a whole group it may be that of
	// another thread than the main one. Name is the first 15 bytes of its name.
	PID  int    `json:"pid"`
	Name string `json:"name"`
	UID  int    `json:"uid"` // -1 where not told
	// Invoker is the thread that asked for a page when there was none left: a clue,
	// and not the culprit.
	Invoker string `json:"invoker,omitempty"`
	// Whole says that all processes of the group were killed (memory.oom.group).
	Whole bool `json:"whole,omitempty"`
	// Usage and Limit are of LimitGroup.
	Usage int64 `json:"usage,omitempty"`
	Limit int64 `json:"limit,omitempty"`

	Anon  int64 `json:"anon,omitempty"`
	File  int64 `json:"file,omitempty"`
	Shmem int64 `json:"shmem,omitempty"`
	// Tasks are the processes that could have been killed; nil where not told.
	Tasks []Task `json:"tasks,omitempty"`
	// Kernel is the version of the kernel, as it says of itself.
	Kernel string `json:"kernel,omitempty"`
}

// Resident is what the process had in memory.
func (k *Kill) Resident() int64 { return k.Anon + k.File + k.Shmem }

// Task is a row of the table of processes, in bytes.
type Task struct {
	PID      int    `json:"pid"`
	UID      int    `json:"uid"`
	Name     string `json:"name"`
	Resident int64  `json:"resident"`
	// Anon, File and Shmem are told since Linux 6.9; zero before.
	Anon        int64 `json:"anon,omitempty"`
	File        int64 `json:"file,omitempty"`
	Shmem       int64 `json:"shmem,omitempty"`
	Swapped     int64 `json:"swapped,omitempty"`
	OOMScoreAdj int   `json:"oomScoreAdj,omitempty"`
}

// Fault is a thread that died by a fault which no handler of its own took. HotSpot
// takes most of its own: its hs_err file tells of those.
type Fault struct {
	Stamp
	// TID is the thread's id in the machine's own PID namespace.
	TID  int    `json:"tid"`
	Name string `json:"name"`
	What string `json:"what"` // such as "segfault at 0"
	In   string `json:"in,omitempty"`
}

// GroupKill is a control group that systemd-oomd killed (systemd-oomd.service(8)).
type GroupKill struct {
	Stamp
	Group string `json:"group"`
	Why   string `json:"why"`
}

// Events is what a log tells of ends, each in the order of the log.
type Events struct {
	Kills  []Kill      `json:"kills"`
	Faults []Fault     `json:"faults"`
	OOMD   []GroupKill `json:"oomd"`
	// First and Last are the times of the first and the last line that has one: what
	// happened before or after is not known.
	First Stamp `json:"first"`
	Last  Stamp `json:"last"`
	Lines int   `json:"lines"`
}

const (
	maxTasks  = 4096
	maxEvents = 10_000
	maxName   = 64
	maxPath   = 4096
)

// Read reads a log of any form (see Lines), and returns what it tells of ends. It
// keeps the last ones where there are very many.
func Read(r io.Reader) (*Events, error) {
	p := &parser{}
	err := Lines(r, func(l Line) bool {
		p.line(l)
		return true
	})
	return &p.Events, err
}

// parser goes through the lines of reports. The kernel writes one report at a time
// (oom_lock), other lines may stand between.
type parser struct {
	Events
	report Kill // what is known of the report that is being read
	table  []string
	// killed says that the report has named a process already: another one belongs
	// to it only when the whole group is killed.
	killed bool
}

var (
	invoked   = lazy.Regexp(`(?:^|[\]:] )([^:\[\]]{1,64}?(?:\[[^\]]{0,16}\])?) invoked oom-killer: `)
	kernelOf  = lazy.Regexp(`Comm: .{0,64} (?:Not tainted|Tainted: .{0,64}?) +(\d+\.\d+[^ ]{0,64}) #`)
	usageOf   = lazy.Regexp(`(?:^|: )memory: usage (\d{1,18})kB, limit (\d{1,18})kB`)
	taskIn    = lazy.Regexp(`(?:^|: )Task in (/.*) killed as a result of limit of (/.*)$`)
	summary   = lazy.Regexp(`oom-kill:constraint=(CONSTRAINT_[A-Z_]+),(.*)$`)
	tableHead = lazy.Regexp(`\[ *pid *\] +uid +tgid +total_vm +(rss .*) name$`)
	tableRow  = lazy.Regexp(`\[ *(\d{1,10})\] +(\d{1,10}) +(\d{1,10}) +(\d{1,18}) +(.*)$`)
	killed    = lazy.Regexp(`Killed process (\d{1,10}) \((.{0,64})\),?(?: UID (\d{1,10}),)? total-vm:\d+kB, anon-rss:(\d{1,18})kB, file-rss:(\d{1,18})kB(?:, shmem-rss:(\d{1,18})kB)?(.*)$`)
	killedUID = lazy.Regexp(`UID:(\d{1,10})`)
	wholeOf   = lazy.Regexp(`Tasks in (/.*) are going to be killed due to memory\.oom\.group set`)
	segfault  = lazy.Regexp(`(?:^|: )(.{1,16})\[(\d{1,10})\]:? (segfault at [0-9a-f]+|general protection(?: fault)?|trap [a-z ]{1,24}) ip:? ?[0-9a-fx]+ sp:? ?[0-9a-fx]+ error:? ?[0-9a-f]+(?: in (\S{1,255}?)\[)?`)
	oomdKill  = lazy.Regexp(`(?:^|: )(?:Killed (/.*?)|Marked (/.*?) for killing) due to (memory .*)$`)
)

// line takes one line.
func (p *parser) line(l Line) {
	p.Lines++
	if l.Uptime != 0 || !l.At.IsZero() {
		if p.First == (Stamp{}) {
			p.First = l.Stamp
		}
		p.Last = l.Stamp
	}
	t := l.Text
	switch {
	case l.Program == "systemd-oomd":
		if m := oomdKill().FindStringSubmatch(t); m != nil {
			p.oomd(l.Stamp, m)
		}
	case l.Program != "" && l.Program != "kernel":
		// Other programs may quote the kernel, or pretend to be it.
	case strings.Contains(t, "invoked oom-killer: "):
		p.report, p.table, p.killed = Kill{Stamp: l.Stamp, UID: -1}, nil, false
		if m := invoked().FindStringSubmatch(t); m != nil {
			p.report.Invoker = cut(m[1], maxName)
		}
	case strings.Contains(t, "Killed process "):
		p.kill(l)
	case strings.Contains(t, "sacrifice child"): // "Memory cgroup out of memory: Kill process 1 (a) score 2 or sacrifice child"
		p.again()
		p.report.Cause = causeOf(t, p.report.Cause)
	default:
		p.detail(l)
	}
}

// detail takes a line of a report that names no process that was killed. Most lines
// of a log are none: a word tells before an expression is tried.
func (p *parser) detail(l Line) {
	t := l.Text
	match := func(word string, e func() *regexp.Regexp) []string {
		if !strings.Contains(t, word) {
			return nil
		}
		return e().FindStringSubmatch(t)
	}
	if m := match("oom-kill:constraint=", summary); m != nil {
		p.again()
		p.summary(m[1], m[2])
	} else if m := match(" killed as a result of limit of ", taskIn); m != nil {
		p.again()
		p.report.TaskGroup, p.report.LimitGroup = cut(m[1], maxPath), cut(m[2], maxPath)
		p.report.Cause = GroupLimit
	} else if m := match("memory: usage ", usageOf); m != nil {
		p.report.Usage, p.report.Limit = kilobytes(m[1]), kilobytes(m[2])
	} else if m := match(" total_vm ", tableHead); m != nil {
		p.table, p.report.Tasks = strings.Fields(m[1]), nil
	} else if m := match("memory.oom.group", wholeOf); m != nil {
		p.whole(m[1])
	} else if m := match(" Comm: ", kernelOf); m != nil {
		p.report.Kernel = m[1]
	} else if m := match(" error", segfault); m != nil {
		tid, _ := strconv.Atoi(m[2])
		p.Faults = appendLast(p.Faults, Fault{l.Stamp, tid, m[1], m[3], m[4]})
	} else if p.table != nil {
		p.row(t)
	}
}

// again begins a report anew when the one before has had its process: the kernel
// leaves out the first lines when it has many to write.
func (p *parser) again() {
	if p.killed {
		p.report, p.table, p.killed = Kill{UID: -1}, nil, false
	}
}

// summary takes the line that Linux has since 5.0. Names of groups and of the process
// may have commas themselves, and are found from their ends.
func (p *parser) summary(constraint, rest string) {
	r := &p.report
	switch constraint {
	case "CONSTRAINT_MEMCG":
		r.Cause = GroupLimit
	case "CONSTRAINT_NONE":
		r.Cause = MachineLimit
	case "CONSTRAINT_CPUSET":
		r.Cause = CpusetLimit
	case "CONSTRAINT_MEMORY_POLICY":
		r.Cause = PolicyLimit
	}
	if i := strings.LastIndex(rest, ",task="); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndex(rest, ",task_memcg="); i >= 0 {
		r.TaskGroup, rest = cut(rest[i+len(",task_memcg="):], maxPath), rest[:i]
	}
	if i := strings.Index(rest, ",oom_memcg="); i >= 0 {
		r.LimitGroup = cut(rest[i+len(",oom_memcg="):], maxPath)
	}
}

// row takes a row of the table of processes. Its sizes are pages.
func (p *parser) row(t string) {
	m := tableRow().FindStringSubmatch(t)
	if m == nil || len(p.report.Tasks) >= maxTasks {
		return
	}
	fields := strings.Fields(m[5])
	if len(fields) <= len(p.table) {
		return // no name
	}
	task := Task{Name: cut(strings.Join(fields[len(p.table):], " "), maxName)}
	task.PID, _ = strconv.Atoi(m[3]) // tgid; the first is the thread's that stands for it
	task.UID, _ = strconv.Atoi(m[2])
	for i, column := range p.table {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil || n > maxPages || n < -maxPages {
			return
		}
		switch column {
		case "rss":
			task.Resident = n * pageSize
		case "rss_anon":
			task.Anon = n * pageSize
		case "rss_file":
			task.File = n * pageSize
		case "rss_shmem":
			task.Shmem = n * pageSize
		case "swapents":
			task.Swapped = n * pageSize
		case "oom_score_adj":
			task.OOMScoreAdj = int(n)
		}
	}
	p.report.Tasks = append(p.report.Tasks, task)
}

const (
	// pageSize is that of the logs that were seen. Of a kernel with larger pages,
	// the line of the process itself tells in kB.
	pageSize = 4096
	maxPages = int64(1) << 50
)

// kill takes the line that names a process.
func (p *parser) kill(l Line) {
	m := killed().FindStringSubmatch(l.Text)
	if m == nil {
		return
	}
	if p.killed && !p.report.Whole {
		p.again()
	}
	k := p.report
	k.Stamp = l.Stamp
	k.PID, _ = strconv.Atoi(m[1])
	k.Name = m[2]
	k.UID = -1
	if uid := cmp.Or(m[3], first(killedUID().FindStringSubmatch(m[7]))); uid != "" {
		k.UID, _ = strconv.Atoi(uid)
	}
	k.Anon, k.File, k.Shmem = kilobytes(m[4]), kilobytes(m[5]), kilobytes(m[6])
	k.Cause = causeOf(l.Text, k.Cause)
	p.Kills = appendLast(p.Kills, k)
	p.killed, p.table = true, nil
}

// causeOf is what the words before a kill say, if nothing did before.
func causeOf(text string, known Cause) Cause {
	switch {
	case known != "":
		return known
	case strings.Contains(text, "Memory cgroup out of memory: "):
		return GroupLimit
	case strings.Contains(text, "Out of memory: "), strings.Contains(text, "Out of memory ("):
		return MachineLimit
	}
	return ""
}

// whole marks a kill as one of a whole group.
func (p *parser) whole(group string) {
	if n := len(p.Kills); p.killed && n > 0 {
		p.Kills[n-1].Whole = true
		p.report.Whole = true
		if p.report.LimitGroup == "" {
			p.report.TaskGroup = cut(group, maxPath)
		}
	}
}

func appendLast[T any](all []T, one T) []T {
	if len(all) >= maxEvents {
		all = slices.Delete(all, 0, maxEvents/2)
	}
	return append(all, one)
}

// kilobytes is the kernel's kB in bytes; 0 for "".
func kilobytes(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return min(n, 1<<52) << 10
}

func cut(text string, most int) string { return text[:min(len(text), most)] }

func first(m []string) string {
	if m == nil {
		return ""
	}
	return m[1]
}

// oomd takes what systemd-oomd did. Since version 259 it marks a group before, and
// may not say that it was killed.
func (p *parser) oomd(at Stamp, m []string) {
	group := cut(cmp.Or(m[1], m[2]), maxPath)
	if n := len(p.OOMD); n > 0 && p.OOMD[n-1].Group == group && m[1] != "" {
		p.OOMD = p.OOMD[:n-1]
	}
	p.OOMD = appendLast(p.OOMD, GroupKill{at, group, cut(m[3], 256)})
}

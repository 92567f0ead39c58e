// Package agent watches the JVMs of a machine, and keeps what it sees in a ledger.
// It takes no more of the machine than it is told to.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"tare.dev/tare/internal/doctor"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/kubeapi"
	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
)

// Config is what an agent does, and by what means.
type Config struct {
	Proc   linux.FS
	Ledger *ledger.Writer
	// Interval lies between two looks at a JVM, WeighEvery between two weighings of
	// one whose memory does not move.
	Interval, WeighEvery time.Duration
	// Share is how much of one processor the agent may take, such as 0.01.
	Share float64
	// Version is told at the start.
	Version string
	// Say is called with what a user should know, once for each trouble.
	Say func(error)
	// Examine makes the autopsy of a JVM of the ledger; nil makes none.
	Examine func(ledger.ID) (*ledger.Autopsy, error)
	// Clock is the machine's when it is nil.
	Clock Clock
	// Excused is what of the process's processor time the budget does not pay, such as for
	// answers to those who ask; it only grows. nil is none.
	Excused func() time.Duration
	// NameOf is what a cluster calls the pod and the container of a control group's path;
	// nil where no cluster is asked. What is empty is not known yet.
	NameOf func(path string) kubeapi.Identity
}

// Clock tells times, and what the agent itself has taken.
type Clock interface {
	Now() time.Time
	Uptime() time.Duration    // since boot
	Processor() time.Duration // that this process has taken
}

const (
	// MinInterval is the shortest interval.
	MinInterval = time.Second
	// upkeep lies between two accounts of what was spent, and two flushes to the
	// disk.
	upkeep = time.Minute
	// grownUp is the age at which a JVM has read its options and is weighed first.
	grownUp = 3 * time.Second
	// weighLimit bounds one weighing.
	weighLimit = 10 * time.Second
	// firstWait is how long the first weighing of a JVM waits for looks at others.
	firstWait = 10 * time.Second
)

// Stats is what an agent did, for its metrics. All count since its start.
type Stats struct {
	JVMs, Looks, Glances, Alarms, Deferred, Ended atomic.Int64
	First, Moved, Due, LastLook, Failed, Findings atomic.Int64
	Autopsies                                     atomic.Int64
}

// Weighings is how often a JVM was weighed.
func (s *Stats) Weighings() int64 {
	return s.First.Load() + s.Moved.Load() + s.Due.Load() + s.LastLook.Load()
}

// Agent watches the JVMs of a machine.
type Agent struct {
	Stats Stats

	cfg    Config
	boot   string
	budget budget
	volume volume
	finder *finder
	tables footprint.Tables
	jvms   map[int]*jvm
	alarms *alarms // nil where the kernel gives none
	// inquests are the JVMs whose autopsy is to be made, and when.
	inquests map[ledger.ID]time.Duration
	// next are when it finds JVMs again, and does its upkeep; and the soonest time of a
	// first weighing before looks.
	nextFind, nextUpkeep, nextFirst time.Duration
	// full says that the ledger could not be written to, and that this was said.
	full bool
	// lost is how many records were lost at the last upkeep, told how many of them
	// the ledger tells of.
	lost, told int64
}

// New makes an agent.
func New(cfg Config) (*Agent, error) {
	if cfg.Clock == nil {
		cfg.Clock = machineClock{}
	}
	boot, err := cfg.Proc.BootID()
	if err != nil {
		return nil, err
	}
	if cfg.Excused == nil {
		cfg.Excused = func() time.Duration { return 0 }
	}
	up := cfg.Clock.Uptime()
	return &Agent{cfg: cfg, boot: boot, budget: newBudget(cfg.Share, up, cfg.Clock.Processor()-cfg.Excused()), volume: newVolume(up),
		finder: newFinder(cfg.Proc), jvms: map[int]*jvm{}, inquests: map[ledger.ID]time.Duration{}}, nil
}

// Run watches until the context ends, which is no error.
func (a *Agent) Run(ctx context.Context) error {
	a.write(ledger.Record{Event: &ledger.Event{Kind: ledger.AgentStart, Text: a.cfg.Version}})
	var err error
	if a.alarms, err = newAlarms(a.cfg.Proc); err != nil {
		a.say(err)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return a.stop()
		case pid := <-a.rung():
			a.rouse(pid)
		case <-timer.C:
		}
		timer.Reset(a.Step(ctx))
	}
}

// rung is where alarms ring; nil, which never does, without any.
func (a *Agent) rung() <-chan int {
	if a.alarms == nil {
		return nil
	}
	return a.alarms.ring
}

// rouse has the agent glance at a JVM at once, or tell its end.
func (a *Agent) rouse(pid int) {
	up, stalled := a.cfg.Clock.Uptime(), a.alarms.stalled(pid)
	if pid == wholeMachine {
		a.pressMachine(up)
		return
	}
	j := a.jvms[pid]
	if j == nil {
		return
	}
	a.Stats.Alarms.Add(1)
	if birth, err := a.cfg.Proc.Birth(pid); err != nil || birth != j.target.Birth {
		a.end(j)
		return
	}
	j.glance = min(j.glance, up)
	if stalled {
		a.press(j, up)
	}
}

// alarm sets the alarm of a JVM, where the kernel gives one, and again when its
// limit has changed.
func (a *Agent) alarm(j *jvm) {
	g := j.limit.Group
	if a.alarms == nil || g.Dir == "" || j.alarmed == j.counters.Limit {
		return
	}
	if j.unset != nil {
		j.unset()
		j.unset = nil
	}
	if j.alarmed = j.counters.Limit; j.alarmed <= 0 {
		return
	}
	// Without one, glances do what they can.
	j.unset, _ = a.alarms.set(j.target.PID, g, j.alarmed)
}

// stop tells of the end of the agent, not of the JVMs.
func (a *Agent) stop() error {
	a.inquire(a.cfg.Clock.Uptime() + afterKill)
	a.account()
	a.write(ledger.Record{Event: &ledger.Event{Kind: ledger.AgentStop}})
	for _, j := range a.jvms {
		j.close()
	}
	if a.alarms != nil {
		a.alarms.close()
	}
	return a.cfg.Ledger.Sync()
}

// shortestStep is between two steps at least: the machine is not the agent's alone.
const shortestStep = 20 * time.Millisecond

// Step does what is due, as far as the budget allows, and says how long the next
// one may wait.
func (a *Agent) Step(ctx context.Context) time.Duration {
	up := a.settle()
	if up >= a.nextFind {
		a.find(up)
	}
	a.weighFirst(ctx, up)
	a.lookAround(up)
	a.weighMost(ctx)
	a.inquire(a.cfg.Clock.Uptime())
	if up = a.settle(); up >= a.nextUpkeep {
		a.upkeep()
		a.nextUpkeep = up + upkeep
	}
	return max(shortestStep, a.next()-a.cfg.Clock.Uptime())
}

// settle brings the budget up to date, and returns the time since boot.
func (a *Agent) settle() time.Duration {
	up := a.cfg.Clock.Uptime()
	a.budget.settle(up, a.cfg.Clock.Processor()-a.cfg.Excused())
	return up
}

// next is when something is due that the budget will allow.
func (a *Agent) next() time.Duration {
	next := a.nextInquest(min(a.nextFind, a.nextUpkeep))
	up := a.cfg.Clock.Uptime()
	glances := up + a.budget.wait(a.budget.rest())
	for _, j := range a.jvms {
		due := j.glance
		if !j.hurries() {
			due = max(due, glances)
		}
		next = min(next, j.look, due)
		if j.want != "" {
			next = min(next, max(j.wanted, up+a.budget.wait(a.reserve(j.want))))
		}
	}
	return max(next, up+a.budget.wait(0))
}

// find takes up the JVMs that came, with half of what is left: many may come at once, and
// looks go on. Where those leave nothing it has a slice all the same, and then waits until
// half of the share has paid for it.
func (a *Agent) find(up time.Duration) {
	a.settle()
	least, short := a.budget.left/2, a.budget.left < a.budget.slice()
	if short {
		least = max(a.budget.left-a.budget.slice(), -a.budget.credit())
	}
	before := a.cfg.Clock.Processor()
	targets, err := a.finder.find(
		func(pid int) bool { return a.jvms[pid] != nil },
		func() bool { a.settle(); return a.budget.allows(least) })
	if err != nil {
		a.say(err)
	}
	for _, t := range targets {
		a.begin(t, up)
	}
	for _, j := range a.jvms {
		if a.name(j) {
			a.tell(j)
		}
	}
	a.Stats.JVMs.Store(int64(len(a.jvms)))
	a.nextFind = up + findEvery(a.cfg.Interval)
	if short {
		a.nextFind = max(a.nextFind, up+a.paid(a.cfg.Clock.Processor()-before))
	}
}

// paid is how long half of the share takes to pay for so much processor time.
func (a *Agent) paid(spent time.Duration) time.Duration {
	return time.Duration(float64(spent) / (a.cfg.Share / 2))
}

// begin begins to watch a JVM.
func (a *Agent) begin(t *process.Target, up time.Duration) {
	j := &jvm{target: t, series: &footprint.Series{Tables: &a.tables}}
	j.relax()
	group, err := linux.NewCgroupFS(a.cfg.Proc, "/").Group(t.PID)
	if err == nil {
		j.limit, _ = group.MemoryLimit()
		j.own = linux.MemoryGroup{Version: group.Version, Dir: group.Dirs[controller(group)]}
	}
	j.who = identify(a.cfg.Proc, a.boot, t, group, j.limit, a.cfg.Clock.Now(), a.cfg.Clock.Uptime())
	a.name(j)
	j.look, j.glance = up, up+latest
	j.want, j.wanted = ledger.First, max(up, sinceBoot(t.Birth)+grownUp)
	a.jvms[t.PID] = j
	if a.alarms != nil {
		// Without it the next glance finds that it is gone, and not how it went.
		j.unsetEnd, _ = a.alarms.setEnd(t.PID, t.Birth)
	}
	a.tell(j)
}

// name gives a JVM the names of its pod and container, as soon as they are known, and says
// whether they are new.
func (a *Agent) name(j *jvm) bool {
	who := &j.who
	if a.cfg.NameOf == nil || who.PodUID == "" || who.ContainerName != "" {
		return false
	}
	n := a.cfg.NameOf(who.Group.Path)
	if n.Pod == "" || n.Pod == who.Pod && n.Container == "" {
		return false
	}
	who.Namespace, who.Pod, who.ContainerName = n.Namespace, n.Pod, n.Container
	return true
}

// tell writes the start of a JVM, or what more is known of it now.
func (a *Agent) tell(j *jvm) {
	who := j.who
	j.told = a.write(ledger.Record{Process: who.ID, Start: &who})
}

// lookAround looks at the JVMs that are due.
func (a *Agent) lookAround(up time.Duration) {
	for _, j := range a.dueAt(up) {
		if now := a.settle(); !a.budget.allows(0) {
			if j.look <= now {
				a.Stats.Deferred.Add(1)
			}
			return
		}
		if j.look > up {
			if j.hurries() || a.budget.allows(a.budget.rest()) {
				a.glance(j)
			}
			continue
		}
		if !j.target.StillThere(a.cfg.Proc) {
			a.end(j)
			continue
		}
		a.look(j)
	}
}

// dueAt lists the JVMs that are due: first those that hurry, then those that wait longest.
func (a *Agent) dueAt(up time.Duration) []*jvm {
	var due []*jvm
	for _, j := range a.jvms {
		if j.due() <= up {
			due = append(due, j)
		}
	}
	slices.SortFunc(due, func(x, y *jvm) int {
		if x.hurries() != y.hurries() {
			if x.hurries() {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.due(), y.due())
	})
	return due
}

// look reads the counters of a JVM, and keeps them.
func (a *Agent) look(j *jvm) {
	up := a.cfg.Clock.Uptime()
	before := j.counters
	j.counters = j.readCounters(a.cfg.Proc)
	j.look = up + a.cfg.Interval
	a.alarm(j)
	if passes(j.who.Dir) {
		j.who.Dir, j.who.Root, j.who.OwnRoot = filesOf(a.cfg.Proc, j.target.PID)
		j.told = false
	}
	if !j.told {
		a.tell(j)
	}
	c := j.counters
	a.write(ledger.Record{Process: j.who.ID, Counters: &c})
	a.Stats.Looks.Add(1)
	if before.Usage > 0 {
		a.tellChange(j, ledger.LimitReached, before.AtLimit, c.AtLimit)
		a.tellChange(j, ledger.OOMKill, before.OOMKills, c.OOMKills)
	}
	if j.want == "" {
		j.want, j.wanted = a.wants(j, up), up
	}
	a.consider(j, up)
}

// wants is why a JVM is to be weighed after a look at it, "" when it is not.
func (a *Agent) wants(j *jvm, up time.Duration) ledger.Reason {
	switch {
	case !j.known:
		return ledger.First
	case j.moved(j.counters.Resident):
		return ledger.Moved
	case up-j.weighed >= a.cfg.WeighEvery:
		return ledger.Due
	}
	return ""
}

// tellChange tells that a count of the group has risen.
func (a *Agent) tellChange(j *jvm, kind ledger.Kind, before, after int64) {
	if after <= before {
		return
	}
	values := map[string]int64{"before": before, "after": after}
	if peak, err := j.limit.Group.Peak(); err == nil && kind == ledger.OOMKill {
		values["peak"] = peak
	}
	a.write(ledger.Record{Process: j.who.ID, Event: &ledger.Event{Kind: kind, Values: values}})
	if kind == ledger.OOMKill {
		a.inquest(j.who.ID, afterKill)
	}
}

// glance reads the usage of a JVM's group alone. That the JVM has ended rings, or the next
// look finds.
func (a *Agent) glance(j *jvm) {
	usage, err := j.limit.Group.Usage()
	if err != nil {
		j.glance = a.cfg.Clock.Uptime() + latest
		return
	}
	a.Stats.Glances.Add(1)
	j.counters.Usage = usage
	// What can be dropped matters only where the end were near without it.
	if limit := j.counters.Limit; j.slope.nearEnd(limit-usage, limit) {
		j.counters.Reclaimable = reclaimable(j.limit.Group)
	}
	a.consider(j, a.cfg.Clock.Uptime())
}

// consider decides when to glance next, and whether this is the time for a last
// look.
func (a *Agent) consider(j *jvm, up time.Duration) {
	c := &j.counters
	j.slope.add(c.Usage-c.Reclaimable, up)
	if c.Limit <= 0 {
		j.glance = up + a.cfg.Interval + latest
		return
	}
	left := headroom(c)
	j.glance = up + until(left)
	if !j.slope.nearEnd(left, c.Limit) {
		if float64(left) > 2*(1-full)*float64(c.Limit) {
			j.relax()
		}
		return
	}
	if j.worth(left, up) {
		a.lastLook(j, left, up)
	}
}

// lastLook has a JVM with so much headroom weighed as soon as it can be, if the volume of
// last looks allows it.
func (a *Agent) lastLook(j *jvm, left int64, up time.Duration) {
	c := &j.counters
	if j.want != ledger.LastLook && a.volume.take(up, max(c.Usage, c.Resident)) {
		j.looked(left, up)
		j.want = ledger.LastLook
	}
}

// urgency orders the reasons, the most urgent first.
var urgency = []ledger.Reason{ledger.LastLook, ledger.First, ledger.Moved, ledger.Due}

// reserve is what of the budget must be left for a weighing of a reason to begin: a last
// look must find some. First ones, of which many may come at once, leave most of it to what
// finds other JVMs, until they have waited (weighFirst).
func (a *Agent) reserve(r ledger.Reason) time.Duration {
	switch r {
	case ledger.LastLook:
		return -a.budget.credit()
	case ledger.First:
		return a.budget.most * 3 / 4
	}
	return a.budget.rest()
}

// weighFirst weighs JVMs that have waited for their first weighing, before looks at others
// take what there is, as those of very many JVMs do. Half of the budget is left to those.
func (a *Agent) weighFirst(ctx context.Context, up time.Duration) {
	for a.nextFirst = max(a.nextFirst, up-breath); a.nextFirst <= up && ctx.Err() == nil; {
		j := a.mostUrgent()
		if j == nil || j.want != ledger.First || up-j.wanted < firstWait || !a.budget.allows(0) {
			return
		}
		before := a.cfg.Clock.Processor()
		a.weigh(ctx, j)
		a.nextFirst += a.paid(a.cfg.Clock.Processor() - before)
		a.settle()
	}
}

// weighMost weighs the JVM that needs it most, and all whose limit is near.
func (a *Agent) weighMost(ctx context.Context) {
	for ctx.Err() == nil {
		j := a.mostUrgent()
		if j == nil {
			return
		}
		if a.settle(); !a.budget.allows(a.reserve(j.want)) {
			a.Stats.Deferred.Add(1)
			return
		}
		last := j.want == ledger.LastLook
		a.weigh(ctx, j)
		if !last {
			return // looks may be due again
		}
	}
}

// mostUrgent is the JVM that is to be weighed next, the one that was not for longest of
// those for the same reason; nil when none is to be now.
func (a *Agent) mostUrgent() *jvm {
	up := a.cfg.Clock.Uptime()
	var found *jvm
	for _, j := range a.jvms {
		if j.ripe(up) && (found == nil || j.before(found)) {
			found = j
		}
	}
	return found
}

// ripe says that a JVM is to be weighed now: a young one has not read its options yet.
func (j *jvm) ripe(up time.Duration) bool {
	return j.want != "" && (j.want != ledger.First || j.wanted <= up)
}

// before says that a JVM is to be weighed before another one.
func (j *jvm) before(other *jvm) bool {
	rank := func(j *jvm) int { return slices.Index(urgency, j.want) }
	return cmp.Or(cmp.Compare(rank(j), rank(other)), cmp.Compare(j.weighed, other.weighed), cmp.Compare(j.wanted, other.wanted)) < 0
}

// weigh weighs a JVM, and keeps its footprint.
func (a *Agent) weigh(ctx context.Context, j *jvm) {
	reason := j.want
	j.want = ""
	up := a.cfg.Clock.Uptime()
	target, err := j.target.Anew(a.cfg.Proc)
	if errors.Is(err, process.ErrNoProcess) {
		a.end(j)
		return
	}
	j.weighed = up
	var f *footprint.Footprint
	if err == nil {
		j.at = target.Status.VmRSS
		ctx, cancel := context.WithTimeout(ctx, weighLimit)
		defer cancel()
		// What a first weighing finds is examined: it is the only full one.
		j.series.Full = reason == ledger.First
		f, err = footprint.WeighTarget(ctx, target, footprint.Options{Proc: a.cfg.Proc, Series: j.series, Gentle: true})
	}
	switch {
	case errors.Is(err, process.ErrNoProcess):
		a.end(j)
	case err != nil:
		a.Stats.Failed.Add(1)
	default:
		a.keep(j, f, reason)
	}
}

// keep writes what was weighed.
func (a *Agent) keep(j *jvm, f *footprint.Footprint, reason ledger.Reason) {
	a.Stats.counter(reason).Add(1)
	if reason == ledger.First {
		j.known = f.JDK != "" || j.target.Kind != process.HotSpot // else it is starting
		j.who.JDK, j.who.Collector, j.who.Flags = f.JDK, f.Collector, f.Flags
		a.tell(j)
	}
	a.write(ledger.Record{Process: j.who.ID, Footprint: ledger.FootprintOf(f, reason, j.series.Full)})
	switch reason {
	case ledger.First:
		if found := doctor.Examine(f); len(found) > 0 {
			a.Stats.Findings.Add(int64(len(found)))
			a.write(ledger.Record{Process: j.who.ID, Findings: ledger.FindingsOf(found)})
		}
	case ledger.LastLook:
		a.flush(j)
	}
}

// flush writes what there is of a JVM through to the disk.
func (a *Agent) flush(j *jvm) {
	if err := a.cfg.Ledger.SyncProcess(j.who.ID); err != nil {
		a.trouble(err)
	}
}

// counter is the count of the weighings for a reason.
func (s *Stats) counter(r ledger.Reason) *atomic.Int64 {
	switch r {
	case ledger.First:
		return &s.First
	case ledger.Moved:
		return &s.Moved
	case ledger.LastLook:
		return &s.LastLook
	}
	return &s.Due
}

// end tells that a JVM is gone, with what its group has counted since.
func (a *Agent) end(j *jvm) {
	before := j.counters
	after := before
	j.readEvents(&after)
	if before.Usage > 0 {
		a.tellChange(j, ledger.LimitReached, before.AtLimit, after.AtLimit)
		a.tellChange(j, ledger.OOMKill, before.OOMKills, after.OOMKills)
	}
	a.write(ledger.Record{Process: j.who.ID, Event: a.ending(j)})
	a.inquest(j.who.ID, afterEnd)
	a.flush(j)
	j.close()
	delete(a.jvms, j.target.PID)
	a.Stats.JVMs.Store(int64(len(a.jvms)))
	a.Stats.Ended.Add(1)
}

// ending is the event of a JVM's end, with how it ended where the kernel told.
func (a *Agent) ending(j *jvm) *ledger.Event {
	e := &ledger.Event{Kind: ledger.Ended}
	if a.alarms == nil {
		return e
	}
	if exit, told := a.alarms.exit(j.target.PID); told {
		e.Values = ledger.ExitValues(exit.Code, exit.Signal)
	}
	return e
}

// upkeep writes what was spent, and everything through to the disk.
func (a *Agent) upkeep() {
	a.recover()
	a.account()
	if err := a.cfg.Ledger.Sync(); err != nil {
		a.trouble(err)
	}
}

// account writes what the machine has left and the agent took.
func (a *Agent) account() {
	s := ledger.Spent{Processor: a.cfg.Clock.Processor(), JVMs: len(a.jvms), Weighings: a.Stats.Weighings(), Deferred: a.Stats.Deferred.Load()}
	if m, err := a.cfg.Proc.MemInfo(); err == nil {
		s.MemTotal, s.MemAvailable = m.Total, m.Available
	}
	if v, err := linux.ReadCgroupKeyed(a.cfg.Proc.Root(), "vmstat"); err == nil {
		s.OOMKills = v["oom_kill"]
	}
	s.Resident = resident(a.cfg.Proc)
	a.write(ledger.Record{Spent: &s})
}

// write writes a record of this moment, and says whether it was written.
func (a *Agent) write(r ledger.Record) bool {
	r.At, r.Uptime = a.cfg.Clock.Now(), a.cfg.Clock.Uptime()
	err := a.cfg.Ledger.Append(r)
	if err != nil {
		a.trouble(err)
	}
	return err == nil
}

// trouble says that the ledger cannot be written to, once until it can again.
func (a *Agent) trouble(err error) {
	if err == nil || errors.Is(err, ledger.ErrNotStarted) || a.full { // the start was lost, which was said
		return
	}
	a.full = true
	a.say(fmt.Errorf("%w\nwhat was written stays readable; records are lost until there is room", err))
}

// recover tells how many records the ledger lacks, once none was lost for as long as
// lies between two calls: on a disk that is almost full some can still be written.
func (a *Agent) recover() {
	lost := a.cfg.Ledger.Lost()
	if a.full && lost == a.lost {
		a.full = !a.write(ledger.Record{Event: &ledger.Event{Kind: ledger.Lost, Values: map[string]int64{"records": lost - a.told}}})
		if !a.full {
			a.told = lost
			a.say(fmt.Errorf("the ledger is written to again; %d records were lost", lost))
		}
	}
	a.lost = lost
}

func (a *Agent) say(err error) {
	if a.cfg.Say != nil && err != nil {
		a.cfg.Say(err)
	}
}

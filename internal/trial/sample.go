package trial

import (
	"context"
	"os"
	"sync"
	"time"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/runner"
)

const (
	sampleEvery = 150 * time.Millisecond
	// weighShare bounds what footprints cost: this share of one processor.
	weighShare = 0.015
	// timesShare bounds what it costs to read the clocks of threads likewise.
	timesShare = 0.005
	// weighGrowth is how much above that at the last footprint a new maximum
	// of usage less page cache must be to be weighed.
	weighGrowth = 1.02
)

// reading is one look at the group and the JVM's counters.
type reading struct {
	usage runner.Usage
	gc    *runner.Counters // nil: unknown
	// awaiting is for how much of the time so far threads waited for a concurrent
	// collector, as far as was seen.
	awaiting time.Duration
}

// reclaimable is the page cache of the group.
func (r reading) reclaimable() int64 {
	return r.usage.Stat["active_file"] + r.usage.Stat["inactive_file"]
}

// need is the usage less page cache, which fills a group to its limit early on:
// what counts is the rest.
func (r reading) need() int64 { return r.usage.UsageBytes - r.reclaimable() }

// sampler watches a process until stop.
type sampler struct {
	host  runner.Host
	proc  runner.Process
	weigh bool // takes footprints

	mu       sync.Mutex
	last     reading
	mark     reading
	markBusy *runner.Busy // nil: unknown
	// times and markTimes are the clocks of threads, at the last reading and at mark.
	times, markTimes runner.Times
	nextTimes        time.Time // not read before
	left             left      // since mark
	heap             int64     // largest HeapUsed
	needed           int64     // largest usage less page cache
	workingSet       int64     // largest usage less inactive file pages
	peak             *footprint.Footprint
	peakNeed         int64 // usage less page cache at the peak footprint
	peakMap          int64 // the group's mapped and anonymous pages at that moment
	weighErr         error
	opened           map[string]bool // as in Result
	program          *runner.Program // of the JVM that was weighed last
	nextTime         time.Time       // no footprint before
	// trend has points of the load so far, about trendStep apart; 0 is no trend.
	// trendLive is the least that a collection left since the last of them, and trendOld
	// says that one was of more than the young generation.
	trend     []trendPoint
	trendStep time.Duration
	trendLive int64
	trendOld  bool

	// paced is the sum of paces (runner.Host.Pace) since mark, and paces their number.
	// paceless says that the machine could not tell one: then the others are chance.
	paced    time.Duration
	paces    int
	paceless bool

	cancel context.CancelFunc
	done   chan struct{}
}

// startSampler watches proc; it ends with stop, or with the process.
func startSampler(ctx context.Context, host runner.Host, proc runner.Process, weigh bool) *sampler {
	ctx, cancel := context.WithCancel(ctx)
	s := &sampler{host: host, proc: proc, weigh: weigh, cancel: cancel, done: make(chan struct{})}
	go s.run(ctx)
	return s
}

func (s *sampler) run(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		s.sample(ctx)
		s.takePace(ctx)
		select {
		case <-tick.C:
		case <-s.proc.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// sample takes one reading, and a footprint where due.
func (s *sampler) sample(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.proc.Usage(ctx)
	if err != nil {
		return
	}
	was := s.last
	s.last = reading{usage: u, gc: s.counters(ctx), awaiting: was.awaiting}
	if s.last.gc != nil && s.last.gc.AwaitsHeap {
		s.last.awaiting += u.Age - was.usage.Age
	}
	if !time.Now().Before(s.nextTimes) {
		s.readTimes(ctx)
	}
	need := s.last.need()
	s.needed = max(s.needed, need)
	s.workingSet = max(s.workingSet, u.UsageBytes-u.Stat["inactive_file"])
	if gc := s.last.gc; gc != nil {
		s.heap = max(s.heap, gc.HeapUsed)
		if live := gc.UsedAfterGC; live > 0 {
			old := was.gc != nil && gc.OldGCCount > was.gc.OldGCCount
			s.left.add(live, old)
			s.trendLive, s.trendOld = least(s.trendLive, live), s.trendOld || old
		}
	}
	now := time.Now()
	due := s.trendStep > 0 && now.Sub(s.trend[len(s.trend)-1].at) >= s.trendStep
	if s.weigh && (due || float64(need) > weighGrowth*float64(s.peakNeed) && now.After(s.nextTime)) {
		s.takeFootprint(ctx, due)
	}
}

// takePace sees how fast the machine is, where it can tell.
func (s *sampler) takePace(ctx context.Context) {
	d, err := s.host.Pace(ctx)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paced, s.paces, s.paceless = s.paced+d, s.paces+1, s.paceless || err != nil
}

// readTimes reads the clocks of the threads: often, for what a thread used counts by kind
// only if it was read before it ended, but at a bounded cost.
func (s *sampler) readTimes(ctx context.Context) {
	begin := time.Now()
	if t, err := s.proc.Times(ctx); err == nil {
		s.times = t
	}
	s.nextTimes = time.Now().Add(time.Duration(float64(time.Since(begin)) / timesShare))
}

// left is the heap that collections left, by readings in their order.
type left struct {
	least, most int64
	// found is what the old generation and the survivors were before it was collected, while what
	// that left is not known yet. full is the most of it, and byOld the most that was left by those
	// collections which found at least half of full.
	found, full, byOld int64
	last               int64
}

// add adds a reading; old says that a collection of the old generation has begun since the last.
func (l *left) add(bytes int64, old bool) {
	l.least, l.most = least(l.least, bytes), max(l.most, bytes)
	switch {
	case old && l.found == 0:
		l.found = l.last
	case !old && l.found > 0: // it is not under way any more
		l.collected(bytes)
	}
	l.last = bytes
}

func (l *left) collected(bytes int64) {
	if l.found > 2*l.full {
		l.full, l.byOld = l.found, 0
	}
	if 2*l.found >= l.full {
		l.full, l.byOld = max(l.full, l.found), max(l.byOld, bytes)
	}
	l.found = 0
}

// live is the live set. Under a load it is the least, for young collections leave what became old
// and is dead. The parts of a job have other data: there it is the most, and where the old generation
// was collected the most that this left. One that came early, for metaspace, tells nothing of what
// the old generation held later.
func (l left) live(job bool) int64 {
	switch {
	case !job:
		return l.least
	case 2*l.full >= l.most:
		return l.byOld
	}
	return l.most
}

// least is the smaller of two numbers, of which the first may be 0 for none.
func least(a, b int64) int64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// look weighs the JVM, and notes what it runs and which files are used; s.mu is held.
func (s *sampler) look(ctx context.Context) (*footprint.Footprint, error) {
	s.seeProgram(ctx)
	s.seeOpened(ctx)
	return s.proc.Footprint(ctx)
}

// lookAtEnd is look at the end of the load.
func (s *sampler) lookAtEnd(ctx context.Context) (*footprint.Footprint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.look(ctx)
}

// seeProgram notes what the JVM runs; one that has ended tells no more.
func (s *sampler) seeProgram(ctx context.Context) {
	told, ok := s.proc.(runner.Programmed)
	if !ok {
		return
	}
	if p, err := told.Program(ctx); err == nil {
		s.program = &p
	}
}

// seeOpened notes which files are used.
func (s *sampler) seeOpened(ctx context.Context) {
	told, ok := s.proc.(runner.Opener)
	if !ok {
		return
	}
	files, err := told.Opened(ctx)
	if err != nil {
		return // it has ended, or ctx has
	}
	if s.opened == nil {
		s.opened = map[string]bool{}
	}
	for _, f := range files {
		s.opened[f] = true
	}
}

// takeFootprint takes one, also for the trend where one is due.
func (s *sampler) takeFootprint(ctx context.Context, due bool) {
	begin := time.Now()
	f, err := s.look(ctx)
	cost := time.Since(begin)
	s.nextTime = time.Now().Add(time.Duration(float64(cost) / weighShare))
	if err != nil {
		s.weighErr = err
		return
	}
	if need := s.last.need(); s.peak == nil || need >= s.peakNeed {
		s.peak, s.peakNeed, s.peakMap = f, need, mapped(s.last.usage.Stat)
	}
	if due {
		s.addTrend(f, begin)
	}
}

// addTrend adds a footprint to the trend. Where the load takes longer than expected,
// the points become fewer and further apart.
func (s *sampler) addTrend(f *footprint.Footprint, at time.Time) {
	if !s.trendOld {
		s.trendLive = 0 // what young collections leave grows with what became old and is dead
	}
	s.trend = append(s.trend, newTrendPoint(f, at, s.trendLive, s.last))
	s.trendLive, s.trendOld = 0, false
	if len(s.trend) > mostTrend {
		s.trend = everySecond(s.trend)
		s.trendStep *= 2
	}
}

// watchTrend has footprints taken at equal distances in a load that takes about so
// long, the first now, unless that costs too much of it.
func (s *sampler) watchTrend(ctx context.Context, d time.Duration) {
	if !s.weigh || d <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := time.Now()
	s.takeFootprint(ctx, true)
	if cost := time.Since(begin); len(s.trend) > 0 && cost.Seconds() <= trendCost*d.Seconds() {
		s.trendStep = d / trendSteps
	}
}

// parts are the points between equal parts of the load, the last with a footprint at its
// end; nil where there are too few.
func (s *sampler) parts(end *footprint.Footprint) []trendPoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end == nil || s.trendStep == 0 {
		return nil
	}
	s.addTrend(end, time.Now())
	return evenly(s.trend)
}

// mapped is what the group pays for of the pages that its processes map:
// anonymous and file pages, by their names on cgroup v1 and v2.
func mapped(stat map[string]int64) int64 {
	if anon, ok := stat["anon"]; ok {
		return anon + stat["file_mapped"]
	}
	return stat["rss"] + stat["mapped_file"]
}

// unpaid is how many bytes of the peak footprint are charged to others.
func (s *sampler) unpaid() int64 {
	if s.peak == nil {
		return 0
	}
	return max(0, s.peak.RSSBytes-s.peak.RepeatedBytes()-s.peakMap)
}

// mappedFiles is what the kernel could drop of the peak footprint, and the group
// pays for.
func (s *sampler) mappedFiles() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peak == nil {
		return 0
	}
	return max(0, s.peak.DroppableBytes()-s.unpaid())
}

// counters reads the JVM's counters; nil when there are none yet.
func (s *sampler) counters(ctx context.Context) *runner.Counters {
	c, err := s.proc.Counters(ctx)
	if err != nil {
		return s.last.gc
	}
	return &c
}

// begin starts a new window of judgement.
func (s *sampler) begin(ctx context.Context) {
	s.sample(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readTimes(ctx)
	s.mark, s.markTimes, s.left, s.trendLive, s.trendOld, s.paced, s.paces, s.paceless = s.last, s.times, left{}, 0, false, 0, 0, false
	s.markBusy = s.busy(ctx)
}

// busy is nil where the machine does not tell.
func (s *sampler) busy(ctx context.Context) *runner.Busy {
	b, err := s.host.Busy(ctx)
	if err != nil {
		return nil
	}
	return &b
}

// window is what happened since begin, or since the start.
type window struct {
	length      time.Duration
	gcTime      *time.Duration
	collections int64
	stalled     *time.Duration
	refault     int64
	majorFaults int64
	direct      int64   // bytes
	others      float64 // share of the machine's processors
	cpu         time.Duration
	times       *runner.Times  // nil: unknown
	awaiting    *time.Duration // nil: unknown
	pace        time.Duration  // the mean; 0: unknown
}

// leastPaces is how many slices a mean pace is of.
const leastPaces = 10

// end takes the last reading of a window. An ended JVM cannot be read: then
// the last reading before counts, and the window ends with the process.
func (s *sampler) end(ctx context.Context) window {
	age := time.Duration(0)
	select {
	case <-s.proc.Done():
		if u, err := s.proc.Usage(ctx); err == nil {
			age = u.Age
		}
	default:
		s.sample(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	age = max(age, s.last.usage.Age)
	s.readTimes(ctx)
	w := window{length: age - s.mark.usage.Age, majorFaults: since(s.mark, s.last, majorFaults), direct: since(s.mark, s.last, directReclaim), cpu: s.last.usage.CPUTime - s.mark.usage.CPUTime, refault: s.last.usage.RefaultBytes - s.mark.usage.RefaultBytes}
	if s.paces >= leastPaces && !s.paceless {
		w.pace = s.paced / time.Duration(s.paces)
	}
	if s.last.gc != nil {
		w.gcTime, w.collections = s.collected()
		awaiting := s.last.awaiting - s.mark.awaiting
		w.awaiting = &awaiting
	}
	if t := s.times.Since(s.markTimes); t.JVM {
		w.times = &t
	}
	w.stalled = stalledSince(s.mark, s.last)
	if now := s.busy(ctx); now != nil && s.markBusy != nil {
		w.others = now.OthersSince(*s.markBusy, w.cpu)
	}
	return w
}

// soFar is what memory took of the window by the last reading: it reads nothing itself.
func (s *sampler) soFar() window {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := window{stalled: stalledSince(s.mark, s.last)}
	if s.last.gc != nil {
		w.gcTime, w.collections = s.collected()
	}
	return w
}

// collected is the time in collections since mark, and their number.
func (s *sampler) collected() (*time.Duration, int64) {
	t, n := s.last.gc.GCTime, s.last.gc.GCCount
	if before := s.mark.gc; before != nil {
		t, n = t-before.GCTime, n-before.GCCount
	}
	return &t, n
}

// since is how much a number of memory.stat has grown.
func since(before, after reading, number func(stat map[string]int64) int64) int64 {
	return max(0, number(after.usage.Stat)-number(before.usage.Stat))
}

// majorFaults are faults that waited for the disk, by their names on cgroup v1 and v2.
func majorFaults(stat map[string]int64) int64 {
	return max(stat["total_pgmajfault"], stat["pgmajfault"])
}

// directReclaim is how many bytes were taken from the group by its own processes, which
// had to wait for it, on cgroup v2; v1 does not count that.
func directReclaim(stat map[string]int64) int64 {
	return int64(os.Getpagesize()) * stat["pgsteal_direct"]
}

// fail keeps why a footprint could not be taken.
func (s *sampler) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weighErr = err
}

// stop ends the sampling.
func (s *sampler) stop() {
	s.cancel()
	<-s.done
}

package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare.dev/tare/internal/trial"
)

const (
	// leastSaving is the share of what is needed, and leastBytes what at least
	// it must be, that is worth a trial.
	leastSaving = 0.01
	leastBytes  = 2 * mib
	// boldSaving is the share of what is needed for which a lever that may cost
	// speed is tried with those that do not.
	boldSaving = 0.10
)

// worthATrial is the least saving for which a lever is tried.
func (s *Search) worthATrial() int64 {
	return max(leastBytes, int64(leastSaving*float64(s.predict(s.best.at))))
}

// leverLimit is the limit that levers are tried at: a tenth above the smallest as
// given, where reclaim does not disturb, and the heap is about as large.
func (s *Search) leverLimit() int64 {
	return min(s.AmpleBytes, wholeMiB(s.given.limit()+s.given.limit()/10))
}

// pullLevers tries the levers on top of each other, at a limit where memory is not the
// bottleneck: a trial tells what is needed and how fast it is.
func (s *Search) pullLevers(ctx context.Context) error {
	fast, slow, files := bundles(s.openLevers())
	// By then it is known what speed is to spare for hot code alone, and it
	// needs no trial of its own; what a smaller code cache saves depends on it.
	slow, hot := take(slow, spendsSpeed)
	slow, code := take(slow, func(l Lever) bool { return l.Last })
	s.expect(2 + len(slow) + reserve)
	bold := s.bold(slow)
	slow = slices.DeleteFunc(slow, func(l Lever) bool { return slices.ContainsFunc(bold, l.same) })
	s.coming = [][]Lever{files}
	if err := s.pull(ctx, slices.Concat(fast, bold)); err != nil {
		return err
	}
	var heap []Lever
	if s.best.setup.heapBytes() > 0 {
		heap = s.openSizes("heap")
	}
	direct := s.openDirect()
	files = append(files, hot...)
	s.coming = [][]Lever{files, direct, heap}
	for len(slow) > 0 {
		s.promising(slow)
		if err := s.pull(ctx, slow[:1]); err != nil {
			return err
		}
		slow = slow[1:]
	}
	s.coming = [][]Lever{direct, heap}
	if err := s.pull(ctx, files); err != nil {
		return err
	}
	return s.pull(ctx, code)
}

// take parts levers from those of a kind.
func take(levers []Lever, kind func(Lever) bool) (rest, taken []Lever) {
	for _, l := range levers {
		if kind(l) {
			taken = append(taken, l)
		} else {
			rest = append(rest, l)
		}
	}
	return rest, taken
}

// bold are the levers that may cost speed, but promise so much that they are
// tried with the first: what speed they cost does not matter while the objective
// holds, and what they save would hide what others do.
func (s *Search) bold(slow []Lever) []Lever {
	ledger := s.ledger()
	var bold []Lever
	for _, l := range slow {
		covered := slices.ContainsFunc(bold, l.needless)
		if n := ledger.bound(l); !covered && n != nil && float64(*n) >= boldSaving*float64(s.predict(s.best.at)) {
			bold = append(bold, l)
		}
	}
	return bold
}

// promising brings the levers that could save most to the front, and before them the
// user's own, of which nothing is known.
func (s *Search) promising(levers []Lever) {
	ledger := s.ledger()
	most := func(l Lever) int64 {
		if l.Own {
			return math.MaxInt64
		}
		if n := ledger.bound(l); n != nil {
			return *n
		}
		return 0
	}
	slices.SortStableFunc(levers, func(a, b Lever) int { return cmp.Compare(most(b), most(a)) })
}

// openLevers are the levers that this JVM and its user leave open, but for the
// heap's, which come last.
func (s *Search) openLevers() []Lever {
	var open []Lever
	var closed, others []LeverResult // others are forms for other releases
	for _, l := range s.Levers {
		left, ok, reason := l.open(s.Facts)
		switch r := (LeverResult{Lever: l, Reason: reason}); {
		case ok:
			open = append(open, left)
		case l.isFor(s.Facts.Release):
			closed = append(closed, r)
		default:
			others = append(others, r)
		}
	}
	said := map[string]bool{}
	for _, l := range open {
		said[l.ID] = true
	}
	for _, r := range append(closed, others...) { // one reason for all forms of a lever
		if !said[r.Lever.ID] {
			said[r.Lever.ID] = true
			s.drop(r, r.Reason)
		}
	}
	return slices.DeleteFunc(open, func(l Lever) bool { return l.ByCurve })
}

// bundles are the levers by how they are tried: those that cost no speed in one
// trial; those that may, one by one; and at the end, in one trial, class archives
// and the layout of jars that they need.
func bundles(levers []Lever) (fast, slow, files []Lever) {
	for _, l := range levers {
		switch {
		case l.TrainOption != "" || l.Extract:
			files = append(files, l)
		case l.Slows:
			slow = append(slow, l)
		default:
			fast = append(fast, l)
		}
	}
	return fast, slow, files
}

// pull tries levers together on top of the best point and keeps them when less
// is needed. Those that do nothing beside others of them wait for what becomes of
// those.
func (s *Search) pull(ctx context.Context, levers []Lever) error {
	waiting, first := take(levers, func(l Lever) bool { return !slices.ContainsFunc(levers, l.needless) })
	if err := s.pullTogether(ctx, first); err != nil || len(waiting) == 0 {
		return err
	}
	return s.pull(ctx, waiting)
}

// pullTogether tries levers in one trial. Where that fails, it tries them in parts:
// without the one that it points at, else as split says.
func (s *Search) pullTogether(ctx context.Context, levers []Lever) error {
	levers = s.worthwhile(s.stillOpen(levers))
	if len(levers) == 0 {
		return nil
	}
	if s.room() <= s.reserveBeside(levers) {
		for _, l := range levers {
			s.drop(LeverResult{Lever: l, BoundBytes: s.ledger().bound(l)}, noTrialLeft)
		}
		return nil
	}
	added, err := s.prepare(ctx, levers)
	if err != nil || len(added) == 0 {
		return err
	}
	t, err := s.tryLevers(ctx, added)
	if err != nil {
		return err
	}
	if s.Facts.Unreached != "" && slices.ContainsFunc(added, func(r LeverResult) bool { return len(r.Setup.Options) > 0 }) {
		return s.pull(ctx, leversOf(added))
	}
	reason := s.unfit(t)
	if reason == "" {
		reason = s.carry(s.on(s.best, added, t))
	}
	switch i := s.culprit(added, t); {
	case reason == "":
	case len(added) > 1 && i >= 0:
		s.dropTried(added[i:i+1], t, reason)
		return s.pull(ctx, leversOf(slices.Delete(added, i, i+1)))
	case len(added) > 1:
		one, other := split(leversOf(added), s.suspect(t))
		if err := s.pull(ctx, one); err != nil {
			return err
		}
		return s.pull(ctx, other)
	default:
		s.dropTried(added, t, reason)
	}
	return nil
}

// culprit is the lever that a failed trial points at: the heap's where that was
// too small, hot code's where it was too slow; -1 for none.
func (s *Search) culprit(added []LeverResult, t Trial) int {
	if s.heapTooSmall(t) && !hopeless(t) {
		if i := slices.IndexFunc(added, func(r LeverResult) bool { return r.Lever.sizesHeap() }); i >= 0 {
			return i
		}
	}
	if t.AskedSpeed <= 0 && !s.passedByLuck(t) {
		return -1
	}
	return slices.IndexFunc(added, func(r LeverResult) bool { return spendsSpeed(r.Lever) })
}

// suspect says of levers whether they can have failed a trial. None can where memory lacked
// at the limit: levers save it. One that was too slow for its throughput, at no more
// processor time, waited; what pauses take is told by collections.
func (s *Search) suspect(t Trial) func(Lever) bool {
	harms := func(any ...Harm) func(Lever) bool {
		return func(l Lever) bool {
			return slices.ContainsFunc(any, func(h Harm) bool { return slices.Contains(l.Harms, h) })
		}
	}
	switch {
	case s.tooDear(t), t.Verdict == trial.TooSlow && !s.withinCost(t):
		return harms(HarmSpeed, HarmStart)
	case t.Verdict == trial.TooSlow && t.AskedSpeed > 0:
		return func(l Lever) bool { return l.Waits }
	case t.Verdict == trial.TooSlow:
		return harms(HarmLatency)
	case t.Verdict == trial.NeverReady:
		return harms(HarmStart, HarmRun)
	case t.Verdict == trial.OutOfMemory || t.Verdict == trial.Thrashing:
		return harms(HarmHeap)
	case t.Verdict == trial.Crashed || t.Verdict == trial.Errors:
		return harms(HarmRun)
	}
	return harms()
}

// split parts a bundle that failed: those that cannot have failed it from the suspects
// or, where all are alike, in halves.
func split(levers []Lever, suspect func(Lever) bool) (one, other []Lever) {
	one, other = take(levers, suspect)
	if len(one) > 0 && len(other) > 0 {
		return one, other
	}
	half := len(levers) / 2
	return levers[:half], levers[half:]
}

const noTrialLeft = "no trial was left for it (--trials, --budget)"

// reserveBeside is how many trials are kept when levers could be tried: for
// finding the limit, and for levers to come that promise more, or a large part of what is
// needed: a bound is what levers save at most; not where the user asks for these.
func (s *Search) reserveBeside(levers []Lever) int {
	if slices.ContainsFunc(levers, func(l Lever) bool { return l.Own }) {
		return reserve
	}
	ledger := s.ledger()
	least := min(ledger.bounds(levers)+1, int64(boldSaving*float64(s.predict(s.best.at))))
	kept := reserve
	for _, later := range s.coming {
		if ledger.bounds(later) >= least {
			kept++
		}
	}
	return kept
}

// bounds is the most that levers could save together, as far as that is known.
func (l Ledger) bounds(levers []Lever) int64 {
	var sum int64
	for _, lever := range levers {
		if n := l.bound(lever); n != nil {
			sum += *n
		}
	}
	return sum
}

func leversOf(results []LeverResult) []Lever {
	var out []Lever
	for _, r := range results {
		out = append(out, r.Lever)
	}
	return out
}

// worthwhile leaves out levers that cannot save enough by the ledger of the
// best point, or that are without effect beside those that are kept.
func (s *Search) worthwhile(levers []Lever) []Lever {
	ledger := s.ledger()
	var out []Lever
	for _, l := range levers {
		r := LeverResult{Lever: l, BoundBytes: ledger.bound(l)}
		if by := s.coveredBy(l); by != "" {
			s.drop(r, by+" leaves nothing to it")
			continue
		}
		if r.BoundBytes == nil && !l.Blind {
			s.drop(r, "no footprint tells what it could save")
			continue
		}
		// A heap that follows the limit is what its largest size allows, whatever it had.
		fixes := l.sizesHeap() && !s.fixesHeap(s.best.setup)
		if r.BoundBytes != nil && *r.BoundBytes < s.worthATrial() && !fixes {
			s.drop(r, fmt.Sprintf("could save at most %s", mibText(*r.BoundBytes)))
			continue
		}
		if spendsSpeed(l) && s.scale(l) == 0 {
			s.drop(r, "the other levers leave no speed to spare for it")
			continue
		}
		if times, dear := s.foreseenDear(l); dear {
			s.drop(r, fmt.Sprintf("by trials with it the work costs at least %.2f times that as given", times))
			continue
		}
		out = append(out, l)
	}
	return out
}

// bound is a lever's bound; nil where nothing tells.
func (l Ledger) bound(lever Lever) *int64 {
	if l.Footprint == nil || lever.bound == nil {
		return nil
	}
	n := lever.bound(l)
	return &n
}

// ledger is of the best point, or of the last trial before it that has a
// footprint.
func (s *Search) ledger() Ledger {
	l := ledgerOf(s.best.at, s.Facts.CPUs)
	if l.Footprint == nil {
		l = ledgerOf(s.found.Baseline, s.Facts.CPUs)
	}
	if l.LiveBytes == 0 {
		l.LiveBytes = s.live(s.best)
	}
	l.FullHeap = s.ownHeap() > 0
	return l
}

// uses says that the best point has a lever.
func (s *Search) uses(l Lever) bool {
	return slices.ContainsFunc(s.best.levers, func(r LeverResult) bool { return r.Lever.same(l) })
}

// coveredBy names the kept lever beside which another one does nothing.
func (s *Search) coveredBy(l Lever) string {
	for _, r := range s.best.levers {
		if l.needless(r.Lever) {
			return r.Lever.Name
		}
	}
	return ""
}

// prepare makes what the levers need, such as archives, and drops those for
// which that fails.
func (s *Search) prepare(ctx context.Context, levers []Lever) ([]LeverResult, error) {
	var added []LeverResult
	setup := s.best.setup
	ledger := s.ledger()
	for _, l := range levers {
		v := s.sizes(ledger, firstHeap)
		v.scale = s.scale(l)
		var err error
		switch {
		case l.Extract:
			v.jar, err = extract(ctx, s.Trier)
		case l.TrainOption != "":
			a := Attempt{Number: len(s.found.Trials), Phase: PhaseTrain, Lever: l.Name, Setup: setup, LimitBytes: s.AmpleBytes}
			s.observe(Event{Attempt: a})
			v.archive, err = s.Trier.Train(ctx, a, l.TrainOption)
		}
		r := LeverResult{Lever: l, Setup: l.setup(v), BoundBytes: ledger.bound(l)}
		if sizeIn(r.Setup.Options, directOption) > 0 && !strings.HasSuffix(l.Why, keepsDirect) { // it may come from a bundle that failed
			r.Lever.Why += keepsDirect
		}
		switch {
		case errors.Is(err, ErrNoArchive) || errors.Is(err, ErrNotExtracted):
			s.drop(r, err.Error())
			s.note("%s: %v", l.Name, err)
		case err != nil:
			return nil, err
		default:
			setup = setup.plus(r.Setup)
			added = append(added, r)
		}
	}
	return added, nil
}

// keepsDirect ends why a lever helps that sizes the heap where it leaves direct buffers their bound.
const keepsDirect = "; direct buffers keep the bound that they had"

func extract(ctx context.Context, t Trier) (string, error) {
	if e, ok := t.(Extractor); ok {
		return e.Extract(ctx)
	}
	return "", ErrNotExtracted
}

func (s *Search) drop(r LeverResult, reason string) {
	r.Reason, r.Kept, r.Setup = reason, false, Setup{}
	s.dropped = append(s.dropped, r)
	s.adopt(s.best)
}

func (s *Search) dropTried(added []LeverResult, t Trial, reason string) {
	for _, r := range added {
		r.Before, r.Trial = s.best.at.Number, t.Number
		s.drop(r, reason)
	}
	s.note("%s: dropped, %s", names(added), reason)
}

func names(added []LeverResult) string {
	var all []string
	for _, r := range added {
		all = append(all, r.Lever.Name)
	}
	return strings.Join(all, " + ")
}

func mibText(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/mib) }

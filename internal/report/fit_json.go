package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"tare.dev/tare/internal/docker"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// FitSchema names the JSON form of a fit. Fields may be added; none changes
// its meaning.
const FitSchema = "tare.fit/1"

// FitJSON is the JSON form of a fit.Result. Sizes are bytes, times as their
// names say. Seed draws the order of an ablation's trials, and nothing else.
type FitJSON struct {
	Schema string `json:"schema"`
	// Error says why there is no recommendation, nil when there is one.
	Error       *string   `json:"error"`
	Time        time.Time `json:"time"`
	TookSeconds float64   `json:"tookSeconds"`

	// LimitBytes is the recommended limit, nil without one.
	LimitBytes *int64   `json:"limitBytes"`
	Options    []string `json:"options"`
	Env        []string `json:"env"`
	// Jar starts the application in place of the command's jar; empty where
	// that is used. NoHugePages is as in fit.Setup.
	Jar         string `json:"jar"`
	NoHugePages bool   `json:"noHugePages"`
	// ByVariable says that the options go by JAVA_TOOL_OPTIONS: a script starts the JVM, or a
	// JVM another one.
	ByVariable bool `json:"byVariable"`
	// Archive is the class archive among the options, nil without one.
	Archive     *archiveJSON `json:"archive"`
	Baseline    *runJSON     `json:"baseline"`
	AsGiven     *runJSON     `json:"asGiven"`
	Recommended *runJSON     `json:"recommended"`
	Levers      []leverJSON  `json:"levers"`
	// Frontier is the options that the search picked from, the least memory last.
	Frontier      []pointJSON `json:"frontier"`
	Trials        []trialJSON `json:"trials"`
	Confirmations []trialJSON `json:"confirmations"`
	// FreshRuns is how many runs were made at the recommended limit to prove it:
	// the confirmations, and those that were set aside and made again.
	FreshRuns int `json:"freshRuns"`
	// RaisedFromBytes is the first limit at which a confirming run failed,
	// so that it was raised.
	RaisedFromBytes *int64 `json:"raisedFromBytes"`
	// MarginBytes is the part of LimitBytes that was added to what is needed on the
	// average, or where that is not known to the smallest limit that passed;
	// AsGivenFailsBytes the largest limit that failed as given, nil without one.
	MarginBytes       int64  `json:"marginBytes"`
	AsGivenFailsBytes *int64 `json:"asGivenFailsBytes"`
	// Need is what the limit is made of, absent where the heap follows the limit.
	// LongTrial and HalfTrial are the numbers of the runs with ten times the load and
	// with half the processors; 0 where none was made.
	Need *needJSON `json:"need,omitempty"`
	// AtLimit is the cost of the runs that prove the limit over that of trials with the same
	// options and room, absent where trials do not tell.
	AtLimit *costJSON `json:"atLimit,omitempty"`
	// ProofCost is the same over the baseline, by all of them.
	ProofCost *costJSON `json:"proofCost,omitempty"`
	LongTrial int       `json:"longTrial,omitempty"`
	HalfTrial int       `json:"halfTrial,omitempty"`
	// Effects are what levers do by themselves, as far as trials tell.
	Effects []effectJSON `json:"effects"`
	Seed    uint64       `json:"seed"`
	// UnpaidBytes are pages that the application maps and that are charged
	// to other groups of this machine; a container of its own pays for them.
	UnpaidBytes int64 `json:"unpaidBytes"`

	Command  []string `json:"command"`
	JDK      string   `json:"jdk"`
	JavaHome string   `json:"javaHome"`
	Kernel   string   `json:"kernel"`
	Arch     string   `json:"arch"`
	Runner   string   `json:"runner"`
	// Image is the image that the application is in, nil on this machine.
	Image    *imageJSON           `json:"image"`
	Machine  machineJSON          `json:"machine"`
	Limits   limitsJSON           `json:"limits"`
	SLO      string               `json:"slo"`
	Ready    string               `json:"ready"`
	Load     loadJSON             `json:"load"`
	Peak     *footprint.Footprint `json:"footprint"`
	Warnings []string             `json:"warnings"`
}

type archiveJSON struct {
	File        string `json:"file"`
	TrainOption string `json:"trainOption"`
}

// needJSON is a fit.Need.
type needJSON struct {
	// MeanBytes is what runs need on the average, BoundBytes the upper tolerance
	// bound: 99 % of runs need no more, with a confidence of 95 %. The mean is the sum of
	// HeldBytes (what cannot be dropped, with the heap full), CacheBytes (page cache),
	// TriedBytes (what limits that were tried changed of these, below 0 where less was
	// needed), GrowthBytes (room for what still grew) and UntouchedBytes (what the user allows
	// of a heap, and runs did not touch; else 0).
	MeanBytes      int64 `json:"meanBytes"`
	BoundBytes     int64 `json:"boundBytes"`
	HeldBytes      int64 `json:"heldBytes"`
	CacheBytes     int64 `json:"cacheBytes"`
	TriedBytes     int64 `json:"triedBytes"`
	GrowthBytes    int64 `json:"growthBytes"`
	UntouchedBytes int64 `json:"untouchedBytes"`
	// Samples are the runs that the mean is of. Pressed says that they were near the limit,
	// and told by how long they waited for memory.
	Samples int  `json:"samples"`
	Pressed bool `json:"pressed"`
	// Deviation is the standard deviation of the logarithm of what is needed, Freedom
	// its degrees of freedom, of which Assumed are no trials'.
	Deviation float64 `json:"deviation"`
	Freedom   float64 `json:"freedom"`
	Assumed   float64 `json:"assumed"`
}

type machineJSON struct {
	CPUs        int   `json:"cpus"`
	MemoryBytes int64 `json:"memoryBytes"`
}

type limitsJSON struct {
	CPUs   float64 `json:"cpus"` // 0: no quota
	Cpuset string  `json:"cpuset"`
}

type loadJSON struct {
	// Generator is "http", or the format of the load command's output.
	Generator     string   `json:"generator,omitempty"`
	Targets       []string `json:"targets"`
	Command       []string `json:"command"`
	Concurrency   int      `json:"concurrency"`
	Rate          float64  `json:"rate"` // 0: closed loop
	WarmupSeconds float64  `json:"warmupSeconds"`
	// WarmBlocks is for how many times WarmupSeconds the warm-up could go on until the
	// application had warmed up; 0 where it was WarmupSeconds.
	WarmBlocks      int     `json:"warmBlocks,omitempty"`
	DurationSeconds float64 `json:"durationSeconds"`
	// Requests end the load, within DurationSeconds; 0: a load of that time.
	Requests int64 `json:"requests,omitempty"`
}

// runJSON is what one trial measured.
type runJSON struct {
	Trial int `json:"trial"`
	// Node is where it was made, where there were several.
	Node        string `json:"node,omitempty"`
	LimitBytes  int64  `json:"limitBytes"`
	PeakBytes   int64  `json:"peakBytes"`
	NeededBytes int64  `json:"neededBytes"`
	// CacheBytes is the page cache that it could not do without under its load;
	// null where no trial of the limit after the measurement told.
	CacheBytes  *int64   `json:"cacheBytes"`
	LiveBytes   int64    `json:"liveBytes"`
	ReadyMillis float64  `json:"readyMillis"`
	JobMillis   float64  `json:"jobMillis,omitempty"` // of a job, from its start to its end
	Requests    *int64   `json:"requests,omitempty"`  // as all below: absent where it was not measured
	Failed      *int64   `json:"failed,omitempty"`
	Dropped     int64    `json:"dropped"`
	Late        int64    `json:"late"`
	Throughput  *float64 `json:"throughput,omitempty"`
	MeanMillis  float64  `json:"meanMillis,omitempty"`
	P50Millis   float64  `json:"p50Millis,omitempty"`
	P90Millis   float64  `json:"p90Millis,omitempty"`
	P99Millis   float64  `json:"p99Millis,omitempty"`
	P999Millis  float64  `json:"p999Millis,omitempty"`
	MaxMillis   float64  `json:"maxMillis,omitempty"`
	GCShare     *float64 `json:"gcShare"`
	StallShare  *float64 `json:"stallShare"`
	// AwaitShare is the share of the time in which threads were seen to wait for a collector
	// that runs beside them, ReclaimShare that in which some thread waited for memory, or
	// what stands in for it, and StartReclaimShare the same until it was ready.
	AwaitShare        *float64 `json:"awaitShare,omitempty"`
	ReclaimShare      float64  `json:"reclaimShare"`
	StartReclaimShare float64  `json:"startReclaimShare"`
	// WorstReclaimShare is that of the quarter of the load in which it was largest; absent
	// where it is not known.
	WorstReclaimShare *float64 `json:"worstReclaimShare,omitempty"`
	// MajorFaults waited for the disk; DirectReclaimBytes the application's own threads
	// had to reclaim (0 on cgroup v1).
	MajorFaults        int64 `json:"majorFaults"`
	DirectReclaimBytes int64 `json:"directReclaimBytes"`
	// IdleCPUs is how many processors it used when it had nothing to do; absent where
	// that was not measured.
	IdleCPUs *float64 `json:"idleCpus,omitempty"`
	// Threads is what kinds of threads used during the load; absent where no threads of
	// a JVM were seen.
	Threads      *threadsJSON `json:"threads,omitempty"`
	RefaultBytes int64        `json:"refaultBytes"`
	CPUSeconds   float64      `json:"cpuSeconds"`
	// AnswerCPUMillis is the processor time of one good answer.
	AnswerCPUMillis float64 `json:"answerCpuMillis,omitempty"`
	OthersShare     float64 `json:"othersShare"`
	// Warming are the blocks of a warm-up that went on until the application had warmed up;
	// absent where it was as long as it was asked to be.
	Warming []warmingJSON `json:"warming,omitempty"`
	// PaceMicros is the mean processor time of a fixed piece of work meanwhile, by which
	// costs are divided; absent where it is unknown.
	PaceMicros float64 `json:"paceMicros,omitempty"`
}

// warmingJSON is a trial.WarmBlock.
type warmingJSON struct {
	Requests int64 `json:"requests"`
	// AnswerCPUMillis is the processor time of one good answer; 0 is unknown.
	AnswerCPUMillis float64 `json:"answerCpuMillis"`
	// CompilerShare is the part of the processor time that compilers used; absent where it
	// is unknown.
	CompilerShare *float64 `json:"compilerShare,omitempty"`
}

// threadsJSON is a runner.Times, in seconds of processor time.
type threadsJSON struct {
	ApplicationSeconds float64 `json:"applicationSeconds"`
	CollectorSeconds   float64 `json:"collectorSeconds"`
	CompilerSeconds    float64 `json:"compilerSeconds"`
	ServiceSeconds     float64 `json:"serviceSeconds"`
}

type trialJSON struct {
	runJSON
	Phase   string        `json:"phase"`
	Lever   string        `json:"lever,omitempty"`
	Repeat  int           `json:"repeat"`
	Options []string      `json:"options"`
	Env     []string      `json:"env"`
	Verdict trial.Verdict `json:"verdict"`
	Narrow  bool          `json:"narrow"`
	// SlowElsewhere says that the trial was too slow, and not for want of memory.
	SlowElsewhere bool `json:"slowElsewhere,omitempty"`
	// Pressed says that waiting for memory took so much of it that a smaller limit is of
	// no use, even where it passed.
	Pressed bool `json:"pressed,omitempty"`
	// LimitCost is the share of its processor time that a trial which looks for a limit, or
	// proves it, is sure to owe to that.
	LimitCost   float64          `json:"limitCost,omitempty"`
	Evidence    []string         `json:"evidence"`
	Errors      map[string]int64 `json:"errors"`
	ExitCode    int              `json:"exitCode"`
	Signal      int              `json:"signal"`
	TookSeconds float64          `json:"tookSeconds"`
	Time        time.Time        `json:"time"`
}

// effectJSON is a fit.Effect.
type effectJSON struct {
	Lever string `json:"lever"`
	// LeftOut says that it was taken away from the recommendation; else it
	// was put on top of those before it.
	LeftOut    bool  `json:"leftOut"`
	SavedBytes int64 `json:"savedBytes"`
	// LowBytes and HighBytes are nil unless there were several trials on
	// both sides.
	LowBytes  *int64  `json:"lowBytes"`
	HighBytes *int64  `json:"highBytes"`
	Speed     float64 `json:"speed"` // with it over without; 0 is unknown
	With      []int   `json:"with"`
	Without   []int   `json:"without"`
}

type leverJSON struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Options    []string `json:"options"`
	Env        []string `json:"env"`
	Kept       bool     `json:"kept"`
	SavedBytes int64    `json:"savedBytes"`
	// costJSON is with it, and all that were tried with it, over without.
	costJSON
	// BoundBytes is the most that it could save by the footprint's rows, nil
	// where nothing told. Trial is the one that it was tried in, with all
	// levers that have the same; 0 without one.
	BoundBytes *int64   `json:"boundBytes"`
	Rows       []string `json:"rows"`
	Trial      int      `json:"trial"`
	Mark       fit.Mark `json:"mark"`
	Breaks     string   `json:"breaks"`
	Undo       string   `json:"undo"`
	Why        string   `json:"why"`
	Cost       string   `json:"cost"`
	Reason     string   `json:"reason"`
}

// costOf is a cost as JSON, nil where trials do not tell.
func costOf(c fit.RelativeCost) *costJSON {
	if c.CostRatio <= 0 {
		return nil
	}
	return (*costJSON)(&c)
}

// costJSON is a fit.RelativeCost: the processor time of the same work with something over
// that without.
type costJSON struct {
	// CostRatio is absent where trials do not tell, CostLow and CostHigh are its bounds with a
	// confidence of 95 % each.
	CostRatio float64 `json:"costRatio,omitempty"`
	CostLow   float64 `json:"costLow,omitempty"`
	CostHigh  float64 `json:"costHigh,omitempty"`
}

// pointJSON is a fit.FrontierPoint: options that held the objective, and that no other ones of
// the fit are sure to beat in both memory and cost.
type pointJSON struct {
	Options     []string `json:"options"`
	Env         []string `json:"env"`
	Jar         string   `json:"jar"`
	NoHugePages bool     `json:"noHugePages"`
	// Levers are the names of those that make them; none is as given. Trial is the last with them.
	Levers []string `json:"levers"`
	Trial  int      `json:"trial"`
	// NeededBytes is what they need on the average, and BoundBytes what 99 % of runs need no
	// more than, as known when the limit was looked for; as given it is the smallest limit
	// that passed.
	NeededBytes int64 `json:"neededBytes"`
	BoundBytes  int64 `json:"boundBytes"`
	// costJSON is with them over as given.
	costJSON
	// SpeedRatio is the speed over that as given, which decides where costs are unknown.
	SpeedRatio float64 `json:"speedRatio,omitempty"`
	// PickedBy are the values of --prefer that pick them: memory what needs least, balanced
	// the least product of needed and cost, throughput what needs least of all that are at
	// most 3 % slower than the fastest. Recommended says that they are the recommendation,
	// but for a heap that the proof may have raised since.
	PickedBy    []string `json:"pickedBy"`
	Recommended bool     `json:"recommended"`
}

func newPointJSON(p fit.FrontierPoint, r *fit.Result) pointJSON {
	recommended, _ := r.Recommends(p)
	j := pointJSON{Options: list(p.Setup.Options), Env: list(p.Setup.Env), Jar: p.Setup.Jar, NoHugePages: p.Setup.NoHugePages, Levers: list(p.Levers), Trial: p.Trial,
		NeededBytes: p.NeededBytes, BoundBytes: p.BoundBytes, costJSON: costJSON(p.RelativeCost), SpeedRatio: p.SpeedRatio,
		PickedBy: []string{}, Recommended: recommended}
	for _, prefer := range p.PickedBy {
		j.PickedBy = append(j.PickedBy, string(prefer))
	}
	return j
}

type imageJSON struct {
	Name string   `json:"name"`
	ID   string   `json:"id"`
	Args []string `json:"args"`
	// ByVariable says that options went by JAVA_TOOL_OPTIONS.
	ByVariable bool `json:"byVariable"`
	// Run is how its containers were started.
	Run docker.Run `json:"run,omitzero"`
	// Compose is the file that it is a service of.
	Compose *fit.Compose `json:"compose,omitempty"`
	// Files is the folder of this machine that holds what options and jar name in
	// runner.InImage.
	Files string `json:"files,omitempty"`
}

// NewFitJSON converts a result; failure is why there is no recommendation, or
// nil.
func NewFitJSON(r *fit.Result, failure error) FitJSON {
	c := r.Config
	j := FitJSON{
		Schema: FitSchema, Time: r.Time.UTC(), TookSeconds: r.Took.Seconds(),
		Options: list(r.Setup.Options), Env: list(r.Setup.Env), Jar: r.Setup.Jar, NoHugePages: r.Setup.NoHugePages, ByVariable: r.OptionsByVariable(),
		MarginBytes: r.MarginBytes, Seed: c.Seed, Effects: []effectJSON{}, Levers: []leverJSON{}, Frontier: []pointJSON{}, Trials: trialsJSON(r.Trials), Confirmations: trialsJSON(r.Confirmations), FreshRuns: max(len(r.Confirmations), len(r.FreshRuns())),
		Command: c.Command.With(), JDK: c.Java.Version, JavaHome: c.Java.Home, Kernel: r.Machine.Kernel, Arch: r.Machine.Arch, Runner: r.RunnerName,
		Machine: machineJSON{r.Machine.CPUs, r.Machine.MemoryBytes}, Limits: limitsJSON{c.CPUs, c.Cpuset}, SLO: c.SLO.String(), Ready: c.Ready.String(),
		Load: loadJSON{Generator: c.Load.Generator, Targets: list(c.Load.Targets), Command: list(c.Load.Command), Concurrency: c.Load.Concurrency, Rate: c.Load.Rate,
			WarmupSeconds: c.Warmup.Seconds(), WarmBlocks: c.WarmBlocks, DurationSeconds: c.Duration.Seconds(), Requests: c.Requests},
		Peak: r.Peak, UnpaidBytes: r.UnpaidBytes, Warnings: list(r.Warnings),
	}
	if c.Image != nil {
		j.Image = &imageJSON{c.Image.Name, c.Image.ID, list(c.Image.Args), r.OptionsByVariable(), c.Image.Run, c.Image.Compose, c.ArchiveDir}
	}
	if failure != nil {
		text := failure.Error()
		j.Error = &text
	}
	if r.LimitBytes > 0 {
		j.LimitBytes = &r.LimitBytes
		run := newRunJSON(Recommended(r))
		j.Recommended = &run
	}
	if r.RaisedFrom > 0 {
		j.RaisedFromBytes = &r.RaisedFrom
	}
	if n := r.Need; n != nil {
		j.Need = &needJSON{n.MeanBytes, n.BoundBytes, n.HeldBytes, n.CacheBytes, n.TriedBytes, n.GrowthBytes, n.UntouchedBytes, n.Samples, n.Pressed, n.Deviation, n.Freedom, n.Assumed}
	}
	j.AtLimit, j.ProofCost = costOf(r.AtLimit), costOf(r.ProofCost)
	if r.Long != nil {
		j.LongTrial = r.Long.Number
	}
	if r.Half != nil {
		j.HalfTrial = r.Half.Number
	}
	if r.AsGivenFails > 0 {
		j.AsGivenFailsBytes = &r.AsGivenFails
	}
	if r.Archive != "" {
		j.Archive = &archiveJSON{r.Archive, r.TrainOption}
	}
	if r.Baseline.Number > 0 {
		run := newRunJSON(r.Baseline)
		j.Baseline = &run
	}
	if r.AsGiven.Number > 0 {
		run := newRunJSON(r.AsGiven)
		j.AsGiven = &run
	}
	for _, l := range r.Levers {
		j.Levers = append(j.Levers, newLeverJSON(l))
	}
	for _, p := range r.Frontier {
		j.Frontier = append(j.Frontier, newPointJSON(p, r))
	}
	for _, e := range r.Effects() {
		j.Effects = append(j.Effects, newEffectJSON(e))
	}
	return j
}

func newLeverJSON(l fit.LeverResult) leverJSON {
	j := leverJSON{ID: l.Lever.ID, Name: l.Lever.Name, Options: list(l.Setup.Options), Env: list(l.Setup.Env), Kept: l.Kept, SavedBytes: l.SavedBytes, costJSON: costJSON(l.RelativeCost), BoundBytes: l.BoundBytes,
		Rows: []string{}, Trial: l.Trial, Mark: l.Lever.Mark, Breaks: l.Lever.Breaks, Undo: l.Lever.Undo, Why: l.Lever.Why, Cost: l.Lever.Cost, Reason: l.Reason}
	for _, o := range l.Lever.Rows {
		j.Rows = append(j.Rows, string(o))
	}
	return j
}

func newEffectJSON(e fit.Effect) effectJSON {
	j := effectJSON{Lever: e.Lever.Lever.ID, LeftOut: e.LeftOut, SavedBytes: e.SavedBytes, Speed: e.Speed, With: numbers(e.With), Without: numbers(e.Without)}
	if e.Measured {
		j.LowBytes, j.HighBytes = &e.LowBytes, &e.HighBytes
	}
	return j
}

func numbers(trials []fit.Trial) []int {
	out := []int{}
	for _, t := range trials {
		out = append(out, t.Number)
	}
	return out
}

// WriteFitJSON writes a result as indented JSON.
func WriteFitJSON(w io.Writer, r *fit.Result, failure error) error {
	b, err := json.MarshalIndent(NewFitJSON(r, failure), "", "  ")
	if err != nil {
		return fmt.Errorf("result as JSON: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Recommended is the confirming run of median throughput.
func Recommended(r *fit.Result) fit.Trial { return fit.Median(r.Confirmations) }

func newRunJSON(t fit.Trial) runJSON {
	j := runJSON{Trial: t.Number, Node: t.Node, LimitBytes: t.LimitBytes, PeakBytes: t.PeakBytes, NeededBytes: t.NeededBytes, LiveBytes: t.LiveBytes,
		ReadyMillis: millis(t.Measured.Start), JobMillis: millis(t.Measured.Time)}
	if t.CacheBytes > 0 {
		j.CacheBytes = &t.CacheBytes
	}
	if l := t.Measured.Load; l != nil {
		j.setLoad(l)
	}
	if r := t.Result; r != nil {
		j.GCShare, j.StallShare, j.RefaultBytes = r.GCShare, r.StallShare, r.RefaultBytes
		j.CPUSeconds, j.OthersShare = r.CPUTime.Seconds(), r.Others
		j.AwaitShare, j.ReclaimShare, j.StartReclaimShare, j.WorstReclaimShare = r.AwaitShare, r.ReclaimShare, r.StartReclaimShare, r.WorstReclaimShare
		j.MajorFaults, j.DirectReclaimBytes, j.IdleCPUs = r.MajorFaults, r.DirectBytes, r.IdleCPUs
		for _, b := range r.Warming {
			j.Warming = append(j.Warming, warmingJSON{b.Requests, 1000 * b.Cost.Seconds(), b.Compiling})
		}
		j.PaceMicros = 1000 * millis(r.Pace)
		if t := r.Times; t != nil {
			j.Threads = &threadsJSON{t.Application().Seconds(), t.Collector.Seconds(), t.Compiler.Seconds(), t.Service.Seconds()}
		}
		if cost, measured := r.AnswerCost(); measured {
			j.AnswerCPUMillis = millis(cost)
		}
	}
	return j
}

func (j *runJSON) setLoad(l *load.Result) {
	j.Dropped, j.Late = l.Dropped, l.Late
	if !l.NoRequests {
		j.Requests = &l.Sent
	}
	if !l.NoFailures {
		j.Failed = &l.Failed
	}
	if v, measured := l.Throughput(); measured {
		j.Throughput = &v
	}
	time := func(t load.Time) float64 {
		d, _ := t.Value()
		return millis(d)
	}
	j.MeanMillis, j.P50Millis, j.P90Millis = time(l.Latency.Mean), time(l.Latency.P50), time(l.Latency.P90)
	j.P99Millis, j.P999Millis, j.MaxMillis = time(l.Latency.P99), time(l.Latency.P999), time(l.Latency.Max)
}

func trialsJSON(trials []fit.Trial) []trialJSON {
	out := make([]trialJSON, 0, len(trials))
	for _, t := range trials {
		j := trialJSON{runJSON: newRunJSON(t), Phase: string(t.Phase), Lever: t.Lever, Repeat: t.Repeat,
			Options: list(t.Setup.Options), Env: list(t.Setup.Env), Verdict: t.Verdict, Narrow: t.Narrow, SlowElsewhere: t.SlowElsewhere, Pressed: t.Pressed, LimitCost: t.LimitCost,
			Evidence: []string{}, Errors: map[string]int64{}, TookSeconds: t.Took.Seconds()}
		if l := t.Measured.Load; l != nil && l.Errors != nil {
			j.Errors = l.Errors
		}
		if r := t.Result; r != nil {
			j.Evidence, j.Time = list(r.Evidence), r.Time.UTC()
			j.ExitCode, j.Signal = r.Exit.Code, int(r.Exit.Signal)
		}
		out = append(out, j)
	}
	return out
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// list is never nil, so that JSON has [] and no null.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

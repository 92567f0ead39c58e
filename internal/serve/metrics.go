package serve

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/lazy"
	"tare.dev/tare/internal/ledger"
)

// owners are the values of the label owner: those of another version count as
// otherOwner, so that the owners of a JVM add up and are bounded.
var owners = []footprint.Owner{footprint.JavaHeap, footprint.ClassSpace, footprint.Metaspace, footprint.CodeCache, footprint.ThreadStacks, footprint.GC,
	footprint.CDS, footprint.Malloc, footprint.MappedFiles, footprint.JVMOther, footprint.Unattributed}

const otherOwner = "other"

// Metric is the description of one metric; docs/serve.md says the same to people.
type Metric struct {
	Name, Help string
	Kind       prometheus.ValueType
	Labels     []string

	desc *prometheus.Desc
}

var (
	jvmLabels = []string{"machine", "jvm", "name"}

	jvmInfo        = gauge("tare_jvm_info", "A JVM that runs: always 1. jvm is its number at this server.", "machine", "jvm", "name", "pid", "kind", "jdk", "collector", "container", "pod", "namespace")
	jvmResident    = gauge("tare_jvm_resident_bytes", "Resident memory by owner at the last footprint; the owners add up to Rss of that moment.", append(jvmLabels, "owner")...)
	jvmCommitted   = gauge("tare_jvm_committed_bytes", "What an owner has committed, where it says so. It need not be resident.", append(jvmLabels, "owner")...)
	jvmAge         = gauge("tare_jvm_footprint_timestamp_seconds", "When the last footprint was taken, in seconds since 1970.", jvmLabels...)
	jvmRSS         = gauge("tare_jvm_rss_bytes", "VmRSS at the last look; it lags by some pages a thread.", jvmLabels...)
	jvmUsage       = gauge("tare_jvm_group_usage_bytes", "What the control group with the smallest limit uses, page cache included.", jvmLabels...)
	jvmNeeded      = gauge("tare_jvm_group_needed_bytes", "Usage less the page cache that the kernel can drop.", jvmLabels...)
	jvmLimit       = gauge("tare_jvm_group_limit_bytes", "The smallest memory limit above the JVM; absent without one.", jvmLabels...)
	jvmHeadroom    = gauge("tare_jvm_headroom_bytes", "Limit less what is needed; absent without a limit.", jvmLabels...)
	jvmLiveSet     = gauge("tare_jvm_live_set_bytes", "What the last collection left in the heap: an upper bound of the live objects.", jvmLabels...)
	jvmHeapMax     = gauge("tare_jvm_heap_max_bytes", "The largest heap that the JVM may have.", jvmLabels...)
	jvmCollections = counter("tare_jvm_collections_total", "Garbage collections since the start of the JVM.", jvmLabels...)
	jvmGCTime      = counter("tare_jvm_collection_seconds_total", "Time in collections since the start of the JVM.", jvmLabels...)
	jvmAtLimit     = counter("tare_jvm_group_limit_reached_total", "How often the usage of the group reached its limit.", jvmLabels...)
	jvmFinding     = gauge("tare_jvm_finding_bytes", "What a finding of tare doctor costs; findings may overlap.", append(jvmLabels, "finding", "certainty")...)

	killsTotal = counter("tare_kills_total", "Processes that the kernel killed in groups of JVMs, since the machine was first heard of: jvm-ended with the JVM, other-process without.", "machine", "verdict")

	autopsiesTotal = counter("tare_autopsies_total", "Autopsies that the machine's agent has made: of JVMs that ended, and of those that outlived a kill in their group.", "machine", "verdict")

	machineSeen      = gauge("tare_machine_seen_timestamp_seconds", "When the machine's agent was heard of last, in seconds since 1970.", "machine")
	machineTotal     = gauge("tare_machine_memory_bytes", "Memory of the machine.", "machine")
	machineAvailable = gauge("tare_machine_memory_available_bytes", "What of it can be given out without swapping (MemAvailable).", "machine")
	machineKills     = counter("tare_machine_oom_kills_total", "Processes that the kernel killed for memory since boot, for any limit.", "machine")
	agentCPU         = counter("tare_machine_agent_cpu_seconds_total", "Processor time of the machine's agent since its start.", "machine")
	agentResident    = gauge("tare_machine_agent_resident_bytes", "Resident memory of the machine's agent.", "machine")
	agentJVMs        = gauge("tare_machine_jvms", "JVMs that the machine's agent watches.", "machine")
	agentDeferred    = counter("tare_machine_agent_deferred_total", "Looks and weighings that the agent's budget put off.", "machine")

	serveRecords = counter("tare_serve_records_total", "Records that agents sent since the start.")
	serveRefused = counter("tare_serve_records_refused_total", "Records that were no honest ones, since the start.")
	serveLeftOut = gauge("tare_serve_jvms_left_out", "JVMs that are not among these metrics, for there are more than --metrics-jvms.")
)

// Metrics are all metrics of JVMs and machines.
var Metrics []*Metric

func gauge(name, help string, labels ...string) *Metric {
	return describe(name, help, prometheus.GaugeValue, labels)
}

func counter(name, help string, labels ...string) *Metric {
	return describe(name, help, prometheus.CounterValue, labels)
}

func describe(name, help string, kind prometheus.ValueType, labels []string) *Metric {
	m := &Metric{Name: name, Help: help, Kind: kind, Labels: slices.Clone(labels), desc: prometheus.NewDesc(name, help, slices.Clone(labels), nil)}
	Metrics = append(Metrics, m)
	return m
}

// metrics serves the metrics, in the text format of Prometheus or as OpenMetrics.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 20 * time.Second, ErrorLog: quiet()})
}

// collector reads the metrics from the history.
type collector struct{ s *Server }

// Describe sends nothing: the library then checks what Collect sends.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends all metrics. What cannot be read makes the scrape fail.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	e := &emitter{out: out}
	e.put(serveRecords, float64(c.s.records.Load()))
	e.put(serveRefused, float64(c.s.refused.Load()))
	c.jvms(ctx, e)
	c.machines(ctx, e)
}

// emitter sends metrics.
type emitter struct{ out chan<- prometheus.Metric }

func (e *emitter) put(m *Metric, value float64, labels ...string) {
	got, err := prometheus.NewConstMetric(m.desc, m.Kind, value, labels...)
	if err != nil {
		got = prometheus.NewInvalidMetric(m.desc, err)
	}
	e.out <- got
}

// fail has the scrape fail.
func (e *emitter) fail(err error) { e.out <- prometheus.NewInvalidMetric(jvmInfo.desc, err) }

func (c *collector) jvms(ctx context.Context, e *emitter) {
	most := c.s.cfg.MaxJVMs
	all, err := c.s.cfg.History.JVMs(ctx, history.Filter{Live: true, Since: c.s.cfg.Now().Add(-recently), Limit: history.MaxJVMs})
	if err != nil {
		e.fail(err)
		return
	}
	e.put(serveLeftOut, float64(max(0, len(all)-most)))
	for i := range all[:min(len(all), most)] {
		e.jvm(&all[i])
	}
}

// longestLabel is where texts of JVMs are cut.
const longestLabel = 128

func cut(s string) string {
	if len(s) <= longestLabel {
		return s
	}
	return string([]rune(s)[:longestLabel/4]) + "…"
}

func (e *emitter) jvm(j *history.JVM) {
	p, c := &j.Process, &j.Counters
	machine, id, name := j.Machine, strconv.FormatInt(j.ID, 10), cut(p.Name)
	a := newJVM(j)
	e.put(jvmInfo, 1, machine, id, name, strconv.Itoa(p.ID.PID), cut(p.Kind), cut(p.JDK), cut(p.Collector), cut(a.Container), cut(a.Pod), cut(a.Namespace))
	put := func(m *Metric, value float64, labels ...string) {
		e.put(m, value, append([]string{machine, id, name}, labels...)...)
	}
	if !j.CountersAt.IsZero() {
		put(jvmRSS, float64(c.Resident))
		put(jvmUsage, float64(c.Usage))
		put(jvmNeeded, float64(j.Needed()))
		put(jvmLiveSet, float64(j.LiveSet()))
		put(jvmCollections, float64(c.Collections))
		put(jvmGCTime, c.GCTime.Seconds())
		put(jvmAtLimit, float64(c.AtLimit))
	}
	if left, ok := j.Headroom(); ok {
		put(jvmLimit, float64(c.Limit))
		put(jvmHeadroom, float64(left))
	}
	if j.Footprint != nil {
		put(jvmAge, float64(j.FootprintAt.UnixMilli())/1000)
		resident, committed := byOwner(j.Footprint)
		for owner, bytes := range resident {
			put(jvmResident, float64(bytes), string(owner))
		}
		for owner, bytes := range committed {
			put(jvmCommitted, float64(bytes), string(owner))
		}
		if h := j.Footprint.Heap; h != nil {
			put(jvmHeapMax, float64(h.Max))
		}
	}
	for k, bytes := range findings(j.Findings) {
		put(jvmFinding, float64(bytes), k[0], k[1])
	}
}

// byOwner is what owners have, those of another version together.
func byOwner(f *ledger.Footprint) (resident, committed map[footprint.Owner]int64) {
	resident, committed = map[footprint.Owner]int64{}, map[footprint.Owner]int64{}
	for _, o := range f.Owners {
		owner := o.Owner
		if !slices.Contains(owners, owner) {
			owner = otherOwner
		}
		resident[owner] += o.Resident
		if o.Committed > 0 {
			committed[owner] += o.Committed
		}
	}
	return resident, committed
}

// findingID is what the id of a finding looks like.
var findingID = lazy.Regexp(`^[a-z0-9-]{1,48}$`)

// maxFindings bounds the findings of a JVM in the metrics.
const maxFindings = 24

// findings is what findings cost by id and certainty.
func findings(all []ledger.Finding) map[[2]string]int64 {
	out := map[[2]string]int64{}
	for _, f := range all[:min(len(all), maxFindings)] {
		k := [2]string{f.ID, string(f.Certainty)}
		for i := range k {
			if !findingID().MatchString(k[i]) {
				k[i] = otherOwner
			}
		}
		out[k] += f.Bytes
	}
	return out
}

func (c *collector) machines(ctx context.Context, e *emitter) {
	all, err := c.s.cfg.History.Machines(ctx)
	if err != nil {
		e.fail(err)
		return
	}
	kills := map[history.KillCount]bool{} // which are told
	for _, m := range all {
		e.put(machineSeen, float64(m.Seen.UnixMilli())/1000, m.Name)
		if s := m.Spent; s != nil {
			e.put(machineTotal, float64(s.MemTotal), m.Name)
			e.put(machineAvailable, float64(s.MemAvailable), m.Name)
			e.put(machineKills, float64(s.OOMKills), m.Name)
			e.put(agentCPU, s.Processor.Seconds(), m.Name)
			e.put(agentResident, float64(s.Resident), m.Name)
			e.put(agentJVMs, float64(s.JVMs), m.Name)
			e.put(agentDeferred, float64(s.Deferred), m.Name)
		}
	}
	counts, err := c.s.cfg.History.KillCounts(ctx)
	if err != nil {
		e.fail(err)
		return
	}
	for _, k := range counts {
		e.put(killsTotal, float64(k.Kills), k.Machine, string(k.Verdict))
		kills[history.KillCount{Machine: k.Machine, Verdict: k.Verdict}] = true
	}
	examined, err := c.s.cfg.History.AutopsyCounts(ctx)
	if err != nil {
		e.fail(err)
		return
	}
	for _, a := range examined {
		e.put(autopsiesTotal, float64(a.Autopsies), a.Machine, a.Verdict)
	}
	for _, m := range all { // a metric does not vanish at zero
		for _, v := range history.Verdicts {
			if !kills[history.KillCount{Machine: m.Name, Verdict: v}] {
				e.put(killsTotal, 0, m.Name, string(v))
			}
		}
	}
}

package agent

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tare.dev/tare/internal/ledger"
	"tare.dev/tare/internal/linux"
)

// metric is one figure of the agent, by Prometheus' naming.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	reason     ledger.Reason // label of the weighings, "" without one
	read       func() float64
}

func (a *Agent) metrics(w *ledger.Writer) []metric {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	count := func(read interface{ Load() int64 }) func() float64 {
		return func() float64 { return float64(read.Load()) }
	}
	s := &a.Stats
	out := []metric{
		{name: "tare_agent_cpu_seconds_total", help: "Processor time that the agent has taken.", kind: counter, read: func() float64 { return a.cfg.Clock.Processor().Seconds() }},
		{name: "tare_agent_resident_bytes", help: "Resident memory of the agent.", kind: gauge, read: func() float64 { return float64(resident(a.cfg.Proc)) }},
		{name: "tare_agent_budget_ratio", help: "Share of one processor that the agent may take.", kind: gauge, read: func() float64 { return a.cfg.Share }},
		{name: "tare_agent_jvms", help: "JVMs that are watched.", kind: gauge, read: count(&s.JVMs)},
		{name: "tare_agent_jvms_ended_total", help: "JVMs whose end was seen.", kind: counter, read: count(&s.Ended)},
		{name: "tare_agent_looks_total", help: "Readings of the counters of a JVM.", kind: counter, read: count(&s.Looks)},
		{name: "tare_agent_glances_total", help: "Readings of the usage of a group alone.", kind: counter, read: count(&s.Glances)},
		{name: "tare_agent_autopsies_total", help: "Autopsies made, of JVMs that ended or outlived a kill in their group.", kind: counter, read: count(&s.Autopsies)},
		{name: "tare_agent_alarms_total", help: "Alarms of the kernel that a limit is near.", kind: counter, read: count(&s.Alarms)},
		{name: "tare_agent_deferred_total", help: "Looks and weighings that the budget put off.", kind: counter, read: count(&s.Deferred)},
		{name: "tare_agent_weighings_failed_total", help: "Weighings of a JVM that failed.", kind: counter, read: count(&s.Failed)},
		{name: "tare_ledger_bytes", help: "What the files of the ledger fill.", kind: gauge, read: func() float64 { return float64(w.Bytes()) }},
		{name: "tare_ledger_lost_records_total", help: "Records that could not be written.", kind: counter, read: func() float64 { return float64(w.Lost()) }},
	}
	for _, r := range urgency {
		out = append(out, metric{name: "tare_agent_weighings_total", help: "Footprints taken, by reason.", kind: counter, reason: r, read: count(s.counter(r))})
	}
	return out
}

// collector hands the figures to Prometheus' library as they are.
type collector []metric

// Describe sends nothing: the library then checks what Collect sends.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends all figures.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c {
		var labels []string
		var values []string
		if m.reason != "" {
			labels, values = []string{"reason"}, []string{string(m.reason)}
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(m.name, m.help, labels, nil), m.kind, m.read(), values...)
	}
}

// Metrics serves the agent's own figures at /metrics, in the text format of
// Prometheus or as OpenMetrics. w is its ledger.
func (a *Agent) Metrics(w *ledger.Writer) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(a.metrics(w)))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 2, Timeout: 5 * time.Second}))
	return mux
}

// Serve serves h on l until stop is called; say is called with an error.
func Serve(l net.Listener, h http.Handler, say func(error)) (stop func()) {
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			say(err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx) // who still reads is cut off
		_ = server.Close()
		<-done
	}
}

// resident is the resident memory of this process in bytes, 0 when it cannot be
// read.
func resident(proc linux.FS) int64 {
	st, err := proc.Status(proc.Self())
	if err != nil {
		return 0
	}
	return st.VmRSS
}

package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const rulesFile = "../../../../deploy/prometheus/tare.rules.yaml"

// evaluate evaluates the rules by Prometheus' engine every minute for as long as said, on
// series in the notation of promtool's unit tests, a value a minute. It returns the alerts
// that fire then, which are those that were true for as long as their "for" says, and what
// each recording rule says last. Prometheus' own package of rules needs the clients of all
// its service discoveries.
func evaluate(t *testing.T, series string, minutes int) (firing []string, recorded map[string]float64) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	storage := promqltest.LoadedStorage(t, "load 1m\n"+strings.TrimSpace(series))
	engine := promqltest.NewTestEngine(t, false, 0, 1e6)
	at := func(expr string, minute int) promql.Vector {
		q, err := engine.NewInstantQuery(t.Context(), storage, nil, expr, time.Unix(0, 0).Add(time.Duration(minute)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		v, err := q.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		return slices.Clone(v)
	}
	recorded = map[string]float64{}
	for _, r := range groups.Groups[0].Rules {
		if r.Record != "" {
			for _, s := range at(r.Expr, minutes) {
				recorded[fmt.Sprintf("%s %s %s %s", r.Record, s.Metric.Get("machine"), s.Metric.Get("name"), s.Metric.Get("owner"))] = s.F
			}
			continue
		}
		count, needed := map[string]int{}, int(time.Duration(r.For)/time.Minute)+1
		for minute := max(0, minutes-needed+1); minute <= minutes; minute++ {
			for _, s := range at(r.Expr, minute) {
				count[s.Metric.Get("name")+"@"+s.Metric.Get("machine")]++
			}
		}
		for who, n := range count {
			if n >= needed {
				firing = append(firing, r.Alert+" "+who)
			}
		}
	}
	slices.Sort(firing)
	return firing, recorded
}

// Each alert fires when it is to, not before, and for whom it is to.
func TestAlerts(t *testing.T) {
	const jvm = `{machine="web", jvm="1", name="shop"}`
	for name, c := range map[string]struct {
		series  string
		minutes int
		want    []string
	}{
		"nothing": {`
			tare_kills_total{machine="web", verdict="jvm-ended"} 3x60
			tare_jvm_headroom_bytes` + jvm + ` 50x60
			tare_jvm_group_limit_bytes` + jvm + ` 100x60
			tare_machine_seen_timestamp_seconds{machine="web"} 0+60x60
			tare_machine_agent_deferred_total{machine="web"} 0+1x60`, 50, nil},
		"a kill": {`
			tare_kills_total{machine="web", verdict="jvm-ended"} 0x20 1x40
			tare_kills_total{machine="api", verdict="jvm-ended"} 0x60
			tare_kills_total{machine="api", verdict="other-process"} 0x20 1x40`, 25, []string{"TareJVMKilled @web"}},
		"a kill long ago": {`tare_kills_total{machine="web", verdict="jvm-ended"} 0x20 1x60`, 50, nil},
		"near its limit": {`
			tare_jvm_headroom_bytes` + jvm + ` 50x10 4x60
			tare_jvm_group_limit_bytes` + jvm + ` 100x70`, 20, []string{"TareJVMNearLimit shop@web"}},
		"near its limit for a moment": {`
			tare_jvm_headroom_bytes` + jvm + ` 50x10 4x2 50x60
			tare_jvm_group_limit_bytes` + jvm + ` 100x70`, 20, nil},
		"grows with its live set": {`
			tare_jvm_group_needed_bytes` + jvm + ` 100+1x600
			tare_jvm_live_set_bytes` + jvm + ` 50+1x600
			tare_jvm_group_limit_bytes` + jvm + ` 1500x600`, 500, []string{"TareJVMFillsInADay shop@web"}},
		"grows without its live set": {`
			tare_jvm_group_needed_bytes` + jvm + ` 100+1x600
			tare_jvm_live_set_bytes` + jvm + ` 50x600
			tare_jvm_group_limit_bytes` + jvm + ` 1500x600`, 500, nil},
		"grows slowly": {`
			tare_jvm_group_needed_bytes` + jvm + ` 100+1x600
			tare_jvm_live_set_bytes` + jvm + ` 50+1x600
			tare_jvm_group_limit_bytes` + jvm + ` 5000x600`, 500, nil},
		"a silent agent": {`
			tare_machine_seen_timestamp_seconds{machine="web"} 0x60
			tare_machine_seen_timestamp_seconds{machine="api"} 0+60x60`, 10, []string{"TareAgentSilent @web"}},
		"a small budget": {`tare_machine_agent_deferred_total{machine="web"} 0+60x120`, 60, []string{"TareAgentDefers @web"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := evaluate(t, c.series, c.minutes); !slices.Equal(got, c.want) {
				t.Errorf("%q fire, want %q", got, c.want)
			}
		})
	}
}

func TestRecordings(t *testing.T) {
	_, got := evaluate(t, `
		tare_jvm_resident_bytes{machine="web", jvm="1", name="shop", owner="java-heap"} 10x5
		tare_jvm_resident_bytes{machine="web", jvm="1", name="shop", owner="malloc"} 5x5
		tare_jvm_resident_bytes{machine="web", jvm="2", name="cart", owner="malloc"} 2x5
		tare_jvm_group_needed_bytes{machine="web", jvm="1", name="shop"} 30x5
		tare_jvm_group_limit_bytes{machine="web", jvm="1", name="shop"} 40x5`, 3)
	want := map[string]float64{
		"machine_jvm_name:tare_jvm_needed_ratio web shop ":         0.75,
		"machine:tare_jvm_resident_bytes:sum web  ":                17,
		"machine_owner:tare_jvm_resident_bytes:sum web  java-heap": 10,
		"machine_owner:tare_jvm_resident_bytes:sum web  malloc":    7,
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %g, want %g", name, got[name], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

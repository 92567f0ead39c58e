package report

import (
	"fmt"
	"slices"
	"strings"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
)

// fitFrontier are the options that the search picked from, and what each preference picks;
// none where there was no choice.
func fitFrontier(r *fit.Result) []document.Block {
	if len(r.Frontier) < 2 {
		return nil
	}
	byCost := slices.ContainsFunc(r.Frontier, func(p fit.FrontierPoint) bool { return p.CostRatio > 0 })
	columns := document.Columns(">#", ">needed", ">at most", ">cost", ">bounds", "picked by")
	if !byCost {
		columns = document.Columns(">#", ">needed", ">at most", ">speed", "picked by")
	}
	t := document.Table{Columns: columns}
	var names document.List
	for i, p := range r.Frontier {
		row := document.Cells(fmt.Sprint(p.Trial), Size(p.NeededBytes), Size(p.BoundBytes))
		t.Row(append(append(row, pointCells(p, byCost)...), document.Cells(picksText(p))...)...)
		name := document.Plain(fmt.Sprintf("%d: %s", p.Trial, pointName(r.Frontier[:i], p)))
		switch recommended, raised := r.Recommends(p); {
		case raised:
			name = document.Join(name, document.Good(" (recommended, with the larger heap that the proof asked for)"))
		case recommended:
			name = document.Join(name, document.Good(" (recommended)"))
		}
		names.Items = append(names.Items, name)
	}
	return []document.Block{heading("Memory or speed: what there was to pick from"), t, names, aside(frontierText(byCost))}
}

// pointCells are what options cost, with the bounds, or the speed with them.
func pointCells(p fit.FrontierPoint, byCost bool) []document.Cell {
	switch {
	case !byCost && p.SpeedRatio > 0:
		return []document.Cell{document.Number(fmt.Sprintf("× %.2f", p.SpeedRatio), p.SpeedRatio)}
	case !byCost:
		return document.Cells("?")
	case p.CostRatio <= 0:
		return document.Cells("?", "?")
	case len(p.Levers) == 0: // over itself
		return document.Cells("× 1", "")
	}
	return []document.Cell{document.Number(fmt.Sprintf("× %.2f", p.CostRatio), p.CostRatio), {Text: document.Plain(fmt.Sprintf("%.2f to %.2f", p.CostLow, p.CostHigh))}}
}

// pointName names options by what they add to the last of those above of which they have all
// levers.
func pointName(above []fit.FrontierPoint, p fit.FrontierPoint) string {
	if len(p.Levers) == 0 {
		return "as given"
	}
	names, heap := slices.Clone(p.Levers), heapText(p)
	for _, a := range slices.Backward(above) {
		lacks := func(l string) bool { return !slices.Contains(p.Levers, l) }
		if len(a.Levers) == 0 || slices.ContainsFunc(a.Levers, lacks) {
			continue
		}
		names = slices.DeleteFunc(names, func(l string) bool { return slices.Contains(a.Levers, l) })
		if heap == heapText(a) {
			heap = ""
		}
		if len(names) == 0 {
			return fmt.Sprintf("as %d, another heap", a.Trial) + heap
		}
		return fmt.Sprintf("as %d, and %s", a.Trial, strings.Join(names, ", ")) + heap
	}
	return strings.Join(names, ", ") + heap
}

// heapText is the bound of the heap that a point's options set, or "".
func heapText(p fit.FrontierPoint) string {
	for _, o := range p.Setup.Options {
		if strings.HasPrefix(o, "-Xmx") {
			return " (" + o + ")"
		}
	}
	return ""
}

// picksText are the preferences that pick a point.
func picksText(p fit.FrontierPoint) string {
	if len(p.PickedBy) == len(fit.Preferences) {
		return "whatever is preferred"
	}
	var names []string
	for _, prefer := range p.PickedBy {
		names = append(names, string(prefer))
	}
	return strings.Join(names, ", ")
}

// frontierText says what the figures are and what each preference picks.
func frontierText(byCost bool) string {
	is := "cost the processor time of the same work over that as given, with its bounds (95 % each)"
	if !byCost {
		is = "speed that over as given, by one or a few trials"
	}
	return "By trial: sets of options that held the objective, and that no other one is sure to beat in both memory and cost. Needed is the average, at most what 99 % of runs need, " + is +
		"; all as known before the limit was looked for. --prefer memory picks what needs least, balanced the least needed times cost, throughput what needs least of all " +
		"that are at most 3 % slower than the fastest. Options that save no memory must be sure to be faster. A fit with another --prefer goes on from its own pick, and may find more."
}

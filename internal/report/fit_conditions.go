package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/fit"
	"tare.dev/tare/internal/shell"
	"tare.dev/tare/internal/trial"
)

// fitConditions says how it was measured, and what that means for the result.
func fitConditions(r *fit.Result) []document.Block {
	out := append([]document.Block{aside("Measured with: " + conditions(r))}, fitNotes(r)...)
	if slices.ContainsFunc(r.Trials, narrow) {
		out = append(out, document.Paragraph{Text: document.Plain("a verdict with ? was missed by little, and without a sign that memory is the reason"), Role: document.Note})
	}
	return out
}

// fitNotes are what to keep in mind.
func fitNotes(r *fit.Result) []document.Block {
	var out []document.Block
	note := func(text string) {
		out = append(out, document.Paragraph{Text: document.Plain(text), Role: document.Note})
	}
	if r.UnpaidBytes >= MiB {
		note(Size(r.UnpaidBytes) + " that it maps, of the C library and of files that other processes use, are charged to others on this machine; where it is alone, add them to the limit")
	}
	if text := costText(r.AsGiven.Result, Recommended(r).Result); text != "" {
		note(text)
	}
	if text := noKnee(r); text != "" {
		note(text)
	}
	for _, warning := range r.Warnings {
		note(warning)
	}
	return out
}

// tellingPace is by how much the pace of the machine must differ between two runs to be told.
const tellingPace = 0.05

// costText compares what an answer costs, and says what the pace of the machine has to do with
// it; empty where that cannot be compared, and where there is no such run (nil).
func costText(given, recommended *trial.Result) string {
	if given == nil || recommended == nil || given == recommended {
		return ""
	}
	ratio, comparable := trial.CostRatio(given, recommended)
	if !comparable {
		return ""
	}
	was, _ := given.AnswerCost()
	is, _ := recommended.AnswerCost()
	text := fmt.Sprintf("an answer takes %s of processor time, as given %s (%s)", Duration(is), Duration(was), Change(was.Seconds(), is.Seconds()))
	if pace := is.Seconds() / was.Seconds() / ratio; math.Abs(pace-1) >= tellingPace {
		longer := "longer"
		if pace < 1 {
			longer = "less"
		}
		text += fmt.Sprintf("; a fixed piece of work took %.0f %% %s meanwhile: at the same pace of the machine it is %s", 100*math.Abs(pace-1), longer, Change(1, ratio))
	}
	return text
}

// conditions are what the figures hold for.
func conditions(r *fit.Result) string {
	c := r.Config
	cpus := fmt.Sprintf("%d CPUs", r.Machine.CPUs)
	if c.CPUs > 0 {
		cpus = fmt.Sprintf("%g of %d CPUs", c.CPUs, r.Machine.CPUs)
	}
	if c.Cpuset != "" {
		cpus += ", cpuset " + c.Cpuset
	}
	name := ""
	if r.RunnerName != "" {
		name = " · " + r.RunnerName
	}
	return fmt.Sprintf("JDK %s · Linux %s %s · %s%s · SLO %s · %s · %d trials in %s", c.Java.Version, r.Machine.Kernel,
		r.Machine.Arch, cpus, name, c.SLO, loadText(c), len(r.Trials), Duration(r.Took))
}

func loadText(c fit.Record) string {
	var how string
	switch {
	case len(c.Load.Command) > 0:
		how = "load command " + shell.Words(c.Load.Command)
	case c.Job:
		return "a job that runs to its end"
	case len(c.Load.Targets) == 0:
		return fmt.Sprintf("no load, idle for %s", Duration(c.Duration))
	case c.Load.Rate > 0:
		how = fmt.Sprintf("%g requests per second", c.Load.Rate)
	default:
		how = fmt.Sprintf("closed loop, %d at a time", c.Load.Concurrency)
	}
	if c.Requests > 0 {
		return fmt.Sprintf("%s, %d requests from readiness on, within %s", how, c.Requests, Duration(c.Duration))
	}
	warmup := Duration(c.Warmup) + " of warm-up"
	if c.WarmBlocks > 1 {
		warmup = fmt.Sprintf("a warm-up until it is warm, of at most %s", Duration(time.Duration(c.WarmBlocks)*c.Warmup))
	}
	return fmt.Sprintf("%s, %s after %s", how, Duration(c.Duration), warmup)
}

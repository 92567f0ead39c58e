package main

import (
	"fmt"
	"slices"

	"tare.dev/tare/internal/lab"
)

// version is the unchanged service, or one with a known change.
type version struct {
	// kind is what holds more, "" for the unchanged one, "spin" where it is slower alone.
	kind string
	// percent is how much more of what the whole process has of it, or how much slower.
	percent float64
}

func (v version) name() string {
	if v.kind == "" {
		return "base"
	}
	return fmt.Sprintf("%s+%g%%", v.kind, v.percent)
}

func (v version) runs() int {
	if v.kind == "" {
		return baseRuns
	}
	return changeRuns
}

// kind is what may hold more.
type kind struct {
	// name is what the service is told, measure what is bounded.
	name, measure string
	// held is what the unchanged version is told to hold, total what the measure is then
	// in the same unit.
	held, total float64
	// also are measures that hold the same memory.
	also []string
}

// kinds are all that may hold more.
var kinds = []kind{
	{"heap", "heap-live", 40000, 42950, []string{"java-heap"}},
	{"classes", "metaspace", 2400, 3000, []string{"class-space", "classes"}},
	{"threads", "thread-stacks", 200, 210, []string{"threads"}},
	{"direct", "direct", 20480, 20512, []string{"malloc"}},
	{"malloc", "malloc", 20480, 47800, nil},
}

// spin is how long a request of the unchanged version spins, in microseconds.
const spin = 200

// first and second are the changes of what is held. Versions of the first ones are recorded first,
// with those that are slower alone: the goals are of them.
var first, second = []float64{5, 2, 0}, []float64{10, 1, 0.5}

// slower are the changes of speed alone.
var slower = []float64{5, 10, 15, 20, 30, 40, 50, 75, 100, 200}

// groups are all versions, group by group as they are recorded; the first is the unchanged
// one.
func groups() [2][]version {
	out := [2][]version{{{}}}
	for i, percents := range [][]float64{first, second} {
		for _, p := range percents {
			for _, k := range kinds {
				out[i] = append(out[i], version{k.name, p})
			}
		}
	}
	for _, p := range slower {
		out[0] = append(out[0], version{"spin", p})
	}
	return out
}

// versions are those of all groups.
func versions() []version {
	all := groups()
	return slices.Concat(all[:]...)
}

// steady are options by which what a version holds does not depend on when its methods are
// compiled: interpreted frames are larger than compiled ones, so those of the waiting
// threads stay interpreted; the optimizing compiler leaves freed memory of tens of MiB in
// malloc, more or less by what it compiled side by side; and threads wait for the other
// compiler, so that it has compiled as much at the end.
var steady = []string{"-Xms128m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xbatch", "-XX:CompileCommand=quiet", "-XX:CompileCommand=exclude,Subject::descend",
	"-Dsun.net.httpserver.nodelay=true", "-cp", "."}

// run is how a version is run.
func (v version) run() lab.Run {
	args := []string{"Subject", "{port}"}
	for _, k := range kinds {
		held := k.held
		if k.name == v.kind {
			held += k.total * v.percent / 100
		}
		args = append(args, fmt.Sprintf("%s=%.0f", k.name, held))
	}
	spins := float64(spin)
	if v.kind == "spin" {
		spins *= 1 + v.percent/100
	}
	return lab.Run{
		Options: steady,
		Command: append(args, fmt.Sprintf("spin=%.0f", spins)),
		Env:     map[string]lab.Scalar{"MALLOC_ARENA_MAX": "1"},
		Limit:   "512m",
		Ready:   "tcp:{port}",
		Load: &lab.Load{URLs: []string{"http://127.0.0.1:{port}/"}, Concurrency: 4, Warmup: lab.Duration(minute), WarmupRequests: 100,
			Requests: 300, Duration: lab.Duration(minute)},
	}
}

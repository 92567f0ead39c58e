package main

import (
	"fmt"

	"tare.dev/tare/bench/applications"
)

const (
	mib         = 1 << 20
	ampleBytes  = 2048 * mib
	concurrency = 16
)

// measured are the applications of this bench.
var measured = applications.Named("sysinfo", "WireMock", "Camel", "Keycloak")

func runsOn(a applications.Application, s shape) bool { return s.jdk != "8" || a.JDK8 }

func appNames(all []applications.Application) []string {
	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	return names
}

// shape is a JDK, and the processors that it has or sees.
type shape struct {
	name string
	jdk  string
	cpus float64 // the quota
	// seen is what the JVM is told to see instead, 0 for what there is.
	seen int
}

var allShapes = []shape{
	{"25x1", "25", 1, 0}, {"17x1", "17", 1, 0}, {"25x2", "25", 2, 0}, {"17x2", "17", 2, 0},
	{"8s72", "8", 0, 72}, {"25s72", "25", 0, 72},
}

func shapeNames(all []shape) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	return names
}

// String names the shape to a reader.
func (s shape) String() string {
	switch {
	case s.seen > 0:
		return fmt.Sprintf("JDK %s, %d processors seen", s.jdk, s.seen)
	case s.cpus == 1:
		return fmt.Sprintf("JDK %s, 1 processor", s.jdk)
	}
	return fmt.Sprintf("JDK %s, %g processors", s.jdk, s.cpus)
}

// options make the JVM see what it has not.
func (s shape) options() []string {
	if s.seen == 0 {
		return nil
	}
	return []string{fmt.Sprintf("-XX:ActiveProcessorCount=%d", s.seen)}
}

// env gives glibc as many arenas as it would make there: 8 per processor, on
// 64 bits (malloc/arena.c, narenas_from_ncores).
func (s shape) env() []string {
	if s.seen == 0 {
		return nil
	}
	return []string{fmt.Sprintf("MALLOC_ARENA_MAX=%d", 8*s.seen)}
}

// cell is an application on a shape.
type cell struct {
	App   string `json:"app"`
	Shape string `json:"shape"`
}

func (b *bench) app(c cell) applications.Application {
	return named(b.apps, c.App, func(a applications.Application) string { return a.Name })
}

func (b *bench) shape(c cell) shape {
	return named(b.shapes, c.Shape, func(s shape) string { return s.name })
}

// named is the one of a name, which must be there.
func named[T any](all []T, want string, name func(T) string) T {
	for _, v := range all {
		if name(v) == want {
			return v
		}
	}
	panic("no " + want)
}

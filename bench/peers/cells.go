package main

import (
	"fmt"
	"path/filepath"
	"strconv"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

const (
	mib         = 1 << 20
	ampleBytes  = 2048 * mib
	concurrency = 16
)

// place is where an application finds what it needs.
type place struct {
	jdk   string // the major version
	cache string
	port  int
	// second is another, for what an application serves beside.
	second int
}

// application is what is run in containers.
type application struct {
	name string
	// is says in Markdown what it is, and what is asked of it.
	is string
	// command follows the JVM's options.
	command func(place) []string
	// jars hold its classes, for the ways that count them.
	jars func(place) []string
	// ready and targets are below the port.
	ready   string
	targets []string
	// onSecond says that ready is at the second port.
	onSecond bool
	// jdk8 says that there is a version for JDK 8.
	jdk8 bool
}

func (a application) runsOn(s shape) bool { return s.jdk != "8" || a.jdk8 }

var applications = []application{
	{
		name: "sysinfo", jdk8: true,
		is: "the demo service, `/sys-summary`, `/sys-stat`, `PUT /sys-stat` in turn",
		command: func(p place) []string {
			return []string{"-jar", sysinfoJar(p), "--port", strconv.Itoa(p.port), "--log-level", "error"}
		},
		jars:  func(p place) []string { return []string{sysinfoJar(p)} },
		ready: "/health", targets: []string{"/sys-summary", "/sys-stat", "PUT /sys-stat"},
	},
	{
		name: "WireMock", jdk8: true,
		is: "WireMock 3.13.1 (on JDK 8 2.35.2), a stub and `/__admin/mappings` in turn",
		command: func(p place) []string {
			return []string{"-jar", wireMockJar(p), "--port", strconv.Itoa(p.port), "--bind-address", "127.0.0.1", "--no-request-journal",
				"--root-dir", filepath.Join("bench", "peers", "wiremock")}
		},
		jars:  func(p place) []string { return []string{wireMockJar(p)} },
		ready: "/__admin/mappings", targets: []string{"/hello/world", "/__admin/mappings"},
	},
	{
		name: "Camel", jdk8: true,
		is: "the Spring Boot and Camel service of bench/services (current versions; on JDK 8 the last ones for it), `/health` and `/order` in turn",
		command: func(p place) []string {
			return []string{"-jar", camelJar(p), "--server.port=" + strconv.Itoa(p.port)}
		},
		jars: func(p place) []string { return []string{camelJar(p)} },
		// Tomcat answers before Camel's routes are there.
		ready: "/order", targets: []string{"/health", "/order"},
	},
	{
		name: "Keycloak",
		is:   "Keycloak 26.4.7, built for start with a database in memory, `/realms/master` and its `.well-known/openid-configuration` in turn",
		command: func(p place) []string {
			home := keycloakHome(p)
			return []string{"-Dkc.home.dir=" + home, "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
				"-Djava.util.concurrent.ForkJoinPool.common.threadFactory=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory",
				"-Dpicocli.disable.closures=true", "-cp", filepath.Join(home, "lib", "quarkus-run.jar"),
				"io.quarkus.bootstrap.runner.QuarkusEntryPoint", "start", "--optimized", "--http-enabled=true", "--hostname-strict=false",
				"--http-host=127.0.0.1", "--http-port=" + strconv.Itoa(p.port), "--http-management-port=" + strconv.Itoa(p.second), "--cache=local"}
		},
		jars: func(p place) []string {
			jars, _ := filepath.Glob(filepath.Join(keycloakHome(p), "lib", "lib", "*", "*.jar")) // the pattern is a valid one
			return jars
		},
		ready: "/health/ready", onSecond: true, targets: []string{"/realms/master", "/realms/master/.well-known/openid-configuration"},
	},
}

func sysinfoJar(place) string { return filepath.Join("bin", "sysinfo.jar") }

func wireMockJar(p place) string {
	if p.jdk == "8" {
		return filepath.Join(p.cache, "jars", "wiremock-jre8-standalone-2.35.2.jar")
	}
	return filepath.Join(p.cache, "jars", "wiremock-standalone-3.13.1.jar")
}

func camelJar(p place) string {
	if p.jdk == "8" {
		return filepath.Join(p.cache, "services", "camel-java8.jar")
	}
	return filepath.Join(p.cache, "services", "camel-current.jar")
}

func keycloakHome(p place) string { return filepath.Join(p.cache, "services", "keycloak-26.4.7") }

func appNames(all []application) []string {
	var names []string
	for _, a := range all {
		names = append(names, a.name)
	}
	return names
}

// readyURL and loadURLs are as the flags of tare fit take them.
func (a application) readyURL(p place) string {
	if a.onSecond {
		return at(p.second, a.ready)
	}
	return at(p.port, a.ready)
}

func (a application) loadURLs(p place) []string {
	var out []string
	for _, t := range a.targets {
		out = append(out, at(p.port, t))
	}
	return out
}

// at is "[METHOD ]URL" for "[METHOD ]/PATH".
func at(port int, path string) string {
	method := ""
	for i, c := range path {
		if c == '/' {
			method, path = path[:i], path[i:]
			break
		}
	}
	return fmt.Sprintf("%shttp://127.0.0.1:%d%s", method, port, path)
}

// loading is the trial's part of readyURL and loadURLs.
func (a application) loading(p place) (trial.Ready, []load.Target, error) {
	ready, err := trial.ParseReady(a.readyURL(p))
	if err != nil {
		return ready, nil, err
	}
	var targets []load.Target
	for _, u := range a.loadURLs(p) {
		t, err := load.ParseTarget(u)
		if err != nil {
			return ready, nil, err
		}
		targets = append(targets, t)
	}
	return ready, targets, nil
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

func (b *bench) app(c cell) application {
	return named(b.apps, c.App, func(a application) string { return a.name })
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

// Package applications has those that benches run on this machine, as its processes.
package applications

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/trial"
)

// Place is where an application finds what it needs.
type Place struct {
	JDK   string // the major version
	Cache string
	Port  int
	// Second is another, for what an application serves beside.
	Second int
}

// Application is what is run and asked.
type Application struct {
	Name string
	// Is says in Markdown what it is, and what is asked of it.
	Is string
	// Command follows the JVM's options.
	Command func(Place) []string
	// Jars hold its classes, for the ways that count them.
	Jars func(Place) []string
	// Ready and Targets are below the port: a path, or a method and a path.
	Ready   string
	Targets []string
	// OnSecond says that ready is at the second port.
	OnSecond bool
	// JDK8 says that there is a version for JDK 8.
	JDK8 bool
}

// All are the applications, in the order of pages.
var All = []Application{
	{
		Name: "sysinfo", JDK8: true,
		Is: "the demo service, `/sys-summary`, `/sys-stat`, `PUT /sys-stat` in turn",
		Command: func(p Place) []string {
			return []string{"-jar", sysinfoJar(p), "--port", strconv.Itoa(p.Port), "--log-level", "error"}
		},
		Jars:  func(p Place) []string { return []string{sysinfoJar(p)} },
		Ready: "/health", Targets: []string{"/sys-summary", "/sys-stat", "PUT /sys-stat"},
	},
	{
		Name: "WireMock", JDK8: true,
		Is: "WireMock 3.13.1 (on JDK 8 2.35.2), a stub and `/__admin/mappings` in turn",
		Command: func(p Place) []string {
			return []string{"-jar", wireMockJar(p), "--port", strconv.Itoa(p.Port), "--bind-address", "127.0.0.1", "--no-request-journal",
				"--root-dir", filepath.Join("bench", "peers", "wiremock")}
		},
		Jars:  func(p Place) []string { return []string{wireMockJar(p)} },
		Ready: "/__admin/mappings", Targets: []string{"/hello/world", "/__admin/mappings"},
	},
	{
		Name: "Camel", JDK8: true,
		Is: "the Spring Boot and Camel service of bench/services (current versions; on JDK 8 the last ones for it), `/health` and `/order` in turn",
		Command: func(p Place) []string {
			return []string{"-jar", camelJar(p), "--server.port=" + strconv.Itoa(p.Port)}
		},
		Jars: func(p Place) []string { return []string{camelJar(p)} },
		// Tomcat answers before Camel's routes are there.
		Ready: "/order", Targets: []string{"/health", "/order"},
	},
	{
		Name: "shop",
		Is:   "the Spring Boot service of bench/services with JPA, Thymeleaf and a database in memory, three pages of products in turn",
		Command: func(p Place) []string {
			return []string{"-jar", shopJar(p), "--server.port=" + strconv.Itoa(p.Port)}
		},
		Jars:  func(p Place) []string { return []string{shopJar(p)} },
		Ready: "/health", Targets: []string{"/products?page=2", "/products/7", "/products?name=1"},
	},
	{
		Name: "Keycloak",
		Is:   "Keycloak 26.4.7, built for start with a database in memory, `/realms/master` and its `.well-known/openid-configuration` in turn",
		Command: func(p Place) []string {
			home := keycloakHome(p)
			return []string{"-Dkc.home.dir=" + home, "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
				"-Djava.util.concurrent.ForkJoinPool.common.threadFactory=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory",
				"-Dpicocli.disable.closures=true", "-cp", filepath.Join(home, "lib", "quarkus-run.jar"),
				"io.quarkus.bootstrap.runner.QuarkusEntryPoint", "start", "--optimized", "--http-enabled=true", "--hostname-strict=false",
				"--http-host=127.0.0.1", "--http-port=" + strconv.Itoa(p.Port), "--http-management-port=" + strconv.Itoa(p.Second), "--cache=local"}
		},
		Jars: func(p Place) []string {
			jars, _ := filepath.Glob(filepath.Join(keycloakHome(p), "lib", "lib", "*", "*.jar")) // the pattern is a valid one
			return jars
		},
		Ready: "/health/ready", OnSecond: true, Targets: []string{"/realms/master", "/realms/master/.well-known/openid-configuration"},
	},
}

// Named are the applications of names, whatever their case, in the order of All.
func Named(names ...string) []Application {
	return slices.DeleteFunc(slices.Clone(All), func(a Application) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, a.Name) })
	})
}

func sysinfoJar(Place) string { return filepath.Join("bin", "sysinfo.jar") }

func wireMockJar(p Place) string {
	if p.JDK == "8" {
		return filepath.Join(p.Cache, "jars", "wiremock-jre8-standalone-2.35.2.jar")
	}
	return filepath.Join(p.Cache, "jars", "wiremock-standalone-3.13.1.jar")
}

func camelJar(p Place) string {
	if p.JDK == "8" {
		return filepath.Join(p.Cache, "services", "camel-java8.jar")
	}
	return filepath.Join(p.Cache, "services", "camel-current.jar")
}

func shopJar(p Place) string { return filepath.Join(p.Cache, "services", "shop.jar") }

func keycloakHome(p Place) string { return filepath.Join(p.Cache, "services", "keycloak-26.4.7") }

// ReadyURL is as --ready of tare fit takes it.
func (a Application) ReadyURL(p Place) string {
	if a.OnSecond {
		return at(p.Second, a.Ready)
	}
	return at(p.Port, a.Ready)
}

// LoadURLs are as --load of tare fit takes them.
func (a Application) LoadURLs(p Place) []string {
	var out []string
	for _, t := range a.Targets {
		out = append(out, at(p.Port, t))
	}
	return out
}

// at is "[METHOD ]URL" for "[METHOD ]/PATH".
func at(port int, path string) string {
	slash := strings.IndexByte(path, '/')
	return fmt.Sprintf("%shttp://127.0.0.1:%d%s", path[:slash], port, path[slash:])
}

// Loading is what a trial takes ReadyURL and LoadURLs for.
func (a Application) Loading(p Place) (trial.Ready, []load.Target, error) {
	ready, err := trial.ParseReady(a.ReadyURL(p))
	if err != nil {
		return ready, nil, err
	}
	var targets []load.Target
	for _, u := range a.LoadURLs(p) {
		t, err := load.ParseTarget(u)
		if err != nil {
			return ready, nil, err
		}
		targets = append(targets, t)
	}
	return ready, targets, nil
}

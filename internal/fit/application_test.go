package fit

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jartest"
	"tare.dev/tare/internal/testkit/runnertest"
)

func tomcatLever() Lever {
	return Levers[slices.IndexFunc(Levers, func(l Lever) bool { return l.ID == "tomcat" })]
}

// bootJarWith is a jar with Tomcat and Spring Boot's properties of its threads, and
// files of the application.
func bootJarWith(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.jar")
	all := map[string]string{"org/apache/catalina/connector/Connector.class": "", "org/springframework/boot/tomcat/autoconfigure/TomcatServerProperties$Threads.class": ""}
	for name, text := range files {
		all["BOOT-INF/classes/"+name] = text
	}
	jartest.Write(t, path, all)
	return path
}

// What the user set of a framework, wherever that can be seen, closes its lever.
func TestUsersPropertiesCloseLevers(t *testing.T) {
	const allowed = "SERVER_TOMCAT_THREADS_MAX=8"
	for name, c := range map[string]struct {
		files      map[string]string
		env        []string
		options    []string
		args       []string
		closed     string
		notAllowed bool
	}{
		"nothing":                  {files: map[string]string{"application.properties": "server.port=1\n"}},
		"not allowed":              {notAllowed: true, closed: "--allow framework"},
		"another profile's file":   {files: map[string]string{"application-prod.properties": "# x\nserver.tomcat.threads.max = 50\n"}, closed: "yours: server.tomcat.threads.max (application-prod.properties)"},
		"relaxed":                  {files: map[string]string{"application.properties": "server.tomcat.threads.minSpare: 5"}, closed: "minSpare (application.properties)"},
		"a remark":                 {files: map[string]string{"application.properties": "#server.tomcat.threads.max=50\n!server.tomcat.threads.max=50"}},
		"a value that goes on":     {files: map[string]string{"application.properties": "a=b,\\\nserver.tomcat.threads.max=50"}},
		"yaml":                     {files: map[string]string{"application.yml": "server:\n  tomcat:\n    threads: {max: 50}\n"}, closed: "yours: server.tomcat.threads.max (application.yml)"},
		"yaml's dotted name":       {files: map[string]string{"application.yaml": "a: 1\n---\nserver.tomcat:\n  threads.max: 50\n"}, closed: "yours: server.tomcat.threads.max (application.yaml)"},
		"yaml that is none":        {files: map[string]string{"application.yml": "a: [1\n b: @x@"}, closed: "could not be read"},
		"yaml with an alias":       {files: map[string]string{"application.yml": "a: &x {b: 1}\nserver: *x\n"}, closed: "not followed"},
		"the name it had":          {files: map[string]string{"application.properties": "server.tomcat.max-threads=50"}, closed: "yours: server.tomcat.max-threads"},
		"virtual threads":          {files: map[string]string{"application.yml": "spring: {threads: {virtual: {enabled: true}}}"}, closed: "yours: spring.threads.virtual.enabled"},
		"environment":              {env: []string{"SERVER_TOMCAT_THREADS_MAX=50"}, closed: "SERVER_TOMCAT_THREADS_MAX (environment)"},
		"environment, other form":  {env: []string{"SERVER_TOMCAT_MAXTHREADS=50"}, closed: "SERVER_TOMCAT_MAXTHREADS (environment)"},
		"JSON in the environment":  {env: []string{`SPRING_APPLICATION_JSON={"server":{"tomcat":{"threads":{"max":50}}}}`}, closed: "yours: server.tomcat.threads.max (SPRING_APPLICATION_JSON)"},
		"command line":             {args: []string{"--server.tomcat.threads.max=50"}, closed: "yours: --server.tomcat.threads.max"},
		"system property":          {options: []string{"-Dserver.tomcat.threads.max=50"}, closed: "yours: -Dserver.tomcat.threads.max"},
		"in JAVA_TOOL_OPTIONS":     {env: []string{"JAVA_TOOL_OPTIONS=-Dserver.tomcat.threads.max=50"}, closed: "(JAVA_TOOL_OPTIONS)"},
		"files that are not read":  {args: []string{"--spring.config.import=vault://"}, closed: "perhaps, by --spring.config.import"},
		"a file in another folder": {env: []string{"SPRING_CONFIG_ADDITIONAL_LOCATION=/etc/app/"}, closed: "perhaps, by SPRING_CONFIG_ADDITIONAL_LOCATION"},
	} {
		jar := bootJarWith(t, c.files)
		command, err := jvmopts.Parse(slices.Concat([]string{"java"}, c.options, []string{"-jar", jar}, c.args))
		if err != nil {
			t.Fatal(err)
		}
		given, err := jvmopts.Read(jvmopts.Input{Args: slices.Concat(c.options, []string{"-jar", jar}, c.args), Env: c.env})
		if err != nil {
			t.Fatal(err)
		}
		config := Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Command: command, Given: given, Env: c.env, Dir: t.TempDir(), Levers: Levers, CPUs: 1.5}
		if !c.notAllowed {
			config.Allow = []Mark{Framework}
		}
		config.Java.Version = "25.0.3"
		if err := config.surveyClassPath(t.Context()); err != nil {
			t.Fatal(err)
		}
		open, ok, reason := tomcatLever().open(config.Search(nil).Facts)
		if ok != (c.closed == "") || !strings.Contains(reason, c.closed) {
			t.Errorf("%s: open %v, %q; want %q", name, ok, reason, c.closed)
		}
		if ok && open.Env[0] != allowed {
			t.Errorf("%s: %q", name, open.Env)
		}
	}
}

// Without the framework's classes there is no lever, whatever the jar is called.
func TestFrameworksAreFoundByTheirClasses(t *testing.T) {
	dir := t.TempDir()
	jar := filepath.Join(dir, "tomcat-embed-core.jar")
	if err := os.Rename(bootJarWith(t, nil), jar); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty-tomcat.jar")
	jartest.Write(t, empty, nil)
	for path, want := range map[string]bool{empty: false, empty + ":" + jar: true, filepath.Join(dir, "*"): true} {
		command, err := jvmopts.Parse([]string{"java", "-cp", path, "Main"})
		if err != nil {
			t.Fatal(err)
		}
		config := Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Command: command, Dir: dir, Levers: Levers}
		config.Java.Version = "17.0.15"
		config.Allow = []Mark{Framework}
		if err := config.surveyClassPath(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, ok, reason := tomcatLever().open(config.Search(nil).Facts); ok != want {
			t.Errorf("%s: %v %s", path, ok, reason)
		}
	}
}

func TestProcessors(t *testing.T) {
	for want, c := range map[int]Config{2: {CPUs: 1.2, Cpuset: "0-7"}, 5: {Cpuset: "0-3,6"}, 3: {Machine: Machine{CPUs: 3}}, 4: {Cpuset: "x-", Machine: Machine{CPUs: 4}}} {
		if got := int(math.Ceil(c.processors())); got != want {
			t.Errorf("%+v: %d, want %d", c, got, want)
		}
	}
}

// Whatever a file of properties holds, it is read to its end, and names nothing that
// it does not hold.
func FuzzProperties(f *testing.F) {
	f.Add("server:\n  tomcat: {threads: {max: 1}}\n", true)
	f.Add("a=b\\\n c\nd: e\n#f\n%prod.g h", false)
	f.Fuzz(func(t *testing.T, text string, isYAML bool) {
		a := Application{Set: map[string]string{}}
		name := "application.properties"
		if isYAML {
			name = "application.yml"
		}
		a.file("x/"+name, []byte(text))
		for plainName, by := range a.Set {
			if !strings.HasSuffix(by, "("+name+")") || plain(plainName) != plainName {
				t.Errorf("%q: %q by %q", text, plainName, by)
			}
		}
	})
}

// What takes the parser a time that grows with its square is not parsed.
func TestDeepFilesAreNotParsed(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 100_000), strings.Repeat("{a: ", 1000), strings.Repeat("- ", 1000), strings.Repeat("a: b\n", maxYAML/5+1)} {
		a := Application{Set: map[string]string{}}
		a.file("application.yml", []byte(text))
		if !strings.Contains(a.Unseen, "too large") {
			t.Errorf("%.20q…: %q", text, a.Unseen)
		}
	}
}

// An allowed lever of the framework is tried by itself; one that is not allowed is left
// out, and the reason names the flag.
func TestFrameworkLeverIsTried(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		m := newModel(rand.New(rand.NewPCG(4, 1)))
		facts := Facts{Release: jvmopts.ParseRelease("17.0.15"), Application: everything()}
		if allowed {
			facts.Allow = []Mark{Framework}
		}
		s := &Search{Trier: m, Levers: []Lever{tomcatLever()}, AmpleBytes: 2048 * mib, Baselines: 1, Confirmations: 1, Facts: facts}
		f, err := s.Run(t.Context())
		if err != nil || len(f.Levers) != 1 {
			t.Fatalf("%+v, %v", f.Levers, err)
		}
		l := f.Levers[0]
		if allowed && (l.Trial == 0 || !slices.ContainsFunc(f.Trials, func(t Trial) bool { return slices.Contains(t.Setup.Env, "SERVER_TOMCAT_THREADS_MAX=4") })) {
			t.Errorf("not tried: %+v", l)
		}
		if !allowed && (l.Trial != 0 || l.Kept || !strings.Contains(l.Reason, "--allow framework")) {
			t.Errorf("tried: %+v", l)
		}
	}
}

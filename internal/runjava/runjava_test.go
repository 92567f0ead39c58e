package runjava

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// oneJar is an application folder that is right.
var oneJar = map[string]string{"deploy/test.jar": "jar"}

func with(files map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for k, v := range files {
		all[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

type env = map[string]string

const megabyte = 1 << 20

// alike are scenes in which the script is right. Those of its own tests
// (test/t/*.bats) say what they look for.
var alike = []struct {
	scene
	// has is what must be among the words printed or the arguments, not what
	// must not; lack is by prefix.
	has, lack []string
}{
	// 01_basic.bats
	{scene: scene{name: "no jar", java: "17.0.1"}, has: []string{"0", "found"}},
	{scene: scene{name: "two jars", java: "1.8.0_292", files: with(oneJar, "deploy/test2.jar", "")}, has: []string{"2", "found"}},
	{scene: scene{name: "one jar", java: "1.8.0_292", files: oneJar, env: env{"JAVA_APP_DIR": "@/deploy"}},
		has: []string{"-XX:+UseParallelGC", "-XX:GCTimeRatio=4", "-XX:AdaptiveSizePolicyWeight=90", "-XX:+ExitOnOutOfMemoryError",
			"-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40", "-jar"}},
	{scene: scene{name: "main class", java: "1.8.0_292", files: oneJar, env: env{"JAVA_MAIN_CLASS": "TestMain"}}, has: []string{"TestMain"}, lack: []string{"-jar"}},
	// 02_debug.bats
	{scene: scene{name: "JAVA_ENABLE_DEBUG", java: "11.0.1", files: oneJar, env: env{"JAVA_ENABLE_DEBUG": "true"}},
		has: []string{"-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=*:5005"}},
	{scene: scene{name: "JAVA_DEBUG_ENABLE", java: "1.8.0_292", files: oneJar, env: env{"JAVA_DEBUG_ENABLE": "true"}},
		has: []string{"-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=5005"}},
	{scene: scene{name: "JAVA_DEBUG_PORT", java: "9.0.1", files: oneJar, env: env{"JAVA_DEBUG": "true", "JAVA_DEBUG_PORT": "8008"}},
		has: []string{"-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=*:8008"}},
	{scene: scene{name: "JAVA_DEBUG_SUSPEND", java: "17", files: oneJar, env: env{"JAVA_DEBUG": "1", "JAVA_DEBUG_SUSPEND": "true"}},
		has: []string{"-agentlib:jdwp=transport=dt_socket,server=y,suspend=y,address=*:5005"}},
	{scene: scene{name: "JAVA_DEBUG_SUSPEND false", java: "17", files: oneJar, env: env{"JAVA_DEBUG": "1", "JAVA_DEBUG_SUSPEND": "false"}},
		has: []string{"-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=*:5005"}},
	// 03_container_limits.bats and 05_options.bats
	{scene: scene{name: "limits", java: "1.8.0_292", files: oneJar, memory: 400 * megabyte, quota: 150_000},
		has: []string{"-Xmx200m", "-XX:ParallelGCThreads=2", "-XX:ConcGCThreads=2", "-XX:CICompilerCount=2"}, lack: []string{"-Xms", "-XX:TieredStopAtLevel"}},
	{scene: scene{name: "small limits", java: "1.8.0_292", files: oneJar, memory: 160 * megabyte, quota: 150_000},
		has: []string{"-Xmx40m", "-XX:TieredStopAtLevel=1", "-XX:CICompilerCount=1"}},
	{scene: scene{name: "threshold", java: "1.8.0_292", files: oneJar, memory: 300 * megabyte}, has: []string{"-Xmx75m", "-XX:TieredStopAtLevel=1"}},
	{scene: scene{name: "above threshold", java: "1.8.0_292", files: oneJar, memory: 300*megabyte + 4096}, has: []string{"-Xmx150m"}},
	{scene: scene{name: "options", java: "1.8.0_292", args: []string{"options"}, memory: 400 * megabyte, quota: 150_000}, has: []string{"-Xmx200m", "-XX:CICompilerCount=2"}},
	{scene: scene{name: "options --memory", java: "1.8.0_292", args: []string{"options", "--memory"}, memory: 400 * megabyte, quota: 150_000,
		env: env{"JAVA_INIT_MEM_RATIO": "0.5"}}, has: []string{"-Xmx200m", "-Xms2m"}, lack: []string{"-XX:CICompilerCount"}},
	{scene: scene{name: "options, groups", java: "1.8.0_292", args: []string{"options", "--gc", "--cpu", "--jit", "--debug", "--proxy", "--diagnostics"}, memory: 200 * megabyte,
		quota: 400_000, env: env{"JAVA_DEBUG": "1", "HTTP_PROXY": "http://p:1", "JAVA_DIAGNOSTICS": "1", "JAVA_OPTIONS": "-Dx=y"}},
		has: []string{"-XX:+PrintGC", "-Dhttp.proxyPort=1"}, lack: []string{"-Dx", "-Xmx"}},
	{scene: scene{name: "options --java-default", java: "17.0.2", args: []string{"options", "--java-default"}, memory: 400 * megabyte}, has: []string{"-XX:+ExitOnOutOfMemoryError"}},
	{scene: scene{name: "options of modern java without any", java: "7", args: []string{"options", "--memory"}}},
	// 04_proxy.bats
	{scene: scene{name: "HTTP_PROXY", java: "11", files: oneJar, env: env{"HTTP_PROXY": "http://proxy:3128"}},
		has: []string{"-Dhttp.proxyHost=proxy", "-Dhttp.proxyPort=3128"}, lack: []string{"-Dhttps."}},
	{scene: scene{name: "HTTPS_PROXY", java: "11", files: oneJar, env: env{"HTTPS_PROXY": "https://proxy:4128"}},
		has: []string{"-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=4128"}, lack: []string{"-Dhttp."}},
	{scene: scene{name: "NO_PROXY", java: "11", files: oneJar, env: env{"no_proxy": "localhost, host.example.com"}},
		has: []string{"-Dhttp.nonProxyHosts=localhost|host.example.com"}, lack: []string{"-Dhttp.proxyHost"}},
	{scene: scene{name: "NO_PROXY, wildcards", java: "11", files: oneJar, env: env{"NO_PROXY": ".example.com, localhost,.cluster.local"}},
		has: []string{"-Dhttp.nonProxyHosts=*.example.com|localhost|*.cluster.local"}},
	{scene: scene{name: "all proxies", java: "11", files: oneJar, env: env{"HTTP_PROXY": "http://proxy:3128", "HTTPS_PROXY": "https://proxy:4128/path?q", "no_proxy": "localhost"}},
		has: []string{"-Dhttp.proxyPort=3128", "-Dhttps.proxyPort=4128", "-Dhttp.nonProxyHosts=localhost"}},
	{scene: scene{name: "credentials", java: "11", files: oneJar, env: env{"http_proxy": "http://user:pass/word@proxy:3128/"}}, has: []string{"-Dhttp.proxyHost=proxy"}},
	{scene: scene{name: "small letters win", java: "11", files: oneJar, env: env{"http_proxy": "a.b:1", "HTTP_PROXY": "http://other:2"}}, has: []string{"-Dhttp.proxyHost=a.b"}},
	// 07_java_version.bats
	{scene: scene{name: "JAVA_MAJOR_VERSION", java: "17", files: oneJar, env: env{"JAVA_MAJOR_VERSION": "8"}}, has: []string{"-XX:+UseParallelGC"}},
	{scene: scene{name: "Java 7", java: "1.7.0_80", files: oneJar}, lack: []string{"-XX:+ExitOnOutOfMemoryError"}},
	{scene: scene{name: "JAVA_VERSION", java: "1.8.0_292", files: oneJar, env: env{"JAVA_VERSION": "8u292"}}, has: []string{"-XX:+UseParallelGC"}},
	// What its documentation says.
	{scene: scene{name: "arguments", java: "17", files: oneJar, args: []string{"--user", "max morlock", "", "-x"}}, has: []string{"max morlock", ""}},
	{scene: scene{name: "run", java: "17", files: oneJar, args: []string{"run", "options"}}, has: []string{"options"}},
	{scene: scene{name: "war", java: "17", files: env{"deploy/a.war": "", "deploy/original-a.war": "", "deploy/.hidden.jar": ""}}, has: []string{"-jar"}},
	{scene: scene{name: "jar by name", java: "17", files: env{"lib/b.jar": "", "deploy/a.jar": ""}, env: env{"JAVA_LIB_DIR": "@/lib", "JAVA_APP_JAR": "b.jar"}}},
	{scene: scene{name: "jar by pattern", java: "17", files: env{"deploy/a-1.jar": "", "deploy/a-2.jar": ""}, env: env{"JAVA_APP_JAR": "@/deploy/a-*.jar"}}},
	{scene: scene{name: "jar by path, missing", java: "17", env: env{"JAVA_APP_JAR": "/no/such.jar"}}, has: []string{"/no/such.jar:"}},
	{scene: scene{name: "jar by name, missing", java: "17", env: env{"JAVA_APP_JAR": "such.jar"}}, has: []string{"such.jar"}},
	{scene: scene{name: "main class and jar", java: "17", files: oneJar, env: env{"JAVA_MAIN_CLASS": "a.B -q", "JAVA_APP_JAR": "test.jar"}}, has: []string{"a.B", "-q"}},
	{scene: scene{name: "JAVA_CLASSPATH", java: "17", files: oneJar, env: env{"JAVA_MAIN_CLASS": "a.B", "JAVA_CLASSPATH": "/a b:/c/*"}}, has: []string{"/a b:/c/*"}},
	{scene: scene{name: "classpath in a line", java: "17", files: env{"deploy/classpath": "a.jar:/b.jar\n"}, env: env{"JAVA_MAIN_CLASS": "a.B"}}, has: []string{".:a.jar:/b.jar"}},
	{scene: scene{name: "classpath in lines", java: "17", files: env{"lib/classpath": "a.jar\nb.jar\napp.jar\n", "lib/app.jar": ""},
		env: env{"JAVA_MAIN_CLASS": "a.B", "JAVA_LIB_DIR": "@/lib", "JAVA_APP_JAR": "app.jar"}}},
	{scene: scene{name: "JAVA_OPTIONS", java: "17", files: oneJar, env: env{"JAVA_OPTIONS": "  -Da=1\t-Db=\"x\n-Dc='y'  "}}, has: []string{"-Da=1", "-Db=\"x", "-Dc='y'"}},
	{scene: scene{name: "own heap", java: "1.8.0_292", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_OPTIONS": "-Xmx100m -Xms50m", "JAVA_MAX_MEM_RATIO": "80", "JAVA_INIT_MEM_RATIO": "70"}},
		has: []string{"-Xmx100m"}, lack: []string{"-Xmx4", "-Xms3"}},
	{scene: scene{name: "own level", java: "1.8.0_292", files: oneJar, memory: 200 * megabyte, env: env{"JAVA_OPTIONS": "-XX:TieredStopAtLevel=2"}}, lack: []string{"-XX:TieredStopAtLevel=1"}},
	{scene: scene{name: "ratio 0", java: "1.8.0_292", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_MAX_MEM_RATIO": "0", "JAVA_INIT_MEM_RATIO": "0"}}, lack: []string{"-Xm"}},
	{scene: scene{name: "ratio on modern java", java: "21", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_MAX_MEM_RATIO": "70.5", "JAVA_INIT_MEM_RATIO": "10%"}}, has: []string{"-Xmx361m", "-Xms51m"}},
	{scene: scene{name: "inherited limits", java: "1.8.0_292", files: oneJar, env: env{"CONTAINER_MAX_MEMORY": "1073741824", "CONTAINER_CORE_LIMIT": "3"}}, has: []string{"-Xmx512m", "-XX:ConcGCThreads=3"}},
	{scene: scene{name: "measured limits win", java: "1.8.0_292", files: oneJar, memory: 512 * megabyte, quota: 100_000, env: env{"CONTAINER_MAX_MEMORY": "1073741824", "CONTAINER_CORE_LIMIT": "3"}},
		has: []string{"-Xmx256m", "-XX:ConcGCThreads=1"}},
	{scene: scene{name: "JAVA_CORE_LIMIT", java: "1.8.0_292", files: oneJar, quota: 800_000, env: env{"JAVA_CORE_LIMIT": "2"}}, has: []string{"-XX:ConcGCThreads=2"}},
	{scene: scene{name: "JAVA_CORE_LIMIT 0", java: "1.8.0_292", files: oneJar, quota: 800_000, env: env{"JAVA_CORE_LIMIT": "0"}}, lack: []string{"-XX:ConcGCThreads"}},
	{scene: scene{name: "diagnostics", java: "11.0.3", files: oneJar, env: env{"JAVA_DIAGNOSTICS": "true"}}, has: []string{"-Xlog:gc*:stdout:time", "-XX:NativeMemoryTracking=summary"}},
	{scene: scene{name: "run-java-options", java: "17", files: with(oneJar, "bin/run-java-options", "#!/bin/sh\necho \"-Da=$FOO  -Db\"; echo -Dc\n"), env: env{"FOO": "bar", "JAVA_OPTIONS": "-Dd"}},
		has: []string{"-Da=bar", "-Db", "-Dc"}},
	{scene: scene{name: "run-java-options without a shebang", java: "17", files: with(oneJar, "bin/run-java-options", "echo -Da\n")}, has: []string{"-Da"}},
	{scene: scene{name: "run-java-options in /opt", java: "17", files: with(oneJar, "opt/run-java-options", "echo -Da\n", "bin/run-java-options", "echo -Db\n")}, has: []string{"-Da"}, lack: []string{"-Db"}},
	{scene: scene{name: "run-java-options that fails", java: "17", files: with(oneJar, "opt/run-java-options", "echo -Da; exit 3\n")}, has: []string{"-Da"}, lack: []string{"-Db"}},
	{scene: scene{name: "run-env.sh", java: "17", files: env{"deploy/run-env.sh": "JAVA_APP_DIR=@/app; JAVA_OPTIONS='-Da=1'; export FOO=\"bar baz\"; OTHER=1\nHTTP_PROXY=p:1\n", "app/x.jar": "",
		"app/run-env.sh": "JAVA_OPTIONS=\"$JAVA_OPTIONS -Db=$OTHER\"; JAVA_MAX_MEM_RATIO=40\n"}, memory: 1000 * megabyte}, has: []string{"-Da=1", "-Db=1", "-Xmx400m", "-Dhttp.proxyHost=p"}},
	{scene: scene{name: "run-env.sh, main class", java: "17", files: env{"deploy/run-env.sh": "JAVA_MAIN_CLASS=a.B; unset GONE; JAVA_MAJOR_VERSION=8\n", "deploy/a.jar": ""}, env: env{"GONE": "1", "JAVA_APP_DIR": "@/srv"}}, has: []string{"a.B"}},
	{scene: scene{name: "run-env.sh that exits", java: "17", files: with(oneJar, "deploy/run-env.sh", "exit 0\n")}},
	{scene: scene{name: "run-env.sh that fails", java: "17", files: with(oneJar, "deploy/run-env.sh", "exit 7\n")}},
	{scene: scene{name: "run-env.sh that prints", java: "17", files: with(oneJar, "deploy/run-env.sh", "set -- a b; cd /; JAVA_OPTIONS=-Da=$(dirname $0)\n"), env: env{"JAVA_APP_DIR": "@/deploy"}}},
}

// TestLikeTheScript compares with the script, run by dash and by bash.
func TestLikeTheScript(t *testing.T) {
	for _, sh := range []string{"dash", "bash"} {
		for _, c := range alike {
			t.Run(sh+"/"+c.name, func(t *testing.T) {
				ours := c.compare(t, sh)
				for _, w := range c.has {
					if w != "" && !ours.has(w) {
						t.Errorf("no %q in\n%v", w, ours)
					}
				}
				for _, w := range c.lack {
					if strings.Contains(" "+ours.line, " "+w) {
						t.Errorf("%q in\n%v", w, ours)
					}
				}
			})
		}
	}
}

// values are what the generated scenes choose from: each right by the script.
var values = map[string][]string{
	"JAVA_OPTIONS":         {"-Xmx64m", "-Da=b -Dc", "-Xms32m -Xmx64m"},
	"JAVA_MAX_MEM_RATIO":   {"0", "25", "33.3", "90"},
	"JAVA_INIT_MEM_RATIO":  {"0", "5", "10.5", "20"},
	"JAVA_CORE_LIMIT":      {"0", "1", "5", "17"},
	"CONTAINER_MAX_MEMORY": {"104857600", "4294967296"},
	"CONTAINER_CORE_LIMIT": {"1", "2", "64"},
	"JAVA_MAJOR_VERSION":   {"7", "8", "10", "17"},
	"JAVA_DEBUG":           {"true", "1"},
	"JAVA_DEBUG_PORT":      {"5005", "8000"},
	"JAVA_DEBUG_SUSPEND":   {"true", "n", "no", "yes", "0"},
	"HTTP_PROXY":           {"http://p:80", "p", "http://u:p@h.example:3128/x?y=z", "https://127.0.0.1:8"},
	"https_proxy":          {"http://p:80/", "q:81"},
	"no_proxy":             {"a", ".a.b,c", "a,  .b"},
	"HIDDEN":               {"a  b"},
	"JAVA_MAIN_CLASS":      {"a.B", "a.B c"},
	"JAVA_CLASSPATH":       {"/x:/y"},
	"JAVA_LIB_DIR":         {"@/lib"},
	"JAVA_APP_JAR":         {"test.jar", "@/deploy/test.jar", "none.jar"},
}

func generate(r *rand.Rand, names []string) scene {
	s := scene{java: []string{"1.7.0_80", "1.8.0_292", "9.0.4", "10", "11.0.2", "17.0.1", "25"}[r.IntN(7)], env: env{},
		files: with(oneJar, "lib/classpath", []string{"a.jar:b.jar\n", "a.jar\nb.jar\nc.jar\n"}[r.IntN(2)])}
	for _, name := range names {
		if choices := values[name]; r.IntN(3) == 0 {
			s.env[name] = choices[r.IntN(len(choices))]
		}
	}
	s.memory = []int64{0, 96 * megabyte, 300 * megabyte, 512 * megabyte, 4096 * megabyte}[r.IntN(5)]
	s.quota = []int64{0, 50_000, 100_000, 250_000, 6_400_000}[r.IntN(5)]
	s.args = [][]string{nil, {"run", "x"}, {"-a", "b c"}, {"options"}, {"options", "--memory", "--gc"}, {"options", "--cpu", "--debug"}}[r.IntN(6)]
	s.agree()
	return s
}

// agree takes out what differ is about.
func (s scene) agree() {
	version := s.env["JAVA_MAJOR_VERSION"]
	if version == "" {
		version = s.java
	}
	major, _ := parseMajor(version)
	unlimited := s.quota == 0 && s.env["CONTAINER_CORE_LIMIT"] == ""
	if limit := s.env["JAVA_CORE_LIMIT"]; limit != "0" && (major >= 10 || unlimited) {
		delete(s.env, "JAVA_CORE_LIMIT")
	}
	if strings.Contains(s.env["JAVA_OPTIONS"], "-Xmx") {
		delete(s.env, "JAVA_INIT_MEM_RATIO")
	}
}

// TestLikeTheScriptGenerated compares with the script in scenes drawn from
// values, the same ones at each run.
func TestLikeTheScriptGenerated(t *testing.T) {
	names := sortedKeys(values)
	for _, sh := range []string{"dash", "bash"} {
		r := rand.New(rand.NewPCG(5, 7))
		for i := range 60 {
			s := generate(r, names)
			t.Run(fmt.Sprintf("%s/%d", sh, i), func(t *testing.T) { s.compare(t, sh) })
		}
	}
}

// TestRealJVM starts JVMs with what is planned for them.
func TestRealJVM(t *testing.T) {
	for _, major := range []int{8, 11, 17, 25} {
		java := jvmtest.Java(t, major)
		for i, e := range []env{
			{"JAVA_APP_NAME": "a name"},
			{"JAVA_DIAGNOSTICS": "1", "JAVA_MAX_MEM_RATIO": "50", "JAVA_INIT_MEM_RATIO": "90", "JAVA_MAX_CORE": "2"},
			{"JAVA_OPTIONS": "-XX:+UseG1GC -Xms200m -XX:ParallelGCThreads=1 -XX:MaxHeapFreeRatio=60", "NO_PROXY": ".a, *", "http_proxy": "[::1]:80"},
			{"JAVA_OPTIONS": "-XX:TieredStopAtLevel=4", "JAVA_DEBUG": "1", "JAVA_DEBUG_PORT": "0"},
		} {
			for _, memory := range []int64{0, 160 * megabyte, 512 * megabyte} {
				s := scene{java: fmt.Sprint(major), env: e, files: oneJar, memory: memory, quota: 150_000}
				in := s.input(s.build(t))
				in.Env = append(in.Env, "PATH="+filepath.Dir(java)+":/usr/bin:/bin")
				plan, err := Make(in)
				if err != nil {
					t.Fatal(err)
				}
				plan.Main, plan.Args = []string{"-version"}, nil
				cmd := exec.Cmd{Path: java, Args: plan.Argv(true), Env: without(plan.Env, recordVar), Dir: plan.Dir}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("JDK %d, scene %d, memory %d: %v: %q\n%s", major, i, memory, err, cmd.Args, out)
				}
			}
		}
	}
}

func without(env []string, name string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, name+"=") {
			out = append(out, e)
		}
	}
	return out
}

func TestScriptDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run-java.sh"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ argv0, path, want string }{
		{"/deploy/run-java.sh", "", "/deploy"},
		{"bin/run-java.sh", "", "/srv/bin"},
		{"./run-java.sh", dir, "/srv"},
		{"run-java.sh", "bin:/none:" + dir, dir},
		{"run-java", dir, "/srv"},
	} {
		if got := ScriptDir(c.argv0, "/srv", []string{"PATH=" + c.path}); got != c.want {
			t.Errorf("ScriptDir(%q) with PATH=%s = %q, want %q", c.argv0, c.path, got, c.want)
		}
	}
}

package runjava

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// differ are the scenes in which this package does not do as the script, each
// with the name under which docs/run-java.md gives the reason.
var differ = []struct {
	scene
	sh string // dash unless said
	// code is the exit code here; has and lack as in alike.
	code      int
	has, lack []string
}{
	{scene: scene{name: "code in a proxy", java: "17", files: oneJar, env: env{"HTTP_PROXY": "http://h';touch canary;x='"}}, lack: []string{"-Dhttp"}},
	{scene: scene{name: "IPv6 proxy", java: "17", files: oneJar, env: env{"HTTP_PROXY": "http://[::1]:3128/"}}, has: []string{"-Dhttp.proxyHost=[::1]", "-Dhttp.proxyPort=3128"}},
	{scene: scene{name: "password with @", java: "17", files: oneJar, env: env{"HTTP_PROXY": "http://u:p@ss@h:1"}}, has: []string{"-Dhttp.proxyHost=h", "-Dhttp.proxyPort=1"}},
	{scene: scene{name: "no proxy at all", java: "17", files: oneJar, env: env{"HTTP_PROXY": "http://h:port"}}, lack: []string{"-Dhttp"}},
	{scene: scene{name: "no proxy at all", java: "17", files: oneJar, env: env{"HTTP_PROXY": "h1 -XX:+Evil:1"}}, lack: []string{"-Dhttp", "-XX:+Evil"}},
	{scene: scene{name: "own proxy", java: "17", files: oneJar, env: env{"HTTP_PROXY": "http://h:1", "JAVA_TOOL_OPTIONS": "-Dhttp.proxyHost=mine"}}, lack: []string{"-Dhttp"}},
	{scene: scene{name: "blanks in NO_PROXY", java: "17", files: oneJar, env: env{"NO_PROXY": "a .b\nc,,d,"}}, has: []string{"-Dhttp.nonProxyHosts=a|*.b|c|d"}},
	{scene: scene{name: "JAVA_DEBUG=false", java: "17", files: oneJar, env: env{"JAVA_DEBUG": "false", "JAVA_DIAGNOSTICS": "0"}}, lack: []string{"-agentlib", "-Xlog"}},
	{scene: scene{name: "debug port", java: "17", files: oneJar, env: env{"JAVA_DEBUG": "1", "JAVA_DEBUG_PORT": "5005 -XX:+Evil"}}, lack: []string{"-agentlib", "-XX:+Evil"}},
	{scene: scene{name: "debug port", java: "17", files: oneJar, env: env{"JAVA_DEBUG": "1", "JAVA_DEBUG_PORT": "127.0.0.1:5005"}},
		has: []string{"-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:5005"}},
	{scene: scene{name: "debug agent twice", java: "17", files: oneJar, env: env{"JAVA_DEBUG": "1", "JAVA_OPTIONS": "-agentlib:jdwp=transport=dt_socket,address=1"}},
		lack: []string{"-agentlib:jdwp=transport=dt_socket,server=y"}},
	{scene: scene{name: "options elsewhere", java: "8", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_TOOL_OPTIONS": "-Xmx100m", "JAVA_MAX_MEM_RATIO": "80"}}, lack: []string{"-Xmx"}},
	{scene: scene{name: "options elsewhere", java: "8", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_OPTIONS": "-XX:MaxRAMPercentage=20"}}, lack: []string{"-Xmx"}},
	{scene: scene{name: "options elsewhere", java: "8", memory: 512 * megabyte, files: with(oneJar, "opt/run-java-options", "echo -Xmx99m")}, has: []string{"-Xmx99m"}, lack: []string{"-Xmx256m"}},
	{scene: scene{name: "own tuning", java: "8", files: oneJar, quota: 400_000,
		env: env{"JAVA_OPTIONS": "-XX:MaxHeapFreeRatio=60 -XX:GCTimeRatio=9 -XX:ParallelGCThreads=1 -XX:CICompilerCount=2 -Djava.util.concurrent.ForkJoinPool.common.parallelism=7"}},
		lack: []string{"-XX:MinHeapFreeRatio", "-XX:MaxHeapFreeRatio=40", "-XX:GCTimeRatio=4", "-XX:ParallelGCThreads=4", "-XX:ConcGCThreads", "-XX:CICompilerCount=3",
			"-Djava.util.concurrent.ForkJoinPool.common.parallelism=4"}},
	{scene: scene{name: "level against compilers", java: "8", files: oneJar, memory: 200 * megabyte, quota: 400_000, env: env{"JAVA_OPTIONS": "-XX:TieredStopAtLevel=4"}}, lack: []string{"-XX:CICompilerCount"}},
	{scene: scene{name: "text that looks like an option", java: "8", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_OPTIONS": "-Dx=-Xmx -Dy=-XX:UseOfGC"}},
		has: []string{"-Xmx256m", "-XX:+UseParallelGC"}},
	{scene: scene{name: "collector and exit", java: "17", files: oneJar, env: env{"JAVA_OPTIONS": "-XX:+UseG1GC"}}, has: []string{"-XX:+ExitOnOutOfMemoryError"}},
	{scene: scene{name: "own exit", java: "17", files: oneJar, env: env{"JAVA_OPTIONS": "-XX:-ExitOnOutOfMemoryError"}}, lack: []string{"-XX:+ExitOnOutOfMemoryError"}},
	{scene: scene{name: "heap sizes that contradict", java: "8", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_OPTIONS": "-Xms400m"}}, lack: []string{"-Xmx"}},
	{scene: scene{name: "heap sizes that contradict", java: "17", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_OPTIONS": "-Xmx40m", "JAVA_INIT_MEM_RATIO": "50"}}, lack: []string{"-Xms"}},
	{scene: scene{name: "heap sizes that contradict", java: "17", files: oneJar, memory: 500 * megabyte, env: env{"JAVA_MAX_MEM_RATIO": "50", "JAVA_INIT_MEM_RATIO": "90"}}, has: []string{"-Xms250m", "-Xmx250m"}},
	{scene: scene{name: "ratios", java: "17", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_MAX_MEM_RATIO": "150", "JAVA_INIT_MEM_RATIO": "-5"}}, lack: []string{"-Xm"}},
	{scene: scene{name: "ratios", java: "17", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_MAX_MEM_RATIO": "half"}}, lack: []string{"-Xm"}},
	{scene: scene{name: "ratios", java: "17", files: oneJar, memory: 512 * megabyte, env: env{"JAVA_MAX_MEM_RATIO": "0.01"}}, lack: []string{"-Xm"}},
	{scene: scene{name: "limits that are no numbers", java: "8", files: oneJar, env: env{"CONTAINER_MAX_MEMORY": "max", "CONTAINER_CORE_LIMIT": "two"}}, lack: []string{"-Xm", "-XX:ParallelGCThreads"}},
	{scene: scene{name: "diagnostics of JDK 9", java: "9.0.4", files: oneJar, env: env{"JAVA_DIAGNOSTICS": "1"}}, has: []string{"-Xlog:gc*:stdout:time"}, lack: []string{"-XX:+PrintGC"}},
	{scene: scene{name: "JAVA_MAX_CORE", java: "8", files: oneJar, quota: 400_000, env: env{"JAVA_MAX_CORE": "2"}}, has: []string{"-XX:ParallelGCThreads=2"}},
	{scene: scene{name: "JAVA_MAX_CORE", java: "8", files: oneJar, quota: 400_000, env: env{"JAVA_MAX_CORE": "0"}}, lack: []string{"-XX:ParallelGCThreads"}},
	{scene: scene{name: "cores without a limit", java: "8", files: oneJar, env: env{"JAVA_CORE_LIMIT": "2"}}, has: []string{"-XX:ParallelGCThreads=2"}},
	{scene: scene{name: "cores on a modern JDK", java: "17", files: oneJar, env: env{"JAVA_CORE_LIMIT": "2"}}, has: []string{"-XX:ActiveProcessorCount=2"}},
	{scene: scene{name: "version", java: "17.0.1", files: oneJar, env: env{"JAVA_VERSION": "jdk-17.0.1+12"}}, lack: []string{"-XX:+UseParallelGC"}},
	{scene: scene{name: "version", java: "17.0.1", files: oneJar, env: env{"JAVA_VERSION": "1.8.0_292"}}, lack: []string{"-XX:+UseParallelGC"}},
	{scene: scene{name: "version", java: "17.0.1", files: oneJar, env: env{"JAVA_MAJOR_VERSION": "latest"}}, lack: []string{"-XX:+UseParallelGC"}},
	{scene: scene{name: "unknown version", java: "?", files: oneJar}, has: []string{"-XX:+ExitOnOutOfMemoryError"}, lack: []string{"-XX:+UseParallelGC"}},
	{scene: scene{name: "blanks in names", java: "17", files: env{"my app/a b.jar": ""}, env: env{"JAVA_APP_DIR": "@/my app"}}, has: []string{"-jar"}},
	{scene: scene{name: "relative folder", java: "17", files: env{"srv/app/a.jar": ""}, env: env{"JAVA_APP_DIR": "app"}}, has: []string{"-jar"}},
	{scene: scene{name: "JAVA_APP_NAME", java: "17", files: oneJar, env: env{"JAVA_APP_NAME": "my shop"}}, has: []string{"my shop"}},
	{scene: scene{name: "JAVA_APP_NAME", java: "17", files: oneJar, env: env{"JAVA_APP_NAME": "shop"}}, sh: "bash", has: []string{"shop"}},
	{scene: scene{name: "class path file", java: "17", files: env{"deploy/classpath": "a.jar\r\n\r\n/lib/b.jar\r\nc.jar"}, env: env{"JAVA_MAIN_CLASS": "M"}}},
	{scene: scene{name: "run-env.sh twice", java: "17", files: with(oneJar, "deploy/run-env.sh", `JAVA_OPTIONS="${JAVA_OPTIONS:-} -Da"`)}, has: []string{"-Da"}},
	{scene: scene{name: "backslashes", java: "17", files: oneJar, env: env{"JAVA_OPTIONS": `-Da=x\ny\c -Db`}}, has: []string{`-Da=x\ny\c`, "-Db"}},
	{scene: scene{name: "patterns", java: "17", files: with(oneJar, "deploy/-Dx.txt", ""), env: env{"JAVA_OPTIONS": "-Dx*"}}, has: []string{"-Dx*"}},
	{scene: scene{name: "folder with the name of a jar", java: "17", files: with(oneJar, "deploy/lib.jar/x", "")}, has: []string{"-jar"}},
	{scene: scene{name: "HIDE_CMD_LINE", java: "17", files: oneJar, env: env{"HIDE_CMD_LINE": "true"}}},
	{scene: scene{name: "no such folder", java: "17", env: env{"JAVA_APP_DIR": "/none"}}, code: 1, has: []string{"/none"}},
	{scene: scene{name: "control characters", java: "17", files: oneJar, args: []string{"a\nb\x1b[2J"}}, has: []string{"a�b�[2J"}},
	{scene: scene{name: "names that are none for a shell", java: "17", files: oneJar, env: env{"spring.profiles.active": "x"}}},
}

// TestDiffers checks that the script is wrong as the documentation says, that
// this package is not, and that nothing else is listed there.
func TestDiffers(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(jvmtest.Root(t), "docs", "run-java.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.HasPrefix(line, "| ") {
			listed[name] = false
		}
	}
	for _, c := range differ {
		t.Run(c.name, func(t *testing.T) {
			if _, ok := listed[c.name]; !ok {
				t.Errorf("docs/run-java.md does not list %q", c.name)
			}
			listed[c.name] = true
			sh := c.sh
			if sh == "" {
				sh = "dash"
			}
			root := c.build(t)
			script, ours := c.original(t, root, sh), c.ours(c.input(root))
			if same(script, ours) {
				t.Errorf("the script does the same:\n%v", ours)
			}
			if ours.code != c.code {
				t.Errorf("exit code %d, want %d", ours.code, c.code)
			}
			for _, w := range c.has {
				if !ours.has(w) {
					t.Errorf("no %q in\n%v\nthe script:\n%v", w, ours, script)
				}
			}
			for _, w := range c.lack {
				if strings.Contains(" "+ours.line, " "+w) {
					t.Errorf("%q in\n%v", w, ours)
				}
			}
			checkCanary(t, c.name, root)
		})
	}
	for name, met := range listed {
		if !met && name != "what" && !strings.HasPrefix(name, "---") {
			t.Errorf("docs/run-java.md lists %q, which no scene shows", name)
		}
	}
}

// checkCanary: the script runs what a proxy's URL holds, in the folder that it
// has changed to.
func checkCanary(t *testing.T, name, root string) {
	t.Helper()
	if name != "code in a proxy" {
		return
	}
	if _, err := os.Stat(filepath.Join(root, "deploy/canary")); err != nil {
		t.Errorf("the script did not run the code: %v", err)
	}
}

// TestArguments checks what words cannot tell of some scenes above.
func TestArguments(t *testing.T) {
	for _, c := range differ {
		root := ""
		planOf := func() *Plan {
			root = c.build(t)
			plan, err := Make(c.input(root))
			if err != nil {
				t.Fatal(err)
			}
			return plan
		}
		switch c.name {
		case "blanks in names":
			if got := planOf().Main[1]; got != root+"/my app/a b.jar" {
				t.Errorf("the jar is %q", got)
			}
		case "relative folder":
			if got := planOf().Main[1]; got != root+"/srv/app/a.jar" {
				t.Errorf("the jar is %q", got)
			}
		case "class path file":
			if got := planOf().Classpath; got != ".:"+root+"/deploy/a.jar:/lib/b.jar:"+root+"/deploy/c.jar" {
				t.Errorf("the class path is %q", got)
			}
		case "HIDE_CMD_LINE":
			if !planOf().Quiet {
				t.Error("the command line is not hidden")
			}
		case "names that are none for a shell":
			if v, _ := jvmopts.LookupEnv(planOf().Env, "spring.profiles.active"); v != "x" {
				t.Errorf("the variable is %q", v)
			}
		}
	}
}

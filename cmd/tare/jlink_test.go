package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/testkit/dockertest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// An image with a runtime that jlink made is fitted as one with a JDK.
func TestFitJlink(t *testing.T) {
	e := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", e.Host)
	files := sysinfoFiles(t)
	files["/jdk"] = jlink(t)
	importFiles(t, e, "linked:1", files, "USER 1234", `ENV MALLOC_ARENA_MAX=1 JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -Xmx32m"`, `ENTRYPOINT ["java","-XX:+UseSerialGC","-jar","sysinfo.jar"]`)
	port := strconv.Itoa(jvmtest.FreePort(t))
	url := "http://127.0.0.1:" + port
	code, out, errs := fitRun(t.Context(), []string{"--image", "linked:1", "--ready", url + "/health", "--load", url + "/sys-summary", "--cpus", "1", "--ample", "512m", "--ready-timeout", "60s",
		"--warmup", "0", "--duration", "1s", "--concurrency", "1", "--slo", "errors=0", "--baselines", "1", "--trials", "5", "--confirmations", "1", "--proof", "short", "--levers", "archive", "--json", "--", "--port", port})
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var j report.FitJSON
	if err := json.Unmarshal([]byte(out), &j); err != nil {
		t.Fatal(err)
	}
	if j.JavaHome != "/jdk" || j.LimitBytes == nil || j.Peak == nil {
		t.Errorf("%+v", j)
	}
	noContainers(t, e)
}

// jlink makes a runtime of the system's JDK with what the demo service needs.
func jlink(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "runtime")
	modules := "java.base,java.logging,java.management,java.naming,java.sql,jdk.httpserver,jdk.management,jdk.unsupported"
	if text, err := exec.Command("jlink", "--add-modules", modules, "--strip-debug", "--output", out).CombinedOutput(); err != nil {
		t.Fatalf("jlink: %v: %s: run scripts/setup.sh build", err, text)
	}
	return out
}

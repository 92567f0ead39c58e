package load_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/testkit/alone"
	"tare.dev/tare/internal/testkit/loadtest"
)

// k6Script is what k6 runs for the suite.
const k6Script = `
import http from 'k6/http';
export const options = { vus: __ENV.CONNECTIONS, duration: __ENV.TARE_DURATION + 's', gracefulStop: '2s' };
export default function () { http.get(__ENV.URL, { timeout: __ENV.TIMEOUT + 's' }); }
`

// The own loaders, and commands that tell what they measured themselves, do what
// the interface says.
func TestLoaders(t *testing.T) {
	alone.Share(t)
	plan := func(rate float64) loadtest.New {
		return func(t *testing.T, url string) load.Loader {
			target, err := load.ParseTarget(url)
			if err != nil {
				t.Fatal(err)
			}
			return load.HTTP{Plan: load.Plan{Targets: []load.Target{target}, Concurrency: loadtest.Connections, Rate: rate, Timeout: loadtest.Timeout}}
		}
	}
	runAll(t, map[string]loadtest.New{
		"closed loop": plan(0),
		"open loop":   plan(100),
		"line":        command(load.Line, load.TestGenerator+`=line '`+os.Args[0]+`' %s`),
		"status":      command(load.Status, load.TestGenerator+`=status '`+os.Args[0]+`' %s`),
	})
}

// Real generators do as well. wrk and hey are installed by scripts/setup.sh; k6
// and oha, which no distribution has, take part where they are installed, and
// else by what they printed once (TestRecorded).
func TestGenerators(t *testing.T) {
	alone.Uses(t, "wrk and hey")
	timeout := int(loadtest.Timeout / time.Second)
	wrk := fmt.Sprintf("wrk -t1 -c%d -d${TARE_DURATION}s --timeout %ds", loadtest.Connections, timeout)
	loaders := map[string]loadtest.New{
		"wrk":       command("", wrk+" --latency %s"),
		"wrk plain": command("", wrk+" %s"),
		"hey":       command("", fmt.Sprintf("hey -c %d -z ${TARE_DURATION}s -t %d %%s", loadtest.Connections, timeout)),
	}
	for name, script := range map[string]string{
		"oha": fmt.Sprintf("oha --no-tui --output-format json -c %d -z ${TARE_DURATION}s -t %ds %%s", loadtest.Connections, timeout),
		"k6": fmt.Sprintf("env URL=%%s CONNECTIONS=%d TIMEOUT=%d K6_NO_USAGE_REPORT=true k6 run --quiet %s",
			loadtest.Connections, timeout, writeScript(t)),
	} {
		if _, err := exec.LookPath(name); err == nil {
			loaders[name] = command("", script)
		}
	}
	runAll(t, loaders)
}

func command(f load.Format, script string) loadtest.New {
	return func(t *testing.T, url string) load.Loader {
		t.Helper()
		c, err := load.NewCommand(fmt.Sprintf(script, url), os.Environ(), f)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func runAll(t *testing.T, loaders map[string]loadtest.New) {
	for name, make := range loaders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loadtest.Run(t, make)
		})
	}
}

func writeScript(t *testing.T) string {
	t.Helper()
	name := t.TempDir() + "/load.js"
	if err := os.WriteFile(name, []byte(k6Script), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

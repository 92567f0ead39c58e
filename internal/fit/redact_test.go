package fit

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/runnertest"
	"tare.dev/tare/internal/trial"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"GET http://h/p?token=abc&size=3":            "GET http://h/p?token=REDACTED&size=3",
		"http://h/work?alloc-kib=64&cpu-us=200":      "http://h/work?alloc-kib=64&cpu-us=200",
		"http://me:pass@h/":                          "http://REDACTED@h/",
		"-Xmx64m -Ddb.password=x -Dcolor=red":        "-Xmx64m -Ddb.password=REDACTED -Dcolor=red",
		"-Djavax.net.ssl.keyStorePassword='a b' -ea": "-Djavax.net.ssl.keyStorePassword=REDACTED -ea",
		"--api-key=1 --keyboard=de":                  "--api-key=REDACTED --keyboard=de",
		"GET http://h/?sig=1&key=2&monkey=3":         "GET http://h/?sig=REDACTED&key=REDACTED&monkey=3",
	} {
		if got := redact(text); got != want || redact(got) != got {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// No secret is in what a fit stores of its plan, or shows; and a plan with another
// secret is another plan.
func TestPlanHoldsNoSecrets(t *testing.T) {
	plan := func(secret string, byCommand bool) (Plan, Record) {
		c := Config{Runner: runnertest.OnlyHost(runner.ThisHost()), Dir: t.TempDir(), AddedEnv: []string{"SHOP_TOKEN=" + secret, "COLOR=red"}}
		var errs [3]error
		c.Command, errs[0] = jvmopts.Parse([]string{"java", "-Ddb.password=" + secret, "-cp", "x", "Main", "--auth-token=" + secret})
		c.SLO, errs[1] = trial.ParseSLO(trial.DefaultSLO)
		target, err := load.ParseTarget("http://127.0.0.1:1/?token=" + secret)
		errs[2] = err
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		c.Dir = "/"
		c.Load = NewLoad(load.HTTP{Plan: load.Plan{Targets: []load.Target{target}, Concurrency: 1}})
		if byCommand {
			c.Load = NewLoad(load.Command{Args: []string{"/bin/sh", "-c", "curl --token=" + secret}})
		}
		c.Env = append([]string{"LD_SDK_KEY=" + secret, "JAVA_KEYSTORE_PASSWORD=" + secret, "JAVA_TOOL_OPTIONS=-Dpassword=" + secret + " -Xss1m", "LD_PRELOAD=/x.so", "HOME=" + secret}, c.AddedEnv...)
		p, err := NewPlan(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return p, c.record()
	}
	one, shown := plan("hunter2", false)
	command, shownCommand := plan("hunter2", true)
	for _, v := range []any{one, shown, command, shownCommand} {
		text, err := json.Marshal(v)
		if err != nil || strings.Contains(string(text), "hunter2") {
			t.Errorf("%v: %s", err, text)
		}
	}
	if want := []string{"COLOR=red", "JAVA_TOOL_OPTIONS=-Dpassword=REDACTED -Xss1m", "LD_PRELOAD=/x.so", "SHOP_TOKEN=REDACTED"}; !slices.Equal(one.Env, want) {
		t.Errorf("%q, want %q", one.Env, want)
	}
	same, _ := plan("hunter2", false)
	other, _ := plan("hunter3", false)
	if d := one.Differences(same); len(d) > 0 {
		t.Errorf("the same plan differs: %q", d)
	}
	if d := one.Differences(other); len(d) != 3 || strings.Contains(strings.Join(d, ""), "hunter") {
		t.Errorf("another secret: %q", d)
	}
}

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/testkit/jvmtest"
)

// Called as the script: its variables decide, the rules do the rest.
func TestRunJava(t *testing.T) {
	app := t.TempDir()
	jar := filepath.Join(app, "app.jar")
	if err := os.Symlink(jvmtest.Jar(t, "sysinfo.jar"), jar); err != nil {
		t.Fatal(err)
	}
	java := javaOf(t, 17)
	env := []string{"PATH=" + filepath.Dir(java), "JAVA_APP_DIR=" + app}
	for _, c := range []struct {
		what    string
		env     []string
		want    []string
		wantNot []string
	}{
		{"rules", nil, []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"}, nil},
		{"ratio", []string{"JAVA_MAX_MEM_RATIO=25"}, []string{"-Xmx32m", "-XX:+UseSerialGC"}, nil},
		{"no ratio", []string{"JAVA_MAX_MEM_RATIO=0"}, []string{"-XX:+UseSerialGC"}, []string{"-Xmx"}},
		{"options", []string{"JAVA_OPTIONS=-Xmx48m -XX:+UseParallelGC -Dx=$(id)"}, []string{"-Xmx48m", "-XX:+UseParallelGC", "-Dx=$(id)"}, []string{"-XX:+UseSerialGC"}},
		{"debug", []string{"JAVA_DEBUG=true"}, []string{"-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=*:5005"}, nil},
	} {
		r := try(t, limited(t, 128*mib), slices.Concat(env, c.env), "/opt/run-java.sh", "run", "an argument")
		if r.code != 0 || r.path != java || r.args[0] != "java" || r.dir != app || r.args[len(r.args)-1] != "an argument" || !slices.Contains(r.args, jar) {
			t.Errorf("%s: %+v", c.what, r)
			continue
		}
		if !strings.HasPrefix(r.stdout, "exec java ") || strings.Count(r.stdout, "\n") != 1 {
			t.Errorf("%s: it printed %q", c.what, r.stdout)
		}
		for _, w := range c.want {
			if !slices.Contains(r.args, w) {
				t.Errorf("%s: no %s in %q", c.what, w, r.args)
			}
		}
		for _, w := range c.wantNot {
			if slices.ContainsFunc(r.args, func(a string) bool { return strings.HasPrefix(a, w) }) {
				t.Errorf("%s: %s in %q", c.what, w, r.args)
			}
		}
		if !slices.Contains(r.env, fmt.Sprintf("CONTAINER_MAX_MEMORY=%d", 128*mib)) {
			t.Errorf("%s: CONTAINER_MAX_MEMORY is not exported: %q", c.what, r.env)
		}
	}
}

func TestRunJavaOtherwise(t *testing.T) {
	app := t.TempDir()
	env := []string{"PATH=" + filepath.Dir(javaOf(t, 17)), "JAVA_APP_DIR=" + app, "JAVA_MAX_MEM_RATIO=50"}
	r := try(t, limited(t, 256*mib), env, "tare-exec", "--run-java", "options", "--memory")
	if r.code != 0 || r.path != "" || strings.TrimSpace(r.stdout) != "-Xmx128m" {
		t.Errorf("%+v", r)
	}
	// No jar: the script's error, where the script has it.
	r = try(t, limited(t, 256*mib), env, "run-java")
	if r.code != 1 || r.path != "" || !strings.HasPrefix(r.stdout, "ERROR: ") || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	if err := os.Symlink(jvmtest.Jar(t, "sysinfo.jar"), filepath.Join(app, "app.jar")); err != nil {
		t.Fatal(err)
	}
	r = try(t, limited(t, 256*mib), append(env, "JAVA_APP_NAME=shop", "HIDE_CMD_LINE=true"), "run-java.sh")
	if r.code != 0 || r.args[0] != "shop" || r.stdout != "" {
		t.Errorf("%+v", r)
	}
	if r := try(t, limited(t, 256*mib), []string{"PATH=/nonexistent", "JAVA_APP_DIR=" + app}, "run-java.sh"); r.code != 127 || r.path != "" {
		t.Errorf("%+v", r)
	}
}

package fit

import (
	"context"
	"path/filepath"
	"testing"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/bootjartest"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// elsewhere is a machine of which nothing but files is known.
type elsewhere struct {
	runner.Runner
	here runner.Host
}

func (elsewhere) Name() string { return "elsewhere" }

func (elsewhere) Machine(context.Context) (runner.Machine, error) {
	return runner.Machine{Kernel: "elsewhere"}, nil
}

func (e elsewhere) File(ctx context.Context, name string) (runner.File, error) {
	f, err := e.here.File(ctx, name)
	f.ReadAheadBytes = 64 << 10
	return f, err
}

// What a fit knows of the application's jar, its launcher and the machine, the
// runner's machine told.
func TestSurvey(t *testing.T) {
	dir := t.TempDir()
	plain, launcher := jvmtest.Jar(t, "sysinfo.jar"), jvmtest.Java(t, 17)
	bootjartest.Write(t, filepath.Join(dir, "app.jar"), plain, nil)
	for jar, nested := range map[string]bool{"app.jar": true, plain: false, "none.jar": false} {
		command, err := jvmopts.Parse([]string{"java", "-jar", jar})
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Runner: elsewhere{here: runner.ThisHost()}, Command: command, Dir: dir, Java: Java{Path: launcher}}
		if err := c.Survey(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.Machine.Kernel != "elsewhere" || c.ReadAheadBytes != 64<<10 || c.NestedJars != nested || c.Search(nil).Facts.Nested != nested {
			t.Errorf("%s: %+v, reads ahead %d, holds jars %t", jar, c.Machine, c.ReadAheadBytes, c.NestedJars)
		}
	}
}

package attach

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/testkit/jvmtest"
)

// host is a program that loads libjvm, makes a JVM with an option unless it is
// "none", and handles SIGQUIT itself: with a JVM, before that is made.
const host = `
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
typedef struct { char *text; void *extra; } option;
typedef struct { int version, count; option *options; unsigned char ignore; } arguments;
static void quit(int signal) { (void)!write(1, "quit\n", 5); _exit(3); }
int main(int argc, char **argv) {
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	struct sigaction own = { .sa_handler = quit };
	if (!library) { puts(dlerror()); return 1; }
	sigaction(SIGQUIT, &own, 0);
	if (strcmp(argv[2], "none")) {
		int (*make)(void **, void **, void *) = dlsym(library, "JNI_CreateJavaVM");
		void *vm, *env;
		option options[] = {{argv[2], 0}, {"-Xmx32m", 0}};
		arguments a = {0x00010008, 2, options, 0};
		if (!make || make(&vm, &env, &a)) { puts("no JVM"); return 1; }
	}
	puts("ready");
	fflush(stdout);
	for (;;) pause();
}
`

// A program that loaded libjvm is asked only once a JVM in it handles SIGQUIT:
// what else would happen is the program's own matter.
func TestHostPrograms(t *testing.T) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "host.c"), filepath.Join(dir, "host")
	if err := os.WriteFile(source, []byte(host), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-o", program, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	library := filepath.Join(jvmtest.Home(t, 17), "lib", "server", "libjvm.so")
	for _, c := range []struct {
		option string
		asked  bool
	}{
		{"none", false},
		{"-Xrs", true}, // it listens from the start, and needs no signal
		{"-Xint", true},
	} {
		t.Run(c.option, func(t *testing.T) {
			pid := startHost(t, program, library, c.option)
			proc := linux.NewFS("/proc")
			target, err := process.Find(proc, pid)
			if err != nil {
				t.Fatal(err)
			}
			var version string
			err = Ask(t.Context(), proc, target, "VM.version", func(r io.Reader) error {
				b, err := io.ReadAll(r)
				version = string(b)
				return err
			})
			if c.asked && (err != nil || !strings.Contains(version, "JDK 17")) || !c.asked && !errors.Is(err, ErrUnsafe) {
				t.Errorf("%q, %v", version, err)
			}
			if !target.StillThere(proc) {
				t.Error("the program has ended")
			}
		})
	}
}

func startHost(t *testing.T, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "ready\n" {
		t.Fatalf("%q, %v", said, err)
	}
	return cmd.Process.Pid
}

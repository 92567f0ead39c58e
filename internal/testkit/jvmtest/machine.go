package jvmtest

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"tare.dev/tare/internal/testkit/vmtest"
)

// RunInMachine runs one test of a package in a virtual machine of Linux 6.1
// with cgroup v2, which has the JDKs of these major versions and workloads.jar
// where Home and Jar look for them.
func RunInMachine(t *testing.T, pkg, test string, majors ...int) {
	t.Helper()
	RunOnKernel(t, "bookworm", pkg, test, majors...)
}

// RunOnKernel is RunInMachine with the kernel of a suite of Debian; see vm.Options.
// test may be several, as in "(TestA|TestB)".
func RunOnKernel(t *testing.T, suite, pkg, test string, majors ...int) {
	t.Helper()
	const cache = "/cache"
	copies := []vmtest.Copy{
		{Host: filepath.Join(Root(t), "go.mod"), Guest: "/test/go.mod"},
		{Host: Jar(t, "workloads.jar"), Guest: "/test/bin/workloads.jar"},
	}
	for _, major := range majors {
		copies = append(copies, vmtest.Copy{Host: Home(t, major), Guest: filepath.Join(cache, "jdks", strconv.Itoa(major))})
	}
	vmtest.RunTests(t, vmtest.Options{
		Kernel: suite, Memory: 1 << 30, Timeout: 10 * time.Minute, HostLibs: true, Env: []string{"TARE_CACHE=" + cache}, Copies: copies,
	}, pkg, "-test.run=^"+test+"$")
}

package hotspot

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/testkit/jvmtest"
	"tare.dev/tare/internal/testkit/polltest"
)

func TestKindOfThread(t *testing.T) {
	for comm, want := range map[string]ThreadKind{
		"GC Thread#11": CollectorThread, "Gang worker#0 (": CollectorThread, "Gang worker#10 ": CollectorThread, "GC task thread#": CollectorThread,
		"ZWorkerYoung#3": CollectorThread, "ZUncommitter#0": CollectorThread, "ZUncommitter": CollectorThread, "VM Thread": OperationsThread,
		"C2 Comp..hread1": CompilerThread, "C2 Comp..read12": CompilerThread, "C1 CompilerThre": CompilerThread, "G1 Refi..kers#0": CollectorThread,
		"Zookeeper": ApplicationThread, "ZMonitor": ApplicationThread, "ZWorker": ApplicationThread, "GCMonitor": ApplicationThread, "GC Thread": ApplicationThread,
		"Concurrent": ApplicationThread, "VM Watcher": ApplicationThread, "ZStat (": ApplicationThread, "Gang worker": ApplicationThread, "XWorkers#1": ApplicationThread,
		"": ApplicationThread, "12": ApplicationThread, "#1": ApplicationThread, "java": ApplicationThread, "Finalizer": ApplicationThread, "C2 Comparator": ApplicationThread,
	} {
		if got := KindOfThread(comm); got != want {
			t.Errorf("%q: %d, want %d", comm, got, want)
		}
	}
	for comm := range comms {
		if len(comm) > 15 {
			t.Errorf("%q is longer than the kernel keeps", comm)
		}
	}
}

// namesSource has a thread whose name begins like a collector's, makes garbage, and keeps
// all compilers busy for a while.
const namesSource = `public class Names {
	static volatile Object kept;
	public static void main(String[] args) throws Exception {
		Thread own = new Thread(() -> { try { Thread.sleep(Long.MAX_VALUE); } catch (InterruptedException e) { } }, "ZookeeperWorker");
		own.start();
		for (int i = 0; i < 4_000; i++) kept = new byte[1 << 13];
		System.out.println("ready");
		Thread.sleep(Long.MAX_VALUE);
	}
}`

// What threads a JVM has is asked of every JDK with every collector: none of its own
// may count as the application's.
func TestKindsOnJVMs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Names.java")
	if err := os.WriteFile(file, []byte(namesSource), 0o600); err != nil {
		t.Fatal(err)
	}
	javac := filepath.Join(jvmtest.Home(t, 8), "bin", "javac") // what it compiles runs on all
	if out, err := exec.Command(javac, file).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	for _, major := range jvmtest.Majors(t) {
		for _, collector := range collectorsOf(major) {
			t.Run(fmt.Sprint(major, collector), func(t *testing.T) {
				t.Parallel()
				args := append([]string{"-Xmx64m", "-XX:+UnlockExperimentalVMOptions", "-XX:CICompilerCount=2"}, collector...)
				p := jvmtest.Start(t, jvmtest.Java(t, major), append(args, "-cp", filepath.Dir(file), "Names")...)
				p.Await(t, "ready")
				polltest.UntilNil(t, func() error { return checkKinds(p.PID(), len(collector) > 0 && collector[0] == "-XX:+UseSerialGC") })
			})
		}
	}
}

// collectorsOf are the options of the collectors that a JDK has.
func collectorsOf(major int) [][]string {
	all := [][]string{{"-XX:+UseSerialGC"}, {"-XX:+UseParallelGC"}, {"-XX:+UseG1GC"}}
	if major < 17 {
		all = append(all, []string{"-XX:+UseConcMarkSweepGC"})
	}
	if major >= 11 {
		all = append(all, []string{"-XX:+UseZGC"}, []string{"-XX:+UseShenandoahGC"})
	}
	if major == 21 {
		all = append(all, []string{"-XX:+UseZGC", "-XX:+ZGenerational"})
	}
	return all
}

// checkKinds wants compilers, a VM thread and, but with Serial, collectors among the
// threads, and none but the application's to count as its own. A thread is named by
// itself when it has begun: until then it has its maker's name.
func checkKinds(pid int, serial bool) error {
	clocks, _, err := linux.NewFS("/proc").ThreadClocks(pid, nil)
	if err != nil {
		return err
	}
	own := []string{"java", "Reference Handl", "Referen..andler", "Finalizer", "Common-Cleaner", "ZookeeperWorker", "Zookeep..Worker"}
	seen := map[ThreadKind]int{}
	for _, c := range clocks {
		kind := KindOfThread(c.Name)
		seen[kind]++
		if (kind == ApplicationThread) != slices.Contains(own, c.Name) {
			return fmt.Errorf("%q is of kind %d", c.Name, kind)
		}
	}
	if seen[OperationsThread] != 1 || seen[CompilerThread] == 0 || seen[ServiceThread] == 0 || (seen[CollectorThread] == 0) != serial {
		return fmt.Errorf("by kind %v", seen)
	}
	return nil
}

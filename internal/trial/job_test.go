package trial

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/jvmtest"
)

const jobSource = `
public class Job {
	public static void main(String[] args) throws Exception {
		switch (args[0]) {
			case "ok": break;
			case "fail": System.exit(3);
			case "hang": Thread.sleep(600_000);
			case "fill": byte[][] all = new byte[1 << 20][]; for (int i = 0; i < all.length; i++) all[i] = new byte[1 << 20];
			case "thrash": thrash();
		}
	}

	static void thrash() {
		java.util.ArrayDeque<byte[]> live = new java.util.ArrayDeque<>();
		for (boolean full = false; ; ) {
			try {
				live.add(new byte[1 << 10]);
				if (full) live.remove();
			} catch (OutOfMemoryError e) {
				full = true;
				for (int i = 0; i < 100; i++) live.remove();
			}
		}
	}
}`

// Jobs with every way to end, for real.
func TestJobs(t *testing.T) {
	r := testRunner(t)
	source := filepath.Join(t.TempDir(), "Job.java")
	if err := os.WriteFile(source, []byte(jobSource), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		mode, slo string
		want      Verdict
		words     string
		timed     bool
	}{
		{"ok", "time<1h", Passed, "", true},
		{"ok", "time<1ms", TooSlow, "wanted < 1ms", true},
		{"ok", "time<=0.0001x", TooSlow, "(time<=0.0001x)", true},
		{"fail", "time<1h", Crashed, "the application ended by itself: exit code 3", false},
		{"hang", "time<1h", TooSlow, "not ended after 6s", true},
		{"fill", "time<1h", OutOfMemory, "OutOfMemoryError", false},
	}
	for _, tt := range tests {
		t.Run(tt.mode+" "+tt.slo, func(t *testing.T) {
			slo, err := ParseSLO(tt.slo)
			if err != nil {
				t.Fatal(err)
			}
			s := Spec{Args: []string{jvmtest.Java(t, 17), "-Xmx48m", source, tt.mode}, Env: os.Environ(), Limits: runner.Limits{MemoryBytes: 512 << 20}, Job: true,
				SLO: slo, Baseline: &Measured{Time: time.Minute}}
			if tt.mode == "hang" {
				s.ReadyTimeout = 6 * time.Second
			}
			res, err := Run(t.Context(), r, s)
			if err != nil {
				t.Fatal(err)
			}
			if res.Verdict != tt.want || !strings.Contains(strings.Join(res.Evidence, "\n"), tt.words) || (res.JobTime > 0) != tt.timed {
				t.Errorf("%s in %s, want %s: %q\n%q", res.Verdict, res.JobTime, tt.want, res.Evidence, res.Log)
			}
			if tt.want == Passed && (res.PeakBytes == 0 || res.NeededBytes == 0 || res.CodeCacheFull) {
				t.Errorf("not measured: %+v", res)
			}
		})
	}
}

// A JVM says when its code cache is full: here by compiling all of javac, without
// the sweeper, which may keep up. Javac 8 goes on without a compiler: later ones
// need method handles, whose code has no room either.
func TestCodeCacheFull(t *testing.T) {
	source := filepath.Join(t.TempDir(), "Job.java")
	if err := os.WriteFile(source, []byte(jobSource), 0o644); err != nil {
		t.Fatal(err)
	}
	javac := []string{"-cp", filepath.Join(jvmtest.Home(t, 8), "lib", "tools.jar"), "com.sun.tools.javac.Main", source}
	res, err := Run(t.Context(), testRunner(t), Spec{
		Args: append([]string{jvmtest.Java(t, 8), "-Xcomp", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=3m", "-XX:-UseCodeCacheFlushing"}, javac...),
		Env:  os.Environ(), Limits: runner.Limits{MemoryBytes: 512 << 20}, Job: true})
	if err != nil {
		t.Fatal(err)
	}
	if !res.Passed() || !res.CodeCacheFull || !strings.Contains(strings.Join(res.Evidence, "\n"), "the code cache is full") {
		t.Errorf("%s %q\n%q", res.Verdict, res.Evidence, res.Log)
	}
}

// collected is a JVM of which each collection left another part of the heap. Below 0 is what was left
// when one of the old generation had begun.
type collected struct {
	waiting
	left *[]int64
	olds *int64
}

func (c collected) Counters(context.Context) (runner.Counters, error) {
	left := (*c.left)[0]
	*c.left = (*c.left)[1:]
	if left < 0 {
		*c.olds++
	}
	return runner.Counters{UsedAfterGC: max(left, -left), OldGCCount: *c.olds}, nil
}

// The parts of a job have other data: its heap is for the most that lived, by collections of the old
// generation where there were some. Under a load the least that a collection left is nearest to what
// lives.
func TestLiveSetOfAJob(t *testing.T) {
	for _, c := range []struct {
		left      []int64
		load, job int64
	}{
		{[]int64{0, 0}, 0, 0},
		{[]int64{0, 2, 70, 20}, 2, 70},
		{[]int64{0, -2, 70, 20}, 2, 70},
		{[]int64{2, -2, 1, 70, 20}, 1, 70},
		{[]int64{2, 80, -80, 15, 30, 78, -20, 22, 70}, 2, 22},
		{[]int64{2, 4, -2, 3, 50, -60, -60, 55, 80, -79, 40, 60}, 2, 55},
	} {
		s := &sampler{host: silent{}, proc: collected{left: &c.left, olds: new(int64)}}
		for range len(c.left) {
			s.sample(t.Context())
		}
		if load, job := s.left.live(false), s.left.live(true); load != c.load || job != c.job {
			t.Errorf("%d under a load and %d of a job, want %d and %d", load, job, c.load, c.job)
		}
	}
}

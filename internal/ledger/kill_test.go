package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// runAsWriter makes the test binary write to the ledger in this folder.
const runAsWriter = "TARE_TEST_AS_LEDGER_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(runAsWriter); dir != "" {
		fmt.Println("error:", writeForEver(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForEver writes of three JVMs, and says the count of each record when it is
// written.
func writeForEver(dir string) error {
	// Large enough that nothing goes while the test is slow to read what is said.
	w, err := Create(dir, DefaultBytes)
	if err != nil {
		return err
	}
	for pid := 1; pid <= 3; pid++ {
		if err := w.Append(start(pid)); err != nil {
			return err
		}
	}
	for n := 1; ; n++ {
		rec := counters(1+n%3, n)
		if n%20 == 0 {
			rec = weighed(1+n%3, n)
			rec.Footprint.Threads = n
		}
		if err := w.Append(rec); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

const kills = 50

// Killed at random moments, a writer leaves a ledger that reads without damage or
// with a torn last record, that lacks nothing which was acknowledged, and that
// the next one goes on with.
func TestKilledWritersLoseNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	for range kills {
		before := highest(t, dir)
		acknowledged := writeAndKill(t, dir, 1+rng.IntN(300))
		seen, last := map[int]bool{}, uint64(0)
		r, err := OpenReader(dir)
		if err != nil {
			t.Fatal(err)
		}
		damage, err := r.Since(before, func(rec Record) bool {
			if rec.Seq <= last {
				t.Errorf("%d comes after %d", rec.Seq, last)
			}
			last = rec.Seq
			switch {
			case rec.Counters != nil:
				seen[int(rec.Counters.Collections)] = true
			case rec.Footprint != nil:
				seen[rec.Footprint.Threads] = true
			}
			return true
		})
		if err != nil || damage.Places > kills {
			t.Fatalf("%+v, %v", damage, err)
		}
		for n := 1; n <= acknowledged; n++ {
			if !seen[n] {
				t.Fatalf("record %d of %d acknowledged is missing; damage %+v", n, acknowledged, damage)
			}
		}
		if len(seen) > acknowledged+1 {
			t.Errorf("%d records, %d acknowledged", len(seen), acknowledged)
		}
	}
}

func highest(t *testing.T, dir string) (n uint64) {
	r, err := OpenReader(dir)
	if errors.Is(err, ErrNone) {
		return 0
	}
	if err == nil {
		_, err = r.Since(0, func(rec Record) bool { n = rec.Seq; return true })
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// writeAndKill runs a writer, kills it after so many records, and returns how many
// it said that it wrote.
func writeAndKill(t *testing.T, dir string, after int) (acknowledged int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), runAsWriter+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Errorf("the writer says %q", lines.Text())
			continue
		}
		if acknowledged = n; n == after {
			_ = cmd.Process.Kill()
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the writer ended: %v", err)
	}
	return acknowledged
}

// Package alone keeps what tests measure apart from what would disturb it. The
// test processes of a tree run side by side; a test that measures time calls
// Measures, and then no test that uses a JVM, a container or a machine runs beside
// it, in whichever process.
package alone

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Uses says that the test uses something real beside its own process, such as
// "a JVM". A short run (go test -short, make check) skips it; any other run
// shares the machine with it, see Share.
func Uses(t testing.TB, what string) {
	t.Helper()
	skipShort(t, what)
	Share(t)
}

// Measures is as Uses, for a test that measures time or work done: see Take.
func Measures(t testing.TB, what string) {
	t.Helper()
	skipShort(t, what)
	Take(t)
}

func skipShort(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("-short: it needs %s", what)
	}
}

// Share says that the test disturbs those that measure: it waits until none
// does, and keeps them waiting until it ends. What starts JVMs, containers and
// machines for tests calls it.
func Share(t testing.TB) {
	t.Helper()
	enter(t, (*table).share)
}

// Take waits until no other test that shares runs, and keeps them waiting until
// the test ends. Its subtests are alone too, one beside the other if they are
// parallel.
func Take(t testing.TB) {
	t.Helper()
	enter(t, (*table).take)
}

// Part is the variable that a test sets for test processes that are a part of
// itself: it waits for them, and they need not wait for it.
const Part = "TARE_TEST_PART"

func enter(t testing.TB, how func(*table, string) error) {
	t.Helper()
	if os.Getenv(Part) != "" {
		return
	}
	table, err := here()
	if err == nil {
		err = how(table, t.Name())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.release(t.Name()) })
}

// here is the table of this process. Its lock lies in the tree that the tests
// are of, for another tree's tests are no concern of theirs.
var here = sync.OnceValues(func() (*table, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, gone := os.Stat(filepath.Join(dir, "go.mod")); gone == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return nil, errors.New("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return nil, err
	}
	return open(filepath.Join(dir, "bin", ".tests.lock"))
})

// table says which tests of a process share and which is alone. Between
// processes it is a lock on a file, shared or exclusive.
type table struct {
	mu      sync.Mutex
	changed *sync.Cond
	sharing map[string]int  // by test: how often it said so
	waiting map[string]bool // tests that wait to be alone
	alone   string          // the test that has or awaits the machine for itself
	// lock is what processes share or take. Who waits for it holds the gate, so
	// that those who share do not keep out one that wants to be alone.
	lock, gate *os.File
}

func open(path string) (*table, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	t := &table{sharing: map[string]int{}, waiting: map[string]bool{}}
	t.changed = sync.NewCond(&t.mu)
	var err error
	if t.lock, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, err
	}
	t.gate, err = os.OpenFile(path+".gate", os.O_CREATE|os.O_RDWR, 0o644)
	return t, err
}

func (t *table) share(test string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.alone != "" && !within(test, t.alone) && !t.shares(test) {
		t.changed.Wait()
	}
	t.sharing[test]++
	if t.alone != "" || len(t.sharing) > 1 || t.sharing[test] > 1 {
		return nil
	}
	return t.wait(unix.LOCK_SH)
}

func (t *table) take(test string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.alone != "" && within(test, t.alone) {
		t.sharing[test]++ // as part of what is alone
		return nil
	}
	t.waiting[test] = true
	t.changed.Broadcast()
	for t.alone != "" {
		t.changed.Wait()
	}
	t.alone = test // from now on no other begins to share
	for !t.quiet() {
		t.changed.Wait()
	}
	delete(t.waiting, test)
	if err := flock(t.lock, unix.LOCK_UN); err != nil {
		return err
	}
	return t.wait(unix.LOCK_EX)
}

// release undoes one share or take of a test that ends.
func (t *table) release(test string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.changed.Broadcast()
	if t.sharing[test]--; t.sharing[test] >= 0 {
		if t.sharing[test] == 0 {
			delete(t.sharing, test)
		}
	} else {
		delete(t.sharing, test)
		t.alone = ""
	}
	switch {
	case t.alone != "":
	case len(t.sharing) > 0:
		_ = flock(t.lock, unix.LOCK_SH) // at once, from shared or exclusive
	default:
		_ = flock(t.lock, unix.LOCK_UN)
	}
}

// shares says that a test shares, itself or as a part of one that does.
func (t *table) shares(test string) bool {
	for other := range t.sharing {
		if within(test, other) {
			return true
		}
	}
	return false
}

// quiet says that each test that shares does nothing: it, or a part of it, waits
// to be alone.
func (t *table) quiet() bool {
	for test := range t.sharing {
		idle := false
		for waiting := range t.waiting {
			idle = idle || within(waiting, test)
		}
		if !idle {
			return false
		}
	}
	return true
}

// within says that a test is another one, or a subtest of it.
func within(test, other string) bool {
	return test == other || strings.HasPrefix(test, other+"/")
}

func (t *table) wait(how int) error {
	if err := flock(t.gate, unix.LOCK_EX); err != nil {
		return err
	}
	return errors.Join(flock(t.lock, how), flock(t.gate, unix.LOCK_UN))
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

package runner

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare.dev/tare/internal/bootjar"
	"tare.dev/tare/internal/linux"
)

// Host is the machine that a Runner starts processes on. File names are those
// of that machine. Every method returns the context's error soon after the
// context has ended.
type Host interface {
	// Machine describes the machine.
	Machine(ctx context.Context) (Machine, error)
	// Available is how much memory in bytes a process that is started now could have
	// without swapping: what the machine has left (MemAvailable of proc_meminfo(5)), and
	// the groups above the process.
	Available(ctx context.Context) (int64, error)
	// Busy reads how much processor time was used so far.
	Busy(ctx context.Context) (Busy, error)
	// Pace is the processor time of a fixed piece of work, well below a millisecond: how
	// fast the machine is at the moment. What slows the work of an application without
	// taking its processor slows this as well: others on the same core, in the caches and on
	// the memory bus, and a machine below this one. It fails where the clock is too coarse.
	Pace(ctx context.Context) (time.Duration, error)
	// FreePorts are n different TCP ports of the loopback that nobody listened
	// on a moment ago.
	FreePorts(ctx context.Context, n int) ([]int, error)
	// Listening says who accepts connections at an address, as in
	// "process 12 (java)"; "" when nobody does.
	Listening(ctx context.Context, addr string) (who string, err error)
	// FindJava finds a java launcher, looked up in PATH, and its version.
	FindJava(ctx context.Context, launcher string) (Java, error)
	// File describes a file or folder; the error wraps fs.ErrNotExist where
	// there is none.
	File(ctx context.Context, name string) (File, error)
	// ClassPath looks into the jars and folders of a class path.
	ClassPath(ctx context.Context, q ClassPathQuery) (ClassPath, error)
	// Flush writes a file to its disk: dirty pages cannot be dropped from the
	// page cache, and the next process would not be charged for them.
	Flush(ctx context.Context, name string) error
	// Remove removes a file; that there is none is no error.
	Remove(ctx context.Context, name string) error
	// MakeArchives makes a new folder for what a fit makes below base, a folder that is
	// made as well where it is missing, or where base is empty one of the host's choice.
	// It removes the temporary ones there that nobody uses any more. The error wraps
	// ErrNoArchives where no folder would do.
	MakeArchives(ctx context.Context, base string) (Archives, error)
	// OpenArchives takes the folder of an earlier fit that goes on, which is made again
	// where it is gone. It fails while somebody else has it.
	OpenArchives(ctx context.Context, dir string) (Archives, error)
	// RemoveMade removes a class archive or a folder of extracted jars that was being
	// made directly in the folder of an Archives, and returns the paths that it removed.
	// Of other paths it removes nothing.
	RemoveMade(ctx context.Context, path string) (removed []string, err error)
	// OpenTraining readies the place of a file that a training run is to write, and
	// returns the path by which the process knows it. An earlier file is removed.
	OpenTraining(ctx context.Context, file string) (writes string, err error)
	// TakeTrained takes the file that a training run wrote out of the reach of what
	// runs there; that there is none is no error. The error wraps ErrNotWritten where
	// something else is in its place, which is removed.
	TakeTrained(ctx context.Context, file string) error
	// Extract takes a jar that holds jars apart, into a folder that holds nothing
	// yet, and returns the path of the jar to start; see bootjar.Extract. The error
	// wraps bootjar.ErrLayout where the jar is not of that layout.
	Extract(ctx context.Context, jar, dir string) (string, error)
}

// Machine describes a machine.
type Machine struct {
	// Kernel is the release of the kernel, as in uname -r.
	Kernel      string `json:"kernel"`
	Arch        string `json:"arch"`
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memoryBytes"`
	// PagesOutIdle says that the kernel pages out what was not used for a
	// while, however much memory is free (DAMON).
	PagesOutIdle bool `json:"pagesOutIdle,omitempty"`
}

// File describes a file, or a folder.
type File struct {
	// Bytes is its size, of a folder the sum of its files' sizes.
	Bytes int64
	// Digest is the SHA-256 of the content in hexadecimal digits; of a folder
	// that of the names, sizes and times of its files.
	Digest string
	// ReadAheadBytes is how much the disk that holds the file reads at a time
	// (Documentation/ABI/testing/sysfs-class-bdi); 0 when the kernel does not
	// tell.
	ReadAheadBytes int64
	// NestedJars says that it is a jar which holds jars; see bootjar.Nested.
	NestedJars bool
}

// Busy is the processor time of a machine that was used until a moment.
type Busy struct {
	// At is the machine's monotonic clock.
	At time.Duration
	// All is what all processes used, Own what the runner and the processes
	// that it waited for used.
	All, Own time.Duration
	// CPUs is how many processors there are.
	CPUs int
}

// OthersSince is the share of the machine's processor time that went to others
// after an earlier reading: neither to the runner itself nor to the group,
// which used so much meanwhile.
func (b Busy) OthersSince(a Busy, group time.Duration) float64 {
	wall := (b.At - a.At).Seconds() * float64(b.CPUs)
	if wall <= 0 {
		return 0
	}
	others := (b.All - a.All) - (b.Own - a.Own) - group
	return min(1, max(0, others.Seconds()/wall))
}

// thisHost is the machine that this process runs on.
type thisHost struct{}

// ThisHost is the machine that this process runs on.
func ThisHost() Host { return thisHost{} }

// ThisMachine describes the machine that this process runs on, as far as it can
// be asked.
func ThisMachine() Machine {
	m, _ := ThisHost().Machine(context.Background())
	return m
}

// Machine asks uname(2) and sysinfo(2).
func (thisHost) Machine(ctx context.Context) (Machine, error) {
	m := Machine{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), PagesOutIdle: linux.PagesOutIdle("/sys")}
	var u unix.Utsname
	var si unix.Sysinfo_t
	if err := errors.Join(ctx.Err(), unix.Uname(&u), unix.Sysinfo(&si)); err != nil {
		return m, err
	}
	m.Kernel = unix.ByteSliceToString(u.Release[:])
	m.MemoryBytes = int64(si.Totalram) * int64(si.Unit)
	return m, nil
}

// Available is bounded by the group that this process is in: groups of others are made
// below there.
func (thisHost) Available(ctx context.Context) (int64, error) {
	available, err := wholeMachine{}.Available(ctx)
	if err != nil {
		return 0, err
	}
	if m, err := linux.NewCgroupFS(linux.NewFS("/proc"), "/").MemoryOf(os.Getpid()); err == nil && m.LimitBytes > 0 {
		available = min(available, max(0, m.LimitBytes-m.UsageBytes+m.Stat["inactive_file"]))
	}
	return available, nil
}

// wholeMachine is this machine, where processes are started in groups that are not below
// that of this process.
type wholeMachine struct{ thisHost }

// Available reads /proc/meminfo.
func (wholeMachine) Available(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m, err := linux.NewFS("/proc").MemInfo()
	if err != nil {
		return 0, fmt.Errorf("memory of this machine: %w", err)
	}
	return m.Available, nil
}

// Busy reads /proc/stat (proc_stat(5)). Interrupts are left out: those of the
// load's own packets cannot be told from others.
func (thisHost) Busy(ctx context.Context) (Busy, error) {
	if err := ctx.Err(); err != nil {
		return Busy{}, err
	}
	const name = "/proc/stat"
	text, err := os.ReadFile(name)
	if err != nil {
		return Busy{}, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	// cpu user nice system idle iowait irq softirq steal guest guest_nice
	w := strings.Fields(first)
	if len(w) < 9 || w[0] != "cpu" {
		return Busy{}, fmt.Errorf("%s: no line of all processors: %.100q", name, first)
	}
	b := Busy{CPUs: runtime.NumCPU(), Own: rusage(syscall.RUSAGE_SELF) + rusage(syscall.RUSAGE_CHILDREN)}
	for _, i := range []int{1, 2, 3, 8} {
		n, err := strconv.ParseInt(w[i], 10, 64)
		if err != nil || n < 0 {
			return Busy{}, fmt.Errorf("%s: %.100q", name, first)
		}
		b.All += time.Duration(n) * time.Second / linux.UserHZ
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return Busy{}, fmt.Errorf("monotonic clock: %w", err)
	}
	b.At = time.Duration(now.Nano())
	return b, nil
}

func rusage(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// FindJava is FindJava.
func (thisHost) FindJava(ctx context.Context, launcher string) (Java, error) {
	return FindJava(ctx, launcher)
}

// File reads the whole file.
func (thisHost) File(ctx context.Context, name string) (File, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return folder(ctx, name)
	}
	f, err := openRegular(name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, ctxReader{ctx, f})
	if err != nil {
		return File{}, err
	}
	return File{Bytes: n, Digest: hex.EncodeToString(sum.Sum(nil)), ReadAheadBytes: ReadAhead(name), NestedJars: bootjar.Nested(name)}, nil
}

// folder describes a folder by what lies below it.
func folder(ctx context.Context, name string) (File, error) {
	var d File
	sum := sha256.New()
	err := filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		if err = cmp.Or(err, ctx.Err()); err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			d.Bytes += info.Size()
			fmt.Fprintf(sum, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	d.ReadAheadBytes = ReadAhead(name)
	d.Digest = hex.EncodeToString(sum.Sum(nil))
	return d, err
}

// openRegular opens a regular file; another kind might never end, or keep the
// opener waiting.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return f, nil
}

// ctxReader reads until its context ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r ctxReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Extract is bootjar.Extract.
func (thisHost) Extract(ctx context.Context, jar, dir string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return bootjar.Extract(jar, dir)
}

// ReadAhead is File.ReadAheadBytes of a file or folder of this machine.
func ReadAhead(name string) int64 {
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil {
		return 0
	}
	dev := uint64(st.Dev)
	b, err := os.ReadFile(fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(dev), unix.Minor(dev)))
	if err != nil {
		return 0
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 32)
	if err != nil || kib < 0 {
		return 0
	}
	return kib << 10
}

// Flush is fsync(2).
func (thisHost) Flush(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := openRegular(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Remove removes a file, and no folder.
func (thisHost) Remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := syscall.Unlink(filepath.Clean(name)); err != nil && !errors.Is(err, syscall.ENOENT) {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

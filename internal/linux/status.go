package linux

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// Status is what tare needs of /proc/PID/status (kernel:
// Documentation/filesystems/proc.rst, table 1-2).
type Status struct {
	Name    string
	State   byte  // R, S, D, T (stopped), t (traced), Z (zombie), X (dead)
	NSpid   []int // the process's id in each PID namespace, ours first
	UID     int   // effective
	GID     int   // effective
	Threads int
	SigCgt  uint64 // mask of the signals that the process handles
	CapEff  uint64 // mask of the effective capabilities (capabilities(7))
	VmHWM   int64  // bytes
	VmRSS   int64  // bytes; lags by counters of each thread
	VmSwap  int64  // bytes, as VmRSS
}

// Catches says that the process handles the signal.
func (s *Status) Catches(sig syscall.Signal) bool {
	return sig > 0 && s.SigCgt&(1<<(uint(sig)-1)) != 0
}

// Capability is a number of capabilities(7) (include/uapi/linux/capability.h).
type Capability uint

// CapSysPtrace lets a process look into others.
const CapSysPtrace Capability = 19

// Has says that the process has a capability in effect.
func (s *Status) Has(c Capability) bool { return s.CapEff&(1<<c) != 0 }

// Status reads the status of process pid.
func (fs FS) Status(pid int) (Status, error) { return readFile(fs.Path(pid, "status"), ParseStatus) }

// ParseStatus parses /proc/PID/status.
func ParseStatus(r io.Reader) (Status, error) {
	var s Status
	sc := bufio.NewScanner(r)
	for line := 1; sc.Scan(); line++ {
		name, value, ok := strings.Cut(sc.Text(), ":")
		if !ok {
			continue
		}
		if err := s.set(name, strings.TrimSpace(value)); err != nil {
			return s, fmt.Errorf("line %d: %w: %q", line, err, sc.Text())
		}
	}
	if err := sc.Err(); err != nil {
		return s, err
	}
	if s.State == 0 {
		return s, fmt.Errorf("no State line")
	}
	return s, nil
}

func (s *Status) set(name, value string) (err error) {
	switch name {
	case "Name":
		s.Name = PrintableName(value)
	case "State":
		if value == "" {
			return fmt.Errorf("empty state")
		}
		s.State = value[0]
	case "NSpid":
		s.NSpid, err = parseInts(value)
	case "Uid":
		s.UID, err = effectiveID(value)
	case "Gid":
		s.GID, err = effectiveID(value)
	case "Threads":
		s.Threads, err = strconv.Atoi(value)
	case "SigCgt":
		s.SigCgt, err = strconv.ParseUint(value, 16, 64)
	case "CapEff":
		s.CapEff, err = strconv.ParseUint(value, 16, 64)
	case "VmHWM":
		s.VmHWM, err = parseKB([]byte(value))
	case "VmRSS":
		s.VmRSS, err = parseKB([]byte(value))
	case "VmSwap":
		s.VmSwap, err = parseKB([]byte(value))
	}
	return err
}

// effectiveID is the second of "real effective saved filesystem".
func effectiveID(value string) (int, error) {
	ids, err := parseInts(value)
	if err != nil || len(ids) != 4 {
		return 0, fmt.Errorf("want four ids")
	}
	return ids[1], nil
}

func parseInts(value string) ([]int, error) {
	var out []int
	for f := range strings.FieldsSeq(value) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// Birth names a process for good: a PID can be given to another process.
type Birth struct {
	StartTicks uint64 // clock ticks since boot
	Ended      bool   // a zombie, not yet waited for
}

// Birth reads when process pid started (proc_pid_stat(5), fields 3 and 22).
func (fs FS) Birth(pid int) (Birth, error) { return readFile(fs.Path(pid, "stat"), parseBirth) }

func parseBirth(r io.Reader) (Birth, error) {
	text, err := io.ReadAll(io.LimitReader(r, 64<<10))
	if err != nil {
		return Birth{}, err
	}
	// The name may hold blanks and parentheses: fields count from the last
	// closing one.
	i := strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[i+1:]))
	if i < 0 || len(fields) < 20 {
		return Birth{}, fmt.Errorf("too few fields: %.80q", text)
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return Birth{}, fmt.Errorf("bad start time %q", fields[19])
	}
	return Birth{ticks, fields[0] == "Z" || fields[0] == "X"}, nil
}

// Pages is the size of a process's address space in pages, resident or not
// (proc_pid_statm(5), field 1). It is much cheaper to read than the mappings.
func (fs FS) Pages(pid int) (int64, error) { return readFile(fs.Path(pid, "statm"), parsePages) }

func parsePages(r io.Reader) (int64, error) {
	text, err := io.ReadAll(io.LimitReader(r, 4<<10))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("bad number of pages %.80q", first)
	}
	return n, nil
}

// Cmdline reads the command line of process pid, at most 1 MiB of it.
func (fs FS) Cmdline(pid int) ([]string, error) {
	return open(fs, pid, "cmdline", func(r io.Reader) ([]string, error) {
		text, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if err != nil || len(text) == 0 {
			return nil, err
		}
		return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
	})
}

// Printable makes a text that a process wrote or chose safe to show: control
// characters, which a terminal would obey, are replaced.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}

// PrintableName is Printable, bounded to the length of a name.
func PrintableName(text string) string {
	const most = 200
	name := []rune(Printable(text[:min(len(text), 4*most)]))
	if len(name) > most {
		name = append(name[:most], '…')
	}
	return string(name)
}

// BootID is the kernel's random id of this boot (random(4)).
func (fs FS) BootID() (string, error) {
	text, err := os.ReadFile(filepath.Join(fs.root, "sys", "kernel", "random", "boot_id"))
	return strings.TrimSpace(string(text)), err
}

// Package kernellog reads what the kernel, and systemd-oomd, said of processes that
// they killed: from /dev/kmsg, the journal, dmesg or a file of any of them. It knows
// the texts of Linux 3.10 to 6.18; testdata has real ones, with their origin.
package kernellog

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/lazy"
)

// Line is one line of a log.
type Line struct {
	Stamp
	// Program is who said it, such as kernel or systemd-oomd; "" where the log does
	// not tell.
	Program string
	Text    string
}

// Stamp is when a line was written. What a log does not tell is zero.
type Stamp struct {
	// Uptime is the kernel's monotonic time since boot (CLOCK_MONOTONIC as printk
	// has it), which stands still while the machine sleeps; 0 is unknown.
	Uptime time.Duration `json:"uptime,omitempty"`
	// At is the wall time. Logs without a year or a zone give none.
	At time.Time `json:"at,omitzero"`
	// Boot is the boot's id, with hyphens as in /proc/sys/kernel/random/boot_id.
	Boot string `json:"boot,omitempty"`
}

var (
	// Documentation/ABI/testing/dev-kmsg: "level,sequence,microseconds,flags…;text".
	kmsgLine = lazy.Regexp(`^\d{1,4},\d{1,20},(\d{1,17}),[^;]{0,64};(.*)$`)
	// dmesg(1): "[ 1357.449915] text", with --decode "kern  :info  : " before it.
	bootStamp = lazy.Regexp(`^(?:[a-z]+ *:[a-z]+ *: )?\[ *(\d{1,10})\.(\d{1,6})\](?:\[ *[TC]\d{1,10}\])? ?`)
	// dmesg --ctime: "[Thu Dec  7 00:05:14 2017] text", in the zone of the machine.
	ctimeStamp = lazy.Regexp(`^(?:[a-z]+ *:[a-z]+ *: )?\[[^\[\]]{1,12} +\S{1,12} +\d{1,2} \d\d:\d\d:\d\d \d{4}\] ?`)
	// dmesg --time-format=iso: "2024-05-09T14:52:38,123456+00:00 text".
	isoStamp = lazy.Regexp(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d) `)
	// syslog(3), journalctl's short forms: "Dec 11 10:49:37 host kernel: text".
	syslogStamp = lazy.Regexp(`^\S{1,12} +\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})? `)
	// What follows the time in those: "host program[pid]: ", or "program[pid]: ".
	sender = lazy.Regexp(`^(?:\S{1,255} )?([A-Za-z0-9_./-]{1,64})(?:\[\d{1,10}\])?: `)
)

var oomdSender = lazy.Regexp(`^(?:\S{1,255} )?systemd-oomd\[\d{1,10}\]: `)

// parseLine takes what a line has before its text off. A line of an unknown form is
// all text.
func parseLine(line string) Line {
	digit := line != "" && line[0] >= '0' && line[0] <= '9'
	if m := matchIf(digit, kmsgLine, line); m != nil {
		us, _ := strconv.ParseInt(m[1], 10, 64) // 17 digits fit
		return Line{Stamp{Uptime: time.Duration(min(us, maxMicroseconds)) * time.Microsecond}, "kernel", m[2]}
	}
	var l Line
	rest := line
	switch m := matchIf(digit, isoStamp, rest); {
	case m != nil:
		l.At = parseISO(m)
		rest = rest[len(m[0]):]
		l.Program, rest = takeSender(rest)
	case !digit && line[:min(1, len(line))] != "[" && syslogStamp().MatchString(rest):
		rest = rest[len(syslogStamp().FindString(rest)):]
		l.Program, rest = takeSender(rest)
	case strings.HasPrefix(rest, "kernel: "):
		l.Program, rest = takeSender(rest)
	}
	if m := bootStamp().FindStringSubmatch(rest); m != nil {
		l.Uptime = uptime(m[1], m[2])
		rest = rest[len(m[0]):]
	} else if m := ctimeStamp().FindString(rest); m != "" {
		rest = rest[len(m):]
	}
	if m := matchIf(strings.Contains(rest, "systemd-oomd["), oomdSender, rest); m != nil { // journalctl -o short-monotonic without a host
		l.Program, rest = "systemd-oomd", rest[len(m[0]):]
	}
	l.Text = rest
	return l
}

// matchIf matches where that can be: an expression takes longer than a look.
func matchIf(can bool, e func() *regexp.Regexp, text string) []string {
	if !can {
		return nil
	}
	return e().FindStringSubmatch(text)
}

func takeSender(rest string) (program, text string) {
	m := sender().FindStringSubmatch(rest)
	if m == nil {
		return "", rest
	}
	return m[1], rest[len(m[0]):]
}

// maxMicroseconds is what a time.Duration holds.
const maxMicroseconds = int64(1) << 53

func uptime(seconds, fraction string) time.Duration {
	s, _ := strconv.ParseInt(seconds, 10, 64) // ten digits fit
	us, _ := strconv.ParseInt((fraction + "000000")[:6], 10, 64)
	return time.Duration(min(s, maxMicroseconds/1e6))*time.Second + time.Duration(us)*time.Microsecond
}

func parseISO(m []string) time.Time {
	zone := m[3]
	if len(zone) == 5 { // +0000
		zone = zone[:3] + ":" + zone[3:]
	}
	text := m[1]
	if m[2] != "" {
		text += "." + m[2]
	}
	t, err := time.Parse(time.RFC3339Nano, text+zone)
	if err != nil {
		return time.Time{} // such as the 31st of June
	}
	return t.UTC()
}

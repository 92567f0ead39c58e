package jdks

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"tare.dev/tare/internal/lazy"
)

// printedFlag is one line of the flag list, such as
//
//	  intx ThreadStackSize                           = 1024                                {pd product}
//	size_t MaxHeapSize                              := 6320816128                          {product} {ergonomic}
//
// A text of several lines goes on with printedMore, and only its last line has
// the flag's kind (and since 9, what set it) behind it.
var (
	printedFlag = lazy.Regexp(
		`^\s*(bool|int|uint|intx|uintx|uint64_t|size_t|double|ccstr|ccstrlist)\s+(\w+)\s+:?=(?:\s(.*))?$`)
	printedMore = lazy.Regexp(`^\s*(\w+)\s+\+=(?:\s(.*))?$`)
	printedKind = lazy.Regexp(
		`(?:^|\s)\{[\w ]*(?:product|manageable|diagnostic|experimental|develop|notproduct)[\w ]*\}(?: \{[\w ]+\})?\s*$`)
)

// maxFlagLine bounds a line of the flag list in bytes. Texts are as long as the
// command line that set them.
const maxFlagLine = 1 << 20

// maxFlags bounds the flags of one JVM, which have a thousand.
const maxFlags = 1 << 13

// ParsePrintFlagsFinal reads what java -XX:+PrintFlagsFinal and jcmd VM.flags -all
// print (JDK: JVMFlag::print_on in src/hotspot/share/runtime/flags/jvmFlag.cpp;
// JDK 8: Flag::print_on in globals.cpp). It returns the value of every flag by
// name: true or false, a decimal number, or a text without the space around it. It
// ignores lines of other forms, such as the JVM's warnings. It fails when a value
// is not of its flag's type, when a flag is printed twice, and when there is none.
func ParsePrintFlagsFinal(r io.Reader) (map[string]string, error) {
	flags := map[string]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxFlagLine)
	last := "" // the text that += goes on with
	n := 0
	for lines.Scan() {
		n++
		if err := parseFlagLine(flags, &last, lines.Text()); err != nil {
			return nil, fmt.Errorf("flags, line %d: %w", n, err)
		}
		if len(flags) > maxFlags {
			return nil, fmt.Errorf("flags, line %d: more than %d flags", n, maxFlags)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("flags, line %d: %w", n+1, err)
	}
	if len(flags) == 0 {
		return nil, fmt.Errorf("flags: none in %d lines; is this a HotSpot JVM?", n)
	}
	return flags, nil
}

func parseFlagLine(flags map[string]string, last *string, line string) error {
	if m := printedMore().FindStringSubmatch(line); m != nil && m[1] == *last {
		flags[m[1]] += "\n" + flagText(m[2])
		return nil
	}
	m := printedFlag().FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	kind, name, value := m[1], m[2], flagText(m[3])
	if !flagTypeIs(kind, value) {
		return fmt.Errorf("%s is no %s: %.80q", name, kind, value)
	}
	if _, twice := flags[name]; twice {
		return fmt.Errorf("%s a second time", name)
	}
	flags[name], *last = value, name
	return nil
}

func flagText(s string) string {
	return strings.TrimSpace(s[:len(s)-len(printedKind().FindString(s))])
}

func flagTypeIs(kind, value string) bool {
	var err error
	switch kind {
	case "bool":
		return value == "true" || value == "false"
	case "int", "intx":
		_, err = strconv.ParseInt(value, 10, 64)
	case "uint", "uintx", "uint64_t", "size_t":
		_, err = strconv.ParseUint(value, 10, 64)
	case "double":
		_, err = strconv.ParseFloat(value, 64)
	}
	return err == nil
}

package hotspot

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ParseNMTSummary reads the committed bytes by category from the output of
// VM.native_memory summary in KB, its default scale; the sum of all is under
// "Total" (JDK: src/hotspot/share/nmt/memReporter.cpp; before JDK 21 in
// services). Tracking that is off is an error.
func ParseNMTSummary(r io.Reader) (map[string]int64, error) {
	committed := map[string]int64{}
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		name, value, ok := nmtCategory(sc.Text())
		if !ok {
			continue
		}
		kb, err := strconv.ParseUint(value, 10, 53)
		if err != nil {
			return nil, fmt.Errorf("native memory tracking: %.80q: %w", sc.Text(), err)
		}
		committed[name] = int64(kb) << 10
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("native memory tracking: %w", err)
	}
	if _, ok := committed["Total"]; !ok {
		return nil, errors.New("native memory tracking tells no total: turn it on with -XX:NativeMemoryTracking=summary")
	}
	return committed, nil
}

// nmtCategory is the name and the committed KB of a line like
// "-   Java Heap (reserved=262144KB, committed=32768KB)" or "Total: reserved=…".
func nmtCategory(line string) (name, kb string, ok bool) {
	if !strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "Total:") {
		return "", "", false
	}
	name, rest, ok1 := strings.Cut(line, "reserved=")
	_, rest, ok2 := strings.Cut(rest, "committed=")
	kb, _, ok3 := strings.Cut(rest, "KB")
	name = strings.Trim(name, "-: (")
	return name, kb, ok1 && ok2 && ok3 && name != ""
}

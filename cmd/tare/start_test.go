package main

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What the variables of packages take before main, in bytes: each command pays for it.
// An expression that is compiled there takes 10 to 500 kB; see package lazy.
const (
	ownInit = 200_000
	allInit = 3_800_000 // over half of it is the schemas of the Compose library's schema library
)

// initialised is a line of GODEBUG=inittrace=1 (https://pkg.go.dev/runtime#hdr-Environment_Variables).
var initialised = regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`)

func TestStartIsCheap(t *testing.T) {
	cmd := tareCommand(t, "version")
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &trace)
	}
	var own, all int
	for _, m := range initialised.FindAllStringSubmatch(trace.String(), -1) {
		if m[1] == "main" || strings.Contains(m[1], "/testkit/") {
			continue // the tests' own
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		all += n
		if strings.HasPrefix(m[1], "tare.dev/") {
			own += n
		}
	}
	if own == 0 || own > ownInit {
		t.Errorf("tare's own packages take %d bytes before main, want up to %d", own, ownInit)
	}
	if all > allInit {
		t.Errorf("all packages take %d bytes before main, want up to %d", all, allInit)
	}
	if t.Failed() {
		t.Logf("see which:\n%s", &trace)
	}
}

package main

import (
	"fmt"
	"syscall"

	"tare.dev/tare/internal/autopsy"
	"tare.dev/tare/internal/footprint"
)

// cell is one end of a JVM that is made.
type cell struct {
	name    string
	options []string
	threads int
	// own and parent are the limits of its group and of the one above, in bytes.
	own, parent int64
	// take is what the JVM is told every tenth of a second; "" to do what end does.
	take string
	end  func(*jvm) error
	// lives says that the JVM outlives it.
	lives bool
	rate  int // MiB a second, 0 where nothing grows

	want autopsy.Verdict
	grew autopsy.Account // "" where nothing grows
}

const (
	limit = 256 << 20
	// small is the limit of what grows slowly, so that it is reached within half a
	// minute.
	small = 128 << 20
)

var rates = []int{5, 50, 200, 1000}

// limitAt is the limit of what grows at a rate.
func limitAt(rate int) int64 {
	if rate < 50 {
		return small
	}
	return limit
}

// kinds are what grows, what the holder is told, and the account that should be named.
var kinds = []struct {
	name string
	take func(kb int) string
	grew autopsy.Account
}{
	// Of the heap it takes at most 64 MiB at once.
	{"heap", func(kb int) string { return fmt.Sprintf("heap %d\nheap %d", kb/2, kb/2) }, autopsy.Account(footprint.JavaHeap)},
	{"direct", func(kb int) string { return fmt.Sprint("direct ", kb) }, autopsy.DirectBuffers},
	{"small direct buffers", func(kb int) string { return fmt.Sprintf("malloc %d 65536", max(1, kb/64)) }, autopsy.DirectBuffers},
	{"shared memory", func(kb int) string { return fmt.Sprintf("mapped %d %%s", kb) }, autopsy.Account(footprint.MappedFiles)},
}

// cells are all ends that are made, in the order in which they are.
func cells() []cell {
	var all []cell
	for _, rate := range rates {
		size := limitAt(rate)
		for _, k := range kinds {
			c := cell{name: fmt.Sprintf("%s, %d MiB/s", k.name, rate), options: []string{"-Xmx2g", "-XX:MaxDirectMemorySize=4g"}, threads: 1, take: k.take(rate * 1024 / 10), rate: rate, grew: k.grew}
			own, parent := c, c
			own.name, own.own, own.want = c.name+", own limit", size, autopsy.ContainerLimit
			parent.name, parent.parent, parent.want = c.name+", parent's limit", size, autopsy.ParentLimit
			all = append(all, own, parent)
		}
	}
	for _, rate := range rates {
		c := cell{name: fmt.Sprintf("stacks, %d MiB/s, own limit", rate), options: []string{"-Xmx32m", "-Xss16m"}, threads: 32, own: limitAt(rate),
			take: fmt.Sprint("stacks ", rate*1024/10/32), rate: rate, want: autopsy.ContainerLimit, grew: autopsy.Account(footprint.ThreadStacks)}
		all = append(all, c)
		if rate >= 50 && rate < 1000 {
			c.name, c.own, c.parent, c.want = fmt.Sprintf("stacks, %d MiB/s, parent's limit", rate), 0, limitAt(rate), autopsy.ParentLimit
			all = append(all, c)
		}
	}
	return append(all, others()...)
}

// others are the ends that are no growth to a limit, each of them twice.
func others() []cell {
	signal := func(s syscall.Signal) func(*jvm) error { return func(j *jvm) error { return j.Process.Signal(s) } }
	var all []cell
	for _, again := range []string{"", ", again"} {
		for _, c := range []cell{
			{name: "another process of the group", own: limit, lives: true, end: killOther, want: autopsy.ChildKilled},
			{name: "OutOfMemoryError, exit", options: []string{"-XX:+ExitOnOutOfMemoryError"}, take: "heap 4096", want: autopsy.OutOfMemoryError},
			{name: "OutOfMemoryError, crash", options: []string{"-XX:+CrashOnOutOfMemoryError"}, take: "heap 4096", want: autopsy.OutOfMemoryError},
			{name: "OutOfMemoryError, heap dump", options: []string{"-XX:+HeapDumpOnOutOfMemoryError"}, take: "heap 4096", want: autopsy.OutOfMemoryError},
			{name: "SIGKILL from outside, a limit far away", own: limit, end: signal(syscall.SIGKILL), want: autopsy.Killed},
			{name: "SIGKILL from outside, no limit", end: signal(syscall.SIGKILL), want: autopsy.Killed},
			{name: "SIGTERM", end: signal(syscall.SIGTERM), want: autopsy.Killed},
			{name: "SIGSEGV from outside", end: signal(syscall.SIGSEGV), want: autopsy.Killed},
			{name: "write to address 8", end: fault, want: autopsy.NativeCrash},
			{name: "exit code 0", own: limit, end: (*jvm).close, want: autopsy.Exited},
			{name: "exit by a mistake", end: func(j *jvm) error { return j.tell("nonsense") }, want: autopsy.Exited},
		} {
			c.name += again
			c.threads = 1
			c.options = append([]string{"-Xmx32m"}, c.options...)
			all = append(all, c)
		}
	}
	return all
}

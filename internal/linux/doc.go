// Package linux reads what the kernel says about a process and its control
// group: smaps, the page map, status, threads, memory, and cgroups v1 and v2.
//
// A parser takes an io.Reader; opening the file is done by a method of FS,
// whose root can be a recorded tree. Unknown lines are ignored, malformed
// known lines are errors, and a file that cannot be read is an error, never a
// zero.
package linux

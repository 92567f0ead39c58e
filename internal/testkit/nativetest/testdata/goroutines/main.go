// A library of Go, loaded into a JVM: what NativeMemory.java has done by it.
package main

import "C"

import (
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// Starts count goroutines, each of which holds and writes bytes of Go's heap
// and waits in the kernel, with its stack pointer in that heap, too.
//
//export Java_dev_tare_workloads_NativeMemory_goroutines
func Java_dev_tare_workloads_NativeMemory_goroutines(env, class unsafe.Pointer, count int32, bytes int64) int64 {
	debug.SetGCPercent(-1) // garbage would count as held
	written := make(chan error)
	for range count {
		go hold(bytes, written)
		if err := <-written; err != nil {
			return -1
		}
	}
	return int64(count) * bytes
}

func hold(bytes int64, written chan<- error) {
	runtime.LockOSThread()
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		written <- err
		return
	}
	held := make([]byte, bytes)
	for i := range held {
		held[i] = 1
	}
	written <- nil
	one := make([]byte, 1)
	_, _ = syscall.Read(pipe[0], one) // nobody writes
	runtime.KeepAlive(held)
}

func main() {}

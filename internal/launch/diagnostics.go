package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Options are the launcher's own flags.
type Options struct {
	Explain, DryRun, JSON, Force bool
	// NMT is the level of native memory tracking; GCLog a file; HeapDump a
	// folder; ErrorFile a folder or a file. Empty is not asked for.
	NMT, GCLog, HeapDump, ErrorFile string
}

// diagnostics adds what was asked for. What cannot work is left out, and said:
// the application starts all the same.
func (p *plan) diagnostics(f *facts, o Options) {
	if o.NMT != "" {
		p.ask("jcmd PID VM.native_memory and tare weigh --attach tell the JVM's own memory by category", "-XX:NativeMemoryTracking="+o.NMT)
	}
	if o.GCLog != "" {
		p.gcLog(f, o.GCLog)
	}
	if o.HeapDump != "" {
		if err := dumpFits(o.HeapDump, p.heap); err != nil {
			p.warn("no heap dump is asked for: %v", err)
		} else {
			p.ask("a heap dump at the first OutOfMemoryError", "-XX:+HeapDumpOnOutOfMemoryError", "-XX:HeapDumpPath="+o.HeapDump)
		}
	}
	if o.ErrorFile != "" {
		path := o.ErrorFile
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			path = filepath.Join(path, "hs_err_pid%p.log")
		}
		if err := writable(filepath.Dir(path)); err != nil {
			p.warn("no error file is set: %v", err)
		} else {
			p.ask("where the JVM writes why it crashed", "-XX:ErrorFile="+path)
		}
	}
}

func (p *plan) ask(why string, options ...string) {
	p.add(Advice{Set: options, From: FromRequest, Why: why})
}

// gcLog asks for a log of collections, in the words of the JDK (JEP 271).
func (p *plan) gcLog(f *facts, file string) {
	if err := writable(filepath.Dir(file)); file != "stdout" && file != "stderr" && err != nil {
		p.warn("no GC log is asked for: %v", err)
		return
	}
	const why = "a log of collections"
	if f.release.Feature >= 9 {
		target := "file=" + file
		if file == "stdout" || file == "stderr" {
			target = file
		}
		p.ask(why, "-Xlog:gc*:"+target+":time,uptime,level,tags")
		return
	}
	options := []string{"-XX:+PrintGCDetails", "-XX:+PrintGCDateStamps"}
	if file != "stdout" && file != "stderr" {
		options = append(options, "-Xloggc:"+file)
	}
	p.ask(why, options...)
}

// dumpFits says why a dump of a heap cannot be written into a folder.
func dumpFits(dir string, heap int64) error {
	st, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("%w: make that folder, or name another", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("%s is no folder: name one", dir)
	}
	if err := writable(dir); err != nil {
		return err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < heap {
		return fmt.Errorf("%s has %d MiB free, and the heap may have %d MiB: name a larger one", dir, free/mib, heap/mib)
	}
	return nil
}

func writable(dir string) error {
	const writeAndSearch = 2 | 1 // W_OK | X_OK of access(2)
	if err := syscall.Access(dir, writeAndSearch); err != nil {
		return fmt.Errorf("%s cannot be written to: %w", dir, err)
	}
	return nil
}

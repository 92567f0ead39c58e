package runner

import (
	"io"
	"os"
	"os/exec"
	"reflect"
	"sync"
	"time"
)

// output carries what a process prints to its writers.
type output struct {
	childEnds []*os.File
	ourEnds   []*os.File
	copying   sync.WaitGroup
	drained   chan struct{} // closed when every writer has everything
}

// connect sets the command's stdout and stderr. One writer for both gets one
// pipe, so that it is never called from two goroutines.
func connect(cmd *exec.Cmd, stdout, stderr io.Writer) (*output, error) {
	o := &output{drained: make(chan struct{})}
	out, err := o.end(stdout)
	if err != nil {
		return nil, err
	}
	// Not through nil interfaces of a type: exec would take them for writers.
	if out != nil {
		cmd.Stdout = out
	}
	if SameWriter(stdout, stderr) {
		cmd.Stderr = cmd.Stdout
		return o, nil
	}
	errs, err := o.end(stderr)
	if err != nil {
		o.close()
		return nil, err
	}
	if errs != nil {
		cmd.Stderr = errs
	}
	return o, nil
}

// end returns what the process writes to, nil for nowhere.
func (o *output) end(w io.Writer) (*os.File, error) {
	if w == nil {
		return nil, nil
	}
	if f, ok := w.(*os.File); ok {
		return f, nil
	}
	r, child, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o.childEnds = append(o.childEnds, child)
	o.ourEnds = append(o.ourEnds, r)
	o.copying.Go(func() {
		defer r.Close()
		io.Copy(w, r)
		// A writer that fails must not stop the process, nor end it by SIGPIPE.
		io.Copy(io.Discard, r)
	})
	return child, nil
}

// started lets go of the process's ends.
func (o *output) started() {
	closeAll(o.childEnds)
	go func() {
		o.copying.Wait()
		close(o.drained)
	}()
}

// wait waits until every writer has everything, and says whether it has.
func (o *output) wait(limit time.Duration) bool {
	select {
	case <-o.drained:
		return true
	case <-time.After(limit):
		return false
	}
}

// close ends the copying, also when somebody still holds the other end.
func (o *output) close() {
	closeAll(o.childEnds)
	for _, r := range o.ourEnds {
		r.SetReadDeadline(time.Unix(1, 0))
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// SameWriter says that two outputs are one writer.
func SameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
}

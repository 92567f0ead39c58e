// Package remote runs trials elsewhere: an agent (Server) serves a
// runner.Runner over HTTP, and a Client is a runner.Runner that asks it.
//
// Every request has the header Tare-Protocol with the version of the protocol,
// and Authorization with a bearer token. A call is a POST of a JSON object to
// /call/NAME; the answer is an object with the result, or with the error. A
// process is started by a POST to /start, the answer to which lasts as long as
// the client holds the process: lines of JSON that tell what the process
// printed and how it ended. When that connection ends before the process was
// closed, the agent kills the process and removes its group. A folder of archives is
// opened by a POST to /archives in the same way: the first line of the answer tells where
// it is, and the agent closes it when the connection ends. The agent of a volume
// (runner.Volume) takes a file by a POST to /put, and gives one by a POST to /take: what
// is sent is a line of JSON with length and SHA-256, and then the content.
//
// Every time and duration in an answer is by the agent's clock.
package remote

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"tare.dev/tare/internal/bootjar"
	"tare.dev/tare/internal/load"
	"tare.dev/tare/internal/runner"
)

// Version is the version of the protocol. Both sides must have the same one.
const Version = "6"

const (
	versionHeader = "Tare-Protocol"
	// maxRequest and maxAnswer bound what either side reads of a call: a
	// footprint of ten thousand mapped files has a few megabytes.
	maxRequest = 4 << 20
	maxAnswer  = 32 << 20
	// maxEvent bounds one line of a process's stream, maxOutput what of the
	// output is in one.
	maxEvent  = 256 << 10
	maxOutput = 32 << 10
	// maxCall is how long a call may take that is not told otherwise.
	maxCall = 2 * time.Minute
)

// startRequest is a runner.Spec as it is sent.
type startRequest struct {
	Args, Env   []string
	Dir         string
	Cold        runner.Cold
	Limits      runner.Limits
	NoHugePages bool
	// Stdout and Stderr say that somebody wants the output, OneOutput that it
	// is one writer for both.
	Stdout, Stderr, OneOutput bool
}

// event is a line of a process's stream; one of the fields is set.
type event struct {
	// Started is the name by which calls name the process.
	Started string `json:",omitempty"`
	// Failed says why nothing was started.
	Failed *failure `json:",omitempty"`
	// Out and Err are output.
	Out []byte       `json:",omitempty"`
	Err []byte       `json:",omitempty"`
	End *runner.Exit `json:",omitempty"`
}

// answer is what a call gives.
type answer[T any] struct {
	Result T
	Error  *failure `json:",omitempty"`
}

// heldArchives is a folder of archives that the agent holds, and the name by which calls
// name it.
type heldArchives struct{ Name, Dir, Inside string }

// Requests of calls.
type (
	none         struct{}
	fileRequest  struct{ Name string }
	portsRequest struct{ N int }
	addrRequest  struct{ Addr string }
	procRequest  struct{ Process string }
	// archivesRequest asks for the folder of an earlier fit, or where Dir is empty for a
	// new one below Base.
	archivesRequest struct{ Base, Dir string }
	heldRequest     struct{ Archives string }
	// extractRequest asks for a jar to be taken apart into a folder.
	extractRequest struct{ Jar, Folder string }
	limitRequest   struct {
		Process string
		Bytes   int64
	}
	stopRequest struct {
		Process string
		Grace   time.Duration
	}
)

// failure is an error as it is sent: its text, and which of the known errors
// it wraps.
type failure struct {
	Text  string
	Kinds []string `json:",omitempty"`
}

// kinds are the errors that callers tell apart.
var kinds = map[string]error{
	"unavailable": runner.ErrUnavailable, "exists": runner.ErrExists, "no counters": runner.ErrNoCounters, "closed": os.ErrClosed,
	"not exist": fs.ErrNotExist, "permission": fs.ErrPermission, "not found": exec.ErrNotFound, "busy": syscall.EBUSY, "layout": bootjar.ErrLayout, "not written": runner.ErrNotWritten, "no archives": runner.ErrNoArchives,
	"load target": load.ErrTarget, "canceled": context.Canceled, "deadline": context.DeadlineExceeded,
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for name, kind := range kinds {
		if errors.Is(err, kind) {
			f.Kinds = append(f.Kinds, name)
		}
	}
	return f
}

// remoteError is an error that the agent told.
type remoteError struct {
	text  string
	kinds []error
}

// Error is the agent's text, in one line.
func (e *remoteError) Error() string { return e.text }

// Unwrap are the known errors that it wraps.
func (e *remoteError) Unwrap() []error { return e.kinds }

package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
)

// otherKind counts what has no kind of its own, and what is beyond
// MaxErrorKinds.
const otherKind = "other"

// errorKind names a failure, for Result.Errors.
func errorKind(status int, err error) string {
	if err == nil {
		return "HTTP " + strconv.Itoa(status)
	}
	for _, k := range errorKinds {
		if k.matches(err) {
			return k.name
		}
	}
	return otherKind
}

var errorKinds = []struct {
	name    string
	matches func(error) bool
}{
	{"cancelled", isOne(context.Canceled)},
	{"timeout", isTimeout},
	{"connection refused", isOne(syscall.ECONNREFUSED)},
	{"connection reset", isOne(syscall.ECONNRESET, syscall.EPIPE)},
	{"truncated answer", isOne(io.ErrUnexpectedEOF)},
	{"connection closed", isOne(io.EOF)},
	{"malformed answer", isOne(errMalformed)},
	{"host unreachable", isOne(syscall.EHOSTUNREACH, syscall.ENETUNREACH)},
	{"no free local port", isOne(syscall.EADDRNOTAVAIL)},
	{"too many open files", isOne(syscall.EMFILE, syscall.ENFILE)},
	{"host not found", isType[*net.DNSError]},
	{"TLS certificate", isType[*tls.CertificateVerificationError]},
	{"not TLS", isType[tls.RecordHeaderError]},
}

func isOne(kinds ...error) func(error) bool {
	return func(err error) bool {
		for _, k := range kinds {
			if errors.Is(err, k) {
				return true
			}
		}
		return false
	}
}

func isType[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &e) && e.Timeout()
}

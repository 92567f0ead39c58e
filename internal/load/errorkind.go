package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// otherKind counts what has no kind of its own, and what is beyond
// MaxErrorKinds; timeoutKind is of requests that were not answered in time.
const (
	otherKind   = "other"
	timeoutKind = "timeout"
)

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
	{timeoutKind, isTimeout},
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

// kindOf is the kind of a failure that an external generator names.
func kindOf(text string) string {
	lower := strings.ToLower(text)
	for _, k := range []struct{ part, kind string }{
		{"timeout", timeoutKind}, {"timed out", timeoutKind}, {"deadline exceeded", timeoutKind}, {"connection refused", "connection refused"},
		{"connection reset", "connection reset"}, {"broken pipe", "connection reset"}, {"unexpected eof", "truncated answer"},
		{"connection closed", "connection closed"}, {"eof", "connection closed"}, {"no route to host", "host unreachable"},
		{"too many open files", "too many open files"}, {"cannot assign requested address", "no free local port"},
	} {
		if strings.Contains(lower, k.part) {
			return k.kind
		}
	}
	return otherKind
}

// oneLine is an error of one line.
func oneLine(err error) error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(first)
}

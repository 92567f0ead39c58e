package trial

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/load"
)

// Ready is how to tell that the application is ready.
type Ready struct {
	text   string
	target *load.Target
	addr   string // host:port
	log    *regexp.Regexp
}

const (
	readyPoll    = 50 * time.Millisecond
	readyTimeout = 5 * time.Second // of one question
	maxPattern   = 1000
)

const readyHelp = "write a URL, tcp:PORT, or log:REGEX"

// ParseReady reads a URL (ready when it answers below 400), "tcp:PORT" or
// "tcp:HOST:PORT" (when it accepts a connection; the host is 127.0.0.1 unless
// given), or "log:REGEX" (when a line of the output matches).
func ParseReady(s string) (Ready, error) {
	switch {
	case strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https://"):
		t, err := load.ParseTarget(s)
		if err != nil {
			return Ready{}, fmt.Errorf("readiness: %w", err)
		}
		return Ready{text: s, target: &t}, nil
	case strings.HasPrefix(s, "tcp:"):
		addr := s[len("tcp:"):]
		if !strings.Contains(addr, ":") {
			addr = "127.0.0.1:" + addr
		}
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return Ready{}, fmt.Errorf("readiness %q: %w: %s", s, err, readyHelp)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return Ready{}, fmt.Errorf("readiness %q: no port from 1 to 65535: %s", s, readyHelp)
		}
		return Ready{text: s, addr: addr}, nil
	case strings.HasPrefix(s, "log:"):
		pattern := s[len("log:"):]
		if pattern == "" || len(pattern) > maxPattern {
			return Ready{}, fmt.Errorf("readiness %.80q: the pattern must have 1 to %d bytes: %s", s, maxPattern, readyHelp)
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return Ready{}, fmt.Errorf("readiness %q: %w: %s", s, err, readyHelp)
		}
		return Ready{text: s, log: re}, nil
	}
	return Ready{}, fmt.Errorf("readiness %q is none of the three: %s", s, readyHelp)
}

// String is the condition as ParseReady reads it.
func (r Ready) String() string { return r.text }

// wait polls until the application is ready. It returns ctx's cause when that
// ends first.
func (r Ready) wait(ctx context.Context, log *capture) error {
	if r.log != nil {
		select {
		case <-log.matched:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if r.ask(ctx) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r Ready) ask(ctx context.Context) bool {
	if r.target != nil {
		status, err := load.Probe(ctx, *r.target, readyTimeout)
		return err == nil && status < http.StatusBadRequest
	}
	d := net.Dialer{Timeout: readyTimeout}
	conn, err := d.DialContext(ctx, "tcp", r.addr)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

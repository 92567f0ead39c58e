package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readBuffer is what an answer is read through; one per connection.
const readBuffer = 16 << 10

type connKey struct {
	address string
	tls     bool
}

// client sends the requests of one worker, one at a time, on a kept connection
// for each host. Only abort may be called from elsewhere.
type client struct {
	dialer net.Dialer
	mu     sync.Mutex // held to change conns, and by abort to read it
	conns  map[connKey]*conn
}

func newClient() *client {
	return &client{conns: make(map[connKey]*conn)}
}

// reply is the outcome of one request.
type reply struct {
	status  int
	retried bool
	err     error
}

// send sends r and reads its answer to the end, connecting where needed. When
// the server closed a kept connection without a byte of an answer, an
// idempotent request is sent once more on a new one: the server may have
// closed it for being idle while the request was on its way.
func (c *client) send(ctx context.Context, r *request, deadline time.Time) reply {
	kept := c.conns[r.key()]
	if kept != nil && !r.idempotent && kept.closedByPeer() {
		c.drop(r)
		kept = nil
	}
	status, err := c.attempt(ctx, r, deadline)
	if err != nil && kept != nil && r.idempotent && isType[noAnswerError](err) {
		status, err = c.attempt(ctx, r, deadline)
		return reply{status, true, err}
	}
	return reply{status, false, err}
}

func (c *client) attempt(ctx context.Context, r *request, deadline time.Time) (status int, err error) {
	k := c.conns[r.key()]
	if k == nil {
		if k, err = c.connect(ctx, r, deadline); err != nil {
			return 0, connectError{err}
		}
	}
	a, err := k.exchange(ctx, r, deadline)
	if err != nil || !a.keep || r.last {
		c.drop(r)
	}
	return a.status, err
}

func (c *client) connect(ctx context.Context, r *request, deadline time.Time) (*conn, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	raw, err := c.dialer.DialContext(ctx, "tcp", r.address)
	if err != nil {
		return nil, err
	}
	k := &conn{Conn: raw, raw: raw.(*net.TCPConn)}
	if r.tls != nil {
		t := tls.Client(raw, r.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, fmt.Errorf("TLS with %s: %w", r.address, err)
		}
		k.Conn = t
	}
	k.r = bufio.NewReaderSize(k.Conn, readBuffer)
	c.mu.Lock()
	c.conns[r.key()] = k
	c.mu.Unlock()
	return k, nil
}

func (c *client) drop(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.conns[r.key()]; k != nil {
		k.raw.Close()
		delete(c.conns, r.key())
	}
}

// abort makes the request under way fail now. The context of send must have
// ended before.
func (c *client) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.conns {
		_ = k.raw.SetDeadline(time.Unix(1, 0)) // fails when closed already
	}
}

func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, k := range c.conns {
		k.raw.Close()
		delete(c.conns, key)
	}
}

// conn is a connection: Conn speaks TLS over raw, or is raw.
type conn struct {
	net.Conn
	raw *net.TCPConn
	r   *bufio.Reader
}

// noAnswerError says that the connection ended before the first byte of an
// answer.
type noAnswerError struct{ err error }

func (e noAnswerError) Error() string { return "no answer: " + e.err.Error() }
func (e noAnswerError) Unwrap() error { return e.err }

// connectError says that no connection could be made.
type connectError struct{ err error }

func (e connectError) Error() string { return e.err.Error() }
func (e connectError) Unwrap() error { return e.err }

func (k *conn) exchange(ctx context.Context, r *request, deadline time.Time) (answer, error) {
	if err := k.raw.SetDeadline(deadline); err != nil {
		return answer{}, err
	}
	// After the deadline is set, not before: an abort that came first would
	// have its own deadline overwritten.
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	if _, err := k.Write(r.wire); err != nil {
		return answer{}, noAnswer(err)
	}
	if _, err := k.r.Peek(1); err != nil {
		return answer{}, noAnswer(err)
	}
	return readAnswer(k.r, r.head)
}

// noAnswer marks an err that tells of a connection closed by the server.
func noAnswer(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) { // TLS, ended without its closing alert
		err = io.EOF
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return noAnswerError{err}
	}
	return err
}

// closedByPeer looks, without waiting, whether the server closed the idle
// connection. A request that must not be sent twice is not sent on such a one.
func (k *conn) closedByPeer() bool {
	raw, err := k.raw.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	// Control and not Read, which would fail on the deadline of the request
	// before.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = err == nil && n == 0 || err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	return err != nil || closed
}

package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Probe sends target once, on a connection of its own, and returns the status
// of the answer once that was read to its end: to ask whether a service is
// ready, and whether a URL is there before load is put on it. Any status, a
// 404 for one, is an answer and no error. timeout bounds the whole.
func Probe(ctx context.Context, target Target, timeout time.Duration) (status int, err error) {
	r, err := newRequest(target, nil)
	if err != nil {
		return 0, err
	}
	c := newClient()
	defer c.close()
	defer context.AfterFunc(ctx, c.abort)()
	reply := c.send(ctx, r, time.Now().Add(timeout))
	switch {
	case reply.err == nil:
		return reply.status, nil
	case ctx.Err() != nil:
		return 0, fmt.Errorf("%s: %w", target, context.Cause(ctx))
	case isTimeout(reply.err):
		return 0, fmt.Errorf("%s: no answer within %v: %w", target, timeout, reply.err)
	case errors.Is(reply.err, errMalformed):
		return 0, fmt.Errorf("%s: %w: is this an HTTP port?", target, reply.err)
	}
	return 0, fmt.Errorf("%s: %w: is the service up, and listening on this address?", target, reply.err)
}

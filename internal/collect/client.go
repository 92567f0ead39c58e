package collect

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"tare.dev/tare/internal/authorities"
	"tare.dev/tare/internal/history"
)

const (
	// MaxBody is how many bytes a batch may have as JSON, MaxPacked as it is sent.
	MaxBody, MaxPacked = 8 << 20, 2 << 20
	// usualBody is above what most batches have: larger ones are sent in parts.
	usualBody = 1 << 20
	maxAnswer = 64 << 10
	// exchange bounds one request.
	exchange = 30 * time.Second
)

// Client is a hub as a sink, over HTTP. docs/serve.md has the protocol.
type Client struct {
	url, token string
	http       *http.Client
}

// BusyError says that the hub takes nothing at the moment.
type BusyError struct {
	// After is when to come again, 0 when the hub does not say.
	After time.Duration
	Why   string
}

// Error says so.
func (e *BusyError) Error() string { return e.Why }

// NewClient is a client of the hub at an address such as https://hub:9275: http is
// for the loopback alone. caFile names certificates (PEM) that the hub's is signed
// with, "" for those of the system.
func NewClient(address, token, caFile string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is no address of a hub: write it as https://HOST:PORT", address)
	}
	if u.Scheme == "http" && !Loopback(u.Hostname()) {
		return nil, fmt.Errorf("%s is not of this machine: use https, for the token is not sent in the clear", address)
	}
	if err := checkToken(token, "--write"); err != nil {
		return nil, err
	}
	authorities.Trust()
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, err
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", caFile)
		}
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: 2 * time.Minute,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: exchange, MaxResponseHeaderBytes: 16 << 10,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext}
	if !Loopback(u.Hostname()) {
		transport.Proxy = http.ProxyFromEnvironment
	}
	return &Client{url: strings.TrimSuffix(u.String(), "/"), token: token, http: &http.Client{Transport: transport, Timeout: exchange,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// checkToken refuses what is no token; flag makes one of its kind.
func checkToken(token, flag string) error {
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return fmt.Errorf("the token is empty, or has blanks: make one on the hub with: tare serve token add NAME %s", flag)
	}
	return nil
}

// Loopback says whether a host name or an address is of this machine.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Position implements Sink.
func (c *Client) Position(ctx context.Context, ledger string) (uint64, error) {
	var got history.Taken
	err := c.do(ctx, http.MethodGet, "/api/v1/position?ledger="+url.QueryEscape(ledger), nil, &got)
	return got.Position, err
}

// Take implements Sink.
func (c *Client) Take(ctx context.Context, b *history.Batch) (history.Taken, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return history.Taken{}, err
	}
	if n := len(b.Records); len(body) > usualBody && n > 1 {
		return c.takeParts(ctx, b, n/2)
	}
	var got history.Taken
	err = c.do(ctx, http.MethodPost, "/api/v1/records", body, &got)
	return got, err
}

// takeParts sends a batch in two parts. When the second one fails, the first is
// taken, and left out the next time.
func (c *Client) takeParts(ctx context.Context, b *history.Batch, n int) (history.Taken, error) {
	first, second := *b, *b
	first.Records, second.Records = b.Records[:n], b.Records[n:]
	second.After = b.Records[n-1].Seq
	got, err := c.Take(ctx, &first)
	if err != nil {
		return got, err
	}
	rest, err := c.Take(ctx, &second)
	if rest.Refused += got.Refused; got.Why != "" {
		rest.Why = got.Why
	}
	return rest, err
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any) error {
	var packed bytes.Buffer
	if body != nil {
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, &packed)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("hub %s: %w", c.url, withoutURL(err))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("hub %s: %w", c.url, err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, out); err != nil {
			return fmt.Errorf("hub %s: its answer is none of tare serve's: is it one?", c.url)
		}
		return nil
	}
	return c.refusal(resp, text)
}

// withoutURL is an error without the URL that net/http puts before it.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Problem is the body of an answer that is an error.
type Problem struct {
	Error string `json:"error"`
	// Position is set when records are missing: the agent goes on behind it.
	Position *uint64 `json:"position,omitempty"`
}

func (c *Client) refusal(resp *http.Response, text []byte) error {
	var p Problem
	if json.Unmarshal(text, &p) != nil || p.Error == "" {
		p.Error = resp.Status
	}
	if resp.StatusCode == http.StatusConflict && p.Position != nil {
		return &history.GapError{Position: *p.Position}
	}
	why := fmt.Sprintf("hub %s: %s", c.url, p.Error)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 is as good
		return &BusyError{After: time.Duration(min(max(seconds, 0), 3600)) * time.Second, Why: why}
	}
	return errors.New(why)
}

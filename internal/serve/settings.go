package serve

import (
	"bytes"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"tare.dev/tare/internal/collect"
)

// Settings is a configuration file of tare serve. settings.schema.json says the same
// to editors.
type Settings struct {
	// Listen is the address, such as 127.0.0.1:9275.
	Listen string `yaml:"listen"`
	// History is an SQLite file, or the URL of a PostgreSQL database.
	History string `yaml:"history"`
	// Store is the store of fits.
	Store string `yaml:"store"`
	// Hosts are names that a server on the loopback may be called.
	Hosts []string `yaml:"hosts"`
	// TLS is needed beyond the loopback.
	TLS TLS `yaml:"tls"`
	// MetricsJVMs bounds the JVMs in the metrics.
	MetricsJVMs int `yaml:"metricsJvms"`
	// Agent is how this machine is watched.
	Agent AgentSettings `yaml:"agent"`
}

// TLS is a certificate and its key, both PEM files.
type TLS struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// AgentSettings are the options of tare agent; what is empty is its default.
type AgentSettings struct {
	// Off says that this machine is not watched.
	Off        bool   `yaml:"off"`
	Ledger     string `yaml:"ledger"`
	LedgerSize string `yaml:"ledgerSize"`
	Interval   string `yaml:"interval"`
	WeighEvery string `yaml:"weighEvery"`
	Budget     string `yaml:"budget"`
	Memory     string `yaml:"memory"`
}

// DefaultListen is where a server listens.
const DefaultListen = "127.0.0.1:9275"

// SettingsSchema is the JSON schema of a configuration file.
//
//go:embed settings.schema.json
var SettingsSchema string

// maxSettings bounds a configuration file.
const maxSettings = 64 << 10

// ReadSettings reads a configuration file: YAML, in which every key must be known.
func ReadSettings(file string) (Settings, error) {
	var s Settings
	f, err := os.Open(file)
	if err != nil {
		return s, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return s, err
	}
	if len(text) > maxSettings {
		return s, fmt.Errorf("%s has more than %d bytes", file, maxSettings)
	}
	err = yaml.NewDecoder(bytes.NewReader(text), yaml.Strict(), yaml.DisallowUnknownField()).Decode(&s)
	if err != nil && !errors.Is(err, io.EOF) { // an empty file has only defaults
		return s, fmt.Errorf("%s: %s", file, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	return s, nil
}

// Check says what is wrong with settings: what a server would refuse at its start,
// as far as it can be told without starting one.
func (s *Settings) Check() error {
	host, port, err := net.SplitHostPort(s.Listen)
	switch {
	case err != nil || port == "":
		return fmt.Errorf("listen: %q is no address: write it as %s", s.Listen, DefaultListen)
	case (s.TLS.Certificate == "") != (s.TLS.Key == ""):
		return errors.New("tls: give both, a certificate and its key")
	case !collect.Loopback(host) && s.TLS.Certificate == "":
		return fmt.Errorf("listen: %s is beyond this machine: give a certificate (--tls-cert, --tls-key), or listen on %s behind what has one", s.Listen, DefaultListen)
	case s.MetricsJVMs < 0 || s.MetricsJVMs > 100_000:
		return errors.New("metricsJvms: give a number from 1 to 100000")
	}
	if s.TLS.Certificate != "" {
		if _, err := tls.LoadX509KeyPair(s.TLS.Certificate, s.TLS.Key); err != nil {
			return fmt.Errorf("tls: %w", err)
		}
	}
	return nil
}

// Local says that the server is for this machine alone.
func (s *Settings) Local() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	return err == nil && collect.Loopback(host)
}

// Config is how TLS is spoken; nil without a certificate. A certificate that was
// replaced is used from the next connection on.
func (t TLS) Config() *tls.Config {
	if t.Certificate == "" {
		return nil
	}
	l := &certificate{TLS: t}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: l.get}
}

type certificate struct {
	TLS
	mu   sync.Mutex
	read time.Time // when the file was changed that was read
	pair *tls.Certificate
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, err := os.Stat(c.Certificate)
	if err == nil && (c.pair == nil || !st.ModTime().Equal(c.read)) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.Certificate, c.Key); err == nil {
			c.pair, c.read = &pair, st.ModTime()
		}
	}
	if c.pair == nil {
		return nil, err
	}
	return c.pair, nil // while one is being replaced, the old one serves
}

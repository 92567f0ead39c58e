package serve_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare.dev/tare/internal/collect"
	"tare.dev/tare/internal/history"
	"tare.dev/tare/internal/serve"
	"tare.dev/tare/internal/testkit/historytest"
)

// certificate writes a new certificate for the loopback, and its key.
func certificate(t *testing.T, dir string, number int64) serve.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(number), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := serve.TLS{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for file, block := range map[string]*pem.Block{files.Key: {Type: "PRIVATE KEY", Bytes: secret}, files.Certificate: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Two of one moment would look like one that was not replaced.
	at := time.Now().Add(time.Duration(number) * time.Second)
	if err := os.Chtimes(files.Certificate, at, at); err != nil {
		t.Fatal(err)
	}
	return files
}

// Agents speak TLS to a hub whose certificate they were told of, and to no other; a
// certificate that was replaced is used at once.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	files := certificate(t, dir, 1)
	settings := serve.Settings{Listen: "0.0.0.0:9275", TLS: files}
	if err := settings.Check(); err != nil || settings.Local() {
		t.Errorf("%v", err)
	}
	d := historytest.Open(t, filepath.Join(t.TempDir(), "h.db"))
	token, err := d.AddToken(t.Context(), "web", history.Write, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(serve.Config{History: d, TLS: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l, files.Config()) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	url := "https://" + l.Addr().String()
	knows := func(ca string) error {
		c, err := collect.NewClient(url, token, ca)
		if err != nil {
			return err
		}
		_, err = c.Position(t.Context(), "x")
		return err
	}
	if err := knows(files.Certificate); err != nil {
		t.Error(err)
	}
	if err := knows(""); err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), token) {
		t.Errorf("an unknown certificate: %v", err)
	}
	old, err := os.ReadFile(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(dir, "old.pem")
	if err := os.WriteFile(kept, old, 0o600); err != nil {
		t.Fatal(err)
	}
	certificate(t, dir, 2)
	if err := knows(files.Certificate); err != nil {
		t.Errorf("the new certificate: %v", err)
	}
	if err := knows(kept); err == nil {
		t.Error("the old certificate is still used")
	}
	// Without TLS nothing is said.
	resp, err := http.Get("http://" + l.Addr().String() + "/api/v1/jvms")
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s", resp.Status)
		}
	}
	for _, c := range []struct{ url, token string }{{"http://192.0.2.1:1", "x"}, {"https://x", ""}, {"https://u:p@x", "t"}, {"https://x?y=1", "t"}, {"x", "t"}, {"https://x", "a\nb"}, {"file:///x", "t"}} {
		if _, err := collect.NewClient(c.url, c.token, ""); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

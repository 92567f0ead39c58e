package authorities

import (
	"crypto/x509"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Where a system has no certificates, an authority is known by Mozilla's, and nobody else.
func TestTrust(t *testing.T) {
	nothing := filepath.Join(t.TempDir(), "nothing")
	t.Setenv("SSL_CERT_FILE", nothing)
	t.Setenv("SSL_CERT_DIR", nothing)
	Trust()
	Trust() // x509 panics when it is told twice
	known := 0
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cert.Verify(x509.VerifyOptions{CurrentTime: cert.NotBefore.Add(1)}); err == nil {
			known++
		}
		cert.Raw = append([]byte{}, cert.Raw...)
		cert.Raw[len(cert.Raw)-1] ^= 1
		if _, err := cert.Verify(x509.VerifyOptions{CurrentTime: cert.NotBefore.Add(1)}); err == nil {
			t.Errorf("%s is trusted with another signature", cert.Subject)
		}
	}
	if known < 50 {
		t.Errorf("%d authorities are known", known)
	}
}

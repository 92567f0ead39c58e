// Package authorities has the certificates by which servers on the network are known
// where a system has none, as in tare's own image: Mozilla's.
package authorities

import (
	"crypto/x509"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Trust makes TLS of this process trust Mozilla's certificates where the system has none
// (x509.SetFallbackRoots). Who connects to a server calls it before. Reading them takes
// milliseconds, which is why not every command does.
var Trust = sync.OnceFunc(func() {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		switch {
		case err != nil: // the library's own are broken
			panic(err)
		case root.Constraint == nil:
			pool.AddCert(cert)
		default:
			pool.AddCertWithConstraint(cert, root.Constraint)
		}
	}
	x509.SetFallbackRoots(pool)
})

package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

type ca struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func writePEM(path, typ string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}), 0o600)
}

func writeKey(path string, k crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func newCA(dir string) (*ca, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "onenode-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, t, t, k.Public(), k)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if err := writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return &ca{c, k}, writeKey(filepath.Join(dir, "ca.key"), k)
}

func (a *ca) issue(dir, name, cn string, orgs []string, sans ...string) error {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	sn, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	t := &x509.Certificate{SerialNumber: sn, Subject: pkix.Name{CommonName: cn, Organization: orgs},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	for _, s := range sans {
		if ip := net.ParseIP(s); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, s)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, k.Public(), a.key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, name+".key"), k)
}

func makePKI(dir, server, node string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "admin.kubeconfig")); err == nil {
		return nil
	}
	a, err := newCA(dir)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name, cn string
		orgs     []string
		sans     []string
	}{
		{"apiserver", "kube-apiserver", nil, []string{"127.0.0.1", "10.96.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}},
		{"kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}, nil},
		{"kubelet-server", node, nil, []string{"127.0.0.1", "localhost", node}},
		{"front-proxy", "front-proxy-client", nil, nil},
		{"admin", "admin", []string{"system:masters"}, nil},
		{"kcm", "system:kube-controller-manager", nil, nil},
		{"scheduler", "system:kube-scheduler", nil, nil},
		{"kubelet", "system:node:" + node, []string{"system:nodes"}, nil},
	} {
		if err := a.issue(dir, c.name, c.cn, c.orgs, c.sans...); err != nil {
			return err
		}
	}
	rk, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, "sa.key"), rk); err != nil {
		return err
	}
	pub, _ := x509.MarshalPKIXPublicKey(rk.Public())
	if err := writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", pub); err != nil {
		return err
	}
	for _, u := range []string{"kcm", "scheduler", "kubelet", "admin"} {
		y := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: k, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: c, context: {cluster: k, user: u}}]
current-context: c
`, server, filepath.Join(dir, "ca.crt"), filepath.Join(dir, u+".crt"), filepath.Join(dir, u+".key"))
		if err := os.WriteFile(filepath.Join(dir, u+".kubeconfig"), []byte(y), 0o600); err != nil {
			return err
		}
	}
	return nil
}

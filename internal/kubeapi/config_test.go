package kubeapi

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

const twoClusters = `apiVersion: v1
kind: Config
current-context: dev
clusters:
- {name: dev, cluster: {server: "https://127.0.0.1:6443", certificate-authority: ca.crt}}
- {name: prod, cluster: {server: "https://prod:6443", insecure-skip-tls-verify: true}}
users:
- {name: me, user: {token: secret}}
- {name: cloud, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, args: [a], env: [{name: X, value: y}]}}}
contexts:
- {name: dev, context: {cluster: dev, user: me, namespace: shop}}
- {name: prod, context: {cluster: prod, user: cloud}}
`

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"config": twoClusters, "ca.crt": "the CA", "login": "#!/bin/sh\necho '{\"status\":{\"token\":\"'$X'\"}}'\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "config")
	c, err := Load(Options{Kubeconfig: file})
	if err != nil || c.Server != "https://127.0.0.1:6443" || c.Token != "secret" || c.Namespace != "shop" || string(c.CA) != "the CA" {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none")+":"+file)
	c, err = Load(Options{Context: "prod", Namespace: "n"})
	if err != nil || !c.Insecure || c.Namespace != "n" || c.Exec == nil {
		t.Fatalf("%+v, %v", c, err)
	}
	k, err := New(t.Context(), c)
	if err != nil || k.token != "y" {
		t.Errorf("credentials of a program: %v", err)
	}
	if _, err := Load(Options{Context: "test"}); err == nil {
		t.Error("an unknown context")
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	if _, err := Load(Options{}); !errors.Is(err, ErrNoConfig) {
		t.Errorf("no file: %v", err)
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(twoClusters), "dev")
	f.Add([]byte("a: &a [*a, *a]"), "")
	f.Fuzz(func(t *testing.T, text []byte, context string) {
		k, err := parse(text)
		if err != nil {
			return
		}
		if c, err := k.choose(context); err == nil && c.Server == "" {
			t.Error("a cluster without a server")
		}
	})
}

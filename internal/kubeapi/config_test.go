package kubeapi

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoClusters = `apiVersion: v1
kind: Config
current-context: dev
clusters:
- {name: dev, cluster: {server: "SERVER", certificate-authority: ca.crt}}
- {name: prod, cluster: {server: "SERVER/k8s/prod/", insecure-skip-tls-verify: true}}
users:
- {name: me, user: {token: secret}}
- {name: cloud, user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: ./login, args: [a], env: [{name: X, value: word}]}}}
contexts:
- {name: dev, context: {cluster: dev, user: me, namespace: shop}}
- {name: prod, context: {cluster: prod, user: cloud}}
`

// clusters answers who asked for what; what is below /moved it sends elsewhere.
func clusters(t *testing.T) (dir string) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/moved"):
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "reason": "NotFound", "message": "no\x1b[1m:\n- such"})
		default:
			_ = json.NewEncoder(w).Encode(map[string]string{"path": r.URL.EscapedPath(), "who": r.Header.Get("Authorization"), "agent": r.UserAgent()})
		}
	}))
	t.Cleanup(s.Close)
	dir = t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	credential := `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"'$X'"}}`
	for name, text := range map[string]string{"config": strings.ReplaceAll(twoClusters, "SERVER", s.URL), "ca.crt": string(ca), "login": "#!/bin/sh\necho '" + credential + "'\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpen(t *testing.T) {
	dir := clusters(t)
	file := filepath.Join(dir, "config")
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none")+":"+file)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		options              Options
		namespace, path, who string
	}{
		{Options{Kubeconfig: file}, "shop", "/api/v1/namespaces/shop/pods/a%2Fb", "Bearer secret"},
		{Options{Context: "prod", Namespace: "n"}, "n", "/k8s/prod/api/v1/namespaces/n/pods/a%2Fb", "Bearer word"},
		{Options{Context: "prod"}, "default", "/k8s/prod/api/v1/namespaces/default/pods/a%2Fb", "Bearer word"},
	} {
		k, err := Open(c.options)
		if err != nil {
			t.Errorf("%+v: %v", c.options, err)
			continue
		}
		var got struct{ Path, Who, Agent string }
		if err := k.Get(t.Context(), PodPath(k.Namespace, "a/b"), nil, &got); err != nil {
			t.Errorf("%+v: %v", c.options, err)
		}
		if k.Namespace != c.namespace || got.Path != c.path || got.Who != c.who || got.Agent != "tare" {
			t.Errorf("%+v: namespace %s, %+v", c.options, k.Namespace, got)
		}
	}
	if _, err := Open(Options{Context: "test"}); err == nil {
		t.Error("an unknown context")
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	if _, err := Open(Options{}); !errors.Is(err, ErrNoConfig) {
		t.Errorf("no file: %v", err)
	}
}

// What is no success is an error that can be told apart and printed; a redirect is one,
// and what is not there to be removed is none.
func TestStatusError(t *testing.T) {
	k, err := Open(Options{Kubeconfig: filepath.Join(clusters(t), "config")})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Get(t.Context(), "/moved", nil, nil); !IsCode(err, http.StatusFound) {
		t.Errorf("redirect: %v", err)
	}
	if err := k.Remove(t.Context(), PodPath("n", "gone")); err != nil {
		t.Error(err)
	}
	_, err = k.Do(t.Context(), Request{Method: http.MethodDelete, Path: "/x"})
	if !IsCode(err, http.StatusNotFound) || strings.ContainsRune(err.Error(), 0x1b) || !strings.HasPrefix(err.Error(), "DELETE /x: 404 no") || !strings.HasSuffix(err.Error(), ": - such") {
		t.Errorf("%q", err)
	}
}

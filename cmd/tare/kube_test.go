package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kubeSays runs tare with a kubeconfig for a server, or with none.
func kubeSays(t *testing.T, h http.Handler, args ...string) (code int, out, errs string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "config"))
	if h != nil {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		text := fmt.Sprintf("current-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", s.URL)
		if err := os.WriteFile(filepath.Join(dir, "config"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestKubeExitCodes(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "tare.json")
	if err := os.WriteFile(profile, []byte(`{"schema":"tare.profile/1","jdk":"25.0.5","limitBytes":134217728,"options":["-Xmx64m"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	// Nothing may be done, and nothing is there.
	forbidden := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "selfsubjectaccessreviews") {
			fmt.Fprint(w, `{"status":{"allowed":false}}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","reason":"Forbidden","message":"not you"}`)
	})
	for _, c := range []struct {
		server http.Handler
		args   []string
		code   int
		says   string
	}{
		{nil, []string{"kube", "show", "deployment/shop", "--profile", profile}, exitOK, "memory: 128Mi"},
		{nil, []string{"kube", "show", "deployment/shop", "--profile", profile, "--format", "toml"}, exitUsage, "vpa"},
		{nil, []string{"kube", "show", "deployment/shop"}, exitUsage, "tare fit --profile"},
		{nil, []string{"kube", "show", "pod/shop-0", "--profile", profile}, exitUsage, "is for a deployment"},
		{nil, []string{"kube", "show", "shop", "--profile", profile}, exitUsage, "KIND/NAME"},
		{nil, []string{"kube", "weigh", "shop-0"}, exitUsage, "KUBECONFIG"},
		{nil, []string{"kube", "weigh"}, exitUsage, "one pod"},
		{nil, []string{"kube", "top", "--sort", "age"}, exitUsage, "headroom"},
		{nil, []string{"kube", "diff", "deployment/shop", "--profile", profile, "--force"}, exitUsage, "--apply"},
		{http.NotFoundHandler(), []string{"autopsy", "pod/shop-0"}, exitTarget, "kubectl get pods"},
		{http.NotFoundHandler(), []string{"kube", "undo", "deployment/shop"}, exitTarget, "404"},
		{forbidden, []string{"kube", "top"}, exitPermission, "get pods/proxy -n tare"},
		{forbidden, []string{"kube", "diff", "deployment/shop", "--profile", profile, "-n", "prod"}, exitPermission, "patch deployments.apps shop -n prod"},
	} {
		code, out, errs := kubeSays(t, c.server, c.args...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%q: %d, %s%s", c.args, code, out, errs)
		}
	}
}

func TestPluginOfKubectl(t *testing.T) {
	if got := asPlugin("kubectl-tare", []string{"top"}); !slices.Equal(got, []string{"kube", "top"}) {
		t.Error(got)
	}
	if got := asPlugin("tare", []string{"top"}); !slices.Equal(got, []string{"top"}) {
		t.Error(got)
	}
}

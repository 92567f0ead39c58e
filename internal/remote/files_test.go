package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare.dev/tare/internal/runner"
	"tare.dev/tare/internal/testkit/runnertest"
)

const testToken = "a token for tests alone"

// inVolume is the runner of an agent with a volume.
type inVolume struct {
	runner.Runner
	runner.Volume
}

// startVolume is a client of an agent of this process with a volume.
func startVolume(t *testing.T) (c *Client, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := NewServer(inVolume{runnertest.OnlyHost(runner.ThisHost()), runner.Volume{Dir: dir}}, testToken)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err = NewClient(t.Context(), server.Listener.Addr().String(), testToken)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, dir
}

func fileOf(t *testing.T, content []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A file of more than a request of a call goes there and back, bit for bit, and so does
// an empty one.
func TestPutAndTake(t *testing.T) {
	c, dir := startVolume(t)
	for name, content := range map[string][]byte{"app.jsa": bytes.Repeat([]byte("0123456789abcde\n"), maxRequest/16+1), "empty": nil} {
		name = filepath.Join(dir, name)
		if err := c.Put(t.Context(), name, fileOf(t, content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes were put, want %d: %v", len(got), len(content), err)
		}
		var back bytes.Buffer
		if err := c.Take(t.Context(), name, &back); err != nil || !bytes.Equal(back.Bytes(), content) {
			t.Errorf("%d bytes were taken, want %d: %v", back.Len(), len(content), err)
		}
		// A large one that is refused is answered all the same.
		if err := c.Put(t.Context(), name, fileOf(t, content)); err == nil || !Answered(err) || !strings.Contains(err.Error(), "exists") {
			t.Errorf("over another: %v", err)
		}
	}
}

// What is no file is told apart, and nothing leaves the volume.
func TestTakeRefuses(t *testing.T) {
	c, dir := startVolume(t)
	secret := fileOf(t, []byte("secret"))
	if err := os.Symlink(secret.Name(), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	large, err := os.Create(filepath.Join(dir, "large"))
	if err == nil {
		err = errors.Join(large.Truncate(MaxFile+1), large.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	var into bytes.Buffer
	for name, want := range map[string]error{"none": fs.ErrNotExist, "link": runner.ErrNotWritten, "large": runner.ErrNotWritten} {
		if err := c.Take(t.Context(), filepath.Join(dir, name), &into); !errors.Is(err, want) || !Answered(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Take(t.Context(), secret.Name(), &into); err == nil || !Answered(err) {
		t.Errorf("outside: %v", err)
	}
	if err := c.Put(t.Context(), filepath.Join(t.TempDir(), "file"), secret); err == nil || !Answered(err) {
		t.Errorf("outside: %v", err)
	}
	if into.Len() > 0 {
		t.Errorf("took %q", &into)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Take(ended, filepath.Join(dir, "none"), &into); !errors.Is(err, context.Canceled) || Answered(err) {
		t.Errorf("after the end: %v", err)
	}
}

// Either side notices content that is not what its head says.
func TestReceived(t *testing.T) {
	sum := sha256.Sum256([]byte("archive"))
	good := hex.EncodeToString(sum[:])
	for name, c := range map[string]struct{ line, content, want string }{
		"all":      {`{"Bytes":7,"Digest":"` + good + `"}`, "archive and more", ""},
		"short":    {`{"Bytes":7,"Digest":"` + good + `"}`, "archiv", "unexpected EOF"},
		"changed":  {`{"Bytes":7,"Digest":"` + good + `"}`, "Archive", "changed on its way"},
		"negative": {`{"Bytes":-1}`, "", "want 1024 MiB at most"},
		"large":    {fmt.Sprintf(`{"Bytes":%d}`, MaxFile+1), "", "want 1024 MiB at most"},
		"no line":  {"{", "}", "the line before a file"},
		"endless":  {strings.Repeat(" ", maxHead), "", "the line before a file"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "app.jsa")
		line := strings.Replace(c.line, "{", `{"Name":"`+file+`",`, 1)
		if name == "no line" {
			line, c.content = c.line, c.content+"\n"
		}
		err := put(t.Context(), runner.Volume{Dir: dir}, strings.NewReader(line+"\n"+c.content))
		text, readErr := os.ReadFile(file)
		if c.want == "" && (err != nil || readErr != nil || string(text) != "archive") {
			t.Errorf("%s: %q, %v, %v", name, text, err, readErr)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(readErr, fs.ErrNotExist)) {
			t.Errorf("%s: %v, left %q", name, err, text)
		}
		answers(t, c.line, c.content, name == "no line", c.want)
	}
}

// answers checks a client of an agent that answers so.
func answers(t *testing.T, head, content string, whole bool, want string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/call/name":
			_, _ = io.WriteString(w, `{"Result":"liar"}`)
		case whole:
			_, _ = io.WriteString(w, head+"\n"+content)
		default:
			_, _ = io.WriteString(w, `{"Result":`+head+"}\n"+content)
		}
	}))
	defer server.Close()
	c, err := NewClient(t.Context(), server.Listener.Addr().String(), testToken)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Take(t.Context(), "/tare/app.jsa", io.Discard)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || Answered(err)) {
		t.Errorf("the client of %s: %v, want %q", head, err, want)
	}
}

// An agent without a volume has no such paths.
func TestNoVolume(t *testing.T) {
	s, err := NewServer(runnertest.OnlyHost(runner.ThisHost()), testToken)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	defer server.Close()
	c, err := NewClient(t.Context(), server.Listener.Addr().String(), testToken)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Take(t.Context(), "/etc/passwd", io.Discard); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
}

// Package browsertest shows pages in headless Chromium, for tests: it evaluates
// JavaScript in them, takes pictures, and collects what the console says.
//
// It speaks the Chrome DevTools Protocol
// (https://chromedevtools.github.io/devtools-protocol/) over a pair of pipes
// (--remote-debugging-pipe: JSON messages that end with a zero byte on file
// descriptors 3 and 4), so that no port is opened.
package browsertest

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare.dev/tare/internal/testkit/alone"
)

// patience is the deadline of everything, for a busy machine.
const patience = 60 * time.Second

// Browser is a running Chromium, which ends with the test.
type Browser struct {
	out io.Writer

	mu       sync.Mutex
	next     int
	answers  map[int]chan answer
	sessions map[string]*Page
	ended    chan struct{}
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Start starts Chromium, which must be installed (scripts/setup.sh).
func Start(t testing.TB) *Browser {
	t.Helper()
	alone.Uses(t, "a browser")
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: install it with scripts/setup.sh", err)
	}
	inRead, inWrite, err1 := os.Pipe()
	outRead, outWrite, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
		"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-extensions", "--disable-sync", "--mute-audio",
		"--hide-scrollbars", "--force-color-profile=srgb", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{inRead, outWrite}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inRead.Close()
	outWrite.Close()
	b := &Browser{out: inWrite, answers: map[int]chan answer{}, sessions: map[string]*Page{}, ended: make(chan struct{})}
	go b.read(outRead)
	t.Cleanup(func() { b.end(t, cmd, inWrite, outRead) })
	return b
}

// end asks the browser to close, and kills its processes when it does not.
func (b *Browser) end(t testing.TB, cmd *exec.Cmd, pipes ...io.Closer) {
	gone := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ends does not matter
		close(gone)
	}()
	_, _ = b.call("", "Browser.close", nil) // it may have ended
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
		t.Error("Chromium does not end")
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what is left of its group
	<-gone
	for _, p := range pipes {
		p.Close()
	}
}

func (b *Browser) read(r io.Reader) {
	defer close(b.ended)
	in := bufio.NewReader(r)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			answer
			ID        int
			Method    string
			SessionID string
			Params    json.RawMessage
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			return
		}
		b.mu.Lock()
		if c := b.answers[m.ID]; m.ID > 0 && c != nil {
			delete(b.answers, m.ID)
			c <- m.answer
		} else if p := b.sessions[m.SessionID]; p != nil {
			p.event(m.Method, m.Params)
		}
		b.mu.Unlock()
	}
}

// call sends a command, to the browser or to a page's session.
func (b *Browser) call(session, method string, params any) (json.RawMessage, error) {
	b.mu.Lock()
	b.next++
	id, c := b.next, make(chan answer, 1)
	b.answers[id] = c
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "sessionId": session, "params": params})
	if session == "" {
		text, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.out.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a := <-c:
		if a.Error != nil {
			return nil, fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		return a.Result, nil
	case <-b.ended:
		return nil, fmt.Errorf("%s: Chromium has ended", method)
	case <-timer.C:
		return nil, fmt.Errorf("%s: no answer in %s", method, patience)
	}
}

// View is how a page is looked at.
type View struct {
	// Width and Height are in CSS pixels.
	Width, Height int
	Dark          bool
	// Print shows it as it is printed.
	Print bool
}

// Page is an open page.
type Page struct {
	b       *Browser
	session string
	loaded  chan struct{}

	mu       sync.Mutex
	problems []string
}

// Open opens a page and waits until it has loaded.
func (b *Browser) Open(t testing.TB, url string, v View) *Page {
	t.Helper()
	var target struct{ TargetID string }
	b.must(t, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.must(t, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &Page{b: b, session: attached.SessionID, loaded: make(chan struct{}, 16)}
	b.mu.Lock()
	b.sessions[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.must(t, domain+".enable", nil, nil)
	}
	p.Look(t, v)
	var nav struct{ ErrorText string }
	p.must(t, "Page.navigate", map[string]any{"url": url}, &nav)
	if nav.ErrorText != "" {
		t.Fatalf("%s: %s", url, nav.ErrorText)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.loaded:
	case <-timer.C:
		t.Fatalf("%s does not load", url)
	}
	return p
}

// Look changes how the page is looked at.
func (p *Page) Look(t testing.TB, v View) {
	t.Helper()
	p.must(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": v.Width < 500}, nil)
	scheme, media := "light", ""
	if v.Dark {
		scheme = "dark"
	}
	if v.Print {
		media = "print"
	}
	p.must(t, "Emulation.setEmulatedMedia", map[string]any{"media": media, "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Eval evaluates a JavaScript expression, awaits it where it is a promise, and
// stores its value in out.
func (p *Page) Eval(t testing.TB, expression string, out any) {
	t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	p.must(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if got.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, got.ExceptionDetails.Exception.Description)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(got.Result.Value, out); err != nil {
		t.Fatalf("%s gives %s: %v", expression, got.Result.Value, err)
	}
}

// Screenshot writes a picture (PNG) of the whole page.
func (p *Page) Screenshot(t testing.TB, file string) {
	t.Helper()
	var shot struct{ Data string }
	p.must(t, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	b, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, b, 0o644)
	}
	if err != nil {
		t.Fatalf("screenshot: %v", err)
	}
}

// Problems are the errors and warnings on the console, uncaught exceptions and
// failed requests so far.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.problems...)
}

// event takes what the page tells by itself.
func (p *Page) event(method string, params json.RawMessage) {
	problem := false
	switch method {
	case "Page.loadEventFired":
		select {
		case p.loaded <- struct{}{}:
		default:
		}
	case "Runtime.exceptionThrown", "Network.loadingFailed":
		problem = true
	case "Runtime.consoleAPICalled":
		var call struct{ Type string }
		problem = json.Unmarshal(params, &call) != nil || call.Type == "error" || call.Type == "warning" || call.Type == "assert"
	case "Log.entryAdded":
		var log struct{ Entry struct{ Level string } }
		problem = json.Unmarshal(params, &log) != nil || log.Entry.Level == "error" || log.Entry.Level == "warning"
	}
	if problem {
		p.mu.Lock()
		p.problems = append(p.problems, method+" "+string(params))
		p.mu.Unlock()
	}
}

func (p *Page) must(t testing.TB, method string, params, out any) {
	t.Helper()
	p.b.must(t, p.session, method, params, out)
}

func (b *Browser) must(t testing.TB, session, method string, params, out any) {
	t.Helper()
	result, err := b.call(session, method, params)
	if err == nil && out != nil {
		err = json.Unmarshal(result, out)
	}
	if err != nil {
		t.Fatal(err)
	}
}

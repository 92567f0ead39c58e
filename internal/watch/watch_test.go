package watch

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"tare.dev/tare/internal/document"
	"tare.dev/tare/internal/footprint"
	"tare.dev/tare/internal/linux"
	"tare.dev/tare/internal/process"
	"tare.dev/tare/internal/report"
	"tare.dev/tare/internal/testkit/jvmtest"
)

var update = flag.Bool("update", false, "write golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

const mib64 = int64(report.MiB)

// at is the footprint of a JVM whose heap grows by a MiB each second.
func at(second int) *footprint.Footprint {
	limit := 400 * mib64
	grown := int64(second) * mib64
	f := &footprint.Footprint{
		Schema: footprint.Schema, PID: 8913, Name: "app\x1b[31m.jar", JDK: "25.0.3", Collector: "G1", Threads: 51,
		Time: time.Date(2026, 11, 21, 7, 0, second, 0, time.UTC),
		Rows: []footprint.Row{
			{Owner: footprint.JavaHeap, ResidentBytes: 78*mib64 + grown, Children: []footprint.Child{
				{Name: "young", ResidentBytes: 31*mib64 + grown}, {Name: "old", ResidentBytes: 47 * mib64}}},
			{Owner: footprint.ClassSpace, ResidentBytes: 2 * mib64},
			{Owner: footprint.Metaspace, ResidentBytes: 14 * mib64},
			{Owner: footprint.CodeCache, ResidentBytes: 24*mib64 + grown/10},
			{Owner: footprint.ThreadStacks, ResidentBytes: 12 * mib64},
			{Owner: footprint.GC, ResidentBytes: 4 * mib64},
			{Owner: footprint.CDS, ResidentBytes: 43 * mib64},
			{Owner: footprint.Malloc, ResidentBytes: 37*mib64 - 4096*int64(second%2), Children: []footprint.Child{{Name: "arenas, of glibc, on its own", ResidentBytes: 30*mib64 - grown/20}}},
			{Owner: footprint.MappedFiles, ResidentBytes: 23 * mib64},
			{Owner: footprint.JVMOther, ResidentBytes: mib64},
			{Owner: footprint.Unattributed, ResidentBytes: 100 << 10},
		},
	}
	for _, r := range f.Rows {
		f.RSSBytes += r.ResidentBytes
	}
	headroom := limit - f.RSSBytes
	f.Cgroup = &footprint.Cgroup{Version: 2, LimitBytes: &limit, UsageBytes: f.RSSBytes + 20*mib64, HeadroomBytes: &headroom, ReclaimableBytes: 20 * mib64}
	return f
}

// screen is a model after so many seconds.
func screen(seconds, width, height int) Model {
	m := NewModel(at(0), nil, time.Second, "", document.Style{})
	var next tea.Model = m
	next, _ = next.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for i := 1; i <= seconds; i++ {
		next, _ = next.Update(weighed{at(i), nil})
	}
	return next.(Model)
}

func TestPicture(t *testing.T) {
	for _, c := range []struct{ width, height, seconds int }{
		{80, 24, 0}, {80, 24, 40}, {120, 40, 55}, {60, 15, 40}, {160, 48, 200},
	} {
		m := screen(c.seconds, c.width, c.height)
		name := fmt.Sprintf("%dx%d-%ds.txt", c.width, c.height, c.seconds)
		golden(t, name, m.Picture()+"\n")
	}
}

// Whatever the size, the picture fits, and from 20 by 8 on it says what matters
// most.
func TestPictureFits(t *testing.T) {
	for width := 0; width < 140; width += 7 {
		for height := range 50 {
			m := screen(3, width, height)
			m.record = "some.jsonl"
			lines := strings.Split(m.Picture(), "\n")
			if len(lines) > max(height, 1) {
				t.Fatalf("%dx%d: %d lines", width, height, len(lines))
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > max(width, 1) || strings.ContainsAny(l, "\x1b\r") {
					t.Fatalf("%dx%d: %q", width, height, l)
				}
			}
			if width >= 60 && height >= 8 && !strings.Contains(m.Picture(), "= Rss") {
				t.Fatalf("%dx%d: no sum in\n%s", width, height, m.Picture())
			}
		}
	}
}

func TestPictureWithoutLimitOrGroup(t *testing.T) {
	m := screen(3, 80, 24)
	m.shown.last.Cgroup.LimitBytes = nil
	if p := m.Picture(); !strings.Contains(p, "no limit") {
		t.Error(p)
	}
	m.shown.last.Cgroup = nil
	if p := m.Picture(); strings.Contains(p, "limit") || !strings.Contains(p, "Rss") {
		t.Error(p)
	}
}

func key(text string) tea.KeyPressMsg {
	switch text {
	case "ctrl+c":
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	case "space":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	}
	return tea.KeyPressMsg{Code: rune(text[0]), Text: text}
}

func isQuit(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	_, ok := cmd().(tea.QuitMsg)
	return ok
}

func TestKeys(t *testing.T) {
	for _, k := range []string{"q", "ctrl+c", "esc"} {
		next, cmd := screen(3, 80, 24).Update(key(k))
		if !isQuit(cmd) || next.(Model).err != nil || strings.Contains(next.(Model).Picture(), "q quit") {
			t.Errorf("%s does not quit", k)
		}
	}
	if _, cmd := screen(3, 80, 24).Update(key("x")); cmd != nil {
		t.Error("x does something")
	}
}

// While paused the picture stays, and footprints are taken all the same.
func TestPause(t *testing.T) {
	for _, k := range []string{"p", "space"} {
		m := screen(3, 80, 24)
		m.record = "r.jsonl"
		m.next = func() tea.Msg { return nil }
		paused, _ := m.Update(key(k))
		before := paused.(Model).table()
		still, cmd := paused.Update(weighed{at(4), nil})
		if cmd == nil {
			t.Error("nothing is weighed while paused")
		}
		p := still.(Model).Picture()
		if fmt.Sprint(still.(Model).table()) != fmt.Sprint(before) || !strings.Contains(p, "paused") || !strings.Contains(p, "5 lines recorded in r.jsonl") {
			t.Error(p)
		}
		on, _ := still.Update(key(k))
		if p := on.(Model).Picture(); strings.Contains(p, "paused") || !strings.Contains(p, "07:00:04") {
			t.Error(p)
		}
	}
}

func TestHowAScreenEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		err, want error
		says      string
	}{
		{ErrEnded, nil, "the JVM has ended"},
		{io.EOF, nil, "07:00:03"},
		{fmt.Errorf("reading: %w", context.Canceled), nil, "07:00:03"},
		{broken, broken, "stopped by an error"},
	} {
		paused, _ := screen(3, 80, 24).Update(key("p"))
		next, cmd := paused.Update(weighed{nil, c.err})
		m := next.(Model)
		if !isQuit(cmd) || !errors.Is(m.err, c.want) || !strings.Contains(m.Picture(), c.says) || strings.Contains(m.Picture(), "paused") {
			t.Errorf("%v: %v\n%s", c.err, m.err, m.Picture())
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	m := screen(5*maxPoints, 80, 24)
	if n := len(m.live.history); n > 2*maxPoints || n < maxPoints {
		t.Errorf("%d points", n)
	}
	last := m.live.history[len(m.live.history)-1]
	if last.rss != m.live.last.RSSBytes {
		t.Errorf("the newest point is %d", last.rss)
	}
}

func TestChart(t *testing.T) {
	for _, c := range []struct {
		values        []int64
		lo, hi        int64
		width, height int
		want          string
	}{
		{[]int64{0, 1, 2, 3, 4, 5, 6, 7}, 0, 7, 8, 1, "▁▂▃▄▅▆▇█"},
		{[]int64{-5, 0, 7, 99}, 0, 7, 8, 1, "▁▁██"},
		{[]int64{0, 15}, 0, 15, 2, 2, " █\n▁█"},
		{[]int64{1, 2, 3}, 0, 3, 2, 1, "▅█"},
		{[]int64{5, 5}, 5, 5, 2, 1, "▁▁"},
		{nil, 0, 1, 5, 1, ""},
		{[]int64{1}, 0, 1, 0, 1, ""},
		{[]int64{1}, 0, 1, 1, 0, ""},
		{[]int64{1 << 62, 1<<63 - 1}, -1 << 62, 1<<63 - 1, 2, 1, "▅█"},
	} {
		if got := strings.Join(chart(c.values, c.lo, c.hi, c.width, c.height), "\n"); got != c.want {
			t.Errorf("%v: %q, want %q", c.values, got, c.want)
		}
	}
	if got := sparkline([]int64{10 * mib64, 10*mib64 + 4096}, 5); got != "▄▄" {
		t.Errorf("noise shows as %q", got)
	}
}

// ticks is a series of n ticks that wait for nobody.
func ticks(n int) <-chan time.Time {
	c := make(chan time.Time, n)
	for range n {
		c <- time.Time{}
	}
	return c
}

// series weighs at(0), at(1) and so on, and then fails with end.
func series(n int, end error) WeighFunc {
	i := -1
	return func(context.Context) (*footprint.Footprint, error) {
		if i++; i == n {
			return nil, end
		}
		return at(i), nil
	}
}

func TestLines(t *testing.T) {
	gone := fmt.Errorf("process 8913: %w", process.ErrNoProcess)
	var got bytes.Buffer
	if err := Lines(t.Context(), &got, &Session{Weigh: series(22, gone), Ticks: ticks(30)}); err != nil {
		t.Fatal(err)
	}
	golden(t, "lines.txt", got.String())
	for line := range strings.Lines(got.String()) {
		if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, f := range []*footprint.Footprint{{RSSBytes: 900 << 30, Cgroup: &footprint.Cgroup{UsageBytes: 900 << 30}}, {}} {
		if l := line(f); ansi.StringWidth(l) != 80 || !strings.HasSuffix(l, "-      -        -") && f.Cgroup == nil {
			t.Errorf("%d columns: %s", ansi.StringWidth(l), l)
		}
	}
}

func TestSession(t *testing.T) {
	var out bytes.Buffer
	if err := Lines(t.Context(), &out, &Session{Weigh: series(99, nil), Ticks: ticks(99), Count: 3}); err != nil || strings.Count(out.String(), "\n") != 5 {
		t.Errorf("count 3: %v\n%s", err, &out)
	}
	broken := errors.New("broken")
	if err := Lines(t.Context(), io.Discard, &Session{Weigh: series(2, broken), Ticks: ticks(9)}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	// A JVM that was never there is an error, one that goes away is not.
	if err := Lines(t.Context(), io.Discard, &Session{Weigh: series(0, process.ErrNoProcess)}); !errors.Is(err, process.ErrNoProcess) {
		t.Errorf("%v", err)
	}
	if err := Lines(t.Context(), io.Discard, &Session{Weigh: series(1, process.ErrNotJVM), Ticks: ticks(9)}); err != nil {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Lines(ctx, io.Discard, &Session{Weigh: series(99, nil)}); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	record := func(n int) {
		t.Helper()
		r, err := OpenRecord(path)
		if err != nil {
			t.Fatal(err)
		}
		s := &Session{Weigh: series(n, nil), Ticks: ticks(n), Count: n, Record: r}
		if err := errors.Join(Lines(t.Context(), io.Discard, s), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	record(3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Torn at every place of the last line, it goes on.
	lines := bytes.SplitAfter(whole, []byte("\n"))
	torn := len(whole) - len(lines[2])
	for cut := torn; cut <= len(whole); cut++ {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		record(1)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(text, whole[:cut]) {
			t.Fatalf("cut at %d: what was there has changed", cut)
		}
		want := 3
		if cut > torn {
			want = 4
		}
		if n := bytes.Count(text, []byte("\n")); n != want || !bytes.HasSuffix(text, append([]byte("\n"), lines[0]...)) {
			t.Fatalf("cut at %d: %d lines, want %d", cut, n, want)
		}
		if f, err := footprint.Read(bytes.NewReader(text)); err != nil || f.RSSBytes != at(0).RSSBytes {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	// A first line may be torn, too.
	for cut := range len(beginning) + 5 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		record(1)
	}
}

// A record that has its bound takes no more, and says so.
func TestRecordBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(path, []byte(beginning), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxRecord-1); err != nil {
		t.Fatal(err)
	}
	r, err := OpenRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Append(&footprint.Footprint{}); err == nil || !strings.Contains(err.Error(), "name another file") {
		t.Errorf("error %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Size() > maxRecord {
		t.Errorf("%d bytes, %v", st.Size(), err)
	}
}

func TestRecordRefuses(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "app.jar")
	for _, text := range []string{"PK\x03\x04", "{}\n", "\n", `{"schema":"tare.fit/1"}`} {
		if err := os.WriteFile(foreign, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenRecord(foreign); err == nil || !strings.Contains(err.Error(), "holds something else than footprints") {
			t.Errorf("%q: %v", text, err)
		}
		if got, _ := os.ReadFile(foreign); string(got) != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if _, err := OpenRecord(filepath.Join(dir, "none", "r.jsonl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := OpenRecord(dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("folder: %v", err)
	}
	full, err := OpenRecord("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{Weigh: series(3, nil), Ticks: ticks(3), Record: full}
	err = errors.Join(Lines(t.Context(), io.Discard, s), s.Close())
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "cannot record: write /dev/full") {
		t.Errorf("full disk: %v", err)
	}
}

// Weighings in a series agree with a single one, on a JVM that loads nothing
// meanwhile.
func TestOf(t *testing.T) {
	for _, major := range []int{8, 17, jvmtest.Newest(t)} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			p := jvmtest.StartFiller(t, jvmtest.Java(t, major), []string{"-Xmx64m", "-XX:+UseSerialGC"}, 20, 100, 50)
			proc := linux.NewFS("/proc")
			target, err := process.Find(proc, p.PID())
			if err != nil {
				t.Fatal(err)
			}
			single, err := footprint.WeighTarget(t.Context(), target, footprint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, full := range []bool{true, false} {
				weigh := Of(proc, target, full)
				for range 3 {
					f, err := weigh(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					checkSame(t, single, f)
					if full != (f.PSSBytes > 0) || full != (f.Host != nil) || f.JDK != single.JDK || jvmtest.Warned(f.Warnings) {
						t.Errorf("full %v: PSS %d, host %v, JDK %s, %q", full, f.PSSBytes, f.Host, f.JDK, f.Warnings)
					}
				}
			}
			weigh := Of(proc, target, false)
			if err := p.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-p.Ended()
			if _, err := weigh(t.Context()); !errors.Is(err, process.ErrNoProcess) {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}

// checkSame allows what an idle JVM touches between two weighings.
func checkSame(t *testing.T, single, f *footprint.Footprint) {
	t.Helper()
	var sum int64
	for _, r := range f.Rows {
		sum += r.ResidentBytes
		want, _ := single.Row(r.Owner)
		if diff := r.ResidentBytes - want.ResidentBytes; diff < -256<<10 || diff > 256<<10 {
			t.Errorf("%s: %d, by itself %d", r.Owner, r.ResidentBytes, want.ResidentBytes)
		}
	}
	if sum != f.RSSBytes {
		t.Errorf("rows add up to %d, Rss is %d", sum, f.RSSBytes)
	}
}

// A JVM that is killed at any moment ends the session, and leaves no footprint
// of a process without memory.
func TestSessionOfADyingJVM(t *testing.T) {
	for i := range 6 {
		p := jvmtest.StartFiller(t, jvmtest.Java(t, 17), []string{"-Xmx64m", "-XX:TieredStopAtLevel=1"}, 10, 10, 10)
		proc := linux.NewFS("/proc")
		target, err := process.Find(proc, p.PID())
		if err != nil {
			t.Fatal(err)
		}
		s := &Session{Weigh: Of(proc, target, i%2 == 0), Ticks: ticks(1000)}
		for n := 0; ; n++ {
			f, err := s.Next(t.Context())
			if errors.Is(err, ErrEnded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if f.RSSBytes < 10<<20 || jvmtest.Warned(f.Warnings) {
				t.Errorf("a footprint of %d bytes, %q", f.RSSBytes, f.Warnings)
			}
			if n == i {
				go func() { _ = p.Process.Kill() }()
			}
		}
	}
}

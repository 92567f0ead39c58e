package fit

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare.dev/tare/internal/jvmopts"
)

func TestOwnLevers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "levers")
	if err := os.WriteFile(file, []byte("# remarks\n\nfew threads: SERVER_THREADS=4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := OwnLevers([]string{`Small cache: -Dshop.cache=10000 -Dname='{heap} of it'`, "@" + file})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if s := got[0].setup(sizes{heap: 64 * mib}); got[0].ID != "small-cache" || !slices.Equal(s.Options, []string{"-Dshop.cache=10000", "-Dname={heap} of it"}) {
		t.Errorf("%+v, %q", got[0], s.Options)
	}
	if got[1].ID != "few-threads" || !slices.Equal(got[1].Env, []string{"SERVER_THREADS=4"}) {
		t.Errorf("%+v", got[1])
	}
	for text, want := range map[string]string{
		"-Dshop.cache=1":         "a lever is",
		"c1: -Xmx1m":             "there is a lever of the name c1",
		"a:":                     "give options",
		"a: $(reboot)":           "give options",
		"a: 'unended":            "give options",
		"a: words":               "neither an option",
		"a: 1X=2":                "neither an option",
		"a: -cp x":               "neither an option",
		"a: -jar":                "take a word of their own",
		"a: -cp":                 "take a word of their own",
		"a: -version":            "start something else",
		"a: --module=x":          "start something else",
		"a\x1b[2J: -Da=b":        "a lever is",
		"@" + file + ".not":      "no such file",
		"@" + filepath.Dir(file): "no file of at most",
	} {
		if l, err := OwnLevers([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, l, err, want)
		}
	}
}

// A user's own lever is tried before others that may cost speed, and kept where it saves.
func TestOwnLeverIsTried(t *testing.T) {
	own, err := OwnLevers([]string{"quick: QUICK=1", "property: -Dshop.cache=10"})
	if err != nil {
		t.Fatal(err)
	}
	m := newModel(rand.New(rand.NewPCG(4, 1)))
	m.counts, m.squeezes, m.gcCost, m.soft, m.c1 = true, false, 0, false, 1
	s := &Search{Trier: m, Levers: slices.Concat(Levers, own), AmpleBytes: 2048 * mib, Baselines: DefaultBaselines, Confirmations: 1, MaxTrials: DefaultTrials + 2, Facts: Facts{Release: jvmopts.ParseRelease("17.0.15")}}
	f, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := func(id string) LeverResult {
		return f.Levers[slices.IndexFunc(f.Levers, func(l LeverResult) bool { return l.Lever.ID == id })]
	}
	if l := of("quick"); !l.Kept || l.CostRatio > 0.7 {
		t.Errorf("%+v", l)
	}
	if l := of("property"); l.Kept || l.Trial == 0 {
		t.Errorf("%+v", l)
	}
	if c1 := of("hot"); c1.Trial > 0 && c1.Trial < of("property").Trial {
		t.Errorf("hot code was tried in %d, the user's own lever in %d", c1.Trial, of("property").Trial)
	}
}

func FuzzOwnLever(f *testing.F) {
	f.Add(`small cache: -Dshop.cache=10000 "A B"=c`)
	f.Add("a: -cp x B=c")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ownLever(text)
		if err != nil {
			return
		}
		s := l.setup(sizes{heap: mib})
		c, err := jvmopts.Parse(slices.Concat([]string{"java"}, s.Options, []string{"Main"}))
		if err != nil || len(s.Options)+len(s.Env) == 0 || !slices.Equal(c.Main, []string{"Main"}) || !leverName().MatchString(l.Name) {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	})
}

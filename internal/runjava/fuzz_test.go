package runjava

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func FuzzWords(f *testing.F) {
	f.Add(" -Da=b\t-Dc \n'-Dd e'\r\v")
	f.Fuzz(func(t *testing.T, s string) {
		w := words(s)
		if again := words(strings.Join(w, " ")); !slices.Equal(w, again) {
			t.Errorf("%q, then %q", w, again)
		}
		if strings.Join(w, "") != strings.NewReplacer(" ", "", "\t", "", "\n", "", "\v", "", "\f", "", "\r", "").Replace(s) {
			t.Errorf("%q lost something of %q", w, s)
		}
	})
}

func FuzzNonProxyHosts(f *testing.F) {
	f.Add("localhost, .example.com,,*|x")
	f.Fuzz(func(t *testing.T, s string) {
		hosts := nonProxyHosts(s)
		if strings.ContainsAny(hosts, ", \t\r\n") || strings.Contains(hosts, "||") || strings.Trim(hosts, "|") != hosts {
			t.Errorf("%q", hosts)
		}
		if again := nonProxyHosts(hosts); again != hosts {
			t.Errorf("%q, then %q", hosts, again)
		}
	})
}

func FuzzParseProxy(f *testing.F) {
	for _, s := range []string{"http://u:p@h:80/x?y", "[::1]:1", "h", ":1", "h:", "a@b@c:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, port, _, ok := parseProxy(s)
		if !ok {
			if host+port != "" {
				t.Errorf("%q: host %q and port %q of what is none", s, host, port)
			}
			return
		}
		if !strings.Contains(s, host) || !isHost(host) || strings.ContainsAny(host, "'\"$` \n/@") {
			t.Errorf("%q: host %q", s, host)
		}
		if n, err := strconv.Atoi(port); port != "" && (err != nil || n < 0 || n > 65535) {
			t.Errorf("%q: port %q", s, port)
		}
		if h, p, c, ok := parseProxy("http://u:p@" + host + ":" + port); h != host || p != port || !c || !ok {
			t.Errorf("%q: again %q %q", s, h, p)
		}
	})
}

func FuzzParseMajor(f *testing.F) {
	for _, s := range []string{"1.8.0_292", "8u292", "jdk-17.0.1+12", "25-ea", "1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, ok := parseMajor(s); ok && (n < 5 || n > 999 || !strings.Contains(s, strconv.Itoa(n))) {
			t.Errorf("%q: %d", s, n)
		}
	})
}

func FuzzParseAssignments(f *testing.F) {
	f.Add("export A='x y'\n# c\nB=\"z\"\nC=d\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseAssignments(text)
		if err != nil {
			if len(list) > 0 || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v and %v", list, err)
			}
			return
		}
		for _, a := range list {
			if !isIdentifier(a.name) || !strings.Contains(text, a.value) || strings.ContainsRune(a.value, '\n') {
				t.Errorf("%v of %q", a, text)
			}
		}
	})
}

func FuzzParseSourced(f *testing.F) {
	f.Add([]byte("0022\x00A=1\x00B=2\x00\x00Limit\nMax cpu time              unlimited            unlimited            seconds   \n\x00A=1\x00C=3\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		v, sh, ok := parseSourced(out)
		if !ok {
			return
		}
		if sh.Umask < 0 || sh.Umask > 0o7777 {
			t.Errorf("umask %o", sh.Umask)
		}
		for _, e := range v.env {
			if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
				t.Errorf("variable %q", e)
			} else if _, local := v.local[name]; local {
				t.Errorf("%q is exported and is not", name)
			}
		}
	})
}

func FuzzListedClasspath(f *testing.F) {
	f.Add("a.jar\n/b.jar\r\n\nc.jar", "/lib", "/lib/a.jar")
	f.Fuzz(func(t *testing.T, list, lib, jar string) {
		parts := listedClasspath(list, lib, jar)
		for _, p := range parts {
			if p == "" || strings.ContainsRune(strings.TrimPrefix(p, lib), '\n') || len(parts) > 1 && p == jar {
				t.Errorf("%q in %q", p, parts)
			}
		}
	})
}

func FuzzOptions(f *testing.F) {
	f.Add("JAVA_MAX_MEM_RATIO=50\x00JAVA_INIT_MEM_RATIO=90\x00CONTAINER_MAX_MEMORY=536870912", uint8(8))
	f.Add("JAVA_CORE_LIMIT=3\x00JAVA_DEBUG=1\x00HTTPS_PROXY=h:1\x00JAVA_DIAGNOSTICS=1", uint8(17))
	f.Fuzz(func(t *testing.T, entries string, major uint8) {
		in := Input{Args: []string{"options", "--java-default", "--debug", "--proxy"}, Env: strings.Split(entries, "\x00"),
			Major: func([]string) int { return int(major) }, Lookup: userFlags, Run: Start}
		plan, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		var first, most int64
		for _, o := range plan.Options {
			if !fixedShape(o.Text) {
				t.Errorf("option %q", o.Text)
			}
			fmt.Sscanf(o.Text, "-Xms%dm", &first)
			fmt.Sscanf(o.Text, "-Xmx%dm", &most)
		}
		if most > 0 && (first > most || most > plan.MemoryBytes/mib+1) {
			t.Errorf("-Xms%dm -Xmx%dm in %d bytes", first, most, plan.MemoryBytes)
		}
	})
}

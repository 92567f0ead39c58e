package jvmopts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// given is one option that a generated user gives, and the place for it.
type given struct {
	option string
	place  Place
	file   string // "", "@", "VMOptionsFile": how it is told there
}

// user is a generated user: what was meant, and the Input that says it, with
// its files in memory.
type user struct {
	given []given
	input Input
	files map[string]string
}

// store puts the files on the disk, and has them read from there.
func (u *user) store(t testing.TB, dir string) {
	t.Helper()
	for name, text := range u.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.input.Dir, u.input.ReadFile = dir, nil
}

// pick takes one of some values.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// spell writes a size of whole MiB in one of the ways the JVM reads it.
func spell(r *rand.Rand, mib int, rel Release) string {
	ways := []string{fmt.Sprintf("%dm", mib), fmt.Sprintf("%dM", mib), fmt.Sprintf("%dk", mib<<10), fmt.Sprint(mib << 20), fmt.Sprintf("0%dK", mib<<10)}
	if rel.since(9) {
		ways = append(ways, fmt.Sprintf("0x%xm", mib), fmt.Sprintf("0X%X", mib<<20))
	}
	return pick(r, ways...)
}

// startable is an option that a JVM starts with, in whatever company of its
// like: no collector but the one given, and sizes that fit each other.
func startable(r *rand.Rand, rel Release, collector string) string {
	onOff := func(flags ...string) string { return "-XX:" + pick(r, "+", "-") + pick(r, flags...) }
	size := func(flag string, mib int) string { return flag + spell(r, mib, rel) }
	return pick(r,
		func() string { return size("-Xmx", 64+8*r.IntN(25)) },
		func() string { return size("-XX:MaxHeapSize=", 64+8*r.IntN(25)) },
		func() string { return fmt.Sprintf("-Xmx%d", 64<<20+r.IntN(1<<26)) },
		func() string { return size("-Xms", 16+8*r.IntN(3)) },
		func() string { return size("-XX:InitialHeapSize=", 40+8*r.IntN(3)) },
		func() string { return size("-Xmn", 4+2*r.IntN(3)) },
		func() string { return fmt.Sprintf("-Xss%d", 600_000+r.IntN(1<<20)) },
		func() string { return fmt.Sprintf("-XX:ThreadStackSize=%d", 512+r.IntN(512)) },
		func() string {
			return fmt.Sprintf("-XX:%sRAMPercentage=%d.%d", pick(r, "Max", "Initial", "Min"), 10+r.IntN(60), r.IntN(100))
		},
		func() string {
			return onOff("ExitOnOutOfMemoryError", "HeapDumpOnOutOfMemoryError", "UsePerfData", "DisableExplicitGC", "UseContainerSupport", "AlwaysPreTouch")
		},
		func() string { return "-XX:+" + collector },
		func() string { return size("-XX:MaxMetaspaceSize=", 64+r.IntN(64)) },
		func() string { return fmt.Sprintf("-XX:ActiveProcessorCount=%d", 1+r.IntN(4)) },
		func() string { return fmt.Sprintf("-Xminf0.%d", 1+r.IntN(3)) },
		func() string { return fmt.Sprintf("-XX:MinHeapFreeRatio=%d", 10+r.IntN(20)) },
		func() string { return fmt.Sprintf("-Xmaxf0.%d", 4+r.IntN(5)) },
		func() string { return fmt.Sprintf("-XX:MaxHeapFreeRatio=%d", 40+r.IntN(50)) },
		func() string { return size("-XX:ReservedCodeCacheSize=", 24+r.IntN(40)) },
		func() string { return size("-Xmaxjitcodesize", 24+r.IntN(40)) },
		func() string { return fmt.Sprintf("-XX:TieredStopAtLevel=%d", 1+r.IntN(4)) },
		func() string { return size("-XX:MaxDirectMemorySize=", 8+r.IntN(64)) },
		func() string {
			return "-XX:" + pick(r, "ErrorFile", "HeapDumpPath") + "=/tmp/" + pick(r, "a b", "c'd", `e"f`, "g#h", "64k", "i\tj")
		},
		func() string { return "-XX:NativeMemoryTracking=" + pick(r, "off", "summary") },
		func() string { return "-XX:SoftRefLRUPolicyMSPerMB=" + pick(r, "0", "5", "1k") },
		func() string { return pick(r, "-Xint", "-Xmixed", "-Xbatch", "-Xrs", "-Xnoclassgc") },
		func() string { return "-Xshare:" + pick(r, "auto", "off") },
		func() string { return pick(r, "-ea", "-Dk=v w", "-esa") },
	)()
}

// generate makes a user of n options, each at a random place. At the end of the
// command line stands -version.
func generate(r *rand.Rand, rel Release, n int, option func() string) user {
	u := user{input: Input{Release: rel}, files: make(map[string]string)}
	u.input.ReadFile = func(name string) ([]byte, error) {
		if text, ok := u.files[name]; ok {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	}
	for range n {
		u.given = append(u.given, given{option: option()})
	}
	places := []given{{place: CommandLine}, {place: CommandLine}, {place: ToolOptions}, {place: JavaOptions}, {place: FlagsFile}}
	if rel.since(9) {
		places = append(places, given{place: CommandLine, file: "@"}, given{place: CommandLine, file: "VMOptionsFile"}, given{place: LauncherOptions},
			given{place: LauncherOptions, file: "@"}, given{place: ToolOptions, file: "VMOptionsFile"}, given{place: JavaOptions, file: "VMOptionsFile"})
	}
	for i := range u.given {
		p := pick(r, places...)
		if p.place == FlagsFile && !strings.HasPrefix(u.given[i].option, "-XX:") {
			p = given{place: CommandLine}
		}
		u.given[i].place, u.given[i].file = p.place, p.file
	}
	u.write(r)
	return u
}

func (u *user) write(r *rand.Rand) {
	// of collects what is given at a place, quoted as it is read there.
	of := func(place Place, file string, quote func(*rand.Rand, string) string) []string {
		var out []string
		for _, g := range u.given {
			if g.place == place && g.file == file {
				out = append(out, quote(r, g.option))
			}
		}
		return out
	}
	file := func(kind string, place Place, words []string) string {
		name := fmt.Sprintf("%s-%d", kind, place)
		u.files[name] = strings.Join(words, pick(r, " ", "\n", "\n\t")) + pick(r, "", "\n")
		return name
	}
	container := func(place Place, atQuote, quote func(*rand.Rand, string) string) []string {
		words := of(place, "", quote)
		if w := of(place, "@", quoteArgFile); len(w) > 0 {
			words = append(words, "@"+file("args", place, w))
		}
		if w := of(place, "VMOptionsFile", quoteJVM); len(w) > 0 {
			words = append(words, atQuote(r, "-XX:VMOptionsFile="+file("vm", place, w)))
		}
		return words
	}
	env := func(name string, words []string) {
		if len(words) > 0 {
			u.input.Env = append(u.input.Env, name+"="+strings.Join(words, pick(r, " ", "  ", "\t")))
		}
	}
	if w := of(FlagsFile, "", quoteFlag); len(w) > 0 {
		u.files["flags"] = strings.Join(w, "\n") + "\n# a comment\n"
		u.input.Args = append(u.input.Args, "-XX:Flags=flags")
	}
	env("JAVA_TOOL_OPTIONS", container(ToolOptions, quoteJVM, quoteJVM))
	env("JDK_JAVA_OPTIONS", container(LauncherOptions, quoteJVM, quoteJVM))
	env("_JAVA_OPTIONS", container(JavaOptions, quoteJVM, quoteJVM))
	plain := func(_ *rand.Rand, s string) string { return s }
	u.input.Args = append(u.input.Args, container(CommandLine, plain, plain)...)
	u.input.Args = append(u.input.Args, "-version")
}

// quoteJVM quotes for a variable or options file: everything between quotes is
// taken as it stands, so that a quote must stand between the other ones.
func quoteJVM(r *rand.Rand, s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"':
			b.WriteString(`'"'`)
		case c == '\'':
			b.WriteString(`"'"`)
		case isSpace(c):
			b.WriteString(pick(r, "'", `"`))
			q := b.String()[b.Len()-1:]
			b.WriteByte(c)
			b.WriteString(q)
		case r.IntN(12) == 0:
			q := pick(r, "'", `"`)
			b.WriteString(q + string(rune(c)) + q)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// quoteArgFile quotes for an argument file.
func quoteArgFile(r *rand.Rand, s string) string {
	if !strings.ContainsAny(s, " \t'\"#\\") && r.IntN(3) > 0 {
		return s
	}
	q := pick(r, "'", `"`)
	s = strings.NewReplacer(`\`, `\\`, q, `\`+q, "\t", `\t`).Replace(s)
	if at := len(s) / 2; r.IntN(3) == 0 && s[at-1] != '\\' {
		s = s[:at] + "\\\n   " + strings.TrimLeft(s[at:], " ")
		if strings.HasPrefix(s[at+5:], " ") {
			return q + s[:at] + q
		}
	}
	return q + s + q
}

// quoteFlag writes an option for a flags file, where a line holds one flag.
func quoteFlag(_ *rand.Rand, option string) string {
	flag := strings.TrimPrefix(option, "-XX:")
	if strings.ContainsAny(flag, "'\" \t") {
		// Of a quoted value the other quotes are kept.
		name, value, _ := strings.Cut(flag, "=")
		q := "'"
		if strings.Contains(value, "'") {
			q = `"`
		}
		return name + "=" + q + value + q
	}
	return flag
}

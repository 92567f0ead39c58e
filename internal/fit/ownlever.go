package fit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"tare.dev/tare/internal/jvmopts"
	"tare.dev/tare/internal/lazy"
	"tare.dev/tare/internal/shell"
)

// Bounds of a user's own levers.
const (
	maxOwnLevers = 50
	maxLeverFile = 64 << 10
)

var (
	leverName    = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}$`)
	variableName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// OwnLevers reads levers of the user's own: texts such as
// "small cache: -Dshop.cache=100 SHOP_THREADS=4", or "@FILE" with such a text on each
// line, where lines with "#" are remarks. Words are quoted as in a shell; nothing of
// them is evaluated. Each lever is tried by itself, after those of tare that cost no
// speed.
func OwnLevers(texts []string) ([]Lever, error) {
	var all []Lever
	for _, text := range texts {
		lines := []string{text}
		if file, ok := strings.CutPrefix(text, "@"); ok {
			var err error
			if lines, err = leverLines(file); err != nil {
				return nil, err
			}
		}
		for _, line := range lines {
			l, err := ownLever(line)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			if slices.ContainsFunc(slices.Concat(Levers, all), l.same) {
				return nil, fmt.Errorf("%q: there is a lever of the name %s: choose another", line, l.ID)
			}
			if all = append(all, l); len(all) > maxOwnLevers {
				return nil, fmt.Errorf("more than %d levers", maxOwnLevers)
			}
		}
	}
	return all, nil
}

func leverLines(file string) ([]string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxLeverFile {
		return nil, fmt.Errorf("%s: no file of at most %d KiB", file, maxLeverFile>>10)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: no lever in it", file)
	}
	return lines, nil
}

func ownLever(text string) (Lever, error) {
	name, rest, found := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); !found || !leverName().MatchString(name) {
		return Lever{}, errors.New("a lever is 'NAME: OPTION or VARIABLE=VALUE …', its name of letters, digits, spaces, points and hyphens")
	}
	words, ok := shell.Split(rest)
	if !ok || len(words) == 0 {
		return Lever{}, errors.New("give options of the JVM or VARIABLE=VALUE behind the name, quoted as in a shell")
	}
	l := Lever{ID: strings.ToLower(strings.ReplaceAll(name, " ", "-")), Name: name, Own: true, Blind: true, Slows: true, Waits: true,
		Why: "a lever of your own"}
	for _, w := range words {
		switch variable, _, assigns := strings.Cut(w, "="); {
		case strings.HasPrefix(w, "-"):
			l.Options = append(l.Options, w)
		case assigns && variableName().MatchString(variable):
			l.Env = append(l.Env, w)
		default:
			return Lever{}, fmt.Errorf("%q is neither an option of the JVM nor VARIABLE=VALUE", w)
		}
	}
	// With a main class behind them all must still be options.
	c, err := jvmopts.Parse(slices.Concat([]string{"java"}, l.Options, []string{"Main"}))
	if err != nil || !slices.Equal(c.Options, l.Options) || !slices.Equal(c.Main, []string{"Main"}) {
		return Lever{}, errors.New("options that take a word of their own, or start something else, are no lever")
	}
	return l, nil
}

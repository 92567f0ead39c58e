package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sourced runs lines of bash after the functions of a script were read.
func sourced(t *testing.T, script string, env []string, lines string) (string, error) {
	t.Helper()
	cmd := exec.Command("bash", "-c", "source ./"+script+"\n"+lines)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// lists stands for apt with package lists that were read: what apt-cache madison
// and apt-cache pkgnames printed.
const lists = `
apt() {
  case "$*" in
    'apt-cache madison libc6') cat <<'END'
     libc6 | 2.41-12 | http://mirror/debian trixie/main amd64 Packages
     libc6 | 2.43-1 | http://mirror/debian sid/main amd64 Packages
END
    ;;
    'apt-cache madison openjdk-17-jre-headless') cat <<'END'
openjdk-17-jre-headless | 17.0.99+1-1 | http://mirror/debian sid/main amd64 Packages
END
    ;;
    'apt-cache madison openjdk-25-jre-headless') cat <<'END'
openjdk-25-jre-headless | 25.0.9+1-1 | http://mirror/debian sid/main amd64 Packages
openjdk-25-jre-headless | 25.0.8+1-1 | http://mirror/debian trixie/main amd64 Packages
END
    ;;
    'apt-cache pkgnames openjdk-') printf 'openjdk-%s-jre-headless\n' 8 25 9 29 28; echo openjdk-30-doc ;;
  esac
}
mkdir -p "$partial/apt"
`

func TestJDKLists(t *testing.T) {
	cache := t.TempDir()
	partial := filepath.Join(cache, "jdks", ".partial", "apt")
	const gone = "E: The repository 'http://mirror/debian bullseye Release' does not have a Release file."
	for _, c := range []struct {
		what, lines, want string
		fails             bool
	}{
		{"the wanted suite", "newest openjdk-25-jre-headless trixie", "25.0.8+1-1\n", false},
		{"another suite is named", "newest openjdk-17-jre-headless bullseye",
			"jdks: bullseye has no openjdk-17-jre-headless, taking 17.0.99+1-1 of another suite\n17.0.99+1-1\n", false},
		{"no suite", "newest openjdk-26-jre-headless sid", "\n", false},
		{"newest of all", "newest_major 25", "29\n", false},
		{"none newer", "newest_major 29", "", false},
		{"a suite that is gone", "echo \"" + gone + "\" >\"$partial/apt/update.log\"; check_lists http://mirror/debian",
			"jdks: http://mirror/debian no longer has bullseye", false},
		{"a list that fails", "echo 'Err: timed out' >\"$partial/apt/update.log\"; check_lists http://mirror/debian",
			"jdks: error: cannot read the list of bullseye from http://mirror/debian: run this again", true},
		{"left out", "leave_out 26; cat \"$jdks/.unserved/26\"", "jdks: 26: left out, with its tests: none of bullseye trixie sid has openjdk-26", false},
		{"required", "leave_out 17", "jdks: error: JDK 17 is required, and none of", true},
	} {
		out, err := sourced(t, "jdks.sh", []string{"TARE_CACHE=" + cache}, lists+c.lines)
		if (err != nil) != c.fails || !strings.Contains(out, c.want) || c.want == "" && out != "" {
			t.Errorf("%s: %v\n%s", c.what, err, out)
		}
	}
	if _, err := os.Stat(partial); err != nil {
		t.Error(err)
	}
}

// A JDK appears with its class archive, and takes the place of another at once.
func TestJDKAppears(t *testing.T) {
	cache := t.TempDir()
	const made = `
mkdir -p "$partial" "$jdks/8/bin" "$partial/new/bin" "$partial/new/lib/server"
touch "$jdks/8/bin/java" "$partial/new/lib/server/libjvm.so"
cat >"$partial/new/bin/java" <<'END'
#!/bin/bash
home=$(dirname "$(dirname "$0")")
[[ ! -e $home/bin/java ]] || echo "the launcher is there without an archive" >&2
case $* in
  *-Xshare:dump*) for a; do [[ $a != *SharedArchiveFile=* ]] || touch "${a#*=}"; done ;;
  *) [[ -e $home/lib/server/classes.jsa ]] ;;
esac
END
chmod +x "$partial/new/bin/java"
appear 8 "$partial/new"
ls -A "$jdks/8/bin" "$jdks/8/lib/server" "$partial"; cat "$partial/dump.log"
`
	out, err := sourced(t, "jdks.sh", []string{"TARE_CACHE=" + cache}, made)
	want := cache + "/jdks/.partial:\ndump.log\n\n" + cache + "/jdks/8/bin:\njava\n\n" + cache + "/jdks/8/lib/server:\nclasses.jsa\nlibjvm.so\n"
	if err != nil || out != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}

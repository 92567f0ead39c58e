#!/usr/bin/env bash
# Proves that the JDKs in the cache do what tare asks of them, one line per JDK:
#
#   scripts/jdks-check.sh [MAJOR...]      default: every one in the cache
#
# Each compiles a class with its own javac and runs it with Serial, Parallel and
# G1; the class starts a child process and is asked for its version by jcmd.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C
unset JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS LD_LIBRARY_PATH

jdks="${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/jdks"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() { printf 'jdks-check: error: %s\n' "$*" >&2; exit 1; }

# The child goes through jspawnhelper (since JDK 13), and must not inherit a
# private glibc: it is a program of the system's.
cat >"$work/Probe.java" <<'JAVA'
import java.io.BufferedReader;
import java.io.InputStreamReader;

public class Probe {
    public static void main(String[] args) throws Exception {
        Process child = new ProcessBuilder("/bin/sh", "-c", "echo child says $0", "hello").start();
        String said = new BufferedReader(new InputStreamReader(child.getInputStream())).readLine();
        if (child.waitFor() != 0) {
            throw new IllegalStateException("the child process failed");
        }
        System.out.println(said);
        String name = java.lang.management.ManagementFactory.getRuntimeMXBean().getName();
        Process jcmd = new ProcessBuilder(args[0] + "/bin/jcmd", name.split("@")[0], "VM.version")
                .redirectErrorStream(true).start();
        BufferedReader answer = new BufferedReader(new InputStreamReader(jcmd.getInputStream()));
        for (String line = answer.readLine(); line != null; line = answer.readLine()) {
            System.out.println(line);
        }
        System.exit(jcmd.waitFor());
    }
}
JAVA

check() { # HOME
  local home=$1 classes gc out
  classes=$(mktemp -d -p "$work")
  timeout 60 "$home/bin/javac" -d "$classes" "$work/Probe.java" || die "$home/bin/javac fails"
  for gc in Serial Parallel G1; do
    out=$(timeout 60 "$home/bin/java" -Xshare:auto -Xmx64m "-XX:+Use${gc}GC" -cp "$classes" Probe "$home" 2>&1) ||
      die "$home/bin/java -XX:+Use${gc}GC: $out"
    [[ $out == *"child says hello"* ]] || die "$home, $gc: no answer of the child process: $out"
    [[ $out == *"JDK "[1-9]* ]] || die "$home, $gc: no answer of jcmd VM.version: $out"
  done
  out=$(timeout 60 "$home/bin/jcmd" -l)
  [[ $out == *JCmd* ]] || die "$home/bin/jcmd -l does not list itself: $out"
  echo "jdks-check: $home: javac, Serial, Parallel, G1, child processes, jcmd work"
}

main() {
  local major home homes=()
  for major in "$@"; do homes+=("$jdks/$major"); done
  [[ $# -gt 0 ]] || mapfile -t homes < <(find "$jdks" -maxdepth 1 -name '[1-9]*' | sort -V)
  [[ ${#homes[@]} -gt 0 ]] || die "no JDK in $jdks: run scripts/jdks.sh"
  for home in "${homes[@]}"; do check "$home"; done
}

main "$@"

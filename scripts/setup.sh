#!/usr/bin/env bash
# Installs through apt what building and testing need, and only what is missing:
#
#   scripts/setup.sh [build|test|bench]...      default: build and test
#
# It says what it installs and why, and nothing when all is there. On a machine
# without apt or root it names what is missing and how to get it, and exits 1.
# The JDKs that are measured are another matter: scripts/jdks.sh.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
exec </dev/null
PATH="$PATH:/usr/sbin:/sbin" # where mke2fs and modprobe are, also for a user
root=$(cd "$(dirname "$0")/.." && pwd)

readonly java_wanted=17

# GROUP | what is looked for | package | why. What is looked for is a program, a
# file pattern (with a slash), or "jdk".
readonly needs='
build | jdk                              | default-jdk-headless | compiles the Java parts, runs Maven
build | mvn                              | maven                | builds the Java parts
build | make                             | make                 | runs the build
test  | qemu-system-x86_64               | qemu-system-x86      | boots the cgroup v2 machine of the tests
test  | mke2fs                           | e2fsprogs            | makes the disk of that machine
test  | cpio                             | cpio                 | makes the initial memory disk of that machine
test  | modprobe                         | kmod                 | orders the kernel modules of that machine
test  | xz                               | xz-utils             | unpacks those modules
test  | zstd                             | zstd                 | unpacks those modules
test  | chromium                         | chromium             | shows the HTML reports in their tests
test  | flock                            | util-linux           | keeps two downloads out of one cache
test  | dockerd                          | docker.io            | runs the containers of the tests
test  | newuidmap                        | uidmap               | maps the users of a container in the tests
test  | gcc                              | gcc                  | builds the small programs that the tests look at
test  | /usr/include/stdlib.h            | libc6-dev            | is what those are built with
test  | musl-gcc                         | musl-tools           | builds one of them for the other C library of JVMs
test  | npm                              | npm                  | fetches the native image that the tests look at
test  | openssl                          | openssl              | checks what was fetched
test  | patchelf                         | patchelf             | runs JDKs built for a newer glibc
test  | /usr/lib/*/libjemalloc.so.2      | libjemalloc2         | takes the place of malloc in JVMs of the tests
test  | /usr/lib/*/libjemalloc_pic.a     | libjemalloc-dev      | is linked into a library that the tests load into JVMs
test  | /usr/lib/*/libtcmalloc_minimal.so.4 | libtcmalloc-minimal4 | the same
test  | /usr/lib/postgresql/*/bin/initdb | postgresql           | holds the history of the demo service in its tests
test  | qemu-aarch64-static              | qemu-user-static     | runs the arm64 programs of the image
test  | wrk                              | wrk                  | puts the load of a test of load commands
test  | hey                              | hey                  | the same
test  | mmdebstrap                       | mmdebstrap           | makes the fresh system that the tests install a release in
test  | ruby                             | ruby                 | reads the formula of a release
test  | sudo                             | sudo                 | runs the GitHub Action as root
test  | gradle                           | gradle               | builds with the Gradle plugin of a release
test  | gpg                              | gpg                  | signs a release
test  | curl                             | curl                 | is the load of an image that trains in its build
test  | systemd-analyze                  | systemd              | reads the units that are deployed
bench | pmap                             | procps               | is what a weighing is compared with
bench | mke2fs                           | e2fsprogs            | makes the disk that services are measured on
bench | losetup                          | mount                | attaches that disk
bench | unzip                            | unzip                | unpacks a service that is measured
'

fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

java_major() { # the major version of the javac that Maven would use, or 0
  local javac="${JAVA_HOME:+$JAVA_HOME/bin/}javac" home version
  javac=$(command -v "$javac") || { echo 0; return; }
  home=$(dirname "$(dirname "$(readlink -f "$javac")")")
  version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release" 2>/dev/null || true)
  [[ $version ]] || version=$("$javac" -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
  echo "${version:-0}"
}

there() { # WHAT
  case $1 in
    jdk) (($(java_major) >= java_wanted)) ;;
    */*) compgen -G "$1" >/dev/null ;;
    *) type -P "$1" >/dev/null ;;
  esac
}

# Debian's Go is rarely new enough, so it is not installed here. Since 1.21 an
# older go fetches the version that go.mod asks for by itself.
check_go() {
  local wanted have
  wanted=$(sed -n 's/^go //p' "$root/go.mod")
  type -P go >/dev/null ||
    fail "go is missing: install Go $wanted or newer, https://go.dev/doc/install"
  have=$(cd "$root" && go env GOVERSION) || fail "go cannot provide Go $wanted, see above:" \
    "install it, https://go.dev/doc/install, or let it download it: go env -w GOTOOLCHAIN=auto"
  [[ $(printf '%s\n' "$wanted" "${have#go}" | sort -V | head -n 1) == "$wanted" ]] ||
    fail "$have is older than the Go $wanted of go.mod: https://go.dev/doc/install"
}

# Maven obeys JAVA_HOME; no package helps when it points to an old JDK.
check_java_home() {
  [[ -z ${JAVA_HOME:-} ]] || there jdk || fail "JAVA_HOME=$JAVA_HOME has no javac of JDK" \
    "$java_wanted or newer: unset it, or let it point to one"
}

# missing GROUP... prints the lines of the needs that are not met.
missing() {
  local group what package why wanted=" $* "
  while IFS='|' read -r group what package why; do
    read -r group what package <<<"$group $what $package"
    [[ $wanted == *" $group "* ]] || continue
    there "$what" || printf '%s|%s|%s\n' "$what" "$package" "${why# }"
  done < <(grep '|' <<<"$needs")
}

names() { # LINES: the packages of the lines of missing, on one line
  cut -d'|' -f2 <<<"$1" | sort -u | paste -sd' '
}

explain() { # LINES
  local what package why
  while IFS='|' read -r what package why; do
    printf '  %s (%s): %s\n' "$package" "$what" "$why"
  done <<<"$1"
}

install() { # LINES
  local packages log
  read -ra packages <<<"$(names "$1")"
  log=$(mktemp)
  echo 'setup: installing with apt-get:'
  explain "$1"
  {
    apt-get -q update &&
      apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${packages[@]}"
  } >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    fail "apt-get could not install ${packages[*]}: see $log"
  }
  rm -f "$log"
}

main() {
  local groups=("$@") group lines
  [[ ${#groups[@]} -gt 0 ]] || groups=(build test)
  for group in "${groups[@]}"; do
    [[ $group =~ ^(build|test|bench)$ ]] || fail "no such group: $group. Usage: scripts/setup.sh [build|test|bench]..."
  done
  if [[ " ${groups[*]} " == *" build "* ]]; then
    check_go
    check_java_home
  fi
  lines=$(missing "${groups[@]}")
  [[ $lines ]] || return 0
  if ! type -P apt-get >/dev/null; then
    explain "$lines" >&2
    fail "the above is missing, and there is no apt here: install it with this system's package manager (names are Debian's)"
  elif [[ $(id -u) != 0 ]]; then
    explain "$lines" >&2
    fail "the above is missing: as root, apt-get install --no-install-recommends $(names "$lines")"
  fi
  install "$lines"
  lines=$(missing "${groups[@]}")
  [[ ! $lines ]] || {
    explain "$lines" >&2
    fail "still missing after the installation (the JDK must be at least $java_wanted)"
  }
}

main "$@"

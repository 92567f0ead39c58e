#!/usr/bin/env bash
# Puts JDKs from Debian's archive into the cache, one folder per major version:
#
#   scripts/jdks.sh [MAJOR...]      default: 8 11 17 21 25 26 27
#
# Of the default ones those that Debian no longer has are named and left out, but
# for 8, 17, 25 and one that is newer, without which this fails: the tests need
# them. jdks/.unserved/MAJOR says why one is left out.
#
# The folder is ${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/jdks/MAJOR.
# A JDK that is there and answers is left alone; one that was cut off is fetched
# anew, except for the packages already downloaded. Nothing is installed on the
# system (but for patchelf, when root) and its apt state is not touched: packages
# are downloaded with an apt configuration of our own and unpacked.
#
# A JDK built for a newer glibc than this machine's gets a glibc of its own,
# jdks/.glibc/VERSION; its programs are patched to be loaded by that.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
exec </dev/null
unset JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS LD_LIBRARY_PATH

readonly all_majors=(8 11 17 21 25 26 27)
required=(8 17 25)
readonly last_required=25
readonly suites=(bullseye trixie sid)
readonly glibc_suites=(trixie sid)
jdks="${TARE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tare}/jdks"
partial="$jdks/.partial"

say() { printf 'jdks: %s\n' "$*"; }
die() { printf 'jdks: error: %s\n' "$*" >&2; exit 1; }

# The suite whose package is wanted, so that tests meet the same builds for as
# long as Debian has them. Any other suite is taken when that one has none.
suite_of() {
  case $1 in
    11 | 17) echo bullseye ;;
    21 | 25) echo trixie ;;
    *) echo sid ;;
  esac
}

java_version() { # HOME: the version that its java reports, e.g. 17.0.12
  "$1/bin/java" -version 2>&1 | sed -n 's/^openjdk version "\([^"]*\)".*/\1/p'
}

works() { # MAJOR HOME: does java there start and say that it is this version?
  # A machine without memory to spare may fail once: what works is not replaced.
  local version _
  [[ -x $2/bin/java ]] || return 1
  for _ in 1 2 3; do
    version=$(java_version "$2") || continue
    [[ ${version#1.} =~ ^$1([^0-9]|$) ]] && return
  done
  return 1
}

shares_classes() { # JAVA: can the class data archive be mapped?
  # An old JDK cannot when the kernel has put something at the archive's address,
  # which another run need not meet.
  local _
  for _ in 1 2 3 4 5; do
    "$1" -Xshare:on -version >/dev/null 2>&1 && return
  done
  return 1
}

need_tools() {
  local tool
  for tool in apt-get apt-cache apt-config dpkg dpkg-deb; do
    command -v "$tool" >/dev/null || die "$tool is missing: the JDKs are fetched from" \
      "Debian's archive. Run this on Debian, or put JDK homes at $jdks/MAJOR yourself."
  done
  command -v flock >/dev/null || die "flock is missing: apt-get install util-linux"
}

need_patchelf() {
  command -v patchelf >/dev/null && return
  [[ $(id -u) == 0 ]] || die "patchelf is missing: as root, apt-get install patchelf"
  say "installing patchelf: it makes JDKs built for a newer glibc run here"
  { apt-get -qq install -y patchelf || { apt-get -qq update && apt-get -qq install -y patchelf; }; } \
    >"$partial/patchelf.log" 2>&1 || die "apt-get install patchelf failed, see $partial/patchelf.log"
}

# Every base address in the machine's sources that has its own release. Asking
# apt reads both formats of sources, and needs no downloaded lists.
mirrors() {
  local codename
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  [[ -n $codename ]] || codename='[^/]*'
  apt-get update --print-uris 2>/dev/null |
    sed -n "s#^'\([^']*\)/dists/$codename/InRelease'.*#\1#p" | awk '!seen[$0]++'
}

# Of the machine's configuration only how to reach mirrors (proxy, certificates,
# timeouts) is taken over: no hooks, which would work on the system's state.
configure_apt() {
  mkdir -p "$partial"/apt/{lists/partial,cache/archives/partial,empty} "$partial/debs"
  : >"$partial/apt/status"
  {
    APT_CONFIG='' apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets'
    cat <<-CONF
	Dir::Etc::main "/dev/null";
	Dir::Etc::parts "$partial/apt/empty";
	Dir::Etc::preferences "/dev/null";
	Dir::Etc::preferencesparts "$partial/apt/empty";
	Dir::Etc::sourcelist "$partial/apt/sources.list";
	Dir::Etc::sourceparts "$partial/apt/empty";
	Dir::State "$partial/apt";
	Dir::State::lists "$partial/apt/lists";
	Dir::State::status "$partial/apt/status";
	Dir::Cache "$partial/apt/cache";
	Dir::Log "$partial/apt";
	Acquire::Languages "none";
	Acquire::Retries "3";
	APT::Sandbox::User "root";
	CONF
  } >"$partial/apt/apt.conf"
}

apt() { APT_CONFIG="$partial/apt/apt.conf" "$@"; }

# Takes the first mirror that has Debian's packages, signed by Debian.
read_lists() {
  local mirror suite keyring key tried=()
  for key in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
    [[ -r $key ]] && keyring="[signed-by=$key] "
  done
  configure_apt
  while read -r mirror; do
    for suite in "${suites[@]}"; do
      echo "deb ${keyring:-}$mirror $suite main"
    done >"$partial/apt/sources.list"
    tried+=("$mirror")
    say "reading the package lists of ${suites[*]}"
    apt apt-get -q update >"$partial/apt/update.log" 2>&1 || true
    if [[ -n $(apt apt-cache madison libc6) ]]; then
      check_lists "$mirror"
      return
    fi
  done < <(mirrors)
  [[ ${#tried[@]} -gt 0 ]] || die "no Debian mirror in /etc/apt/sources.list or" \
    "/etc/apt/sources.list.d: add the line of your mirror (man sources.list)"
  tail -n 5 "$partial/apt/update.log" >&2
  die "cannot read the lists of ${suites[*]} from ${tried[*]}: if a key is missing," \
    "apt-get install --only-upgrade debian-archive-keyring"
}

# A suite that the mirror no longer has is named; any other list that cannot be
# read is an error, or JDKs of another suite would stand in for those wanted.
check_lists() { # MIRROR
  local suite lists
  lists=$(apt apt-cache madison libc6)
  for suite in "${suites[@]}"; do
    grep -qF " $suite/" <<<"$lists" && continue
    if grep -q " $suite Release' does not have a Release file" "$partial/apt/update.log"; then
      say "$1 no longer has $suite: its JDKs are taken from another suite, if one has them"
    else
      tail -n 5 "$partial/apt/update.log" >&2
      die "cannot read the list of $suite from $1: run this again once the mirror answers"
    fi
  done
}

newest() { # PACKAGE SUITE: the version there, else in any suite, and says so
  local versions wanted any
  versions=$(apt apt-cache madison "$1")
  wanted=$(awk -v suite=" $2/" 'index($0, suite) { print $3; exit }' <<<"$versions")
  any=$(awk 'NF { print $3; exit }' <<<"$versions")
  [[ $wanted || ! $any ]] || say "$2 has no $1, taking $any of another suite" >&2
  echo "${wanted:-$any}"
}

newest_major() { # MAJOR: the newest JDK that is served above a version; empty if none is
  apt apt-cache pkgnames openjdk- | sed -n 's/^openjdk-\([0-9]*\)-jre-headless$/\1/p' |
    awk -v above="$1" '$1 > above && $1 > found { found = $1 } END { if (found) print found }'
}

download() { # PACKAGE VERSION: prints the file's path; complete files are not fetched again
  local log="$partial/apt/$1.log" file
  (cd "$partial/debs" && apt apt-get -q download "$1=$2") >"$log" 2>&1 || {
    tail -n 3 "$log" >&2
    die "cannot download $1 $2: run this again, it goes on where it stopped"
  }
  # apt writes a version's colon, of an epoch, as %3a.
  file=("$partial/debs/$1_${2//:/%3a}"_*.deb)
  echo "${file[0]}"
}

libc_needed() { # DEB...: the highest libc6 version that they depend on
  local deb
  for deb in "$@"; do
    dpkg-deb -f "$deb" Depends | grep -o 'libc6 (>= [^)]*' | sed 's/.*>= //'
  done | sort -V | tail -n 1
}

# Unpacks the oldest glibc of glibc_suites that is new enough; prints its folder.
private_glibc() { # WANTED
  local suite version deb dir tree
  for suite in "${glibc_suites[@]}"; do
    version=$(newest libc6 "$suite")
    dpkg --compare-versions "$version" ge "$1" && break
  done
  dpkg --compare-versions "$version" ge "$1" || die "no suite of ${glibc_suites[*]} has libc6 >= $1"
  dir="$jdks/.glibc/$version"
  if [[ ! -d $dir ]]; then
    deb=$(download libc6 "$version")
    tree="$partial/glibc"
    rm -rf "$tree"
    dpkg-deb -x "$deb" "$tree"
    mkdir -p "$jdks/.glibc"
    mv -T "$(dirname "$(find "$tree" -name libc.so.6 -print -quit)")" "$dir"
    rm -rf "$tree"
  fi
  echo "$dir"
}

# The changes are made one by one: patchelf 0.14 corrupts the search path when it
# makes several at once. DT_RPATH (not RUNPATH) also serves the libraries that a
# program loads; those with a RUNPATH of their own find glibc's parts loaded
# already, because every program is made to need them.
use_glibc() { # HOME GLIBC
  local file loader rpath lib
  while IFS= read -r -d '' file; do
    loader=$(patchelf --print-interpreter "$file" 2>/dev/null) || continue
    for lib in libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1; do
      patchelf --add-needed "$lib" "$file"
    done
    rpath=$(patchelf --print-rpath "$file")
    patchelf --force-rpath --set-rpath "${rpath:+$rpath:}$2" "$file"
    patchelf --set-interpreter "$2/$(basename "$loader")" "$file"
  done < <(find "$1" -type f -perm -u+x ! -name '*.so*' -print0)
}

# Debian keeps the configuration in /etc and links to it from the JDK's home.
own_configuration() { # TREE HOME
  local link target
  while IFS= read -r -d '' link; do
    target=$(readlink "$link")
    rm "$link" # even when its file is not packaged: not this machine's configuration
    [[ ! -e $1$target ]] || cp -p "$1$target" "$link"
  done < <(find "$2" -type l -lname '/etc/java-*' -print0)
}

unpack() { # MAJOR DEB...: prints the JDK's home in the partial folder
  local major=$1 tree="$partial/$1" home deb
  shift
  rm -rf "$tree"
  for deb in "$@"; do dpkg-deb -x "$deb" "$tree"; done
  home="$tree/usr/lib/jvm/java-$major-openjdk-$(dpkg --print-architecture)"
  own_configuration "$tree" "$home"
  rm -rf "$home/jmods" # as large as the rest, and only jlink reads them
  echo "$home"
}

# JDK 8 and 11 are packaged without a class data archive. It is made at the final
# place, whose path it records, and appears whole or not at all.
share_classes() { # HOME JAVA
  local dir archive
  dir=$(dirname "$(find "$1" -path '*/server/libjvm.so' -print -quit)")
  archive="$dir/classes.jsa"
  "$2" -XX:+UnlockDiagnosticVMOptions "-XX:SharedArchiveFile=$archive.partial" \
    -Xshare:dump >"$partial/dump.log" 2>&1 || die "-Xshare:dump failed, see $partial/dump.log"
  mv "$archive.partial" "$archive"
  shares_classes "$2" || die "$1 cannot map its class data archive $archive"
}

# appear puts a JDK in its place, whole: until its archive is made its launcher
# has another name. The JDK that was there is renamed, so that no one meets half
# of it.
appear() { # MAJOR HOME
  local home="$jdks/$1" old="$partial/$1.old"
  mv "$2/bin/java" "$2/bin/.java"
  rm -rf "$old"
  [[ ! -e $home ]] || mv -T "$home" "$old"
  mv -T "$2" "$home"
  shares_classes "$home/bin/.java" || share_classes "$home" "$home/bin/.java"
  mv "$home/bin/.java" "$home/bin/java"
  rm -rf "$old" "$jdks/.unserved/$1"
}

is_required() { [[ " ${required[*]} " == *" $1 "* ]]; }

# leave_out says that a JDK is no longer served, for the tests to know.
leave_out() { # MAJOR
  local why
  why="none of ${suites[*]} has openjdk-$1 for $(dpkg --print-architecture)"
  ! is_required "$1" || die "JDK $1 is required, and $why, see $partial/apt/update.log"
  mkdir -p "$jdks/.unserved"
  echo "$why" >"$jdks/.unserved/$1"
  say "$1: left out, with its tests: $why"
}

# one_newer takes the newest JDK that is served where none is there that is newer
# than those required.
one_newer() {
  local home major
  for home in "$jdks"/[1-9]*; do
    [[ ! -x $home/bin/java ]] || ((${home##*/} <= last_required)) || return 0
  done
  major=$(newest_major "$last_required")
  [[ $major ]] || die "none of ${suites[*]} has a JDK newer than $last_required, and one is required"
  install_jdk "$major" "$(served_version "$major")"
}

served_version() { # MAJOR: the version of its packages; empty if none is served
  newest "openjdk-$1-jre-headless" "$(suite_of "$1")"
}

install_jdk() { # MAJOR VERSION
  local major=$1 version=$2 debs package deb libc home glibc='' log="$partial/$1.log"
  debs=()
  for package in "openjdk-$major-jre-headless" "openjdk-$major-jdk-headless"; do
    deb=$(download "$package" "$version")
    debs+=("$deb")
  done
  home=$(unpack "$major" "${debs[@]}")
  libc=$(libc_needed "${debs[@]}")
  if dpkg --compare-versions "$(dpkg-query -W -f '${Version}' "libc6:$(dpkg --print-architecture)")" lt "$libc"; then
    need_patchelf
    glibc=$(private_glibc "$libc")
    use_glibc "$home" "$glibc"
  fi
  works "$major" "$home" || {
    "$home/bin/java" -version >"$log" 2>&1 || true
    tail -n 3 "$log" >&2
    die "JDK $major from ${debs[0]} does not run here, see $log"
  }
  appear "$major" "$home"
  rm -rf "${partial:?}/$major" "${debs[@]}"
  say "$major: $(java_version "$jdks/$major") from Debian $version${glibc:+, with glibc ${glibc##*/}}: $jdks/$major"
}

main() {
  local major version missing=() wanted=("$@")
  [[ ${#wanted[@]} -gt 0 ]] || wanted=("${all_majors[@]}")
  # Who names versions needs them.
  (($# == 0)) || required=("$@")
  for major in "${wanted[@]}"; do
    [[ $major =~ ^[1-9][0-9]?$ ]] || die "no major version: $major. Usage: scripts/jdks.sh [MAJOR...]"
  done
  need_tools
  mkdir -p "$partial"
  exec 9>"$jdks/.lock"
  flock -n 9 || { say "another run is at work on $jdks, waiting for it"; flock 9; }
  for major in "${wanted[@]}"; do
    if works "$major" "$jdks/$major"; then
      shares_classes "$jdks/$major/bin/java" || share_classes "$jdks/$major" "$jdks/$major/bin/java"
      say "$major: $(java_version "$jdks/$major") is there: $jdks/$major"
    else
      missing+=("$major")
    fi
  done
  if [[ ${#missing[@]} -gt 0 ]]; then
    read_lists
    for major in "${missing[@]}"; do
      version=$(served_version "$major")
      if [[ $version ]]; then
        install_jdk "$major" "$version"
      else
        leave_out "$major"
      fi
    done
    [[ $# -gt 0 ]] || one_newer
  fi
  rm -rf "$partial"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"

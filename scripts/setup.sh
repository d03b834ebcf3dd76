# SPDX-License-Identifier: BSD-3-Clause
#
# Shared by ./demo and ./check (sourced by bash, in the top folder): packages, and a configured build out of the tree.
# shellcheck shell=bash

say() { printf '\n== %s\n' "$*"; }
run() { printf '+ %s\n' "$*"; "$@"; }

lists_updated='' # apt's lists of packages, once a run
# need WHAT:PACKAGE...: installs the Debian packages of what is missing. WHAT is a command, or a file if it has a slash.
need() {
    local item what missing=() packages=() sudo=()
    for item in "$@"; do
        what=${item%%:*}
        case $what in
        */*) [ -e "$what" ] || { missing+=("$what"); packages+=("${item#*:}"); } ;;
        *) command -v "$what" >/dev/null 2>&1 || { missing+=("$what"); packages+=("${item#*:}"); } ;;
        esac
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "missing: ${missing[*]}"
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "There is no apt-get here; please install the counterparts of the Debian packages: ${packages[*]}"
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "Neither root nor sudo; please have installed: ${packages[*]}"
            return 0
        fi
        sudo=(sudo)
    fi
    if [ -z "$lists_updated" ]; then
        run "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update || echo "apt-get update failed; trying on"
        lists_updated=yes
    fi
    run "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${packages[@]}"
}

tools_of_the_build=(gcc:gcc g++:g++ /usr/include/stdio.h:libc6-dev make:make autoconf:autoconf automake:automake
    libtoolize:libtool pkg-config:pkg-config pgrep:procps)

# configure_made SOURCE: makes the script configure there, unless it is newer than what it is made of.
configure_made() {
    [ -x "$1/configure" ] && ! [ "$1/configure.ac" -nt "$1/configure" ] && return 0
    (cd "$1" && run autoreconf -i)
}

# configured_tree BUILD_DIR CONFIGURE_ARGUMENT...: configures there, anew only if the arguments or the sources of
# configure changed. A tree that was configured in place cannot be built elsewhere as well: then a copy of it is.
configured_tree() {
    local dir=$1 source=$PWD shell=()
    shift
    if [ -e config.status ]; then
        source=$PWD/build/source
        say "this tree is configured in place; building a copy of its sources in build/source"
        if ! git rev-parse --git-dir >/dev/null 2>&1; then
            echo "Which files are sources, only git could tell; please run: make distclean"
            return 1
        fi
        mkdir -p "$source"
        git ls-files -z --cached --others --exclude-standard |
            tar --null -T - --ignore-failed-read -cf - | tar -xf - -C "$source" || return 1
    fi
    configure_made "$source" || return 1
    mkdir -p "$dir"
    if [ "$source $*" != "$(cat "$dir/configured" 2>/dev/null)" ] || [ "$source/configure" -nt "$dir/Makefile" ]; then
        # Its own choice is bash, in which libtool, a script that is started for each object, takes half as long again.
        [ ! -x /bin/dash ] || shell=(CONFIG_SHELL=/bin/dash)
        (cd "$dir" && run env "${shell[@]}" "$source/configure" --quiet "$@") || return 1
        # It would be older than its stamp, and each make would begin all that depends on it after all that does not.
        [ "$dir/config.h" -ot "$dir/config.status" ] || touch -r "$dir/config.h" "$dir/stamp-h1"
        echo "$source $*" >"$dir/configured"
    fi
}

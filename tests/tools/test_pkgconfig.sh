#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Flags by pkg-config for who builds against Selvage: they need no .pc file of anything that Selvage uses itself.
set -u
top_builddir=$(cd "${top_builddir:-.}" && pwd)
command -v pkg-config >/dev/null 2>&1 || { echo "no pkg-config"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cp "$top_builddir/selvage.pc" "$dir" || exit 1
for what in --cflags --libs "--static --libs"; do
    # shellcheck disable=SC2086  # a list of words
    if ! flags=$(PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR="$dir" pkg-config $what selvage); then
        echo "FAIL: pkg-config $what selvage"
        exit 1
    fi
    echo "$what: $flags"
done
case $flags in
*-lselvage*) ;;
*) echo "FAIL: no -lselvage"; exit 1 ;;
esac

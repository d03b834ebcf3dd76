#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Bad input to the lattice example: cut, padded, damaged and foreign files, wrong references, grids that do not fit.
# Each must end on all ranks with one message that names the file and the fault; never in a hang, never in a table.
name=plaquette
unset SELVAGE_LATTICE
. "$(dirname "$0")/../fixtures/application_runs.sh"

# run RANKS ARGUMENT...: leaves the output in $work/out and the status in $status.
run() {
    local ranks=$1
    shift
    runs=$((runs + 1))
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$example" "$@" >"$work/out" 2>&1
    status=$?
}

# refused RANKS STATUS TEXT ARGUMENT...: one rank says TEXT, once, and no result is printed.
refused() {
    local ranks=$1 wanted=$2 text=$3
    shift 3
    run "$ranks" "$@"
    [ "$status" -eq "$wanted" ] || fail "status $status, wanted $wanted: $*"
    [ "$(grep -c '^plaquette: ' "$work/out")" -eq 1 ] || fail "not one message: $*"
    grep '^plaquette: ' "$work/out" | grep -q -- "$text" || fail "message without '$text': $*"
    ! grep -q 'computed' "$work/out" || fail "a table all the same: $*"
}

# bad NAME TEXT: the file $work/NAME is refused with a message that names it. With BRIEF half of the files are tried.
some=3
case ${BRIEF:-} in
cases) some=1 ;;
yes) some=2 ;;
esac
bad() {
    alike refused "$some" 1 "^plaquette: $work/$1: .*$2" --lattice "$work/$1"
}

# patch NAME OFFSET BYTES: a copy of the good file, with some bytes overwritten (printf escapes).
patch() {
    cp "$work/good" "$work/$1"
    # shellcheck disable=SC2059  # the bytes are a format
    printf "$3" | dd of="$work/$1" bs=1 seek="$2" conv=notrunc status=none
}

# copy NAME BYTES: the first BYTES bytes of the good file.
copy() { head -c "$2" "$work/good" >"$work/$1"; }

run 1 --write "$work/good" --extent 4x4x4x6
[ "$status" -eq 0 ] || { fail "cannot write"; exit 1; }
bytes=$(stat -c %s "$work/good")
[ "$bytes" -eq $((96 + 4 * 4 * 4 * 6 * 288)) ] || fail "wrote $bytes bytes"
run 3 --lattice "$work/good"
[ "$status" -eq 0 ] || fail "the good file is refused"

bad missing "No such file"
mkdir "$work/folder"
bad folder "directory"
copy empty 0
bad empty "truncated: ends at byte 0"
copy short_header 50
bad short_header "truncated: ends at byte 50"
copy header_only 96
bad header_only "truncated: 96 bytes"
copy cut_by_one $((bytes - 1))
bad cut_by_one "truncated: $((bytes - 1)) bytes"
copy half $((bytes / 2))
bad half "truncated"
cp "$work/good" "$work/longer"
printf 'x' >>"$work/longer"
bad longer "too long"
patch magic 0 '\1\2\3\4'
bad magic "not a MILC version-5 lattice: magic number"
patch zero_extent 4 '\0\0\0\0'
bad zero_extent "nx is 0"
patch negative_extent 16 '\377\377\377\377'
bad negative_extent "nt is -1"
patch huge_extent 8 '\377\377\377\177'
bad huge_extent "ny is 2147483"
patch other_extent 12 '\10\0\0\0'
bad other_extent "truncated\|nz is"
patch order 84 '\1\0\0\0'
bad order "site order"
patch sum29 88 '\125\252\125\252'
bad sum29 "corrupt: the header's checksums"
patch first_word 96 '\125\252\125\252'
bad first_word "corrupt"
patch middle_word $((bytes / 2)) '\125'
bad middle_word "corrupt"
patch last_byte $((bytes - 1)) '\125'
bad last_byte "corrupt"

# References.
refused 2 1 "$work/nowhere: no such file" --lattice "$work/good" --info "$work/nowhere"
printf 'gauge.ssplaq = 1.5\ngauge.stplaq = abc\n' >"$work/partial.info"
refused 2 1 "partial.info: no number for gauge.stplaq" --lattice "$work/good" --info "$work/partial.info"
printf 'gauge.ssplaq = 1.5\ngauge.stplaq = 1.5\ngauge.nersc_linktr = 0.0\n' >"$work/wrong.info"
run 2 --lattice "$work/good" --info "$work/wrong.info"
[ "$status" -eq 1 ] || fail "wrong reference: status $status"
[ "$(grep -c 'WRONG$' "$work/out")" -ge 2 ] || fail "wrong reference: not marked"
grep -q '^plaquette: . of 3 values differ' "$work/out" || fail "wrong reference: no message"

# Grids and options.
refused 3 1 "grid: 2x1x1x1 is 2 ranks, but there are 3" --lattice "$work/good" --grid 2x1x1x1
refused 5 1 "grid: 5 ranks cannot share 4 sites in direction x" --lattice "$work/good" --grid 5x1x1x1
run 1 --write "$work/small" --extent 2x2x2x2
refused 3 1 "cannot be divided among 3 ranks" --lattice "$work/small"
refused 2 2 "no lattice" --route peer
refused 2 2 "no such option: --lettice" --lettice "$work/good"
refused 2 2 "lattice needs a value" --lattice
refused 2 2 "grid cannot be 2x1x1" --lattice "$work/good" --grid 2x1x1
refused 2 2 "extent cannot be 0x2x2x2" --write "$work/x" --extent 0x2x2x2
refused 2 2 "route cannot be pigeon" --lattice "$work/good" --route pigeon
refused 2 1 "$work/folder/no/x: No such file" --write "$work/folder/no/x"

echo "test_lattice_files: $runs runs, $failed failed"
[ "$failed" -eq 0 ]

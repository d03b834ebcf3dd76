#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# selvage-info with and without a launcher, without MPI, as text and as JSON: every setting and its source, the routes
# of whole and divided nodes and of forced ones, devices that are not here, and settings that are refused.
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=${top_builddir:-.}
info=$top_builddir/tools/selvage-info
python=${PYTHON:-python3}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -x "$info" ] || { echo "SKIP: $info is not built"; exit 77; }
unset SELVAGE_MPI_KIND
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export SELVAGE_DEVICE=soft
runs=0 failed=0

fail() {
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out" "$work/err"
    failed=$((failed + 1))
}

# alone WANTED_STATUS ARGUMENT...: no launcher. under RANKS WANTED_STATUS ARGUMENT...: with one.
alone() {
    local status=$1 got
    shift
    runs=$((runs + 1))
    timeout -k 5 240 "$info" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ "$got" = "$status" ] || fail "status $got, wanted $status: $*"
}
under() {
    local ranks=$1 status=$2 got
    shift 2
    runs=$((runs + 1))
    "$top_srcdir/scripts/run-mpi" -n "$ranks" -t 240 "$info" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$status" ] || fail "status $got on $ranks ranks, wanted $status: $*"
}
says() { grep -q -- "$1" "$work/out" || fail "does not say '$1'"; }
quiet() { [ ! -s "$work/err" ] || fail "something on standard error"; }

# json EXPRESSION: the last output parses, and the Python expression over it is true.
json() {
    "$python" -c 'import json, sys
run = json.load(open(sys.argv[1]))
settings = {row["name"]: row for row in run["settings"]}
routes = {(row["from"], row["to"]): row["route"] for row in run.get("routes", [])}
assert eval(sys.argv[2]), sys.argv[2]' "$work/out" "$1" || fail "JSON: $1"
}

# Four ranks on two GPUs; GPUs that cannot reach each other; and a mask per rank, under which every GPU has number 0.
pretended_gpus() {
    # shellcheck disable=SC2016 # the shells of the ranks expand it
    local numbers='${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-none}}'
    export SELVAGE_DEVICE=amd SELVAGE_DEVICE_PATH=$top_builddir/tests/fixtures/.libs
    FAKE_GPUS=2 under 4 0
    says 'GPU 0000:c0:00.0 of .* is shared by 2 ranks (0, 2)'
    says 'GPU 0000:c1:00.0 of .* is shared by 2 ranks (1, 3)'
    says '^  shared  *12 pairs: ranks of one node that cannot map'
    FAKE_GPUS=4 FAKE_GPU_APART=1 under 3 0
    ! grep -q 'is shared by' "$work/out" || fail "nothing is shared"
    says '^     1     no    yes     no$'
    says '^     2    yes     no    yes$'
    says '^  shared  *4 pairs: ranks of one node whose devices cannot reach each other$'
    FAKE_GPUS=2 under 3 0 --json
    json '[m["gpu_ranks"] for m in run["members"]] == [2, 1, 2]'
    runs=$((runs + 1))
    "$top_srcdir/scripts/run-mpi" -n 3 -t 240 \
        bash -c "FAKE_GPUS=1 FAKE_GPU_FIRST=$numbers exec \"\$0\" --json" "$info" \
        >"$work/out" 2>"$work/err" || fail "masked"
    json '([(m["index"], m["bus_id"], m["gpu_ranks"]) for m in run["members"]] ==
          [(0, "0000:c%d:00.0" % i, 1) for i in range(3)])'
    json 'all(row["possible"] is (True if row["from"] == row["to"] else None) for row in run["peer_access"])'
    export SELVAGE_DEVICE=soft
    unset SELVAGE_DEVICE_PATH
}

# Every row of the table is shown, by --settings without MPI.
alone 0 --settings
quiet
variables=$(sed -n 's/^ *X(\([A-Z0-9_]*\), .*/SELVAGE_\1/p' "$top_srcdir/lib/base/base_config_table.h")
[ "$(echo "$variables" | wc -w)" -gt 20 ] || fail "the table was not found"
for variable in $variables; do says "^$variable "; done
says '^SELVAGE_DEVICE  *soft  *environment'
says '^SELVAGE_RETRY_MAX  *5  *default  *0..100'
! grep -q 'routes' "$work/out" || fail "--settings says more"
SELVAGE_RETRY_MAX=9 alone 0 --settings --json
json 'settings["SELVAGE_RETRY_MAX"]["value"] == "9" and settings["SELVAGE_RETRY_MAX"]["source"] == "environment"'
json 'settings["SELVAGE_RETRY_MAX"]["default"] == "5" and settings["SELVAGE_RETRY_MAX"]["range"] == "0..100"'
json 'settings["SELVAGE_TRACE"]["value"] == "" and all(row["text"] for row in run["settings"])'
json "len(settings) == $(echo "$variables" | wc -w) and run['settings_error'] is None and 'mpi' not in run"
SELVAGE_RETRY_MAX=many alone 1 --settings
says 'SELVAGE_RETRY_MAX is "many"; wanted a whole number in 0..100'
SELVAGE_CHEKSUM=off alone 1 --settings --json
json '"SELVAGE_CHEKSUM" in run["settings_error"] and run["settings"] == []'

# One rank, without a launcher.
alone 0
quiet
says "^selvage-info $(cat "$top_srcdir/VERSION")\$"
says '^build .*plug-ins in /'
says '^MPI .*MPI_THREAD_'
says '^wire  *mpi (SELVAGE_WIRE is auto'
says '^job  *1 rank on 1 host'
says '^  soft  *1 here, chosen'
says '^     0  .* soft '
says '^  self  *1 pair:  a rank to itself'
says '^settings that were set$'
says '^  SELVAGE_DEVICE  *soft  *default auto '
! grep -q 'SELVAGE_RETRY_MAX' "$work/out" || fail "settings are shown that were not set"
says '^  [0-9]* of [0-9]* settings have their default; --settings shows all$'
for file in "--json $work/json" "--json=$work/json"; do
    rm -f "$work/json"
    # shellcheck disable=SC2086 # words
    alone 0 $file
    says '^  SELVAGE_DEVICE '
    cp "$work/json" "$work/out"
    json 'run["ok"] and len(run["settings"]) > 20'
done
alone 1 --json "$work/nowhere/json"
alone 2 --json "$work/json" word
tail -n 1 "$work/err" | grep -q "^selvage-info: unexpected argument 'word'\$" || fail "the reason is not the last line"

# Over UCX, where this build has it, and the machine libucp.
if grep -q '^build .*UCX yes' "$work/out" &&
    ! SELVAGE_WIRE=ucx "$info" 2>&1 | grep -q 'libucp.so.0: cannot open shared object'; then
    SELVAGE_WIRE=ucx alone 0
    says '^wire  *ucx [0-9.]*, by [a-z].*/.* (SELVAGE_WIRE asks for it)'
fi

# Four ranks: the matrix, and its reasons.
under 4 0
says '^     0   self   peer   peer   peer$'
says '^     3   peer   peer   peer   self$'
says '^  peer  *12 pairs: ranks of one node'
says '^     3    yes    yes    yes    yes$'
! grep -q 'is shared by' "$work/out" || fail "software devices are shared"
[ "$(grep -c '^selvage-info' "$work/out")" -eq 1 ] || fail "more than one rank prints"
SELVAGE_RANKS_PER_NODE=2 under 4 0 --json
json 'run["ok"] and run["ranks"] == 4 and len(run["members"]) == 4 and len(routes) == 16'
json 'routes[0, 1] == "peer" and routes[1, 2] == "staged" and routes[3, 3] == "self"'
json '({row["why"] for row in run["routes"] if row["route"] == "staged"} ==
      {"ranks of one host on different virtual nodes: SELVAGE_RANKS_PER_NODE"})'
json 'len(run["peer_access"]) == 16 and all(row["possible"] and row["same_host"] for row in run["peer_access"])'
json 'all(m["gpu_ranks"] is None for m in run["members"])'
json 'all(m["device"] == "soft" and m["host"] and m["cores"] and m["error"] is None for m in run["members"])'
json 'run["wire"].startswith("mpi ")'
json 'run["mpi"]["thread_level"].startswith("MPI_THREAD_") and run["version"] and "hwloc" in run["build"]'
SELVAGE_ROUTE=shared under 2 0 --json
json 'routes[0, 1] == "shared" and run["routes"][1]["why"] == "SELVAGE_ROUTE asks for it"'
SELVAGE_ROUTE=staged under 2 0
says '^     0 staged staged$'
SELVAGE_DEVICE=soft SELVAGE_DIRECT=probe SELVAGE_RANKS_PER_NODE=1 under 2 0 --json
json 'routes[0, 1] == "direct" and "a probe of device memory" in run["routes"][1]["why"]'
SELVAGE_DEVICE=soft SELVAGE_ROUTE=direct under 2 0
says '^     0   self direct$'
SELVAGE_PROGRESS=thread under 2 0
says '^MPI .*MPI_THREAD_MULTIPLE'
under 18 0
says 'the first ranks only'
says 'and 2 more'
says '^    15 '

# Devices that are not here, and one that is, but not chosen.
SELVAGE_DEVICE_PATH=$work alone 0 --json
json '[d["count"] for d in run["devices"]] == [0, 0, 1]'
json 'all("selvage-device-" in d["why_not"] for d in run["devices"][:2])'
if [ -e "$top_builddir/tests/fixtures/.libs/selvage-device-amd.so" ]; then
    SELVAGE_DEVICE_PATH=$top_builddir/tests/fixtures/.libs FAKE_GPUS=3 alone 0
    says '^  amd  *3 here$'
    says '^  nvidia  *not here: .*selvage-device-nvidia.so'
    SELVAGE_DEVICE_PATH=$top_builddir/tests/fixtures/.libs FAKE_GPUS=0 alone 0
    says '^  amd  *not here: device amd: the driver shows no GPU'
    pretended_gpus
fi

# A build without a plug-in says so, with the option that left it out; a folder without it is named first.
if ! grep -q '^#define SELVAGE_NO_CUDA_TEXT ""' "$top_builddir/config.h"; then
    alone 0
    says '^  nvidia  *not here: device nvidia: this build has no NVIDIA plug-in (configured --with-cuda='
    SELVAGE_DEVICE_PATH=$work alone 0
    says "^  nvidia .*there is no $work/selvage-device-nvidia.so, and this build has no NVIDIA plug-in (configured"
fi

# A job that does not work is reported all the same.
SELVAGE_DEVICE=nvidia SELVAGE_DEVICE_PATH=$work under 2 1
says '^     1  .*no device: SELVAGE_ERR_UNSUPPORTED: .*selvage-device-nvidia.so'
says 'routes are not known: no communicator was made'
says '^  SELVAGE_DEVICE  *nvidia  *default auto'
SELVAGE_DEVICE=nvidia SELVAGE_DEVICE_PATH=$work alone 1 --json
json 'not run["ok"] and run["members"][0]["device"] is None and "ERR_UNSUPPORTED" in run["members"][0]["error"]'
SELVAGE_TIMEOUT_S=soon under 2 1
says 'SELVAGE_TIMEOUT_S is "soon"'

under 2 2 --fast
grep -q '^usage: ' "$work/err" || fail "no usage"
grep -q "^selvage-info: unknown or incomplete option '--fast'" "$work/err" || fail "names no bad option"
alone 2 word
under 2 0 --version
[ "$(cat "$work/out")" = "selvage-info $(cat "$top_srcdir/VERSION")" ] || fail "version"
alone 0 --help
says '^usage: '

echo "test_info: $runs runs, $failed failed"
[ "$failed" -eq 0 ]

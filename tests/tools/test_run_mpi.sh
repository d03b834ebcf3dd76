#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The launcher script keeps its promises: it passes the exit status on, ends what takes too long, hides the variable of
# the scripts and shows the others, and tells of (and ends) a process that was left behind.
set -u
[ -n "${MPIRUN:-}" ] || { echo "no mpirun"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
launch=$top_srcdir/scripts/run-mpi
failed=0
expect() { # WHAT WANTED GOT
    if [ "$2" != "$3" ]; then echo "$1: wanted $2, got $3"; failed=1; fi
}

"$launch" -n 2 /bin/true
expect "exit status of success" 0 $?
# On a crowded machine MPICH's launcher may itself end by a broken pipe (141) when its program is gone so soon.
for _ in 1 2 3; do
    "$launch" -n 1 /bin/sh -c 'exit 3' >"$dir/out" 2>&1
    status=$?
    [ "$status" -eq 141 ] || break
done
expect "exit status of failure" 3 "$status"

"$launch" -n 2 -t 1 /bin/sleep 30 >"$dir/out" 2>&1
expect "exit status at the time limit" 124 $?
grep -q 'still running after 1 s' "$dir/out" || { echo "the time limit is not reported"; failed=1; }

for _ in 1 2 3; do # as above: then nothing is printed
    seen=$(SELVAGE_LOG=info "$launch" -n 1 /bin/sh -c 'echo "$SELVAGE_LOG,${SELVAGE_MPI_KIND-hidden}"')
    [ -z "$seen" ] || break
done
expect "environment" "info,hidden" "$seen"

# The leftover lets go of what it inherited: MPICH's launcher would wait for it otherwise, up to the time limit.
cat >"$dir/leave" <<'END'
#!/bin/bash
(for fd in {3..63}; do eval "exec $fd>&-"; done; exec setsid sleep 61) </dev/null >/dev/null 2>&1 &
sleep 0.3
END
chmod +x "$dir/leave"
"$launch" -n 1 -t 20 "$dir/leave" >"$dir/out" 2>&1
expect "exit status with a process left behind" 1 $?
if ! grep -q '1 processes of .* left behind' "$dir/out"; then
    echo "the leftover is not reported:"
    cat "$dir/out"
    failed=1
fi
exit "$failed"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Settings are the user's, and a program with more rights than its user must not follow them: a set-user-id copy of
# tests/unit/secure_settings is run by another user, with a plug-in of his in SELVAGE_DEVICE_PATH, which says when it is
# loaded.
set -u
top_builddir=$(cd "${top_builddir:-.}" && pwd)
[ -z "${SANITIZER:-}" ] || { echo "sanitizers have their own idea of such programs"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "only root can make such a program"; exit 77; }
command -v setpriv >/dev/null || { echo "no setpriv"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
program=$top_builddir/tests/unit/secure_settings
[ ! -x "$top_builddir/tests/unit/.libs/secure_settings" ] || program=$top_builddir/tests/unit/.libs/secure_settings

mkdir "$dir/plugins"
cat >"$dir/plugin.c" <<'END'
#include <unistd.h>
__attribute__((constructor)) static void speak(void)
{
    if (write(1, "code of the caller was loaded\n", 30) != 30)
        _exit(3);
}
END
for make in nvidia amd; do
    ${CC:-cc} -shared -fPIC -o "$dir/plugins/selvage-device-$make.so" "$dir/plugin.c" || exit 1
done
cp "$program" "$dir/program" && chown root "$dir/program" && chmod 4755 "$dir/program" || exit 1

# as_nobody PROGRAM: with an environment that is not his
as_nobody() {
    env SELVAGE_DEVICE_PATH="$dir/plugins" SELVAGE_TRACE="$dir/trace" SELVAGE_FLIGHT_FILE="$dir/flight" \
        SELVAGE_NO_SUCH_THING=1 OMPI_COMM_WORLD_LOCAL_RANK=3 ROCPROF_MARKER_API_TRACE=1 \
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

as_nobody "$dir/program" >"$dir/out" 2>&1
status=$?
cat "$dir/out"
if grep -q "code of the caller was loaded" "$dir/out"; then
    echo "FAIL: a plug-in of the caller was loaded"
    exit 1
fi
exit "$status"

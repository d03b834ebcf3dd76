#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The kernels were compiled for GPUs, where the build found compilers for them: each file is device code of the right
# kind and holds at least one kernel.
set -u
if [ -z "${HIP_CLANG:-}" ] && [ -z "${NVCC:-}" ]; then
    echo "no compiler of device code in this build"
    exit 77
fi
command -v readelf >/dev/null 2>&1 || { echo "no readelf"; exit 77; }
failed=0 count=0
for kernel in $device_kernels; do
    file=$top_builddir/$kernel
    case $kernel in
    *.cubin) machine='CUDA' entry='\.text\.[A-Za-z_]' ;;
    *) machine='AMD GPU' entry='\.kd$' ;;
    esac
    header=$(readelf -hW "$file" 2>&1)
    contents=$(readelf -sSW "$file" 2>/dev/null)
    if ! grep -q "Machine:.*$machine" <<<"$header"; then
        echo "$kernel: no code for $machine: $(grep Machine <<<"$header")"
        failed=1
    elif ! grep -qE "$entry" <<<"$contents"; then
        echo "$kernel: holds no kernel"
        failed=1
    fi
    count=$((count + 1))
done
echo "$count files of device code"
[ "$count" -gt 0 ] || failed=1
exit "$failed"

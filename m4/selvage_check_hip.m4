dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl SELVAGE_CHECK_HIP: a compiler that turns the kernels into code objects for AMD GPUs: any clang with the AMDGPU
dnl backend, its linker, and no HIP installation at all. PATH is such a compiler or a ROCm prefix.
dnl Sets HIP_CLANG and the conditional HAVE_HIP_COMPILER.

# _SELVAGE_HIP_TRY(COMPILER): sets HIP_CLANG if COMPILER builds a code object for gfx942 and for gfx90a.
AC_DEFUN([_SELVAGE_HIP_TRY], [
  selvage_hip_try=`command -v $1 2>/dev/null`
  AS_IF([test -z "$HIP_CLANG" && test -n "$selvage_hip_try"], [
    selvage_hip_works=yes
    printf '__attribute__((global)) void k(unsigned *p) { *p = 1; }\n' >conftest.hip
    for selvage_arch in gfx90a gfx942; do
      "$selvage_hip_try" -x hip --offload-arch=$selvage_arch --offload-device-only --no-gpu-bundle-output \
        -nogpulib -nogpuinc -O1 conftest.hip -o conftest.co >&AS_MESSAGE_LOG_FD 2>&1 || selvage_hip_works=no
    done
    rm -f conftest.hip conftest.co
    AS_VAR_IF([selvage_hip_works], [yes], [HIP_CLANG=$selvage_hip_try])
  ])
])

AC_DEFUN([SELVAGE_CHECK_HIP], [
  AC_ARG_WITH([hip],
    [AS_HELP_STRING([--with-hip=yes|no|auto|PATH], [kernels for AMD GPUs: a clang or a ROCm prefix (auto)])],
    [], [with_hip=auto])
  HIP_CLANG=
  AC_MSG_CHECKING([for a compiler of AMD device code])
  AS_CASE([$with_hip],
    [no], [],
    [yes|auto], [
      for selvage_name in amdclang++ /opt/rocm/llvm/bin/clang++ clang++-19 clang++-20 clang++-18 clang++; do
        _SELVAGE_HIP_TRY([$selvage_name])
      done],
    [for selvage_name in "$with_hip" "$with_hip/llvm/bin/clang++" "$with_hip/bin/clang++"; do
       AS_IF([test ! -d "$selvage_name"], [_SELVAGE_HIP_TRY(["$selvage_name"])])
     done])
  AC_MSG_RESULT([${HIP_CLANG:-none}])
  AS_CASE([$with_hip:$HIP_CLANG],
    [no:*|auto:*|*:?*], [],
    [AC_MSG_ERROR([--with-hip=$with_hip: none there builds for gfx90a and gfx942 (Debian: clang-19, lld-19)])])
  selvage_hip_summary="${HIP_CLANG:-no}"
  AC_SUBST([HIP_CLANG])
  AM_CONDITIONAL([HAVE_HIP_COMPILER], [test -n "$HIP_CLANG"])
  AC_SUBST([SELVAGE_WITH_HIP], [$with_hip])
])

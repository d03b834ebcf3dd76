dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl SELVAGE_CHECK_HIP: what the AMD device needs. PATH is a compiler or a ROCm prefix. auto builds nothing for these
dnl GPUs unless both are there, and says what is missing; compiler is content with the first, for tests of the code:
dnl - A compiler that turns the kernels into code objects for AMD GPUs: a clang with that backend and its linker;
dnl   it needs no HIP. Sets HIP_CLANG, HIP_ARCHS and the conditional HAVE_HIP_COMPILER.
dnl - HIP's headers and libamdhip64, for the C compiler. Sets HIP_CPPFLAGS, HIP_LIBS, HIP_SOVERSION (the number in the
dnl   library's soname) and the conditional HAVE_HIP_RUNTIME, which is true only if there is a compiler as well.

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

# _SELVAGE_HIP_RUNTIME(CPPFLAGS, LIBS): sets HIP_SOVERSION, HIP_CPPFLAGS and HIP_LIBS if a program links with them.
AC_DEFUN([_SELVAGE_HIP_RUNTIME], [
  selvage_save_CPPFLAGS=$CPPFLAGS
  selvage_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $1"
  LIBS="$2 $LIBS"
  AS_IF([test -z "$HIP_SOVERSION"], [
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hip/hip_runtime_api.h>]], [[return (int)hipGetLastError();]])], [
      selvage_soname=`readelf -d conftest$EXEEXT 2>/dev/null |
        sed -n 's/.*(NEEDED).*libamdhip64\.so\.\(@<:@0-9@:>@*\).*/\1/p'`
      AS_IF([test -n "$selvage_soname"], [
        HIP_SOVERSION=$selvage_soname
        HIP_CPPFLAGS="$1"
        HIP_LIBS="$2"])])])
  CPPFLAGS=$selvage_save_CPPFLAGS
  LIBS=$selvage_save_LIBS
])

AC_DEFUN([SELVAGE_CHECK_HIP], [
  AC_ARG_WITH([hip],
    [AS_HELP_STRING([--with-hip=yes|no|auto|compiler|PATH],
      [the AMD device and its kernels: a clang or a ROCm prefix; compiler: the kernels also without HIP (auto)])],
    [], [with_hip=auto])
  AC_ARG_WITH([hip-archs],
    [AS_HELP_STRING([--with-hip-archs=LIST], [AMD architectures to compile for (gfx90a,gfx942)])],
    [], [with_hip_archs=gfx90a,gfx942])
  HIP_ARCHS=`echo "$with_hip_archs" | tr , ' '`
  AS_IF([test -z "$HIP_ARCHS"], [AC_MSG_ERROR([--with-hip-archs=$with_hip_archs: names none])])
  for selvage_arch in $HIP_ARCHS; do
    AS_CASE([$selvage_arch], [gfx90a|gfx942], [],
      [AC_MSG_ERROR([--with-hip-archs=$with_hip_archs: gfx90a, gfx942, or both])])
  done
  AC_SUBST([HIP_ARCHS])
  HIP_CLANG=
  AC_MSG_CHECKING([for a compiler of AMD device code])
  AS_CASE([$with_hip],
    [no], [],
    [yes|auto|compiler], [
      for selvage_name in amdclang++ /opt/rocm/llvm/bin/clang++ clang++-19 clang++-20 clang++-18 clang++; do
        _SELVAGE_HIP_TRY([$selvage_name])
      done],
    [for selvage_name in "$with_hip" "$with_hip/llvm/bin/clang++" "$with_hip/bin/clang++"; do
       AS_IF([test ! -d "$selvage_name"], [_SELVAGE_HIP_TRY(["$selvage_name"])])
     done])
  AC_MSG_RESULT([${HIP_CLANG:-none}])
  AS_CASE([$with_hip:$HIP_CLANG],
    [no:*|auto:*|compiler:*|*:?*], [],
    [AC_MSG_ERROR([--with-hip=$with_hip: none there builds for gfx90a and gfx942 (Debian: clang-19, lld-19)])])
  HIP_SOVERSION=
  HIP_CPPFLAGS=
  HIP_LIBS=
  AC_MSG_CHECKING([for the HIP runtime])
  AS_IF([test -n "$HIP_CLANG"], [
    selvage_platform=-D__HIP_PLATFORM_AMD__
    for selvage_name in "$with_hip" /opt/rocm; do
      AS_IF([test -e "$selvage_name/include/hip/hip_runtime_api.h"], [
        _SELVAGE_HIP_RUNTIME([$selvage_platform -isystem $selvage_name/include],
          [-L$selvage_name/lib -Wl,-rpath,$selvage_name/lib -lamdhip64])])
    done
    _SELVAGE_HIP_RUNTIME([$selvage_platform], [-lamdhip64])])
  AC_MSG_RESULT([${HIP_SOVERSION:+libamdhip64.so.}${HIP_SOVERSION:-no}])
  AS_CASE([$with_hip:$HIP_SOVERSION],
    [no:*|auto:*|compiler:*|*:?*], [],
    [AC_MSG_ERROR([--with-hip=$with_hip: hip/hip_runtime_api.h or libamdhip64 is missing (Debian: libamdhip64-dev)])])
  selvage_hip_missing="there is no compiler of AMD device code"
  AS_IF([test -n "$HIP_CLANG"],
    [selvage_hip_missing="$HIP_CLANG, but no HIP runtime with headers"
     AS_CASE([$with_hip:$HIP_SOVERSION], [auto:], [HIP_CLANG=])])
  AS_IF([test -n "$HIP_CLANG"], [selvage_hip_summary="$HIP_CLANG, architectures $with_hip_archs"],
    [test "$with_hip" = no], [selvage_hip_summary=no], [selvage_hip_summary="no: $selvage_hip_missing"])
  selvage_amd_summary="no"
  AS_IF([test -n "$HIP_SOVERSION"], [selvage_amd_summary="plug-in for libamdhip64.so.$HIP_SOVERSION"])
  AC_SUBST([HIP_CLANG])
  AC_SUBST([HIP_CPPFLAGS])
  AC_SUBST([HIP_LIBS])
  AC_SUBST([HIP_SOVERSION])
  AM_CONDITIONAL([HAVE_HIP_RUNTIME], [test -n "$HIP_SOVERSION"])
  AM_CONDITIONAL([HAVE_HIP_COMPILER], [test -n "$HIP_CLANG"])
  AC_SUBST([SELVAGE_WITH_HIP], [$with_hip])
  AC_SUBST([SELVAGE_WITH_HIP_ARCHS], [$with_hip_archs])
])

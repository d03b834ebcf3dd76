dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl SELVAGE_CHECK_HWLOC: hwloc tells which cores, GPUs and NICs lie close together; without it the order is the
dnl system's. Sets HAVE_HWLOC (0 or 1), HWLOC_CFLAGS and HWLOC_LIBS.

AC_DEFUN([SELVAGE_CHECK_HWLOC], [
  AC_ARG_WITH([hwloc],
    [AS_HELP_STRING([--with-hwloc=yes|no|auto|PATH], [locality of cores and devices by hwloc (auto)])],
    [], [with_hwloc=auto])
  selvage_have_hwloc=0
  HWLOC_CFLAGS=
  HWLOC_LIBS=
  AS_CASE([$with_hwloc],
    [no], [],
    [yes|auto], [
      AS_IF([HWLOC_CFLAGS=`pkg-config --cflags hwloc 2>/dev/null` && HWLOC_LIBS=`pkg-config --libs hwloc 2>/dev/null`],
        [], [HWLOC_CFLAGS=; HWLOC_LIBS=-lhwloc])],
    [HWLOC_CFLAGS="-I$with_hwloc/include"
     HWLOC_LIBS="-L$with_hwloc/lib -Wl,-rpath,$with_hwloc/lib -lhwloc"])
  AS_CASE([$with_hwloc],
    [no|yes|auto], [],
    [AS_IF([test ! -e "$with_hwloc/include/hwloc.h"], [AC_MSG_ERROR([--with-hwloc=$with_hwloc: no hwloc.h there])])])
  AS_IF([test "$with_hwloc" != no], [
    selvage_save_CPPFLAGS=$CPPFLAGS
    selvage_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $HWLOC_CFLAGS"
    LIBS="$HWLOC_LIBS $LIBS"
    AC_MSG_CHECKING([for hwloc 2])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hwloc.h>
#if HWLOC_API_VERSION < 0x00020000
#error hwloc 2 is needed
#endif]], [[hwloc_topology_t t; return hwloc_topology_init(&t);]])],
      [selvage_have_hwloc=1; AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])])
    CPPFLAGS=$selvage_save_CPPFLAGS
    LIBS=$selvage_save_LIBS
    AS_IF([test $selvage_have_hwloc = 0], [
      AS_IF([test "$with_hwloc" != auto], [AC_MSG_ERROR([--with-hwloc=$with_hwloc: hwloc 2 was not found there])])
      HWLOC_CFLAGS=; HWLOC_LIBS=])
  ])
  AS_IF([test $selvage_have_hwloc = 1], [selvage_hwloc_summary=yes], [selvage_hwloc_summary=no])
  AC_DEFINE_UNQUOTED([HAVE_HWLOC], [$selvage_have_hwloc], [1 if hwloc 2 is there])
  AC_SUBST([HWLOC_CFLAGS])
  AC_SUBST([HWLOC_LIBS])
  AC_SUBST([SELVAGE_WITH_HWLOC], [$with_hwloc])
])

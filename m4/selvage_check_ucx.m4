dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl SELVAGE_CHECK_UCX: the headers of UCX 1.11 or later, for SELVAGE_WIRE=ucx. libucp itself is loaded when a program
dnl asks for it, so that nothing is linked. Sets HAVE_UCX (Automake conditional), UCX_CFLAGS and selvage_ucx_summary.

AC_DEFUN([SELVAGE_CHECK_UCX], [
  AC_ARG_WITH([ucx],
    [AS_HELP_STRING([--with-ucx=yes|no|auto|PATH], [host messages over UCX, where SELVAGE_WIRE=ucx (auto)])],
    [], [with_ucx=auto])
  selvage_have_ucx=no
  UCX_CFLAGS=
  AS_CASE([$with_ucx],
    [no], [],
    [yes|auto], [UCX_CFLAGS=`pkg-config --cflags ucx 2>/dev/null` || UCX_CFLAGS=],
    [UCX_CFLAGS="-I$with_ucx/include"])
  AS_IF([test "$with_ucx" != no], [
    selvage_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $UCX_CFLAGS"
    AC_MSG_CHECKING([for UCX 1.11 or later])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <ucp/api/ucp.h>
#if UCP_API_VERSION < UCP_VERSION(1, 11)
#error UCX 1.11 is needed
#endif]], [[ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE}; (void)param;]])],
      [selvage_have_ucx=yes], [])
    AC_MSG_RESULT([$selvage_have_ucx])
    CPPFLAGS=$selvage_save_CPPFLAGS
    AS_IF([test $selvage_have_ucx = no], [
      AS_CASE([$with_ucx], [auto], [], [AC_MSG_ERROR([--with-ucx=$with_ucx: no headers of UCX 1.11 or later])])
      UCX_CFLAGS=])
  ])
  selvage_ucx_summary=$selvage_have_ucx
  AM_CONDITIONAL([HAVE_UCX], [test $selvage_have_ucx = yes])
  AC_DEFINE_UNQUOTED([HAVE_UCX], [`test $selvage_have_ucx = no; echo $?`], [1 if the UCX wire is built])
  AC_SUBST([UCX_CFLAGS])
  AC_SUBST([SELVAGE_WITH_UCX], [$with_ucx])
])

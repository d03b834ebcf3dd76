dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl Flags that every build of the library uses, and the sanitizers.

# SELVAGE_WARNINGS: sets SELVAGE_CFLAGS and SELVAGE_CXXFLAGS (language, warnings), which never contain optimisation.
# gcc 12 warns about MPICH's MPI_STATUSES_IGNORE (a pointer made of the integer 1), hence -Wno-stringop-overflow.
AC_DEFUN([SELVAGE_WARNINGS], [
  selvage_warn="-Wall -Wextra -Wundef -Wshadow"
  AS_VAR_IF([enable_devel], [no], [], [selvage_warn="$selvage_warn -Werror"])
  AC_LANG_PUSH([C])
  selvage_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror -Wno-stringop-overflow"
  AC_CACHE_CHECK([whether $CC knows -Wno-stringop-overflow], [selvage_cv_stringop],
    [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [selvage_cv_stringop=yes], [selvage_cv_stringop=no])])
  CFLAGS=$selvage_save_CFLAGS
  AC_LANG_POP([C])
  AS_VAR_IF([selvage_cv_stringop], [yes], [selvage_warn="$selvage_warn -Wno-stringop-overflow"])
  SELVAGE_CFLAGS="-std=gnu11 $selvage_warn -Wstrict-prototypes -Wmissing-prototypes"
  SELVAGE_CXXFLAGS="-std=gnu++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics -ffp-contract=off $selvage_warn"
  AC_SUBST([SELVAGE_CFLAGS])
  AC_SUBST([SELVAGE_CXXFLAGS])
])

# SELVAGE_SANITIZER: --enable-sanitizer=address|undefined|thread|address,undefined sets SANITIZER_FLAGS and SANITIZER,
# and SANITIZER_CPPFLAGS, by which the code knows of it: compilers have macros of their own for that, or none.
AC_DEFUN([SELVAGE_SANITIZER], [
  AC_ARG_ENABLE([sanitizer],
    [AS_HELP_STRING([--enable-sanitizer=LIST], [address, undefined, thread, or address,undefined])],
    [], [enable_sanitizer=no])
  SANITIZER=
  SANITIZER_FLAGS=
  SANITIZER_CPPFLAGS=
  AS_CASE([$enable_sanitizer],
    [no], [],
    [address|undefined|thread|address,undefined|undefined,address], [SANITIZER=$enable_sanitizer],
    [AC_MSG_ERROR([--enable-sanitizer=$enable_sanitizer: give address, undefined, thread or address,undefined])])
  AS_IF([test -n "$SANITIZER"], [
    SANITIZER_FLAGS="-fsanitize=$SANITIZER -fno-omit-frame-pointer"
    AS_CASE([$SANITIZER], [*undefined*], [SANITIZER_FLAGS="$SANITIZER_FLAGS -fno-sanitize-recover=undefined"])
    AS_CASE([$SANITIZER],
      [*thread*], [SANITIZER_CPPFLAGS=-DSV_SANITIZES_THREAD],
      [*address*], [SANITIZER_CPPFLAGS=-DSV_SANITIZES_ADDRESS])
    selvage_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $SANITIZER_FLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [],
      [AC_MSG_ERROR([$CC cannot build with $SANITIZER_FLAGS])])
    CFLAGS=$selvage_save_CFLAGS
  ])
  # A library with a name nobody defines must not link; sanitizers leave theirs to the program.
  AS_IF([test -z "$SANITIZER"], [SELVAGE_NO_UNDEFINED=-Wl,-z,defs], [SELVAGE_NO_UNDEFINED=])
  AC_SUBST([SELVAGE_NO_UNDEFINED])
  selvage_sanitizer_summary=${SANITIZER:-no}
  AC_SUBST([SANITIZER])
  AC_SUBST([SANITIZER_FLAGS])
  AC_SUBST([SANITIZER_CPPFLAGS])
])

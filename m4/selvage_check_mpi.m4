dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl SELVAGE_CHECK_MPI: finds the MPI library and its launcher. The compiler stays the one configure chose; the MPI's
dnl wrapper is only asked for its flags, and a program that calls PMPI_Init is linked with them.
dnl
dnl With --with-mpi-abi it is the binary interface that MPI 5 defines (MPI_ABI in mpi.h, libmpi_abi), which many MPIs
dnl share: the library then runs with every one of them. The wrapper mpicc_abi is that, too, without the option.
dnl
dnl Sets MPI_CPPFLAGS, MPI_LIBS, MPIRUN, SELVAGE_MPI_KIND (openmpi, mpich, abi, other), selvage_mpi_version and
dnl selvage_mpi_wrapper.

# _SELVAGE_MPI_FIND_WRAPPER(NAMES): looks NAMES up in PATH; the result is a full path or empty.
AC_DEFUN([_SELVAGE_MPI_FIND_WRAPPER], [
  selvage_mpi_wrapper=
  for selvage_name in $1; do
    selvage_found=`command -v "$selvage_name" 2>/dev/null`
    AS_IF([test -n "$selvage_found"], [selvage_mpi_wrapper=$selvage_found; break])
  done
])

# _SELVAGE_MPI_FLAGS: splits what the wrapper says. Only what belongs to MPI is kept: hardening flags of whoever
# packaged it are not ours to pass on. The path that follows -Wl,-rpath may be a word of its own.
AC_DEFUN([_SELVAGE_MPI_FLAGS], [
  selvage_compile=`"$selvage_mpi_wrapper" --showme:compile 2>/dev/null` &&
    selvage_link=`"$selvage_mpi_wrapper" --showme:link 2>/dev/null` ||
    { selvage_compile=`"$selvage_mpi_wrapper" -show 2>/dev/null`; selvage_link=$selvage_compile; }
  MPI_CPPFLAGS=
  MPI_LIBS=
  selvage_next=
  for selvage_word in $selvage_compile; do
    AS_CASE([$selvage_next$selvage_word],
      [-isystem], [selvage_next="-isystem "],
      [-isystem*|-I*|-D*], [MPI_CPPFLAGS="$MPI_CPPFLAGS $selvage_next$selvage_word"; selvage_next=])
  done
  for selvage_word in $selvage_link; do
    AS_CASE([$selvage_next$selvage_word],
      [-Wl,-rpath], [selvage_next=-Wl,-rpath,],
      [-Wl,-rpath,-Wl,*], [MPI_LIBS="$MPI_LIBS $selvage_next${selvage_word@%:@-Wl,}"; selvage_next=],
      [-L*|-l*|-Wl,-rpath*|-Wl,--enable-new-dtags|-pthread|*.so|*.a], [MPI_LIBS="$MPI_LIBS $selvage_word"])
  done
  MPI_CPPFLAGS=`AS_ECHO(["$MPI_CPPFLAGS"]) | $SED 's/^ *//'`
  MPI_LIBS=`AS_ECHO(["$MPI_LIBS"]) | $SED 's/^ *//'`
])

# _SELVAGE_MPI_ABI: turns flags of an MPI that has both interfaces into those of the ABI. A path in the library is only
# where it looks last, so that LD_LIBRARY_PATH and programs choose the MPI.
AC_DEFUN([_SELVAGE_MPI_ABI], [
  AS_CASE([" $MPI_CPPFLAGS "], [*" -DMPI_ABI "*], [], [MPI_CPPFLAGS="-DMPI_ABI $MPI_CPPFLAGS"])
  MPI_LIBS=`AS_ECHO([" $MPI_LIBS "]) | $SED -e 's/ -lmpi / -lmpi_abi /' -e 's/^ *//' -e 's/ *$//'`
  AS_CASE([$MPI_LIBS], [*-Wl,-rpath*], [
    AS_CASE([$MPI_LIBS], [*--enable-new-dtags*], [], [MPI_LIBS="-Wl,--enable-new-dtags $MPI_LIBS"])])
])

# _SELVAGE_MPI_KIND: whose header this is, by its own macros.
AC_DEFUN([_SELVAGE_MPI_KIND], [
  printf '%s\n' '#include <mpi.h>' 'SV_OMPI OMPI_MAJOR_VERSION OMPI_MINOR_VERSION OMPI_RELEASE_VERSION' \
    'SV_MPICH MPICH_VERSION' 'SV_ABI MPI_ABI_VERSION MPI_ABI_SUBVERSION' >conftest.c
  selvage_words=`$CC -E -P $MPI_CPPFLAGS conftest.c 2>/dev/null | grep '^SV_'`
  rm -f conftest.c
  SELVAGE_MPI_KIND=other
  selvage_mpi_version=
  AS_CASE([$selvage_words],
    [*SV_ABI\ @<:@0-9@:>@*], [SELVAGE_MPI_KIND=abi
      selvage_mpi_version=`AS_ECHO(["$selvage_words"]) | $SED -n 's/^SV_ABI \(.*\)/\1/p' | tr ' ' .`],
    [*SV_OMPI\ @<:@0-9@:>@*], [SELVAGE_MPI_KIND=openmpi
      selvage_mpi_version=`AS_ECHO(["$selvage_words"]) | $SED -n 's/^SV_OMPI \(.*\)/\1/p' | tr ' ' .`],
    [*SV_MPICH\ \"*], [SELVAGE_MPI_KIND=mpich
      selvage_mpi_version=`AS_ECHO(["$selvage_words"]) | $SED -n 's/^SV_MPICH "\(.*\)"/\1/p'`])
])

# _SELVAGE_MPI_LAUNCHER: the launcher beside the wrapper, with its suffix first (mpicc.mpich has mpirun.mpich), if it
# belongs to the same MPI: where several are installed, plain names can point at different ones.
AC_DEFUN([_SELVAGE_MPI_LAUNCHER], [
  AC_ARG_VAR([MPIRUN], [launcher of MPI programs; found beside the compiler wrapper when not given])
  AS_IF([test -z "$MPIRUN"], [
    selvage_dir=${selvage_mpi_wrapper%/*}
    selvage_suffix=${selvage_mpi_wrapper##*/}
    selvage_suffix=${selvage_suffix#mpicc}
    selvage_suffix=${selvage_suffix%_abi}
    for selvage_name in mpirun$selvage_suffix mpiexec$selvage_suffix mpirun.$SELVAGE_MPI_KIND mpirun mpiexec; do
      AS_IF([test -z "$MPIRUN" && test -x "$selvage_dir/$selvage_name"], [
        AS_CASE([$SELVAGE_MPI_KIND:`"$selvage_dir/$selvage_name" --version 2>/dev/null`],
          [openmpi:*Open\ MPI*|openmpi:*OpenRTE*|openmpi:*PRRTE*|mpich:*HYDRA*|abi:*|other:*],
            [MPIRUN=$selvage_dir/$selvage_name])])
    done
  ])
  AS_IF([test -z "$MPIRUN"], [AC_MSG_WARN([no mpirun beside $selvage_mpi_wrapper: tests that need it are skipped])])
])

AC_DEFUN([SELVAGE_CHECK_MPI], [
  AC_ARG_WITH([mpi],
    [AS_HELP_STRING([--with-mpi=yes|auto|PATH], [MPI: a compiler wrapper such as mpicc.mpich, or a prefix (auto)])],
    [], [with_mpi=auto])
  AC_ARG_WITH([mpi-abi],
    [AS_HELP_STRING([--with-mpi-abi],
      [the binary interface that MPI 5 defines, for every MPI that has it, instead of that of one MPI (no)])],
    [], [with_mpi_abi=no])
  AS_VAR_IF([with_mpi_abi], [no], [selvage_names="mpicc mpicc.openmpi mpicc.mpich"],
    [selvage_names="mpicc_abi mpicc"])
  selvage_mpi_wrapper=
  AS_CASE([$with_mpi],
    [no], [AC_MSG_ERROR([--with-mpi=no: Selvage moves its messages through MPI and cannot be built without it])],
    [yes|auto], [_SELVAGE_MPI_FIND_WRAPPER([$selvage_names])],
    [AS_IF([test -d "$with_mpi"],
      [AS_VAR_IF([with_mpi_abi], [no], [], [_SELVAGE_MPI_FIND_WRAPPER(["$with_mpi/bin/mpicc_abi"])])
       AS_IF([test -z "$selvage_mpi_wrapper"], [_SELVAGE_MPI_FIND_WRAPPER(["$with_mpi/bin/mpicc"])])],
      [_SELVAGE_MPI_FIND_WRAPPER(["$with_mpi"])])])
  AC_MSG_CHECKING([for the MPI compiler wrapper])
  AS_IF([test -z "$selvage_mpi_wrapper"], [
    AC_MSG_RESULT([none])
    AC_MSG_NOTICE([Debian has libopenmpi-dev with openmpi-bin, and libmpich-dev with mpich])
    AC_MSG_ERROR([no MPI found with --with-mpi=$with_mpi: install one, or name its mpicc])])
  AC_MSG_RESULT([$selvage_mpi_wrapper])
  _SELVAGE_MPI_FLAGS
  AS_VAR_IF([with_mpi_abi], [no], [], [_SELVAGE_MPI_ABI])
  selvage_save_CPPFLAGS=$CPPFLAGS
  selvage_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS"
  LIBS="$MPI_LIBS $LIBS"
  AS_VAR_IF([with_mpi_abi], [no], [], [
    AC_MSG_CHECKING([for the binary interface of MPI 5])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#ifndef MPI_ABI_VERSION
#error this is not the interface of MPI 5
#endif]], [])],
      [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([--with-mpi-abi: mpi.h of $selvage_mpi_wrapper has not the ABI of MPI 5 (MPICH 5.0 has it)])])])
  AC_MSG_CHECKING([whether a program that calls PMPI_Init links])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#if MPI_VERSION < 3
#error MPI 3 is needed
#endif]], [[return PMPI_Init(0, 0);]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([no program links with what $selvage_mpi_wrapper says: '$MPI_CPPFLAGS' and '$MPI_LIBS'])])
  CPPFLAGS=$selvage_save_CPPFLAGS
  LIBS=$selvage_save_LIBS
  _SELVAGE_MPI_KIND
  _SELVAGE_MPI_LAUNCHER
  AC_SUBST([SELVAGE_MPI_WRAPPER], [$selvage_mpi_wrapper])
  AC_SUBST([MPI_CPPFLAGS])
  AC_SUBST([MPI_LIBS])
  AC_SUBST([SELVAGE_MPI_KIND])
  AM_CONDITIONAL([MPI_ABI], [test "$SELVAGE_MPI_KIND" = abi])
])

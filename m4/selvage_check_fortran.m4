dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl SELVAGE_CHECK_FORTRAN: finds out whether the Fortran module can be built: a Fortran compiler (FC, looked for by
dnl AC_PROG_FC before libtool is set up) that passes assumed-rank arrays to C, and the Fortran modules of the MPI that
dnl SELVAGE_CHECK_MPI chose. As there, the wrapper is only asked for its flags.
dnl
dnl Sets HAVE_FORTRAN and HAVE_MPI_F08 (conditionals), MPI_FCFLAGS, MPI_FCLIBS, SELVAGE_FCFLAGS,
dnl SELVAGE_FORTRAN_DEFINES, SELVAGE_WITH_FORTRAN and selvage_fortran_summary.

# _SELVAGE_FORTRAN_WRAPPER: the Fortran wrapper beside the one for C, with its suffix (mpicc.mpich has mpifort.mpich).
AC_DEFUN([_SELVAGE_FORTRAN_WRAPPER], [
  selvage_dir=${selvage_mpi_wrapper%/*}
  selvage_suffix=${selvage_mpi_wrapper##*/}
  selvage_suffix=${selvage_suffix#mpicc}
  selvage_fortran_wrapper=
  AS_CASE([$with_fortran],
    [yes|auto], [for selvage_name in mpifort$selvage_suffix mpifort.$SELVAGE_MPI_KIND mpifort mpif90$selvage_suffix; do
      AS_IF([test -z "$selvage_fortran_wrapper" && test -x "$selvage_dir/$selvage_name"],
        [selvage_fortran_wrapper=$selvage_dir/$selvage_name])
    done],
    [selvage_fortran_wrapper=`command -v "$with_fortran" 2>/dev/null`])
])

# _SELVAGE_FORTRAN_FLAGS: what belongs to MPI of what the wrapper says, and the flags without which gfortran refuses
# calls that pass different types to one external procedure of MPI.
AC_DEFUN([_SELVAGE_FORTRAN_FLAGS], [
  selvage_compile=`"$selvage_fortran_wrapper" --showme:compile 2>/dev/null` &&
    selvage_link=`"$selvage_fortran_wrapper" --showme:link 2>/dev/null` ||
    { selvage_compile=`"$selvage_fortran_wrapper" -show 2>/dev/null`; selvage_link=$selvage_compile; }
  MPI_FCFLAGS=
  MPI_FCLIBS=
  for selvage_word in $selvage_compile; do
    AS_CASE([$selvage_word], [-I*|-fallow-*], [MPI_FCFLAGS="$MPI_FCFLAGS $selvage_word"])
  done
  selvage_next=
  for selvage_word in $selvage_link; do
    AS_CASE([$selvage_next$selvage_word],
      [-Wl,-rpath], [selvage_next=-Wl,-rpath,],
      [-Wl,-rpath,-Wl,*], [MPI_FCLIBS="$MPI_FCLIBS $selvage_next${selvage_word@%:@-Wl,}"; selvage_next=],
      [-L*|-l*|-Wl,-rpath*|-Wl,--enable-new-dtags|-pthread|*.so|*.a], [MPI_FCLIBS="$MPI_FCLIBS $selvage_word"])
  done
  MPI_FCFLAGS=`AS_ECHO(["$MPI_FCFLAGS"]) | $SED 's/^ *//'`
  MPI_FCLIBS=`AS_ECHO(["$MPI_FCLIBS"]) | $SED 's/^ *//'`
])

# _SELVAGE_FORTRAN_TRY(WHAT, PROGRAM): links PROGRAM; otherwise WHAT is why there is no Fortran module.
AC_DEFUN([_SELVAGE_FORTRAN_TRY], [
  AS_IF([test -z "$selvage_fortran_missing"], [
    AC_MSG_CHECKING([for $1])
    AC_LINK_IFELSE([AC_LANG_SOURCE([[$2]])], [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       selvage_fortran_missing="$1"])])
])

# _SELVAGE_FORTRAN_PROGRAMS: what a compiler and its MPI must be able to do. Integer handles tell the MPIs apart: Open
# MPI counts from 0, MPICH does not. Of a kind that no real number has, the compiler says that it is an error.
AC_DEFUN([_SELVAGE_FORTRAN_PROGRAMS], [
  _SELVAGE_FORTRAN_TRY([arrays of any rank and type for C], [
program conftest
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    subroutine take(array, wanted) bind(C, name='free')
      import
      type(*), dimension(..), intent(in) :: array
      integer(c_int), intent(in), optional :: wanted(:)
    end subroutine
  end interface
  real :: cells(2, 2)
  call take(cells(1, :))
end program
])
  AS_CASE([$SELVAGE_MPI_KIND],
    [openmpi], [selvage_fortran_same='MPI_COMM_WORLD == 0'],
    [mpich], [selvage_fortran_same='MPI_COMM_WORLD /= 0'],
    [selvage_fortran_same=.true.])
  _SELVAGE_FORTRAN_TRY([the module mpi of the same MPI], [
program conftest
  use mpi
  implicit none
  real(merge(kind(1.0), -1, $selvage_fortran_same)) :: same
  integer :: error
  same = 1
  call MPI_Init(error)
end program
])
])

# _SELVAGE_FORTRAN_HEADER: the C header of the Fortran compiler, which a C compiler of another make does not look for.
AC_DEFUN([_SELVAGE_FORTRAN_HEADER], [
  AC_LANG_PUSH([C])
  AC_CHECK_HEADER([ISO_Fortran_binding.h], [],
    [selvage_fortran_missing="ISO_Fortran_binding.h, which $CC does not find"])
  AC_LANG_POP([C])
])

# _SELVAGE_FORTRAN_F08: communicators of the type of mpi_f08 are taken where that module works.
AC_DEFUN([_SELVAGE_FORTRAN_F08], [
  selvage_fortran_f08=no
  AC_MSG_CHECKING([for the module mpi_f08])
  AC_LINK_IFELSE([AC_LANG_SOURCE([[
program conftest
  use mpi_f08
  implicit none
  type(MPI_Comm) :: comm
  integer :: rank
  comm = MPI_COMM_WORLD
  call MPI_Init()
  call MPI_Comm_rank(comm, rank)
end program
]])], [selvage_fortran_f08=yes])
  AC_MSG_RESULT([$selvage_fortran_f08])
  AS_VAR_IF([selvage_fortran_f08], [yes], [SELVAGE_FORTRAN_DEFINES=-DSELVAGE_HAVE_MPI_F08])
])

# _SELVAGE_FORTRAN_WARNINGS: gfortran's; other compilers are left at their defaults. Where an optional array is absent,
# gfortran's own code computes with a descriptor at NULL, which it does not read: no business of a sanitizer.
AC_DEFUN([_SELVAGE_FORTRAN_WARNINGS], [
  SELVAGE_FCFLAGS=
  AS_VAR_IF([ac_cv_fc_compiler_gnu], [yes], [
    SELVAGE_FCFLAGS="-std=f2018 -ffp-contract=off -fimplicit-none -Wall -Wextra"
    SELVAGE_FCFLAGS="$SELVAGE_FCFLAGS -Wno-compare-reals -Wno-function-elimination"
    AS_IF([test -n "$SANITIZER"], [SELVAGE_FCFLAGS="$SELVAGE_FCFLAGS -fno-sanitize=null"])
    AS_VAR_IF([enable_devel], [no], [], [SELVAGE_FCFLAGS="$SELVAGE_FCFLAGS -Werror"])])
])

AC_DEFUN([_SELVAGE_FORTRAN_LOOK], [
  _SELVAGE_FORTRAN_WRAPPER
  AS_IF([test "$SELVAGE_MPI_KIND" = abi],
    [selvage_fortran_missing="Fortran in the ABI of MPI 5, whose modules are each MPI's own"],
    [test -z "$FC"], [selvage_fortran_missing="a Fortran compiler"],
    [test -z "$selvage_fortran_wrapper"], [selvage_fortran_missing="a Fortran wrapper beside $selvage_mpi_wrapper"])
  AS_IF([test -z "$selvage_fortran_missing"], [_SELVAGE_FORTRAN_HEADER])
  AS_IF([test -z "$selvage_fortran_missing"], [
    _SELVAGE_FORTRAN_FLAGS
    AC_LANG_PUSH([Fortran])
    AC_FC_SRCEXT([f90], [], [selvage_fortran_missing="a Fortran compiler that takes .f90"])
    AC_FC_PP_SRCEXT([F90], [], [selvage_fortran_missing="a Fortran compiler that takes .F90"])
    AC_FC_MODULE_FLAG([], [selvage_fortran_missing="a flag that says where modules are"])
    AC_FC_MODULE_OUTPUT_FLAG([], [selvage_fortran_missing="a flag that says where modules go"])
    selvage_save_FCFLAGS=$FCFLAGS
    selvage_save_LIBS=$LIBS
    FCFLAGS="$FCFLAGS $MPI_FCFLAGS"
    LIBS="$MPI_FCLIBS $LIBS"
    _SELVAGE_FORTRAN_PROGRAMS
    AS_IF([test -z "$selvage_fortran_missing"], [_SELVAGE_FORTRAN_F08])
    FCFLAGS=$selvage_save_FCFLAGS
    LIBS=$selvage_save_LIBS
    AC_LANG_POP([Fortran])])
])

AC_DEFUN([SELVAGE_CHECK_FORTRAN], [
  AC_ARG_WITH([fortran],
    [AS_HELP_STRING([--with-fortran=yes|no|auto|WRAPPER],
      [the Fortran module: with the MPI's Fortran wrapper beside its mpicc, or the one named (auto)])],
    [], [with_fortran=auto])
  selvage_fortran_missing=
  SELVAGE_FORTRAN_DEFINES=
  AS_VAR_IF([with_fortran], [no], [selvage_fortran_missing="--with-fortran=no"], [_SELVAGE_FORTRAN_LOOK])
  AS_IF([test -z "$selvage_fortran_missing"],
    [_SELVAGE_FORTRAN_WARNINGS
     selvage_fortran_summary="$FC $FCFLAGS ($selvage_fortran_wrapper, mpi_f08 $selvage_fortran_f08)"],
    [selvage_fortran_summary="no: $selvage_fortran_missing"
     AS_CASE([$with_fortran], [no], [selvage_fortran_summary=no], [auto], [],
       [AC_MSG_ERROR([--with-fortran=$with_fortran: not found: $selvage_fortran_missing])])])
  AM_CONDITIONAL([HAVE_FORTRAN], [test -z "$selvage_fortran_missing"])
  AM_CONDITIONAL([HAVE_MPI_F08], [test -n "$SELVAGE_FORTRAN_DEFINES"])
  AC_SUBST([MPI_FCFLAGS])
  AC_SUBST([MPI_FCLIBS])
  AC_SUBST([SELVAGE_FCFLAGS])
  AC_SUBST([SELVAGE_FORTRAN_DEFINES])
  AC_SUBST([SELVAGE_WITH_FORTRAN], [$with_fortran])
])

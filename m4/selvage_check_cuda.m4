dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl SELVAGE_CHECK_CUDA: nvcc, which turns the kernels into device code for NVIDIA GPUs, and the CUDA runtime of the same
dnl toolkit, with its headers. PATH is nvcc or a CUDA prefix. Without both nothing is built for these GPUs: auto says
dnl why. Sets NVCC, CUDA_HOME, CUDA_ARCHS, the flags for these in CUDA_GENCODE, selvage_cuda_missing and the conditional
dnl HAVE_CUDA_COMPILER; HAVE_NVTX says whether that toolkit has NVTX version 3.

# _SELVAGE_CUDA_RUNTIME: empties NVCC, and says so in selvage_cuda_missing, if no program links with the runtime.
AC_DEFUN([_SELVAGE_CUDA_RUNTIME], [
  AC_MSG_CHECKING([for the CUDA runtime in $CUDA_HOME])
  selvage_save_CPPFLAGS=$CPPFLAGS
  selvage_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS -I$CUDA_HOME/include"
  LIBS="$CUDA_HOME/lib64/libcudart_static.a -L$CUDA_HOME/lib64/stubs -lcuda -ldl -lrt -lpthread $LIBS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda.h>
#include <cuda_runtime_api.h>]], [[return (int)cudaGetLastError() + (int)cuInit(0);]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     selvage_cuda_missing="$NVCC, but no CUDA runtime with headers in $CUDA_HOME"
     NVCC= CUDA_HOME=])
  CPPFLAGS=$selvage_save_CPPFLAGS
  LIBS=$selvage_save_LIBS
])

AC_DEFUN([SELVAGE_CHECK_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=yes|no|auto|PATH], [the NVIDIA device and its kernels: nvcc or a CUDA prefix (auto)])],
    [], [with_cuda=auto])
  AC_ARG_WITH([cuda-archs],
    [AS_HELP_STRING([--with-cuda-archs=LIST],
      [NVIDIA architectures to compile for, the newest last, of which there is PTX, too (80,90)])],
    [], [with_cuda_archs=80,90])
  NVCC=
  AC_MSG_CHECKING([for nvcc])
  AS_CASE([$with_cuda],
    [no], [selvage_names=],
    [yes|auto], [selvage_names="nvcc /usr/local/cuda/bin/nvcc"],
    [selvage_names="$with_cuda $with_cuda/bin/nvcc"])
  for selvage_name in $selvage_names; do
    AS_IF([test -z "$NVCC" && test ! -d "$selvage_name"], [
      selvage_try=`command -v "$selvage_name" 2>/dev/null`
      printf '__global__ void k(unsigned *p) { *p = 1; }\n' >conftest.cu
      AS_IF([test -n "$selvage_try" &&
        "$selvage_try" -x cu -std=c++17 -arch=sm_90 -cubin conftest.cu -o conftest.cubin >&AS_MESSAGE_LOG_FD 2>&1],
        [NVCC=$selvage_try])
      rm -f conftest.cu conftest.cubin])
  done
  AC_MSG_RESULT([${NVCC:-none}])
  selvage_cuda_missing="there is no working nvcc"
  AS_IF([test -n "$NVCC"], [CUDA_HOME=`dirname "$(dirname "$(readlink -f "$NVCC")")"`], [CUDA_HOME=])
  AS_IF([test -n "$NVCC"], [_SELVAGE_CUDA_RUNTIME])
  AS_CASE([$with_cuda:$NVCC],
    [no:*|auto:*|*:?*], [],
    [AC_MSG_ERROR([--with-cuda=$with_cuda: $selvage_cuda_missing])])
  AS_IF([test -n "$NVCC"], [selvage_cuda_summary="$NVCC, architectures $with_cuda_archs"],
    [test "$with_cuda" = no], [selvage_cuda_summary=no], [selvage_cuda_summary="no: $selvage_cuda_missing"])
  AC_SUBST([NVCC])
  selvage_archs=`echo "$with_cuda_archs" | tr , ' '`
  CUDA_GENCODE=
  for selvage_arch in $selvage_archs; do
    AS_CASE([$selvage_arch], [*[[!0-9]]*], [AC_MSG_ERROR([--with-cuda-archs=$with_cuda_archs: numbers, as 80,90])])
    CUDA_GENCODE="$CUDA_GENCODE -gencode arch=compute_$selvage_arch,code=sm_$selvage_arch"
  done
  AS_IF([test -z "$CUDA_GENCODE"], [AC_MSG_ERROR([--with-cuda-archs=$with_cuda_archs: names none])])
  CUDA_GENCODE="$CUDA_GENCODE -gencode arch=compute_$selvage_arch,code=compute_$selvage_arch"
  AC_SUBST([CUDA_GENCODE])
  AC_SUBST([CUDA_ARCHS], [$with_cuda_archs])
  AC_SUBST([CUDA_HOME])
  AC_MSG_CHECKING([for NVTX])
  AS_IF([test -n "$CUDA_HOME" && test -e "$CUDA_HOME/include/nvtx3/nvToolsExt.h"],
    [selvage_nvtx=yes; NVTX_CPPFLAGS=-DSV_HAVE_NVTX], [selvage_nvtx=no; NVTX_CPPFLAGS=])
  AC_MSG_RESULT([$selvage_nvtx])
  AC_SUBST([NVTX_CPPFLAGS])
  AM_CONDITIONAL([HAVE_NVTX], [test "$selvage_nvtx" = yes])
  AM_CONDITIONAL([HAVE_CUDA_COMPILER], [test -n "$NVCC"])
  AC_SUBST([SELVAGE_WITH_CUDA], [$with_cuda])
])

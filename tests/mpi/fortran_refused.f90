! SPDX-License-Identifier: BSD-3-Clause
!
! A program that compiles, and lines with a number that must not, one at a time: tests/mpi/test_fortran.sh takes their
! number away. The types of handles, streams and sizes are told apart, and what is private stays so.
program fortran_refused
  use, intrinsic :: iso_c_binding
  use selvage
  implicit none
  type(selvage_comm) :: comm
  type(selvage_exchange) :: exchange
  type(selvage_halo) :: halo
  type(c_ptr) :: stream
  real :: u(4)
  integer :: error
  call selvage_exchange_create(comm, exchange, error=error)
  call selvage_exchange_add_send(exchange, u, 0, 0, error)
  call selvage_exchange_start(exchange, stream, error)
  !1! call selvage_exchange_start(halo, stream, error)
  !2! call selvage_exchange_start(exchange, error)
  !3! call selvage_exchange_add_send(exchange, u, 0)
  !4! call selvage_exchange_add_send(comm, u, 0, 0, error)
  !5! print *, c_associated(comm%handle)
  !6! call selvage_device_malloc(selvage_comm_device(comm), 8, stream, error)
  !7! call selvage_comm_create(stream, comm, error=error)
  !8! call selvage_halo_rebind(halo, u, error)
end program

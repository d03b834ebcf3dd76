! SPDX-License-Identifier: BSD-3-Clause
!
! Included by selvage.F90: exchanges. The procedures are those of fortran/fortran_exchange.c.

  public :: selvage_exchange_create, selvage_exchange_destroy, selvage_exchange_commit, selvage_exchange_start
  public :: selvage_exchange_wait, selvage_exchange_enqueue_wait, selvage_exchange_epoch, selvage_exchange_send_route
  public :: selvage_exchange_add_send, selvage_exchange_add_recv, selvage_exchange_create_varying
  public :: selvage_exchange_create_scoped, selvage_exchange_set_bytes

  !> Declares a packet to send: a whole array, or `bytes` bytes from a type(c_ptr) on. The first has index 0.
  interface selvage_exchange_add_send
    subroutine add_send_array(exchange, array, peer, tag, error) bind(C, name='selvage_fortran_exchange_add_send_array')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(in), asynchronous :: array
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine add_send_pointer(exchange, ptr, bytes, peer, tag, error) &
        bind(C, name='selvage_fortran_exchange_add_send')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(c_ptr), intent(in) :: ptr
      integer(c_size_t), intent(in) :: bytes
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

  !> Declares a packet to receive.
  interface selvage_exchange_add_recv
    subroutine add_recv_array(exchange, array, peer, tag, error) bind(C, name='selvage_fortran_exchange_add_recv_array')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(inout), asynchronous :: array
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine add_recv_pointer(exchange, ptr, bytes, peer, tag, error) &
        bind(C, name='selvage_fortran_exchange_add_recv')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(c_ptr), intent(in) :: ptr
      integer(c_size_t), intent(in) :: bytes
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

  interface
    !> Makes an empty exchange.
    subroutine selvage_exchange_create(comm, exchange, route, checksum, error) &
        bind(C, name='selvage_fortran_exchange_create')
      import
      type(selvage_comm), intent(in) :: comm
      type(selvage_exchange), intent(out) :: exchange
      integer(c_int), intent(in), optional :: route, checksum
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> The same of an exchange whose packets may be shorter than they were declared. All ranks.
    subroutine selvage_exchange_create_varying(comm, exchange, route, checksum, error) &
        bind(C, name='selvage_fortran_exchange_create_varying')
      import
      type(selvage_comm), intent(in) :: comm
      type(selvage_exchange), intent(out) :: exchange
      integer(c_int), intent(in), optional :: route, checksum
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Makes an empty exchange of which `scope` says who commits and destroys it: SELVAGE_SCOPE_ALL ranks, or
    !> SELVAGE_SCOPE_NEIGHBORS, which are this rank and those to or from which it has packets. Its lengths vary if
    !> `varying` is 1.
    subroutine selvage_exchange_create_scoped(comm, exchange, scope, varying, route, checksum, error) &
        bind(C, name='selvage_fortran_exchange_create_scoped')
      import
      type(selvage_comm), intent(in) :: comm
      type(selvage_exchange), intent(out) :: exchange
      integer(c_int), intent(in) :: scope
      integer(c_int), intent(in), optional :: varying, route, checksum
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> How many bytes packets have from the next epoch on, in the order in which they were declared; both ends say the
    !> same. Those of an absent array stay as they are.
    subroutine selvage_exchange_set_bytes(exchange, send_bytes, recv_bytes, error) &
        bind(C, name='selvage_fortran_exchange_set_bytes')
      import
      type(selvage_exchange), intent(in) :: exchange
      integer(c_size_t), dimension(:), intent(in), optional :: send_bytes, recv_bytes
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Matches packets with the peers, settles routes, allocates everything. Collective.
    subroutine selvage_exchange_commit(exchange, error) bind(C, name='selvage_fortran_exchange_commit')
      import
      type(selvage_exchange), intent(in) :: exchange
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Starts an epoch: packs, checksums, posts receives and begins to copy. Returns at once.
    subroutine selvage_exchange_start(exchange, stream, error) bind(C, name='selvage_fortran_exchange_start')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Completes the epoch: later work on the stream sees the received data.
    subroutine selvage_exchange_wait(exchange, stream, error) bind(C, name='selvage_fortran_exchange_wait')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Ends the epoch on the stream without the host.
    subroutine selvage_exchange_enqueue_wait(exchange, stream, error) &
        bind(C, name='selvage_fortran_exchange_enqueue_wait')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Number of epochs started so far.
    integer(c_int64_t) function selvage_exchange_epoch(exchange) bind(C, name='selvage_fortran_exchange_epoch')
      import
      type(selvage_exchange), intent(in) :: exchange
    end function

    !> Route that commit settled for the send with this index (from 0): one of SELVAGE_ROUTE_...
    subroutine selvage_exchange_send_route(exchange, index, route, error) &
        bind(C, name='selvage_fortran_exchange_send_route')
      import
      type(selvage_exchange), intent(in) :: exchange
      integer(c_int), intent(in) :: index
      integer(c_int), intent(out) :: route
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Frees an exchange. Collective once committed.
    subroutine selvage_exchange_destroy(exchange) bind(C, name='selvage_fortran_exchange_destroy')
      import
      type(selvage_exchange), intent(inout) :: exchange
    end subroutine

    subroutine c_exchange_test(exchange, complete, stream, error) bind(C, name='selvage_fortran_exchange_test')
      import
      type(selvage_exchange), intent(in) :: exchange
      integer(c_int), intent(out) :: complete
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

! SPDX-License-Identifier: BSD-3-Clause
!
! The Fortran module without grids: names and errors; arrays of every intrinsic type, of rank 0 to 4, around a ring of
! ranks; what must be refused; the software device with a kernel in Fortran.
module fortran_cases
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use selvage
  use fortran_checks
  implicit none
  private
  public :: names_and_errors, ring_of_arrays, lengths_that_change, neighbors_only, refusals, lists_of_elements
  public :: device_and_kernel

  type, bind(C) :: particle
    real(c_double) :: place(3)
    integer(c_int) :: kind
  end type

  type, bind(C) :: scaling
    type(c_ptr) :: values
    integer(c_int) :: n
    real(c_double) :: factor
  end type

contains

  subroutine names_and_errors(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_comm) :: none
    type(selvage_exchange) :: exchange
    integer :: error
    call check(selvage_status_name(SELVAGE_SUCCESS) == 'SELVAGE_SUCCESS', 'SUCCESS')
    call check(selvage_status_name(SELVAGE_IN_PROGRESS) == 'SELVAGE_IN_PROGRESS', 'IN_PROGRESS')
    call check(selvage_status_name(SELVAGE_ERR_ARGUMENT) == 'SELVAGE_ERR_ARGUMENT', 'ERR_ARGUMENT')
    call check(selvage_status_name(SELVAGE_ERR_STATE) == 'SELVAGE_ERR_STATE', 'ERR_STATE')
    call check(selvage_status_name(SELVAGE_ERR_MEMORY) == 'SELVAGE_ERR_MEMORY', 'ERR_MEMORY')
    call check(selvage_status_name(SELVAGE_ERR_CONFIG) == 'SELVAGE_ERR_CONFIG', 'ERR_CONFIG')
    call check(selvage_status_name(SELVAGE_ERR_MPI) == 'SELVAGE_ERR_MPI', 'ERR_MPI')
    call check(selvage_status_name(SELVAGE_ERR_DEVICE) == 'SELVAGE_ERR_DEVICE', 'ERR_DEVICE')
    call check(selvage_status_name(SELVAGE_ERR_SYSTEM) == 'SELVAGE_ERR_SYSTEM', 'ERR_SYSTEM')
    call check(selvage_status_name(SELVAGE_ERR_MISMATCH) == 'SELVAGE_ERR_MISMATCH', 'ERR_MISMATCH')
    call check(selvage_status_name(SELVAGE_ERR_TIMEOUT) == 'SELVAGE_ERR_TIMEOUT', 'ERR_TIMEOUT')
    call check(selvage_status_name(SELVAGE_ERR_CHECKSUM) == 'SELVAGE_ERR_CHECKSUM', 'ERR_CHECKSUM')
    call check(selvage_status_name(SELVAGE_ERR_PEER) == 'SELVAGE_ERR_PEER', 'ERR_PEER')
    call check(selvage_status_name(SELVAGE_ERR_UNSUPPORTED) == 'SELVAGE_ERR_UNSUPPORTED', 'ERR_UNSUPPORTED')
    call check(selvage_status_name(SELVAGE_ERR_LIMIT) == 'SELVAGE_ERR_LIMIT', 'ERR_LIMIT')
    call check(selvage_status_name(SELVAGE_ERR_INTERNAL) == 'SELVAGE_ERR_INTERNAL', 'ERR_INTERNAL')
    call check(selvage_status_name(SELVAGE_ERR_ABORTED) == 'SELVAGE_ERR_ABORTED', 'ERR_ABORTED')
    call check(selvage_status_name(SELVAGE_ERR_TRUNCATED) == 'SELVAGE_ERR_TRUNCATED', 'ERR_TRUNCATED')
    call check(selvage_status_string(SELVAGE_SUCCESS) == 'success', 'the text of SUCCESS')
    call check(selvage_route_name(SELVAGE_ROUTE_SELF) == 'self', 'self')
    call check(selvage_route_name(SELVAGE_ROUTE_PEER) == 'peer', 'peer')
    call check(selvage_route_name(SELVAGE_ROUTE_SHARED) == 'shared', 'shared')
    call check(selvage_route_name(SELVAGE_ROUTE_STAGED) == 'staged', 'staged')
    call check(selvage_route_name(SELVAGE_ROUTE_DIRECT) == 'direct', 'direct')
    call check(index(selvage_version(), '.') > 0, 'a version')
    call check(selvage_comm_rank(none) == -1 .and. selvage_comm_size(none) == -1, 'a communicator that is none')
    call check(selvage_comm_node_size(comm) >= 1, 'the size of the node')
    call check(len(selvage_comm_wire(comm)) > 0 .and. len(selvage_comm_wire(none)) == 0, 'the wire')
    call check(selvage_device_name(selvage_comm_device(comm)) == 'soft', 'the device of the communicator')
    call selvage_exchange_create(none, exchange, error=error)
    call check(error == SELVAGE_ERR_ARGUMENT, 'an exchange of no communicator')
    call selvage_exchange_destroy(exchange)
    call selvage_comm_destroy(none)
    call selvage_progress(comm)
  end subroutine

  ! One packet around the ring: what the rank below has sent is what this one gets. Every way to end an epoch.
  subroutine ring(comm, sent, got, what)
    type(selvage_comm), intent(in) :: comm
    type(*), dimension(..), intent(in), target, asynchronous :: sent
    type(*), dimension(..), intent(inout), target, asynchronous :: got
    character(len=*), intent(in) :: what
    type(selvage_exchange) :: exchange
    integer :: rank, size, route, error
    logical :: done
    rank = selvage_comm_rank(comm)
    size = selvage_comm_size(comm)
    call selvage_exchange_create(comm, exchange, checksum=SELVAGE_CHECKSUM_REPORT)
    call selvage_exchange_add_send(exchange, sent, modulo(rank + 1, size), 3)
    call selvage_exchange_add_recv(exchange, got, modulo(rank - 1, size), 3)
    call selvage_exchange_start(exchange, error=error)
    call check(error == SELVAGE_ERR_STATE, what // ': a start before commit')
    call selvage_exchange_commit(exchange)
    call selvage_exchange_send_route(exchange, 0, route)
    call check(route == merge(SELVAGE_ROUTE_SELF, route, size == 1) .and. route /= SELVAGE_ROUTE_DEFAULT, &
               what // ': the route')
    call selvage_exchange_start(exchange)
    call selvage_exchange_wait(exchange)
    call selvage_exchange_start(exchange, c_null_ptr)
    done = .false.
    do while (.not. done)
      call selvage_exchange_test(exchange, done)
    end do
    call check(selvage_exchange_epoch(exchange) == 2, what // ': epochs')
    call selvage_exchange_destroy(exchange)
  end subroutine

  ! A packet that is shorter than its arrays, by another length in each epoch.
  subroutine lengths_that_change(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_exchange) :: exchange
    integer(int32), target, asynchronous :: sent(6), got(6)
    integer(c_size_t) :: bytes(1)
    integer :: rank, size, below, n, error
    rank = selvage_comm_rank(comm)
    size = selvage_comm_size(comm)
    below = modulo(rank - 1, size)
    call selvage_exchange_create_varying(comm, exchange)
    call selvage_exchange_add_send(exchange, sent, modulo(rank + 1, size), 3)
    call selvage_exchange_add_recv(exchange, got, below, 3)
    call selvage_exchange_commit(exchange)
    do n = 0, 6
      sent = 10 * rank + n
      got = -1
      bytes = 4 * n
      call selvage_exchange_set_bytes(exchange, bytes)
      call selvage_exchange_set_bytes(exchange, recv_bytes=bytes)
      call selvage_exchange_start(exchange)
      call selvage_exchange_wait(exchange)
      call check(all(got(1:n) == 10 * below + n) .and. all(got(n + 1:) == -1), 'lengths that change')
    end do
    call selvage_exchange_set_bytes(exchange, [25_c_size_t], error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'at most 24 were declared')
    call selvage_exchange_set_bytes(exchange, recv_bytes=[-4_c_size_t], error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'recv_bytes(1): is -4')
    call selvage_exchange_set_bytes(exchange, [4_c_size_t, 4_c_size_t], error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'nsends is 2; 1 were declared')
    call selvage_exchange_destroy(exchange)
  end subroutine

  ! Only the ranks of a pair commit what they exchange; the last rank of an odd number has no part in it.
  subroutine neighbors_only(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_exchange) :: exchange
    integer(int32), target, asynchronous :: sent(6), got(6)
    integer(c_size_t) :: bytes(1)
    integer :: rank, peer, error
    rank = selvage_comm_rank(comm)
    peer = rank + 1 - 2 * modulo(rank, 2)
    call selvage_exchange_create_scoped(comm, exchange, 7, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'scope')
    if (peer >= selvage_comm_size(comm)) return
    call selvage_exchange_create_scoped(comm, exchange, SELVAGE_SCOPE_NEIGHBORS, varying=1)
    call selvage_exchange_add_send(exchange, sent, peer, 4)
    call selvage_exchange_add_recv(exchange, got, peer, 4)
    call selvage_exchange_commit(exchange)
    sent = 10 * rank
    got = -1
    bytes = 8
    call selvage_exchange_set_bytes(exchange, bytes, bytes)
    call selvage_exchange_start(exchange)
    call selvage_exchange_wait(exchange)
    call check(all(got(1:2) == 10 * peer) .and. all(got(3:) == -1), 'neighbors only')
    call selvage_exchange_destroy(exchange)
  end subroutine

  subroutine ring_of_arrays(comm)
    type(selvage_comm), intent(in) :: comm
    real(real32), target :: a(5), b(5)
    real(real64), target :: c(-1:3, 4), d(-1:3, 4)
    complex(real32), target :: e(2, 3, 4), f(2, 3, 4)
    complex(real64), target :: g(2, 1, 3, 2), h(2, 1, 3, 2)
    integer(int32), target :: i, j
    integer(int64), allocatable, target :: k(:, :), l(:, :)
    type(particle), target :: m(7), n(7)
    real(real64), pointer :: p(:, :), q(:, :)
    integer :: below
    below = modulo(selvage_comm_rank(comm) - 1, selvage_comm_size(comm))

    a = selvage_comm_rank(comm) + [1, 2, 3, 4, 5]
    b = 0
    call ring(comm, a, b, 'real32, rank 1')
    call check(all(b == below + [1, 2, 3, 4, 5]), 'real32, rank 1')

    c = 100 * selvage_comm_rank(comm) + reshape([(i, i = 1, 20)], [5, 4])
    d = -1
    call ring(comm, c(:, 2:3), d(:, 2:3), 'real64, columns')
    call check(all(d(:, 2:3) == 100 * below + reshape([(i, i = 6, 15)], [5, 2])), 'real64, columns')
    call check(all(d(:, 1) == -1) .and. all(d(:, 4) == -1), 'columns that are not concerned')

    e = cmplx(selvage_comm_rank(comm), reshape([(i, i = 1, 24)], [2, 3, 4]), real32)
    f = 0
    call ring(comm, e, f, 'complex, real32, rank 3')
    call check(all(f == cmplx(below, reshape([(i, i = 1, 24)], [2, 3, 4]), real32)), 'complex, real32, rank 3')

    g = cmplx(reshape([(i, i = 1, 12)], [2, 1, 3, 2]), selvage_comm_rank(comm), real64)
    h = 0
    call ring(comm, g, h, 'complex, real64, rank 4')
    call check(all(h == cmplx(reshape([(i, i = 1, 12)], [2, 1, 3, 2]), below, real64)), 'complex, real64, rank 4')

    i = 40 + selvage_comm_rank(comm)
    j = 0
    call ring(comm, i, j, 'int32, a scalar')
    call check(j == 40 + below, 'int32, a scalar')

    allocate (k(0:2, 2), l(0:2, 2))
    k = 7_int64 * huge(0_int32) + selvage_comm_rank(comm)
    l = 0
    call ring(comm, k, l, 'int64, allocated')
    call check(all(l == 7_int64 * huge(0_int32) + below), 'int64, allocated')

    allocate (p(3, 3), q(3, 3))
    p = selvage_comm_rank(comm)
    q = -1
    call ring(comm, p(2:3, 2), q(1:2, 3), 'real64, part of a column of a pointer')
    call check(all(q(1:2, 3) == below) .and. count(q == -1) == 7, 'real64, part of a column of a pointer')
    deallocate (p, q)

    m = particle([1, 2, 3], selvage_comm_rank(comm))
    n%kind = -1
    call ring(comm, m, n, 'derived type')
    call check(all(n%kind == below) .and. n(7)%place(3) == 3, 'derived type')
    call ring(comm, a(3:2), b(5:4), 'no elements')
  end subroutine

  ! What would need a copy, or has no size: refused with a reason, and the exchange can still be used.
  subroutine refusals(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_exchange) :: exchange
    type(selvage_buffer) :: buffer
    type(particle), target :: particles(4)
    real(real64), target :: a(6, 6)
    real(real64), pointer :: p(:, :)
    integer :: error
    a = 0
    p => a
    particles%kind = 0
    call selvage_exchange_create(comm, exchange)
    call selvage_exchange_add_send(exchange, a(1, :), 0, 0, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'array: is not contiguous')
    call selvage_exchange_add_send(exchange, p(6:1:-1, 1), 0, 0, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'array: is not contiguous')
    call selvage_exchange_add_recv(exchange, a(1:5, 1:2), 0, 0, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'array: is not contiguous')
    call selvage_exchange_add_recv(exchange, particles%kind, 0, 0, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'array: is not contiguous')
    call selvage_exchange_add_send(exchange, c_loc(a), 0, 0, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'is a type(c_ptr)')
    call without_size(a)
    call selvage_exchange_add_send(exchange, c_loc(a), c_sizeof(a), selvage_comm_size(comm), 0, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'peer')
    call selvage_buffer_register(comm, a(:, 1), buffer, error)
    call check(error == SELVAGE_ERR_UNSUPPORTED, 'an array of the program cannot be exported: ' // &
               selvage_error_detail())
    call selvage_exchange_commit(exchange)
    call selvage_exchange_start(exchange)
    call selvage_exchange_wait(exchange)
    call selvage_exchange_destroy(exchange)
  contains
    subroutine without_size(array)
      real(real64), intent(in), target :: array(*)
      call selvage_exchange_add_send(exchange, array, 0, 0, error)
      call refused(error, SELVAGE_ERR_ARGUMENT, 'array: has assumed size')
      call selvage_exchange_add_send(exchange, array(1:3), modulo(selvage_comm_rank(comm) + 1, &
                                     selvage_comm_size(comm)), 0)
      call selvage_exchange_add_recv(exchange, a(4:6, 2), modulo(selvage_comm_rank(comm) - 1, &
                                     selvage_comm_size(comm)), 0)
    end subroutine
  end subroutine

  ! Elements of three numbers, by numbers of either kind, and of memory at an address.
  subroutine lists_of_elements(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_exchange) :: exchange
    real(real64), target :: mesh(3, 10), ghosts(3, 10), more(3, 4)
    integer :: above, below, rank, error, i
    rank = selvage_comm_rank(comm)
    above = modulo(rank + 1, selvage_comm_size(comm))
    below = modulo(rank - 1, selvage_comm_size(comm))
    mesh = 100 * rank + reshape([(i, i = 1, 30)], [3, 10])
    ghosts = -1
    more = -1
    call selvage_exchange_create(comm, exchange)
    call selvage_exchange_add_send_indexed(exchange, mesh, [2, 5, 9], above, 0)
    call selvage_exchange_add_recv_indexed(exchange, ghosts, [1_int64, 10_int64, 4_int64], below, 0)
    call selvage_exchange_add_send_indexed(exchange, c_loc(mesh), 24_c_size_t, [8_int64, 1_int64], above, 1)
    call selvage_exchange_add_recv_indexed(exchange, more, [2, 3], below, 1)
    call selvage_exchange_add_send_indexed(exchange, mesh, [2, 11], above, 2, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'indices(2): is 11, and the array has 10')
    call selvage_exchange_add_recv_indexed(exchange, mesh, [0], above, 2, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'indices(1): is 0')
    call selvage_exchange_add_send_indexed(exchange, mesh(1, :), [1], above, 2, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'array: is not contiguous')
    call selvage_exchange_add_send_indexed(exchange, rank, [1], above, 2, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'array: has no elements')
    call selvage_exchange_commit(exchange)
    call selvage_exchange_start(exchange)
    call selvage_exchange_wait(exchange)
    mesh = 100 * below + reshape([(i, i = 1, 30)], [3, 10])
    call check(all(ghosts(:, [1, 10, 4]) == mesh(:, [2, 5, 9])) .and. count(ghosts == -1) == 21, 'a list of elements')
    call check(all(more(:, 2:3) == mesh(:, [8, 1])) .and. count(more == -1) == 6, 'a list of elements at an address')
    call selvage_exchange_destroy(exchange)
  end subroutine

  ! A kernel for the software device: its share of the values, times a factor.
  subroutine scale(arg, block, nblocks) bind(C)
    type(c_ptr), value :: arg
    integer(c_int), value :: block, nblocks
    type(scaling), pointer :: what
    real(real64), pointer :: values(:)
    call c_f_pointer(arg, what)
    call c_f_pointer(what%values, values, [what%n])
    values(block + 1::nblocks) = what%factor * values(block + 1::nblocks)
  end subroutine

  ! Device memory: filled, scaled by a kernel, exchanged on a stream without the host, and fetched.
  subroutine device_and_kernel(comm, device)
    type(selvage_comm), intent(in) :: comm
    type(selvage_device), intent(in) :: device
    integer, parameter :: n = 1000
    type(selvage_exchange) :: exchange
    type(selvage_buffer) :: buffer
    type(c_ptr) :: values, halo, pinned, stream
    real(real64) :: host(n)
    real(real64), pointer :: staging(:), direct(:)
    integer(c_size_t) :: bytes
    integer :: rank, size, below, i, error
    rank = selvage_comm_rank(comm)
    size = selvage_comm_size(comm)
    below = modulo(rank - 1, size)
    bytes = c_sizeof(host)
    call selvage_stream_create(device, stream)
    call selvage_device_malloc(device, bytes, values)
    call selvage_device_malloc(device, bytes, halo)
    call selvage_device_host_malloc(device, bytes, pinned)
    call selvage_buffer_register(comm, halo, bytes, buffer)
    call c_f_pointer(pinned, staging, [n])
    staging = [(rank + i, i = 1, n)]
    call selvage_exchange_create(comm, exchange)
    call selvage_exchange_add_send(exchange, values, bytes, modulo(rank + 1, size), 0)
    call selvage_exchange_add_recv(exchange, halo, bytes, below, 0)
    call selvage_exchange_commit(exchange)
    call selvage_device_upload(device, values, staging, stream)
    call selvage_device_launch_soft(device, scale, scaling(values, n, 2.0_c_double), 3, stream)
    call selvage_device_delay_us(device, 100.0_c_double, stream)
    call selvage_exchange_start(exchange, stream)
    call selvage_exchange_enqueue_wait(exchange, stream)
    call selvage_device_download(device, host, halo, stream)
    call selvage_stream_synchronize(device, stream)
    call check(all(host == 2 * [(below + i, i = 1, n)]), 'a kernel, an exchange on the stream, a copy back')
    call selvage_exchange_wait(exchange, stream)

    call selvage_device_fill(device, halo, 0, bytes, stream)
    call selvage_device_copy(device, pinned, halo, bytes, SELVAGE_COPY_DEVICE_TO_HOST, stream)
    call selvage_stream_synchronize(device, stream)
    call c_f_pointer(halo, direct, [n])
    call check(all(staging == 0) .and. all(direct == 0), 'a fill, and device memory as an array')
    call selvage_device_download(device, host(::2), halo, stream, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'array: is not contiguous')
    call selvage_device_launch_soft(device, scale, scaling(values, n, 1.0_c_double), 0, stream, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'nblocks')
    call selvage_device_launch_soft(device, scale, host, 1, stream, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'bytes')

    call selvage_exchange_destroy(exchange)
    call selvage_buffer_unregister(buffer)
    call selvage_device_host_free(device, pinned)
    call selvage_device_free(device, halo)
    call selvage_device_free(device, values)
    call check(.not. (c_associated(pinned) .or. c_associated(halo) .or. c_associated(values)), 'pointers after free')
    call selvage_stream_destroy(device, stream)
  end subroutine

end module

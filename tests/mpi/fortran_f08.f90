! SPDX-License-Identifier: BSD-3-Clause
!
! The cases of the Fortran module with the MPI module `mpi_f08`, whose communicators are of type(MPI_Comm).
program fortran_f08
  use mpi_f08
  use, intrinsic :: iso_c_binding
  use selvage
  use fortran_checks
  use fortran_cases
  use fortran_grids
  implicit none
  type(selvage_device) :: device
  type(selvage_comm) :: comm
  type(MPI_Comm) :: cart
  integer :: error, rank, wrong, dims(2)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call selvage_device_open(device, 'soft')
  call selvage_comm_create(MPI_COMM_WORLD, comm, device)
  call check(selvage_comm_rank(comm) == rank, 'the rank')

  call names_and_errors(comm)
  call ring_of_arrays(comm)
  call lengths_that_change(comm)
  call neighbors_only(comm)
  call refusals(comm)
  call lists_of_elements(comm)
  call rows_by_datatype()
  call neighbours_by_graph()
  call device_and_kernel(comm, device)

  dims = 0
  call MPI_Dims_create(selvage_comm_size(comm), 2, dims)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., cart)
  call grids(comm, dims, [12, 9])
  call grid_of_cart(dims, [12, 9])
  call halos(comm)
  call MPI_Comm_free(cart)

  call selvage_comm_destroy(comm)
  call selvage_device_close(device)
  call MPI_Allreduce(failures, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print '(a, i0, a, i0, a)', 'fortran_f08: ', checks, ' checks, ', wrong, ' failed'
  call MPI_Finalize()
  if (wrong /= 0) stop 1

contains

  ! Rows of matrices: from an element on, and from an address.
  subroutine rows_by_datatype()
    type(selvage_exchange) :: exchange
    type(MPI_Datatype) :: row
    double precision, target :: sent(5, 4), got(5, 4), wanted(5, 4)
    integer :: above, below, i
    above = modulo(rank + 1, selvage_comm_size(comm))
    below = modulo(rank - 1, selvage_comm_size(comm))
    sent = 100 * rank + reshape([(i, i = 1, 20)], [5, 4])
    wanted = 100 * below + reshape([(i, i = 1, 20)], [5, 4])
    got = -1
    call MPI_Type_vector(4, 1, 5, MPI_DOUBLE_PRECISION, row)
    call MPI_Type_commit(row)
    call selvage_exchange_create(comm, exchange)
    call selvage_exchange_add_send_type(exchange, sent(2, 1), 1, row, above, 0)
    call selvage_exchange_add_send_type(exchange, c_loc(sent), 1_c_size_t, row, above, 0)
    call selvage_exchange_add_recv_type(exchange, got(4, 1), 1, row, below, 0)
    call selvage_exchange_add_recv_type(exchange, c_loc(got(3, 1)), 1_c_size_t, row, below, 0)
    call selvage_exchange_add_send_type(exchange, sent, -1, row, above, 0, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'count: is -1')
    call MPI_Type_free(row)
    call selvage_exchange_commit(exchange)
    call selvage_exchange_start(exchange)
    call selvage_exchange_wait(exchange)
    call check(all(got(4, :) == wanted(2, :)) .and. all(got(3, :) == wanted(1, :)), 'rows')
    call check(count(got == -1) == 12, 'and nothing but rows')
    call selvage_exchange_destroy(exchange)
  end subroutine

  ! Neighbours that MPI knows: the rank above gets two numbers, the rank below three; beside MPI's own collective.
  subroutine neighbours_by_graph()
    type(selvage_exchange) :: exchange
    type(MPI_Comm) :: graph
    integer, target, asynchronous :: sent(7), got(7)
    integer :: wanted(7)
    integer :: above, below, i
    integer(c_size_t), parameter :: lengths(2) = [8, 12], places(2) = [16, 0], apart(2) = [12, 0]
    above = modulo(rank + 1, selvage_comm_size(comm))
    below = modulo(rank - 1, selvage_comm_size(comm))
    sent = [(100 * rank + i, i = 1, 7)]
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, [below, above], MPI_UNWEIGHTED, 2, [above, below], &
                                        MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)

    call selvage_exchange_create(comm, exchange)
    call selvage_exchange_add_graph(exchange, graph, sent, lengths(1:1), got, lengths, 0, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'send_bytes: has 1 elements, and graph has 2 destinations')
    call selvage_exchange_add_graph(exchange, graph, sent, lengths, got, lengths, 0, places(1:0), error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'send_offset_bytes: has 0 elements')
    call selvage_exchange_add_graph(exchange, graph, sent, lengths, got, -lengths, 0, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'recv_bytes(1): is -8')
    call selvage_exchange_add_graph(exchange, graph, sent, lengths, got(1:4), lengths, 0, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'recv: has 16 bytes, and the packet of source 2 has 12 from 8 on')
    call selvage_exchange_add_graph(exchange, graph, sent, lengths, got(1:7:2), lengths, 0, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'recv: is not contiguous')
    call selvage_exchange_add_graph(exchange, MPI_COMM_WORLD, sent, lengths, got, lengths, 0, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'graph has no distributed graph topology')
    call selvage_exchange_add_graph(exchange, MPI_COMM_NULL, sent, lengths, got, lengths, 0, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'graph is MPI_COMM_NULL')
    call selvage_exchange_add_graph(exchange, graph, sent, lengths, got, lengths, 7, send_offset_bytes=places)
    wanted = -1
    call MPI_Neighbor_alltoallv(sent, [2, 3], [4, 0], MPI_INTEGER, wanted, [2, 3], [0, 2], MPI_INTEGER, graph)
    call run_once(exchange, got)
    call check(all(got == wanted), 'neighbours of a graph, arrays')

    call selvage_exchange_create(comm, exchange)
    call selvage_exchange_add_graph(exchange, graph, c_loc(sent), c_sizeof(sent), lengths, c_loc(got(2)), 19_c_size_t, &
                                    lengths, 7, recv_offset_bytes=apart, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'recv: has 19 bytes, and the packet of source 1 has 8 from 12 on')
    call selvage_exchange_add_graph(exchange, graph, c_loc(sent), c_sizeof(sent), lengths, c_loc(got(2)), 20_c_size_t, &
                                    lengths, 7, recv_offset_bytes=apart)
    wanted = -1
    call MPI_Neighbor_alltoallv(sent, [2, 3], [0, 2], MPI_INTEGER, wanted, [2, 3], [4, 1], MPI_INTEGER, graph)
    call run_once(exchange, got)
    call check(all(got == wanted), 'neighbours of a graph, addresses')
    call MPI_Comm_free(graph)
  end subroutine

  subroutine run_once(exchange, got)
    type(selvage_exchange), intent(inout) :: exchange
    integer, intent(inout), asynchronous :: got(:)
    call selvage_exchange_commit(exchange)
    got = -1
    call selvage_exchange_start(exchange)
    call selvage_exchange_wait(exchange)
    call selvage_exchange_destroy(exchange)
  end subroutine

  subroutine grid_of_cart(blocks, extent)
    integer, intent(in) :: blocks(2), extent(2)
    type(selvage_grid) :: grid
    call selvage_grid_create_cart(comm, cart, extent, grid)
    call check_cart(grid, blocks, extent)
    call selvage_grid_create_cart(comm, MPI_COMM_WORLD, extent, grid, error=error)
    call check(error == SELVAGE_ERR_ARGUMENT, 'a communicator without a topology')
  end subroutine

end program

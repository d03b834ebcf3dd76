! SPDX-License-Identifier: BSD-3-Clause
!
! The Fortran module's grids and halos: what counts from 1 does, boxes cover each own cell once, and halos of arrays of
! rank 1 to 4, of sections, cells of several numbers and planes hold what their owners computed for these cells.
module fortran_grids
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use selvage
  use fortran_checks
  implicit none
  private
  public :: grids, check_cart, halos

contains

  !> A domain that is open in dimension 2, as even as possible, and cut as one says.
  subroutine grids(comm, blocks, extent)
    type(selvage_comm), intent(in) :: comm
    integer, intent(in) :: blocks(2), extent(2)
    type(selvage_grid) :: grid
    type(selvage_grid_info) :: info
    integer :: i, rank, error, coords(2), last
    call selvage_grid_create(comm, extent, grid, periodic=[.true., .false.], blocks=blocks)
    call check_places(comm, grid, blocks, extent)
    call check_boxes(grid)
    call refuse_arrays(comm, grid)
    call selvage_grid_destroy(grid)

    call selvage_grid_create(comm, int(extent, int64), grid, blocks=blocks, &
                             split1=[(1, i = 1, blocks(1) - 1), extent(1) - blocks(1) + 1], &
                             split2=[extent(2) - blocks(2) + 1, (1, i = 1, blocks(2) - 1)], &
                             ranks=[(selvage_comm_size(comm) - i, i = 1, selvage_comm_size(comm))])
    call selvage_grid_describe(grid, info)
    call check(info%local_extent(1) == merge(extent(1) - blocks(1) + 1, 1, info%coords(1) == blocks(1) - 1) .and. &
               info%local_extent(2) == merge(extent(2) - blocks(2) + 1, 1, info%coords(2) == 0), 'blocks as asked for')
    call check(.not. any(info%periodic), 'open without being told')
    last = selvage_comm_size(comm) - 1
    call selvage_grid_coords(grid, last, coords)
    call check(all(coords == 0), 'the last rank has the first block')
    call selvage_grid_rank(grid, coords, rank)
    call check(rank == last, 'and the first block is the last rank''s')
    call selvage_grid_destroy(grid)

    call selvage_grid_create(comm, [64, 64, 8], grid, reorder=.true., width=[1, 1, 2])
    call selvage_grid_describe(grid, info)
    call check(info%ndims == 3 .and. product(info%blocks(1:3)) == selvage_comm_size(comm), 'a grid of its own choice')
    call selvage_grid_destroy(grid)
    call selvage_grid_create(comm, [64, 64], grid, blocks=blocks + 1, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'blocks')
    call selvage_grid_create(comm, [64, 64], grid, periodic=[.true.], error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'periodic: has 1 elements, and 2')
    call selvage_grid_create(comm, [64, 64], grid, blocks=blocks, split2=[(1, i = 0, blocks(2))], error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'split2')
    call selvage_grid_create(comm, [2, 2, 2, 2, 2], grid, error=error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'global_extent')
  end subroutine

  ! Arrays that do not fit the grid.
  subroutine refuse_arrays(comm, grid)
    type(selvage_comm), intent(in) :: comm
    type(selvage_grid), intent(in) :: grid
    type(selvage_box) :: box, slab(3)
    integer :: error, rank, one(1)
    call selvage_grid_neighbour(grid, [1, 0, 0], rank, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'offset: has 3 elements, and 2')
    call selvage_grid_coords(grid, 0, one, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'coords: has 1 elements, and 2')
    call selvage_grid_coords(grid, selvage_comm_size(comm), one, error)
    call check(error == SELVAGE_ERR_ARGUMENT, 'a rank that is not there')
    call selvage_grid_boundary(grid, 1, slab, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'slab: has 3 elements, and 4')
    call selvage_grid_interior(grid, [1, 1], [1], box, error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'width_hi: has 1 elements, and 2')
  end subroutine

  !> A grid made of MPI's topology, whose last dimension varies fastest over the ranks; destroys it.
  subroutine check_cart(grid, blocks, extent)
    type(selvage_grid), intent(inout) :: grid
    integer, intent(in) :: blocks(2), extent(2)
    integer :: coords(2), rank
    type(selvage_grid_info) :: info
    call selvage_grid_describe(grid, info)
    call check(all(info%blocks(1:2) == blocks) .and. all(info%global_extent(1:2) == extent), 'blocks of a topology')
    call check(info%periodic(1) .and. .not. info%periodic(2), 'periods of a topology')
    do rank = 0, product(blocks) - 1
      call selvage_grid_coords(grid, rank, coords)
      call check(all(coords == [rank / blocks(2), modulo(rank, blocks(2))]), 'places of a topology')
    end do
    call selvage_grid_destroy(grid)
  end subroutine

  ! Where each block lies, and who its neighbours are.
  subroutine check_places(comm, grid, blocks, extent)
    type(selvage_comm), intent(in) :: comm
    type(selvage_grid), intent(in) :: grid
    integer, intent(in) :: blocks(2), extent(2)
    type(selvage_grid_info) :: info
    integer(int64) :: cells(2), first(2)
    integer :: rank, d, coords(2), more(2), neighbour, wanted
    call selvage_grid_describe(grid, info)
    call check(info%ndims == 2 .and. all(info%blocks(1:2) == blocks) .and. all(info%global_extent(1:2) == extent) &
               .and. info%global_extent(3) == 1, 'what the grid is like')
    call check(info%periodic(1) .and. .not. info%periodic(2), 'which dimension is periodic')
    do rank = 0, selvage_comm_size(comm) - 1
      call selvage_grid_coords(grid, rank, coords)
      call selvage_grid_block(grid, rank, cells, first)
      do d = 1, 2
        more = min(coords, modulo(extent, blocks))
        call check(first(d) == 1 + coords(d) * (extent(d) / blocks(d)) + more(d), 'the first cell of a block')
        call check(cells(d) == extent(d) / blocks(d) + merge(1, 0, coords(d) < modulo(extent(d), blocks(d))), &
                   'the extent of a block')
      end do
      if (rank /= selvage_comm_rank(comm)) cycle
      call check(all(coords == info%coords(1:2)) .and. all(cells == info%local_extent(1:2)) .and. &
                 all(first == info%local_first(1:2)), 'this rank''s block')
    end do
    call selvage_grid_neighbour(grid, [1, 0], neighbour)
    call selvage_grid_rank(grid, info%coords(1:2) + [1, 0], wanted)
    call selvage_grid_coords(grid, neighbour, coords)
    call check(neighbour == wanted .and. coords(1) == modulo(info%coords(1) + 1, blocks(1)), 'the neighbour above')
    call selvage_grid_neighbour(grid, [0, -1], neighbour)
    call check((neighbour == -1) .eqv. (info%coords(2) == 0), 'nobody beyond an open end')
  end subroutine

  ! Interior and slabs are all own cells, each once; the interior is what lies off the neighbours.
  subroutine check_boxes(grid)
    type(selvage_grid), intent(in) :: grid
    type(selvage_grid_info) :: info
    type(selvage_box) :: box, slab(4)
    integer, allocatable :: times(:, :)
    integer :: i
    call selvage_grid_describe(grid, info)
    allocate (times(-1:info%local_extent(1) + 2, -1:info%local_extent(2) + 2))
    times = 0
    call selvage_grid_interior(grid, 1, box)
    call selvage_grid_boundary(grid, 1, slab)
    call add(box)
    call check(box%first(1) == 2 .and. box%last(1) == info%local_extent(1) - 1, 'interior of a periodic dimension')
    call check(box%first(2) == merge(1, 2, info%coords(2) == 0) .and. box%last(2) == info%local_extent(2) - &
               merge(0, 1, info%coords(2) == info%blocks(2) - 1), 'interior of an open dimension')
    call check(box%first(3) == 1 .and. box%last(3) == 1, 'dimensions that the grid has not')
    do i = 1, 4
      call add(slab(i))
    end do
    call check(all(times(1:info%local_extent(1), 1:info%local_extent(2)) == 1) .and. &
               sum(times) == product(info%local_extent(1:2)), 'interior and slabs cover own cells once')
    call selvage_grid_interior(grid, [2, 0], [1, 0], box)
    call check(box%first(1) == 3 .and. box%first(2) == 1 .and. box%last(1) == info%local_extent(1) - 1, &
               'interior, other widths below and above')
    call selvage_grid_boundary(grid, [2, 0], [1, 0], slab)
    call check(slab(1)%first(1) == 1 .and. slab(1)%last(1) == min(2, info%local_extent(1)) .and. &
               slab(1)%last(2) == info%local_extent(2), 'the lower slab of dimension 1')
  contains
    subroutine add(cells)
      type(selvage_box), intent(in) :: cells
      times(cells%first(1):cells%last(1), cells%first(2):cells%last(2)) = &
          times(cells%first(1):cells%last(1), cells%first(2):cells%last(2)) + 1
    end subroutine
  end subroutine

  !> Halos of every rank of array, on periodic grids of the library's choice.
  subroutine halos(comm)
    type(selvage_comm), intent(in) :: comm
    call halo_of_line(comm)
    call halo_of_plane(comm)
    call halos_of_cube(comm)
    call halo_of_four(comm)
    call reverse_halo(comm)
    call refuse_fields(comm)
  end subroutine

  ! What the cell with these global indices holds, which may lie in a halo beyond the domain's end.
  pure real(real64) function value(info, cell)
    type(selvage_grid_info), intent(in) :: info
    integer, intent(in) :: cell(:)
    integer :: d
    value = 0
    do d = 1, size(cell)
      value = 64 * value + modulo(info%local_first(d) + cell(d) - 2, info%global_extent(d))
    end do
  end function

  subroutine halo_of_line(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_grid) :: grid
    type(selvage_grid_info) :: info
    type(selvage_halo) :: halo
    integer(int64), allocatable, target :: u(:)
    integer :: i, n
    call selvage_grid_create(comm, [30], grid, periodic=[.true.])
    call selvage_grid_describe(grid, info)
    n = info%local_extent(1)
    allocate (u(-1:n + 1))
    u = -1
    u(1:n) = [(int(value(info, [i]), int64), i = 1, n)]
    call selvage_halo_create(grid, [selvage_field_of(u, width_lo=[2], width_hi=[1])], halo)
    call selvage_halo_exchange(halo)
    call check(all(u == [(int(value(info, [i]), int64), i = -1, n + 1)]), 'the halo of a line')
    call selvage_halo_destroy(halo)
    call selvage_grid_destroy(grid)
  end subroutine

  ! Edges and corners too; then another array, by field and by address; then one direction only.
  subroutine halo_of_plane(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_grid) :: grid
    type(selvage_grid_info) :: info
    type(selvage_halo_info) :: moved
    type(selvage_halo) :: halo
    complex(real64), allocatable, target :: a(:, :), b(:, :), wanted(:, :)
    integer :: i, j, n(2), error
    logical :: done
    call selvage_grid_create(comm, [18, 21], grid, periodic=[.true., .true.])
    call selvage_grid_describe(grid, info)
    n = info%local_extent(1:2)
    allocate (a(-1:n(1) + 2, -1:n(2) + 2), b(-1:n(1) + 2, -1:n(2) + 2), wanted(-1:n(1) + 2, -1:n(2) + 2))
    do j = -1, n(2) + 2
      wanted(:, j) = [(cmplx(value(info, [i, j]), i, real64), i = -1, n(1) + 2)]
    end do
    wanted = cmplx(real(wanted), 7, real64)
    call selvage_halo_create(grid, [selvage_field_of(a, width=2)], halo, shape=SELVAGE_HALO_FULL)
    call selvage_halo_describe(halo, moved)
    call check(moved%packets >= 1 .and. moved%bytes_sent > 0 .and. moved%bytes_received > 0, 'what a halo moves')
    call clear(a)
    call selvage_halo_start(halo)
    call selvage_halo_wait(halo)
    call check(all(a == wanted), 'faces, edges and corners')
    call selvage_halo_rebind(halo, [selvage_field_of(b, width=2)])
    call clear(b)
    call selvage_halo_start(halo)
    done = .false.
    do while (.not. done)
      call selvage_halo_test(halo, done)
    end do
    call check(all(b == wanted), 'the same into another array')
    call selvage_halo_rebind(halo, [c_loc(a)])
    call clear(a)
    call selvage_halo_exchange(halo)
    call check(all(a == wanted), 'and into the first one again')
    call selvage_halo_rebind(halo, [c_loc(a), c_loc(b)], error)
    call refused(error, SELVAGE_ERR_ARGUMENT, 'ptr: has 2 elements, and the halo has 1')
    call selvage_halo_destroy(halo)

    call selvage_halo_create(grid, [selvage_field_of(a, width=2)], halo, directions=reshape([1, 0], [2, 1]))
    call clear(a)
    call selvage_halo_exchange(halo)
    call check(all(a(-1:n(1), 1:n(2)) == wanted(-1:n(1), 1:n(2))), 'the lower halo of dimension 1')
    call check(all(a(n(1) + 1:, :) == -1) .and. all(a(:, :0) == -1), 'and no other')
    call selvage_halo_destroy(halo)
    call selvage_grid_destroy(grid)
  contains
    subroutine clear(u)
      complex(real64), intent(out) :: u(-1:, -1:)
      u = -1
      u(1:n(1), 1:n(2)) = wanted(1:n(1), 1:n(2))
    end subroutine
  end subroutine

  ! Four fields in one exchange: an array, a section of one, cells of three numbers, two planes.
  subroutine halos_of_cube(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_grid) :: grid
    type(selvage_grid_info) :: info
    type(selvage_halo) :: halo
    real(real32), allocatable, target :: a(:, :, :)
    real(real64), allocatable, target :: b(:, :, :), c(:, :, :, :), d(:, :, :, :)
    type(c_ptr) :: stream
    type(selvage_device) :: device
    integer :: x, y, z, n(3), wrong
    real(real64) :: w
    device = selvage_comm_device(comm)
    call selvage_stream_create(device, stream)
    call selvage_grid_create(comm, [8, 10, 9], grid, periodic=[.true., .true., .true.])
    call selvage_grid_describe(grid, info)
    n = info%local_extent(1:3)
    allocate (a(0:n(1) + 1, 0:n(2) + 1, 0:n(3) + 1), b(0:2 * n(1) + 3, 0:n(2) + 3, 0:n(3) + 1))
    allocate (c(3, 0:n(1) + 1, 0:n(2) + 1, 0:n(3) + 1), d(0:n(1) + 1, 0:n(2) + 1, 0:n(3) + 1, 2))
    a = -1
    b = -1
    c = -1
    d = -1
    do z = 1, n(3)
      do y = 1, n(2)
        do x = 1, n(1)
          w = value(info, [x, y, z])
          a(x, y, z) = real(w, real32)
          b(2 * x, y, z) = w + 1
          c(:, x, y, z) = w + [2, 3, 4]
          d(x, y, z, :) = w + [5, 6]
        end do
      end do
    end do
    call selvage_halo_create(grid, [selvage_field_of(a, width=1), selvage_field_of(b(::2, 0:n(2) + 1, :), width=1), &
                                    selvage_field_of(c, width=1, cell_rank=1), &
                                    selvage_field_of(d, width_lo=[1, 1, 1], width_hi=[1, 0, 1], first=[2, 2, 2], &
                                                     plane_rank=1)], halo)
    call selvage_halo_start(halo, stream)
    call selvage_halo_wait(halo, stream)
    call selvage_stream_synchronize(device, stream)
    wrong = 0
    do z = 0, n(3) + 1
      do y = 0, n(2) + 1
        do x = 0, n(1) + 1
          if (count([x == 0 .or. x == n(1) + 1, y == 0 .or. y == n(2) + 1, z == 0 .or. z == n(3) + 1]) > 1) cycle
          w = value(info, [x, y, z])
          if (a(x, y, z) /= real(w, real32) .or. b(2 * x, y, z) /= w + 1) wrong = wrong + 1
          if (any(c(:, x, y, z) /= w + [2, 3, 4])) wrong = wrong + 1
          if (any(d(x, y, z, :) /= merge([-1d0, -1d0], w + [5, 6], y == n(2) + 1))) wrong = wrong + 1
        end do
      end do
    end do
    call check(wrong == 0, 'four fields on a cube')
    call check(all(b(1::2, :, :) == -1) .and. all(b(:, n(2) + 2:, :) == -1), 'what lies between the cells')
    call check(a(0, 0, 1) == -1 .and. a(n(1) + 1, 1, 0) == -1, 'edges, where there are only faces')
    call selvage_halo_destroy(halo)
    call selvage_grid_destroy(grid)
    call selvage_stream_destroy(device, stream)
  end subroutine

  ! Device memory by its address, in four dimensions.
  subroutine halo_of_four(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_grid) :: grid
    type(selvage_grid_info) :: info
    type(selvage_halo) :: halo
    type(selvage_device) :: device
    type(c_ptr) :: memory
    integer(int32), pointer :: u(:, :, :, :)
    integer :: i, t, n(4)
    device = selvage_comm_device(comm)
    call selvage_grid_create(comm, [4, 6, 4, 6], grid, periodic=[.true., .true., .true., .true.])
    call selvage_grid_describe(grid, info)
    n = info%local_extent
    call selvage_device_malloc(device, product(n + 2) * c_sizeof(1_c_int32_t), memory)
    call c_f_pointer(memory, u, n + 2)
    u = -1
    do t = 1, n(4)
      u(2:n(1) + 1, 2, 2, t + 1) = [(int(value(info, [i, 1, 1, t])), i = 1, n(1))]
    end do
    call selvage_halo_create(grid, [selvage_field_of(memory, c_sizeof(1_c_int32_t), n + 2, width=1)], halo)
    call selvage_halo_exchange(halo)
    call check(all(u(:, 2, 2, 2) == [(int(value(info, [i, 1, 1, 1])), i = 0, n(1) + 1)]), 'dimension 1 of four')
    call check(all(u(2, 2, 2, :) == [(int(value(info, [1, 1, 1, i])), i = 0, n(4) + 1)]), 'dimension 4 of four')
    call selvage_halo_destroy(halo)
    call selvage_grid_destroy(grid)
    call selvage_device_free(device, memory)
  end subroutine

  ! Every halo cell has 1 to give: an own cell gets one for each halo in which it lies.
  subroutine reverse_halo(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_grid) :: grid
    type(selvage_grid_info) :: info
    type(selvage_halo) :: halo
    real(real64), allocatable, target :: u(:, :)
    integer :: i, j, n(2), wrong
    call selvage_grid_create(comm, [18, 21], grid, periodic=[.true., .true.])
    call selvage_grid_describe(grid, info)
    n = info%local_extent(1:2)
    allocate (u(0:n(1) + 1, 0:n(2) + 1))
    u = 1
    u(1:n(1), 1:n(2)) = 0
    call selvage_halo_create(grid, [selvage_field_of(u, width=1)], halo, shape=SELVAGE_HALO_FULL, reverse=.true.)
    call selvage_halo_exchange(halo)
    call selvage_stream_synchronize(selvage_comm_device(comm)) ! additions are work on the stream
    wrong = 0
    do j = 1, n(2)
      do i = 1, n(1)
        if (nint(u(i, j)) /= (1 + count([i == 1, i == n(1)])) * (1 + count([j == 1, j == n(2)])) - 1) wrong = wrong + 1
      end do
    end do
    call check(wrong == 0, 'contributions of halos to their owners')
    call selvage_halo_destroy(halo)
    call selvage_grid_destroy(grid)
  end subroutine

  ! What is wrong with a field is kept until a halo is made of it.
  subroutine refuse_fields(comm)
    type(selvage_comm), intent(in) :: comm
    type(selvage_grid) :: grid
    real(real64), target :: u(40, 40)
    call selvage_grid_create(comm, [18, 21], grid, periodic=[.true., .true.])
    call refuse(selvage_field_of(u(:, 1), width=1), 'fields(1): has 1 dimensions, and the grid has 2')
    call refuse(selvage_field_of(c_loc(u), width=1), 'fields(1): array: is a type(c_ptr)')
    call refuse(selvage_field_of(u, width_lo=[1, 1, 1]), 'fields(1): width_lo and width_hi')
    call refuse(selvage_field_of(u, width=1, first=[0, 1]), 'fields(1): first')
    call refuse(selvage_field_of(u, width=1, stagger=[1]), 'fields(1): stagger')
    call refuse(selvage_field_of(u, width=1, parity=SELVAGE_PARITY_ODD, packed_dim=3), 'fields(1): packed_dim')
    call refuse(selvage_field_of(u, width=1, plane_rank=2), 'fields(1): array: has not 1 to 4 dimensions')
    call refuse(selvage_field_of(u(1:2, :), width=1), 'array_extent')
    call refuse(selvage_field_of(u, width=19), 'width')
    call without_size(u)
    call selvage_grid_destroy(grid)
  contains
    subroutine refuse(field, text)
      type(selvage_field), intent(in) :: field
      character(len=*), intent(in) :: text
      type(selvage_halo) :: halo
      integer :: error
      call selvage_halo_create(grid, [field], halo, error=error)
      call refused(error, SELVAGE_ERR_ARGUMENT, text)
    end subroutine
    subroutine without_size(array)
      real(real64), intent(inout), target :: array(10, *)
      call refuse(selvage_field_of(array, width=1), 'fields(1): array: has assumed size')
    end subroutine
  end subroutine

end module

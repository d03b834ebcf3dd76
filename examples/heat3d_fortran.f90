! SPDX-License-Identifier: BSD-3-Clause
!
! heat3d in Fortran: heat in a periodic cube, the 7-point stencil and explicit Euler steps, blocks of the cube on the
! ranks, the interior updated while the halos travel. One Fourier mode decays; it is compared with the exact solution on
! three grids, each twice as fine as the one before, so that the error must fall by four; and with the decay that the
! difference equations have themselves, which must be met to rounding. What it prints is what heat3d prints, to the bit.
!
!     mpirun -n 4 heat3d_fortran [--n CELLS] [--steps STEPS]
!
! Read make_halo() and step(), which are all there is about halos; before them are the loops, after them the set-up and
! the comparison. The loops are Fortran procedures that the software device runs.

!> The loops, and what they work on.
module heat3d_loops
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use selvage
  implicit none

  integer, parameter :: boxes_max = 6

  !> The argument of a launch: a field and its next state, in device memory, and the cells to be updated.
  type, bind(C) :: update_arg
    type(c_ptr) :: u, next
    integer(c_int) :: own(3), nboxes = 0
    real(c_double) :: r !< dt / h^2
    type(selvage_box) :: box(boxes_max)
  end type

contains

  !> One time step of some boxes; each block of the launch takes a share of their planes.
  subroutine update(arg, block, nblocks) bind(C)
    type(c_ptr), value :: arg
    integer(c_int), value :: block, nblocks
    type(update_arg), pointer :: a
    real(real64), pointer, contiguous :: u(:, :, :), next(:, :, :)
    integer :: b, k
    call c_f_pointer(arg, a)
    call c_f_pointer(a%u, u, a%own + 2)
    call c_f_pointer(a%next, next, a%own + 2)
    do b = 1, a%nboxes
      do k = a%box(b)%first(3) + block, a%box(b)%last(3), nblocks
        call update_plane(u, next, a%own, a%r, a%box(b), k)
      end do
    end do
  end subroutine

  subroutine update_plane(u, next, own, r, box, k)
    integer, intent(in) :: own(3), k
    real(real64), intent(in) :: u(0:own(1) + 1, 0:own(2) + 1, 0:own(3) + 1), r
    real(real64), intent(inout) :: next(0:own(1) + 1, 0:own(2) + 1, 0:own(3) + 1)
    type(selvage_box), intent(in) :: box
    integer :: i, j
    do j = box%first(2), box%last(2)
      do i = box%first(1), box%last(1)
        next(i, j, k) = u(i, j, k) + r * ((((u(i - 1, j, k) + u(i + 1, j, k)) + (u(i, j - 1, k) + u(i, j + 1, k))) + &
                                          (u(i, j, k - 1) + u(i, j, k + 1))) - 6 * u(i, j, k))
      end do
    end do
  end subroutine

end module

program heat3d_fortran
  use mpi_f08
  use heat3d_loops
  implicit none

  integer, parameter :: grids = 3, threads = 2
  real(real64), parameter :: pi = 3.14159265358979323846_real64, ratio = 0.125_real64 ! dt / h^2; stable up to 1/6

  type(selvage_device) :: device
  type(selvage_comm) :: comm
  type(selvage_grid) :: grid
  type(selvage_grid_info) :: info
  type(selvage_halo) :: halo
  type(c_ptr) :: stream
  type(update_arg) :: interior, slabs
  real(real64), pointer, contiguous :: u(:, :, :), next(:, :, :)
  real(real64), allocatable :: mode_x(:), mode_y(:), mode_z(:)
  real(real64) :: decay_per_step, error, finer, order
  integer :: n, steps, g, wrong
  logical :: main

  call MPI_Init()
  call selvage_device_open(device, 'soft')
  call selvage_comm_create(MPI_COMM_WORLD, comm, device)
  call selvage_stream_create(device, stream)
  main = selvage_comm_rank(comm) == 0
  call read_options()
  if (main) then
    print '(a, i0, 3a, i0)', 'heat3d: ', selvage_comm_size(comm), ' ranks on ', selvage_device_name(device), &
        ', 7-point stencil, dt = h^2 / ', nint(1 / ratio)
    print '(a)', '   cells    steps  decay           exact solution  error      order  difference eq.  off by   bits'
  end if
  wrong = 0
  error = 0
  do g = 0, grids - 1
    finer = solve(n * 2**g, steps * 4**g, error)
    order = log(error / finer) / log(2.0_real64)
    error = finer
  end do
  call report()
  call selvage_stream_destroy(device, stream)
  call selvage_comm_destroy(comm)
  call selvage_device_close(device)
  call MPI_Finalize()
  if (wrong /= 0) stop 1

contains

  ! The cube in blocks, and the exchange of the faces of a field around its block, one cell deep.
  subroutine make_halo(cells)
    integer, intent(in) :: cells
    call selvage_grid_create(comm, [cells, cells, cells], grid, periodic=[.true., .true., .true.])
    call selvage_grid_describe(grid, info)
    u => new_field()
    next => new_field()
    call selvage_halo_create(grid, [selvage_field_of(u, width=1)], halo)
  end subroutine

  ! What can be updated before the halos are here, and what cannot.
  subroutine make_boxes()
    interior%own = info%local_extent(1:3)
    interior%r = ratio
    slabs = interior
    interior%nboxes = 1
    call selvage_grid_interior(grid, 1, interior%box(1))
    slabs%nboxes = 6
    call selvage_grid_boundary(grid, 1, slabs%box)
  end subroutine

  subroutine step()
    call selvage_halo_start(halo, stream)                    ! returns at once
    call launch(interior)                                    ! runs while the halos travel
    call selvage_halo_wait(halo, stream)                     ! what is launched from here on sees them
    call launch(slabs)
    call swap()
    call selvage_halo_rebind(halo, [c_loc(u)])
  end subroutine

  subroutine launch(cells)
    type(update_arg), intent(inout) :: cells
    cells%u = c_loc(u)
    cells%next = c_loc(next)
    call selvage_device_launch_soft(device, update, cells, threads, stream)
  end subroutine

  subroutine swap()
    real(real64), pointer, contiguous :: last(:, :, :)
    last => u
    u => next
    next => last
  end subroutine

  ! An array in device memory for the own cells, which are 1 to local_extent, and their halo.
  function new_field() result(field)
    real(real64), pointer, contiguous :: field(:, :, :), from_one(:, :, :)
    type(c_ptr) :: memory
    call selvage_device_malloc(device, product(info%local_extent(1:3) + 2) * c_sizeof(1.0_c_double), memory)
    call c_f_pointer(memory, from_one, info%local_extent(1:3) + 2)
    field(0:, 0:, 0:) => from_one
  end function

  subroutine free_field(field)
    real(real64), pointer, contiguous, intent(inout) :: field(:, :, :)
    type(c_ptr) :: memory
    memory = c_loc(field)
    call selvage_device_free(device, memory)
    nullify (field)
  end subroutine

  ! One period of a sine along each dimension, shifted, so that no cell is like its mirror image.
  subroutine make_mode()
    integer :: d
    mode_x = factor(1)
    mode_y = factor(2)
    mode_z = factor(3)
    decay_per_step = 1
    do d = 1, 3
      associate (half => sin(pi / real(info%global_extent(d), real64)))
        decay_per_step = decay_per_step - 4 * ratio * half * half
      end associate
    end do
  end subroutine

  function factor(d)
    integer, intent(in) :: d
    real(real64), allocatable :: factor(:)
    integer :: i
    allocate (factor(info%local_extent(d)))
    do i = 1, info%local_extent(d)
      factor(i) = sin(2 * pi * (real(info%local_first(d) + i - 2, real64) + 0.5_real64) / &
                      real(info%global_extent(d), real64) + 0.3_real64 * d)
    end do
  end function

  real(real64) function mode(i, j, k)
    integer, intent(in) :: i, j, k
    mode = mode_x(i) * mode_y(j) * mode_z(k)
  end function

  subroutine start_from_mode()
    integer :: i, j, k
    do k = 1, size(mode_z)
      do j = 1, size(mode_y)
        do i = 1, size(mode_x)
          u(i, j, k) = mode(i, j, k)
        end do
      end do
    end do
  end subroutine

  ! The largest |u - amplitude * mode| of all cells: the same, to the bit, however the cube is cut.
  real(real64) function distance(amplitude)
    real(real64), intent(in) :: amplitude
    real(real64) :: mine
    integer :: i, j, k
    mine = 0
    do k = 1, size(mode_z)
      do j = 1, size(mode_y)
        do i = 1, size(mode_x)
          mine = max(mine, abs(u(i, j, k) - amplitude * mode(i, j, k)))
        end do
      end do
    end do
    call MPI_Allreduce(mine, distance, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
  end function

  ! A number that changes with every bit of every cell, and not with the way in which the cube is cut.
  integer(int64) function digest()
    integer(int64), parameter :: odd = int(z'9e3779b97f4a7c15', int64), mixer = int(z'd6e8feb86659fd93', int64)
    integer(int64) :: mine, bits, place
    integer :: i, j, k
    mine = 0
    do k = 1, size(mode_z)
      do j = 1, size(mode_y)
        do i = 1, size(mode_x)
          place = ((info%local_first(3) + k - 2) * info%global_extent(2) + info%local_first(2) + j - 2) * &
                  info%global_extent(1) + info%local_first(1) + i - 2
          bits = times(ieor(transfer(u(i, j, k), bits), times(place, odd)), mixer)
          mine = plus(mine, times(ieor(bits, ishft(bits, -32)), mixer))
        end do
      end do
    end do
    call MPI_Allreduce(mine, digest, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD)
  end function

  ! Modulo 2^64, in halves and quarters, because an overflow of Fortran's integers means nothing.
  pure integer(int64) function plus(a, b)
    integer(int64), intent(in) :: a, b
    integer(int64) :: low
    low = ibits(a, 0, 32) + ibits(b, 0, 32)
    plus = ior(ishft(ishft(a, -32) + ishft(b, -32) + ishft(low, -32), 32), ibits(low, 0, 32))
  end function

  pure integer(int64) function times(a, b)
    integer(int64), intent(in) :: a, b
    integer :: i, j
    times = 0
    do i = 0, 3
      do j = 0, 3 - i
        times = plus(times, ishft(ibits(a, 16 * i, 16) * ibits(b, 16 * j, 16), 16 * (i + j)))
      end do
    end do
  end function

  ! One grid: takes the steps and prints its row. Returns the error; counts what is not right to rounding.
  real(real64) function solve(cells, nsteps, coarser) result(error)
    integer, intent(in) :: cells, nsteps
    real(real64), intent(in) :: coarser
    real(real64) :: largest, decay, exact, discrete, difference
    character(len=5) :: order
    character(len=120) :: row
    integer(int64) :: bits
    integer :: s
    call make_halo(cells)
    call make_boxes()
    call make_mode()
    call start_from_mode()
    largest = distance(0.0_real64)
    do s = 1, nsteps
      call step()
    end do
    call selvage_stream_synchronize(device, stream)
    decay = distance(0.0_real64) / largest
    exact = exp(-3 * 4 * pi * pi * (nsteps * ratio / (real(cells, real64) * cells)))
    discrete = decay_per_step**real(nsteps, real64)
    error = distance(exact)
    difference = distance(discrete)
    bits = digest()
    order = '    -'
    if (coarser > 0) write (order, '(f5.3)') log(coarser / error) / log(2.0_real64)
    write (row, '(i6, a, i6, 2f16.12, es11.3, 2x, a5, f16.12, es9.1, 2x, z16.16)') cells, '^3 ', nsteps, decay, exact, &
        error, order, discrete, difference, bits
    if (main) print '(a)', lower_case(trim(row))
    if (.not. difference <= 2 * epsilon(1.0_real64) * (nsteps + 8)) wrong = wrong + 1
    call selvage_halo_destroy(halo)
    call selvage_grid_destroy(grid)
    call free_field(u)
    call free_field(next)
  end function

  subroutine report()
    logical :: met
    met = wrong == 0
    if (.not. abs(order - 2) <= 0.1_real64) wrong = wrong + 1
    if (main) print '(a, f5.3, 4a)', 'order ', order, ' (reference: 2), decay of the difference equations ', &
        trim(merge('met to rounding', 'NOT met        ', met)), ': ', trim(merge('right', 'WRONG', wrong == 0))
  end subroutine

  pure function lower_case(text)
    character(len=*), intent(in) :: text
    character(len=len(text)) :: lower_case
    integer :: i
    lower_case = text
    do i = 1, len(text)
      if (text(i:i) >= 'A' .and. text(i:i) <= 'F') lower_case(i:i) = achar(iachar(text(i:i)) + 32)
    end do
  end function

  ! --n CELLS of the coarsest grid, --steps STEPS taken there.
  subroutine read_options()
    character(len=16) :: name, text
    integer :: i, given, status
    n = 16
    steps = 0
    do i = 1, command_argument_count(), 2
      call get_command_argument(i, name)
      call get_command_argument(i + 1, text)
      read (text, *, iostat=status) given
      if (status /= 0 .or. given < 1) call usage()
      select case (name)
      case ('--n')
        n = given
      case ('--steps')
        steps = given
      case default
        call usage()
      end select
    end do
    if (n < 4) call usage()
    if (steps == 0) steps = max(n * n / 16, 1)
  end subroutine

  subroutine usage()
    if (main) print '(a)', 'usage: heat3d_fortran [--n CELLS] [--steps STEPS]   the coarsest of three grids'
    call MPI_Finalize()
    stop 2
  end subroutine

end program

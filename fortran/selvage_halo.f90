! SPDX-License-Identifier: BSD-3-Clause
!
! Included by selvage.F90: fields and halos. The procedures are those of fortran/fortran_halo.c.

  public :: selvage_field_of, selvage_halo_destroy, selvage_halo_start, selvage_halo_wait, selvage_halo_enqueue_wait
  public :: selvage_halo_exchange, selvage_halo_rebind, selvage_halo_describe

  !> Describes a field: an array together with its halo, as it lies in memory, for selvage_halo_create(). Nothing is
  !> read or copied, so that sections with gaps are fields too. With real(real64) :: u(0:nx+1, 0:ny+1) the field is
  !> selvage_field_of(u, width=1). What is wrong with it, selvage_halo_create() says.
  !>
  !>   width                 halo cells on every side, or width_lo(:) and width_hi(:) per dimension, below and above
  !>   first                 place of the first own cell in the array, counted from 1 whatever the array's lower bounds
  !>                         are; without it width_lo + 1
  !>   cell_rank             that many first dimensions of the array lie within a cell: 1 for f(9, nx, ny)
  !>   plane_rank            that many last ones number components: 1 for u(nx, ny, 3)
  !>   stagger(:)            1 in a dimension on whose faces the field lives
  !>   parity, packed_dim    of a field that has only SELVAGE_PARITY_EVEN or _ODD cells: the dimension of half as many
  !>                         places, by default 1
  !>   number                for reverse exchanges, SELVAGE_NUMBER_...; known for arrays of intrinsic types
  !>
  !> Or of memory at a type(c_ptr): element_bytes, and the extents of the array with its halo, dimension 1 fastest, then
  !> the same.
  interface selvage_field_of
    type(selvage_field) function field_of_array(array, width, width_lo, width_hi, first, cell_rank, plane_rank, &
                                                stagger, parity, packed_dim, number) &
        bind(C, name='selvage_fortran_field_of_array')
      import
      type(*), dimension(..), intent(in), asynchronous :: array
      integer(c_int), intent(in), optional :: width, width_lo(:), width_hi(:), first(:), cell_rank, plane_rank
      integer(c_int), intent(in), optional :: stagger(:), parity, packed_dim, number
    end function

    type(selvage_field) function field_of_pointer(ptr, element_bytes, extent, width, width_lo, width_hi, first, &
                                                  components, stagger, parity, packed_dim, number) &
        bind(C, name='selvage_fortran_field_of_pointer')
      import
      type(c_ptr), intent(in) :: ptr
      integer(c_size_t), intent(in) :: element_bytes
      integer(c_int), intent(in) :: extent(:)
      integer(c_int), intent(in), optional :: width, width_lo(:), width_hi(:), first(:), components
      integer(c_int), intent(in), optional :: stagger(:), parity, packed_dim, number
    end function
  end interface

  interface
    subroutine c_halo_create(grid, fields, halo, shape, directions, reverse, route, checksum, error) &
        bind(C, name='selvage_fortran_halo_create')
      import
      type(selvage_grid), intent(in) :: grid
      type(selvage_field), intent(in) :: fields(:)
      type(selvage_halo), intent(out) :: halo
      integer(c_int), intent(in), optional :: shape, directions(:, :)
      integer(c_int), value :: reverse
      integer(c_int), intent(in), optional :: route, checksum
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine c_halo_test(halo, complete, stream, error) bind(C, name='selvage_fortran_halo_test')
      import
      type(selvage_halo), intent(in) :: halo
      integer(c_int), intent(out) :: complete
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Frees a halo. Collective.
    subroutine selvage_halo_destroy(halo) bind(C, name='selvage_fortran_halo_destroy')
      import
      type(selvage_halo), intent(inout) :: halo
    end subroutine

    !> Packs, checksums and begins to send. Returns at once; launch the interior after it.
    subroutine selvage_halo_start(halo, stream, error) bind(C, name='selvage_fortran_halo_start')
      import
      type(selvage_halo), intent(in) :: halo
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Completes the exchange: later work on the stream sees the halos. (The host does so too, but for what a reverse
    !> exchange adds: synchronise the stream first.)
    subroutine selvage_halo_wait(halo, stream, error) bind(C, name='selvage_fortran_halo_wait')
      import
      type(selvage_halo), intent(in) :: halo
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Ends the exchange on the stream, without the host.
    subroutine selvage_halo_enqueue_wait(halo, stream, error) bind(C, name='selvage_fortran_halo_enqueue_wait')
      import
      type(selvage_halo), intent(in) :: halo
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> start and wait in one.
    subroutine selvage_halo_exchange(halo, stream, error) bind(C, name='selvage_fortran_halo_exchange')
      import
      type(selvage_halo), intent(in) :: halo
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Tells what a halo moves.
    subroutine selvage_halo_describe(halo, info, error) bind(C, name='selvage_fortran_halo_describe')
      import
      type(selvage_halo), intent(in) :: halo
      type(selvage_halo_info), intent(out) :: info
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

  !> Gives the fields other arrays of the same shape, in the order of the fields: as fields, or by where they begin.
  interface selvage_halo_rebind
    subroutine halo_rebind_pointers(halo, ptr, error) bind(C, name='selvage_fortran_halo_rebind_pointers')
      import
      type(selvage_halo), intent(in) :: halo
      type(c_ptr), intent(in) :: ptr(:)
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine halo_rebind_fields(halo, fields, error) bind(C, name='selvage_fortran_halo_rebind_fields')
      import
      type(selvage_halo), intent(in) :: halo
      type(selvage_field), intent(in) :: fields(:)
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

! SPDX-License-Identifier: BSD-3-Clause
!
! Included by selvage.F90: grids. The procedures are those of fortran/fortran_grid.c. Arrays have one element per
! dimension of the grid, the first for dimension 1.

  public :: selvage_grid_destroy, selvage_grid_coords, selvage_grid_rank, selvage_grid_neighbour
  public :: selvage_grid_block, selvage_grid_interior, selvage_grid_boundary

  !> Cuts a domain of global_extent cells into one block per rank. Collective. `split1` has the extents of the blocks of
  !> dimension 1, `ranks` the rank of every block, dimension 1 varying fastest.
  interface selvage_grid_create
    procedure :: grid_create_int32, grid_create_int64
  end interface

  !> The same, with the blocks, periods and places of an MPI communicator that has a Cartesian topology.
  interface selvage_grid_create_cart
    procedure :: grid_create_cart_int32, c_grid_create_cart
#ifdef SELVAGE_HAVE_MPI_F08
    procedure :: grid_create_cart_f08_int32, grid_create_cart_f08_int64
#endif
  end interface

  interface
    !> Frees a grid. Its halos must have been destroyed.
    subroutine selvage_grid_destroy(grid) bind(C, name='selvage_fortran_grid_destroy')
      import
      type(selvage_grid), intent(inout) :: grid
    end subroutine

    subroutine c_grid_describe(grid, ndims, blocks, coords, local_extent, periodic, global_extent, local_first, &
                               surfaces, error) bind(C, name='selvage_fortran_grid_describe')
      import
      type(selvage_grid), intent(in) :: grid
      integer(c_int), intent(out) :: ndims
      integer(c_int), intent(out), dimension(SELVAGE_DIMS_MAX) :: blocks, coords, local_extent, periodic
      integer(c_int64_t), intent(out), dimension(SELVAGE_DIMS_MAX) :: global_extent, local_first
      integer(c_int64_t), intent(out) :: surfaces(3)
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Coordinates of any rank's block, from 0.
    subroutine selvage_grid_coords(grid, rank, coords, error) bind(C, name='selvage_fortran_grid_coords')
      import
      type(selvage_grid), intent(in) :: grid
      integer(c_int), intent(in) :: rank
      integer(c_int), intent(out) :: coords(:)
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Rank of the block at `coords`; periodic dimensions wrap; -1 beyond an open end.
    subroutine selvage_grid_rank(grid, coords, rank, error) bind(C, name='selvage_fortran_grid_rank')
      import
      type(selvage_grid), intent(in) :: grid
      integer(c_int), intent(in) :: coords(:)
      integer(c_int), intent(out) :: rank
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Rank of the neighbour that lies `offset` (-1, 0, 1 each) away; -1 beyond an open end.
    subroutine selvage_grid_neighbour(grid, offset, rank, error) bind(C, name='selvage_fortran_grid_neighbour')
      import
      type(selvage_grid), intent(in) :: grid
      integer(c_int), intent(in) :: offset(:)
      integer(c_int), intent(out) :: rank
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Extent and first global index (from 1) of any rank's block.
    subroutine selvage_grid_block(grid, rank, extent, first, error) bind(C, name='selvage_fortran_grid_block')
      import
      type(selvage_grid), intent(in) :: grid
      integer(c_int), intent(in) :: rank
      integer(c_int64_t), intent(out) :: extent(:), first(:)
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine c_grid_create(comm, global_extent, grid, periodic, blocks, split1, split2, split3, split4, ranks, &
                             reorder, width, error) bind(C, name='selvage_fortran_grid_create')
      import
      type(selvage_comm), intent(in) :: comm
      integer(c_int64_t), intent(in) :: global_extent(:)
      type(selvage_grid), intent(out) :: grid
      integer(c_int), intent(in) :: periodic(:)
      integer(c_int), intent(in), optional :: blocks(:), split1(:), split2(:), split3(:), split4(:), ranks(:)
      integer(c_int), value :: reorder
      integer(c_int), intent(in), optional :: width(:)
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine c_grid_create_cart(comm, cart, global_extent, grid, split1, split2, split3, split4, width, error) &
        bind(C, name='selvage_fortran_grid_create_cart')
      import
      type(selvage_comm), intent(in) :: comm
      integer(c_int), intent(in) :: cart
      integer(c_int64_t), intent(in) :: global_extent(:)
      type(selvage_grid), intent(out) :: grid
      integer(c_int), intent(in), optional :: split1(:), split2(:), split3(:), split4(:), width(:)
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

  !> The own cells whose stencil stays within own cells: to be computed while halos travel. One width for all sides, or
  !> one per dimension and side.
  interface selvage_grid_interior
    subroutine grid_interior_width(grid, width, box, error) bind(C, name='selvage_fortran_grid_interior_width')
      import
      type(selvage_grid), intent(in) :: grid
      integer(c_int), intent(in) :: width
      type(selvage_box), intent(out) :: box
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine grid_interior_widths(grid, width_lo, width_hi, box, error) bind(C, name='selvage_fortran_grid_interior')
      import
      type(selvage_grid), intent(in) :: grid
      integer(c_int), intent(in) :: width_lo(:), width_hi(:)
      type(selvage_box), intent(out) :: box
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

  !> The other own cells, as disjoint slabs: slab(2 * d - 1) and slab(2 * d) are the lower and the upper one of
  !> dimension d; some may be empty.
  interface selvage_grid_boundary
    subroutine grid_boundary_width(grid, width, slab, error) bind(C, name='selvage_fortran_grid_boundary_width')
      import
      type(selvage_grid), intent(in) :: grid
      integer(c_int), intent(in) :: width
      type(selvage_box), intent(inout) :: slab(:)
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine grid_boundary_widths(grid, width_lo, width_hi, slab, error) bind(C, name='selvage_fortran_grid_boundary')
      import
      type(selvage_grid), intent(in) :: grid
      integer(c_int), intent(in) :: width_lo(:), width_hi(:)
      type(selvage_box), intent(inout) :: slab(:)
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

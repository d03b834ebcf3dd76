! SPDX-License-Identifier: BSD-3-Clause
!
! The Fortran 2008 module `selvage` (with the arrays of any type and rank of TS 29113, now in Fortran 2018). The files
! that it includes declare the calls, one file per object; the headers in include/selvage/ say what each call does, and
! the same holds here, but for these things:
!
!   - Handles are derived types: type(selvage_comm), type(selvage_halo), ... One that holds nothing may be destroyed.
!   - Calls are subroutines whose last argument, `error`, is optional. Without it, an error prints its detail and ends
!     the job by MPI_Abort. selvage_error_detail() is the detail of the last one; one that comes from the library has
!     the names of C, where members and elements count from 0.
!   - `stream`, a native stream as type(c_ptr), is optional too; without it, it is the default stream of the device.
!   - Communicators are integers (`use mpi`, mpif.h) or type(MPI_Comm) (`use mpi_f08`).
!   - Buffers are arrays of any type and rank, or a type(c_ptr) and a number of bytes as integer(c_size_t). Nothing is
!     ever copied on the way: an array section with gaps is refused where the library takes bytes, and taken as it lies
!     where it takes fields. (An expression, a section with a vector subscript and an actual argument in parentheses are
!     copies that the compiler makes: they cannot be told apart here, and must not be given.) Arrays belong to Selvage
!     from start to wait: give them the attribute TARGET, and ASYNCHRONOUS where they are touched between the two.
!   - Dimensions count from 1, and so do cells: the first own cell of a rank has index 1, those of the halo below it 0,
!     -1, ... and the halo above begins at local_extent + 1. Boxes include both ends: do i = box%first(1), box%last(1).
!     The first cell of the whole domain has the global index 1. Ranks, coordinates of blocks and the indices of packets
!     count from 0, as MPI has them and as reports print them.
module selvage
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: output_unit, error_unit
#ifdef SELVAGE_HAVE_MPI_F08
  use mpi_f08, only: MPI_Comm, MPI_Datatype
#endif
  implicit none
  private

  ! The numbers of include/selvage/; fortran/fortran_runtime.c and its kin refuse to compile where they differ.
  integer(c_int), parameter, public :: SELVAGE_DIMS_MAX = 4
  integer(c_int), parameter, public :: SELVAGE_SUCCESS = 0, SELVAGE_IN_PROGRESS = 1, SELVAGE_ERR_ARGUMENT = -1, &
      SELVAGE_ERR_STATE = -2, SELVAGE_ERR_MEMORY = -3, SELVAGE_ERR_CONFIG = -4, SELVAGE_ERR_MPI = -5, &
      SELVAGE_ERR_DEVICE = -6, SELVAGE_ERR_SYSTEM = -7, SELVAGE_ERR_MISMATCH = -8, SELVAGE_ERR_TIMEOUT = -9, &
      SELVAGE_ERR_CHECKSUM = -10, SELVAGE_ERR_PEER = -11, SELVAGE_ERR_UNSUPPORTED = -12, SELVAGE_ERR_LIMIT = -13, &
      SELVAGE_ERR_INTERNAL = -14, SELVAGE_ERR_ABORTED = -15, SELVAGE_ERR_TRUNCATED = -16
  integer(c_int), parameter, public :: SELVAGE_ROUTE_DEFAULT = 0, SELVAGE_ROUTE_SELF = 1, SELVAGE_ROUTE_PEER = 2, &
      SELVAGE_ROUTE_SHARED = 3, SELVAGE_ROUTE_STAGED = 4, SELVAGE_ROUTE_DIRECT = 5
  integer(c_int), parameter, public :: SELVAGE_CHECKSUM_DEFAULT = 0, SELVAGE_CHECKSUM_RETRY = 1, &
      SELVAGE_CHECKSUM_REPORT = 2, SELVAGE_CHECKSUM_ABORT = 3, SELVAGE_CHECKSUM_OFF = -1
  integer(c_int), parameter, public :: SELVAGE_SCOPE_ALL = 0, SELVAGE_SCOPE_NEIGHBORS = 1
  integer(c_int), parameter, public :: SELVAGE_COPY_DEVICE_TO_HOST = 1, SELVAGE_COPY_HOST_TO_DEVICE = 2, &
      SELVAGE_COPY_DEVICE_TO_DEVICE = 3
  integer(c_int), parameter, public :: SELVAGE_PARITY_ALL = 0, SELVAGE_PARITY_EVEN = 1, SELVAGE_PARITY_ODD = 2
  integer(c_int), parameter, public :: SELVAGE_NUMBER_NONE = 0, SELVAGE_NUMBER_FLOAT32 = 1, &
      SELVAGE_NUMBER_FLOAT64 = 2, SELVAGE_NUMBER_INT32 = 3, SELVAGE_NUMBER_INT64 = 4
  integer(c_int), parameter, public :: SELVAGE_HALO_DEFAULT = 0, SELVAGE_HALO_FACES = 1, SELVAGE_HALO_FULL = 2, &
      SELVAGE_HALO_DIRECTIONS = 3

  !> A wrapped communicator.
  type, bind(C), public :: selvage_comm
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> A device: a GPU, or the software device.
  type, bind(C), public :: selvage_device
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> Memory that peers of the node may map.
  type, bind(C), public :: selvage_buffer
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> An exchange of packets.
  type, bind(C), public :: selvage_exchange
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> A decomposed grid.
  type, bind(C), public :: selvage_grid
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> A halo exchange of fields.
  type, bind(C), public :: selvage_halo
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(c_int) :: nfields = 0
  end type

  !> A box of cells, both ends included; empty if last(d) < first(d) for any d; 1 to 1 where the grid has no dimension.
  type, bind(C), public :: selvage_box
    integer(c_int) :: first(SELVAGE_DIMS_MAX) = 1
    integer(c_int) :: last(SELVAGE_DIMS_MAX) = 0
  end type

  !> What a grid is like, for this rank.
  type, public :: selvage_grid_info
    integer(c_int) :: ndims = 0
    integer(c_int) :: blocks(SELVAGE_DIMS_MAX) = 0            !< how many, per dimension
    integer(c_int) :: coords(SELVAGE_DIMS_MAX) = 0            !< of this rank's block, from 0
    integer(c_int) :: local_extent(SELVAGE_DIMS_MAX) = 0      !< own cells
    integer(c_int64_t) :: global_extent(SELVAGE_DIMS_MAX) = 0
    integer(c_int64_t) :: local_first(SELVAGE_DIMS_MAX) = 0   !< global index of the first own cell, from 1
    logical :: periodic(SELVAGE_DIMS_MAX) = .false.
    integer(c_int64_t) :: surface_cells = 0                   !< cells that cross from block to block
    integer(c_int64_t) :: surface_cells_between_nodes = 0     !< those of them that cross nodes
    integer(c_int64_t) :: surface_cells_in_rank_order = 0     !< the same, had ranks been placed in order
  end type

  !> One field, made by selvage_field_of().
  type, bind(C), public :: selvage_field
    private
    type(c_ptr) :: data = c_null_ptr
    integer(c_size_t) :: element_bytes = 0
    integer(c_int64_t) :: extent(SELVAGE_DIMS_MAX) = 0, first(SELVAGE_DIMS_MAX) = 0
    integer(c_ptrdiff_t) :: stride_bytes(SELVAGE_DIMS_MAX) = 0, component_stride_bytes = 0
    integer(c_int) :: ndims = 0, components = 0, parity = 0, packed_dim = 0, number = 0
    integer(c_int) :: width_lo(SELVAGE_DIMS_MAX) = 0, width_hi(SELVAGE_DIMS_MAX) = 0, stagger(SELVAGE_DIMS_MAX) = 0
    integer(c_int) :: fault = 0
  end type

  !> What a halo moves, on this rank.
  type, bind(C), public :: selvage_halo_info
    integer(c_int) :: packets = 0               !< sent per epoch: one per neighbour rank
    integer(c_size_t) :: bytes_sent = 0         !< per epoch, paddings included
    integer(c_size_t) :: bytes_contiguous = 0   !< those of them that needed no packing
    integer(c_size_t) :: bytes_received = 0
  end type

#include "selvage_runtime.f90"
#include "selvage_exchange.f90"
#include "selvage_packets.f90"
#include "selvage_grid.f90"
#include "selvage_halo.f90"

  public :: selvage_status_name, selvage_status_string, selvage_error_detail, selvage_version
  public :: selvage_device_open, selvage_device_open_local, selvage_device_name, selvage_route_name
  public :: selvage_comm_wire
  public :: selvage_exchange_test, selvage_halo_test, selvage_halo_create
  public :: selvage_grid_create, selvage_grid_create_cart, selvage_grid_describe

  interface
    type(c_ptr) function c_text(what, number) bind(C, name='selvage_fortran_text')
      import
      integer(c_int), value :: what, number
    end function

    integer(c_size_t) function c_strlen(text) bind(C, name='strlen')
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! What follows here, and is not C: texts, logicals and kinds of integers, which C cannot take as Fortran gives them.

  !> Name of a status, such as "SELVAGE_ERR_TIMEOUT".
  function selvage_status_name(status) result(text)
    integer, intent(in) :: status
    character(len=:), allocatable :: text
    text = fortran_text(c_text(0_c_int, int(status, c_int)))
  end function

  !> What a status means, in one sentence fragment.
  function selvage_status_string(status) result(text)
    integer, intent(in) :: status
    character(len=:), allocatable :: text
    text = fortran_text(c_text(1_c_int, int(status, c_int)))
  end function

  !> Detail of the last error of this thread: the argument, or the packet, the peer and the native error.
  function selvage_error_detail() result(text)
    character(len=:), allocatable :: text
    text = fortran_text(c_text(2_c_int, 0_c_int))
  end function

  !> Version of the library that runs, such as "0.2.0".
  function selvage_version() result(text)
    character(len=:), allocatable :: text
    text = fortran_text(c_text(3_c_int, 0_c_int))
  end function

  !> Name of a route ("staged").
  function selvage_route_name(route) result(text)
    integer, intent(in) :: route
    character(len=:), allocatable :: text
    text = fortran_text(c_text(4_c_int, int(route, c_int)))
  end function

  !> Kind of a device: "soft", "nvidia", "amd".
  function selvage_device_name(device) result(text)
    type(selvage_device), intent(in) :: device
    character(len=:), allocatable :: text
    text = fortran_text(c_device_name(device))
  end function

  !> What host messages go by: "mpi", or UCX with its version, transports and devices.
  function selvage_comm_wire(comm) result(text)
    type(selvage_comm), intent(in) :: comm
    character(len=:), allocatable :: text
    text = fortran_text(c_comm_wire(comm))
  end function

  !> Opens a device by name; without `name`, the one that SELVAGE_DEVICE says.
  subroutine selvage_device_open(device, name, error)
    type(selvage_device), intent(out) :: device
    character(len=*), intent(in), optional :: name
    integer, intent(out), optional :: error
    call c_device_open(c_string(name), 0_c_int, device, error)
  end subroutine

  !> Opens the GPU that is this rank's share of the host's.
  subroutine selvage_device_open_local(device, name, error)
    type(selvage_device), intent(out) :: device
    character(len=*), intent(in), optional :: name
    integer, intent(out), optional :: error
    call c_device_open(c_string(name), 1_c_int, device, error)
  end subroutine

  !> Advances the communicator and says whether this epoch is complete. Never blocks.
  subroutine selvage_exchange_test(exchange, done, stream, error)
    type(selvage_exchange), intent(in) :: exchange
    logical, intent(out) :: done
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: error
    integer(c_int) :: complete
    call c_exchange_test(exchange, complete, stream, error)
    done = complete /= 0
  end subroutine

  !> As selvage_exchange_test().
  subroutine selvage_halo_test(halo, done, stream, error)
    type(selvage_halo), intent(in) :: halo
    logical, intent(out) :: done
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: error
    integer(c_int) :: complete
    call c_halo_test(halo, complete, stream, error)
    done = complete /= 0
  end subroutine

  !> Makes the halo exchange of some fields. `directions(:, i)` is one in which data travels; given, nothing else does.
  subroutine selvage_halo_create(grid, fields, halo, shape, directions, reverse, route, checksum, error)
    type(selvage_grid), intent(in) :: grid
    type(selvage_field), intent(in) :: fields(:)
    type(selvage_halo), intent(out) :: halo
    integer, intent(in), optional :: shape, directions(:, :), route, checksum
    logical, intent(in), optional :: reverse
    integer, intent(out), optional :: error
    call c_halo_create(grid, fields, halo, shape, directions, flag(reverse), route, checksum, error)
  end subroutine

  !> Tells what a grid is like.
  subroutine selvage_grid_describe(grid, info, error)
    type(selvage_grid), intent(in) :: grid
    type(selvage_grid_info), intent(out) :: info
    integer, intent(out), optional :: error
    integer(c_int) :: periodic(SELVAGE_DIMS_MAX)
    integer(c_int64_t) :: surfaces(3)
    call c_grid_describe(grid, info%ndims, info%blocks, info%coords, info%local_extent, periodic, info%global_extent, &
                         info%local_first, surfaces, error)
    info%periodic = periodic /= 0
    info%surface_cells = surfaces(1)
    info%surface_cells_between_nodes = surfaces(2)
    info%surface_cells_in_rank_order = surfaces(3)
  end subroutine

  subroutine grid_create_int32(comm, global_extent, grid, periodic, blocks, split1, split2, split3, split4, ranks, &
                               reorder, width, error)
    type(selvage_comm), intent(in) :: comm
    integer(c_int32_t), intent(in) :: global_extent(:)
    type(selvage_grid), intent(out) :: grid
    logical, intent(in), optional :: periodic(:), reorder
    integer, intent(in), optional :: blocks(:), split1(:), split2(:), split3(:), split4(:), ranks(:), width(:)
    integer, intent(out), optional :: error
    call c_grid_create(comm, int(global_extent, c_int64_t), grid, flags(periodic), blocks, split1, split2, split3, &
                       split4, ranks, flag(reorder), width, error)
  end subroutine

  subroutine grid_create_int64(comm, global_extent, grid, periodic, blocks, split1, split2, split3, split4, ranks, &
                               reorder, width, error)
    type(selvage_comm), intent(in) :: comm
    integer(c_int64_t), intent(in) :: global_extent(:)
    type(selvage_grid), intent(out) :: grid
    logical, intent(in), optional :: periodic(:), reorder
    integer, intent(in), optional :: blocks(:), split1(:), split2(:), split3(:), split4(:), ranks(:), width(:)
    integer, intent(out), optional :: error
    call c_grid_create(comm, global_extent, grid, flags(periodic), blocks, split1, split2, split3, split4, ranks, &
                       flag(reorder), width, error)
  end subroutine

  subroutine grid_create_cart_int32(comm, cart, global_extent, grid, split1, split2, split3, split4, width, error)
    type(selvage_comm), intent(in) :: comm
    integer, intent(in) :: cart
    integer(c_int32_t), intent(in) :: global_extent(:)
    type(selvage_grid), intent(out) :: grid
    integer, intent(in), optional :: split1(:), split2(:), split3(:), split4(:), width(:)
    integer, intent(out), optional :: error
    call c_grid_create_cart(comm, cart, int(global_extent, c_int64_t), grid, split1, split2, split3, split4, width, &
                            error)
  end subroutine

#ifdef SELVAGE_HAVE_MPI_F08
  subroutine grid_create_cart_f08_int32(comm, cart, global_extent, grid, split1, split2, split3, split4, width, error)
    type(selvage_comm), intent(in) :: comm
    type(MPI_Comm), intent(in) :: cart
    integer(c_int32_t), intent(in) :: global_extent(:)
    type(selvage_grid), intent(out) :: grid
    integer, intent(in), optional :: split1(:), split2(:), split3(:), split4(:), width(:)
    integer, intent(out), optional :: error
    call c_grid_create_cart(comm, cart%MPI_VAL, int(global_extent, c_int64_t), grid, split1, split2, split3, split4, &
                            width, error)
  end subroutine

  subroutine grid_create_cart_f08_int64(comm, cart, global_extent, grid, split1, split2, split3, split4, width, error)
    type(selvage_comm), intent(in) :: comm
    type(MPI_Comm), intent(in) :: cart
    integer(c_int64_t), intent(in) :: global_extent(:)
    type(selvage_grid), intent(out) :: grid
    integer, intent(in), optional :: split1(:), split2(:), split3(:), split4(:), width(:)
    integer, intent(out), optional :: error
    call c_grid_create_cart(comm, cart%MPI_VAL, global_extent, grid, split1, split2, split3, split4, width, error)
  end subroutine

  subroutine comm_create_f08(comm, wrapped, device, timeout_s, error)
    type(MPI_Comm), intent(in) :: comm
    type(selvage_comm), intent(out) :: wrapped
    type(selvage_device), intent(in), optional :: device
    real(c_double), intent(in), optional :: timeout_s
    integer, intent(out), optional :: error
    call comm_create_integer(comm%MPI_VAL, wrapped, device, timeout_s, error)
  end subroutine

  subroutine add_send_type_pointer_f08(exchange, ptr, count, datatype, peer, tag, error)
    type(selvage_exchange), intent(in) :: exchange
    type(c_ptr), intent(in) :: ptr
    integer(c_size_t), intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    integer, intent(in) :: peer, tag
    integer, intent(out), optional :: error
    call add_send_type_pointer(exchange, ptr, count, datatype%MPI_VAL, peer, tag, error)
  end subroutine

  subroutine add_graph_pointer_f08(exchange, graph, send, send_room_bytes, send_bytes, recv, recv_room_bytes, &
                                   recv_bytes, tag, send_offset_bytes, recv_offset_bytes, error)
    type(selvage_exchange), intent(in) :: exchange
    type(MPI_Comm), intent(in) :: graph
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: send_room_bytes, send_bytes(:), recv_room_bytes, recv_bytes(:)
    integer, intent(in) :: tag
    integer(c_size_t), intent(in), optional :: send_offset_bytes(:), recv_offset_bytes(:)
    integer, intent(out), optional :: error
    call add_graph_pointer(exchange, graph%MPI_VAL, send, send_room_bytes, send_bytes, recv, recv_room_bytes, &
                           recv_bytes, tag, send_offset_bytes, recv_offset_bytes, error)
  end subroutine

  subroutine add_recv_type_pointer_f08(exchange, ptr, count, datatype, peer, tag, error)
    type(selvage_exchange), intent(in) :: exchange
    type(c_ptr), intent(in) :: ptr
    integer(c_size_t), intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    integer, intent(in) :: peer, tag
    integer, intent(out), optional :: error
    call add_recv_type_pointer(exchange, ptr, count, datatype%MPI_VAL, peer, tag, error)
  end subroutine
#endif

  ! Called from C before the job ends: what the program has written should be seen.
  subroutine flush_units() bind(C, name='selvage_fortran_flush')
    flush(output_unit)
    flush(error_unit)
  end subroutine

  pure integer(c_int) function flag(value)
    logical, intent(in), optional :: value
    flag = 0
    if (present(value)) flag = merge(1_c_int, 0_c_int, value)
  end function

  ! An array without elements where there is none: C takes both for "not given".
  pure function flags(values)
    logical, intent(in), optional :: values(:)
    integer(c_int), allocatable :: flags(:)
    allocate (flags(0))
    if (present(values)) flags = merge(1_c_int, 0_c_int, values)
  end function

  ! Only one NUL where there is no text, which C takes for "not given".
  pure function c_string(text)
    character(len=*), intent(in), optional :: text
    character(kind=c_char, len=1), allocatable :: c_string(:)
    integer :: letters, i
    letters = 0
    if (present(text)) letters = len_trim(text)
    allocate (c_string(letters + 1))
    do i = 1, letters
      c_string(i) = text(i:i)
    end do
    c_string(letters + 1) = c_null_char
  end function

  function fortran_text(from) result(text)
    type(c_ptr), intent(in) :: from
    character(len=:), allocatable :: text
    character(kind=c_char, len=1), pointer :: letters(:)
    integer :: i
    call c_f_pointer(from, letters, [c_strlen(from)])
    allocate (character(len=size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

end module

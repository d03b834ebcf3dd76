! SPDX-License-Identifier: BSD-3-Clause
!
! Included by selvage.F90: communicators and devices. The procedures are those of fortran/fortran_runtime.c.

  public :: selvage_comm_create, selvage_comm_destroy, selvage_comm_rank, selvage_comm_size, selvage_comm_node_size
  public :: selvage_comm_device, selvage_progress, selvage_buffer_register, selvage_buffer_unregister
  public :: selvage_device_close, selvage_device_malloc, selvage_device_free, selvage_device_host_malloc
  public :: selvage_device_host_free, selvage_stream_create, selvage_stream_destroy, selvage_stream_synchronize
  public :: selvage_device_copy, selvage_device_upload, selvage_device_download, selvage_device_fill
  public :: selvage_device_delay_us, selvage_device_launch_soft, selvage_soft_kernel

  abstract interface
    !> A kernel of the software device: called once per block, from 0 to nblocks - 1. `arg` points to the launch's copy
    !> of its argument (c_f_pointer gives it its type).
    subroutine selvage_soft_kernel(arg, block, nblocks) bind(C)
      import
      type(c_ptr), value :: arg
      integer(c_int), value :: block, nblocks
    end subroutine
  end interface

  !> Wraps an MPI communicator, an integer or a type(MPI_Comm). Collective.
  interface selvage_comm_create
    subroutine comm_create_integer(comm, wrapped, device, timeout_s, error) bind(C, name='selvage_fortran_comm_create')
      import
      integer(c_int), intent(in) :: comm
      type(selvage_comm), intent(out) :: wrapped
      type(selvage_device), intent(in), optional :: device
      real(c_double), intent(in), optional :: timeout_s
      integer(c_int), intent(out), optional :: error
    end subroutine
#ifdef SELVAGE_HAVE_MPI_F08
    procedure :: comm_create_f08
#endif
  end interface

  interface
    !> Frees a communicator. Collective.
    subroutine selvage_comm_destroy(comm) bind(C, name='selvage_fortran_comm_destroy')
      import
      type(selvage_comm), intent(inout) :: comm
    end subroutine

    !> Rank of the caller in the wrapped communicator; -1 for a handle that holds nothing.
    integer(c_int) function selvage_comm_rank(comm) bind(C, name='selvage_fortran_comm_rank')
      import
      type(selvage_comm), intent(in) :: comm
    end function

    !> Number of ranks of the wrapped communicator.
    integer(c_int) function selvage_comm_size(comm) bind(C, name='selvage_fortran_comm_size')
      import
      type(selvage_comm), intent(in) :: comm
    end function

    !> Number of ranks on the caller's node.
    integer(c_int) function selvage_comm_node_size(comm) bind(C, name='selvage_fortran_comm_node_size')
      import
      type(selvage_comm), intent(in) :: comm
    end function

    !> The communicator's device; it belongs to the communicator, or to whoever opened it.
    type(selvage_device) function selvage_comm_device(comm) bind(C, name='selvage_fortran_comm_device')
      import
      type(selvage_comm), intent(in) :: comm
    end function

    !> Advances everything of the communicator as far as it can go, and returns.
    subroutine selvage_progress(comm, error) bind(C, name='selvage_fortran_progress')
      import
      type(selvage_comm), intent(in) :: comm
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Withdraws a registered buffer.
    subroutine selvage_buffer_unregister(buffer, error) bind(C, name='selvage_fortran_buffer_unregister')
      import
      type(selvage_buffer), intent(inout) :: buffer
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

  !> Exports device memory to the peers of the node, so that the route `peer` writes straight into it.
  interface selvage_buffer_register
    subroutine buffer_register_array(comm, array, buffer, error) bind(C, name='selvage_fortran_buffer_register_array')
      import
      type(selvage_comm), intent(in) :: comm
      type(*), dimension(..), intent(in), asynchronous :: array
      type(selvage_buffer), intent(out) :: buffer
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine buffer_register_pointer(comm, ptr, bytes, buffer, error) bind(C, name='selvage_fortran_buffer_register')
      import
      type(selvage_comm), intent(in) :: comm
      type(c_ptr), intent(in) :: ptr
      integer(c_size_t), intent(in) :: bytes
      type(selvage_buffer), intent(out) :: buffer
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

  interface
    type(c_ptr) function c_comm_wire(comm) bind(C, name='selvage_fortran_comm_wire')
      import
      type(selvage_comm), intent(in) :: comm
    end function

    type(c_ptr) function c_device_name(device) bind(C, name='selvage_fortran_device_name')
      import
      type(selvage_device), intent(in) :: device
    end function

    subroutine c_device_open(name, local, device, error) bind(C, name='selvage_fortran_device_open')
      import
      character(kind=c_char, len=1), intent(in) :: name(*)
      integer(c_int), value :: local
      type(selvage_device), intent(out) :: device
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Closes a device. Its streams must have been destroyed, and its communicators.
    subroutine selvage_device_close(device) bind(C, name='selvage_fortran_device_close')
      import
      type(selvage_device), intent(inout) :: device
    end subroutine

    !> Allocates device memory. On the software device c_f_pointer makes an array of it that a program can use.
    subroutine selvage_device_malloc(device, bytes, ptr, error) bind(C, name='selvage_fortran_device_malloc')
      import
      type(selvage_device), intent(in) :: device
      integer(c_size_t), intent(in) :: bytes
      type(c_ptr), intent(out) :: ptr
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Frees device memory; work that uses it must be complete.
    subroutine selvage_device_free(device, ptr) bind(C, name='selvage_fortran_device_free')
      import
      type(selvage_device), intent(in) :: device
      type(c_ptr), intent(inout) :: ptr
    end subroutine

    !> Allocates pinned host memory: c_f_pointer makes an array of it.
    subroutine selvage_device_host_malloc(device, bytes, ptr, error) bind(C, name='selvage_fortran_device_host_malloc')
      import
      type(selvage_device), intent(in) :: device
      integer(c_size_t), intent(in) :: bytes
      type(c_ptr), intent(out) :: ptr
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Frees pinned host memory.
    subroutine selvage_device_host_free(device, ptr) bind(C, name='selvage_fortran_device_host_free')
      import
      type(selvage_device), intent(in) :: device
      type(c_ptr), intent(inout) :: ptr
    end subroutine

    !> Makes an in-order stream.
    subroutine selvage_stream_create(device, stream, error) bind(C, name='selvage_fortran_stream_create')
      import
      type(selvage_device), intent(in) :: device
      type(c_ptr), intent(out) :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Destroys a stream after its work is done.
    subroutine selvage_stream_destroy(device, stream) bind(C, name='selvage_fortran_stream_destroy')
      import
      type(selvage_device), intent(in) :: device
      type(c_ptr), intent(inout) :: stream
    end subroutine

    !> Blocks until everything enqueued on the stream so far is complete.
    subroutine selvage_stream_synchronize(device, stream, error) bind(C, name='selvage_fortran_stream_synchronize')
      import
      type(selvage_device), intent(in) :: device
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Enqueues a copy of `bytes` bytes in a direction SELVAGE_COPY_...
    subroutine selvage_device_copy(device, dst, src, bytes, direction, stream, error) &
        bind(C, name='selvage_fortran_device_copy')
      import
      type(selvage_device), intent(in) :: device
      type(c_ptr), intent(in) :: dst, src
      integer(c_size_t), intent(in) :: bytes
      integer(c_int), intent(in) :: direction
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Enqueues a copy of a whole host array to device memory.
    subroutine selvage_device_upload(device, dst, array, stream, error) bind(C, name='selvage_fortran_device_upload')
      import
      type(selvage_device), intent(in) :: device
      type(c_ptr), intent(in) :: dst
      type(*), dimension(..), intent(in), asynchronous :: array
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Enqueues a copy from device memory that fills a host array.
    subroutine selvage_device_download(device, array, src, stream, error) &
        bind(C, name='selvage_fortran_device_download')
      import
      type(selvage_device), intent(in) :: device
      type(*), dimension(..), intent(inout), asynchronous :: array
      type(c_ptr), intent(in) :: src
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Enqueues a fill of `bytes` bytes with `value`.
    subroutine selvage_device_fill(device, dst, value, bytes, stream, error) &
        bind(C, name='selvage_fortran_device_fill')
      import
      type(selvage_device), intent(in) :: device
      type(c_ptr), intent(in) :: dst
      integer(c_int), intent(in) :: value
      integer(c_size_t), intent(in) :: bytes
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Enqueues a pause: a modelled kernel that takes time and does nothing.
    subroutine selvage_device_delay_us(device, us, stream, error) bind(C, name='selvage_fortran_device_delay_us')
      import
      type(selvage_device), intent(in) :: device
      real(c_double), intent(in) :: us
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine

    !> Launches a procedure as a kernel of the software device, one CPU thread per block. `arg`, of at most 640 bytes,
    !> is copied. The procedure belongs to a module or stands alone: one inside another has an environment that may be
    !> gone when the kernel runs.
    subroutine selvage_device_launch_soft(device, kernel, arg, nblocks, stream, error) &
        bind(C, name='selvage_fortran_device_launch_soft')
      import
      type(selvage_device), intent(in) :: device
      procedure(selvage_soft_kernel) :: kernel
      type(*), dimension(..), intent(in) :: arg
      integer(c_int), intent(in) :: nblocks
      type(c_ptr), intent(in), optional :: stream
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

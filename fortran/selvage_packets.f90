! SPDX-License-Identifier: BSD-3-Clause
!
! Included by selvage.F90: packets that lie in pieces. The procedures are those of fortran/fortran_packets.c.
!
! `count` elements of an MPI datatype (an integer or a type(MPI_Datatype)) begin at the first element of an array, which
! may be one element of a larger one, as in MPI; or at a type(c_ptr), with `count` as integer(c_size_t).
!
! Lists of elements, for unstructured meshes: the elements of an array are numbered from 1 along its last dimension, so
! that u(3, n) has n elements of three numbers. `indices` are default integers or integer(int64). At a type(c_ptr),
! elements of `element_bytes` bytes lie one after the other.

  public :: selvage_exchange_add_send_type, selvage_exchange_add_recv_type
  public :: selvage_exchange_add_send_indexed, selvage_exchange_add_recv_indexed

  !> Declares a packet to send that is described by an MPI datatype.
  interface selvage_exchange_add_send_type
    subroutine add_send_type_array(exchange, array, count, datatype, peer, tag, error) &
        bind(C, name='selvage_fortran_add_send_type_array')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(in), asynchronous :: array
      integer(c_int), intent(in) :: count, datatype, peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine add_send_type_pointer(exchange, ptr, count, datatype, peer, tag, error) &
        bind(C, name='selvage_fortran_add_send_type')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(c_ptr), intent(in) :: ptr
      integer(c_size_t), intent(in) :: count
      integer(c_int), intent(in) :: datatype, peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine
#ifdef SELVAGE_HAVE_MPI_F08

    subroutine add_send_type_array_f08(exchange, array, count, datatype, peer, tag, error) &
        bind(C, name='selvage_fortran_add_send_type_array_f08')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(in), asynchronous :: array
      integer(c_int), intent(in) :: count
      type(MPI_Datatype), intent(in) :: datatype
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    procedure :: add_send_type_pointer_f08
#endif
  end interface

  !> Declares a packet to receive that is described by an MPI datatype.
  interface selvage_exchange_add_recv_type
    subroutine add_recv_type_array(exchange, array, count, datatype, peer, tag, error) &
        bind(C, name='selvage_fortran_add_recv_type_array')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(inout), asynchronous :: array
      integer(c_int), intent(in) :: count, datatype, peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine add_recv_type_pointer(exchange, ptr, count, datatype, peer, tag, error) &
        bind(C, name='selvage_fortran_add_recv_type')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(c_ptr), intent(in) :: ptr
      integer(c_size_t), intent(in) :: count
      integer(c_int), intent(in) :: datatype, peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine
#ifdef SELVAGE_HAVE_MPI_F08

    subroutine add_recv_type_array_f08(exchange, array, count, datatype, peer, tag, error) &
        bind(C, name='selvage_fortran_add_recv_type_array_f08')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(inout), asynchronous :: array
      integer(c_int), intent(in) :: count
      type(MPI_Datatype), intent(in) :: datatype
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    procedure :: add_recv_type_pointer_f08
#endif
  end interface

  !> Declares a packet to send that is a list of elements.
  interface selvage_exchange_add_send_indexed
    subroutine add_send_indexed_int32(exchange, array, indices, peer, tag, error) &
        bind(C, name='selvage_fortran_add_send_indexed_int32')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(in), asynchronous :: array
      integer(c_int32_t), intent(in) :: indices(:)
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine add_send_indexed_int64(exchange, array, indices, peer, tag, error) &
        bind(C, name='selvage_fortran_add_send_indexed_int64')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(in), asynchronous :: array
      integer(c_int64_t), intent(in) :: indices(:)
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine add_send_indexed_pointer(exchange, ptr, element_bytes, indices, peer, tag, error) &
        bind(C, name='selvage_fortran_add_send_indexed')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(c_ptr), intent(in) :: ptr
      integer(c_size_t), intent(in) :: element_bytes
      integer(c_int64_t), intent(in) :: indices(:)
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

  !> Declares a packet to receive that is a list of elements.
  interface selvage_exchange_add_recv_indexed
    subroutine add_recv_indexed_int32(exchange, array, indices, peer, tag, error) &
        bind(C, name='selvage_fortran_add_recv_indexed_int32')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(inout), asynchronous :: array
      integer(c_int32_t), intent(in) :: indices(:)
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine add_recv_indexed_int64(exchange, array, indices, peer, tag, error) &
        bind(C, name='selvage_fortran_add_recv_indexed_int64')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(*), dimension(..), intent(inout), asynchronous :: array
      integer(c_int64_t), intent(in) :: indices(:)
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine add_recv_indexed_pointer(exchange, ptr, element_bytes, indices, peer, tag, error) &
        bind(C, name='selvage_fortran_add_recv_indexed')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(c_ptr), intent(in) :: ptr
      integer(c_size_t), intent(in) :: element_bytes
      integer(c_int64_t), intent(in) :: indices(:)
      integer(c_int), intent(in) :: peer, tag
      integer(c_int), intent(out), optional :: error
    end subroutine
  end interface

  public :: selvage_exchange_add_graph

  !> Declares a packet to each neighbour, and one from each, in a communicator with a distributed graph of MPI: what
  !> MPI_Neighbor_alltoallv moves there. Lengths are in bytes, one for each destination and source, and so are offsets
  !> from the beginning of the arrays; without offsets packets lie one after the other. `graph` is an integer or a
  !> type(MPI_Comm). A type(c_ptr) is followed by how many bytes there are.
  interface selvage_exchange_add_graph
    subroutine add_graph_array(exchange, graph, send, send_bytes, recv, recv_bytes, tag, send_offset_bytes, &
                               recv_offset_bytes, error) bind(C, name='selvage_fortran_add_graph_array')
      import
      type(selvage_exchange), intent(in) :: exchange
      integer(c_int), intent(in) :: graph
      type(*), dimension(..), intent(in), asynchronous :: send
      integer(c_size_t), dimension(:), intent(in) :: send_bytes
      type(*), dimension(..), intent(inout), asynchronous :: recv
      integer(c_size_t), dimension(:), intent(in) :: recv_bytes
      integer(c_int), intent(in) :: tag
      integer(c_size_t), dimension(:), intent(in), optional :: send_offset_bytes, recv_offset_bytes
      integer(c_int), intent(out), optional :: error
    end subroutine

    subroutine add_graph_pointer(exchange, graph, send, send_room_bytes, send_bytes, recv, recv_room_bytes, &
                                 recv_bytes, tag, send_offset_bytes, recv_offset_bytes, error) &
        bind(C, name='selvage_fortran_add_graph')
      import
      type(selvage_exchange), intent(in) :: exchange
      integer(c_int), intent(in) :: graph
      type(c_ptr), intent(in) :: send
      integer(c_size_t), intent(in) :: send_room_bytes
      integer(c_size_t), dimension(:), intent(in) :: send_bytes
      type(c_ptr), intent(in) :: recv
      integer(c_size_t), intent(in) :: recv_room_bytes
      integer(c_size_t), dimension(:), intent(in) :: recv_bytes
      integer(c_int), intent(in) :: tag
      integer(c_size_t), dimension(:), intent(in), optional :: send_offset_bytes, recv_offset_bytes
      integer(c_int), intent(out), optional :: error
    end subroutine
#ifdef SELVAGE_HAVE_MPI_F08

    subroutine add_graph_array_f08(exchange, graph, send, send_bytes, recv, recv_bytes, tag, send_offset_bytes, &
                                   recv_offset_bytes, error) bind(C, name='selvage_fortran_add_graph_array_f08')
      import
      type(selvage_exchange), intent(in) :: exchange
      type(MPI_Comm), intent(in) :: graph
      type(*), dimension(..), intent(in), asynchronous :: send
      integer(c_size_t), dimension(:), intent(in) :: send_bytes
      type(*), dimension(..), intent(inout), asynchronous :: recv
      integer(c_size_t), dimension(:), intent(in) :: recv_bytes
      integer(c_int), intent(in) :: tag
      integer(c_size_t), dimension(:), intent(in), optional :: send_offset_bytes, recv_offset_bytes
      integer(c_int), intent(out), optional :: error
    end subroutine

    procedure :: add_graph_pointer_f08
#endif
  end interface

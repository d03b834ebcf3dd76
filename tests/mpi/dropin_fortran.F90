! SPDX-License-Identifier: BSD-3-Clause
! Every completion call, from Fortran, on requests with device memory; and calls of each other kind. The program is
! built three times: with mpif.h, with module mpi (USE_MPI), and with module mpi_f08 (USE_F08).
#ifdef USE_F08
#define STATUS_OF(S) type(MPI_Status) :: S
#define STATUSES_OF(S, N) type(MPI_Status) :: S(N)
#define SOURCE(S) S%MPI_SOURCE
#define TAG(S) S%MPI_TAG
#define SOURCE_AT(S, I) S(I)%MPI_SOURCE
#define TAG_AT(S, I) S(I)%MPI_TAG
#define AT(S, I) S(I)
#define REQUEST_OF type(MPI_Request)
#define WIN_OF type(MPI_Win)
#define FILE_OF type(MPI_File)
#define MESSAGE_OF type(MPI_Message)
#define TYPE_OF type(MPI_Datatype)
#define COMM_OF type(MPI_Comm)
#define NUMBER_OF(C) C%MPI_VAL
#else
#define STATUS_OF(S) integer :: S(MPI_STATUS_SIZE)
#define STATUSES_OF(S, N) integer :: S(MPI_STATUS_SIZE, N)
#define SOURCE(S) S(MPI_SOURCE)
#define TAG(S) S(MPI_TAG)
#define SOURCE_AT(S, I) S(MPI_SOURCE, I)
#define TAG_AT(S, I) S(MPI_TAG, I)
#define AT(S, I) S(:, I)
#define REQUEST_OF integer
#define WIN_OF integer
#define FILE_OF integer
#define MESSAGE_OF integer
#define TYPE_OF integer
#define COMM_OF integer
#define NUMBER_OF(C) C
#endif
#if defined(USE_F08)
#define INTERFACE_OF use mpi_f08
#define NUMBERS dropin_numbers_f08
#define INCLUDE_OF
#elif defined(USE_MPI)
#define INTERFACE_OF use mpi
#define NUMBERS dropin_numbers_mpi
#define INCLUDE_OF
#else
#define INTERFACE_OF use, intrinsic :: iso_fortran_env, only : real64
#define INCLUDE_OF include 'mpif.h'
#define NUMBERS dropin_numbers_mpifh
#endif

module NUMBERS
    use, intrinsic :: iso_c_binding
    implicit none
    integer, parameter :: n = 1000
    real(c_double), pointer :: out(:), in(:)
    type(c_ptr) :: out_there, in_there
    integer :: rank, ranks, left, right, failed = 0
    logical :: makes_windows = .true. ! Open MPI's components may all refuse on a machine without a network
    interface
        type(c_ptr) function numbers_make(count) bind(c)
            import :: c_ptr, c_int
            integer(c_int), value :: count
        end function
        subroutine numbers_put(there, here, count) bind(c)
            import :: c_ptr, c_int, c_double
            type(c_ptr), value :: there
            real(c_double) :: here(*)
            integer(c_int), value :: count
        end subroutine
        subroutine numbers_get(here, there, count) bind(c)
            import :: c_ptr, c_int, c_double
            real(c_double) :: here(*)
            type(c_ptr), value :: there
            integer(c_int), value :: count
        end subroutine
        subroutine numbers_free(there) bind(c)
            import :: c_ptr
            type(c_ptr), value :: there
        end subroutine
        integer(c_int) function persistent_sums(from, to, count) bind(c)
            import :: c_ptr, c_int
            type(c_ptr), value :: from, to
            integer(c_int), value :: count
        end function
        integer(c_int) function ring_in_c(ranks) bind(c)
            import :: c_int
            integer(c_int), value :: ranks
        end function
    end interface
contains
    subroutine check(good, what)
        logical, intent(in) :: good
        character(*), intent(in) :: what
        if (good) return
        failed = failed + 1
        print '(3a, i0)', 'check failed: ', what, ' on rank ', rank
    end subroutine

    subroutine fill(number)
        integer, intent(in) :: number
        real(c_double) :: here(n)
        integer :: i
        here = [(1000d0 * (rank + 1) + number + i / 1d4, i = 1, n)]
        call numbers_put(out_there, here, n)
        here = -1
        call numbers_put(in_there, here, n)
    end subroutine

    subroutine compare(number, what)
        integer, intent(in) :: number
        character(*), intent(in) :: what
        real(c_double) :: here(n)
        integer :: i
        call numbers_get(here, in_there, n)
        call check(all(here == [(1000d0 * (left + 1) + number + i / 1d4, i = 1, n)]), what)
    end subroutine
end module

subroutine complete(kind)
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    integer, intent(in) :: kind
    REQUEST_OF :: request(2)
    STATUSES_OF(status, 2)
    STATUS_OF(one)
    integer :: ierror, index, outcount, indices(2), left_over, i
    logical :: flag
    call fill(kind)
    call MPI_Irecv(in, n, MPI_DOUBLE_PRECISION, left, 10 + kind, MPI_COMM_WORLD, request(1), ierror)
    call MPI_Isend(out, n, MPI_DOUBLE_PRECISION, right, 10 + kind, MPI_COMM_WORLD, request(2), ierror)
    left_over = 2
    select case (kind)
    case (1)
        call MPI_Wait(request(1), one, ierror)
        AT(status, 1) = one
        call MPI_Wait(request(2), MPI_STATUS_IGNORE, ierror)
    case (2)
        call MPI_Waitall(2, request, status, ierror)
    case (3, 7)
        flag = .true.
        do while (left_over > 0)
            if (kind == 3) call MPI_Waitany(2, request, index, one, ierror)
            if (kind == 7) call MPI_Testany(2, request, index, flag, one, ierror)
            if (.not. flag) cycle
            AT(status, index) = one
            left_over = left_over - 1
        end do
    case (4, 8)
        do while (left_over > 0)
            if (kind == 4) call MPI_Waitsome(2, request, outcount, indices, status, ierror)
            if (kind == 8) call MPI_Testsome(2, request, outcount, indices, status, ierror)
            do i = 1, outcount
                if (indices(i) == 1) one = AT(status, i)
            end do
            left_over = left_over - outcount
        end do
        AT(status, 1) = one
    case (5)
        do i = 1, 2
            flag = .false.
            do while (.not. flag)
                call MPI_Test(request(i), flag, one, ierror)
            end do
            AT(status, i) = one
        end do
    case (6)
        flag = .false.
        do while (.not. flag)
            call MPI_Testall(2, request, flag, status, ierror)
        end do
    case (9)
        flag = .false.
        do while (.not. flag)
            call MPI_Request_get_status(request(1), flag, one, ierror)
        end do
        AT(status, 1) = one
        call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierror)
    end select
    call check(ierror == MPI_SUCCESS, 'completion: error')
    call check(request(1) == MPI_REQUEST_NULL .and. request(2) == MPI_REQUEST_NULL, 'completion: handles')
    call check(SOURCE_AT(status, 1) == left .and. TAG_AT(status, 1) == 10 + kind, 'completion: status')
    one = AT(status, 1)
    call MPI_Get_count(one, MPI_DOUBLE_PRECISION, i, ierror)
    call check(i == n, 'completion: count')
    call compare(kind, 'completion: numbers')
end subroutine

subroutine messages()
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    REQUEST_OF :: request(2)
    MESSAGE_OF :: message
    STATUS_OF(status)
    integer :: ierror
    logical :: flag
    call fill(20)
    call MPI_Sendrecv(out, n, MPI_DOUBLE_PRECISION, right, 20, in, n, MPI_DOUBLE_PRECISION, left, 20, MPI_COMM_WORLD, &
        status, ierror)
    call check(SOURCE(status) == left .and. TAG(status) == 20, 'sendrecv: status')
    call compare(20, 'sendrecv')
    call fill(21)
    call MPI_Send_init(out, n, MPI_DOUBLE_PRECISION, right, 21, MPI_COMM_WORLD, request(2), ierror)
    call MPI_Recv_init(in, n, MPI_DOUBLE_PRECISION, left, 21, MPI_COMM_WORLD, request(1), ierror)
    call MPI_Startall(2, request, ierror)
    call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierror)
    call compare(21, 'persistent, once')
    call fill(22)
    call MPI_Start(request(1), ierror)
    call MPI_Start(request(2), ierror)
    call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierror)
    call compare(22, 'persistent, twice')
    call MPI_Request_free(request(1), ierror)
    call MPI_Request_free(request(2), ierror)
    call fill(23)
    call MPI_Isend(out, n, MPI_DOUBLE_PRECISION, right, 23, MPI_COMM_WORLD, request(1), ierror)
    call MPI_Mprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, message, status, ierror)
    call check(TAG(status) == 23, 'mprobe: status')
    call MPI_Mrecv(in, n, MPI_DOUBLE_PRECISION, message, MPI_STATUS_IGNORE, ierror)
    call MPI_Wait(request(1), MPI_STATUS_IGNORE, ierror)
    call compare(23, 'mprobe, mrecv')
    call fill(24)
    call MPI_Issend(out, n, MPI_DOUBLE_PRECISION, right, 24, MPI_COMM_WORLD, request(1), ierror)
    call MPI_Probe(left, 24, MPI_COMM_WORLD, status, ierror)
    flag = .false.
    do while (.not. flag)
        call MPI_Iprobe(left, 24, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE, ierror)
    end do
    call MPI_Recv(in, n, MPI_DOUBLE_PRECISION, SOURCE(status), TAG(status), MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call MPI_Wait(request(1), MPI_STATUS_IGNORE, ierror)
    call compare(24, 'probe, recv')
    call MPI_Irecv(in, n, MPI_DOUBLE_PRECISION, left, 25, MPI_COMM_WORLD, request(1), ierror)
    call MPI_Cancel(request(1), ierror)
    call MPI_Wait(request(1), status, ierror)
    call MPI_Test_cancelled(status, flag, ierror)
    call check(flag, 'cancel')
end subroutine

subroutine collectives()
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    REQUEST_OF :: request
    COMM_OF :: comm
    TYPE_OF :: types(8)
    integer :: ierror, counts(8), displs(8), i
    real(c_double) :: here(n), wanted(n)
    call fill(0)
    call MPI_Allreduce(out, in, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
    call numbers_get(here, out_there, n)
    call MPI_Allreduce(here, wanted, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
    call numbers_get(here, in_there, n)
    call check(all(here == wanted), 'allreduce')
    call MPI_Iallreduce(MPI_IN_PLACE, out, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call numbers_get(here, out_there, n)
    call check(all(here == wanted), 'iallreduce in place')
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    do i = 1, 3 ! from the second on they may be messages
        call fill(0)
        call MPI_Iallreduce(MPI_IN_PLACE, out, n, MPI_DOUBLE_PRECISION, MPI_SUM, comm, request, ierror)
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
        call numbers_get(here, out_there, n)
        call check(all(here == wanted), 'iallreduce')
        call MPI_Barrier(comm, ierror)
    end do
    call MPI_Comm_free(comm, ierror)
    call fill(1)
    call MPI_Bcast(out, n, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierror)
    call numbers_get(here, out_there, n)
    call check(here(n) == 1000d0 + 1 + n / 1d4, 'bcast')
    call fill(2)
    counts = n / ranks
    displs = [(8 * (i - 1) * (n / ranks), i = 1, 8)]
    types = MPI_DOUBLE_PRECISION
    call MPI_Alltoallw(out, counts, displs, types, in, counts, displs, types, MPI_COMM_WORLD, ierror)
    call numbers_get(here, in_there, n)
    call check(here(1) == 1000d0 + 2 + (1 + rank * (n / ranks)) / 1d4, 'alltoallw')
    ! MPI reads the list of types again at the end; from device memory and from the host's.
    do i = 1, 2
        call MPI_Type_contiguous(n / ranks, MPI_DOUBLE_PRECISION, types(1), ierror)
        call MPI_Type_commit(types(1), ierror)
        types = types(1)
        counts = 1
        wanted = -1
        call fill(2)
        if (i == 1) call MPI_Ialltoallw(out, counts, displs, types, in, counts, displs, types, MPI_COMM_WORLD, &
            request, ierror)
        if (i == 2) call MPI_Ialltoallw(here, counts, displs, types, wanted, counts, displs, types, MPI_COMM_WORLD, &
            request, ierror)
        call MPI_Type_free(types(1), ierror)
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
        call check(ierror == MPI_SUCCESS, 'ialltoallw')
        if (i == 1) call numbers_get(wanted, in_there, n)
        call check(wanted(1) == 1000d0 + 2 + (1 + rank * (n / ranks)) / 1d4, 'ialltoallw: numbers')
        call numbers_get(here, out_there, n)
    end do
end subroutine

subroutine packing()
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    integer(MPI_ADDRESS_KIND) :: bytes, position
    integer :: ierror
    real(c_double) :: stream(n), here(n), wanted(n)
    call fill(3)
    bytes = 8 * n
    position = 0
    call MPI_Pack_external('external32  ', out, n, MPI_DOUBLE_PRECISION, stream, bytes, position, ierror)
    call check(ierror == MPI_SUCCESS .and. position == bytes, 'pack_external')
    position = 0
    call MPI_Unpack_external('external32', stream, bytes, position, in, n, MPI_DOUBLE_PRECISION, ierror)
    call check(ierror == MPI_SUCCESS .and. position == bytes, 'unpack_external')
    call numbers_get(wanted, out_there, n)
    call numbers_get(here, in_there, n)
    call check(all(here == wanted) .and. any(stream /= wanted), 'external32')
end subroutine

subroutine windows()
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    WIN_OF :: win
    integer :: ierror
    integer(MPI_ADDRESS_KIND) :: bytes, nothing
    bytes = 8 * n
    nothing = 0
    call fill(30)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
    call MPI_Win_create(in, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    makes_windows = ierror == MPI_SUCCESS
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, ierror)
    if (.not. makes_windows) then
        if (rank == 0) print '(a)', 'this MPI makes no windows here: left out'
        return
    end if
    call MPI_Win_fence(0, win, ierror)
    call MPI_Put(out, n, MPI_DOUBLE_PRECISION, right, nothing, n, MPI_DOUBLE_PRECISION, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    call check(ierror == MPI_SUCCESS, 'put: error')
    call compare(30, 'put')
    call MPI_Win_free(win, ierror)
    call fill(31)
    call MPI_Win_create(out, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_lock(MPI_LOCK_SHARED, left, 0, win, ierror)
    call MPI_Get(in, n, MPI_DOUBLE_PRECISION, left, nothing, n, MPI_DOUBLE_PRECISION, win, ierror)
    call MPI_Win_unlock(left, win, ierror)
    call compare(31, 'get')
    call MPI_Win_free(win, ierror)
end subroutine

! Between what one rank writes and another reads, or the other way round, MPI wants all three.
subroutine hand_over(file)
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    FILE_OF :: file
    integer :: ierror
    call MPI_File_sync(file, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_File_sync(file, ierror)
end subroutine

subroutine files()
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    FILE_OF :: file
    STATUS_OF(status)
    REQUEST_OF :: request
    integer :: ierror, i
    integer(MPI_OFFSET_KIND) :: mine, theirs, start
    character(4096) :: folder
    call get_command_argument(3, folder)
    call MPI_File_open(MPI_COMM_WORLD, trim(folder) // '/numbers', &
        MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
    call check(ierror == MPI_SUCCESS, 'file: open')
    mine = 8 * n * rank
    theirs = 8 * n * left
    start = 0
    call fill(40)
    call MPI_File_write_at_all_begin(file, mine, out, n, MPI_DOUBLE_PRECISION, ierror)
    call MPI_File_write_at_all_end(file, out, status, ierror)
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, i, ierror)
    call check(i == n, 'write_at_all_end: count')
    call hand_over(file)
    call MPI_File_seek(file, theirs, MPI_SEEK_SET, ierror)
    call MPI_File_read_all_begin(file, in, n, MPI_DOUBLE_PRECISION, ierror)
    call MPI_File_read_all_end(file, in, status, ierror)
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, i, ierror)
    call check(i == n, 'read_all_end: count')
    call compare(40, 'write_at_all, read_all: split')
    call hand_over(file)
    call fill(41)
    call MPI_File_seek_shared(file, start, MPI_SEEK_SET, ierror)
    call MPI_File_write_ordered_begin(file, out, n, MPI_DOUBLE_PRECISION, ierror)
    call MPI_File_write_ordered_end(file, out, MPI_STATUS_IGNORE, ierror)
    call hand_over(file)
    call MPI_File_read_at_all_begin(file, theirs, in, n, MPI_DOUBLE_PRECISION, ierror)
    call MPI_File_read_at_all_end(file, in, MPI_STATUS_IGNORE, ierror)
    call compare(41, 'write_ordered, read_at_all: split')
    call hand_over(file)
    call fill(42)
    call MPI_File_write_at_all(file, mine, out, n, MPI_DOUBLE_PRECISION, status, ierror)
    call hand_over(file)
    call MPI_File_iread_at(file, theirs, in, n, MPI_DOUBLE_PRECISION, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call compare(42, 'write_at_all, iread_at')
    call MPI_File_close(file, ierror)
end subroutine

! Rank 0 sends and enters a call that the others enter once they have received: the message must be under way then.
subroutine blocks()
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    REQUEST_OF :: request
    FILE_OF :: file
    WIN_OF :: win
    COMM_OF :: made, part
    integer :: ierror, call_number
    integer(MPI_ADDRESS_KIND) :: bytes
    real(c_double), save :: window(2)
    character(4096) :: folder
    call get_command_argument(3, folder)
    do call_number = 1, 11
        call fill(50 + call_number)
        request = MPI_REQUEST_NULL
        if (mod(rank, 2) == 0) then
            call MPI_Isend(out, n, MPI_DOUBLE_PRECISION, right, 9, MPI_COMM_WORLD, request, ierror)
        else
            call MPI_Recv(in, n, MPI_DOUBLE_PRECISION, left, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
            call compare(50 + call_number, 'blocks')
        end if
        select case (call_number)
        case (1)
            call MPI_Comm_dup(MPI_COMM_WORLD, made, ierror)
        case (2)
            call MPI_Comm_split(made, 0, rank, part, ierror)
        case (3)
            call MPI_Comm_free(made, ierror)
            call MPI_Comm_disconnect(part, ierror)
        case (4)
            call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., made, ierror)
        case (5)
            call MPI_Comm_free(made, ierror)
        case (6)
            bytes = 16
            if (makes_windows) call MPI_Win_create(window, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
        case (7)
            if (makes_windows) call MPI_Win_free(win, ierror)
        case (8)
            call MPI_File_open(MPI_COMM_WORLD, trim(folder) // '/blocks', &
                MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
        case (9)
            bytes = 0
            call MPI_File_set_view(file, int(bytes, MPI_OFFSET_KIND), MPI_INTEGER, MPI_INTEGER, 'native', &
                MPI_INFO_NULL, ierror)
        case (10)
            call MPI_File_close(file, ierror)
        case (11)
            call MPI_Barrier(MPI_COMM_WORLD, ierror)
        end select
        call check(ierror == MPI_SUCCESS, 'blocks: error')
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    end do
end subroutine

! Of a communicator with neighbours, some ranks are in C when it is made, and others in Fortran.
subroutine neighbors()
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    COMM_OF :: ring, copy
    integer :: ierror, turn, half, i
    real(c_double) :: here(n)
    half = n / 2
    if (mod(rank, 2) == 0) then
        call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., ring, ierror)
        call check(ierror == MPI_SUCCESS, 'neighbors: error')
    else
        NUMBER_OF(ring) = ring_in_c(ranks)
    end if
    call MPI_Comm_dup(ring, copy, ierror)
    do turn = 1, 8
        call fill(70 + turn)
        if (mod(turn, 2) == 0) then
            call MPI_Neighbor_allgather(out, half, MPI_DOUBLE_PRECISION, in, half, MPI_DOUBLE_PRECISION, ring, ierror)
        else
            call MPI_Neighbor_allgather(out, half, MPI_DOUBLE_PRECISION, in, half, MPI_DOUBLE_PRECISION, copy, ierror)
        end if
        call numbers_get(here, in_there, n)
        call check(all(here(1:half) == [(1000d0 * (left + 1) + 70 + turn + i / 1d4, i = 1, half)]), 'from the left')
        call check(all(here(half + 1:n) == [(1000d0 * (right + 1) + 70 + turn + i / 1d4, i = 1, half)]), &
            'from the right')
    end do
    call MPI_Comm_free(copy, ierror)
    call MPI_Comm_free(ring, ierror)
end subroutine

program dropin_fortran
    use NUMBERS
    INTERFACE_OF
    implicit none
    INCLUDE_OF
    integer :: ierror, provided, kind
    call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    right = mod(rank + 1, ranks)
    left = mod(rank + ranks - 1, ranks)
    out_there = numbers_make(n)
    in_there = numbers_make(n)
    call c_f_pointer(out_there, out, [n])
    call c_f_pointer(in_there, in, [n])
    do kind = 1, 9
        call complete(kind)
    end do
    call messages()
    call collectives()
    call check(persistent_sums(out_there, in_there, n) == 0, 'persistent collective calls')
    call packing()
    call windows()
    call files()
    call neighbors()
    if (mod(ranks, 2) == 0) call blocks()
    call numbers_free(out_there)
    call numbers_free(in_there)
    call MPI_Finalize(ierror)
    if (failed > 0) stop 1
    if (rank == 0) print '(a)', 'dropin_fortran: right'
end program

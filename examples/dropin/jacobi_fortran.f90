! SPDX-License-Identifier: BSD-3-Clause
! The same as jacobi.c in Fortran, with module mpi_f08: MPI_Sendrecv and MPI_Allreduce on arrays that lie on the device.
!
!     selvage-run mpirun -n 2 jacobi_fortran
program jacobi_fortran
    use, intrinsic :: iso_c_binding
    use mpi_f08
    implicit none
    type, bind(c) :: block_t
        integer(c_int) :: nx, nrows, first, ny
    end type
    interface
        subroutine jacobi_choose(local_rank) bind(c)
            import :: c_int
            integer(c_int), value :: local_rank
        end subroutine
        type(c_ptr) function jacobi_new(numbers) bind(c)
            import :: c_ptr, c_size_t
            integer(c_size_t), value :: numbers
        end function
        subroutine jacobi_delete(u) bind(c)
            import :: c_ptr
            type(c_ptr), value :: u
        end subroutine
        subroutine jacobi_get(host, device, numbers) bind(c)
            import :: c_double, c_ptr, c_size_t
            real(c_double) :: host(*)
            type(c_ptr), value :: device
            integer(c_size_t), value :: numbers
        end subroutine
        subroutine jacobi_fill(u, block) bind(c)
            import :: c_ptr, block_t
            type(c_ptr), value :: u
            type(block_t) :: block
        end subroutine
        subroutine jacobi_step(u, next, change, block) bind(c)
            import :: c_ptr, block_t
            type(c_ptr), value :: u, next, change
            type(block_t) :: block
        end subroutine
        subroutine jacobi_wait() bind(c)
        end subroutine
    end interface

    integer, parameter :: n = 128, steps = 100
    real(c_double), parameter :: pi = acos(-1.0_c_double)
    type(block_t) :: block
    type(c_ptr) :: memory(2), change_memory(2)
    real(c_double), pointer :: u(:, :), change(:), total(:)
    real(c_double) :: f, wanted, worst, sum_now(1)
    integer :: rank, ranks, up, down, step, now

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call jacobi_choose(int(rank, c_int))
    block = block_t(n, n / ranks, 1 + rank * (n / ranks), n)
    if (rank == ranks - 1) block%nrows = n - rank * (n / ranks)
    up = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    down = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    do now = 1, 2
        memory(now) = jacobi_new(int(n + 2, c_size_t) * (block%nrows + 2))
        change_memory(now) = jacobi_new(1_c_size_t)
        call jacobi_fill(memory(now), block)
    end do
    call c_f_pointer(change_memory(1), change, [1])
    call c_f_pointer(change_memory(2), total, [1])

    f = cos(pi / (n + 1))
    worst = 0
    now = 1
    do step = 0, steps - 1
        call jacobi_step(memory(now), memory(3 - now), change_memory(1), block)
        now = 3 - now
        call jacobi_wait()
        call c_f_pointer(memory(now), u, [n + 2, block%nrows + 2])
        call MPI_Sendrecv(u(:, 2), n + 2, MPI_DOUBLE_PRECISION, up, 0, u(:, block%nrows + 2), n + 2, &
            MPI_DOUBLE_PRECISION, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call MPI_Sendrecv(u(:, block%nrows + 1), n + 2, MPI_DOUBLE_PRECISION, down, 1, u(:, 1), n + 2, &
            MPI_DOUBLE_PRECISION, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call MPI_Allreduce(change, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
        call jacobi_get(sum_now, change_memory(2), 1_c_size_t)
        wanted = (1 - f)**2 * f**(2 * step) * (n + 1)**2 / 4
        worst = max(worst, abs(sum_now(1) / wanted - 1))
    end do
    if (rank == 0) print '(a, i0, a, es8.1, a, a)', 'jacobi_fortran: ', ranks, ' ranks; error of the sums: ', &
        worst, ': ', merge('right', 'WRONG', worst < 1e-6)
    do now = 1, 2
        call jacobi_delete(memory(now))
        call jacobi_delete(change_memory(now))
    end do
    call MPI_Finalize()
    if (.not. worst < 1e-6) stop 1
end program

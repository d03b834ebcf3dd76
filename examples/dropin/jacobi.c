/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jacobi's method on a square whose rows are dealt to the ranks, as codes for GPU-aware MPI are written: MPI_Sendrecv
 * and MPI_Allreduce are given device pointers. It knows nothing of Selvage. On an MPI that does not know device memory
 * it crashes; under selvage-run it runs.
 *
 *     selvage-run mpirun -n 4 jacobi [--n CELLS] [--steps STEPS] [--by-hand | --host-sum]
 *
 * --by-hand copies halos and sums through host memory itself, which works with any MPI, for comparison. --host-sum does
 * so with the sum only, which the host needs anyhow: MPI_Allreduce on device memory leaves it where a copy must get it.
 * The field begins as the slowest mode of the square, which every step multiplies by one known number: the field and
 * the change in each step are checked against it.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jacobi_device.h"

#define PI 3.14159265358979323846

typedef struct options {
    int n, steps, by_hand, host_sum;
} options_t;

typedef struct program {
    jacobi_block_t block;
    int rank, ranks, up, down, by_hand, host_sum;
    double *u, *next, *change, *sum; /* device */
    double *rows;                    /* pinned: of --by-hand, four rows; of --host-sum, a sum */
} program_t;

static int number(const char *text, int low, int high)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || end == text || value < low || value > high) {
        fprintf(stderr, "usage: jacobi [--n CELLS] [--steps STEPS] [--by-hand | --host-sum]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return (int)value;
}

static options_t read_options(int argc, char **argv)
{
    options_t o = {1024, 200, 0, 0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--by-hand") == 0)
            o.by_hand = o.host_sum = 1;
        else if (strcmp(argv[i], "--host-sum") == 0)
            o.host_sum = 1;
        else if (strcmp(argv[i], "--n") == 0 && i + 1 < argc)
            o.n = number(argv[++i], 1, 1 << 16);
        else if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc)
            o.steps = number(argv[++i], 1, 1 << 30);
        else
            number("", 0, 0);
    }
    return o;
}

static int local_rank(void)
{
    MPI_Comm node;
    int rank;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    return rank;
}

static void set_up(program_t *p, const options_t *o)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &p->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p->ranks);
    jacobi_choose(local_rank());
    int share = o->n / p->ranks, rest = o->n % p->ranks;
    p->block = (jacobi_block_t){o->n, share + (p->rank < rest), 1 + p->rank * share + (p->rank < rest ? p->rank : rest),
                                o->n};
    p->up = p->rank > 0 ? p->rank - 1 : MPI_PROC_NULL;
    p->down = p->rank < p->ranks - 1 ? p->rank + 1 : MPI_PROC_NULL;
    p->by_hand = o->by_hand;
    p->host_sum = o->host_sum;
    size_t cells = (size_t)(o->n + 2) * (size_t)(p->block.nrows + 2);
    p->u = jacobi_new(cells);
    p->next = jacobi_new(cells);
    p->change = jacobi_new(1);
    p->sum = jacobi_new(1);
    p->rows = jacobi_new_pinned(4 * ((size_t)o->n + 2));
    jacobi_fill(p->u, &p->block);
    jacobi_fill(p->next, &p->block);
    jacobi_wait();
}

static void tear_down(program_t *p)
{
    jacobi_delete(p->u);
    jacobi_delete(p->next);
    jacobi_delete(p->change);
    jacobi_delete(p->sum);
    jacobi_delete_pinned(p->rows);
}

/* Rows of u: 0 and nrows + 1 are the neighbours'. */
static double *row(const program_t *p, int y)
{
    return p->u + (size_t)y * (size_t)(p->block.nx + 2);
}

static void exchange(program_t *p)
{
    int n = p->block.nx + 2, last = p->block.nrows;
    MPI_Sendrecv(row(p, 1), n, MPI_DOUBLE, p->up, 0, row(p, last + 1), n, MPI_DOUBLE, p->down, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(p, last), n, MPI_DOUBLE, p->down, 1, row(p, 0), n, MPI_DOUBLE, p->up, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void exchange_by_hand(program_t *p)
{
    int n = p->block.nx + 2, last = p->block.nrows;
    double *first_out = p->rows, *last_out = first_out + n, *above = last_out + n, *below = above + n;
    jacobi_get(first_out, row(p, 1), (size_t)n);
    jacobi_get(last_out, row(p, last), (size_t)n);
    MPI_Sendrecv(first_out, n, MPI_DOUBLE, p->up, 0, below, n, MPI_DOUBLE, p->down, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(last_out, n, MPI_DOUBLE, p->down, 1, above, n, MPI_DOUBLE, p->up, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (p->down != MPI_PROC_NULL)
        jacobi_put(row(p, last + 1), below, (size_t)n);
    if (p->up != MPI_PROC_NULL)
        jacobi_put(row(p, 0), above, (size_t)n);
}

static double add_up(program_t *p)
{
    double sum = 0;
    if (p->host_sum) {
        jacobi_get(p->rows, p->change, 1);
        MPI_Allreduce(p->rows, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return sum;
    }
    MPI_Allreduce(p->change, p->sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    jacobi_get(&sum, p->sum, 1);
    return sum;
}

/* What a step multiplies the field by. */
static double factor(const program_t *p)
{
    return (cos(PI / (p->block.nx + 1)) + cos(PI / (p->block.ny + 1))) / 2;
}

/* Returns the largest relative error of the sums. */
static double run(program_t *p, int steps)
{
    double f = factor(p), norm = (p->block.nx + 1.0) * (p->block.ny + 1.0) / 4, worst = 0;
    for (int step = 0; step < steps; step++) {
        jacobi_step(p->u, p->next, p->change, &p->block);
        double *swap = p->u;
        p->u = p->next;
        p->next = swap;
        jacobi_wait();
        if (p->by_hand)
            exchange_by_hand(p);
        else
            exchange(p);
        double wanted = (1 - f) * (1 - f) * pow(f, 2.0 * step) * norm;
        worst = fmax(worst, fabs(add_up(p) / wanted - 1));
    }
    return worst;
}

/* The largest error of any cell, the halo's as well. */
static double compare(const program_t *p, int steps)
{
    const jacobi_block_t *b = &p->block;
    size_t n = (size_t)b->nx + 2;
    double *host = malloc(n * sizeof *host), scale = pow(factor(p), steps), worst = 0;
    for (int y = 0; y <= b->nrows + 1; y++) {
        int at = b->first + y - 1;
        jacobi_get(host, row(p, y), n);
        for (int x = 1; x <= b->nx && at > 0 && at <= b->ny; x++)
            worst = fmax(worst, fabs(host[x] - scale * sin(PI * x / (b->nx + 1)) * sin(PI * at / (b->ny + 1))));
    }
    free(host);
    double all = worst;
    MPI_Reduce(&worst, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    program_t p;
    MPI_Init(&argc, &argv);
    options_t o = read_options(argc, argv);
    set_up(&p, &o);
    if (p.block.nrows < 1)
        number("", 0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime(), sums = run(&p, o.steps), took = MPI_Wtime() - begin, cells = compare(&p, o.steps);
    int right = sums < 1e-6 && cells < 1e-12 * (o.steps + 100);
    MPI_Bcast(&right, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (p.rank == 0)
        printf("jacobi: %d x %d cells, %d ranks, %s, %s%s: %.2f us a step; errors: field %.1e, sums %.1e: %s\n", o.n,
               o.n, p.ranks, jacobi_kind(), o.by_hand ? "staged by hand" : "device pointers",
               o.host_sum && !o.by_hand ? ", sum on the host" : "", took / o.steps * 1e6, cells, sums,
               right ? "right" : "WRONG");
    tear_down(&p);
    MPI_Finalize();
    return right ? 0 : 1;
}

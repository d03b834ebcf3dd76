/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of dropin_random share. Each call is made twice: by MPI_..., which the drop-in has, on memory of a
 * kind that each rank draws for itself; and by PMPI_..., which is MPI's own, on host memory with the same contents.
 * Then all bytes must be alike, those between and after the elements among them.
 *
 * Everything is drawn by hashing the seed, the step, what is drawn and for whom. So ranks agree on what they draw
 * alike, whichever of them draw, and a step can be made alone.
 */
#ifndef SELVAGE_TESTS_DROPIN_RANDOM_H
#define SELVAGE_TESTS_DROPIN_RANDOM_H

#include <mpi.h>
#include <selvage.h>
#include <stdbool.h>
#include <stdint.h>

/* AREA_BYTES: of the memory of a buffer; GUARD_BYTES: of it after the last element, which nobody may write. */
enum { AREAS = 16, AREA_BYTES = 8 << 20, GUARD_BYTES = 64, EVERYBODY = -1,
       ELEMENTS_MOST = AREA_BYTES / 8 / 5 /* of 8 bytes, with gaps of three */ };
enum { ON_DEVICE, PINNED, ON_HOST, MEMORIES };

typedef struct rounds {
    uint64_t seed;
    int step, rank; /* of MPI_COMM_WORLD */
    MPI_Comm comm, twin; /* where the step's calls are made, and those of MPI's own */
    MPI_Comm line, line_twin; /* the same ranks in a row, or in a ring */
    int size, me;   /* of comm */
    bool says;      /* what each step is */
    char text[160]; /* what this one is */
} rounds_t;
extern rounds_t now;

/* One of n, for a rank of MPI_COMM_WORLD or, EVERYBODY, the same for all. what and item tell draws of a step apart. */
unsigned draw(unsigned n, const char *what, int item, int rank);
static inline unsigned draw_alike(unsigned n, const char *what, int item)
{
    return draw(n, what, item, EVERYBODY);
}

/* A number of elements: few, or about as many as make a difference to some protocol; at most so many. */
int draw_count(const char *what, int item, int most);

/* Types of elements. */
typedef struct element {
    MPI_Datatype type;
    int bytes;
} element_t;
element_t draw_element(int item);

/* n elements in memory: count of a type. pitch: bytes from these to the next such; span: to the end of the last. */
typedef struct shape {
    MPI_Datatype type;
    int count, n;
    size_t pitch, span;
    bool made;
} shape_t;
/* plain: a row of elements. Each rank's is its own. */
shape_t make_shape(element_t element, int n, int item, bool plain);
void free_shape(shape_t *shape);

/* A buffer of this rank's, and its like on the host. */
typedef struct place {
    uint8_t *at, *like;
    int area, memory;
    size_t begin, compared; /* from `at` on; all that there is, unless it is set */
} place_t;
/* Fills it with numbers that add up exactly. Partner: check_place(), after both calls. */
place_t open_place(int area, size_t span, element_t element);
/* It begins at a line: MPICH 4.0 puts what goes to a window that does not to where 16 bytes begin before it. */
place_t open_window_place(int area, size_t span, element_t element);
void check_place(const place_t *place);
/* Where it is for one of the two calls. */
static inline void *side_of(const place_t *place, bool plain)
{
    return plain ? place->like : place->at;
}
static inline MPI_Comm comm_of(bool plain)
{
    return plain ? now.twin : now.comm;
}
static inline MPI_Comm line_of(bool plain)
{
    return plain ? now.line_twin : now.line;
}

/* Steps: some messages at once, a collective call, and an epoch on windows. */
void pass_messages(void);
void call_all(void);
void access_windows(void);

#endif

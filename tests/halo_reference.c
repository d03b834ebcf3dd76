/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every byte of the arrays of a case must be, as naively as halo.h says it. An element's value is a hash of its
 * field, its component, its cell in the whole domain and the epoch; halo cells of a reverse exchange have values of
 * their own, by the rank that holds them. Every cell of every box is walked, one by one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "halo_case.h"
#include "kernels/kernels.h"

/* One rank's block of one field, as every rank can work it out. */
typedef struct block {
    int rank, coords[HALO_DIMS];
    int64_t own[HALO_DIMS], first[HALO_DIMS];
} block_t;

static block_t block_of(const halo_part_t *part, int f, int rank)
{
    const selvage_grid_params_t *p = &part->test->grid;
    block_t block = {.rank = rank, .own = {1, 1, 1, 1}};
    CHECK_STATUS(selvage_grid_coords(part->grid, rank, block.coords), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_grid_block(part->grid, rank, block.own, block.first), SELVAGE_SUCCESS);
    for (int d = 0; d < p->ndims; d++)
        block.own[d] += part->field[f].stagger[d] && !p->periodic[d] && block.coords[d] == p->blocks[d] - 1;
    return block;
}

/* Walks over own cells and halo: i is the local index of a cell. Begins with first_cell(). */
static void first_cell(const selvage_field_t *field, int64_t *i)
{
    for (int d = 0; d < HALO_DIMS; d++)
        i[d] = -field->width_lo[d];
}

static bool next_cell(const selvage_field_t *field, const block_t *block, int64_t *i)
{
    for (int d = 0; d < HALO_DIMS; d++) {
        if (++i[d] < block->own[d] + field->width_hi[d])
            return true;
        i[d] = -field->width_lo[d];
    }
    return false;
}

/* On which side of the block a cell lies in every dimension. False: it is an own cell. */
static bool sides_of(const block_t *block, const int64_t *i, int *side)
{
    bool any = false;
    for (int d = 0; d < HALO_DIMS; d++) {
        side[d] = i[d] < 0 ? -1 : i[d] >= block->own[d];
        any = any || side[d] != 0;
    }
    return any;
}

static bool exists(const selvage_field_t *field, const block_t *block, const int64_t *i)
{
    int64_t sum = 0;
    for (int d = 0; d < HALO_DIMS; d++)
        sum += block->first[d] + i[d];
    return field->parity == SELVAGE_PARITY_ALL || (sum % 2 != 0) == (field->parity == SELVAGE_PARITY_ODD);
}

static bool is_listed(const halo_part_t *part, const int *step)
{
    const selvage_halo_params_t *params = &part->wish->params;
    int ndims = part->test->grid.ndims, moves = 0;
    for (int d = 0; d < ndims; d++)
        moves += step[d] != 0;
    if (params->shape != SELVAGE_HALO_DIRECTIONS)
        return params->shape == SELVAGE_HALO_FULL || moves == 1;
    for (int n = 0; n < params->ndirections; n++)
        if (memcmp(&params->directions[n * ndims], step, (size_t)ndims * sizeof *step) == 0)
            return true;
    return false;
}

/* Whether the halo cells on these sides take part: data goes away from there in reverse, and comes from there else. */
static bool takes_part(const halo_part_t *part, const block_t *block, const int *side)
{
    const selvage_grid_params_t *p = &part->test->grid;
    int step[HALO_DIMS];
    for (int d = 0; d < HALO_DIMS; d++) {
        int coord = block->coords[d] + side[d];
        if (d < p->ndims && !p->periodic[d] && (coord < 0 || coord >= p->blocks[d]))
            return false;
        step[d] = part->wish->params.reverse ? side[d] : -side[d];
    }
    return is_listed(part, step);
}

static void cell_in_domain(const halo_part_t *part, const block_t *block, const int64_t *i, int64_t *cell)
{
    for (int d = 0; d < HALO_DIMS; d++) {
        int64_t extent = part->test->grid.global_extent[d];
        cell[d] = block->first[d] + i[d];
        if (d < part->test->grid.ndims && part->test->grid.periodic[d])
            cell[d] = (cell[d] + extent) % extent;
    }
}

/* holder -1: the owner's value of a cell of the domain; else what a rank has at a local index. */
static uint64_t hash_of(const halo_part_t *part, int f, int c, int holder, const int64_t *cell, uint64_t epoch)
{
    uint64_t hash = sv_digest_mix(part->test->seed + epoch * 1000003 + (uint64_t)f * 17 + (uint64_t)c);
    hash = sv_digest_mix(hash + (uint64_t)(holder + 1));
    for (int d = 0; d < HALO_DIMS; d++)
        hash = sv_digest_mix(hash + (uint64_t)(cell[d] + 100));
    return hash;
}

/* The number that stands for a hash: whole ones that any sum of is exact, or of any size. */
static double float_of(const halo_part_t *part, uint64_t hash)
{
    double whole = (double)(int)(hash % 2001) - 1000.0;
    return part->wish->exact ? whole : whole * (1.0 + (double)(hash >> 40)) / 3.0;
}

static void put_number(const halo_part_t *part, selvage_number_t number, uint64_t hash, uint8_t *at)
{
    double real = float_of(part, hash);
    float single = (float)real;
    if (number == SELVAGE_NUMBER_FLOAT64)
        memcpy(at, &real, sizeof real);
    else if (number == SELVAGE_NUMBER_FLOAT32)
        memcpy(at, &single, sizeof single);
    else
        memcpy(at, &hash, number == SELVAGE_NUMBER_INT64 ? 8 : 4); /* little-endian or not: any number will do */
}

static size_t bytes_of(selvage_number_t number)
{
    return number == SELVAGE_NUMBER_FLOAT64 || number == SELVAGE_NUMBER_INT64 ? 8 : 4;
}

static void put_element(const halo_part_t *part, int f, uint64_t hash, uint8_t *at)
{
    const selvage_field_t *field = &part->field[f];
    size_t step = field->number ? bytes_of(field->number) : 1;
    for (size_t b = 0; b < field->element_bytes; b += step) {
        uint64_t mixed = sv_digest_mix(hash + b);
        if (field->number)
            put_number(part, field->number, mixed, at + b);
        else
            at[b] = (uint8_t)mixed;
    }
}

static void add_number(selvage_number_t number, uint8_t *to, const uint8_t *from)
{
    union {
        double real;
        float single;
        uint64_t wide;
        uint32_t narrow;
    } a, b;
    memcpy(&a, to, bytes_of(number));
    memcpy(&b, from, bytes_of(number));
    switch (number) {
    case SELVAGE_NUMBER_FLOAT64: a.real += b.real; break;
    case SELVAGE_NUMBER_FLOAT32: a.single += b.single; break;
    case SELVAGE_NUMBER_INT64: a.wide += b.wide; break;
    default: a.narrow += b.narrow; break;
    }
    memcpy(to, &a, bytes_of(number));
}

/* Where an element lies in the memory of this rank's array. */
static size_t place_of(const halo_part_t *part, int f, int c, const int64_t *i)
{
    const halo_array_t *array = &part->array[f];
    int64_t at = array->offset + c * array->component_stride;
    for (int d = 0; d < part->test->grid.ndims; d++) {
        int64_t index = array->first[d] + i[d];
        bool packed = part->field[f].parity && d == part->field[f].packed_dim;
        at += (packed ? index / 2 : index) * array->stride[d];
    }
    return (size_t)at;
}

static int components_of(const halo_part_t *part, int f)
{
    return part->field[f].components ? part->field[f].components : 1;
}

/* Values of own cells, and of the halo in reverse, as they are before the exchange. */
static void fill_field(halo_part_t *part, int f, uint8_t *memory, uint64_t epoch)
{
    const selvage_field_t *field = &part->field[f];
    block_t block = block_of(part, f, part->self->rank);
    int64_t i[HALO_DIMS], cell[HALO_DIMS];
    int side[HALO_DIMS];
    first_cell(field, i);
    do {
        bool halo = sides_of(&block, i, side);
        if (!exists(field, &block, i) || (halo && !part->wish->params.reverse))
            continue;
        cell_in_domain(part, &block, i, cell);
        for (int c = 0; c < components_of(part, f); c++)
            put_element(part, f, hash_of(part, f, c, halo ? block.rank : -1, halo ? i : cell, epoch),
                        memory + place_of(part, f, c, i));
    } while (next_cell(field, &block, i));
}

static void expect_forward(const halo_part_t *part, int f, uint8_t *expected, uint64_t epoch)
{
    const selvage_field_t *field = &part->field[f];
    block_t block = block_of(part, f, part->self->rank);
    int64_t i[HALO_DIMS], cell[HALO_DIMS];
    int side[HALO_DIMS];
    first_cell(field, i);
    do {
        if (!sides_of(&block, i, side) || !exists(field, &block, i) || !takes_part(part, &block, side))
            continue;
        cell_in_domain(part, &block, i, cell);
        for (int c = 0; c < components_of(part, f); c++)
            put_element(part, f, hash_of(part, f, c, -1, cell, epoch), expected + place_of(part, f, c, i));
    } while (next_cell(field, &block, i));
}

/* Whether a cell of the domain is one of the block's, and at which local index. */
static bool is_own(const block_t *block, const int64_t *cell, int64_t *i)
{
    for (int d = 0; d < HALO_DIMS; d++) {
        i[d] = cell[d] - block->first[d];
        if (i[d] < 0 || i[d] >= block->own[d])
            return false;
    }
    return true;
}

/* What one rank's halo adds to own cells of this one. */
static void expect_added(const halo_part_t *part, int f, int holder, uint8_t *expected, uint64_t epoch)
{
    const selvage_field_t *field = &part->field[f];
    block_t there = block_of(part, f, holder), here = block_of(part, f, part->self->rank);
    int64_t i[HALO_DIMS], cell[HALO_DIMS], own[HALO_DIMS];
    int side[HALO_DIMS];
    uint8_t element[64];
    first_cell(field, i);
    do {
        if (!sides_of(&there, i, side) || !exists(field, &there, i) || !takes_part(part, &there, side))
            continue;
        cell_in_domain(part, &there, i, cell);
        if (!is_own(&here, cell, own))
            continue;
        for (int c = 0; c < components_of(part, f); c++) {
            put_element(part, f, hash_of(part, f, c, holder, i, epoch), element);
            for (size_t b = 0; b < field->element_bytes; b += bytes_of(field->number))
                add_number(field->number, expected + place_of(part, f, c, own) + b, element + b);
        }
    } while (next_cell(field, &there, i));
}

void halo_part_fill(halo_part_t *part, int set, uint64_t epoch)
{
    for (int f = 0; f < part->wish->nfields; f++) {
        const halo_array_t *array = &part->array[f];
        if (array->bytes > 0)
            local_ranks_fill(array->memory[set], array->bytes, part->test->seed + epoch * 31 + (uint64_t)f);
    }
    for (int f = 0; f < part->wish->nfields; f++)
        fill_field(part, f, part->array[f].memory[set], epoch);
    for (int f = 0; f < part->wish->nfields; f++)
        if (part->array[f].bytes > 0)
            memcpy(part->array[f].expected[set], part->array[f].memory[set], part->array[f].bytes);
    for (int f = 0; f < part->wish->nfields; f++) {
        if (!part->wish->params.reverse)
            expect_forward(part, f, part->array[f].expected[set], epoch);
        for (int q = 0; part->wish->params.reverse && q < part->self->size; q++)
            expect_added(part, f, q, part->array[f].expected[set], epoch);
    }
}

/* Says which cell of which field a byte belongs to, if to any. */
static void tell_place(const halo_part_t *part, int array, size_t byte)
{
    for (int f = array; f < part->wish->nfields && (f == array || part->array[f].bytes == 0); f++) {
        block_t block = block_of(part, f, part->self->rank);
        int64_t i[HALO_DIMS];
        first_cell(&part->field[f], i);
        do
            for (int c = 0; c < components_of(part, f) && exists(&part->field[f], &block, i); c++)
                if (byte - place_of(part, f, c, i) < part->field[f].element_bytes)
                    fprintf(stderr, "  it belongs to field %d, component %d, cell %lld %lld %lld %lld of a block of "
                            "%lld %lld %lld %lld\n", f, c, (long long)i[0], (long long)i[1], (long long)i[2],
                            (long long)i[3], (long long)block.own[0], (long long)block.own[1], (long long)block.own[2],
                            (long long)block.own[3]);
        while (next_cell(&part->field[f], &block, i));
    }
}

bool halo_part_check(const halo_part_t *part, int set, uint64_t epoch)
{
    for (int f = 0; f < part->wish->nfields; f++) {
        const halo_array_t *array = &part->array[f];
        if (array->bytes == 0 || memcmp(array->memory[set], array->expected[set], array->bytes) == 0)
            continue;
        size_t byte = 0;
        while (array->memory[set][byte] == array->expected[set][byte])
            byte++;
        fprintf(stderr, "seed %llu, rank %d, epoch %llu: byte %zu of %zu of the array of field %d is %02x, wanted "
                "%02x\n", (unsigned long long)part->test->seed, part->self->rank, (unsigned long long)epoch, byte,
                array->bytes, f, array->memory[set][byte], array->expected[set][byte]);
        tell_place(part, f, byte);
        return false;
    }
    return true;
}

uint64_t halo_part_hash(const halo_part_t *part, int set)
{
    uint64_t hash = 0;
    for (int f = 0; f < part->wish->nfields; f++)
        for (size_t b = 0; b < part->array[f].bytes; b++)
            hash = sv_digest_mix(hash + part->array[f].memory[set][b]);
    return hash;
}

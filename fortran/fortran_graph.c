/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After the Fortran module: packets by the neighbours in a distributed graph of MPI. The library reads as many lengths
 * as there are neighbours, so here it is seen to that the arrays have them, and that the packets end within the arrays.
 * See selvage_fortran.h.
 */
#include "selvage_fortran.h"

#include <stdint.h>
#include <stdlib.h>

/* As type(MPI_Comm) of mpi_f08. */
struct f08_comm { MPI_Fint handle; };

/* Sends or receives: the array, its lengths and offsets (or none) without gaps, and how many there must be. */
struct graph_side {
    const char *name, *lengths_name, *offsets_name, *kind;
    void *base;
    size_t room_bytes;
    int neighbours;
    size_t *bytes, *offsets;
};

/* Its lengths and offsets as Fortran gives them. */
struct graph_arrays {
    const CFI_cdesc_t *bytes, *offsets;
};

static void free_sides(struct graph_side *side)
{
    for (int i = 0; i < 2; i++) {
        free(side[i].bytes);
        free(side[i].offsets);
    }
}

/* Other communicators are refused by the library, with a better reason. */
static void count_neighbours(MPI_Comm graph, int *sources_out, int *destinations_out)
{
    int kind = MPI_UNDEFINED, weighted;
    *sources_out = *destinations_out = 0;
    if (graph != MPI_COMM_NULL)
        MPI_Topo_test(graph, &kind);
    if (kind == MPI_DIST_GRAPH)
        MPI_Dist_graph_neighbors_count(graph, sources_out, destinations_out, &weighted);
}

static selvage_status_t read_numbers(const CFI_cdesc_t *array, const char *name, const struct graph_side *side,
                                     size_t **out)
{
    const int given = sf_elements(array);
    if (!array)
        return SELVAGE_SUCCESS;
    if (given != side->neighbours)
        return sf_refuse("%s: has %d elements, and graph has %d %ss", name, given, side->neighbours, side->kind);
    *out = malloc((size_t)given * sizeof **out + 1);
    if (!*out)
        return SELVAGE_ERR_MEMORY;
    for (int i = 0; i < given; i++) {
        const int64_t number = *(const int64_t *)sf_element(array, i);
        if (number < 0)
            return sf_refuse("%s(%d): is %lld", name, i + 1, (long long)number);
        (*out)[i] = (size_t)number;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t read_side(struct graph_side *side, const struct graph_arrays *arrays)
{
    size_t next = 0;
    selvage_status_t status = read_numbers(arrays->bytes, side->lengths_name, side, &side->bytes);
    if (status == SELVAGE_SUCCESS)
        status = read_numbers(arrays->offsets, side->offsets_name, side, &side->offsets);
    for (int i = 0; i < side->neighbours && status == SELVAGE_SUCCESS; i++) {
        const size_t begin = side->offsets ? side->offsets[i] : next;
        if (side->bytes[i] > side->room_bytes || begin > side->room_bytes - side->bytes[i])
            status = sf_refuse("%s: has %zu bytes, and the packet of %s %d has %zu from %zu on", side->name,
                               side->room_bytes, side->kind, i + 1, side->bytes[i], begin);
        next = begin + side->bytes[i];
    }
    return status;
}

/* side: sends and receives, of which base and room are known. */
static void add_graph(selvage_exchange_t *exchange, MPI_Comm graph, struct graph_side *side,
                      const struct graph_arrays *arrays, int tag, int *error)
{
    selvage_status_t status = SELVAGE_SUCCESS;
    count_neighbours(graph, &side[1].neighbours, &side[0].neighbours);
    for (int i = 0; i < 2 && status == SELVAGE_SUCCESS && side[0].neighbours + side[1].neighbours > 0; i++)
        status = read_side(&side[i], &arrays[i]);
    if (status == SELVAGE_SUCCESS)
        status = selvage_exchange_add_graph(exchange, graph, side[0].base, side[0].bytes, side[0].offsets,
                                            side[1].base, side[1].bytes, side[1].offsets, tag);
    free_sides(side);
    sf_settle(status, error);
}

static void name_sides(struct graph_side *side)
{
    side[0] = (struct graph_side){.name = "send", .lengths_name = "send_bytes", .kind = "destination",
                                  .offsets_name = "send_offset_bytes"};
    side[1] = (struct graph_side){.name = "recv", .lengths_name = "recv_bytes", .kind = "source",
                                  .offsets_name = "recv_offset_bytes"};
}

void selvage_fortran_add_graph_array(selvage_exchange_t **exchange, const MPI_Fint *graph, const CFI_cdesc_t *send,
                                     const CFI_cdesc_t *send_bytes, const CFI_cdesc_t *recv,
                                     const CFI_cdesc_t *recv_bytes, const int *tag,
                                     const CFI_cdesc_t *send_offset_bytes, const CFI_cdesc_t *recv_offset_bytes,
                                     int *error)
{
    const struct graph_arrays arrays[] = {{send_bytes, send_offset_bytes}, {recv_bytes, recv_offset_bytes}};
    struct graph_side side[2];
    name_sides(side);
    selvage_status_t status = sf_bytes(send, "send", &side[0].base, &side[0].room_bytes);
    if (status == SELVAGE_SUCCESS)
        status = sf_bytes(recv, "recv", &side[1].base, &side[1].room_bytes);
    if (status == SELVAGE_SUCCESS)
        add_graph(*exchange, MPI_Comm_f2c(*graph), side, arrays, *tag, error);
    else
        sf_settle(status, error);
}

void selvage_fortran_add_graph(selvage_exchange_t **exchange, const MPI_Fint *graph, void **send,
                               const size_t *send_room_bytes, const CFI_cdesc_t *send_bytes, void **recv,
                               const size_t *recv_room_bytes, const CFI_cdesc_t *recv_bytes, const int *tag,
                               const CFI_cdesc_t *send_offset_bytes, const CFI_cdesc_t *recv_offset_bytes, int *error)
{
    const struct graph_arrays arrays[] = {{send_bytes, send_offset_bytes}, {recv_bytes, recv_offset_bytes}};
    struct graph_side side[2];
    name_sides(side);
    side[0].base = *send;
    side[0].room_bytes = *send_room_bytes;
    side[1].base = *recv;
    side[1].room_bytes = *recv_room_bytes;
    add_graph(*exchange, MPI_Comm_f2c(*graph), side, arrays, *tag, error);
}

void selvage_fortran_add_graph_array_f08(selvage_exchange_t **exchange, const struct f08_comm *graph,
                                         const CFI_cdesc_t *send, const CFI_cdesc_t *send_bytes,
                                         const CFI_cdesc_t *recv, const CFI_cdesc_t *recv_bytes, const int *tag,
                                         const CFI_cdesc_t *send_offset_bytes, const CFI_cdesc_t *recv_offset_bytes,
                                         int *error)
{
    selvage_fortran_add_graph_array(exchange, &graph->handle, send, send_bytes, recv, recv_bytes, tag,
                                    send_offset_bytes, recv_offset_bytes, error);
}

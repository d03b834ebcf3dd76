/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a halo, in steps that each end with all ranks in the same state. Whatever goes wrong on one rank, the others
 * learn of it in the next agreement and do not wait.
 *
 *   check      alone      arguments; every default filled in
 *   -- all ranks gave the same --
 *   build      alone      pieces, layouts, packets
 *   -- all ranks have built it --
 *   commit     together   sv_exchange_commit()
 */
#include "grid/halo_handle.h"

#include <string.h>

#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "pipeline/exchange_set.h"

static sv_layout_number_t layout_number_of(selvage_number_t number)
{
    switch (number) {
    case SELVAGE_NUMBER_FLOAT32: return SV_LAYOUT_ADD_FLOAT32;
    case SELVAGE_NUMBER_FLOAT64: return SV_LAYOUT_ADD_FLOAT64;
    case SELVAGE_NUMBER_INT32: return SV_LAYOUT_ADD_INT32;
    case SELVAGE_NUMBER_INT64: return SV_LAYOUT_ADD_INT64;
    case SELVAGE_NUMBER_NONE: break;
    }
    return SV_LAYOUT_STORE;
}

/* Everything that a rank can find wrong by itself. */
static selvage_status_t check_halo(selvage_grid_t *grid, const selvage_halo_params_t *params,
                                   const selvage_field_t *given, int nfields, sv_halo_directions_t *directions,
                                   selvage_halo_t *halo)
{
    const size_t count = (size_t)nfields;
    bool moves = false;
    SV_TRY(sv_halo_directions(params, grid->ndims, directions));

    /* Places for pointers: of the sets that are remembered, and two more. */
    SV_TRY(sv_calloc(count, sizeof *halo->fields, &halo->fields));
    SV_TRY(sv_calloc(count * (2 * SV_HALO_SETS + 2), sizeof *halo->pointers, &halo->pointers));
    for (int s = 0; s < SV_HALO_SETS; s++)
        halo->set[s] = (sv_halo_set_t){.data = halo->pointers + 2 * (size_t)s * count,
                                       .base = halo->pointers + (2 * (size_t)s + 1) * count};
    halo->fresh = halo->pointers + 2 * SV_HALO_SETS * count;
    halo->first_data = halo->fresh + count;
    halo->nfields = nfields;

    /* A single field may have no width in some dimension, or at all. Without any width nothing would ever move. */
    for (int i = 0; i < nfields; i++)
        for (int d = 0; d < grid->ndims; d++)
            moves |= given[i].width_lo[d] != 0 || given[i].width_hi[d] != 0;
    if (!moves)
        return sv_error(SELVAGE_ERR_ARGUMENT, "fields: width_lo and width_hi are 0 in every dimension of every field; "
                        "a halo has at least one cell");
    for (int i = 0; i < nfields; i++) {
        sv_halo_field_t *f = &halo->fields[i];
        SV_TRY(sv_halo_resolve(grid, &given[i], i, f));
        SV_TRY(sv_halo_check_widths(grid, f, i, given[i].stagger, directions));
        if (params->reverse && f->number == SELVAGE_NUMBER_NONE)
            return sv_error(SELVAGE_ERR_ARGUMENT, "fields[%d]: number is not given; a reverse exchange adds numbers",
                            i);
        halo->first_data[i] = f->data;
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t add_packet(selvage_halo_t *halo, const sv_halo_way_t *way, const sv_halo_packet_t *packet,
                                   bool reverse, bool receives)
{
    sv_layout_t *layout;
    selvage_status_t status;
    SV_TRY(sv_layout_create(SV_LAYOUT_ALIGNED, &layout));
    for (uint32_t i = 0; i < packet->npieces; i++) {
        const sv_halo_piece_t *piece = &way->piece[packet->first_piece + i];
        const sv_halo_field_t *f = &halo->fields[piece->field];
        sv_layout_number_t number = reverse && receives ? layout_number_of(f->number) : SV_LAYOUT_STORE;
        SV_TRY_GOTO(status, sv_halo_lay(layout, piece->field + 1, f, &piece->cells, number), fail);
    }
    if (receives) {
        halo->info.bytes_received += sv_layout_bytes(layout);
        return sv_exchange_add_recv_layout(halo->exchange, layout, packet->rank, 0, NULL);
    }
    halo->info.packets++;
    halo->info.bytes_sent += sv_layout_bytes(layout);
    halo->info.bytes_contiguous += sv_layout_bytes_contiguous(layout);
    return sv_exchange_add_send_layout(halo->exchange, layout, packet->rank, 0, NULL);
fail:
    sv_layout_destroy(layout);
    return status;
}

static selvage_status_t add_way(selvage_halo_t *halo, const sv_halo_directions_t *directions, bool reverse,
                                bool receives)
{
    sv_halo_way_t way;
    SV_TRY(sv_halo_plan(halo->grid, halo->fields, halo->nfields, directions, reverse, receives, &way));
    selvage_status_t status = SELVAGE_SUCCESS;
    for (int p = 0; p < way.npackets && status == SELVAGE_SUCCESS; p++)
        status = add_packet(halo, &way, &way.packet[p], reverse, receives);
    sv_halo_way_free(&way);
    return status;
}

static selvage_status_t create_halo(selvage_halo_t *halo, selvage_grid_t *grid, const selvage_halo_params_t *params,
                                    const selvage_field_t *given, int nfields, selvage_status_t status)
{
    sv_halo_directions_t directions;
    selvage_comm_t *comm = grid->comm;
    const bool reverse = params->reverse != 0;
    uint64_t unused = 0;

    /* Check, alone; then all ranks have given the same. */
    halo->grid = grid;
    if (status == SELVAGE_SUCCESS)
        status = check_halo(grid, params, given, nfields, &directions, halo);
    SV_TRY(sv_halo_agree(halo, params, &directions, given, status));

    /* Build, alone; then all ranks have built it. */
    selvage_exchange_params_t wanted = {SELVAGE_EXCHANGE_PARAMS_INIT, .route = params->route,
                                        .checksum = params->checksum};
    uint64_t creates = comm->exchanges->creates + 1;
    status = sv_exchange_create(comm, &wanted, &halo->exchange);
    /* This counts also where there was no memory for it. Otherwise later exchanges would not meet those of other
       ranks. */
    comm->exchanges->creates = creates;
    if (status == SELVAGE_SUCCESS)
        status = add_way(halo, &directions, reverse, false);
    if (status == SELVAGE_SUCCESS)
        status = add_way(halo, &directions, reverse, true);
    if (status == SELVAGE_SUCCESS)
        status = sv_halo_rebind(halo, halo->first_data);
    SV_TRY(sv_agree(comm, "selvage_halo_create: packets", comm->exchanges->creates, status, &unused,
                    comm->timeout_s));

    /* Commit, together. */
    return sv_exchange_commit(halo->exchange);
}

static void free_halo(selvage_halo_t *halo)
{
    if (halo->exchange)
        sv_exchange_destroy(halo->exchange);
    sv_free(halo->fields);
    sv_free(halo->pointers);
    sv_free(halo);
}

selvage_status_t sv_halo_create(selvage_grid_t *grid, const selvage_halo_params_t *params,
                                const selvage_field_t *fields, int nfields, selvage_status_t before,
                                selvage_halo_t **halo_out)
{
    selvage_halo_t nothing = {0}, *halo = NULL;
    char detail[SV_DETAIL_BYTES];
    if (before == SELVAGE_SUCCESS)
        before = sv_calloc(1, sizeof *halo, &halo);
    selvage_status_t status = create_halo(halo ? halo : &nothing, grid, params, fields, nfields, before);
    if (status == SELVAGE_SUCCESS) {
        grid->nhalos++;
        *halo_out = halo;
        return SELVAGE_SUCCESS;
    }
    memcpy(detail, sv_thread_detail(), sizeof detail);
    if (halo)
        free_halo(halo);
    memcpy(sv_thread_detail(), detail, sizeof detail);
    return status;
}

void sv_halo_destroy(selvage_halo_t *halo)
{
    if (!halo)
        return;
    halo->grid->nhalos--;
    free_halo(halo);
}

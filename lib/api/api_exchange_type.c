/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls that declare packets by a datatype or by a list. Each checks its arguments and calls the pipeline.
 */
#include "api/api_packet.h"
#include "api/api_params.h"
#include "base/base_memory.h"
#include "pipeline/pipe_layout_type.h"
#include "wire/wire_mpi_datatype.h"

/* Addresses below this are no memory: a NULL buffer is MPI_BOTTOM only if the type has addresses in it. */
enum { FIRST_ADDRESS = 4096 };

/* Takes the type apart. The map is the caller's, whatever is returned. */
static selvage_status_t open_type(const char *call, const selvage_exchange_t *ex, const void *buf, size_t count,
                                  MPI_Datatype type, int peer, int tag, sv_type_map_t *map)
{
    SV_TRY(sv_api_check_packet(call, ex, NULL, 0, peer, tag));
    if (peer == MPI_PROC_NULL)
        return SELVAGE_SUCCESS;
    SV_TRY(sv_wire_mpi_flatten(call, count, type, map));
    if (!buf && map->bytes && map->low < FIRST_ADDRESS)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: buf is NULL, and type has no addresses in it", call);
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_exchange_add_send_type(selvage_exchange_t *ex, const void *buf, size_t count,
                                                MPI_Datatype type, int peer, int tag, uint32_t *index_out)
{
    sv_type_map_t map = {0};
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status = open_type(__func__, ex, buf, count, type, peer, tag, &map);
    if (status == SELVAGE_SUCCESS && !sv_api_is_nobody(peer, index_out))
        status = sv_exchange_add_send_type(ex, __func__, buf, &map, peer, tag, index_out);
    sv_type_map_fini(&map);
    return sv_api_leave(status);
}

selvage_status_t selvage_exchange_add_recv_type(selvage_exchange_t *ex, void *buf, size_t count, MPI_Datatype type,
                                                int peer, int tag, uint32_t *index_out)
{
    sv_type_map_t map = {0};
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status = open_type(__func__, ex, buf, count, type, peer, tag, &map);
    if (status == SELVAGE_SUCCESS && !sv_api_is_nobody(peer, index_out))
        status = sv_exchange_add_recv_type(ex, __func__, buf, &map, peer, tag, index_out);
    sv_type_map_fini(&map);
    return sv_api_leave(status);
}

static selvage_status_t check_list(const char *call, const selvage_exchange_t *ex, const void *buf,
                                   const sv_element_list_t *list, int peer, int tag)
{
    size_t bytes;
    if (peer == MPI_PROC_NULL)
        return sv_api_check_packet(call, ex, NULL, 0, peer, tag);
    if (list->element_bytes == 0 || list->element_bytes > SIZE_MAX / 8)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: element_bytes is %zu; wanted 1..%zu", call, list->element_bytes,
                        SIZE_MAX / 8);
    if (!list->indices && list->count)
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: indices is NULL and count is %zu", call, list->count);
    if (__builtin_mul_overflow(list->count, list->element_bytes, &bytes))
        return sv_error(SELVAGE_ERR_ARGUMENT, "%s: count is %zu, more than memory can hold", call, list->count);
    return sv_api_check_packet(call, ex, buf, bytes, peer, tag);
}

selvage_status_t selvage_exchange_add_send_indexed(selvage_exchange_t *ex, const void *buf, size_t element_bytes,
                                                   const int64_t *indices, size_t count, int peer, int tag,
                                                   uint32_t *index_out)
{
    const sv_element_list_t list = {.element_bytes = element_bytes, .count = count, .indices = indices};
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status = check_list(__func__, ex, buf, &list, peer, tag);
    if (status == SELVAGE_SUCCESS && !sv_api_is_nobody(peer, index_out))
        status = sv_exchange_add_send_list(ex, __func__, buf, &list, peer, tag, index_out);
    return sv_api_leave(status);
}

selvage_status_t selvage_exchange_add_recv_indexed(selvage_exchange_t *ex, void *buf, size_t element_bytes,
                                                   const int64_t *indices, size_t count, int peer, int tag,
                                                   uint32_t *index_out)
{
    const sv_element_list_t list = {.element_bytes = element_bytes, .count = count, .indices = indices};
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status = check_list(__func__, ex, buf, &list, peer, tag);
    if (status == SELVAGE_SUCCESS && !sv_api_is_nobody(peer, index_out))
        status = sv_exchange_add_recv_list(ex, __func__, buf, &list, peer, tag, index_out);
    return sv_api_leave(status);
}

/* Indices of 32 bits are widened; what is wrong with the other arguments is said first. The list is the caller's. */
static selvage_status_t widen_indices(const char *call, const selvage_exchange_t *ex, const void *buf,
                                      sv_element_list_t *list, const int32_t *narrow, int peer, int tag,
                                      int64_t **wide_out)
{
    int64_t *wide = NULL;
    list->indices = (const int64_t *)(const void *)narrow; /* looked at only for being there */
    SV_TRY(check_list(call, ex, buf, list, peer, tag));
    if (peer != MPI_PROC_NULL && list->count)
        SV_TRY(sv_calloc(list->count, sizeof *wide, &wide));
    for (size_t i = 0; wide && i < list->count; i++)
        wide[i] = narrow[i];
    list->indices = wide;
    *wide_out = wide;
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_exchange_add_send_indexed32(selvage_exchange_t *ex, const void *buf, size_t element_bytes,
                                                     const int32_t *indices, size_t count, int peer, int tag,
                                                     uint32_t *index_out)
{
    sv_element_list_t list = {.element_bytes = element_bytes, .count = count};
    int64_t *wide = NULL;
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status = widen_indices(__func__, ex, buf, &list, indices, peer, tag, &wide);
    if (status == SELVAGE_SUCCESS && !sv_api_is_nobody(peer, index_out))
        status = sv_exchange_add_send_list(ex, __func__, buf, &list, peer, tag, index_out);
    sv_free(wide);
    return sv_api_leave(status);
}

selvage_status_t selvage_exchange_add_recv_indexed32(selvage_exchange_t *ex, void *buf, size_t element_bytes,
                                                     const int32_t *indices, size_t count, int peer, int tag,
                                                     uint32_t *index_out)
{
    sv_element_list_t list = {.element_bytes = element_bytes, .count = count};
    int64_t *wide = NULL;
    SV_API_NEED(ex);
    SV_TRY(sv_api_enter(ex->comm));
    selvage_status_t status = widen_indices(__func__, ex, buf, &list, indices, peer, tag, &wide);
    if (status == SELVAGE_SUCCESS && !sv_api_is_nobody(peer, index_out))
        status = sv_exchange_add_recv_list(ex, __func__, buf, &list, peer, tag, index_out);
    sv_free(wide);
    return sv_api_leave(status);
}

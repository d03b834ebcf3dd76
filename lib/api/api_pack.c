/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of pack.h. Each checks its arguments, and gives pinned memory the address by which kernels reach it. */
#include <selvage/pack.h>

#include "base/base_status.h"
#include "host/memory_kind.h"
#include "pipeline/pipe_pack.h"
#include "wire/wire_mpi_datatype.h"

selvage_status_t selvage_pack_create(selvage_device_t *dev, size_t count, MPI_Datatype type,
                                     selvage_pack_t **pack_out)
{
    sv_type_map_t map = {0};
    if (!dev)
        return sv_error(SELVAGE_ERR_ARGUMENT, "dev: must not be NULL");
    if (!pack_out)
        return sv_error(SELVAGE_ERR_ARGUMENT, "pack_out: must not be NULL");
    SV_TRY(sv_wire_mpi_flatten("selvage_pack_create", count, type, &map));
    return sv_pack_create(dev, &map, pack_out);
}

size_t selvage_pack_bytes(const selvage_pack_t *pack)
{
    return pack ? (size_t)pack->map.bytes : 0;
}

size_t selvage_pack_table_bytes(const selvage_pack_t *pack)
{
    return pack ? pack->table_bytes : 0;
}

selvage_status_t selvage_pack_set_table(selvage_pack_t *pack, void *table)
{
    enum { TABLE_ALIGN = 16 };
    void *there = NULL;
    if (!pack)
        return sv_error(SELVAGE_ERR_ARGUMENT, "pack: must not be NULL");
    if (pack->table)
        return sv_error(SELVAGE_ERR_STATE, "selvage_pack_set_table: the plan has a table");
    if (pack->table_bytes == 0)
        return SELVAGE_SUCCESS;
    if (!table || (uintptr_t)table % TABLE_ALIGN != 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "table: %p is not aligned to %d bytes", table, TABLE_ALIGN);
    SV_TRY(sv_memory_admit(pack->dev, "selvage_pack_set_table", table, pack->table_bytes, &there));
    sv_pack_write_table(pack, table, there);
    return SELVAGE_SUCCESS;
}

uint64_t selvage_pack_digest(const selvage_pack_t *pack)
{
    return pack ? sv_pack_digest(pack) : 0;
}

int selvage_pack_is_equal(const selvage_pack_t *pack, const selvage_pack_t *other)
{
    return pack && other && sv_pack_is_equal(pack, other);
}

static selvage_status_t check_pack(const selvage_pack_t *pack, const void *packed, size_t from, size_t bytes)
{
    if (!pack)
        return sv_error(SELVAGE_ERR_ARGUMENT, "pack: must not be NULL");
    if (from > pack->map.bytes || bytes > pack->map.bytes - from)
        return sv_error(SELVAGE_ERR_ARGUMENT, "bytes: %zu from %zu on, of a stream of %llu", bytes, from,
                        (unsigned long long)pack->map.bytes);
    if (!packed && bytes > 0)
        return sv_error(SELVAGE_ERR_ARGUMENT, "packed: must not be NULL");
    return SELVAGE_SUCCESS;
}

selvage_status_t selvage_pack_gather(selvage_pack_t *pack, const void *buf, void *packed, void *stream)
{
    return selvage_pack_gather_part(pack, buf, 0, selvage_pack_bytes(pack), packed, stream);
}

selvage_status_t selvage_pack_gather_part(selvage_pack_t *pack, const void *buf, size_t from, size_t bytes,
                                          void *packed, void *stream)
{
    void *there = NULL;
    SV_TRY(check_pack(pack, packed, from, bytes));
    SV_TRY(sv_memory_admit(pack->dev, "selvage_pack_gather", packed, bytes, &there));
    return sv_pack_gather(pack, buf, from, bytes, there, stream);
}

selvage_status_t selvage_pack_scatter(selvage_pack_t *pack, const void *packed, size_t bytes, void *buf, void *stream)
{
    return selvage_pack_scatter_part(pack, packed, 0, bytes, buf, stream);
}

selvage_status_t selvage_pack_scatter_part(selvage_pack_t *pack, const void *packed, size_t from, size_t bytes,
                                           void *buf, void *stream)
{
    void *there = NULL;
    SV_TRY(check_pack(pack, packed, from, bytes));
    SV_TRY(sv_memory_admit(pack->dev, "selvage_pack_scatter", packed, bytes, &there));
    return sv_pack_scatter(pack, there, from, bytes, buf, stream);
}

void selvage_pack_destroy(selvage_pack_t *pack)
{
    sv_pack_destroy(pack);
}

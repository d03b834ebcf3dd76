/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that pack and unpack. Both the elements and the stream may be the device's, and MPI then gets images of them;
 * of a stream that is packed all goes down first, because the call writes only a part. Any thread; nothing outlives a
 * call.
 */
#include "interpose/drop.h"

/* Puts images in place of what is the device's: elements, and the bytes of a stream. */
static void stage_packing(sv_drop_call_t *call, const void **elements, bool elements_host, const sv_drop_list_t *list,
                          const void **stream, int64_t stream_bytes, bool packs)
{
    const bool stream_host = sv_drop_is_host(*stream);
    if (elements_host && stream_host)
        return;
    const sv_drop_list_t bytes = {.n = 1, .count = stream_bytes, .type = MPI_BYTE};
    *elements = sv_drop_blocks(call, *elements, !elements_host, list, packs, !packs);
    *stream = sv_drop_blocks(call, *stream, !stream_host, &bytes, true, packs);
    sv_drop_stage(call);
}

static int end_packing(sv_drop_call_t *call, int code)
{
    if (code == MPI_SUCCESS && call->nregions > 0)
        sv_drop_land(call, NULL);
    sv_drop_call_end(call);
    return code;
}

#define COMMA ,
#define PACK(NAME, COUNT, SIZE, FIRST, LAST, ...)                                                                \
    SV_DROP_EXPORT int MPI_##NAME(FIRST const void *inbuf, COUNT incount, MPI_Datatype type, void *outbuf,       \
                                  SIZE outsize, SIZE *position LAST)                                             \
    {                                                                                                            \
        sv_drop_call_t call = {.name = "MPI_" #NAME};                                                            \
        const sv_drop_list_t list = {.n = 1, .count = incount, .type = type};                                    \
        const void *stream = outbuf;                                                                             \
        stage_packing(&call, &inbuf, sv_drop_is_host_typed(inbuf, incount, type), &list, &stream, outsize, true); \
        outbuf = (void *)(uintptr_t)stream;                                                                      \
        return end_packing(&call, PMPI_##NAME(__VA_ARGS__));                                                     \
    }
#define UNPACK(NAME, COUNT, SIZE, FIRST, LAST, ...)                                                               \
    SV_DROP_EXPORT int MPI_##NAME(FIRST const void *inbuf, SIZE insize, SIZE *position, void *outbuf,             \
                                  COUNT outcount, MPI_Datatype type LAST)                                         \
    {                                                                                                             \
        sv_drop_call_t call = {.name = "MPI_" #NAME};                                                             \
        const sv_drop_list_t list = {.n = 1, .count = outcount, .type = type};                                    \
        const void *elements = outbuf;                                                                            \
        stage_packing(&call, &elements, sv_drop_is_host_typed(outbuf, outcount, type), &list, &inbuf, insize,     \
                      false);                                                                                     \
        outbuf = (void *)(uintptr_t)elements;                                                                     \
        return end_packing(&call, PMPI_##NAME(__VA_ARGS__));                                                      \
    }
#define NOTHING
#define OF_COMM COMMA MPI_Comm comm
#define OF_FORM const char datarep[] COMMA

PACK(Pack, int, int, NOTHING, OF_COMM, inbuf, incount, type, outbuf, outsize, position, comm)
UNPACK(Unpack, int, int, NOTHING, OF_COMM, inbuf, insize, position, outbuf, outcount, type, comm)
PACK(Pack_external, int, MPI_Aint, OF_FORM, NOTHING, datarep, inbuf, incount, type, outbuf, outsize, position)
UNPACK(Unpack_external, int, MPI_Aint, OF_FORM, NOTHING, datarep, inbuf, insize, position, outbuf, outcount, type)

#if MPI_VERSION >= 4
PACK(Pack_c, MPI_Count, MPI_Count, NOTHING, OF_COMM, inbuf, incount, type, outbuf, outsize, position, comm)
UNPACK(Unpack_c, MPI_Count, MPI_Count, NOTHING, OF_COMM, inbuf, insize, position, outbuf, outcount, type, comm)
PACK(Pack_external_c, MPI_Count, MPI_Count, OF_FORM, NOTHING, datarep, inbuf, incount, type, outbuf, outsize, position)
UNPACK(Unpack_external_c, MPI_Count, MPI_Count, OF_FORM, NOTHING, datarep, inbuf, insize, position, outbuf, outcount,
       type)
#endif

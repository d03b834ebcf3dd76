/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that pack and unpack. Both the elements and the stream may be the device's, and MPI then gets images of them.
 * The image of a stream has only the part that the call reads or writes, from its position on. The rest may be another
 * thread's or a kernel's at the same time. Any thread. Nothing outlives a call.
 */
#include "interpose/drop.h"

/* The memory that MPI gets for the part of a stream that a call may need and that is there. *bytes: the bytes that are
   needed, and then those of that part. */
static void *part_of_stream(sv_drop_call_t *call, const void *stream, int64_t position, int64_t all, int64_t *bytes,
                            bool packs)
{
    static char none[1];
    const int64_t left = position < 0 || position > all ? 0 : all - position;
    *bytes = *bytes < left ? *bytes : left;
    const sv_drop_list_t list = {.n = 1, .count = *bytes, .type = MPI_BYTE};
    return *bytes > 0 ? sv_drop_blocks(call, (const char *)stream + position, true, &list, !packs, packs) : none;
}

/* moved is how many bytes of a device's stream the call has moved; -1: the stream is the host's. */
static void end_packing(sv_drop_call_t *call, int code, int64_t moved, bool packs)
{
    if (moved >= 0 && packs && call->nbuffers > 0)
        call->buffer[call->nbuffers - 1].one.count = moved;
    if (code == MPI_SUCCESS && call->nbuffers > 0)
        sv_drop_unstage_call(call, NULL);
    sv_drop_call_end(call);
}

/* BUF, ITS_COUNT: the elements. STREAM, ITS_SIZE: where they are or will be packed. */
#define BODY(NAME, SIZE, BUF, ITS_COUNT, STREAM, ITS_SIZE, PACKS, SIZE_CALL, ...)                                \
    sv_drop_call_t call = {.name = "MPI_" #NAME};                                                                \
    const sv_drop_list_t list = {.n = 1, .count = ITS_COUNT, .type = type};                                      \
    const bool elements_host = sv_drop_is_host_typed(BUF, ITS_COUNT, type), stream_host = sv_drop_is_host(STREAM); \
    SIZE moved = 0, bytes = 0, *at = position;                                                                   \
    if (!stream_host && !sv_drop_type_is_committed(type)) /* Open MPI's sizes would be those of no type */       \
        return PMPI_##NAME(__VA_ARGS__);                                                                         \
    int code = stream_host ? MPI_SUCCESS : SIZE_CALL;                                                            \
    if (code != MPI_SUCCESS || (elements_host && stream_host))                                                   \
        return code != MPI_SUCCESS ? code : PMPI_##NAME(__VA_ARGS__);                                            \
    if (!elements_host)                                                                                          \
        BUF = sv_drop_blocks(&call, BUF, true, &list, PACKS, !(PACKS));                                          \
    if (call.refused)                                                                                            \
        type = MPI_DATATYPE_NULL; /* MPI refuses that, too */                                                    \
    if (!stream_host) {                                                                                          \
        int64_t there = bytes;                                                                                   \
        STREAM = part_of_stream(&call, STREAM, *position, ITS_SIZE, &there, PACKS);                              \
        ITS_SIZE = (SIZE)there;                                                                                  \
        at = &moved;                                                                                             \
    }                                                                                                            \
    sv_drop_stage(&call);                                                                                        \
    code = PMPI_##NAME(__VA_ARGS__);                                                                             \
    end_packing(&call, code, stream_host ? -1 : (int64_t)moved, PACKS);                                          \
    if (code == MPI_SUCCESS && !stream_host)                                                                     \
        *position += moved;                                                                                      \
    return code;

#define COMMA ,
#define PACK(NAME, COUNT, SIZE, FIRST, LAST, SIZE_CALL, ...)                                                     \
    SV_DROP_EXPORT int MPI_##NAME(FIRST const void *inbuf, COUNT incount, MPI_Datatype type, void *outbuf,       \
                                  SIZE outsize, SIZE *position LAST)                                             \
    {                                                                                                            \
        BODY(NAME, SIZE, inbuf, incount, outbuf, outsize, true, SIZE_CALL, __VA_ARGS__)                          \
    }
#define UNPACK(NAME, COUNT, SIZE, FIRST, LAST, SIZE_CALL, ...)                                                   \
    SV_DROP_EXPORT int MPI_##NAME(FIRST const void *inbuf, SIZE insize, SIZE *position, void *outbuf,            \
                                  COUNT outcount, MPI_Datatype type LAST)                                        \
    {                                                                                                            \
        BODY(NAME, SIZE, outbuf, outcount, inbuf, insize, false, SIZE_CALL, __VA_ARGS__)                         \
    }
#define NOTHING
#define OF_COMM COMMA MPI_Comm comm
#define OF_FORM const char datarep[] COMMA

PACK(Pack, int, int, NOTHING, OF_COMM, PMPI_Pack_size(incount, type, comm, &bytes), inbuf, incount, type, outbuf,
     outsize, at, comm)
UNPACK(Unpack, int, int, NOTHING, OF_COMM, PMPI_Pack_size(outcount, type, comm, &bytes), inbuf, insize, at, outbuf,
       outcount, type, comm)
PACK(Pack_external, int, MPI_Aint, OF_FORM, NOTHING, PMPI_Pack_external_size(datarep, incount, type, &bytes), datarep,
     inbuf, incount, type, outbuf, outsize, at)
UNPACK(Unpack_external, int, MPI_Aint, OF_FORM, NOTHING, PMPI_Pack_external_size(datarep, outcount, type, &bytes),
       datarep, inbuf, insize, at, outbuf, outcount, type)

#if MPI_VERSION >= 4
PACK(Pack_c, MPI_Count, MPI_Count, NOTHING, OF_COMM, PMPI_Pack_size_c(incount, type, comm, &bytes), inbuf, incount,
     type, outbuf, outsize, at, comm)
UNPACK(Unpack_c, MPI_Count, MPI_Count, NOTHING, OF_COMM, PMPI_Pack_size_c(outcount, type, comm, &bytes), inbuf, insize,
       at, outbuf, outcount, type, comm)
PACK(Pack_external_c, MPI_Count, MPI_Count, OF_FORM, NOTHING,
     PMPI_Pack_external_size_c(datarep, incount, type, &bytes), datarep, inbuf, incount, type, outbuf, outsize, at)
UNPACK(Unpack_external_c, MPI_Count, MPI_Count, OF_FORM, NOTHING,
       PMPI_Pack_external_size_c(datarep, outcount, type, &bytes), datarep, inbuf, insize, at, outbuf, outcount, type)
#endif

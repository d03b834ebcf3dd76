/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages with large counts (MPI 4). With host memory they are MPI's own. With device memory they are calls with
 * ordinary counts. These are of the type itself if the count fits into an int, else of a type that has count elements.
 * Any thread. The type lives for the call, and MPI keeps it for what is in flight.
 */
#include "interpose/drop.h"

#if MPI_VERSION >= 4

/* MPI keeps the type for messages in flight. */
static int end_narrow(sv_drop_narrow_t *n, int code)
{
    sv_drop_narrow_end(n);
    return code;
}

static int end_both_narrow(sv_drop_narrow_t *a, sv_drop_narrow_t *b, int code)
{
    return end_narrow(a, end_narrow(b, code));
}

/* A count or type that MPI is to say something about. */
static bool is_refused(MPI_Count count, MPI_Datatype type, sv_drop_narrow_t *narrow)
{
    return count < 0 || sv_drop_narrow(count, type, narrow) != MPI_SUCCESS;
}

/* Calls of one buffer: parameters after the type, and their names. */
#define ONE(NAME, BUF, PARAMETERS, ...)                                                                                \
    SV_DROP_EXPORT int MPI_##NAME##_c(BUF *buf, MPI_Count count, MPI_Datatype type, PARAMETERS)                        \
    {                                                                                                                  \
        sv_drop_narrow_t n;                                                                                            \
        if ((sv_drop_is_host_typed(buf, count, type) && !sv_drop_fast_wanted) || is_refused(count, type, &n)) {        \
            sv_drop_flush();                                                                                           \
            return PMPI_##NAME##_c(buf, count, type, __VA_ARGS__);                                                     \
        }                                                                                                              \
        return end_narrow(&n, MPI_##NAME(buf, n.count, n.type, __VA_ARGS__));                                          \
    }
#define COMMA ,
#define ENVELOPE(PEER) int PEER COMMA int tag COMMA MPI_Comm comm
#define SEND(NAME) ONE(NAME, const void, ENVELOPE(dest), dest, tag, comm)
#define ISEND(NAME) ONE(NAME, const void, ENVELOPE(dest) COMMA MPI_Request *request, dest, tag, comm, request)

SEND(Send)
SEND(Ssend)
SEND(Bsend)
SEND(Rsend)
ISEND(Isend)
ISEND(Issend)
ISEND(Ibsend)
ISEND(Irsend)
ISEND(Send_init)
ISEND(Ssend_init)
ISEND(Bsend_init)
ISEND(Rsend_init)
ONE(Recv, void, ENVELOPE(source) COMMA MPI_Status *status, source, tag, comm, status)
ONE(Irecv, void, ENVELOPE(source) COMMA MPI_Request *request, source, tag, comm, request)
ONE(Recv_init, void, ENVELOPE(source) COMMA MPI_Request *request, source, tag, comm, request)
ONE(Mrecv, void, MPI_Message *message COMMA MPI_Status *status, message, status)
ONE(Imrecv, void, MPI_Message *message COMMA MPI_Request *request, message, request)
ONE(Sendrecv_replace, void, int dest COMMA int sendtag COMMA int source COMMA int recvtag COMMA MPI_Comm comm COMMA
    MPI_Status *status, dest, sendtag, source, recvtag, comm, status)
ONE(Isendrecv_replace, void, int dest COMMA int sendtag COMMA int source COMMA int recvtag COMMA MPI_Comm comm COMMA
    MPI_Request *request, dest, sendtag, source, recvtag, comm, request)

SV_DROP_EXPORT int MPI_Sendrecv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                                  int sendtag, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                  int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    sv_drop_narrow_t out = {0}, in = {0};
    if (is_refused(sendcount, sendtype, &out) || is_refused(recvcount, recvtype, &in))
        return end_both_narrow(&out, &in,
                               PMPI_Sendrecv_c(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                               recvtype, source, recvtag, comm, status));
    return end_both_narrow(&out, &in,
                           MPI_Sendrecv(sendbuf, out.count, out.type, dest, sendtag, recvbuf, in.count, in.type, source,
                                        recvtag, comm, status));
}

SV_DROP_EXPORT int MPI_Isendrecv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                                   int sendtag, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                   int source, int recvtag, MPI_Comm comm, MPI_Request *request)
{
    sv_drop_narrow_t out = {0}, in = {0};
    if (is_refused(sendcount, sendtype, &out) || is_refused(recvcount, recvtype, &in))
        return end_both_narrow(&out, &in,
                               PMPI_Isendrecv_c(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                                recvtype, source, recvtag, comm, request));
    return end_both_narrow(&out, &in,
                           MPI_Isendrecv(sendbuf, out.count, out.type, dest, sendtag, recvbuf, in.count, in.type,
                                         source, recvtag, comm, request));
}

#else

/* A translation unit must not be empty. */
typedef int sv_drop_no_large_counts_t;

#endif

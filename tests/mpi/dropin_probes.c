/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of dropin_unmodified for what probes take, for what is like an announcement, and for receives given up. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixtures/check.h"
#include "dropin_unmodified.h"

enum { LETTER_BYTES = 251, NOTICE_BYTES = 48, NONCE_BYTES = 16, LONG_BYTES = 1 << 20 };

/* What a probe has taken from a communicator that is freed then does not come to the next one. */
static void reuse_communicator(void)
{
    for (int turn = 0; turn < 4; turn++) {
        uint8_t out[LETTER_BYTES], in[LETTER_BYTES] = {0};
        MPI_Comm comm;
        MPI_Request request;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        memset(out, turn + 1, sizeof out);
        MPI_Isend(out, sizeof out, MPI_BYTE, the.right, 7, comm, &request);
        MPI_Probe(the.left, 7, comm, MPI_STATUS_IGNORE);
        if (turn % 2 == 1) {
            MPI_Recv(in, sizeof in, MPI_BYTE, the.left, 7, comm, MPI_STATUS_IGNORE);
            CHECK_EQ(in[9], turn + 1);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_free(&comm);
    }
}

/* A synchronous send is complete when its message is received, not when it is looked at. */
static void probe_synchronous(void)
{
    MPI_Request request;
    char word = 0;
    int done = 0;
    if (the.rank == 0) {
        MPI_Issend(the.out, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Recv(&word, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 1000 && !done; i++)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        CHECK_EQ(done, 0);
        MPI_Send(&word, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(the.in, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void flip_bits(uint8_t *text, int bits)
{
    for (int i = 0; i < bits; i++)
        text[i * 4 / 8] ^= (uint8_t)(1 << i * 4 % 8);
}

static int receive_back(const void *text, int bytes, uint8_t *in)
{
    int code = MPI_SUCCESS;
    if (the.rank == 1)
        MPI_Send(text, bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD);
    else
        code = MPI_Recv(in, BYTES, MPI_BYTE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return code;
}

/* Rank 1 takes an announcement past the drop-in and sends back what is like it: a little, which is data, and much. */
static void send_alike(void)
{
    uint8_t letter[BYTES] = {0}, like[LETTER_BYTES], in[BYTES];
    int count = 0;
    MPI_Status status;
    if (the.rank == 0)
        MPI_Send(the.out, BYTES, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
    else
        PMPI_Recv(letter, BYTES, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &status);
    if (the.rank == 1)
        MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQ(count, the.rank == 1 ? LETTER_BYTES : 0);
    memcpy(like, letter, sizeof like);
    flip_bits(like, 28);
    CHECK_EQ(receive_back(like, 40, in), MPI_SUCCESS);
    memcpy(like, letter, sizeof like);
    for (int at = 0; at + NONCE_BYTES <= LETTER_BYTES; at += NOTICE_BYTES)
        flip_bits(like + at, 20);
    CHECK((receive_back(like, sizeof like, in) == MPI_SUCCESS) == (the.rank == 1));
    memset(like, 0x5a, sizeof like);
    memcpy(like + NOTICE_BYTES, letter, NONCE_BYTES);
    like[NOTICE_BYTES] ^= 7;
    CHECK((receive_back(like, sizeof like, in) == MPI_SUCCESS) == (the.rank == 1));
}

/* A receive ends past the drop-in, its memory goes, and a short one gets its handle. */
static void pass_by(void)
{
    char *host = mmap(NULL, LONG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char out[200] = {3}, in[200] = {0};
    MPI_Request request, sent;
    MPI_Irecv(host, LONG_BYTES, MPI_BYTE, the.left, 8, MPI_COMM_WORLD, &request);
    MPI_Send(out, sizeof out, MPI_BYTE, the.right, 8, MPI_COMM_WORLD);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
    munmap(host, LONG_BYTES);
    MPI_Irecv(in, sizeof in, MPI_BYTE, the.left, 8, MPI_COMM_WORLD, &request);
    MPI_Isend(out, sizeof out, MPI_BYTE, the.right, 8, MPI_COMM_WORLD, &sent);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    PMPI_Wait(&sent, MPI_STATUS_IGNORE);
    CHECK_EQ(in[0], 3);
}

void run_looks(void)
{
    CHECK_EQ(the.ranks, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    open_fast_route();
    pass_by();
    reuse_communicator();
    probe_synchronous();
    send_alike();
}

/* Receives that are freed while their messages are still to be sent, after one rank has come to MPI_Finalize. */
void run_orphans(void)
{
    static uint8_t host[2][LONG_BYTES];
    MPI_Request request;
    open_fast_route();
    if (the.rank == 0) {
        usleep(300000);
        MPI_Send(host[0], LONG_BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Send(host[1], LONG_BYTES, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    } else if (the.rank == 1) {
        void *memory = device_bytes(LONG_BYTES);
        MPI_Irecv(host[0], LONG_BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        MPI_Irecv(memory, LONG_BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
}

/* A kernel that nobody may wait for is at work: what is sent then needs none of Selvage's. */
void run_stuck(void)
{
    MPI_Request request;
    void *stream = NULL;
    open_fast_route();
    CHECK_STATUS(selvage_stream_create(the.device, &stream), SELVAGE_SUCCESS);
    selvage_device_delay_us(the.device, 2e6, stream);
    MPI_Isend(the.out, BYTES, MPI_BYTE, the.right, 1, MPI_COMM_WORLD, &request);
    MPI_Recv(the.in, BYTES, MPI_BYTE, the.left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    selvage_stream_synchronize(the.device, stream);
    selvage_stream_destroy(the.device, stream);
}

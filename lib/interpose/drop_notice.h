/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of announcements (drop_notice.c). */
#ifndef SV_DROP_NOTICE_H
#define SV_DROP_NOTICE_H

#include "interpose/drop.h"

/* What an announcement says. */
typedef struct sv_drop_notice {
    uint64_t nonce[2], bytes;
    int32_t source, id; /* rank of MPI_COMM_WORLD; number of the message among those that this rank announces */
    int32_t tag;        /* of the program's message */
    int32_t fragment_bytes; /* the bytes follow in fragments of so many (drop_fragment.c); 0: by Selvage's message */
    uint64_t check;     /* of all that stands before it */
} sv_drop_notice_t;

typedef enum sv_drop_reading { SV_DROP_NO_NOTICE, SV_DROP_A_NOTICE, SV_DROP_A_DAMAGED_NOTICE } sv_drop_reading_t;

/* A new announcement of a message from this rank, the caller's to free: SV_DROP_ANNOUNCE_BYTES of text. */
void *sv_drop_notice_make(int64_t bytes, int32_t id, int tag, int32_t fragment_bytes);
/* Reads the first bytes of a text, as many as have come. */
sv_drop_reading_t sv_drop_notice_read(const char *text, size_t bytes, sv_drop_notice_t *notice_out);

#endif

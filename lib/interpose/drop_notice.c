/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of announcements, and how one that has come is told from data. An announcement is copies of one notice, as
 * many as there is room for, and then the beginning of one more. So one good copy is enough, whatever part of the
 * announcement comes damaged. A text that resembles the job's nonce and holds no good copy is a damaged announcement:
 * an error and never data. is_damaged_announcement() says how much it must resemble the nonce.
 *
 * Any thread; nothing is kept.
 */
#include "interpose/drop_notice.h"
#include "interpose/drop_route.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = SV_DROP_ANNOUNCE_BYTES / sizeof(sv_drop_notice_t) };
_Static_assert(COPIES >= 3, "an announcement has room for copies");

/* A chain of multiplications (the mixing step of MurmurHash3's 64-bit finalizer): each field changes all bits. */
static uint64_t check_notice(const sv_drop_notice_t *notice)
{
    const uint64_t words[] = {notice->nonce[0], notice->nonce[1], notice->bytes,
                              (uint64_t)(uint32_t)notice->source << 32 | (uint32_t)notice->id,
                              (uint64_t)(uint32_t)notice->tag << 32 | (uint32_t)notice->fragment_bytes};
    uint64_t sum = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        sum = (sum ^ words[i]) * UINT64_C(0xff51afd7ed558ccd);
        sum = (sum ^ sum >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
        sum ^= sum >> 29;
    }
    return sum;
}

void *sv_drop_notice_make(int64_t bytes, int32_t id, int tag, int32_t fragment_bytes)
{
    sv_drop_notice_t notice = {.nonce = {sv_drop_route.nonce[0], sv_drop_route.nonce[1]}, .bytes = (uint64_t)bytes,
                               .source = sv_drop_rank(MPI_COMM_WORLD), .id = id, .tag = tag,
                               .fragment_bytes = fragment_bytes};
    notice.check = check_notice(&notice);
    char *text = malloc(SV_DROP_ANNOUNCE_BYTES);
    if (!text)
        sv_drop_fatal("no memory", "for an announcement");
    for (size_t at = 0; at < SV_DROP_ANNOUNCE_BYTES; at += sizeof notice) {
        const size_t left = SV_DROP_ANNOUNCE_BYTES - at;
        memcpy(text + at, &notice, left < sizeof notice ? left : sizeof notice);
    }
    return text;
}

/*
 * Whether a text without a good copy is an announcement all the same. Either one of its nonces is nearly right, or all
 * together are far too right for chance. Random data pass this test once in 10^25 messages, or once in 10^18 if they
 * have room for two nonces only.
 */
static bool is_damaged_announcement(const char *text, size_t bytes)
{
    enum { ONE_OFF = 8, NONCE_BITS = 128, ALL_OFF_PERCENT = 22 };
    int nonces = 0, off = 0;
    bool one_is_near = false;
    for (size_t at = 0; at + sizeof sv_drop_route.nonce <= bytes; at += sizeof(sv_drop_notice_t), nonces++) {
        uint64_t nonce[2];
        memcpy(nonce, text + at, sizeof nonce);
        const int bits = __builtin_popcountll(nonce[0] ^ sv_drop_route.nonce[0]) +
                         __builtin_popcountll(nonce[1] ^ sv_drop_route.nonce[1]);
        one_is_near = one_is_near || bits <= ONE_OFF;
        off += bits;
    }
    return one_is_near || (nonces > 1 && off * 100 <= nonces * NONCE_BITS * ALL_OFF_PERCENT);
}

sv_drop_reading_t sv_drop_notice_read(const char *text, size_t bytes, sv_drop_notice_t *notice_out)
{
    if (bytes > SV_DROP_ANNOUNCE_BYTES)
        return SV_DROP_NO_NOTICE;
    for (size_t at = 0; at + sizeof(sv_drop_notice_t) <= bytes; at += sizeof(sv_drop_notice_t)) {
        sv_drop_notice_t notice;
        memcpy(&notice, text + at, sizeof notice);
        if (memcmp(notice.nonce, sv_drop_route.nonce, sizeof notice.nonce) == 0 &&
            notice.check == check_notice(&notice)) {
            *notice_out = notice;
            return SV_DROP_A_NOTICE;
        }
    }
    return is_damaged_announcement(text, bytes) ? SV_DROP_A_DAMAGED_NOTICE : SV_DROP_NO_NOTICE;
}

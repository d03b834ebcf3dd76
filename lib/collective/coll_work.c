/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This file makes pieces of work from calls. A piece must come out the same on all ranks but for addresses: algorithm,
 * protocol and channels are a pure function of what ranks have in common, and the sequence counts what all of them
 * call. The application's one thread calls it; callers own the pieces.
 */
#include <string.h>

#include "base/base_log.h"
#include "base/base_thread.h"
#include "collective/coll_cache.h"
#include "collective/coll_names.h"
#include "collective/coll_parts.h"

static void log_choice(const sv_coll_work_t *work, const sv_coll_choice_t *choice)
{
    if (sv_thread_binding()->log_level < SV_LOG_INFO)
        return;
    sv_log(SV_LOG_INFO, "collective", "call %u: %s of %llu %s: %s%s, %s, channels %u to %u: %s", work->sequence,
           sv_coll_call_name(work->call), (unsigned long long)work->count, selvage_type_name(work->type),
           sv_coll_algo_name(work->algo), choice->pieces_log2 == SV_COLL_NOT_PUSHED ? "" : " (pushed)",
           sv_coll_proto_name(work->proto), work->channel, work->channel + work->nchannels - 1U, choice->why);
}

/* number: of a collective call. Messages use UINT32_MAX for all: they are told apart by the steps of their connection,
   and their two ends may have made other calls between. */
static uint64_t digest_key(const selvage_coll_t *coll, uint32_t number)
{
    return sv_digest_mix(coll->comm->nonce ^ ((uint64_t)coll->number << 32 | number));
}

static uint8_t digest_flag(const selvage_coll_t *coll)
{
    return coll->facts.config->coll_checksum ? SV_COLL_DIGEST : 0;
}

/* Which exact sum it is. Partner: read_exact(). */
static void sign_as_exact(const sv_coll_whole_t *whole, sv_coll_work_t *work)
{
    const unsigned op = whole->op & ~(unsigned)SV_COLL_SIGNED_EXACT;
    const unsigned which = op == SV_COLL_SIGNED_AVERAGE ? 1 : op == SV_COLL_SIGNED_PREMUL ? 2 : 0;
    work->call = whole->call;
    work->type = (uint8_t)(which << 1 | (whole->type == SV_COLL_FLOAT64));
    work->op = SV_COLL_SIGNED_PART;
}

/* Type and operation as one number. Partner: read_other(). */
static void sign_as_other(const sv_coll_whole_t *whole, sv_coll_work_t *work)
{
    const unsigned op = whole->op & ~(unsigned)SV_COLL_SIGNED_FOLD;
    const unsigned number = whole->op ? (unsigned)sv_coll_pairing(whole->type, op) : whole->type;
    work->call = whole->call | SV_COLL_CALL_OTHER;
    work->type = number & ((1U << SV_COLL_SIGNED_TYPE_BITS) - 1);
    work->op = (uint8_t)(number >> SV_COLL_SIGNED_TYPE_BITS);
}

/* A call that stands for another one is signed as that: ranks that call something else are told so. */
static void sign_as_whole(const sv_coll_whole_t *whole, sv_coll_work_t *work)
{
    if (whole->op & SV_COLL_SIGNED_EXACT && !(whole->op & SV_COLL_SIGNED_FOLD))
        sign_as_exact(whole, work);
    else
        sign_as_other(whole, work);
    work->root = whole->root < 0 ? 0 : (uint8_t)whole->root;
    work->count = whole->count;
}

void sv_coll_work_of_call(selvage_coll_t *coll, const sv_coll_call_t *call, sv_coll_work_t *work_out)
{
    sv_coll_choice_t choice;
    uint64_t send_bytes, recv_bytes;
    /* 1. Algorithm and protocol: the same on all ranks. */
    sv_coll_select(&coll->facts, call, &choice);
    coll->sequence++;
    *work_out = (sv_coll_work_t){
        .call = call->call, .algo = choice.algo, .proto = choice.proto, .type = call->type, .op = call->op,
        .flags = call->flags | digest_flag(coll), .root = call->root < 0 ? 0 : (uint8_t)call->root,
        .peer = choice.pieces_log2,
        .nchannels = choice.nchannels, .sequence = coll->sequence, .count = call->count, .scalar = call->scalar,
        .key = digest_key(coll, coll->sequence), .chunk_bytes = choice.chunk_bytes, .communicator = coll->number,
    };
    /* 2. Buffers, and their windows for direct algorithms; of nothing there is none. */
    sv_coll_extents(coll, call, &send_bytes, &recv_bytes);
    const bool direct = choice.algo == SV_COLL_DIRECT_ONE || choice.algo == SV_COLL_DIRECT_TWO;
    if (send_bytes > 0) {
        work_out->src = (uintptr_t)call->send;
        work_out->src_window = sv_coll_window_find(coll, call->send, send_bytes);
        if (direct && !work_out->src_window)
            work_out->src_window = sv_coll_cache_find(coll, call->send_id, call->send, send_bytes);
    }
    if (recv_bytes > 0) {
        work_out->dst = (uintptr_t)call->recv;
        work_out->dst_window = sv_coll_window_find(coll, call->recv, recv_bytes);
        if (direct && !work_out->dst_window && call->recv == call->send) /* in place: once in this call */
            work_out->dst_window = work_out->src_window;
        else if (direct && !work_out->dst_window)
            work_out->dst_window = sv_coll_cache_find(coll, call->recv_id, call->recv, recv_bytes);
    }
    /* 3. How direct algorithms divide it among ranks and channels; a root has no shard. */
    const uint64_t unit = SV_COLL_UNIT, bytes = call->count * selvage_type_bytes((selvage_type_t)call->type);
    const bool has_root = call->call == SV_COLL_BROADCAST || call->call == SV_COLL_REDUCE;
    const uint64_t shards = coll->dev.n - (has_root && coll->dev.n > 1 ? 1U : 0U);
    work_out->shard_bytes = ((bytes + shards - 1) / shards + unit - 1) / unit * unit;
    work_out->shard_part_bytes = sv_coll_part_bytes(work_out->shard_bytes, work_out->nchannels);
    work_out->part_bytes = sv_coll_part_bytes(bytes, work_out->nchannels);
    /* 4. The signature that ranks compare names the operation as the user did. */
    sv_coll_work_t as_signed = *work_out;
    as_signed.op = (uint8_t)sv_coll_signed_operation(call);
    if (call->whole.type)
        sign_as_whole(&call->whole, &as_signed);
    work_out->signature = sv_coll_signature(&as_signed, work_out->communicator);
    log_choice(work_out, &choice);
}

/* How a message goes: by what both of its ends know. */
typedef struct schedule {
    sv_coll_choice_t choice;
    uint32_t key;              /* the same for all messages that one piece of work can be about */
} schedule_t;

static void choose_schedule(const selvage_coll_t *coll, const sv_coll_call_t *message, schedule_t *schedule_out)
{
    sv_coll_call_t alike = *message;
    alike.is_send = true;
    alike.root = 0;
    sv_coll_select(&coll->facts, &alike, &schedule_out->choice);
    schedule_out->key = (uint32_t)message->type | (uint32_t)schedule_out->choice.proto << 8 |
                        (uint32_t)schedule_out->choice.nchannels << 16;
}

/* A message that has a channel to itself goes on that of the distance between its ranks. */
static void make_pair(selvage_coll_t *coll, const sv_coll_call_t *send, const sv_coll_call_t *recv,
                      const schedule_t *schedule, sv_coll_work_t *work_out)
{
    const sv_coll_choice_t *choice = &schedule->choice;
    unsigned n = coll->dev.n, me = coll->dev.me;
    unsigned distance = send ? ((unsigned)send->root + n - me) % n : (me + n - (unsigned)recv->root) % n;
    *work_out = (sv_coll_work_t){
        .call = SV_COLL_PAIR, .algo = choice->algo, .proto = choice->proto, .type = send ? send->type : recv->type,
        .root = send ? (uint8_t)send->root : 0xff, .peer = recv ? (uint8_t)recv->root : 0xff,
        .channel = (uint16_t)(choice->nchannels > 1 ? 0 : distance % coll->facts.nchannels),
        .nchannels = choice->nchannels, .flags = digest_flag(coll), .sequence = coll->sequence,
        .key = digest_key(coll, UINT32_MAX),
        .count = send ? send->count : 0, .count_in = recv ? recv->count : 0,
        .src = send ? (uintptr_t)send->send : 0, .dst = recv ? (uintptr_t)recv->recv : 0,
        .chunk_bytes = choice->chunk_bytes, .communicator = coll->number,
    };
    log_choice(work_out, choice);
}

unsigned sv_coll_works_of_round(selvage_coll_t *coll, const sv_coll_call_t *send, const sv_coll_call_t *recv,
                                sv_coll_work_t work_out[2])
{
    schedule_t sent, taken;
    if (send)
        choose_schedule(coll, send, &sent);
    if (recv)
        choose_schedule(coll, recv, &taken);
    if (!send || !recv || sent.key == taken.key) {
        make_pair(coll, send, recv, send ? &sent : &taken, &work_out[0]);
        return 1;
    }
    unsigned first = sent.key < taken.key ? 0 : 1;
    make_pair(coll, send, NULL, &sent, &work_out[first]);
    make_pair(coll, NULL, recv, &taken, &work_out[1 - first]);
    return 2;
}

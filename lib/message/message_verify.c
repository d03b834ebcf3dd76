/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who a message is, and whether its bytes are its own: identities, keys and the digest kernel, which copies in the same
 * pass. Also the order between a request and the stream that its caller named.
 */
#include "base/base_log.h"
#include "message/message_engine.h"

void sv_message_identify(selvage_request_t *request)
{
    const sv_message_engine_t *engine = request->engine;
    const int own = engine->wire->rank;
    request->identity = (sv_record_t){.magic = SV_RECORD_MAGIC,
                                      .version = SV_RECORD_VERSION,
                                      .kind = SV_RECORD_PACKET,
                                      .attempt = (uint8_t)request->attempt,
                                      .epoch = request->number,
                                      .exchange = engine->exchange,
                                      .index = (uint32_t)request->number,
                                      .tag = (uint32_t)request->tag,
                                      .source = (uint32_t)(request->is_send ? own : request->peer),
                                      .destination = (uint32_t)(request->is_send ? request->peer : own),
                                      .bytes = request->bytes};
    request->identity.salt = request->identity.index + UINT64_C(1000) * request->identity.tag;
    request->key = sv_digest_key(&request->identity);
}

/* One that waits is resident as a whole, and what links carry keeps no more of the device busy. */
unsigned sv_message_blocks(const selvage_request_t *request)
{
    const sv_device_t *dev = request->engine->dev;
    const unsigned wanted = sv_kernel_blocks(dev, request->bytes), most = (dev->launch_blocks + 1) / 2;
    return wanted < most ? wanted : most;
}

/* As many as one may have, all streams together: the rest of the device is for what they wait for. */
unsigned sv_message_blocks_most(const sv_message_engine_t *engine)
{
    const unsigned most = (engine->dev->launch_blocks + 1) / 2;
    return most > SV_PRELAUNCH_STREAMS ? most : SV_PRELAUNCH_STREAMS;
}

static void fill_digest(const selvage_request_t *request, sv_digest_arg_t *arg)
{
    arg->bytes = request->bytes;
    arg->key = request->key;
    arg->scratch = request->scratch;
    arg->mode |= sv_message_checks(request->engine) ? 0u : (unsigned)SV_DIGEST_NONE;
    arg->identity = request->identity;
}

/* Far fewer blocks keep a link busy than the memory of the device. */
static selvage_status_t launch_rest(const selvage_request_t *recv, const sv_digest_arg_t *pass, uint64_t landed_bytes,
                                    void *stream)
{
    const unsigned blocks = sv_message_blocks(recv), far = blocks / recv->engine->rest_blocks;
    const sv_rest_arg_t arg = {.pass = *pass, .landed_bytes = landed_bytes, .landed_blocks = blocks - (far ? far : 1)};
    return SV_DEVICE_CALL(recv->engine->dev, launch, &sv_kernel_rest, &arg, sizeof arg, blocks, stream);
}

/* Whether a message in a slot may be read ahead of its word, which record and digest allow. */
static bool message_looks_ahead(const selvage_request_t *request)
{
    const sv_message_engine_t *engine = request->engine;
    return sv_message_checks(engine) && request->bytes <= engine->comm->config.kernel_look_max_bytes;
}

selvage_status_t sv_message_prepare(selvage_request_t *send, const sv_prepare_job_t *job, void *stream)
{
    sv_digest_arg_t arg = {.src = job->src,
                           .dst = job->dst,
                           .record = (uint8_t *)job->record,
                           .copy = (uint8_t *)job->copy,
                           .signal = job->word,
                           .signal_value = job->stamp,
                           .second = job->devslot,
                           .second_value = job->devslot_value,
                           .mode = SV_DIGEST_PREPARE |
                                   (job->devslot && message_looks_ahead(send) ? (unsigned)SV_DIGEST_AHEAD : 0u)};
    fill_digest(send, &arg);
    return sv_message_group_digest(send, &arg, stream);
}

selvage_status_t sv_message_verify(selvage_request_t *recv, const sv_verify_job_t *job, void *stream)
{
    recv->stamp = recv->engine->stamps + 1;
    recv->engine->stamps += 2;
    /* The kernel leaves it so if all is well. The launch puts this before the kernel. */
    recv->line->result = (sv_verify_result_t){.record_ok = 1, .verified = 1};
    sv_digest_arg_t arg = {.src = job->src,
                           .dst = job->dst,
                           .record = (uint8_t *)(uintptr_t)job->record, /* read only */
                           .result = &recv->line->result,
                           .signal = &recv->line->done,
                           .signal_value = recv->stamp,
                           .second = job->outcome,
                           .second_value = job->outcome_value,
                           .await = job->await,
                           .await_before = job->await_before,
                           .await_value = job->await_value,
                           .await_ns = job->wait_ns,
                           .away_value = recv->stamp + 1,
                           .stop = &recv->line->stop,
                           .mode = SV_DIGEST_VERIFY | SV_DIGEST_PRESET | (job->only ? (unsigned)SV_DIGEST_ONLY : 0u) |
                                   (recv->place.on_device ? (unsigned)SV_DIGEST_NEAR : 0u) |
                                   (job->only && message_looks_ahead(recv) ? (unsigned)SV_DIGEST_AHEAD : 0u) |
                                   (job->late ? (unsigned)SV_DIGEST_LATE : 0u)};
    fill_digest(recv, &arg);
    return job->landed_bytes ? launch_rest(recv, &arg, job->landed_bytes, stream)
                             : sv_message_group_digest(recv, &arg, stream);
}

static selvage_status_t report_difference(const selvage_request_t *recv, bool record_ok, uint64_t expected,
                                          uint64_t found)
{
    return sv_error_quiet(SELVAGE_ERR_CHECKSUM, "message %llu of rank %d (tag %d, %llu bytes, attempt %u) does not "
                          "verify: %s; digest %016llx was sent, %016llx is here", (unsigned long long)recv->number,
                          recv->peer, recv->tag, (unsigned long long)recv->bytes, recv->attempt,
                          record_ok ? "its record is right" : "its record is another's", (unsigned long long)expected,
                          (unsigned long long)found);
}

selvage_status_t sv_message_verified(const selvage_request_t *recv)
{
    const sv_verify_result_t *result = &recv->line->result;
    if (result->verified || !sv_message_checks(recv->engine))
        return SELVAGE_SUCCESS;
    return report_difference(recv, result->record_ok, result->expected, result->found);
}

selvage_status_t sv_message_compare(const selvage_request_t *recv, const sv_record_t *record, uint64_t sum)
{
    const uint64_t found = sv_digest_finish(recv->key, sum);
    const sv_record_t *wanted = &recv->identity;
    const bool record_ok = /* all that a record says but attempt and digest */
        record->magic == wanted->magic && record->version == wanted->version && record->kind == wanted->kind &&
        record->epoch == wanted->epoch && record->exchange == wanted->exchange && record->index == wanted->index &&
        record->tag == wanted->tag && record->source == wanted->source && record->destination == wanted->destination &&
        record->bytes == wanted->bytes && record->salt == wanted->salt;
    if (!sv_message_checks(recv->engine) || (record_ok && record->digest == found))
        return SELVAGE_SUCCESS;
    return report_difference(recv, record_ok, record->digest, found);
}

selvage_status_t sv_message_gate(selvage_request_t *request)
{
    if (!request->gated)
        return SELVAGE_SUCCESS;
    SV_TRY(SV_DEVICE_CALL(request->engine->dev, event_query, request->event));
    request->gated = false;
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_record(selvage_request_t *request, void *stream)
{
    sv_device_t *dev = request->engine->dev;
    selvage_status_t idle = SV_DEVICE_CALL(dev, stream_query, stream); /* which costs less than an event */
    request->gated = false;
    if (idle != SELVAGE_IN_PROGRESS)
        return idle;
    if (!request->event)
        SV_TRY(dev->ops->event_create(dev, &request->event));
    SV_TRY(SV_DEVICE_CALL(dev, event_record, request->event, stream));
    request->gated = true;
    return SELVAGE_SUCCESS;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The digest kernels of messages: who a message is, what its kernel sums, copies and compares, and how it is launched.
 * Also the order between a request and the stream that its caller named.
 *
 * Groups: kernels of several messages in one launch, which costs the host more than all else that it does for a
 * message. So while a group is open the kernels for the engine's stream are kept, and its end launches them together.
 * A poll is a group, since it may find many messages. So is what a caller puts between the calls for that.
 *
 *   group begins   digest, digest, ... are kept in the argument of one launch; a full one goes before the next digest
 *   group ends     one launch, or nothing
 *   an offer       its digest is kept until its announcement is out, which then takes no longer than without
 *   a wait         launches what is kept in each of its turns, since it may wait for that
 *   a test         launches what was kept for longer than the calls of a group take
 *
 * What is kept was promised already: an announcement may be out, or a state be entered. So where a launch fails, the
 * request has the error when it is advanced next. A send that offers a get (message_get.c) may be read by its receiver,
 * which nobody can tell, and ends the engine.
 *
 * Kernels that wait: one that is launched before what it verifies is there waits on the device, for some tens of
 * microseconds at most. Those of all messages may have half of the device's blocks at a time. message_prelaunch.c says
 * which receives get one ahead of their message.
 *
 * Under the engine's lock. A request with a kept kernel is in flight: whoever ends it drains the streams, and that
 * launches what is kept before.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_clock.h"
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

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* The requests hear of it. The thread's detail is that of the launch. */
static selvage_status_t report_failed_launch(sv_message_engine_t *engine, selvage_request_t *const *request, uint32_t n,
                                             selvage_status_t status)
{
    bool breaks = false;
    for (uint32_t i = 0; i < n; i++) {
        request[i]->launch_error = status;
        snprintf(request[i]->detail, sizeof request[i]->detail, "%.*s", (int)sizeof request[i]->detail - 1,
                 sv_thread_detail());
        sv_message_wake(request[i]);
        breaks |= request[i]->is_send && request[i]->get.stamp != 0;
    }
    if (breaks)
        sv_message_break(engine, status);
    return breaks ? status : SELVAGE_SUCCESS;
}

selvage_status_t sv_message_group_launch(sv_message_engine_t *engine)
{
    sv_message_group_t *group = &engine->group;
    selvage_request_t *request[SV_DIGESTS_MAX];
    sv_device_t *dev = engine->dev;
    const uint32_t n = group->arg.njobs, nblocks = group->arg.first_block[n];
    if (n == 0)
        return SELVAGE_SUCCESS;
    memcpy(request, group->request, sizeof request);
    const selvage_status_t status =
        n == 1 ? SV_DEVICE_CALL(dev, launch, &sv_kernel_digest, &group->first, sizeof group->first, nblocks,
                                engine->streams.kernel)
               : SV_DEVICE_CALL(dev, launch, &sv_kernel_digests, &group->arg, sizeof group->arg, nblocks,
                                engine->streams.kernel);
    group->arg.njobs = 0; /* an error may lead here again */
    return status == SELVAGE_SUCCESS ? status : report_failed_launch(engine, request, n, status);
}

void sv_message_group_launch_old(sv_message_engine_t *engine)
{
    const uint64_t old_ns = 50000;
    if (engine->group.arg.njobs > 0 && sv_clock_ns() - engine->group.kept_ns >= old_ns)
        (void)sv_message_group_launch(engine);
}

void sv_message_group_begin(sv_message_engine_t *engine)
{
    engine->group.depth++;
}

selvage_status_t sv_message_group_end(sv_message_engine_t *engine)
{
    return --engine->group.depth == 0 ? sv_message_group_launch(engine) : SELVAGE_SUCCESS;
}

void sv_message_group_leave(sv_message_engine_t *engine)
{
    engine->group.depth--;
}

void sv_message_hold(selvage_request_t *request)
{
    request->held = true;
    request->engine->group.nheld++;
    sv_message_group_begin(request->engine);
}

selvage_status_t sv_message_release_held(selvage_request_t *request)
{
    if (!request->held)
        return SELVAGE_SUCCESS;
    request->held = false;
    request->engine->group.nheld--;
    return sv_message_group_end(request->engine);
}

selvage_status_t sv_message_group_digest(selvage_request_t *request, const sv_digest_arg_t *arg, void *stream)
{
    sv_message_engine_t *engine = request->engine;
    sv_message_group_t *group = &engine->group;
    sv_digests_arg_t *all = &group->arg;
    if (group->depth == 0 || arg->await || stream != engine->streams.kernel)
        return SV_DEVICE_CALL(engine->dev, launch, &sv_kernel_digest, arg, sizeof *arg, sv_message_blocks(request),
                              stream);
    /* A full one goes first: this request may not be begun yet, and is to hear of no error but its own call's. */
    if (all->njobs == SV_DIGESTS_MAX)
        SV_TRY(sv_message_group_launch(engine));
    const uint32_t i = all->njobs++;
    all->job[i] = (sv_digest_job_t){.src = arg->src,
                                    .dst = arg->dst,
                                    .bytes = arg->bytes,
                                    .key = arg->key,
                                    .scratch = arg->scratch,
                                    .record = arg->record,
                                    .copy = arg->copy,
                                    .result = arg->result,
                                    .signal = arg->signal,
                                    .signal_value = arg->signal_value,
                                    .second = arg->second,
                                    .second_value = arg->second_value,
                                    .epoch = arg->identity.epoch,
                                    .tag = arg->identity.tag,
                                    .source = arg->identity.source,
                                    .destination = arg->identity.destination,
                                    .mode = (uint16_t)arg->mode,
                                    .attempt = arg->identity.attempt};
    all->exchange = arg->identity.exchange;
    all->first_block[i + 1] = all->first_block[i] + sv_message_blocks(request);
    group->request[i] = request;
    if (i == 0) {
        group->first = *arg;
        group->kept_ns = sv_clock_ns();
    }
    return SELVAGE_SUCCESS;
}

selvage_status_t sv_message_group_error(selvage_request_t *request)
{
    const selvage_status_t status = request->launch_error;
    if (status == SELVAGE_SUCCESS)
        return status;
    request->launch_error = SELVAGE_SUCCESS;
    return sv_error_quiet(status, "%s", request->detail);
}

/* --- what they do ------------------------------------------------------------------------------------------------- */

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

/* --- kernels that wait -------------------------------------------------------------------------------------------- */

unsigned sv_prelaunch_blocks(const sv_message_engine_t *engine)
{
    unsigned blocks = 0;
    for (int i = 0; i <= SV_PRELAUNCH_STREAMS; i++)
        blocks += engine->prelaunch[i].blocks;
    return blocks;
}

bool sv_message_verify_ahead(selvage_request_t *recv, sv_verify_job_t *job, void *stream)
{
    enum { BYTES_IN_NS = 64 }; /* what is longer may take longer */
    sv_message_engine_t *engine = recv->engine;
    const unsigned peer_lane = (unsigned)recv->peer % SV_PRELAUNCH_STREAMS;
    void *const own = engine->streams.prelaunch[peer_lane];
    void *const on = stream == SELVAGE_MESSAGE_NO_STREAM ? own : stream;
    if (recv->early.tried || (recv->expected ? engine->expect_wait_ns : engine->early_wait_ns) == 0)
        return false;
    /* What the lane has with one kernel more. Callers' streams are not told apart: theirs may all run at once. */
    const unsigned lane = on == own ? peer_lane : SV_PRELAUNCH_STREAMS;
    const unsigned blocks = job->late ? 1 : sv_message_blocks(recv); /* that wait */
    const unsigned before = engine->prelaunch[lane].blocks, widest = before > blocks ? before : blocks;
    const unsigned wide = lane == SV_PRELAUNCH_STREAMS ? before + blocks : widest;
    if (sv_prelaunch_blocks(engine) - before + wide > sv_message_blocks_most(engine))
        return false; /* until others are over */
    job->wait_ns = engine->expect_wait_ns + recv->bytes / BYTES_IN_NS;
    recv->early.tried = true;
    if (sv_message_verify(recv, job, on) != SELVAGE_SUCCESS)
        return false; /* whoever needs the device finds that again */
    recv->early.launched = true;
    recv->early.blocks = blocks;
    recv->early.lane = lane;
    recv->early.key = recv->key;
    engine->prelaunch[lane].kernels++;
    engine->prelaunch[lane].blocks = wide;
    return true;
}

void sv_prelaunch_ended(selvage_request_t *recv)
{
    sv_prelaunch_lane_t *lane = &recv->engine->prelaunch[recv->early.lane];
    if (!recv->early.launched)
        return;
    recv->early.launched = false;
    lane->kernels--;
    if (lane->kernels == 0)
        lane->blocks = 0;
    else if (recv->early.lane == SV_PRELAUNCH_STREAMS)
        lane->blocks -= recv->early.blocks;
}

bool sv_prelaunch_has_left(selvage_request_t *recv)
{
    /* Partner: the kernel's last store. */
    if (!recv->early.launched || !sv_word_is(&recv->line->done, recv->stamp + 1))
        return false;
    sv_prelaunch_ended(recv);
    return true;
}

bool sv_prelaunch_is_over(selvage_request_t *recv)
{
    if (recv->early.launched && sv_word_is(&recv->line->done, recv->stamp)) /* partner: as above */
        sv_prelaunch_ended(recv);
    return !recv->early.launched || sv_prelaunch_has_left(recv);
}

void sv_prelaunch_stop(selvage_request_t *recv)
{
    if (recv->early.launched) /* partner: the kernel, which looks now and then */
        __atomic_store_n(&recv->line->stop, recv->stamp, __ATOMIC_RELEASE);
}

/* --- what they found ---------------------------------------------------------------------------------------------- */

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

/* --- the caller's stream ------------------------------------------------------------------------------------------ */

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

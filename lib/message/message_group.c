/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels of several messages in one launch. A launch costs the host more than all else that it does for a message. So
 * while a group is open the digest kernels for the engine's stream are kept, and its end launches them together. A poll
 * is a group, since it may find many messages. So is what a caller puts between the calls for that.
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
 * Under the engine's lock. A request with a kept kernel is in flight: whoever ends it drains the streams, and that
 * launches what is kept before.
 */
#include <stdio.h>
#include <string.h>

#include "base/base_clock.h"
#include "message/message_engine.h"

static void keep_launch(sv_message_group_t *group, selvage_request_t *request, const sv_digest_arg_t *arg)
{
    sv_digests_arg_t *all = &group->arg;
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
}

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
    if (engine->group.depth == 0 || arg->await || stream != engine->streams.kernel)
        return SV_DEVICE_CALL(engine->dev, launch, &sv_kernel_digest, arg, sizeof *arg, sv_message_blocks(request),
                              stream);
    /* A full one goes first: this request may not be begun yet, and is to hear of no error but its own call's. */
    if (engine->group.arg.njobs == SV_DIGESTS_MAX)
        SV_TRY(sv_message_group_launch(engine));
    keep_launch(&engine->group, request, arg);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Digest kernels: of several messages in one launch, and those that wait for what they verify (message_digest.c). What
 * they do for a message is in message_engine.h. Under the engine's lock; the engine has one group.
 */
#ifndef SV_MESSAGE_DIGEST_H
#define SV_MESSAGE_DIGEST_H

#include "base/base_status.h"
#include "kernels/kernels.h"
#include <selvage/message.h>

struct sv_message_engine;

/* The kernels that are kept. */
typedef struct sv_message_group {
    unsigned depth, nheld;   /* groups that are open, one in the other; those of held sends among them */
    sv_digests_arg_t arg;    /* njobs of them */
    sv_digest_arg_t first;   /* the first one, should it be alone */
    uint64_t kept_ns;        /* since when there is one */
    selvage_request_t *request[SV_DIGESTS_MAX];
} sv_message_group_t;

/* Partners of each other; they nest. The outermost end launches. */
void sv_message_group_begin(struct sv_message_engine *engine);
selvage_status_t sv_message_group_end(struct sv_message_engine *engine);
/* Ends one and launches nothing: the caller has that done soon, by sv_message_group_launch(). */
void sv_message_group_leave(struct sv_message_engine *engine);
/* Opens a group for a send that is held, and ends it, once; as sv_message_group_end(). Partners of each other. */
void sv_message_hold(selvage_request_t *request);
selvage_status_t sv_message_release_held(selvage_request_t *request);
/* Launches what is kept, whatever is open; and only what was kept for a while. Returns an error if that has ended the
   engine; all others are for the requests. */
selvage_status_t sv_message_group_launch(struct sv_message_engine *engine);
void sv_message_group_launch_old(struct sv_message_engine *engine);

/* Launches the kernel for a request, or keeps it if a group is open and it is for the engine's stream of kernels. */
selvage_status_t sv_message_group_digest(selvage_request_t *request, const sv_digest_arg_t *arg, void *stream);
/* The error of a kernel that was kept, told once; its detail becomes the thread's. */
selvage_status_t sv_message_group_error(selvage_request_t *request);

/* --- a receive's kernel that waits -------------------------------------------------------------------------------- */

/* Whether it has gone without the message; and whether it is over, without the message or with it. */
bool sv_prelaunch_has_left(selvage_request_t *recv);
bool sv_prelaunch_is_over(selvage_request_t *recv);
/* Tells it to go; and notes that it is over. */
void sv_prelaunch_stop(selvage_request_t *recv);
void sv_prelaunch_ended(selvage_request_t *recv);
/* How many blocks of such kernels may be on the device by now. */
unsigned sv_prelaunch_blocks(const struct sv_message_engine *engine);

#endif

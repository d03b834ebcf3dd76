/* SPDX-License-Identifier: BSD-3-Clause */
/* Strips (drop_strip.c): staging memory of messages that lie side by side in device memory, and do so here, too. */
#ifndef SV_DROP_STRIP_H
#define SV_DROP_STRIP_H

#include "interpose/drop.h"

/* Staging memory for a message of so many bytes at user, which goes down, or comes up, if it begins where one of the
   last messages in that direction ends. The strip has one user more. NULL: it has to have staging memory of its own. */
char *sv_drop_strip_take(bool down, const char *user, size_t bytes, sv_drop_strip_t **strip_out);
/* One user more, and one less. NULL is allowed. */
sv_drop_strip_t *sv_drop_strip_share(sv_drop_strip_t *strip);
void sv_drop_strip_release(sv_drop_strip_t *strip);

/* Whether the last messages that go down have one that ends there, so that one more would share its copy. */
bool sv_drop_strip_continues(const void *user);
/* No message that goes down continues one of those until now. */
void sv_drop_strips_break(void);
/* Closes rows that no message has been added to since it was called last. */
void sv_drop_strips_break_idle(void);
/* The same in both directions; at the end of MPI. */
void sv_drop_strips_end(void);

/* Whether this is device memory for sure: of the allocation of a message that is under way. */
bool sv_drop_strip_knows(const void *ptr);

/* A part of a strip, from its staging memory or to it. Parts that follow each other become one copy, which is enqueued
   when the next one is elsewhere, when the strip is full, or when the flow ends. It is the flow's until then. */
void sv_drop_strip_copy(sv_drop_flow_t *flow, sv_drop_strip_t *strip, const char *host, size_t bytes, bool down);
/* Enqueues what is left of that. */
void sv_drop_strip_copy_rest(sv_drop_flow_t *flow, void *stream);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of several messages (drop_joint.c): for calls that are made of those, and for the engine. */
#ifndef SV_DROP_JOINT_H
#define SV_DROP_JOINT_H

#include "interpose/drop.h"

typedef struct sv_drop_joint sv_drop_joint_t;

/* For so many messages at most. Partner: sv_drop_joint_start(), which takes it over. */
sv_drop_joint_t *sv_drop_joint_begin(int most);
/* A message that has begun with this code. */
void sv_drop_joint_add(sv_drop_joint_t *joint, MPI_Request request, int code);
/* A message that has begun to come as packed bytes, which are to be unpacked at its end. Takes both over. */
void sv_drop_joint_add_packed(sv_drop_joint_t *joint, MPI_Request request, int code, void *packed, int bytes, void *to,
                              int count, MPI_Datatype type);
/* A message of which exactly so many bytes must come, or the call fails. */
void sv_drop_joint_add_exact(sv_drop_joint_t *joint, MPI_Request request, int code, int64_t bytes);
/* A copy that has begun. */
sv_drop_flow_t *sv_drop_joint_flow(sv_drop_joint_t *joint);
/* The program's request, complete when all of that is. comm: whose error handler hears of a failure. */
void sv_drop_joint_start(sv_drop_joint_t *joint, const char *name, int64_t bytes, MPI_Comm comm, MPI_Request *request);

/* What follows when all messages have ended. It is called with the lock, between two walks of the engine. step returns
   whether it is done; else it is called again. end: the call is over, and state is given back. */
typedef struct sv_drop_steps {
    bool (*step)(sv_drop_joint_t *joint, void *state);
    void (*end)(void *state);
} sv_drop_steps_t;
/* Before the start. */
void sv_drop_joint_then(sv_drop_joint_t *joint, const sv_drop_steps_t *steps, void *state);
/* The call's first error, MPI_SUCCESS if there is none; and another one. */
int sv_drop_joint_code(const sv_drop_joint_t *joint);
void sv_drop_joint_fail(sv_drop_joint_t *joint, int code);

/* The communicator goes, on a rank without threads. What is under way on it tells errors to that of MPI_COMM_WORLD. */
void sv_drop_joints_leave(MPI_Comm comm);

/* Looks at the messages of all. The caller has the lock, and is not at the requests of the engine. */
extern _Atomic int sv_drop_joints;
void sv_drop_joints_look(void);
static inline void sv_drop_joints_test(void)
{
    if (__builtin_expect(atomic_load_explicit(&sv_drop_joints, memory_order_relaxed) != 0, 0))
        sv_drop_joints_look();
}

#endif

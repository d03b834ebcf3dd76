/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of collective calls that have one for each block (drop_blocks.c), for drop_pairs.c. */
#ifndef SV_DROP_BLOCKS_H
#define SV_DROP_BLOCKS_H

#include "interpose/drop_joint.h"

/* A block, and the rank that it comes from or goes to. */
typedef struct sv_drop_pair {
    char *at;
    int64_t count;
    MPI_Datatype type;
    int peer, rank, tag; /* peer: of the communicator; rank: of the job */
    bool sends;
    bool own;            /* what this rank has for itself, of a call that has such */
} sv_drop_pair_t;

/* What a rank has for itself. bytes: of what can be copied if it is the device's; 0: it is to be a message. */
typedef struct sv_drop_own_block {
    bool in_place; /* it is there already */
    char *from, *to;
    int64_t bytes;
} sv_drop_own_block_t;

/* A call whose messages begin. */
typedef struct sv_drop_beginning {
    const char *name;
    sv_drop_joint_t *joint;
    bool copied; /* what the rank has for itself */
} sv_drop_beginning_t;

/* Copies what the rank has for itself, on the device. False: it is to be a message. */
bool sv_drop_copy_own_block(const sv_drop_own_block_t *own, sv_drop_joint_t *joint);
/* Begins the message of a block, as a part of what with is: a beginning. */
void sv_drop_pair_begin(void *with, const sv_drop_pair_t *block);

/* What a persistent call does at each start: sv_drop_starts_t has start and end. add: one more message, of no more than
   most, to the recipe that with is. The types are copied. */
typedef struct sv_drop_recipe sv_drop_recipe_t;
sv_drop_recipe_t *sv_drop_recipe_begin(const char *name, const sv_drop_own_block_t *own, int most);
void sv_drop_recipe_add(void *with, const sv_drop_pair_t *block);
int sv_drop_recipe_start(const void *state, int tag, MPI_Comm comm, MPI_Request *request);
void sv_drop_recipe_end(void *state);

#endif

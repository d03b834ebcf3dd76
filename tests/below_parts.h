/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of tests/below_mpi.la share: below_choice.c knows what messages are, chooses which are hit and hurts
 * them; below_mpi.c has MPI's names. One state, one lock, which whoever is said to have it holds.
 */
#ifndef TESTS_BELOW_PARTS_H
#define TESTS_BELOW_PARTS_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>

#include "below_mpi.h"
#include "wire/wire_mpi_private.h"

#pragma GCC visibility push(hidden)

enum { CLASSES_MAX = 64, COMMS_MAX = 256, BUCKETS = 256, PARTS = 2, AGREEMENT = SV_WIRE_MPI_COMMS, LETTER };
enum { LETTER_BYTES = 251 /* of the drop-in's announcements */ };
enum { NOT_OURS = -1, NOTICE_BYTES = 48 /* a copy of what an announcement says */ };

/* A part of a message that can be hurt by itself. */
typedef struct below_part {
    char class[BELOW_NAME_BYTES];
    size_t from, to;
} below_part_t;

typedef struct below_message {
    const void *buf;
    size_t bytes;
    int peer, tag, channel;
    MPI_Comm comm;
} below_message_t;

/* A receive, or a reduction, that is open. */
typedef struct below_open {
    struct below_open *next;
    MPI_Request request;
    below_message_t message;
    bool judged;
    double due_s; /* 0: as soon as it is there */
} below_open_t;

/* What becomes of a message: it itself or another, or nothing, and another one after it. */
typedef struct below_fate {
    const void *buf;
    size_t bytes;
    bool lost, also;
    double late_s;
    below_message_t following;
} below_fate_t;

typedef struct below_state {
    pthread_mutex_t lock;
    unsigned kinds;
    char class[BELOW_NAME_BYTES], phase[BELOW_NAME_BYTES];
    int rank, only_rank;
    double rate, delay_s;
    uint64_t nth, limit, random, seen_out, seen_in, hits;
    char last_class[BELOW_NAME_BYTES];
    struct {
        char name[BELOW_NAME_BYTES];
        uint64_t sent, hits[BELOW_KINDS];
    } class_of[CLASSES_MAX];
    int nclasses;
    struct {
        MPI_Comm comm;
        int channel;
    } comm_of[COMMS_MAX];
    int ncomms, made;
    below_open_t *open[BUCKETS];
    bool holds;
    below_message_t held; /* half a swap; its bytes are ours */
    uintptr_t low, high;  /* where libselvage lies */
} below_state_t;

extern below_state_t below;

/* With the lock: the first call that comes finds out who is who. */
void below_begin(void);
/* With the lock: begins anew with this text. */
void below_arm(const char *text);
/* With the lock: the class of this name. */
int below_find_class(const char *name);
/* With the lock: whether this message is hit, by what (-1: not), and in which part. */
int below_choose(const below_message_t *m, unsigned kinds, uint64_t *seen, below_part_t *part_out);
/* With the lock: what this kind of fault does to bytes. */
void below_damage(uint8_t *bytes, size_t n, int kind);
/* What becomes of a message that is to be sent. */
void below_decide(const below_message_t *m, below_fate_t *fate);
const char *below_kind_name(int kind);

#pragma GCC visibility pop

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast route of messages, in jobs in which every rank has the drop-in: what is sent from device memory announces
 * itself by one letter, a plain MPI message with the program's envelope, so that matching stays MPI's; the bytes follow
 * by Selvage's messages, from device to device.
 *
 *   sender     selvage_message_isend(memory, id)        PMPI_Isend(letter)
 *   receiver   PMPI_Irecv(pinned, or host memory) ... it is a letter: selvage_message_irecv(memory, id) ... done
 *
 * A rank that is to send bytes must get to run: calls that block are driven by tests, and of a collective call that
 * blocks all ranks take the non-blocking form for that. The route is opened by all ranks at once, in a collective call
 * on all of them, once each has been seen to have device memory: the 1st, 2nd, 4th, ... such call asks. The sender
 * alone decides, by size; receives that a letter fits into are looked at from the start, those into host memory if what
 * it announces could fit. One lock (drop_request.c) is held in all of this but what begins a collective call.
 *
 * So it is if the route is ON. If it is AUTO, which it is unless somebody says otherwise, no rank is ever to wait for
 * another's host in a way that MPI does not know: only what a slot in its receiver's device memory has room for now is
 * sent so, which is complete whatever the receiver does, and what its receiver takes from there whatever the sender
 * does. All else is staged, nothing need be driven, and collective calls remain MPI's own. What such a job is not to
 * pay for is left out: receives into host memory are watched only in programs that have loaded a GPU's runtime, and a
 * rank that has begun one unwatched, before it did, keeps the route closed.
 */
#include "interpose/drop.h"

#include <limits.h>
#include <selvage/collective.h>
#include <selvage/comm.h>
#include <selvage/message.h>
#include <stdlib.h>
#include <string.h>

#define LETTER_MAGIC UINT64_C(0x53564c4554544552)

/* Its length is a multiple of that of every basic type: MPICH refuses half an element. */
typedef struct letter {
    uint64_t magic, job, bytes;
    int32_t source, id; /* rank of MPI_COMM_WORLD; tag of Selvage's message */
} letter_t;
_Static_assert(sizeof(letter_t) < SV_DROP_LETTER_BYTES, "a letter has room for what it says");

bool sv_drop_fast_wanted;

static struct {
    _Atomic bool open;
    _Atomic bool refused;
    selvage_comm_t *world;
    uint64_t job;
    unsigned calls;
    int32_t next_id;
    _Atomic bool seen; /* device memory, by this rank */
    _Atomic bool unwatched; /* a receive has begun that a letter must not come to */
    bool drives;       /* ON: ranks may owe each other bytes */
    _Atomic bool answers; /* what this rank has sent, and is done with, may be asked for again */
    bool threads;      /* of the program, all of which may call MPI */
    bool any_threads;  /* of any rank's: ranks may differ */
    int key;           /* of what is_everybody() has found */
    bool *near;        /* by rank of MPI_COMM_WORLD: on this node */
    int64_t slot_bytes; /* of a slot of the neighbours' */
} fast;

static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}

static bool all_agree(bool mine)
{
    int own = mine, all = 0;
    PMPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

void sv_drop_fast_begin(void)
{
    const sv_drop_settings_t *settings = sv_drop_settings();
    int level = MPI_THREAD_SINGLE;
    PMPI_Query_thread(&level);
    fast.threads = level == MPI_THREAD_MULTIPLE;
    fast.drives = settings->fast == SV_DROP_FAST_ON;
    fast.job = hash_of(settings->job);
    sv_drop_fast_wanted = settings->fast != SV_DROP_FAST_OFF && settings->job[0];
    if (!sv_drop_fast_wanted)
        return;
    fast.any_threads = !all_agree(!fast.threads);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &fast.key, NULL);
}

void sv_drop_fast_see(void)
{
    atomic_store_explicit(&fast.seen, true, memory_order_relaxed);
}

bool sv_drop_fast_is_open(void)
{
    return sv_drop_fast_wanted && atomic_load_explicit(&fast.open, memory_order_relaxed);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* As all_agree(), behind messages: another rank may have to ask this one again for what it has sent. */
static bool all_agree_behind(bool mine)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int own = mine, all = 0;
    /* Partner: the acquire in sv_drop_fast_answer(). */
    atomic_store_explicit(&fast.answers, true, memory_order_release);
    int code = PMPI_Iallreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &request);
    code = sv_drop_drive(code, &request, MPI_STATUS_IGNORE);
    atomic_store_explicit(&fast.answers, fast.drives && all, memory_order_release); /* what goes by slots is not kept */
    return code == MPI_SUCCESS && all;
}

void sv_drop_fast_answer(void)
{
    int found;
    /* Partner: the release in all_agree_behind(). */
    if (atomic_load_explicit(&fast.answers, memory_order_acquire))
        (void)selvage_message_iprobe(fast.world, MPI_ANY_SOURCE, MPI_ANY_TAG, &found, NULL); /* any thread may */
}

/* Who is on this node, by rank of MPI_COMM_WORLD; returns how many. */
static int find_node(int *rank_out)
{
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Group own, world;
    PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    const int n = sv_drop_size(node);
    PMPI_Comm_group(node, &own);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < n; i++) {
        PMPI_Group_translate_ranks(own, 1, &i, world, &rank_out[i]);
        fast.near[rank_out[i]] = true;
    }
    PMPI_Group_free(&own);
    PMPI_Group_free(&world);
    PMPI_Comm_free(&node);
    return n;
}

/* Four for each neighbour of the node that has most, in all no more than there is to be; alike on all ranks. */
static int64_t choose_slot_bytes(int node_ranks)
{
    const int64_t least = 64 << 10, all = 256 << 20, set = sv_drop_settings()->slot_bytes;
    int most = node_ranks;
    int64_t bytes = 32 << 20;
    PMPI_Allreduce(&node_ranks, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    while (bytes > least && bytes * 4 * (most - 1) > all)
        bytes /= 2;
    return set ? set : bytes;
}

/* A message to each of the node and from each, a few times: behind those there are slots. */
static bool greet(int n, const int *rank)
{
    enum { ROUNDS = 3, TAG = INT32_MAX };
    int me = 0;
    bool good = true;
    while (rank[me] != sv_drop_rank(MPI_COMM_WORLD))
        me++;
    for (int i = 0; i < ROUNDS * n && good; i++) {
        const int shift = i % n, to = rank[(me + shift) % n], from = rank[(me + n - shift) % n];
        uint64_t out = 0, in;
        if (shift != 0)
            good = selvage_message_sendrecv(fast.world, &out, sizeof out, MPI_BYTE, to, TAG, &in, sizeof in, MPI_BYTE,
                                            from, TAG, SELVAGE_MESSAGE_NO_STREAM, NULL) == SELVAGE_SUCCESS;
    }
    return good;
}

/* Whether this rank has made it; *refused_out: whether any has not. */
static bool make_world(bool *refused_out)
{
    const int size = sv_drop_size(MPI_COMM_WORLD);
    int *rank = calloc((size_t)size, sizeof *rank);
    fast.near = calloc((size_t)size, sizeof *fast.near);
    if (!rank || !fast.near)
        sv_drop_fatal("no memory", "for the fast route");
    const int n = find_node(rank);
    fast.slot_bytes = choose_slot_bytes(n);
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = sv_drop_device(),
                                    .message_slot_bytes = (size_t)fast.slot_bytes};
    const bool made = selvage_comm_create(MPI_COMM_WORLD, &params, &fast.world) == SELVAGE_SUCCESS;
    *refused_out = !all_agree(made) || !all_agree_behind(greet(n, rank));
    free(rank);
    return made;
}

static void open_route(void)
{
    if (!all_agree(atomic_load_explicit(&fast.seen, memory_order_relaxed) &&
                   !atomic_load_explicit(&fast.unwatched, memory_order_relaxed)))
        return;
    bool refused;
    const bool made = make_world(&refused);
    atomic_store_explicit(&fast.refused, refused, memory_order_relaxed);
    if (!refused && all_agree(selvage_coll_supported(fast.world)) &&
        !all_agree(sv_drop_fastcoll_open(fast.world)))
        sv_drop_fastcoll_close();
    if (!refused) {
        sv_drop_report_packets_from(fast.world); /* greetings are not the program's */
        atomic_store_explicit(&fast.open, true, memory_order_relaxed);
    }
    if (refused && made)
        sv_drop_warn("the fast route could not be opened on every rank: everything is staged");
    if (refused) { /* what was made is left to the end: its ranks may no longer hear of each other */
        free(fast.near);
        fast.near = NULL;
    }
}

static bool is_of_world(MPI_Comm comm)
{
    int result = MPI_UNEQUAL;
    return PMPI_Comm_compare(comm, MPI_COMM_WORLD, &result) == MPI_SUCCESS && result != MPI_UNEQUAL;
}

/* Where a program spawns ranks, so many of them may be others. What was found, which takes time, hangs on the
   communicator. */
static bool is_everybody(MPI_Comm comm)
{
    static char yes, no;
    void *found = NULL;
    int has = 0;
    if (comm == MPI_COMM_WORLD)
        return true;
    if (!sv_drop_is_inside(comm) || sv_drop_size(comm) != sv_drop_size(MPI_COMM_WORLD))
        return false;
    PMPI_Comm_get_attr(comm, fast.key, &found, &has);
    if (!has) {
        found = is_of_world(comm) ? &yes : &no;
        PMPI_Comm_set_attr(comm, fast.key, found);
    }
    return found == &yes;
}

bool sv_drop_fast_is_in_order(MPI_Comm comm)
{
    return fast.drives || !fast.any_threads || comm == MPI_COMM_WORLD;
}

bool sv_drop_fast_enter(MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL)
        return false;
    if (!sv_drop_fast_is_open() && !fast.refused && sv_drop_fast_is_in_order(comm) && is_everybody(comm)) {
        fast.calls++;
        if ((fast.calls & (fast.calls - 1)) == 0)
            open_route();
    }
    return fast.drives && sv_drop_fast_is_open();
}

bool sv_drop_fast_agree(MPI_Comm comm, bool mine)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int own = mine, all = 0;
    if (!fast.drives)
        return PMPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all;
    int code = PMPI_Iallreduce(&own, &all, 1, MPI_INT, MPI_MIN, comm, &request);
    return sv_drop_drive(code, &request, MPI_STATUS_IGNORE) == MPI_SUCCESS && all;
}

/* Behind the last message: every rank comes. */
void sv_drop_fast_end(void)
{
    if (sv_drop_fast_wanted)
        PMPI_Comm_free_keyval(&fast.key);
    if (!sv_drop_fast_is_open()) {
        sv_drop_report_packets(NULL);
        return;
    }
    (void)sv_drop_fast_agree(MPI_COMM_WORLD, false);
    atomic_store_explicit(&fast.answers, false, memory_order_relaxed);
    atomic_store_explicit(&fast.open, false, memory_order_relaxed);
    sv_drop_fastcoll_close();
    sv_drop_report_packets(fast.world);
    selvage_comm_destroy(fast.world);
    free(fast.near);
    fast.near = NULL;
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static int world_rank(MPI_Comm comm, int peer)
{
    MPI_Group group, world;
    int found = MPI_UNDEFINED;
    if (comm == MPI_COMM_WORLD)
        return peer;
    if (!sv_drop_is_inside(comm) || PMPI_Comm_group(comm, &group) != MPI_SUCCESS)
        return MPI_UNDEFINED;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, 1, &peer, world, &found);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    return found;
}

static bool is_as_long(int64_t count, MPI_Datatype type, int64_t limit)
{
    MPI_Count bytes;
    return sv_drop_fast_wanted && count > 0 && type != MPI_DATATYPE_NULL &&
           PMPI_Type_size_x(type, &bytes) == MPI_SUCCESS && bytes * count >= limit;
}

bool sv_drop_fast_takes(int64_t count, MPI_Datatype type)
{
    return is_as_long(count, type, sv_drop_settings()->fast_bytes);
}

bool sv_drop_fast_may_send(int64_t count, MPI_Datatype type, int dest, MPI_Comm comm)
{
    MPI_Count bytes = 0;
    int to;
    if (!sv_drop_fast_is_open() || !sv_drop_fast_takes(count, type) || dest < 0 || dest >= sv_drop_size(comm) ||
        (to = world_rank(comm, dest)) == MPI_UNDEFINED)
        return false;
    PMPI_Type_size_x(type, &bytes);
    return fast.drives || (fast.near[to] && bytes * count <= fast.slot_bytes);
}

bool sv_drop_fast_hears(void)
{
    return fast.threads || sv_drop_fast_is_open();
}

/* Whether a letter may come to a receive into host memory before it is complete. */
static bool may_come(void)
{
    if (fast.drives || sv_drop_fast_is_open() || sv_drop_may_have_device())
        return true;
    atomic_store_explicit(&fast.unwatched, true, memory_order_relaxed);
    return false;
}

/* A receive that is too short for what a letter announces must say so, if it is long enough for the letter. */
bool sv_drop_fast_watches(int64_t count, MPI_Datatype type, bool device)
{
    return !fast.refused && is_as_long(count, type, device ? SV_DROP_LETTER_BYTES : sv_drop_settings()->fast_bytes) &&
           (device || may_come());
}

/* The route is one GPU's; memory of another one is staged. Types may lead elsewhere than the address says. */
static bool is_on_route(const void *buf, MPI_Datatype type)
{
    MPI_Count low = 0, extent;
    PMPI_Type_get_true_extent_x(type, &low, &extent);
    return !sv_drop_is_others((const void *)((uintptr_t)buf + (uintptr_t)low));
}

void *sv_drop_fast_send(sv_drop_fast_t *state, const void *buf, int64_t count, MPI_Datatype type, int dest,
                        MPI_Comm comm)
{
    MPI_Count bytes;
    if (!is_on_route(buf, type))
        return NULL;
    const int to = world_rank(comm, dest);
    PMPI_Type_size_x(type, &bytes);
    letter_t letter = {LETTER_MAGIC, fast.job, (uint64_t)(bytes * count), sv_drop_rank(MPI_COMM_WORLD), fast.next_id};
    if ((fast.drives ? selvage_message_isend : selvage_message_ibsend)(
            fast.world, buf, (size_t)count, type, to, fast.next_id, SELVAGE_MESSAGE_NO_STREAM, &state->request) !=
        SELVAGE_SUCCESS)
        return NULL; /* a type that nobody takes apart, or no slot */
    fast.next_id = fast.next_id == INT32_MAX ? 0 : fast.next_id + 1;
    void *copy = calloc(1, SV_DROP_LETTER_BYTES);
    if (!copy)
        sv_drop_fatal("no memory", "for an announcement");
    memcpy(copy, &letter, sizeof letter);
    state->letter = copy;
    return copy;
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

void sv_drop_fast_listen(sv_drop_fast_t *state, void *buf, int64_t count, MPI_Datatype type, MPI_Comm comm, bool device)
{
    sv_drop_type_t info;
    if (!sv_drop_fast_watches(count, type, device) || !sv_drop_type(type, &info))
        return;
    state->buf = buf;
    state->count = count;
    state->type = type;
    state->comm = comm;
    state->listens = true;
    if (!info.named) /* the program may free it as soon as its call returns */
        state->owns_type = PMPI_Type_dup(type, &state->type) == MPI_SUCCESS;
}

/* What a call receives into, if that is not the program's own memory. */
static const sv_drop_region_t *region_of(const sv_drop_call_t *call)
{
    const sv_drop_region_t *region = NULL;
    for (int i = 0; i < call->nregions; i++)
        region = call->region[i].out ? &call->region[i] : region;
    return region;
}

/* The first bytes of what came, wherever MPI has put them. */
static bool read_message(const sv_drop_fast_t *state, const sv_drop_call_t *call, letter_t *letter)
{
    const sv_drop_region_t *region = region_of(call);
    if (region) {
        memcpy(letter, region->host, sizeof *letter);
        return true;
    }
    int bytes = 0, position = 0;
    MPI_Count each = 1;
    PMPI_Type_size_x(state->type, &each);
    const int64_t needed = (SV_DROP_LETTER_BYTES - 1) / each + 1; /* elements: all of them may be too many to pack */
    const int n = (int)(state->count < needed ? state->count : needed);
    PMPI_Pack_size(n, state->type, MPI_COMM_SELF, &bytes);
    char *packed = malloc((size_t)bytes + 1);
    bool read = packed && PMPI_Pack(state->buf, n, state->type, packed, bytes, &position, MPI_COMM_SELF) == MPI_SUCCESS;
    if (read)
        memcpy(letter, packed, sizeof *letter);
    free(packed);
    return read;
}

static bool is_letter(const letter_t *letter)
{
    return letter->magic == LETTER_MAGIC && letter->job == fast.job;
}

/* Another thread may open the route while this one looks, or waits, for a message. */
bool sv_drop_fast_reads(void)
{
    return sv_drop_fast_wanted && !atomic_load_explicit(&fast.refused, memory_order_relaxed) &&
           (fast.threads || fast.world);
}

bool sv_drop_fast_announces(const void *text, uint64_t *bytes_out)
{
    letter_t letter;
    memcpy(&letter, text, sizeof letter);
    if (!is_letter(&letter))
        return false;
    *bytes_out = letter.bytes;
    return true;
}

/* Of a type that nobody takes apart: as the bytes that MPI_Pack would give, unpacked into MPI's place behind that. */
static selvage_status_t receive_packed(sv_drop_fast_t *state, const sv_drop_region_t *region, const letter_t *letter)
{
    MPI_Count each = 0;
    void *to = region->host;
    PMPI_Type_size_x(state->type, &each);
    if (letter->bytes > INT_MAX)
        return SELVAGE_ERR_UNSUPPORTED;
    if (!region->unpacks && !(to = state->packed = malloc((size_t)(each * state->count))))
        sv_drop_fatal("no memory", "for a message of the fast route");
    state->image = sv_drop_address(region);
    state->lands = true;
    return selvage_message_irecv(fast.world, to, (size_t)(each * state->count), MPI_BYTE, letter->source, letter->id,
                                 SELVAGE_MESSAGE_NO_STREAM, &state->request);
}

/* Begins to receive what was announced: where the program wants it or, memory of another GPU than the route's, where
   MPI would have put it. */
static selvage_status_t receive(sv_drop_fast_t *state, const sv_drop_call_t *call, const letter_t *letter)
{
    const sv_drop_region_t *region = region_of(call);
    selvage_status_t status;
    if (region && region->mixed)
        return receive_packed(state, region, letter);
    state->lands = region && !region->unpacks && sv_drop_is_others(region->user + region->low);
    if (!state->lands)
        status = selvage_message_irecv(fast.world, state->buf, (size_t)state->count, state->type, letter->source,
                                       letter->id, SELVAGE_MESSAGE_NO_STREAM, &state->request);
    else
        status = selvage_message_irecv(fast.world, sv_drop_address(region), (size_t)region->count,
                                       region->packed ? region->type : state->type, letter->source, letter->id,
                                       SELVAGE_MESSAGE_NO_STREAM, &state->request);
    return status == SELVAGE_ERR_UNSUPPORTED && region ? receive_packed(state, region, letter) : status;
}

bool sv_drop_fast_hear(sv_drop_fast_t *state, const sv_drop_call_t *call, const MPI_Status *status)
{
    letter_t letter;
    MPI_Count bytes = 0;
    int cancelled = 0;
    if (!state->listens || !fast.world)
        return false;
    PMPI_Test_cancelled(status, &cancelled);
    if (cancelled || PMPI_Get_elements_x((MPI_Status *)(uintptr_t)status, MPI_BYTE, &bytes) != MPI_SUCCESS ||
        bytes != SV_DROP_LETTER_BYTES || !read_message(state, call, &letter) || !is_letter(&letter))
        return false;
    state->bytes = letter.bytes;
    if (receive(state, call, &letter) != SELVAGE_SUCCESS)
        sv_drop_fatal("the fast route failed", selvage_error_detail());
    state->came = true;
    return true;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

bool sv_drop_fast_ended(sv_drop_fast_t *state, int *error)
{
    if (!state->request)
        return true;
    selvage_status_t status = selvage_message_test(&state->request, NULL);
    if (status == SELVAGE_IN_PROGRESS)
        return false;
    if (status == SELVAGE_SUCCESS && state->packed)
        sv_drop_unpack(state->packed, (int64_t)state->bytes, state->image, state->count, state->type);
    free(state->packed);
    state->packed = NULL;
    if (status == SELVAGE_ERR_TRUNCATED)
        *error = MPI_ERR_TRUNCATE;
    else if (status != SELVAGE_SUCCESS)
        *error = MPI_ERR_OTHER;
    if (status != SELVAGE_SUCCESS && state->listens)
        PMPI_Comm_call_errhandler(state->comm, *error);
    return true;
}

bool sv_drop_fast_finish(sv_drop_fast_t *state, sv_drop_call_t *call, MPI_Status *status, int *code)
{
    unsigned turns = 0;
    bool ended;
    if (!state->listens)
        return false;
    sv_drop_lock();
    bool came = sv_drop_fast_hear(state, call, status);
    sv_drop_unlock();
    for (ended = !came; !ended;) {
        sv_drop_turn(&turns);
        sv_drop_lock();
        ended = sv_drop_fast_ended(state, code);
        sv_drop_unlock();
    }
    sv_drop_fast_tell(state, status);
    if (state->lands && *code == MPI_SUCCESS)
        sv_drop_land(call, status);
    return came;
}

void sv_drop_fast_tell(const sv_drop_fast_t *state, MPI_Status *status)
{
    if (state->renames) {
        status->MPI_SOURCE = state->source;
        status->MPI_TAG = state->tag;
    }
    if (state->came)
        PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)state->bytes);
}

void sv_drop_fast_release(sv_drop_fast_t *state)
{
    if (state->owns_type)
        PMPI_Type_free(&state->type);
    int done = 1;
    if (state->renames)
        PMPI_Test(&state->sent, &done, MPI_STATUS_IGNORE);
    if (done) /* else it could not even be received */
        free(state->letter);
    *state = (sv_drop_fast_t){0};
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announcements: how a message on the fast route (drop_fast.c), or one that comes in fragments (drop_fragment.c),
 * announces itself, and what its receiver makes of that. A message is announced only if it is longer than an
 * announcement, and each announcement is used once.
 *
 * The caller has the lock of drop_request.c; not that of sv_drop_fast_isend(), which takes it. A sv_drop_fast_t owns
 * its announcement and its packed bytes until sv_drop_fast_release().
 */
#include "interpose/drop_fragment.h"
#include "interpose/drop_invite.h"
#include "interpose/drop_notice.h"
#include "interpose/drop_raise.h"
#include "interpose/drop_route.h"
#include "interpose/drop_strip.h"

#include <limits.h>
#include <selvage/message.h>
#include <stdlib.h>
#include <string.h>

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* The ranks in MPI_COMM_WORLD of a communicator's ranks are an attribute of it, made at the first question. */
static struct {
    pthread_once_t once;
    int key;
} ranks = {PTHREAD_ONCE_INIT, MPI_KEYVAL_INVALID};

static int free_ranks(MPI_Comm comm, int key, void *found, void *extra)
{
    (void)comm, (void)key, (void)extra;
    free(found);
    return MPI_SUCCESS;
}

static void make_ranks_key(void)
{
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_ranks, &ranks.key, NULL);
}

int sv_drop_world_rank(MPI_Comm comm, int peer)
{
    int *found = NULL, has = 0;
    if (comm == MPI_COMM_WORLD)
        return peer;
    if (!sv_drop_is_inside(comm))
        return MPI_UNDEFINED;
    pthread_once(&ranks.once, make_ranks_key);
    PMPI_Comm_get_attr(comm, ranks.key, &found, &has);
    if (has)
        return found[peer];
    sv_drop_lock(); /* another thread may be translating, too */
    PMPI_Comm_get_attr(comm, ranks.key, &found, &has);
    if (!has) {
        MPI_Group group, world;
        const int size = sv_drop_size(comm);
        int *own = malloc((size_t)size * sizeof *own);
        found = malloc((size_t)size * sizeof *found);
        if (!own || !found || PMPI_Comm_group(comm, &group) != MPI_SUCCESS)
            sv_drop_fatal("no memory", "for the ranks of a communicator");
        for (int i = 0; i < size; i++)
            own[i] = i;
        PMPI_Comm_group(MPI_COMM_WORLD, &world);
        PMPI_Group_translate_ranks(group, size, own, world, found);
        PMPI_Group_free(&group);
        PMPI_Group_free(&world);
        free(own);
        PMPI_Comm_set_attr(comm, ranks.key, found);
    }
    sv_drop_unlock();
    return found[peer];
}

static uint32_t *seen_ids; /* for is_repeated(): ids plus one, by rank of MPI_COMM_WORLD */

void sv_drop_announce_end(void)
{
    if (ranks.key != MPI_KEYVAL_INVALID)
        PMPI_Comm_free_keyval(&ranks.key);
    free(seen_ids);
    seen_ids = NULL;
}

static bool is_as_long(int64_t count, MPI_Datatype type, int64_t limit)
{
    MPI_Count bytes;
    return sv_drop_fast_wanted && count > 0 && type != MPI_DATATYPE_NULL &&
           PMPI_Type_size_x(type, &bytes) == MPI_SUCCESS && bytes * count >= limit;
}

static bool is_long_enough(int64_t count, MPI_Datatype type, int64_t least)
{
    return is_as_long(count, type, least > SV_DROP_ANNOUNCE_BYTES ? least : SV_DROP_ANNOUNCE_BYTES + 1);
}

bool sv_drop_fast_takes(int64_t count, MPI_Datatype type)
{
    return is_long_enough(count, type, sv_drop_settings()->fast_bytes);
}

bool sv_drop_fast_takes_call(int64_t count, MPI_Datatype type)
{
    return is_long_enough(count, type, sv_drop_settings()->coll_bytes);
}

bool sv_drop_fast_may_take(int64_t count, MPI_Datatype type)
{
    return is_long_enough(count, type, sv_drop_settings()->row_bytes);
}

/* Whether the route is faster than two copies. On a GPU that is shared it is from a longer message on, because both its
   kernels wait for the turn of their process and copies do not; with gaps, because of a kernel more at each end. */
static bool is_sooner(int64_t count, MPI_Datatype type, sv_drop_manner_t manner)
{
    const sv_drop_settings_t *settings = sv_drop_settings();
    const int64_t shared_bytes = manner == SV_DROP_IN_ROW ? settings->fast_bytes : settings->shared_bytes;
    int shared = 0;
    if (!is_long_enough(count, type, manner == SV_DROP_ALONE ? settings->fast_bytes : settings->row_bytes) ||
        (!is_long_enough(count, type, settings->fast_bytes) && sv_drop_type_has_gaps(type)))
        return false;
    if (is_long_enough(count, type, shared_bytes) || !sv_drop_device())
        return true;
    return selvage_device_is_shared(sv_drop_device(), &shared) != SELVAGE_SUCCESS || !shared;
}

/* A send that MPI would refuse is not announced, because a slot that has been filled cannot be taken back. */
bool sv_drop_fast_may_send(int64_t count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, sv_drop_manner_t manner)
{
    enum { LONG_BYTES = 1 << 20 };
    int to, prefers = 0;
    if (!is_sooner(count, type, sv_drop_batch_is_row() ? SV_DROP_IN_ROW : manner))
        return false;
    sv_drop_wireup(comm, dest);
    if (!sv_drop_fast_is_open() || tag < 0 || tag > sv_drop_route.tag_most ||
        dest < 0 || dest >= sv_drop_size(comm) || !sv_drop_type_is_committed(type) ||
        (to = sv_drop_world_rank(comm, dest)) == MPI_UNDEFINED)
        return false;
    if (sv_drop_route.drives)
        return true;
    /* A receiver of host memory, as its last message says. By the route that is reached by way of its device, one
       message after the other, and staging is faster for all but long ones. */
    return sv_drop_wireup_is_done(to) &&
           (!sv_drop_settings()->chooses || is_long_enough(count, type, LONG_BYTES) ||
            selvage_message_prefers_host(sv_drop_route.world, to, &prefers) != SELVAGE_SUCCESS || !prefers);
}

bool sv_drop_fast_guards(void)
{
    return sv_drop_fast_wanted && sv_drop_route.threads &&
           !atomic_load_explicit(&sv_drop_route.refused, memory_order_relaxed);
}

bool sv_drop_fast_drives(void)
{
    return sv_drop_route.drives;
}

/* A sender that waits for its receiver must be heard, even if MPI cuts its announcement off. Where no sender waits, MPI
   refuses what so short a receive gets. But what a probe has taken comes on a communicator of the drop-in's, and of an
   error there MPI may tell another error handler than the program's communicator has. */
bool sv_drop_fast_is_short(const sv_drop_fast_t *state, int64_t count, MPI_Datatype type)
{
    MPI_Count bytes;
    const bool must_hear = (state && state->renames) || (sv_drop_route.drives && !sv_drop_route.refused);
    return sv_drop_fast_wanted && must_hear && count >= 0 && type != MPI_DATATYPE_NULL &&
           PMPI_Type_size_x(type, &bytes) == MPI_SUCCESS && bytes * count < SV_DROP_ANNOUNCE_BYTES;
}

/* Images of types that nobody takes apart remain as they are. */
void sv_drop_widen(sv_drop_buffer_t *buffer, const sv_drop_fast_t *state, int64_t count, MPI_Datatype type)
{
    if (!buffer->host || buffer->keeps_gaps || !buffer->out || !sv_drop_fast_is_short(state, count, type))
        return;
    sv_drop_unstage(buffer->image);
    sv_drop_strip_release(buffer->strip);
    buffer->strip = NULL;
    buffer->host = buffer->image = sv_drop_staging(SV_DROP_ANNOUNCE_BYTES);
    buffer->count = SV_DROP_ANNOUNCE_BYTES;
    buffer->type = MPI_PACKED;
    buffer->wide = true;
}

/* Any receive that an announcement fits into is watched: if it is too short for what is announced, it must say so. */
bool sv_drop_fast_watches(int64_t count, MPI_Datatype type, bool device)
{
    if (sv_drop_fast_is_short(NULL, count, type))
        return true;
    if (sv_drop_route.refused || !is_as_long(count, type, SV_DROP_ANNOUNCE_BYTES))
        return false;
    if (device || sv_drop_route.drives || sv_drop_fast_is_open() || sv_drop_may_have_device())
        return true;
    /* A receive into host memory, of a program without device memory. If a right program's message could be announced
       to this receive before it is complete, the route must stay closed meanwhile. */
    if (sv_drop_fast_may_take(count, type) || sv_drop_is_long(count, type))
        atomic_store_explicit(&sv_drop_route.unwatched, true, memory_order_relaxed);
    return false;
}

int32_t sv_drop_take_id(void)
{
    const int32_t id = sv_drop_route.next_id;
    sv_drop_route.next_id = id + 1 == SV_DROP_WIREUP_TAG ? 0 : id + 1;
    return id;
}

/* Whether a message that need not be waited for lies beside the last one, so that one copy is for both. A long row of
   such messages is faster staged than by the route, up to here. */
static bool is_beside_last(sv_drop_manner_t manner, const void *buf, int count, MPI_Datatype type)
{
    enum { BESIDE_MOST = 32 << 10 };
    sv_drop_type_t info;
    return manner != SV_DROP_WAITED && sv_drop_settings()->chooses && sv_drop_type(type, &info) && info.dense &&
           info.bytes * count <= BESIDE_MOST && sv_drop_strip_continues(buf);
}

/* Buffered sends are staged because they are complete at once. Synchronous sends are staged because they are complete
   when a receive has begun, and a probe that reads the announcement is no receive. */
bool sv_drop_fast_isend(const char *name, sv_drop_isend_t isend, sv_drop_manner_t manner, const void *buf, int count,
                        MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request, int *code_out)
{
    MPI_Count bytes = 0, low = 0, extent;
    MPI_Request inner = MPI_REQUEST_NULL;
    sv_drop_fast_t fast = {.comm = comm};
    if (isend == PMPI_Ibsend || isend == PMPI_Issend ||
        !sv_drop_fast_may_send(count, type, dest, tag, comm, manner) || is_beside_last(manner, buf, count, type))
        return false;
    /* The route is one GPU's, and memory of another one is staged. Types may lead elsewhere than the address says. So a
       buffer with host memory in it is staged, too, and refused there if the rest is the device's. */
    PMPI_Type_get_true_extent_x(type, &low, &extent);
    PMPI_Type_size_x(type, &bytes);
    if (sv_drop_type_reaches_host(buf, type) || sv_drop_is_others((const void *)((uintptr_t)buf + (uintptr_t)low)))
        return false;
    const sv_drop_call_t call = {.name = name, .has_peer = true, .peer = dest, .tag = tag, .fast = true,
                                 .bytes = bytes * count, .begin_ns = sv_drop_trace_now()};
    sv_drop_batch_post_staged();
    sv_drop_settle();
    if (sv_drop_is_stuck())
        return false;
    sv_drop_lock();
    /* 1. The bytes, by Selvage. In a row their kernel is kept anyway. */
    const bool holds = !sv_drop_batch_keep_fast() && !sv_drop_route.drives;
    const int to = sv_drop_world_rank(comm, dest);
    const int32_t id = sv_drop_route.next_id;
    const bool sends = (sv_drop_route.drives ? selvage_message_isend
                        : holds              ? selvage_message_ibsend_held
                                             : selvage_message_ibsend)(
                           sv_drop_route.world, buf, (size_t)count, type, to, id, SELVAGE_MESSAGE_NO_STREAM,
                           &fast.request) == SELVAGE_SUCCESS;
    if (sends) { /* else a type that cannot be taken apart, or no slot */
        (void)sv_drop_take_id();
        /* 2. The announcement. The receiver is told first, and launches its kernel meanwhile. So there is no way
           back. */
        fast.announcement = sv_drop_notice_make(bytes * count, id, tag, 0);
        *code_out = isend(fast.announcement, SV_DROP_ANNOUNCE_BYTES, MPI_BYTE, dest, tag, comm, &inner);
        if (holds && selvage_message_launch(fast.request) != SELVAGE_SUCCESS)
            sv_drop_fatal("a message could not be launched", selvage_error_detail());
        /* 3. The program's request. */
        if (*code_out == MPI_SUCCESS) {
            *code_out = sv_drop_request_start(&call, &fast, inner, MPI_REQUEST_NULL, false, request);
        } else {
            selvage_message_free(&fast.request);
            sv_drop_fast_release(&fast);
        }
    }
    sv_drop_unlock();
    return sends;
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

void sv_drop_fast_remember(sv_drop_fast_t *state, void *buf, int64_t count, MPI_Datatype type, MPI_Comm comm)
{
    sv_drop_type_t info;
    state->buf = buf;
    state->count = count;
    state->type = type;
    state->comm = comm;
    if (!sv_drop_type(type, &info) || info.named || !sv_drop_type_is_committed(type))
        return;
    if (sv_drop_type_hold(type, &state->type) != MPI_SUCCESS) /* the program may free it as soon as its call returns */
        sv_drop_fatal("no memory", "for a receive");
    state->owns_type = true;
}

void sv_drop_fast_monitor(sv_drop_fast_t *state, void *buf, int64_t count, MPI_Datatype type, MPI_Comm comm,
                          bool device)
{
    sv_drop_type_t info;
    if (!(sv_drop_fast_watches(count, type, device) || sv_drop_fast_is_short(state, count, type)) ||
        !sv_drop_type(type, &info) || !sv_drop_type_is_committed(type))
        return;
    sv_drop_fast_remember(state, buf, count, type, comm);
    state->monitored = true;
    if (sv_drop_settings()->timeout_ns)
        state->begin_ns = sv_drop_now_ns();
}

/* The staging buffer that a call receives into; NULL: it receives into the program's own memory. */
static const sv_drop_buffer_t *recv_buffer_of(const sv_drop_call_t *call)
{
    const sv_drop_buffer_t *buffer = NULL;
    for (int i = 0; i < call->nbuffers; i++)
        buffer = call->buffer[i].out ? &call->buffer[i] : buffer;
    return buffer;
}

/* The first bytes of what came, wherever MPI has put them, or NULL. text has space for an announcement. */
static const char *find_text(const sv_drop_fast_t *state, const sv_drop_call_t *call, char *text)
{
    const sv_drop_buffer_t *buffer = recv_buffer_of(call);
    sv_drop_type_t info;
    if (buffer && !buffer->keeps_gaps)
        return buffer->host;
    if (!buffer && sv_drop_type(state->type, &info) && info.dense)
        return state->buf;
    /* As many elements as hold an announcement: all of them may be too many to pack. */
    int bytes = 0, position = 0;
    MPI_Count each = 1;
    PMPI_Type_size_x(state->type, &each);
    const int64_t needed = (SV_DROP_ANNOUNCE_BYTES - 1) / each + 1;
    const int n = (int)(state->count < needed ? state->count : needed);
    const void *from = buffer ? sv_drop_address(buffer) : state->buf;
    PMPI_Pack_size(n, state->type, MPI_COMM_SELF, &bytes);
    char *packed = malloc((size_t)bytes + 1);
    const bool is_packed =
        packed && PMPI_Pack(from, n, state->type, packed, bytes, &position, MPI_COMM_SELF) == MPI_SUCCESS;
    if (is_packed)
        memcpy(text, packed, (size_t)position < SV_DROP_ANNOUNCE_BYTES ? (size_t)position : SV_DROP_ANNOUNCE_BYTES);
    free(packed);
    return is_packed ? text : NULL;
}

/* Where the program has threads, another one may open the route while this one looks, or waits, for a message. */
bool sv_drop_fast_reads(void)
{
    return sv_drop_fast_wanted && !atomic_load_explicit(&sv_drop_route.refused, memory_order_relaxed) &&
           (sv_drop_route.threads || sv_drop_fast_is_open());
}

/* A damaged announcement announces its own length: whoever receives it hears of the damage. */
bool sv_drop_fast_announces(const void *text, uint64_t *bytes_out)
{
    sv_drop_notice_t notice;
    const sv_drop_reading_t reading = sv_drop_notice_read(text, SV_DROP_ANNOUNCE_BYTES, &notice);
    *bytes_out = reading == SV_DROP_A_NOTICE ? notice.bytes : SV_DROP_ANNOUNCE_BYTES;
    return reading != SV_DROP_NO_NOTICE;
}

/* A type that cannot be taken apart is received as the bytes that MPI_Pack would give, and unpacked to where MPI would
   have put it. */
static selvage_status_t receive_packed(sv_drop_fast_t *state, const sv_drop_buffer_t *buffer,
                                       const sv_drop_notice_t *notice)
{
    MPI_Count each = 0;
    void *to = buffer->host;
    PMPI_Type_size_x(state->type, &each);
    if (notice->bytes > INT_MAX)
        return SELVAGE_ERR_UNSUPPORTED;
    if (!buffer->unpacks && !(to = state->packed = malloc((size_t)(each * state->count))))
        sv_drop_fatal("no memory", "for a message of the fast route");
    state->image = sv_drop_address(buffer);
    state->unstages = true;
    return selvage_message_irecv(sv_drop_route.world, to, (size_t)(each * state->count), MPI_BYTE, notice->source,
                                 notice->id, SELVAGE_MESSAGE_NO_STREAM, &state->request);
}

static void fail_message(sv_drop_fast_t *state, selvage_status_t status, const char *detail)
{
    state->error = status == SELVAGE_ERR_TRUNCATED ? MPI_ERR_TRUNCATE
                   : status == SELVAGE_ERR_MEMORY  ? MPI_ERR_NO_MEM
                                                   : MPI_ERR_OTHER;
    if (state->error != MPI_ERR_TRUNCATE)
        sv_drop_warn("a message of the fast route failed: %s", detail);
}

/* MPI delivers each announcement of a sender once, so that one that comes again is an error. The last ones of each
   sender are remembered. */
static bool is_repeated(const sv_drop_notice_t *notice)
{
    enum { KEPT = 16 };
    const int size = sv_drop_size(MPI_COMM_WORLD);
    if (notice->source < 0 || notice->source >= size)
        return true;
    if (!seen_ids && !(seen_ids = calloc((size_t)size * KEPT, sizeof *seen_ids)))
        sv_drop_fatal("no memory", "for announcements");
    const uint32_t id = (uint32_t)notice->id + 1;
    uint32_t *const kept = &seen_ids[(size_t)notice->source * KEPT + id % KEPT];
    const bool repeated = *kept == id;
    *kept = id;
    return repeated;
}

bool sv_drop_fast_is_lost(sv_drop_fast_t *state, int source)
{
    int found = 0, queued = 0;
    const int64_t limit = sv_drop_settings()->timeout_ns;
    if (!state->begin_ns || !state->monitored || state->error || !sv_drop_fast_is_open() ||
        sv_drop_now_ns() - state->begin_ns < limit)
        return false;
    const int from = source == MPI_ANY_SOURCE ? MPI_ANY_SOURCE : sv_drop_world_rank(state->comm, source);
    sv_drop_wireup_poll(); /* a wireup message is none of the program's */
    if (from == MPI_UNDEFINED ||
        selvage_message_iprobe(sv_drop_route.world, from, MPI_ANY_TAG, &found, NULL) != SELVAGE_SUCCESS || !found)
        return false;
    if (PMPI_Iprobe(source, MPI_ANY_TAG, state->comm, &queued, MPI_STATUS_IGNORE) != MPI_SUCCESS || queued)
        return false; /* it may be the announcement of that */
    fail_message(state, SELVAGE_ERR_TIMEOUT, "its announcement has not come by the deadline");
    sv_drop_warn("it was to come from rank %d of MPI_COMM_WORLD", from);
    return true;
}

/* Whether a message of the program's fails since it is longer than its receive, for which MPI was given more room: for
   an announcement, or by a guarded type. */
static bool fail_overlong(sv_drop_fast_t *state, const sv_drop_buffer_t *buffer, MPI_Count bytes)
{
    if (!buffer || !(buffer->wide || buffer->guarded) || bytes <= sv_drop_room(buffer))
        return false;
    state->arrived = true;
    state->bytes = (uint64_t)sv_drop_room(buffer);
    fail_message(state, SELVAGE_ERR_TRUNCATED, "");
    return true;
}

/* The notice in what came, if that is an announcement. *text_out is where the text lies, which the caller has space
   for. */
static sv_drop_reading_t read_arrived(const sv_drop_fast_t *state, const sv_drop_call_t *call, MPI_Count bytes,
                                      char *text, const char **text_out, sv_drop_notice_t *notice_out)
{
    const bool may_be = state->monitored && (sv_drop_fast_is_open() || sv_drop_route.retired) &&
                        bytes >= (MPI_Count)sizeof notice_out->nonce && bytes <= SV_DROP_ANNOUNCE_BYTES;
    *text_out = may_be ? find_text(state, call, text) : NULL;
    return *text_out ? sv_drop_notice_read(*text_out, (size_t)bytes, notice_out) : SV_DROP_NO_NOTICE;
}

bool sv_drop_fast_needs_no_memory(const sv_drop_fast_t *state, const sv_drop_call_t *call, const MPI_Status *status)
{
    sv_drop_notice_t notice;
    MPI_Count bytes = 0;
    char text[SV_DROP_ANNOUNCE_BYTES];
    const char *arrived;
    return PMPI_Get_elements_x((MPI_Status *)(uintptr_t)status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
           read_arrived(state, call, bytes, text, &arrived, &notice) == SV_DROP_A_NOTICE && notice.fragment_bytes > 0;
}

/* Whether an announcement is good, and of the message that a receive got; else that has failed. */
static bool is_announced_well(sv_drop_fast_t *state, const MPI_Status *status, sv_drop_reading_t reading,
                              const sv_drop_notice_t *notice)
{
    const int tag = state->renames ? state->tag : status->MPI_TAG;
    if (reading == SV_DROP_A_DAMAGED_NOTICE) {
        fail_message(state, SELVAGE_ERR_CHECKSUM, "its announcement came damaged");
        sv_drop_warn("it came from rank %d of its communicator with tag %d",
                     state->renames ? state->source : status->MPI_SOURCE, tag);
    } else if (notice->tag != tag) {
        fail_message(state, SELVAGE_ERR_CHECKSUM, "its announcement belongs to another message");
        sv_drop_warn("it came from rank %d of MPI_COMM_WORLD with tag %d, which announced tag %d", notice->source, tag,
                     notice->tag);
    } else if (!sv_drop_route.world) {
        fail_message(state, SELVAGE_ERR_STATE, "it was sent before MPI_Finalize, and is received in it");
    } else if (is_repeated(notice)) {
        fail_message(state, SELVAGE_ERR_CHECKSUM, "its announcement has come before");
        sv_drop_warn("it came from rank %d of MPI_COMM_WORLD with tag %d", notice->source, tag);
    } else {
        return true;
    }
    return false;
}

bool sv_drop_fast_take_announced(sv_drop_fast_t *state, const sv_drop_call_t *call, const MPI_Status *status)
{
    sv_drop_notice_t notice;
    MPI_Count bytes = 0;
    int cancelled = 0;
    char text[SV_DROP_ANNOUNCE_BYTES];
    const sv_drop_buffer_t *buffer = recv_buffer_of(call);
    if (!state->monitored && !(buffer && buffer->guarded))
        return false;
    PMPI_Test_cancelled(status, &cancelled);
    if (cancelled || PMPI_Get_elements_x((MPI_Status *)(uintptr_t)status, MPI_BYTE, &bytes) != MPI_SUCCESS)
        return false;
    /* Is it an announcement? */
    const char *arrived;
    const sv_drop_reading_t reading = read_arrived(state, call, bytes, text, &arrived, &notice);
    if (reading == SV_DROP_NO_NOTICE) {
        sv_drop_fragments_invite(state, status->MPI_SOURCE, bytes);
        return fail_overlong(state, buffer, bytes);
    }
    state->arrived = true;
    if (arrived == state->buf) /* no copy of the nonce is left with the program, if nothing comes in its place */
        memset(state->buf, 0, (size_t)bytes);
    /* Is it good, and this message's? */
    if (!is_announced_well(state, status, reading, &notice))
        return true;
    /* Begin to receive what it announces: to where the program wants it, unless that is memory of another GPU than the
       route's. Then it goes to where MPI would have put it. */
    selvage_status_t begun = SELVAGE_ERR_UNSUPPORTED;
    state->bytes = notice.bytes;
    if (notice.fragment_bytes > 0) {
        begun = sv_drop_fragments_receive(state, buffer, &notice);
    } else {
        const bool whole = !buffer || !buffer->keeps_gaps;
        state->unstages = whole && buffer && !buffer->unpacks && sv_drop_is_others(buffer->user + buffer->low);
        if (whole && !state->unstages)
            begun = selvage_message_irecv(sv_drop_route.world, state->buf, (size_t)state->count, state->type,
                                          notice.source, notice.id, SELVAGE_MESSAGE_NO_STREAM, &state->request);
        else if (whole)
            begun = selvage_message_irecv(sv_drop_route.world, sv_drop_address(buffer), (size_t)buffer->count,
                                          buffer->packed ? buffer->type : state->type, notice.source, notice.id,
                                          SELVAGE_MESSAGE_NO_STREAM, &state->request);
        if (begun == SELVAGE_ERR_UNSUPPORTED && buffer)
            begun = receive_packed(state, buffer, &notice);
        else if (begun == SELVAGE_SUCCESS && sv_drop_wireup_has_own_gpu()) /* its sender launches its kernel now */
            (void)selvage_message_expect(state->request, notice.bytes);
    }
    if (begun != SELVAGE_SUCCESS)
        fail_message(state, begun, selvage_error_detail());
    return true;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

bool sv_drop_fast_ended(sv_drop_fast_t *state, int *error)
{
    if (state->request || state->fragments) {
        const char *detail = NULL;
        const selvage_status_t status = state->request ? selvage_message_test(&state->request, NULL)
                                                       : sv_drop_fragments_test(state, &detail);
        if (status == SELVAGE_IN_PROGRESS)
            return false;
        if (status == SELVAGE_SUCCESS && state->packed)
            sv_drop_unpack(state->packed, (int64_t)state->bytes, state->image, state->count, state->type);
        if (status != SELVAGE_SUCCESS)
            fail_message(state, status, detail ? detail : selvage_error_detail());
    }
    free(state->packed);
    state->packed = NULL;
    if (state->error != MPI_SUCCESS)
        *error = state->error;
    return true;
}

bool sv_drop_fast_finish(sv_drop_fast_t *state, sv_drop_call_t *call, MPI_Status *status, int *code)
{
    unsigned turns = 0;
    bool ended;
    const sv_drop_buffer_t *buffer = recv_buffer_of(call);
    if (!state->monitored && !(buffer && buffer->guarded))
        return false;
    sv_drop_lock();
    bool arrived = sv_drop_fast_take_announced(state, call, status);
    sv_drop_unlock();
    for (ended = !arrived; !ended;) {
        sv_drop_turn(&turns);
        sv_drop_lock();
        ended = sv_drop_fast_ended(state, code);
        sv_drop_unlock();
    }
    sv_drop_fast_set_status(state, status);
    if (state->unstages && *code == MPI_SUCCESS)
        sv_drop_unstage_call(call, status);
    if (arrived && *code != MPI_SUCCESS)
        (void)sv_drop_raise(state->comm, *code);
    return arrived;
}

void sv_drop_fast_set_status(const sv_drop_fast_t *state, MPI_Status *status)
{
    if (state->renames) {
        status->MPI_SOURCE = state->source;
        status->MPI_TAG = state->tag;
    }
    if (state->arrived)
        PMPI_Status_set_elements_x(status, MPI_BYTE, (MPI_Count)state->bytes);
}

void sv_drop_fast_release(sv_drop_fast_t *state)
{
    if (state->owns_type)
        PMPI_Type_free(&state->type);
    if (state->owns_stream)
        PMPI_Type_free(&state->stream);
    sv_drop_fragments_release(state->fragments);
    int done = 1;
    if (state->renames)
        PMPI_Test(&state->sent, &done, MPI_STATUS_IGNORE);
    if (done) /* else it could not even be received */
        free(state->announcement);
    *state = (sv_drop_fast_t){0};
}

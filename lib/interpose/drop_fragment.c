/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that are staged, in fragments: those to another node, and those to ranks of the node that the fast
 * route does not reach. Staged as a whole, a message takes the sum of three ways: down, from host to host, and up. In
 * fragments it takes about as long as the slowest of them.
 *
 *   sender     PMPI_Isend(announcement)    copy down 0 .. PMPI_Issend(0)
 *                                                     copy down 1 .. PMPI_Issend(1)  ...
 *   receiver   PMPI_Irecv(pinned, or host memory) ... it is an announcement: PMPI_Irecv(0), (1), ...
 *              ... 0 has come: copy up 0
 *
 * The announcement (drop_announce.c) is a plain message with the program's envelope, so that matching stays MPI's. The
 * fragments are plain messages on a communicator of the drop-in's own. Their tag is made of the message's number, and
 * MPI keeps their order. They are synchronous, so that their sender knows which have been received: until then no other
 * message to that rank has their tag. When the call that sends returns, MPI has all of them. When the receiver has read
 * the announcement, it posts receives for all of them, into the staging memory or the host memory of the receive. So
 * from then on neither rank needs the other's drop-in.
 *
 * Only to a rank that has invited this one (drop_invite.c). A send waits until the receiver has taken its fragments,
 * as MPI's own sends do. If the receiver withdraws its invitation meanwhile, the send is complete at once, as buffered
 * ones are: the bytes are in staging memory, and in MPI's hands.
 *
 * Only with AUTO and one thread: another thread may be blocked in MPI while this one receives. The lock of requests
 * guards everything here. Fragments own the staging memory of a send; a receive's is its call's.
 */
#include "interpose/drop_fragment.h"
#include "interpose/drop_invite.h"
#include "interpose/drop_notice.h"
#include "interpose/drop_plan.h"
#include "interpose/drop_pool.h"
#include "interpose/drop_route.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>

/* MOST: of a message. AHEAD: copies of a send that are enqueued at a time. */
enum { MOST = 64, AHEAD = 4 };

/* A message in fragments. */
typedef struct sv_drop_fragments {
    struct sv_drop_fragments *next; /* among those left over, or at rest */
    struct sv_drop_fragments *next_sent; /* among sends that have not been received as a whole */
    bool sends, too_long, failed;
    int n, done;             /* the first `done` have gone or come */
    int to, tag;             /* of a send: rank of MPI_COMM_WORLD */
    size_t bytes, each;
    char *host;              /* where the first one lies */
    void *owned, *sink;      /* staging memory; or malloc()ed, for what is too long */
    bool lands;              /* a receive that copies up each fragment as it comes; else the call does it in the end */
    char *user;
    const sv_drop_plan_t *plan; /* of elements with gaps; else NULL */
    selvage_device_t *device, *event_device;
    void *stream;            /* of those copies; NULL: there were none yet */
    selvage_event_t *event;  /* after the last of them, once it is recorded; kept for the next message */
    bool recorded;
    int64_t begin_ns;        /* for the timeline */
    MPI_Request request[MOST];
} sv_drop_fragments_t;

static struct {
    MPI_Comm comm;           /* that of the invitations, once it is made */
    sv_drop_fragments_t *left, *rest; /* sends that the program need not wait for; and at rest */
    sv_drop_fragments_t *sent; /* all sends that have not been received as a whole */
    selvage_device_t *device; /* of the events */
    selvage_event_t *event[AHEAD];
    bool sends;              /* a send copies down: an error handler that runs meanwhile sends as a whole */
    unsigned looks;
} fragments;

static void must_copy(selvage_status_t status)
{
    if (status != SELVAGE_SUCCESS)
        sv_drop_fatal("copy failed", selvage_error_detail());
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static sv_drop_fragments_t *take_fragments(void)
{
    sv_drop_fragments_t *made = fragments.rest;
    if (made) {
        fragments.rest = made->next;
        *made = (sv_drop_fragments_t){.event = made->event, .event_device = made->event_device};
    } else if (!(made = calloc(1, sizeof *made))) {
        sv_drop_fatal("no memory", "for a message");
    }
    for (int i = 0; i < MOST; i++)
        made->request[i] = MPI_REQUEST_NULL;
    return made;
}

/* The partner is sv_drop_fragments_announce(). */
static void unlist_sent(const sv_drop_fragments_t *these)
{
    sv_drop_fragments_t **at = &fragments.sent;
    while (*at != these)
        at = &(*at)->next_sent;
    *at = these->next_sent;
}

static void put_to_rest(sv_drop_fragments_t *these)
{
    if (these->sends)
        unlist_sent(these);
    sv_drop_unstage(these->owned);
    free(these->sink);
    these->owned = these->sink = NULL;
    these->next = fragments.rest;
    fragments.rest = these;
}

/* MPI is not through with them, and nobody waits for that. */
static void leave_over(sv_drop_fragments_t *these)
{
    these->next = fragments.left;
    fragments.left = these;
}

static size_t bytes_of(const sv_drop_fragments_t *these, int i)
{
    const size_t at = (size_t)i * these->each, left = these->bytes - at;
    return left < these->each ? left : these->each;
}

/* Tests those that have not gone or come, in their order. A receive must get just what was announced. Returns whether
   all have. */
static bool test_in_order(sv_drop_fragments_t *these, void (*arrived)(sv_drop_fragments_t *, int))
{
    for (int done = 1; these->done < these->n; these->done++) {
        MPI_Status status;
        int count = 0;
        const int code = PMPI_Test(&these->request[these->done], &done, &status);
        if (code == MPI_SUCCESS && !done)
            return false;
        if (code != MPI_SUCCESS)
            these->request[these->done] = MPI_REQUEST_NULL;
        these->failed = these->failed || code != MPI_SUCCESS ||
                        (arrived && (PMPI_Get_count(&status, MPI_BYTE, &count) != MPI_SUCCESS ||
                                     (size_t)count != bytes_of(these, these->done)));
        if (arrived && !these->failed)
            arrived(these, these->done);
    }
    return true;
}

void sv_drop_fragments_release(sv_drop_fragments_t *these)
{
    if (!these)
        return;
    sv_drop_lock();
    if (these->done < these->n)
        leave_over(these);
    else
        put_to_rest(these);
    sv_drop_unlock();
}

void sv_drop_fragments_poll(void)
{
    if (__builtin_expect(fragments.left == NULL, 1))
        return;
    sv_drop_lock();
    for (sv_drop_fragments_t **at = &fragments.left, *these = *at; these; these = *at) {
        if (!test_in_order(these, NULL)) {
            at = &these->next;
            continue;
        }
        *at = these->next;
        put_to_rest(these);
    }
    sv_drop_unlock();
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

bool sv_drop_fragments_may_send(int64_t count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    if (!sv_drop_is_long(count, type) || fragments.sends || tag < 0 || tag > sv_drop_route.tag_most ||
        comm == sv_drop_route.own || sv_drop_has_several() || sv_drop_settings()->sync == SV_DROP_SYNC_CHECK ||
        dest < 0 || dest >= sv_drop_size(comm) || !sv_drop_type_is_committed(type))
        return false;
    const int to = sv_drop_world_rank(comm, dest);
    if (to == MPI_UNDEFINED || to == sv_drop_rank(MPI_COMM_WORLD))
        return false;
    sv_drop_lock();
    sv_drop_ask_for_invitation(to);
    const bool invited = sv_drop_is_invited_by(to, true);
    sv_drop_unlock();
    return invited;
}

bool sv_drop_fragments_suit(const sv_drop_buffer_t *buffer)
{
    return buffer->image && !buffer->keeps_gaps && buffer->bytes / MOST < INT_MAX / 2 &&
           !sv_drop_is_plain(buffer->host);
}

/* A multiple of 4 KiB, unless the user has said how long. There are MOST at most. */
static size_t choose_fragment_bytes(size_t bytes)
{
    enum { PARTS = 8, LEAST = 256 << 10, LIMIT = 4 << 20, PAGE = 4096 };
    const size_t set = (size_t)sv_drop_settings()->fragment_bytes, least = (bytes + MOST - 1) / MOST;
    size_t each = bytes / PARTS < LEAST ? LEAST : bytes / PARTS < LIMIT ? bytes / PARTS : LIMIT;
    each = set ? set : (each + PAGE - 1) / PAGE * PAGE;
    return each > least ? each : (least + 7) / 8 * 8; /* parts of packed bytes begin at words */
}

static int tag_of(int32_t id)
{
    return SV_DROP_NOTE_TAG + 1 + id % sv_drop_route.tag_most;
}

/* Fragments whose announcement was cut off or cancelled stay with MPI, and must not be taken for those of a later
   message. So numbers are passed over whose tag is in use with that receiver. */
static int32_t take_id_of_free_tag(int to)
{
    const sv_drop_fragments_t *same;
    int32_t id;
    do {
        id = sv_drop_take_id();
        same = fragments.sent;
        while (same && (same->to != to || same->tag != tag_of(id)))
            same = same->next_sent;
    } while (same);
    return id;
}

void *sv_drop_fragments_announce(sv_drop_fast_t *state, const sv_drop_buffer_t *buffer, int dest, int tag,
                                 MPI_Comm comm)
{
    const int to = sv_drop_world_rank(comm, dest);
    sv_drop_lock();
    sv_drop_fragments_t *these = take_fragments();
    const int32_t id = take_id_of_free_tag(to);
    these->sends = true;
    these->next_sent = fragments.sent;
    fragments.sent = these; /* partner: unlist_sent() */
    these->to = to;
    these->host = buffer->host;
    these->bytes = buffer->bytes;
    these->each = choose_fragment_bytes(buffer->bytes);
    these->tag = tag_of(id);
    state->fragments = these;
    state->fragmented = true;
    state->comm = comm;
    state->announcement = sv_drop_notice_make((int64_t)these->bytes, id, tag, (int32_t)these->each);
    sv_drop_unlock();
    return state->announcement;
}

/* Enqueues the copy of one fragment, and an event after it. */
static void copy_down(const sv_drop_fragments_t *these, const sv_drop_buffer_t *buffer, int i, void *stream)
{
    const size_t at = (size_t)i * these->each, bytes = bytes_of(these, i);
    selvage_device_t *dev = fragments.device;
    sv_drop_count_copy(true);
    if (buffer->packed)
        must_copy(selvage_pack_gather_part(buffer->plan->pack, buffer->user, at, bytes, these->host + at, stream));
    else
        must_copy(selvage_device_copy(dev, these->host + at, buffer->user + buffer->low + at, bytes,
                                      SELVAGE_COPY_DEVICE_TO_HOST, stream));
    must_copy(selvage_event_record(dev, fragments.event[i % AHEAD], stream));
}

static void prepare_events(selvage_device_t *dev)
{
    if (fragments.device == dev)
        return;
    for (int i = 0; i < AHEAD; i++) { /* the first time, and once a device has given way to another one */
        selvage_event_destroy(fragments.device, fragments.event[i]);
        fragments.event[i] = NULL;
        must_copy(selvage_event_create(dev, &fragments.event[i]));
    }
    fragments.device = dev;
}

/* With the policy that waits for the default stream, copies are made on that, in its order. */
void sv_drop_fragments_send(sv_drop_fast_t *state, sv_drop_buffer_t *buffer)
{
    sv_drop_fragments_t *these = state->fragments;
    selvage_device_t *dev = sv_drop_device_of(buffer->user + buffer->low);
    const bool theirs = sv_drop_settings()->sync == SV_DROP_SYNC_DEFAULT;
    const int n = (int)((these->bytes + these->each - 1) / these->each);
    const int64_t begin_ns = sv_drop_trace_now();
    int copied = 0;
    unsigned turns = 0;
    if (!theirs)
        sv_drop_settle();
    void *stream = theirs ? NULL : sv_drop_stream_take(dev);
    fragments.sends = true;
    prepare_events(dev);
    these->owned = buffer->image;
    buffer->image = NULL;
    while (these->n < n) {
        for (; copied < n && copied < these->n + AHEAD; copied++)
            copy_down(these, buffer, copied, stream);
        const selvage_status_t status = selvage_event_query(dev, fragments.event[these->n % AHEAD]);
        if (status == SELVAGE_IN_PROGRESS) { /* MPI goes on with those before it, and receives of this rank's as well */
            (void)test_in_order(these, NULL);
            sv_drop_turn(&turns);
            continue;
        }
        must_copy(status);
        if (PMPI_Issend(these->host + (size_t)these->n * these->each, (int)bytes_of(these, these->n), MPI_BYTE,
                        these->to, these->tag, fragments.comm, &these->request[these->n]) != MPI_SUCCESS)
            sv_drop_fatal("a message could not be sent", "a fragment, after its announcement");
        these->n++;
    }
    fragments.sends = false;
    if (stream)
        sv_drop_stream_give(dev, stream);
    sv_drop_trace_span("copy", begin_ns, (int64_t)these->bytes);
}

void sv_drop_fragments_cancel(sv_drop_fast_t *state, const MPI_Status *status)
{
    int cancelled = 0;
    if (!state->fragments || !state->fragments->sends)
        return;
    PMPI_Test_cancelled(status, &cancelled);
    if (!cancelled)
        return;
    sv_drop_fragments_release(state->fragments);
    state->fragments = NULL;
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

/* Where the bytes come, and how they get from there to where the program wants them. */
static void *find_landing(sv_drop_fast_t *state, sv_drop_fragments_t *these, const sv_drop_buffer_t *buffer)
{
    sv_drop_type_t info;
    if (these->too_long) /* it is received all the same, as its sender may wait for that */
        return these->sink = malloc(these->bytes);
    if (!buffer && sv_drop_type(state->type, &info) && info.dense)
        return state->buf;
    /* Elements with gaps that are not a stream at the buffer, with one or without, are unpacked in the end. */
    state->unstages = buffer != NULL;
    if (!buffer || buffer->keeps_gaps) {
        state->image = buffer ? sv_drop_address(buffer) : state->buf;
        return state->packed = malloc(these->bytes);
    }
    these->lands = !buffer->unpacks && !buffer->strip && !sv_drop_has_several() && !sv_drop_is_plain(buffer->host);
    if (these->lands) {
        state->unstages = false;
        these->plan = buffer->packed ? buffer->plan : NULL;
        these->user = buffer->user + (buffer->packed ? 0 : buffer->low);
        these->device = sv_drop_device_of(buffer->user + buffer->low);
    }
    return buffer->host;
}

selvage_status_t sv_drop_fragments_receive(sv_drop_fast_t *state, const sv_drop_buffer_t *buffer,
                                           const sv_drop_notice_t *notice)
{
    const size_t each = (size_t)notice->fragment_bytes;
    MPI_Count room = 0;
    if (!sv_drop_may_invite() || notice->bytes == 0 || (notice->bytes - 1) / each >= MOST)
        return SELVAGE_ERR_STATE;
    PMPI_Type_size_x(state->type, &room);
    sv_drop_fragments_t *these = take_fragments();
    these->bytes = notice->bytes;
    these->each = each;
    these->too_long = (MPI_Count)notice->bytes > room * state->count;
    these->begin_ns = sv_drop_trace_now();
    these->host = find_landing(state, these, buffer);
    if (!these->host)
        sv_drop_fatal("no memory", "for a message in fragments");
    state->fragments = these;
    state->fragmented = true;
    for (size_t at = 0; at < these->bytes; at += each, these->n++)
        if (PMPI_Irecv(these->host + at, (int)bytes_of(these, these->n), MPI_BYTE, notice->source, tag_of(notice->id),
                       fragments.comm, &these->request[these->n]) != MPI_SUCCESS)
            sv_drop_fatal("a message could not be received", "a fragment, after its announcement");
    return SELVAGE_SUCCESS;
}

/* Enqueues the copy of one that has come. */
static void copy_up(sv_drop_fragments_t *these, int i)
{
    const size_t at = (size_t)i * these->each, bytes = bytes_of(these, i);
    if (!these->lands || these->too_long)
        return;
    if (!these->stream)
        these->stream = sv_drop_stream_take(these->device);
    sv_drop_count_copy(false);
    if (these->plan)
        must_copy(
            selvage_pack_scatter_part(these->plan->pack, these->host + at, at, bytes, these->user, these->stream));
    else
        must_copy(selvage_device_copy(these->device, these->user + at, these->host + at, bytes,
                                      SELVAGE_COPY_HOST_TO_DEVICE, these->stream));
}

/* Whether the copies up are over. */
static bool have_landed(sv_drop_fragments_t *these)
{
    selvage_device_t *dev = these->device;
    if (!these->stream)
        return true;
    if (these->event_device != dev) {
        selvage_event_destroy(these->event_device, these->event);
        these->event = NULL;
        must_copy(selvage_event_create(dev, &these->event));
        these->event_device = dev;
    }
    if (!these->recorded)
        must_copy(selvage_event_record(dev, these->event, these->stream));
    these->recorded = true;
    const selvage_status_t status = selvage_event_query(dev, these->event);
    if (status == SELVAGE_IN_PROGRESS)
        return false;
    must_copy(status);
    sv_drop_stream_give(dev, these->stream);
    these->stream = NULL;
    sv_drop_trace_span("copy", these->begin_ns, (int64_t)these->bytes);
    return true;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

/* Of a send that waits for its receiver, looks now and then whether that has withdrawn its invitation. */
static bool is_receiver_deaf(const sv_drop_fragments_t *these)
{
    enum { EVERY = 8 };
    return these->sends && !sv_drop_is_invited_by(these->to, ++fragments.looks % EVERY == 0);
}

selvage_status_t sv_drop_fragments_test(sv_drop_fast_t *state, const char **detail_out)
{
    sv_drop_fragments_t *these = state->fragments;
    const bool over = test_in_order(these, these->sends ? NULL : copy_up) && have_landed(these);
    if (!over && !is_receiver_deaf(these))
        return SELVAGE_IN_PROGRESS;
    const selvage_status_t status = these->failed     ? SELVAGE_ERR_MPI
                                    : these->too_long ? SELVAGE_ERR_TRUNCATED
                                                      : SELVAGE_SUCCESS;
    *detail_out = "one of its fragments";
    state->fragments = NULL;
    sv_drop_fragments_release(these);
    return status;
}

/* --- beginning and end -------------------------------------------------------------------------------------------- */

void sv_drop_fragments_begin(void)
{
    fragments.comm = sv_drop_invites_begin();
}

/* Receives what nobody wants: fragments whose announcement MPI has cut off, and notes. */
static void receive_rest(void)
{
    MPI_Message message;
    MPI_Status status;
    int found = 0, bytes = 0;
    while (PMPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, fragments.comm, &found, &message, &status) == MPI_SUCCESS &&
           found) {
        PMPI_Get_count(&status, MPI_BYTE, &bytes);
        void *sink = malloc((size_t)bytes + 1);
        if (!sink)
            sv_drop_fatal("no memory", "for messages in fragments");
        PMPI_Mrecv(sink, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        free(sink);
    }
}

/* A rank whose sends have all come enters a barrier, and goes on receiving until the others have done so (Hoefler,
   Siebert, Lumsdaine, "Scalable communication protocols for dynamic sparse data exchange", 2010). */
void sv_drop_fragments_end(void)
{
    MPI_Request barrier = MPI_REQUEST_NULL;
    int done = 0;
    if (!sv_drop_may_invite())
        return;
    for (bool entered = false; !done; sched_yield()) {
        receive_rest();
        sv_drop_fragments_poll();
        if (!entered && !fragments.left && sv_drop_notes_have_gone())
            entered = PMPI_Ibarrier(fragments.comm, &barrier) == MPI_SUCCESS;
        if (entered && PMPI_Test(&barrier, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            break;
    }
    sv_drop_invites_end();
    for (int i = 0; i < AHEAD; i++)
        selvage_event_destroy(fragments.device, fragments.event[i]);
    while (fragments.rest) {
        sv_drop_fragments_t *these = fragments.rest;
        fragments.rest = these->next;
        selvage_event_destroy(these->event_device, these->event);
        free(these);
    }
    PMPI_Comm_free(&fragments.comm);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast route of messages, in jobs in which every rank has the drop-in. A message from device memory is announced by
 * a plain MPI message with the program's envelope, the announcement, so that matching stays MPI's. The bytes follow by
 * Selvage's messages, from device to device.
 *
 *   sender     selvage_message_isend(memory, id)        PMPI_Isend(announcement)
 *   receiver   PMPI_Irecv(pinned, or host memory) ... it is an announcement: selvage_message_irecv(memory, id) ... done
 *
 * The sender alone decides, by size. A receive that an announcement fits into is watched from its start. One into host
 * memory is watched only if what could be announced fits, too.
 *
 * AUTO, the default: a message takes the route only if it completes without the other rank's host, as the buffered
 * sends of Selvage do. A short one goes to a slot of the receiver or to a buffer of the sender, and is complete
 * then. A long one is lent to the receiver, and is moved to a buffer if its receiver is late. The receiver can take the
 * bytes whatever the sender does. All else is staged, nothing need be driven, and collective calls remain MPI's own.
 * Host programs pay nothing: receives into host memory are watched only if a GPU's runtime is loaded. A rank that has
 * begun one unwatched before that keeps the route closed.
 *
 * ON: all messages of that size take the route, and ranks may owe each other bytes. A rank that is to send bytes must
 * get to run. So calls that block are driven by tests, and all ranks of a blocking collective call take its
 * non-blocking form.
 *
 * Messages that AUTO does not take, to ranks that it does not reach, may still go in fragments (drop_fragment.c).
 *
 * With AUTO the route opens pair by pair (drop_wireup.c). With ON, or a progress thread, all ranks open it at once,
 * after a collective call on all of them, once each has shown device memory. Then it is decided, too, whether
 * collective calls go by Selvage's. The 1st, 2nd, 4th, ... such call asks. With AUTO the ranks of a communicator can
 * open that for themselves, where others of the job have no device memory: ranks that write files, say. The 4th, 8th,
 * ... call on one asks. Only a call counts from which no rank returns before all have entered it: MPI_Barrier, and
 * MPI_Allreduce and its kin if they move any bytes.
 *
 * Any thread. The lock of drop_request.c is held in all of this but what begins a collective call. The route owns its
 * communicators from MPI_Init to MPI_Finalize.
 */
#include "interpose/drop_agree.h"
#include "interpose/drop_collcomm.h"
#include "interpose/drop_reduce.h"
#include "interpose/drop_route.h"
#include "interpose/drop_tie.h"

#include <selvage/comm.h>
#include <selvage/message.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

bool sv_drop_fast_wanted, sv_drop_pairs_wanted;

sv_drop_route_t sv_drop_route;

bool sv_drop_fast_all(MPI_Comm comm, bool mine)
{
    int own = mine, all = 0;
    return PMPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all;
}

/* The ranks of MPI_COMM_WORLD that are on this node, the caller's to free, and how long a slot is. Collective. */
static int *find_node(int *n_out)
{
    const int64_t least = 64 << 10, all_slots = 256 << 20;
    const int size = sv_drop_size(MPI_COMM_WORLD);
    int *rank = calloc((size_t)size, sizeof *rank);
    bool *on_node = calloc((size_t)size, sizeof *on_node);
    if (!rank || !on_node)
        sv_drop_fatal("no memory", "for the fast route");
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Group own, world;
    PMPI_Comm_split_type(sv_drop_route.own, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    const int n = sv_drop_size(node);
    PMPI_Comm_group(node, &own);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < n; i++) {
        PMPI_Group_translate_ranks(own, 1, &i, world, &rank[i]);
        on_node[rank[i]] = true;
    }
    if (sv_drop_route.on_node) /* the same, and other threads may read it */
        free(on_node);
    else
        sv_drop_route.on_node = on_node;
    PMPI_Group_free(&own);
    PMPI_Group_free(&world);
    PMPI_Comm_free(&node);
    /* The length of a slot is alike on all ranks: four for each neighbour fit into the bound of all slots, on the node
       with most ranks. */
    int most = n;
    PMPI_Allreduce(&n, &most, 1, MPI_INT, MPI_MAX, sv_drop_route.own);
    for (sv_drop_route.slot_bytes = 1 << 20;
         sv_drop_route.slot_bytes > least && sv_drop_route.slot_bytes * 4 * (most - 1) > all_slots;)
        sv_drop_route.slot_bytes /= 2;
    if (sv_drop_settings()->slot_bytes)
        sv_drop_route.slot_bytes = sv_drop_settings()->slot_bytes;
    *n_out = n;
    return rank;
}

static bool opens_by_pairs(void)
{
    return !sv_drop_route.drives && !sv_drop_settings()->progress_thread;
}

/* What is known of a communicator: its attribute, which is freed with it. */
typedef struct calls {
    unsigned count;
    bool everybody, over; /* it has all ranks of the job; or some, and nothing more can open on it */
} calls_t;

static int free_calls(MPI_Comm comm, int key, void *calls, void *extra)
{
    (void)comm, (void)key, (void)extra;
    free(calls); /* partner: calls_on() */
    return MPI_SUCCESS;
}

void sv_drop_fast_begin(void)
{
    const sv_drop_settings_t *settings = sv_drop_settings();
    uint64_t *nonce = sv_drop_route.nonce;
    int level = MPI_THREAD_SINGLE, found = 0, *most = NULL;
    MPI_Group group;
    PMPI_Query_thread(&level);
    sv_drop_route.threads = level == MPI_THREAD_MULTIPLE;
    sv_drop_route.drives = settings->fast == SV_DROP_FAST_ON;
    sv_drop_fast_wanted = settings->fast != SV_DROP_FAST_OFF && settings->job[0];
    if (!sv_drop_fast_wanted)
        return;
    /* A communicator of all ranks that has none of the program's attributes, and not its error handler. */
    PMPI_Comm_group(MPI_COMM_WORLD, &group);
    if (PMPI_Comm_create(MPI_COMM_WORLD, group, &sv_drop_route.own) != MPI_SUCCESS)
        sv_drop_fatal("no communicator", "for the fast route");
    PMPI_Group_free(&group);
    PMPI_Comm_set_errhandler(sv_drop_route.own, MPI_ERRORS_RETURN);
    /* Rank 0 draws the job's nonce. */
    if (sv_drop_rank(MPI_COMM_WORLD) == 0 &&
        getrandom(nonce, sizeof sv_drop_route.nonce, 0) < (ssize_t)sizeof sv_drop_route.nonce)
        sv_drop_fatal("no random numbers", "for the job's nonce");
    PMPI_Bcast(nonce, 2, MPI_UINT64_T, 0, sv_drop_route.own);
    /* All ranks must have one nonce, or some would take announcements for data. So the least and the greatest of each
       word are compared. The same call says whether any rank has threads, and whether one has calls without a question
       off: what some ranks ask in, all must. So it also says whether calls are long enough for all alike. */
    enum { WORDS = 8 };
    const uint64_t lengths = (uint64_t)settings->fast_bytes * 2 + settings->chooses;
    const uint64_t own[WORDS] = {nonce[0], nonce[1], ~nonce[0], ~nonce[1], !sv_drop_route.threads, settings->pairs,
                                 lengths, ~lengths};
    uint64_t least[WORDS];
    PMPI_Allreduce(own, least, WORDS, MPI_UINT64_T, MPI_MIN, sv_drop_route.own);
    sv_drop_route.any_threads = !least[4];
    sv_drop_pairs_wanted = least[5];
    if (memcmp(own, least, 4 * sizeof *own) != 0 || (least[0] ^ least[2]) != UINT64_MAX ||
        (least[1] ^ least[3]) != UINT64_MAX)
        sv_drop_fatal("the ranks do not agree", "on the job's nonce");
    sv_drop_route.refused = (least[6] ^ least[7]) != UINT64_MAX;
    if (sv_drop_route.refused)
        sv_drop_warn("SELVAGE_DROPIN_FAST_BYTES or SELVAGE_CHECKSUM is not set alike on every rank: all is staged");
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    sv_drop_route.tag_most = found ? *most : 32767;
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_calls, &sv_drop_route.key, NULL);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &sv_drop_route.within_key, NULL);
    int n, *rank = NULL;
    if (opens_by_pairs() || sv_drop_pairs_wanted)
        rank = find_node(&n);
    if (!opens_by_pairs()) {
        free(rank);
        return;
    }
    if (sv_drop_route.refused || !sv_drop_wireup_begin(rank, n, sv_drop_route.slot_bytes)) {
        sv_drop_warn("the fast route could not be opened on every rank: everything is staged");
        sv_drop_route.refused = true;
    } else {
        sv_drop_fragments_begin();
    }
    free(rank);
}

void sv_drop_fast_see(void)
{
    atomic_store_explicit(&sv_drop_route.seen, true, memory_order_relaxed);
}

bool sv_drop_fast_is_settled(void)
{
    return sv_drop_route.settled;
}

bool sv_drop_fast_is_open(void)
{
    return sv_drop_fast_wanted && atomic_load_explicit(&sv_drop_route.open, memory_order_relaxed);
}

bool sv_drop_fast_begin_group(void)
{
    return sv_drop_fast_is_open() && selvage_message_group_begin(sv_drop_route.world) == SELVAGE_SUCCESS;
}

/* Where a launch fails, the requests have the error. */
void sv_drop_fast_end_group(bool begun)
{
    if (begun)
        (void)selvage_message_group_end(sv_drop_route.world);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

void sv_drop_fast_answer(void)
{
    int found;
    sv_drop_wireup_poll();
    sv_drop_fragments_poll();
    /* Partner: the release in make_world(). Any thread may answer. */
    if (atomic_load_explicit(&sv_drop_route.answers, memory_order_acquire))
        (void)selvage_message_iprobe(sv_drop_route.world, MPI_ANY_SOURCE, MPI_ANY_TAG, &found, NULL);
}

/* Exchanges one message to a rank and one from another. Returns whether they were through in time. There is no other
   deadline, so that a rank that has failed holds up nobody. A message that is left in flight may still be written. */
static bool warm_up_pair(int to, int from)
{
    enum { TAG = INT32_MAX, LIMIT_S = 60 };
    static uint64_t out, in;
    selvage_request_t *request[2] = {NULL, NULL};
    const double begin = PMPI_Wtime();
    unsigned turns = 0;
    if (selvage_message_irecv(sv_drop_route.world, &in, sizeof in, MPI_BYTE, from, TAG, SELVAGE_MESSAGE_NO_STREAM,
                              &request[0]) != SELVAGE_SUCCESS ||
        selvage_message_isend(sv_drop_route.world, &out, sizeof out, MPI_BYTE, to, TAG, SELVAGE_MESSAGE_NO_STREAM,
                              &request[1]) != SELVAGE_SUCCESS)
        return false;
    while ((request[0] || request[1]) && PMPI_Wtime() - begin < LIMIT_S) {
        sv_drop_turn(&turns);
        for (int i = 0; i < 2; i++) {
            const selvage_status_t status =
                request[i] ? selvage_message_test(&request[i], NULL) : SELVAGE_IN_PROGRESS;
            if (status != SELVAGE_SUCCESS && status != SELVAGE_IN_PROGRESS)
                return false;
        }
    }
    return !request[0] && !request[1];
}

/* As sv_drop_fast_all(), but driven: another rank may have to ask this one again for what it has sent. */
static bool all_have_warmed_up(MPI_Comm comm, bool mine)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int own = mine, all = 0;
    /* Partner: the acquire in sv_drop_fast_answer(). */
    atomic_store_explicit(&sv_drop_route.answers, true, memory_order_release);
    int code = PMPI_Iallreduce(&own, &all, 1, MPI_INT, MPI_MIN, comm, &request);
    code = sv_drop_drive(code, &request, MPI_STATUS_IGNORE);
    /* A message through a slot is not kept by its sender. */
    atomic_store_explicit(&sv_drop_route.answers, sv_drop_route.drives && all, memory_order_release);
    return code == MPI_SUCCESS && all;
}

/* Whether this rank has made Selvage's communicator. *refused_out is whether any rank has not. */
static bool make_world(bool *refused_out)
{
    enum { ROUNDS = 3 };
    int me = 0, n, *rank = find_node(&n);
    /* The drop-in ends nothing that MPI would let wait, unless the user has set a deadline. */
    selvage_comm_params_t params = {SELVAGE_COMM_PARAMS_INIT, .device = sv_drop_device(),
                                    .timeout_s = sv_drop_settings()->timeout_ns ? 0 : -1,
                                    .message_slot_bytes = (size_t)sv_drop_route.slot_bytes};
    const bool made = selvage_comm_create(MPI_COMM_WORLD, &params, &sv_drop_route.world) == SELVAGE_SUCCESS;
    *refused_out = !sv_drop_fast_all(sv_drop_route.own, made);
    if (!*refused_out) {
        /* A message to each rank of the node and from each, a few times: after those there are slots. */
        bool good = true;
        while (rank[me] != sv_drop_rank(MPI_COMM_WORLD))
            me++;
        for (int i = 0; i < ROUNDS * n && good; i++)
            if (i % n != 0)
                good = warm_up_pair(rank[(me + i % n) % n], rank[(me + n - i % n) % n]);
        *refused_out = !all_have_warmed_up(sv_drop_route.own, good);
    }
    free(rank);
    return made;
}

bool sv_drop_fast_is_in_order(MPI_Comm comm)
{
    return !sv_drop_route.any_threads || comm == MPI_COMM_WORLD;
}

static bool is_group_within(MPI_Group group, MPI_Group world)
{
    int size = 0;
    bool within = true;
    PMPI_Group_size(group, &size);
    for (int i = 0; i < size && within; i++) {
        int found = MPI_UNDEFINED;
        PMPI_Group_translate_ranks(group, 1, &i, world, &found);
        within = found != MPI_UNDEFINED;
    }
    PMPI_Group_free(&group);
    return within;
}

/*
 * All ranks of a call must say the same, since MPI matches no blocking call with a non-blocking one. A single thread
 * has all its calls before or after the one that opens the route, on every rank alike. Of several threads, one may be
 * in a call while another opens the route. So ranks with threads drive all calls from the first one on.
 */
bool sv_drop_fast_enter(MPI_Comm comm)
{
    static char yes, no;
    void *found = NULL;
    int has = 0;
    MPI_Group world, group;
    if (comm == MPI_COMM_NULL || !sv_drop_route.drives || !(sv_drop_route.any_threads || sv_drop_fast_is_open()))
        return false;
    /* Spawned ranks do not know what goes on here: are all ranks of the communicator this job's? */
    if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF)
        return true;
    const bool keeps = sv_drop_route.within_key != MPI_KEYVAL_INVALID; /* until the program calls MPI in MPI_Finalize */
    if (keeps)
        PMPI_Comm_get_attr(comm, sv_drop_route.within_key, &found, &has);
    if (has)
        return found == &yes;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Comm_group(comm, &group);
    bool within = is_group_within(group, world);
    if (!sv_drop_is_inside(comm) && PMPI_Comm_remote_group(comm, &group) == MPI_SUCCESS)
        within = is_group_within(group, world) && within;
    PMPI_Group_free(&world);
    if (keeps)
        PMPI_Comm_set_attr(comm, sv_drop_route.within_key, within ? &yes : &no);
    return within;
}

/*
 * With AUTO messages have a communicator that knows nothing of the GPUs of other ranks. All ranks of comm are here with
 * a device. So those of a node are wired up at once, and nobody has to wait for the other one's next message.
 */
static bool open_collectives(MPI_Comm comm, MPI_Comm agreeing)
{
    if (sv_drop_fast_all(agreeing, sv_drop_wireup_open()))
        (void)all_have_warmed_up(agreeing, sv_drop_wireup_with(comm));
    return sv_drop_collcomm_open(comm, agreeing, NULL);
}

static void open_at_once(void)
{
    bool refused;
    const bool made = make_world(&refused);
    atomic_store_explicit(&sv_drop_route.refused, refused, memory_order_relaxed);
    if (!refused) {
        (void)sv_drop_collcomm_open(MPI_COMM_WORLD, sv_drop_route.own, sv_drop_route.world);
        sv_drop_report_packets_from(sv_drop_route.world); /* warm-up messages are not the program's */
        atomic_store_explicit(&sv_drop_route.open, true, memory_order_relaxed);
    }
    if (refused && made) /* which is left to the end: its ranks may no longer hear of each other */
        sv_drop_warn("the fast route could not be opened on every rank: everything is staged");
}

/* Whether a communicator has all ranks of the job. The number does not say so, as spawned ranks may be among them. */
static bool is_everybody(MPI_Comm comm)
{
    int result = MPI_UNEQUAL;
    return comm == MPI_COMM_WORLD ||
           (sv_drop_is_inside(comm) && sv_drop_size(comm) == sv_drop_size(MPI_COMM_WORLD) &&
            PMPI_Comm_compare(comm, MPI_COMM_WORLD, &result) == MPI_SUCCESS && result != MPI_UNEQUAL);
}

/* Whether its ranks are some of the job's on one node, and more than one. */
static bool is_part(MPI_Comm comm)
{
    const int size = sv_drop_is_inside(comm) ? sv_drop_size(comm) : 0;
    for (int i = 0; i < size; i++) {
        const int rank = sv_drop_world_rank(comm, i);
        if (rank == MPI_UNDEFINED || !sv_drop_route.on_node[rank])
            return false;
    }
    return size > 1;
}

static calls_t *calls_on(MPI_Comm comm)
{
    static calls_t world = {.everybody = true};
    calls_t *calls = NULL;
    int has = 0;
    if (comm == MPI_COMM_WORLD)
        return &world;
    PMPI_Comm_get_attr(comm, sv_drop_route.key, &calls, &has);
    if (has)
        return calls;
    calls = calloc(1, sizeof *calls);
    if (!calls)
        sv_drop_fatal("no memory", "for a communicator");
    calls->everybody = is_everybody(comm);
    PMPI_Comm_set_attr(comm, sv_drop_route.key, calls);
    return calls;
}

/* Counts a call of some of the job's ranks. Returns whether it asks. All of these ranks find the same. */
static bool asks_for_part(MPI_Comm comm, calls_t *calls)
{
    enum { FIRST = 4, LAST = 1 << 20 }; /* before the first, all of the job may come */
    if (calls->over || ++calls->count < FIRST || (calls->count & (calls->count - 1)))
        return false;
    calls->over = !opens_by_pairs() || calls->count == LAST || sv_drop_reaches(comm) ||
                  (calls->count == FIRST && !is_part(comm));
    return !calls->over;
}

/* As far as this rank knows. It keeps an opening for all. */
static bool may_open_part(void)
{
    return sv_drop_agree_openings() < SV_DROP_OPENINGS - 1 && !sv_drop_route.lacks_part;
}

/*
 * A rank gets a result of such a call only after all ranks have entered it, each with arguments that its MPI has taken.
 * So all of them come here after the same calls, or none does. A call that MPI refuses on some rank counts nowhere.
 */
void sv_drop_fast_leave(MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL || sv_drop_route.refused || sv_drop_route.retired || !sv_drop_fast_is_in_order(comm))
        return;
    calls_t *calls = calls_on(comm);
    const bool everybody = calls->everybody;
    if (everybody) {
        sv_drop_route.calls++;
        if (sv_drop_route.asked || (sv_drop_route.calls & (sv_drop_route.calls - 1)))
            return;
    } else if (!asks_for_part(comm, calls)) {
        return;
    }
    /* All ranks must have shown device memory, and none may have a receive that nobody watches. */
    MPI_Comm const agreeing = everybody ? sv_drop_route.own : comm;
    if (!sv_drop_fast_all(agreeing, atomic_load_explicit(&sv_drop_route.seen, memory_order_relaxed) &&
                                        !atomic_load_explicit(&sv_drop_route.unwatched, memory_order_relaxed) &&
                                        !sv_drop_is_stuck() && (everybody || may_open_part())))
        return;
    if (!everybody) {
        calls->over = true;
        sv_drop_route.lacks_part = !open_collectives(comm, agreeing);
        return;
    }
    sv_drop_route.asked = true;
    bool opened = true;
    if (opens_by_pairs())
        opened = open_collectives(MPI_COMM_WORLD, agreeing);
    else
        open_at_once();
    sv_drop_route.settled = opened;
}

bool sv_drop_type_has_bytes(MPI_Datatype type)
{
    MPI_Count bytes = 0;
    return PMPI_Type_size_x(type, &bytes) == MPI_SUCCESS && bytes > 0;
}

bool sv_drop_fast_combine(MPI_Comm comm, int64_t *values, int n, MPI_Op op)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int64_t own[SV_DROP_VALUES];
    memcpy(own, values, (size_t)n * sizeof *own);
    if (!sv_drop_route.drives)
        return PMPI_Allreduce(own, values, n, MPI_INT64_T, op, comm) == MPI_SUCCESS;
    const int code = PMPI_Iallreduce(own, values, n, MPI_INT64_T, op, comm, &request);
    return sv_drop_drive(code, &request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

bool sv_drop_fast_least(MPI_Comm comm, int64_t *values, int n)
{
    return sv_drop_fast_combine(comm, values, n, MPI_MIN);
}

bool sv_drop_fast_agree(MPI_Comm comm, bool mine)
{
    int64_t all = mine;
    return sv_drop_fast_least(comm, &all, 1) && all;
}

/* After the last message; every rank comes. */
void sv_drop_fast_end(void)
{
    atomic_store_explicit(&sv_drop_route.retired, true, memory_order_relaxed);
    const bool pairs = sv_drop_fast_wanted && opens_by_pairs() && !sv_drop_route.refused;
    int own = sv_drop_fast_is_open(), any = own;
    if (pairs && PMPI_Allreduce(&own, &any, 1, MPI_INT, MPI_MAX, sv_drop_route.own) != MPI_SUCCESS)
        any = false;
    const bool open = any;
    if (sv_drop_pairs_wanted) {
        sv_drop_reductions_end();
        sv_drop_ties_end();
    }
    if (pairs) {
        sv_drop_fragments_end();
        sv_drop_wireup_end();
    }
    if (open && !pairs)
        (void)sv_drop_fast_agree(sv_drop_route.own, false);
    atomic_store_explicit(&sv_drop_route.answers, false, memory_order_relaxed);
    atomic_store_explicit(&sv_drop_route.open, false, memory_order_relaxed);
    sv_drop_report_packets(open ? sv_drop_route.world : NULL);
    if (open || pairs) {
        sv_drop_collcomm_close();
        selvage_comm_destroy(sv_drop_route.world);
        sv_drop_route.world = NULL;
    }
    free(sv_drop_route.on_node); /* partner: find_node() */
    sv_drop_route.on_node = NULL;
    if (!sv_drop_fast_wanted)
        return;
    sv_drop_announce_end();
    PMPI_Comm_free_keyval(&sv_drop_route.key);
    PMPI_Comm_free_keyval(&sv_drop_route.within_key);
    PMPI_Comm_free(&sv_drop_route.own);
}

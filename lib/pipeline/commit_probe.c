/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commit, the probe of the direct route: every pair with direct packets sends each other a few messages of different
 * sizes, from device memory to device memory, with the digests and the keys that real packets have. Each end tells the
 * other what it found, so that both know alike whether all was right, there and here.
 *
 * All messages of a probe have the commit's tag on the set-up channel, so that what a failed commit leaves behind never
 * meets a later one. All pairs are probed at the same time: ranks that waited for one peer after the other could wait
 * around a ring. Memory that the wire may still touch at the end is set aside.
 *
 * An MPI that loses messages of device memory must not hold up the commit for the deadline: they have a limit of their
 * own. It counts from when both ends of the pair have opened them. In a commit of all ranks that is at once; neighbours
 * say it, because one of them may wait for a neighbour of its own before.
 */
#include <string.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "base/base_status.h"
#include "comm/comm_control.h"
#include "pipeline/pipe_commit.h"
#include "pipeline/pipe_phases.h"

/* One word; one that goes with its envelope; one that does not, and is no multiple of anything. */
enum { PROBES = 3, PROBE_BYTES_0 = 8, PROBE_BYTES_1 = 4096, PROBE_BYTES_2 = (1 << 20) + 1, LANDING_FILL = 0xa5 };
static const size_t probe_bytes[PROBES] = {PROBE_BYTES_0, PROBE_BYTES_1, PROBE_BYTES_2};
/* The pieces lie at odd distances: what an MPI takes is not always aligned. */
static const size_t probe_offset[PROBES] = {0, PROBE_BYTES_0 + 1, PROBE_BYTES_0 + PROBE_BYTES_1 + 2};
enum { AREA_BYTES = PROBE_BYTES_0 + PROBE_BYTES_1 + PROBE_BYTES_2 + 2 };

/* In pinned memory. */
typedef struct probe_words {
    sv_record_t sent[PROBES], arrived[PROBES];
    sv_verify_result_t result[PROBES];
    uint64_t good_here, good_there;
} probe_words_t;

/* In device memory. */
typedef struct probe_memory {
    sv_digest_scratch_t scratch[2 * PROBES];
    uint8_t recv_slots[AREA_BYTES];
} probe_memory_t;

/* Requests in the order of the messages: payload and record of every probe, then what was found. */
enum { SENDS_PER_PROBE = 2, MESSAGES = PROBES * SENDS_PER_PROBE + 1, FOUND = MESSAGES - 1 };

typedef struct sv_direct_probe {
    probe_memory_t *memory;
    probe_words_t *words;
    sv_wire_request_t send[MESSAGES], recv[MESSAGES];
    bool sending[MESSAGES], receiving[MESSAGES]; /* open requests */
    bool damaged;                                /* a message had another size */
    uint64_t both_open_ns;                       /* when both ends had opened them; 0: not yet */
} sv_direct_probe_t;

/* One step of all pairs. */
typedef struct step {
    selvage_exchange_t *x;
    uint8_t *area;   /* device: what everybody is sent */
    uint8_t *source; /* pinned: where it comes from */
    void *stream;
} step_t;

/* --- the messages of one pair ------------------------------------------------------------------------------------- */

/* What packet a probe is: no real one, because their epochs begin at 1. */
static sv_record_t identity_of(const sv_peer_t *peer, int source, int destination, uint32_t number)
{
    return (sv_record_t){.magic = SV_RECORD_MAGIC,
                         .version = SV_RECORD_VERSION,
                         .kind = SV_RECORD_PACKET,
                         .exchange = peer->exchange_id,
                         .index = number,
                         .source = (uint32_t)source,
                         .destination = (uint32_t)destination,
                         .bytes = probe_bytes[number],
                         .salt = number};
}

static selvage_status_t launch_digest(const step_t *step, sv_digest_arg_t *arg)
{
    sv_device_t *dev = step->x->comm->dev;
    arg->key = sv_digest_key(&arg->identity);
    arg->bytes = arg->identity.bytes;
    return SV_DEVICE_CALL(dev, launch, &sv_kernel_digest, arg, sizeof *arg, dev->launch_blocks, step->stream);
}

/* Memory of a pair, with records of what will be sent and nothing like it where it will land. */
static selvage_status_t make_probe(const step_t *step, sv_peer_t *peer)
{
    selvage_exchange_t *x = step->x;
    sv_device_t *dev = x->comm->dev;
    void *memory, *words;
    SV_TRY(sv_calloc(1, sizeof *peer->probe, &peer->probe));
    SV_TRY(SV_DEVICE_CALL(dev, malloc, sizeof(probe_memory_t), &memory));
    peer->probe->memory = memory;
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, sizeof(probe_words_t), &words));
    peer->probe->words = words;
    memset(words, 0, sizeof(probe_words_t));
    SV_TRY(SV_DEVICE_CALL(dev, fill_async, peer->probe->memory->scratch, 0, sizeof peer->probe->memory->scratch,
                          step->stream));
    SV_TRY(SV_DEVICE_CALL(dev, fill_async, peer->probe->memory->recv_slots, LANDING_FILL, AREA_BYTES, step->stream));
    for (uint32_t i = 0; i < PROBES; i++) {
        sv_digest_arg_t arg = {.src = step->area + probe_offset[i],
                               .scratch = &peer->probe->memory->scratch[i],
                               .record = (uint8_t *)&peer->probe->words->sent[i],
                               .mode = SV_DIGEST_PREPARE,
                               .identity = identity_of(peer, x->comm->wire->rank, peer->rank, i)};
        SV_TRY(launch_digest(step, &arg));
    }
    return SELVAGE_SUCCESS;
}

static selvage_status_t send_message(const step_t *step, sv_peer_t *peer, int number, const void *buf, size_t bytes)
{
    selvage_comm_t *comm = step->x->comm;
    SV_TRY(sv_wire_send(comm->wire, SV_WIRE_SETUP, buf, bytes, peer->rank,
                        sv_commit_probe_tag(comm, step->x->number), &peer->probe->send[number]));
    peer->probe->sending[number] = true;
    return SELVAGE_SUCCESS;
}

static selvage_status_t post_message(const step_t *step, sv_peer_t *peer, int number, void *buf, size_t bytes)
{
    selvage_comm_t *comm = step->x->comm;
    SV_TRY(sv_wire_recv(comm->wire, SV_WIRE_SETUP, buf, bytes, peer->rank,
                        sv_commit_probe_tag(comm, peer->number), &peer->probe->recv[number]));
    peer->probe->receiving[number] = true;
    return SELVAGE_SUCCESS;
}

static selvage_status_t open_messages(const step_t *step, sv_peer_t *peer)
{
    sv_direct_probe_t *probe = peer->probe;
    for (int i = 0; i < PROBES; i++) {
        SV_TRY(post_message(step, peer, 2 * i, probe->memory->recv_slots + probe_offset[i], probe_bytes[i]));
        SV_TRY(post_message(step, peer, 2 * i + 1, &probe->words->arrived[i], SV_RECORD_BYTES));
    }
    SV_TRY(post_message(step, peer, FOUND, &probe->words->good_there, sizeof probe->words->good_there));
    for (int i = 0; i < PROBES; i++) {
        SV_TRY(send_message(step, peer, 2 * i, step->area + probe_offset[i], probe_bytes[i]));
        SV_TRY(send_message(step, peer, 2 * i + 1, &probe->words->sent[i], SV_RECORD_BYTES));
    }
    return step->x->neighbors ? sv_neighbors_say(step->x, peer, SV_STAGE_PROBING) : SELVAGE_SUCCESS;
}

static size_t probe_message_bytes(int number)
{
    if (number == FOUND)
        return sizeof(uint64_t);
    return number % 2 ? SV_RECORD_BYTES : probe_bytes[number / 2];
}

static selvage_status_t poll_message(sv_wire_t *wire, sv_wire_request_t *request, bool *open, size_t *bytes)
{
    if (!*open)
        return SELVAGE_SUCCESS;
    selvage_status_t status = sv_wire_test(wire, request, bytes);
    *open = status != SELVAGE_SUCCESS; /* after an error the wire may still hold the memory */
    return status < 0 ? status : SELVAGE_SUCCESS;
}

/* Advances messages first .. last-1 of a pair; *through_out: none of them is open. */
static selvage_status_t poll_messages(sv_wire_t *wire, sv_direct_probe_t *probe, int first, int last, bool *through_out)
{
    for (int i = first; i < last; i++) {
        size_t bytes = probe_message_bytes(i);
        SV_TRY(poll_message(wire, &probe->recv[i], &probe->receiving[i], &bytes));
        probe->damaged |= !probe->receiving[i] && bytes != probe_message_bytes(i);
        SV_TRY(poll_message(wire, &probe->send[i], &probe->sending[i], NULL));
        *through_out &= !probe->sending[i] && !probe->receiving[i];
    }
    return SELVAGE_SUCCESS;
}

static bool is_probe_sent(const sv_direct_probe_t *probe)
{
    for (int i = 0; i < FOUND; i++)
        if (probe->sending[i] || probe->receiving[i])
            return false;
    return true;
}

static selvage_status_t launch_verify(const step_t *step, sv_peer_t *peer)
{
    selvage_exchange_t *x = step->x;
    sv_direct_probe_t *probe = peer->probe;
    for (uint32_t i = 0; i < PROBES && is_probe_sent(probe); i++) {
        sv_digest_arg_t arg = {.src = probe->memory->recv_slots + probe_offset[i],
                               .scratch = &probe->memory->scratch[PROBES + i],
                               .record = (uint8_t *)&probe->words->arrived[i],
                               .result = &probe->words->result[i],
                               .mode = SV_DIGEST_VERIFY,
                               .identity = identity_of(peer, peer->rank, x->comm->wire->rank, i)};
        SV_TRY(launch_digest(step, &arg));
    }
    return SELVAGE_SUCCESS;
}

/* Both ends must come to the same decision, so the word must be one of two, and of this pair and commit. */
static uint64_t found_word(const sv_peer_t *peer, int source, int destination, bool good)
{
    const uint64_t pair = (uint64_t)(uint32_t)source << 32 | (uint32_t)destination;
    return sv_digest_mix(sv_digest_mix(peer->exchange_id + good) + pair) | 1;
}

static selvage_status_t compare_found(const step_t *step, sv_peer_t *peer)
{
    const int own = step->x->comm->wire->rank;
    uint64_t word = peer->probe->words->good_there;
    peer->direct_proved = word == found_word(peer, peer->rank, own, true) &&
                          peer->probe->words->good_here == found_word(peer, own, peer->rank, true);
    if (word != found_word(peer, peer->rank, own, true) && word != found_word(peer, peer->rank, own, false))
        return sv_error(SELVAGE_ERR_CHECKSUM, "selvage_exchange_commit: what rank %d says of its probe came damaged",
                        peer->rank);
    return SELVAGE_SUCCESS;
}

static selvage_status_t send_found(const step_t *step, sv_peer_t *peer)
{
    sv_direct_probe_t *probe = peer->probe;
    bool good = is_probe_sent(probe) && !probe->damaged;
    for (int i = 0; i < PROBES; i++)
        good &= probe->words->result[i].verified != 0;
    probe->words->good_here = found_word(peer, step->x->comm->wire->rank, peer->rank, good);
    return send_message(step, peer, FOUND, &probe->words->good_here, sizeof probe->words->good_here);
}

/* --- all pairs ---------------------------------------------------------------------------------------------------- */

static selvage_status_t for_each_probed(const step_t *step, selvage_status_t (*act)(const step_t *, sv_peer_t *))
{
    for (sv_list_t *it = step->x->peers.next; it != &step->x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (peer->wants_direct && sv_commit_peer_is_able(peer))
            SV_TRY(act(step, peer));
    }
    return SELVAGE_SUCCESS;
}

/* Whether messages of a pair have had their time; see above. What was found has that of any word of a commit. */
static bool is_probe_over(const selvage_exchange_t *x, const sv_peer_t *peer, int first, uint64_t begin_ns)
{
    sv_direct_probe_t *probe = peer->probe;
    const double deadline_s = x->comm->timeout_s, probe_s = x->comm->exchanges->probe_timeout_s;
    if (!probe->both_open_ns && (!x->neighbors || peer->talk.heard[SV_STAGE_PROBING]))
        probe->both_open_ns = sv_clock_ns();
    const bool counts = first < FOUND && probe->both_open_ns;
    const double limit_s = counts && (deadline_s <= 0 || deadline_s > probe_s) ? probe_s : deadline_s;
    const uint64_t since_ns = counts ? probe->both_open_ns : begin_ns;
    return limit_s > 0 && (double)(sv_clock_ns() - since_ns) > limit_s * 1e9;
}

static selvage_status_t report_silent_probe(const selvage_exchange_t *x, const sv_peer_t *peer, int first)
{
    if (first == FOUND)
        return sv_error(SELVAGE_ERR_TIMEOUT, "selvage_exchange_commit: rank %d has not said for %g s whether direct "
                        "packets arrive there", peer->rank, x->comm->timeout_s);
    return sv_error(SELVAGE_ERR_TIMEOUT, "selvage_exchange_commit: rank %d, a neighbour, has not begun to probe the "
                    "direct route for %g s", peer->rank, x->comm->timeout_s);
}

/* Polls messages first .. last-1 of all pairs. What is lost of a probe is no error; IN_PROGRESS: the commit is lost. */
static selvage_status_t complete_probe_messages(const step_t *step, int first, int last)
{
    selvage_exchange_t *x = step->x;
    const uint64_t begin_ns = sv_clock_ns();
    sv_deadline_t deadline;
    sv_deadline_begin(&deadline, x->comm, 0);
    while (x->neighbors ? !sv_neighbors_lost(x) : !sv_agree_is_lost(x->comm)) {
        bool waits = false;
        for (sv_list_t *it = x->peers.next; it != &x->peers; it = it->next) {
            bool through = true;
            sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
            if (peer->probe)
                SV_TRY(poll_messages(x->comm->wire, peer->probe, first, last, &through));
            if (through)
                continue;
            const bool over = is_probe_over(x, peer, first, begin_ns);
            if (over && (first == FOUND || !peer->probe->both_open_ns))
                return report_silent_probe(x, peer, first);
            waits |= !over;
        }
        if (!waits)
            return SELVAGE_SUCCESS;
        if (x->neighbors)
            sv_neighbors_repeat(x);
        SV_TRY(sv_deadline_poll(&deadline));
    }
    return SELVAGE_IN_PROGRESS;
}

static selvage_status_t make_area(step_t *step)
{
    sv_device_t *dev = step->x->comm->dev;
    void *area, *source;
    SV_TRY(SV_DEVICE_CALL(dev, stream_create, &step->stream));
    SV_TRY(SV_DEVICE_CALL(dev, malloc, AREA_BYTES, &area));
    step->area = area;
    SV_TRY(SV_DEVICE_CALL(dev, host_malloc, AREA_BYTES, &source));
    step->source = source;
    for (size_t i = 0; i < AREA_BYTES; i++)
        step->source[i] = (uint8_t)sv_digest_mix(step->x->id + i);
    return SV_DEVICE_CALL(dev, copy_async, step->area, step->source, AREA_BYTES, SV_COPY_H2D, step->stream);
}

static selvage_status_t probe_all(step_t *step)
{
    sv_device_t *dev = step->x->comm->dev;
    SV_TRY(make_area(step));
    SV_TRY(for_each_probed(step, make_probe));
    SV_TRY(SV_DEVICE_CALL(dev, stream_sync, step->stream));
    SV_TRY(for_each_probed(step, open_messages));
    SV_TRY(complete_probe_messages(step, 0, FOUND));
    SV_TRY(for_each_probed(step, launch_verify));
    SV_TRY(SV_DEVICE_CALL(dev, stream_sync, step->stream));
    SV_TRY(for_each_probed(step, send_found));
    SV_TRY(complete_probe_messages(step, FOUND, MESSAGES));
    return for_each_probed(step, compare_found);
}

/* Whether the wire has let go of everything that this probe gave it. */
static bool end_messages(sv_wire_t *wire, sv_direct_probe_t *probe)
{
    bool quiet = true;
    for (int i = 0; i < MESSAGES; i++) {
        if (probe->receiving[i])
            quiet &= sv_wire_cancel(wire, &probe->recv[i]) == SELVAGE_SUCCESS;
        if (probe->sending[i])
            quiet &= sv_wire_cancel(wire, &probe->send[i]) == SELVAGE_SUCCESS;
    }
    return quiet;
}

static void free_area(const step_t *step, bool quiet)
{
    sv_device_t *dev = step->x->comm->dev;
    if (step->stream)
        SV_DEVICE_CALL(dev, stream_destroy, step->stream);
    if (step->source)
        SV_DEVICE_CALL(dev, host_free, step->source);
    if (step->area && quiet)
        SV_DEVICE_CALL(dev, free, step->area);
    if (!quiet)
        sv_log(SV_LOG_WARN, "commit", "memory of a probe of the direct route is set aside: MPI has not let go of it");
}

/* Keeps the answers, and frees everything but what the wire holds. */
static void free_probes(step_t *step)
{
    sv_device_t *dev = step->x->comm->dev;
    bool all_drained = true;
    if (step->stream)
        (void)SV_DEVICE_CALL(step->x->comm->dev_under, stream_sync, step->stream);
    for (sv_list_t *it = step->x->peers.next; it != &step->x->peers; it = it->next) {
        sv_peer_t *peer = SV_CONTAINER_OF(it, sv_peer_t, link);
        if (!peer->probe)
            continue;
        bool quiet = end_messages(step->x->comm->wire, peer->probe);
        if (quiet && peer->probe->memory)
            SV_DEVICE_CALL(dev, free, peer->probe->memory);
        if (quiet && peer->probe->words)
            SV_DEVICE_CALL(dev, host_free, peer->probe->words);
        sv_free(peer->probe);
        peer->probe = NULL;
        all_drained &= quiet;
    }
    free_area(step, all_drained);
}

selvage_status_t sv_commit_probe_pairs(selvage_exchange_t *x)
{
    step_t step = {.x = x};
    selvage_status_t status = probe_all(&step);
    free_probes(&step);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters: how a message on the fast route (drop_fast.c) announces itself, and what its receiver makes of that. The
 * caller has the lock of drop_request.c.
 */
#include "interpose/drop_route.h"

#include <limits.h>
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
    return sv_drop_route.drives || (sv_drop_route.near[to] && bytes * count <= sv_drop_route.slot_bytes);
}

bool sv_drop_fast_hears(void)
{
    return sv_drop_route.threads || sv_drop_fast_is_open();
}

/* Whether a letter may come to a receive into host memory before it is complete. */
static bool may_come(void)
{
    if (sv_drop_route.drives || sv_drop_fast_is_open() || sv_drop_may_have_device())
        return true;
    atomic_store_explicit(&sv_drop_route.unwatched, true, memory_order_relaxed);
    return false;
}

/* A receive that is too short for what a letter announces must say so, if it is long enough for the letter. */
bool sv_drop_fast_watches(int64_t count, MPI_Datatype type, bool device)
{
    return !sv_drop_route.refused && is_as_long(count, type, device ? SV_DROP_LETTER_BYTES : sv_drop_settings()->fast_bytes) &&
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
    letter_t letter = {LETTER_MAGIC, sv_drop_route.job, (uint64_t)(bytes * count), sv_drop_rank(MPI_COMM_WORLD), sv_drop_route.next_id};
    if ((sv_drop_route.drives ? selvage_message_isend : selvage_message_ibsend)(
            sv_drop_route.world, buf, (size_t)count, type, to, sv_drop_route.next_id, SELVAGE_MESSAGE_NO_STREAM, &state->request) !=
        SELVAGE_SUCCESS)
        return NULL; /* a type that nobody takes apart, or no slot */
    sv_drop_route.next_id = sv_drop_route.next_id == INT32_MAX ? 0 : sv_drop_route.next_id + 1;
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
    return letter->magic == LETTER_MAGIC && letter->job == sv_drop_route.job;
}

/* Another thread may open the route while this one looks, or waits, for a message. */
bool sv_drop_fast_reads(void)
{
    return sv_drop_fast_wanted && !atomic_load_explicit(&sv_drop_route.refused, memory_order_relaxed) &&
           (sv_drop_route.threads || sv_drop_route.world);
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
    return selvage_message_irecv(sv_drop_route.world, to, (size_t)(each * state->count), MPI_BYTE, letter->source, letter->id,
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
        status = selvage_message_irecv(sv_drop_route.world, state->buf, (size_t)state->count, state->type, letter->source,
                                       letter->id, SELVAGE_MESSAGE_NO_STREAM, &state->request);
    else
        status = selvage_message_irecv(sv_drop_route.world, sv_drop_address(region), (size_t)region->count,
                                       region->packed ? region->type : state->type, letter->source, letter->id,
                                       SELVAGE_MESSAGE_NO_STREAM, &state->request);
    return status == SELVAGE_ERR_UNSUPPORTED && region ? receive_packed(state, region, letter) : status;
}

bool sv_drop_fast_hear(sv_drop_fast_t *state, const sv_drop_call_t *call, const MPI_Status *status)
{
    letter_t letter;
    MPI_Count bytes = 0;
    int cancelled = 0;
    if (!state->listens || !sv_drop_route.world)
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

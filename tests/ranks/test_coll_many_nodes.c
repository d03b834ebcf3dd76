/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives among more nodes than exchange pieces directly, with threads as ranks: 17 to 64 nodes, also of two. What
 * is short goes by trees, and sums have the bits of those that go from node to node, which are added in the same order;
 * of many sizes, types and roots, from one share to more rows than slots. A rank that does not come, an abort, and
 * damage on the wire are errors on all ranks, or are mended.
 */
#include <stdlib.h>

#include "base/base_clock.h"
#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include "collective/coll_nodes.h"
#include "fixtures/local_ranks.h"
#include "wire/wire_local.h"

enum { RANKS = 64, TINY_CHUNK = 2048, LONGEST_BYTES = 24 << 10 };

static const coll_case_t cases[] = {
    {.call = COLL_ALL_REDUCE, .count = 1, .terms = {.type = SELVAGE_FLOAT64, .op = SELVAGE_OP_SUM}},
    {.call = COLL_ALL_REDUCE, .count = 333, .terms = {.type = SELVAGE_FLOAT32, .op = SELVAGE_OP_SUM}},
    {.call = COLL_ALL_REDUCE, .count = 1999, .in_place = true,
     .terms = {.type = SELVAGE_BFLOAT16, .op = SELVAGE_OP_SUM}},
    {.call = COLL_ALL_REDUCE, .count = 77, .shift = 3, .terms = {.type = SELVAGE_FLOAT16, .op = SELVAGE_OP_AVG}},
    {.call = COLL_ALL_REDUCE, .count = 5, .terms = {.type = SELVAGE_UINT8, .op = SELVAGE_OP_MAX}},
    {.call = COLL_ALL_REDUCE, .count = 5001, .terms = {.type = SELVAGE_FLOAT32, .op = SELVAGE_OP_SUM}},
    {.call = COLL_REDUCE, .count = 3, .root = 1, .terms = {.type = SELVAGE_BFLOAT16, .op = SELVAGE_OP_SUM}},
    {.call = COLL_REDUCE, .count = 901, .root = 16, .terms = {.type = SELVAGE_FLOAT32, .op = SELVAGE_OP_AVG}},
    {.call = COLL_REDUCE, .count = 4001, .root = 5, .terms = {.type = SELVAGE_FLOAT32, .op = SELVAGE_OP_SUM}},
    {.call = COLL_BROADCAST, .count = 1, .root = 0, .terms = {.type = SELVAGE_INT32}},
    {.call = COLL_BROADCAST, .count = 5003, .root = 13, .terms = {.type = SELVAGE_INT32}},
    {.call = COLL_ALL_GATHER, .count = 3, .terms = {.type = SELVAGE_INT32}},
    {.call = COLL_REDUCE_SCATTER, .count = 3, .terms = {.type = SELVAGE_FLOAT32, .op = SELVAGE_OP_SUM}},
};
enum { CASES = sizeof cases / sizeof cases[0] };

typedef struct many {
    bool tree, tiny;
    uint64_t digests[CASES];   /* of rank 0's outputs (of a reduce the root's), by the way before; 0: none */
} many_t;

static selvage_coll_t *open_coll(local_rank_t *self, bool tiny)
{
    selvage_coll_t *coll = NULL;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    if (!coll)
        abort();
    if (tiny)
        coll->arena->staging->chunk_bytes = TINY_CHUNK;
    return coll;
}

/* What the last call's first row did: so a test that is meant for trees fails where none was used. */
static bool went_by_tree(const selvage_coll_t *coll, int call)
{
    const sv_coll_staging_t *staging = coll->arena->staging;
    if (call == COLL_BROADCAST)
        return staging->down[0].row.next == SV_COLL_TREE;
    return staging->up[0].row.from == SV_COLL_TREE;
}

/* All cases, with values whose sums depend on the order. What the reference cannot tell of that, digests do. */
static void run_many(local_rank_t *self)
{
    many_t *many = self->arg;
    coll_try_t try;
    selvage_coll_t *coll = open_coll(self, many->tiny);
    coll_try_open(&try, coll, self->dev, LONGEST_BYTES, false);
    for (unsigned i = 0; i < CASES; i++) {
        coll_case_t what = cases[i];
        const bool is_short = what.count * coll_type_bytes(what.terms.type) <= 4096;
        size_t bytes;
        what.root %= self->size;
        what.any_order = true;
        what.terms.nranks = self->size;
        what.terms.seed = i + 1;
        what.terms.values = what.terms.op == SELVAGE_OP_MAX ? COLL_SPECIAL : COLL_ORDERED;
        coll_try_run(&try, &what, NULL);
        if (self->size > SV_COLL_DIRECT_NODES && is_short && what.call != COLL_ALL_GATHER &&
            what.call != COLL_REDUCE_SCATTER)
            CHECK_EQ(went_by_tree(coll, what.call), many->tree);
        const uint8_t *output = coll_try_output(&try, &bytes);
        if (self->rank != (what.call == COLL_REDUCE ? what.root : 0))
            continue;
        const uint64_t own = sv_digest_sum(1, 0, output, bytes);
        CHECK(many->digests[i] == 0 || many->digests[i] == own);
        many->digests[i] = own;
    }
    coll_try_close(&try);
    selvage_coll_destroy(coll);
}

/* The chain first, whose bits the others are to have. */
static void test_many(int size, int ranks_per_node)
{
    static const char *const ways[] = {"COLL_INTERNODE=chain", "", "PROGRESS=thread"};
    many_t many = {0};
    const long failed = atomic_load(&check_failed_);
    for (unsigned way = 0; way < (check_brief() ? 2 : 3); way++)
        for (unsigned tiny = 0; tiny < 2; tiny++) {
            many.tree = way > 0;
            many.tiny = tiny;
            local_ranks_env(ways[way]);
            local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = ranks_per_node, .body = run_many,
                                           .arg = &many});
            if (atomic_load(&check_failed_) != failed)
                fprintf(stderr, "%d ranks, %d per node, %s\n", size, ranks_per_node, ways[way]);
        }
}

static float *make_floats(local_rank_t *self, size_t count)
{
    void *memory;
    CHECK_STATUS(selvage_device_malloc(self->dev, count * sizeof(float), &memory), SELVAGE_SUCCESS);
    memset(memory, 0, count * sizeof(float));
    return memory;
}

enum { MENDED_COUNT = 300, MENDED_TURNS = 6 };

/* Every n-th message on the wire comes with a bit flipped, shares that others bring on among them. */
static void run_many_mended(local_rank_t *self)
{
    float *in = make_floats(self, MENDED_COUNT), *out = make_floats(self, MENDED_COUNT);
    sv_wire_local_corrupt_some(self->comm->wire, 1, 11);
    selvage_coll_t *coll = open_coll(self, false);
    for (int turn = 0; turn < MENDED_TURNS; turn++) {
        long wrong = 0;
        const int root = turn % self->size;
        for (int i = 0; i < MENDED_COUNT; i++)
            in[i] = (float)(self->rank + turn + i % 7);
        CHECK_STATUS(turn % 3 == 0   ? selvage_coll_all_reduce(coll, in, out, MENDED_COUNT, SELVAGE_FLOAT32,
                                                               SELVAGE_OP_SUM, NULL)
                     : turn % 3 == 1 ? selvage_coll_broadcast(coll, in, out, MENDED_COUNT, SELVAGE_FLOAT32, root, NULL)
                                     : selvage_coll_reduce(coll, in, out, MENDED_COUNT, SELVAGE_FLOAT32,
                                                           SELVAGE_OP_SUM, root, NULL),
                     SELVAGE_SUCCESS);
        CHECK_STATUS(selvage_stream_synchronize(self->dev, NULL), SELVAGE_SUCCESS);
        for (int i = 0; i < MENDED_COUNT && (turn % 3 != 2 || self->rank == root); i++) {
            const int of_root = root + turn + i % 7, n = self->size;
            wrong += out[i] != (float)(turn % 3 == 1 ? of_root : n * (n - 1) / 2 + n * (turn + i % 7));
        }
        CHECK_EQ(wrong, 0);
    }
    const uint64_t hit = sv_wire_local_corrupt_some(self->comm->wire, 0, 0);
    CHECK(hit > 0);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, in);
    selvage_device_free(self->dev, out);
}

/* What comes damaged each time is found, and all ranks end with an error that is no success. */
static void run_many_damaged(local_rank_t *self)
{
    selvage_coll_t *coll = open_coll(self, false);
    float *data = make_floats(self, 500);
    if (self->rank == 3)
        sv_wire_local_corrupt_long(self->comm->wire, 1500);
    selvage_status_t status = selvage_coll_all_reduce(coll, data, data, 500, SELVAGE_FLOAT32, SELVAGE_OP_SUM, NULL);
    if (status == SELVAGE_SUCCESS) /* all its messages were over before */
        status = selvage_coll_barrier(coll, NULL);
    CHECK_STATUS(status, SELVAGE_ERR_CHECKSUM);
    CHECK(strstr(selvage_error_detail(), "rank "));
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_ERR_CHECKSUM);
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

/* One rank does not come. */
static void run_many_late(local_rank_t *self)
{
    selvage_coll_t *coll = open_coll(self, false);
    float *data = make_floats(self, 500);
    local_ranks_deadline(self, coll, 3);
    const uint64_t begin_ns = sv_clock_ns();
    if (self->rank != 3)
        CHECK_STATUS(selvage_coll_all_reduce(coll, data, data, 500, SELVAGE_FLOAT32, SELVAGE_OP_SUM, NULL),
                     SELVAGE_ERR_TIMEOUT);
    local_ranks_barrier(self);
    CHECK_STATUS(selvage_coll_barrier(coll, NULL), SELVAGE_ERR_TIMEOUT);
    CHECK(strstr(selvage_error_detail(), "rank "));
    CHECK((double)(sv_clock_ns() - begin_ns) < 60e9);
    local_ranks_barrier(self);
    selvage_coll_destroy(coll);
    selvage_device_free(self->dev, data);
}

static void run_many_bad(int size, void (*body)(local_rank_t *self), const char *environment)
{
    const long failed = atomic_load(&check_failed_);
    local_ranks_env(environment);
    local_ranks_run(&(local_run_t){.size = size, .ranks_per_node = 1, .body = body, .log_expected = true,
                                   .may_set_aside = true});
    if (atomic_load(&check_failed_) != failed)
        fprintf(stderr, "%d ranks, %s\n", size, environment);
}

/* With any argument on more nodes, too; that takes minutes where cores are few. */
int main(int argc, char **argv)
{
    (void)argv;
    test_many(17, 1);
    if (!check_brief())
        test_many(36, 2);
    if (argc > 1) {
        test_many(33, 1);
        test_many(RANKS, 1);
    }
    run_many_bad(18, run_many_mended, "TIMEOUT_S=60");
    run_many_bad(19, run_many_damaged, "TIMEOUT_S=60");
    run_many_bad(18, run_many_late, "TIMEOUT_S=60");
    return check_report("test_coll_many_nodes");
}

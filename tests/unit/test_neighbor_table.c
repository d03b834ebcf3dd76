/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of ranks that this one commits with by neighbours: each rank is there once, also where many share a chain,
 * and the last exchange of a pair comes first, whichever have left. Nothing is left when memory runs out.
 */
#include "base/base_fault.h"
#include "base/base_memory.h"
#include "base/base_thread.h"
#include "fixtures/check.h"
#include "pipeline/neighbor_table.h"
#include "pipeline/pipe_exchange.h"

enum { RANKS = 5000, STEP = 64 /* as of neighbours in a grid, which are apart by powers of two */ };

static sv_neighbor_table_t table;

/* Every rank by steps, and again: the same neighbours; ranks in between are not there. Returns the longest chain. */
static int fill_table(void)
{
    int longest = 0;
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < RANKS; i++) {
            sv_neighbor_t *made = NULL;
            CHECK_STATUS(sv_neighbor_make(&table, i * STEP, &made), SELVAGE_SUCCESS);
            CHECK(made && made->rank == i * STEP && made == sv_neighbor_find(&table, i * STEP));
            CHECK_EQ(made->turns_here, again);
            made->turns_here++;
            CHECK(sv_neighbor_find(&table, i * STEP + 1) == NULL);
        }
    for (int i = 0; i < SV_NEIGHBOR_CHAINS; i++) {
        int length = 0;
        for (const sv_list_t *it = table.chain[i].next; it != &table.chain[i]; it = it->next)
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static const sv_peer_t *first_pair(const sv_neighbor_t *neighbor)
{
    return sv_list_is_empty(&neighbor->pairs) ? NULL : SV_CONTAINER_OF(neighbor->pairs.next, sv_peer_t, pair_link);
}

static void check_pairs(void)
{
    static sv_peer_t peer[3];
    sv_neighbor_t *neighbor = sv_neighbor_find(&table, STEP);
    CHECK(first_pair(neighbor) == NULL);
    for (int i = 0; i < 3; i++) {
        sv_list_init(&peer[i].pair_link);
        sv_neighbor_add_pair(neighbor, &peer[i]);
        CHECK(first_pair(neighbor) == &peer[i]);
    }
    sv_neighbor_add_pair(neighbor, &peer[0]); /* it is there: its place stays */
    CHECK(first_pair(neighbor) == &peer[2]);
    sv_list_remove(&peer[1].pair_link);
    CHECK(first_pair(neighbor) == &peer[2]);
    sv_list_remove(&peer[2].pair_link);
    CHECK(first_pair(neighbor) == &peer[0]);
    sv_list_remove(&peer[0].pair_link);
    CHECK(first_pair(neighbor) == NULL);
}

static void check_no_memory(void)
{
    sv_neighbor_t *made = NULL;
    sv_fault_t fault;
    CHECK_STATUS(sv_fault_parse("alloc=1", 0, &fault), SELVAGE_SUCCESS);
    sv_thread_binding()->fault = &fault;
    CHECK_STATUS(sv_neighbor_make(&table, 1, &made), SELVAGE_ERR_MEMORY);
    sv_thread_binding()->fault = NULL;
    CHECK(sv_neighbor_find(&table, 1) == NULL);
}

int main(void)
{
    const int64_t before = sv_memory_live();
    sv_neighbor_table_init(&table);
    CHECK(sv_neighbor_find(&table, 0) == NULL);
    CHECK(fill_table() < 4 * RANKS / SV_NEIGHBOR_CHAINS);
    check_pairs();
    check_no_memory();
    sv_neighbor_table_fini(&table);
    CHECK_EQ(sv_memory_live(), before);
    CHECK(sv_neighbor_find(&table, 0) == NULL);
    return check_report("neighbor_table");
}

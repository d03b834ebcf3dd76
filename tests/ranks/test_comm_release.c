/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that run another release of the library than others are refused by name, on all ranks. Each names one that has
 * another release than itself.
 */
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "fixtures/check.h"
#include "fixtures/local_ranks.h"

enum { RANKS = 4, OLD = 105, NOW = 200, LATER = 31207 };

static void check_release(local_rank_t *self, const uint64_t *numbers, const char *const *words)
{
    sv_comm_bind(self->comm);
    const selvage_status_t status = sv_comm_agree_release(self->comm, numbers[self->rank]);
    CHECK_STATUS(status, words ? SELVAGE_ERR_MISMATCH : SELVAGE_SUCCESS);
    if (!words)
        return;
    const bool named = strstr(selvage_error_detail(), words[self->rank]) != NULL;
    CHECK(named);
    if (!named)
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", words[self->rank], selvage_error_detail());
}

static void compare_releases(local_rank_t *self)
{
    static const uint64_t alike[RANKS] = {NOW, NOW, NOW, NOW}, one_old[RANKS] = {NOW, NOW, OLD, NOW},
                          three[RANKS] = {LATER, OLD, NOW, LATER};
    static const char newer[] = "this rank runs Selvage 0.2.0, and rank 2 runs 0.1.5";
    static const char *const old_words[RANKS] = {
        newer, newer, "this rank runs Selvage 0.1.5, and rank 0 runs 0.2.0", newer};
    static const char *const three_words[RANKS] = {
        "this rank runs Selvage 3.12.7, and rank 1 runs 0.1.5",
        "this rank runs Selvage 0.1.5, and rank 0 runs 3.12.7",
        "this rank runs Selvage 0.2.0, and rank 1 runs 0.1.5",
        "this rank runs Selvage 3.12.7, and rank 1 runs 0.1.5"};
    check_release(self, alike, NULL);
    check_release(self, one_old, old_words);
    check_release(self, three, three_words);
    check_release(self, alike, NULL); /* nothing is left of it */
}

int main(void)
{
    local_ranks_mode("");
    local_ranks_run(&(local_run_t){.size = RANKS, .ranks_per_node = 2, .log_expected = true,
                                   .body = compare_releases});
    return check_report("test_comm_release");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives where the software device stores lines late and in any order, which all protocols must bear, and where it
 * tears long lines, which the trial at creation must find: LL128 is then off, and everything else right.
 */
#include <string.h>

#include "fixtures/check.h"
#include "fixtures/coll_case.h"
#include "collective/coll_handle.h"
#include "fixtures/local_ranks.h"

enum { CAPACITY = 1 << 16, STRIDE = 7 };

static void run_cases(local_rank_t *self)
{
    const bool torn = strstr(self->arg, "torn"), any_order = strstr(self->arg, "ring") || strstr(self->arg, "pat");
    selvage_coll_t *coll = NULL;
    void *stream;
    coll_try_t try;
    coll_case_t what;
    CHECK_STATUS(selvage_coll_create(self->comm, NULL, &coll), SELVAGE_SUCCESS);
    if (!coll)
        return;
    CHECK_EQ(coll->facts.has_ll128, !torn);
    CHECK_STATUS(selvage_coll_error(coll), SELVAGE_SUCCESS);
    CHECK_STATUS(selvage_stream_create(self->dev, &stream), SELVAGE_SUCCESS);
    coll_try_open(&try, coll, self->dev, CAPACITY, true);
    for (unsigned i = 0; coll_case_systematic(i, self->size, &what); i += STRIDE) {
        what.any_order = any_order;
        if (coll_case_bytes(&what) <= CAPACITY && !(any_order && what.terms.values == COLL_SPECIAL))
            CHECK(coll_try_run(&try, &what, stream));
    }
    coll_try_close(&try);
    selvage_stream_destroy(self->dev, stream);
    selvage_coll_destroy(coll);
}

int main(void)
{
    static char settings[][80] = {"SOFT_STORES=late COLL_ALGO=oneshot COLL_PROTO=ll",
                                  "SOFT_STORES=late COLL_ALGO=twoshot COLL_PROTO=ll128",
                                  "SOFT_STORES=late COLL_ALGO=ring COLL_PROTO=simple",
                                  "SOFT_STORES=late COLL_ALGO=ring COLL_PROTO=ll COLL_CHECKSUM=on",
                                  "SOFT_STORES=late COLL_ALGO=pat COLL_PROTO=ll128 COLL_CHECKSUM=on",
                                  "SOFT_STORES=late COLL_ALGO=direct",
                                  "SOFT_STORES=late COLL_ALGO=direct COLL_PUSH_MIN=1",
                                  "SOFT_STORES=torn COLL_ALGO=oneshot COLL_PROTO=ll128",
                                  "SOFT_STORES=torn COLL_ALGO=twoshot COLL_PROTO=ll"};
    for (unsigned i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        local_ranks_env(settings[i]);
        local_ranks_run(&(local_run_t){.size = i % 2 + 2, .body = run_cases, .arg = settings[i]});
    }
    return check_report("test_coll_stores");
}

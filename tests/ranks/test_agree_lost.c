/* SPDX-License-Identifier: BSD-3-Clause */
/* An agreement that one rank gives up, on a wire that loses its word of that: the other hears why, by a repeat. */
#include <stdlib.h>

#include "base/base_status.h"
#include "fixtures/check.h"
#include "fixtures/local_ranks.h"
#include "comm/comm.h"
#include "comm/comm_control.h"
#include "wire/wire.h"

typedef struct lossy_wire {
    sv_wire_t base;
    sv_wire_t *inner;
    unsigned losses; /* still to come */
} lossy_wire_t;

static selvage_status_t lossy_control_send(sv_wire_t *base, int peer, sv_wire_control_t *message)
{
    lossy_wire_t *wire = (lossy_wire_t *)base;
    if (message->word[0] == SV_CONTROL_AGREE && wire->losses > 0) {
        wire->losses--;
        return SELVAGE_SUCCESS;
    }
    return sv_wire_control_send(wire->inner, peer, message);
}

static selvage_status_t lossy_control_poll(sv_wire_t *base, int *source_out, sv_wire_control_t *message_out)
{
    return sv_wire_control_poll(((lossy_wire_t *)base)->inner, source_out, message_out);
}

static const sv_wire_ops_t lossy_ops = {.abi = SV_WIRE_ABI, .name = "lossy", .control_send = lossy_control_send,
                                        .control_poll = lossy_control_poll};

static void give_up_unheard(local_rank_t *self)
{
    lossy_wire_t wire = {.base = *self->comm->wire, .inner = self->comm->wire, .losses = *(const unsigned *)self->arg};
    uint64_t value[SV_AGREE_USER] = {1};
    wire.base.ops = &lossy_ops;
    if (self->rank == 0) {
        self->comm->wire = &wire.base;
        sv_agree_abort(self->comm, SELVAGE_ERR_UNSUPPORTED);
        self->comm->wire = wire.inner;
        CHECK_EQ(wire.losses, 0);
    } else {
        CHECK_STATUS(sv_agree(self->comm, "a test", 1, SELVAGE_SUCCESS, value, 3), SELVAGE_ERR_UNSUPPORTED);
    }
}

int main(void)
{
    local_ranks_env("");
    for (unsigned losses = 0; losses <= 3; losses++) {
        local_ranks_run(&(local_run_t){.size = 2, .body = give_up_unheard, .arg = &losses, .log_expected = true});
        CHECK_EQ(local_ranks_left(), 0);
    }
    return check_report("test_agree_lost");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of the UCX wire where the library was configured without it. Any thread. */
#include "base/base_status.h"
#include "wire/wire_ucx.h"

void sv_wire_ucx_reach(sv_wire_ucx_reach_t *reach_out)
{
    *reach_out = (sv_wire_ucx_reach_t){0};
}

selvage_status_t sv_wire_ucx_create(int size, bool two_rails, sv_wire_ucx_t **ucx_out)
{
    (void)size;
    (void)two_rails;
    (void)ucx_out;
    return sv_error(SELVAGE_ERR_UNSUPPORTED, "SELVAGE_WIRE is ucx, but this build has no UCX (configure --with-ucx)");
}

void sv_wire_ucx_discard(sv_wire_ucx_t *ucx)
{
    (void)ucx;
}

void sv_wire_ucx_attach(sv_wire_ucx_t *ucx, sv_wire_t **wire_inout)
{
    (void)ucx;
    (void)wire_inout;
}

const char *sv_wire_ucx_version(void)
{
    return "not built in";
}

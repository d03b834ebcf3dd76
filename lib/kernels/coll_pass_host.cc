/* SPDX-License-Identifier: BSD-3-Clause */
/* See coll_pass_host.h. Compiled for the host alone: a pass with one lane. */
#include "kernels/coll_pass_host.h"

#include "kernels/coll_pass.h"

extern "C" void sv_coll_pass_host(uint8_t *sum, const uint8_t *first, uint64_t bytes, unsigned type, unsigned op,
                                  unsigned divisor)
{
    sv_coll_pass_t pass = {};
    pass.src[0] = first;
    pass.src[1] = sum;
    pass.dst[0] = sum;
    pass.nsrc = 2;
    pass.ndst = 1;
    pass.bytes = bytes;
    pass.type = static_cast<uint8_t>(type);
    pass.op = static_cast<uint8_t>(sv_coll_op_of(type, op));
    pass.divisor = static_cast<uint16_t>(divisor);
    (void)sv_coll_pass_at(&pass, 0, 1);
}

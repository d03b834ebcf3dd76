/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bits_driver FOLDER ARCH [PACKETS [COLLECTIVES [FIRST]]]: launches by the software device and by machine code for AMD
 * GPUs, of the code objects in FOLDER, whose memory is the same afterwards (bits.h). Inputs are made to reach all of
 * the code: sizes around all loops, alignments of all accesses, every kind of piece, every flag, every type and
 * operation of collectives, what is damaged, late and absent. PACKETS and COLLECTIVES say how many inputs, and FIRST
 * with which seed they begin.
 */
#include "amdgpu/bits.h"
#include "fixtures/check.h"

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 6) {
        fprintf(stderr, "usage: %s FOLDER ARCH [PACKETS [COLLECTIVES [FIRST]]]\n", argv[0]);
        return 2;
    }
    const uint64_t packets = argc > 3 ? strtoull(argv[3], NULL, 10) : 100;
    const uint64_t collectives = argc > 4 ? strtoull(argv[4], NULL, 10) : packets;
    const uint64_t first = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    bits_open(argv[1], argv[2]);
    bits_packets(first, packets);
    bits_batches(first, packets);
    bits_collectives(first, collectives);
    return check_report("bits_driver");
}

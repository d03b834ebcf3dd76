#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of CuPy's by mpi4py: from rank to rank, summed, gathered. It knows nothing of Selvage.

    selvage-run mpirun -n 2 python3 ring_cupy.py [BYTES]

mpi4py hands device pointers on to MPI; one that does not know device memory crashes.
"""
import sys
import time

import cupy
from mpi4py import MPI


def main():
    comm = MPI.COMM_WORLD
    rank, ranks = comm.Get_rank(), comm.Get_size()
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
    count = int(sys.argv[1] if len(sys.argv) > 1 else 1 << 22) // 8
    mine, other, total = cupy.full(count, float(rank)), cupy.empty(count), cupy.empty(count)
    status = MPI.Status()

    comm.Allreduce(mine, total)
    good = bool((total == ranks * (ranks - 1) / 2).all())
    request = comm.Irecv(other, source=MPI.ANY_SOURCE, tag=7)
    comm.Send(mine, right, 7)
    request.Wait(status)
    good = good and status.Get_source() == left and bool((other == left).all())
    everybody = cupy.empty(ranks)
    comm.Allgather(mine[:1], everybody)
    good = good and bool((everybody == cupy.arange(ranks)).all())

    cupy.cuda.Device().synchronize()
    comm.Barrier()
    begin = time.perf_counter()
    for _ in range(100):
        comm.Sendrecv(mine, right, 0, other, left, 0)
    took = (time.perf_counter() - begin) / 100
    good = good and bool((other == left).all())

    good = comm.allreduce(good, MPI.LAND)
    if rank == 0:
        print('ring_cupy: %d ranks, %d bytes by Sendrecv: %.1f us: %s' % (ranks, 8 * count, 1e6 * took,
                                                                        'right' if good else 'WRONG'))
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())

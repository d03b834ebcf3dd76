/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of selvage-halos share: a cube of fields on every rank, its halo, and the rivals that fill it too. */
#ifndef SELVAGE_TOOLS_HALO_BENCH_H
#define SELVAGE_TOOLS_HALO_BENCH_H

#include "tools/common/bench_graph.h"
#include "tools/common/bench_measure.h"
#include "tools/bench/bench_nccl.h"
#include "hand_packed_loops.h"
#include "tools/common/tool_traffic.h"

enum { HALO_LIST_MAX = 8, HALO_FACES = 6 };

typedef struct halo_options {
    int edges[HALO_LIST_MAX], edge_count, widths[HALO_LIST_MAX], width_count, fields[HALO_LIST_MAX], field_count;
    double seconds;
    int repetitions;
    bool reorder;              /* blocks that are neighbours go to ranks of one node */
    size_t host_bytes;         /* fields larger than this all together have no rival on the host */
    bench_options_t nccl;      /* as much of them as bench_nccl_init() reads */
    const char *json;
    bool help, version;
} halo_options_t;

typedef struct halo_case {
    int edge, width, fields;
    bool checksum;
    bench_mode_t mode;
} halo_case_t;

typedef struct halo_row {
    halo_case_t what;
    selvage_halo_info_t info;
    double seconds, nccl_s, tuned_s, host_s; /* 0: not measured */
    bool noisy;                /* the first of them */
    int tuned_channels;
    long bad;                  /* halo cells that are wrong, of all ranks; -1: not looked at */
} halo_row_t;

typedef struct halo_bench {
    halo_options_t options;
    tool_job_t job;
    selvage_comm_t *comm;
    selvage_device_t *device;
    tool_traffic_t traffic;    /* its buffers and stream are those of the rivals that pack by hand */
    bench_nccl_t nccl;
    selvage_grid_t *grid;      /* of the present case, as everything below */
    selvage_grid_info_t place;
    selvage_halo_t *halo;
    hand_faces_t hand;         /* the fields */
    double *host;              /* pinned: all fields, for the rival there */
    MPI_Datatype face[2 * HALO_FACES]; /* of it: own cells of each face, then halo */
} halo_bench_t;

/* Fields and grid of a case. Partner: halo_case_close(). Collective. */
void halo_case_open(halo_bench_t *bench, const halo_case_t *what);
void halo_case_close(halo_bench_t *bench);

/* Numbers that tell the cell and field apart, everywhere; nonsense in halos. Then: how many halo cells are wrong. */
void halo_fill(halo_bench_t *bench);
long halo_wrong(halo_bench_t *bench);

/* The rivals' times in the mode of the row, into the row. Collective. */
void halo_baselines(halo_bench_t *bench, halo_row_t *row);

#endif

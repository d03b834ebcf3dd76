/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configuration: SELVAGE_ variables, read once through one table when a communicator or device is created. This is the
 * only place that reads the environment, beside base_local_rank.c and base_profiler.c, and all of them use
 * secure_getenv(). A bad value is refused with the variable, the value and the range. An unknown name is refused with
 * the nearest known one, or only warned about (SELVAGE_UNKNOWN).
 */
#ifndef SV_BASE_CONFIG_H
#define SV_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <selvage/status.h>

struct sv_thread_binding;

enum { SV_CONFIG_TEXT_BYTES = 512 };
#define SV_CONFIG_BYTES_AUTO UINT64_MAX /* what suits the device */

/* Positions in the CHOICE lists of base_config_table.h. */
enum { SV_CONFIG_DEVICE_AUTO, SV_CONFIG_DEVICE_SOFT, SV_CONFIG_DEVICE_NVIDIA, SV_CONFIG_DEVICE_AMD };
enum {
    SV_CONFIG_CHECKSUM_OFF, SV_CONFIG_CHECKSUM_RETRY, SV_CONFIG_CHECKSUM_REPORT, SV_CONFIG_CHECKSUM_ABORT,
    SV_CONFIG_CHECKSUM_ON /* as people say who know one switch; loaded as RETRY */
};
enum { SV_CONFIG_PROGRESS_INLINE, SV_CONFIG_PROGRESS_THREAD };
enum { SV_CONFIG_PROGRESS_SLEEP_WAKE, SV_CONFIG_PROGRESS_SLEEP_TIMER };
enum { SV_CONFIG_PROGRESS_OVERSUBSCRIBED_THREADS, SV_CONFIG_PROGRESS_OVERSUBSCRIBED_RANKS };
enum { SV_CONFIG_SPIN_AUTO, SV_CONFIG_SPIN_YIELD, SV_CONFIG_SPIN_BUSY };
enum { SV_CONFIG_GPU_SHARED_AUTO, SV_CONFIG_GPU_SHARED_ON, SV_CONFIG_GPU_SHARED_OFF };
enum { SV_CONFIG_WIRE_AUTO, SV_CONFIG_WIRE_MPI, SV_CONFIG_WIRE_UCX };
enum { SV_CONFIG_NUMA_AUTO, SV_CONFIG_NUMA_OFF };
enum { SV_CONFIG_INTRANODE_DEFERRED, SV_CONFIG_INTRANODE_IMMEDIATE, SV_CONFIG_INTRANODE_MEASURED };
enum { SV_CONFIG_LAUNCHES_AUTO, SV_CONFIG_LAUNCHES_PLAIN, SV_CONFIG_LAUNCHES_PREPARED };
enum { SV_CONFIG_RANGES_AUTO, SV_CONFIG_RANGES_ON, SV_CONFIG_RANGES_OFF };
enum { SV_CONFIG_DIRECT_OFF, SV_CONFIG_DIRECT_PROBE, SV_CONFIG_DIRECT_FORCE };
enum {
    SV_CONFIG_COLL_INTERNODE_AUTO, SV_CONFIG_COLL_INTERNODE_CHAIN, SV_CONFIG_COLL_INTERNODE_MPI,
    SV_CONFIG_COLL_INTERNODE_TREE
};
enum { SV_CONFIG_COLL_ALGO_AUTO, SV_CONFIG_COLL_ALGO_ONESHOT, SV_CONFIG_COLL_ALGO_TWOSHOT, SV_CONFIG_COLL_ALGO_DIRECT,
       SV_CONFIG_COLL_ALGO_RING, SV_CONFIG_COLL_ALGO_PAT, SV_CONFIG_COLL_ALGO_NVLS };
enum { SV_CONFIG_SUM_ORDER, SV_CONFIG_SUM_EXACT };
enum { SV_CONFIG_COLL_WORK_FIFO_AUTO, SV_CONFIG_COLL_WORK_FIFO_ALWAYS };
enum { SV_CONFIG_COLL_PROTO_AUTO, SV_CONFIG_COLL_PROTO_LL, SV_CONFIG_COLL_PROTO_LL128, SV_CONFIG_COLL_PROTO_SIMPLE };
enum { SV_CONFIG_SOFT_AUTO, SV_CONFIG_SOFT_THREADS, SV_CONFIG_SOFT_INLINE };

/* One member per row of the table: BOOL bool, INT and CHOICE int, REAL double, BYTES uint64_t, TEXT char[]. */
typedef struct sv_config {
    int device;
    char device_path[SV_CONFIG_TEXT_BYTES];
    int log, debug;
    char debug_subsys[SV_CONFIG_TEXT_BYTES];
    int unknown, route, direct;
    uint64_t direct_message_bytes;
    int wire;
    double wire_silence_s;
    int ranks_per_node, checksum, retry_max;
    double retry_timeout_ms, timeout_s;
    int progress, progress_sleep, progress_idle_us, progress_idle_turns, progress_oversubscribed;
    int spin, gpu_shared, numa;
    uint64_t segment_bytes;
    int segment_slots;
    uint64_t kernel_copy_max_bytes;
    uint64_t kernel_peer_max_bytes;
    uint64_t kernel_look_max_bytes;
    double early_wait_us;
    int soft_blocks;
    int soft_stores;
    int intranode;
    uint64_t message_eager_bytes;
    uint64_t message_buffer_bytes;
    double idle_s;
    int idle_mappings;
    uint64_t idle_bytes;
    int coll_algo, coll_proto, coll_internode, sum;
    uint64_t coll_ll_max, coll_ll128_max, coll_push_min;
    bool coll_checksum;
    int coll_work_fifo;
    bool coll_quick;
    char coll_tune[SV_CONFIG_TEXT_BYTES];
    int requests_max;
    uint64_t inflight_bytes;
    uint64_t coll_cache_bytes;
    uint64_t coll_arena_bytes;
    int coll_channels_min, coll_channels_max;
    uint64_t work_fifo_bytes;
    int dropin_fast;
    uint64_t dropin_fast_bytes, dropin_slot_bytes, dropin_long_bytes, dropin_fragment_bytes;
    uint64_t dropin_pool_bytes;
    uint64_t dropin_piece_bytes;
    bool dropin_pairs;
    int dropin_sync, dropin_sync_ms;
    char job[SV_CONFIG_TEXT_BYTES];
    bool report;
    char trace[SV_CONFIG_TEXT_BYTES];
    int trace_events;
    bool trace_kernels;
    char flight_file[SV_CONFIG_TEXT_BYTES];
    bool flight_signal;
    int ranges;
    int launches;
    char fault[SV_CONFIG_TEXT_BYTES];
    int soft_mode;
    double soft_d2h_gbs, soft_h2d_gbs, soft_peer_gbs, soft_d2h_us, soft_h2d_us, soft_peer_us;
    char lattice[SV_CONFIG_TEXT_BYTES];
    uint64_t environment_rows[2]; /* bit i: row i of the table was set by the user; kept for sv_config_print() */
} sv_config_t;

/* Looks a variable up; returns NULL if it is not set. Tests pass their own, the library NULL for secure_getenv(). */
typedef const char *(*sv_config_lookup_t)(void *arg, const char *full_name);

/*
 * Fills *config_out with defaults, then the environment. lookup NULL: secure_getenv(), and environ is searched for
 * unknown names. Outputs only on success. SELVAGE_ERR_CONFIG with variable, value and range in the detail.
 */
selvage_status_t sv_config_load(sv_config_lookup_t lookup, void *lookup_arg, sv_config_t *config_out);

/* Defaults, and of the environment this variable alone: for what must be known before the rest is read. */
selvage_status_t sv_config_load_one(const char *full_name, sv_config_t *config_out);

/* Whether the environment has this variable, which need not be one of Selvage's. */
bool sv_config_is_set(const char *full_name);

/* Has a thread with this binding say as much on the log as LOG, DEBUG and DEBUG_SUBSYS allow. */
void sv_config_bind_log(const sv_config_t *config, struct sv_thread_binding *binding);

/* A hash of every row marked 'agreed': equal on all ranks, or the communicator is refused. */
uint64_t sv_config_agreed_hash(const sv_config_t *config);

/* Prints every variable with value, source (default or environment), range and text: a table for people. */
void sv_config_print(FILE *stream, const sv_config_t *config);

#endif

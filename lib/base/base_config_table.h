/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one table of SELVAGE_ variables. Columns:
 *   name     without the SELVAGE_ prefix
 *   member   of sv_config_t
 *   type     BOOL, INT, REAL, BYTES (with K, M, G suffixes), CHOICE (list in 'range'), TEXT
 *   default  as text, parsed like a user's value
 *   range    "low..high" for numbers, "a|b|c" for choices (stored as the position in the list), "" for text
 *   agreed   1: every rank must have the same value (compared when a communicator is created)
 *   text     what it does
 */
#ifndef SV_BASE_CONFIG_TABLE_H
#define SV_BASE_CONFIG_TABLE_H

#define SV_CONFIG_TABLE(X)                                                                                             \
    X(DEVICE, device, CHOICE, "auto", "auto|soft|nvidia|amd", 0,                                                       \
      "device to use: a GPU if there is one, the software device, or a GPU of this make")                              \
    X(DEVICE_PATH, device_path, TEXT, "", "", 0, "directory of the GPU plug-ins; empty: where they are installed")     \
    X(LOG, log, CHOICE, "warn", "none|error|warn|info|debug|trace", 0, "how much is said on standard error")           \
    X(DEBUG, debug, CHOICE, "none", "none|warn|info|debug|trace", 0,                                                   \
      "how much is said of the subsystems of DEBUG_SUBSYS, where that is more than LOG allows")                        \
    X(DEBUG_SUBSYS, debug_subsys, TEXT, "", "", 0,                                                                     \
      "what DEBUG is about: a list of INIT, NET, EXCHANGE, COLL, TRACE; empty: everything")                            \
    X(UNKNOWN, unknown, CHOICE, "error", "error|warn|ignore", 0,                                                       \
      "what an unknown SELVAGE_ variable does: it refuses the communicator, warns, or nothing; the drop-in "           \
      "warns if this is not set")                                                                                      \
    X(ROUTE, route, CHOICE, "auto", "auto|self|peer|shared|staged|direct", 1,                                          \
      "route of every packet; self applies to packets of a rank to itself, others choose as auto")                     \
    X(DIRECT, direct, CHOICE, "off", "off|probe|force", 1,                                                             \
      "packets between nodes go direct where the MPI says it is able, or even if not, and where a probe is right")     \
    X(DIRECT_MESSAGE_BYTES, direct_message_bytes, BYTES, "1G", "4096..1073741824", 1,                                  \
      "direct packets larger than this go in several messages; a multiple of 64")                                      \
    X(WIRE, wire, CHOICE, "auto", "auto|mpi|ucx", 1,                                                                   \
      "what host messages between ranks go by: MPI, or UCX beside it; auto: MPI")                                      \
    X(WIRE_SILENCE_S, wire_silence_s, REAL, "2", "-1..100000", 0,                                                      \
      "over UCX, a rank whose link has answered nothing for so long, and three times as TCP asked again, is gone; "    \
      "0 or -1: never")                                                                                                \
    X(RANKS_PER_NODE, ranks_per_node, INT, "0", "0..1048576", 1,                                                       \
      "divide each node into virtual nodes of this many ranks; 0: whole nodes")                                        \
    X(CHECKSUM, checksum, CHOICE, "retry", "off|retry|report|abort|on", 1,                                             \
      "what a packet that does not verify causes; on is retry")                                                        \
    X(RETRY_MAX, retry_max, INT, "5", "0..100", 1, "how often a damaged packet is asked for again")                    \
    X(RETRY_TIMEOUT_MS, retry_timeout_ms, REAL, "5000", "0.1..3600000", 0,                                             \
      "a packet missing this long is asked for again; doubles with every question")                                    \
    X(TIMEOUT_S, timeout_s, REAL, "300", "-1..1000000", 0, "deadline of every wait since the last progress; -1: none") \
    X(PROGRESS, progress, CHOICE, "inline", "inline|thread", 0,                                                        \
      "who advances exchanges, and collectives between nodes: the application's calls, or a thread of Selvage's")      \
    X(PROGRESS_SLEEP, progress_sleep, CHOICE, "wake", "wake|timer", 0,                                                 \
      "how the progress thread, and who waits for it, sleep: until the other one wakes them, or on the clock alone")   \
    X(PROGRESS_IDLE_US, progress_idle_us, INT, "50000", "200..1000000", 0,                                             \
      "longest sleep of the progress thread that is woken, while nothing is under way, us")                            \
    X(PROGRESS_IDLE_TURNS, progress_idle_turns, INT, "300", "1..1000000", 0,                                           \
      "turns without work after which the progress thread sleeps, if nothing is under way")                            \
    X(PROGRESS_OVERSUBSCRIBED, progress_oversubscribed, CHOICE, "threads", "threads|ranks", 0,                         \
      "what is counted against the cores when there are progress threads: these as well, or ranks alone")              \
    X(SPIN, spin, CHOICE, "auto", "auto|yield|busy", 0,                                                                \
      "how waits poll: yield at once, or spin first; auto yields when ranks outnumber cores")                          \
    X(GPU_SHARED, gpu_shared, CHOICE, "auto", "auto|on|off", 0,                                                        \
      "whether other processes use this rank's GPU, so that kernels take turns and short copies and messages avoid "   \
      "them; auto: whether any of Selvage's has it open, on NVIDIA")                                                   \
    X(NUMA, numa, CHOICE, "auto", "auto|off", 0,                                                                       \
      "pinned memory and the progress thread: next to the GPU, or wherever the system puts them")                      \
    X(SEGMENT_BYTES, segment_bytes, BYTES, "1M", "4096..1073741824", 1,                                                \
      "segments in which long packets move, at most (shared: four times that); a multiple of 64")                      \
    X(SEGMENT_SLOTS, segment_slots, INT, "8", "2..64", 1, "staging slots per packet: segments in flight at once")      \
    X(KERNEL_COPY_MAX_BYTES, kernel_copy_max_bytes, BYTES, "auto", "auto|0..1073741824", 0,                            \
      "packets up to this size go through host memory by kernels, without the copy engine; auto: suits the device")    \
    X(KERNEL_PEER_MAX_BYTES, kernel_peer_max_bytes, BYTES, "auto", "auto|0..1073741824", 0,                            \
      "packets up to this size are stored into another device by a kernel, through a slot; auto: suits the device")    \
    X(KERNEL_LOOK_MAX_BYTES, kernel_look_max_bytes, BYTES, "1M", "0..1073741824", 0,                                   \
      "packets and messages up to this size in a slot are read before their sender has said that they are whole, and " \
      "kept if the digest is right; 0: none")                                                                          \
    X(EARLY_WAIT_US, early_wait_us, REAL, "-1", "-1..100000", 0,                                                       \
      "how long kernels that wait launches ahead of packets wait on the device, us; 0: none are; -1: suits the "       \
      "device")                                                                                                        \
    X(INTRANODE, intranode, CHOICE, "deferred", "deferred|immediate|measured", 0,                                      \
      "when copies within the node start: after the copies down, at once, or as measured in the first epochs")         \
    X(MESSAGE_EAGER_BYTES, message_eager_bytes, BYTES, "8K", "0..1048576", 1,                                          \
      "messages up to this size leave at once, with their envelope, and between devices of a node up to 128 times "    \
      "as much (SELVAGE_SEGMENT_BYTES at most); longer ones when their receive is there")                              \
    X(MESSAGE_BUFFER_BYTES, message_buffer_bytes, BYTES, "1G", "0..1T", 0,                                             \
      "device memory of a rank, at most, for messages to ranks of its node that are sent buffered and do not fit "     \
      "into a slot of the receiver's")                                                                                 \
    X(IDLE_S, idle_s, REAL, "10", "0.001..1000000", 0,                                                                 \
      "what messages keep for later ones (mappings of other ranks' memory, buffers, pinned memory of the drop-in) "    \
      "is given back once nothing has used it for so long; a tenth of that for mappings beyond IDLE_BYTES")            \
    X(IDLE_MAPPINGS, idle_mappings, INT, "32", "0..65536", 0,                                                          \
      "mappings of other ranks' memory that messages keep without using them, at most")                               \
    X(IDLE_BYTES, idle_bytes, BYTES, "256M", "0..1T", 0,                                                               \
      "memory of other ranks that such mappings hold together, beyond which they go sooner")                           \
    X(COLL_ALGO, coll_algo, CHOICE, "auto", "auto|oneshot|twoshot|direct|ring|pat|nvls", 1,                            \
      "algorithm of collectives; where a call has no such one, the nearest")                                           \
    X(COLL_PROTO, coll_proto, CHOICE, "auto", "auto|ll|ll128|simple", 1,                                               \
      "protocol of collectives; where it cannot be, the nearest")                                                      \
    X(COLL_LL_MAX, coll_ll_max, BYTES, "auto", "auto|0..1073741824", 1,                                                \
      "collectives of up to this size (all ranks' blocks together) use LL; auto: by call and number of ranks")         \
    X(COLL_LL128_MAX, coll_ll128_max, BYTES, "auto", "auto|0..1073741824", 1,                                          \
      "larger ones up to this size use LL128, where the device stores whole lines; auto: by call and ranks")           \
    X(COLL_PUSH_MIN, coll_push_min, BYTES, "64M", "0..1T", 1,                                                          \
      "direct all-reduces of at least this size that are not in place push, and read nothing from other ranks")        \
    X(COLL_CHECKSUM, coll_checksum, BOOL, "on", "", 1,                                                                 \
      "collectives verify what they take from other ranks, and choose their ways by what that costs")                  \
    X(COLL_INTERNODE, coll_internode, CHOICE, "auto", "auto|chain|mpi|tree", 1,                                        \
      "how pieces of collectives go between nodes: each to all at once, from node to node, by MPI's own "              \
      "collectives, or short ones by trees; auto: at once among up to 16 nodes, else as with tree")                    \
    X(SUM, sum, CHOICE, "order", "order|exact", 1,                                                                     \
      "sums of float32 and float64 in collectives: added in a fixed order, or exactly, with bits that no order, "      \
      "number of nodes or route changes")                                                                              \
    X(COLL_QUICK, coll_quick, BOOL, "on", "", 0,                                                                       \
      "short collectives, sends and receives that are alone in their launch have kernels of their own")                \
    X(COLL_WORK_FIFO, coll_work_fifo, CHOICE, "auto", "auto|always", 0,                                                \
      "which pieces of work of collectives go through the FIFO in pinned memory: those of long groups, or all")        \
    X(COLL_TUNE, coll_tune, TEXT, "", "", 1, "file that says which algorithm collectives use at which size")           \
    X(REQUESTS_MAX, requests_max, INT, "1024", "1..65536", 0, "sends in flight at once, over all exchanges of a rank") \
    X(INFLIGHT_BYTES, inflight_bytes, BYTES, "1G", "1M..1T", 0, "bytes of sends in flight at once, of a rank")         \
    X(COLL_CACHE_BYTES, coll_cache_bytes, BYTES, "0", "0..1T", 1,                                                      \
      "buffers of a rank, together, that other ranks map without being asked after they were in two calls that "       \
      "direct algorithms suit; 0: only those that are registered")                                                     \
    X(COLL_ARENA_BYTES, coll_arena_bytes, BYTES, "64M", "64K..1T", 1,                                                  \
      "device memory of a rank for slots and flags of collectives, at most")                                           \
    X(COLL_CHANNELS_MIN, coll_channels_min, INT, "0", "0..64", 1,                                                      \
      "channels (blocks) of a collective at least; 0: as the selection has it")                                        \
    X(COLL_CHANNELS_MAX, coll_channels_max, INT, "0", "0..64", 1,                                                      \
      "channels (blocks) of a collective at most; 0: suits the device")                                                \
    X(WORK_FIFO_BYTES, work_fifo_bytes, BYTES, "256K", "4096..1073741824", 0,                                          \
      "pinned memory in which work of groups of collectives waits for the device; a power of two")                     \
    X(DROPIN_FAST, dropin_fast, CHOICE, "auto", "auto|on|off", 1,                                                      \
      "under selvage-run, long messages and collectives of device memory go from device to device; auto: those "       \
      "messages that wait for nobody")                                                                                 \
    X(DROPIN_FAST_BYTES, dropin_fast_bytes, BYTES, "64K", "96..1073741824", 1,                                         \
      "what is at least so long, and an eighth of that in a row of sends and of sends that wait, and a 64th in "       \
      "collective calls, unless this is set; the rest is staged")                                                      \
    X(DROPIN_SLOT_BYTES, dropin_slot_bytes, BYTES, "auto", "auto|4K..1G", 1,                                           \
      "length of a slot for messages from device to device; a rank has four for each other one of its node; auto: "    \
      "1M, or less where all of them would take more than 256M")                                                       \
    X(DROPIN_LONG_BYTES, dropin_long_bytes, BYTES, "0", "0..1024G", 1,                                                 \
      "a staged message of at least so many bytes goes in fragments, whose copies and transfers overlap, if its "      \
      "receiver has invited that; 0: none does, and the drop-in does nothing about it")                                \
    X(DROPIN_FRAGMENT_BYTES, dropin_fragment_bytes, BYTES, "auto", "auto|256..1G", 0,                                  \
      "length of such a fragment, of which a message has 64 at most; auto: an eighth of the message, 256K to 4M")      \
    X(DROPIN_PAIRS, dropin_pairs, BOOL, "on", "", 1,                                                                  \
      "collective calls to neighbours, MPI_Alltoallw and those that do not block, or are persistent, and move data "   \
      "become messages that may go from device to device; off: they are staged")                                       \
    X(DROPIN_POOL_BYTES, dropin_pool_bytes, BYTES, "auto", "auto|0..1024G", 0,                                         \
      "memory that the drop-in pins for messages, at most; what is under way beyond it lies in memory that is not; "   \
      "auto: 4G, or a sixteenth of the machine's memory if that is less")                                              \
    X(DROPIN_PIECE_BYTES, dropin_piece_bytes, BYTES, "1M", "64..1G", 0,                                                \
      "pieces by which the drop-in copies memory that is not pinned")                                                  \
    X(DROPIN_SYNC, dropin_sync, CHOICE, "default", "default|auto|device|none|check", 0,                                \
      "what MPI calls of the drop-in wait for before they touch device memory: the work of the default stream, all "   \
      "work for a limited time, all work, nothing; check: all work, and a warning if it was needed")                   \
    X(DROPIN_SYNC_MS, dropin_sync_ms, INT, "1000", "0..86400000", 0, "the limit of SELVAGE_DROPIN_SYNC=auto")          \
    X(JOB, job, TEXT, "", "", 1, "name of a job in which every rank has the drop-in; selvage-run sets it")             \
    X(REPORT, report, BOOL, "off", "", 0,                                                                              \
      "at MPI_Finalize the drop-in prints what device memory it moved, and what of it was verified")                   \
    X(TRACE, trace, TEXT, "", "", 1, "file for the timeline of all ranks (Perfetto, chrome://tracing)")                \
    X(TRACE_EVENTS, trace_events, INT, "131072", "1024..16777216", 1, "timeline records kept per rank")                \
    X(TRACE_KERNELS, trace_kernels, BOOL, "off", "", 1,                                                                \
      "with TRACE, every block of the kernels of exchanges and collectives takes time stamps; as many as "             \
      "TRACE_EVENTS are kept per rank")                                                                                \
    X(FLIGHT_FILE, flight_file, TEXT, "", "", 0,                                                                       \
      "file for the flight recorder, .RANK is appended; standard error if empty")                                      \
    X(FLIGHT_SIGNAL, flight_signal, BOOL, "on", "", 0,                                                                 \
      "write the flight recorder on SIGUSR1 if nobody else handles it")                                                \
    X(RANGES, ranges, CHOICE, "auto", "auto|on|off", 0,                                                                \
      "named ranges for profilers (NVTX, rocTX): where one listens, load what AMD's listens to, or never")             \
    X(LAUNCHES, launches, CHOICE, "auto", "auto|plain|prepared", 0,                                                    \
      "launches of kernels that come again: by prepared graphs (NVIDIA, from CUDA 13 on), unless they can start "      \
      "early; all plainly; or all prepared")                                                                           \
    X(FAULT, fault, TEXT, "", "", 0, "faults to inject, for tests; see the testing guide")                             \
    X(SOFT_MODE, soft_mode, CHOICE, "auto", "auto|threads|inline", 0,                                                  \
      "streams of the software device: worker threads, or executed by the caller; auto: by threads, short work by "    \
      "the caller where threads outnumber cores")                                                                      \
    X(SOFT_BLOCKS, soft_blocks, INT, "1", "1..64", 0,                                                                  \
      "blocks of a kernel of the software device at most, each a thread")                                              \
    X(SOFT_STORES, soft_stores, CHOICE, "whole", "whole|late|torn", 0,                                                 \
      "stores of collectives on the software device: in order, late and in any order, or torn too; for tests")         \
    X(SOFT_D2H_GBS, soft_d2h_gbs, REAL, "0", "0..100000", 0, "modelled bandwidth device to host, GB/s; 0: no model")   \
    X(SOFT_H2D_GBS, soft_h2d_gbs, REAL, "0", "0..100000", 0, "modelled bandwidth host to device, GB/s; 0: no model")   \
    X(SOFT_PEER_GBS, soft_peer_gbs, REAL, "0", "0..100000", 0,                                                         \
      "modelled bandwidth between devices, GB/s; 0: no model")                                                         \
    X(SOFT_D2H_US, soft_d2h_us, REAL, "0", "0..1000000", 0, "modelled latency of a copy device to host, us")           \
    X(SOFT_H2D_US, soft_h2d_us, REAL, "0", "0..1000000", 0, "modelled latency of a copy host to device, us")           \
    X(SOFT_PEER_US, soft_peer_us, REAL, "0", "0..1000000", 0, "modelled latency of a copy between devices, us")        \
    X(LATTICE, lattice, TEXT, "", "", 0, "gauge configuration for the lattice example of ./demo")

#endif

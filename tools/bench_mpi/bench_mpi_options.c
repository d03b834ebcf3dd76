/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line of selvage-bench-mpi, by the table of tool_options.h. */
#include "tools/bench_mpi/bench_mpi_options.h"

#include <string.h>

#include "tools/common/tool_options.h"

static const size_t size_most = (size_t)1 << 30; /* counts of MPI are int */

void bench_mpi_options_usage(FILE *stream)
{
    fputs("usage: mpirun -n N selvage-bench mpi [options]\n"
          "times plain MPI calls on host memory, on device memory, and staged by hand.\n\n"
          "  --benchmarks LIST    all (the default), or some of latency,persistent,vector,bandwidth,bidirectional,\n"
          "                       rate,put,get,allreduce,reduce,bcast,allgather,alltoall,reduce_scatter,\n"
          "                       reduce_scatter_block,gather,scatter,barrier,allgatherv,alltoallv,gatherv,scatterv,\n"
          "                       iallreduce,ialltoall,neighbor_alltoall,neighbor_alltoallv,neighbor_alltoallw,\n"
          "                       ineighbor_alltoallw\n"
          "  --ways LIST          all, or some of host,device,hand,each,mixed,hand_mixed,nccl (default: those to be\n"
          "                       had here)\n"
          "  --min B --max B      sizes, from 8 to 64M,\n"
          "  --factor N           each N times the one before (2)\n"
          "  --window N           messages outstanding (64)\n"
          "  --iterations N       of a figure at small sizes, fewer at large ones (1000)\n"
          "  --seconds S          but no more than fit into S (0.2)\n"
          "  --repetitions N      of which the median counts (3)\n"
          "  --memory B           of one buffer at most (512M)\n"
          "  --nccl FILE          library to compare with; no: none (libnccl.so.2, or librccl.so.1 on AMD)\n"
          "  --rival COMMAND      run this program by COMMAND as well, for a column\n"
          "  --cliffs             exit status 1 if there are any\n"
          "  --corrupt BENCHMARK  change a byte of what arrives, to see it found\n"
          "  --json FILE --csv FILE\n"
          "  --records            rows of CSV on standard output alone, for --rival\n"
          "  --help --version\n",
          stream);
}

static bool take_corrupt(void *value, const char *word)
{
    for (int which = 0; which < BENCH_MPI_KINDS; which++) {
        if (strcmp(bench_mpi_kind_name(which), word) == 0) {
            *(int *)value = which;
            return true;
        }
    }
    return false;
}

/* The rival is asked for by an option of its own. */
static const char *name_of_way(int way)
{
    return way == BENCH_MPI_RIVAL ? NULL : bench_mpi_way_name(way);
}

static void set_defaults(bench_mpi_options_t *options)
{
    *options = (bench_mpi_options_t){.min = 8, .max = (size_t)64 << 20, .memory = (size_t)512 << 20, .factor = 2};
    options->window = 64;
    options->iterations = 1000;
    options->repetitions = 3;
    options->seconds = 0.2;
    options->corrupt = -1;
    for (int which = 0; which < BENCH_MPI_KINDS; which++)
        options->benchmarks[which] = true;
}

static const char *fault_of(const bench_mpi_options_t *options)
{
    if (options->min > options->max)
        return "--min is above --max";
    if (options->max > size_most)
        return "--max is above 1G";
    if (options->memory < options->max)
        return "--memory is below --max";
    return NULL;
}

static void set_sizes(bench_mpi_options_t *options)
{
    for (size_t bytes = options->min; bytes <= options->max && options->size_count < BENCH_MPI_SIZES_MAX;
         bytes *= (size_t)options->factor)
        options->sizes[options->size_count++] = bytes;
}

bool bench_mpi_options_parse(int argc, char **argv, bench_mpi_options_t *options_out, char *error_text,
                             size_t error_bytes)
{
    bench_mpi_options_t options;
    const tool_option_t table[] = {
        {"benchmarks", TOOL_NAMES, .value = options.benchmarks, .room = BENCH_MPI_KINDS,
         .name_of = bench_mpi_kind_name},
        {"ways", TOOL_NAMES, .value = options.ways, .room = BENCH_MPI_WAYS, .name_of = name_of_way},
        {"min", TOOL_SIZE, .value = &options.min},
        {"max", TOOL_SIZE, .value = &options.max},
        {"memory", TOOL_SIZE, .value = &options.memory},
        {"factor", TOOL_WHOLE, .value = &options.factor, .low = 2, .high = 1024},
        {"window", TOOL_WHOLE, .value = &options.window, .low = 1, .high = BENCH_MPI_WINDOW_MAX},
        {"iterations", TOOL_WHOLE, .value = &options.iterations, .low = 1, .high = 1000000},
        {"repetitions", TOOL_WHOLE, .value = &options.repetitions, .low = 1, .high = BENCH_MPI_REPETITIONS_MAX},
        {"seconds", TOOL_POSITIVE, .value = &options.seconds},
        {"nccl", TOOL_TEXT, .value = &options.nccl},
        {"rival", TOOL_TEXT, .value = &options.rival},
        {"corrupt", TOOL_WORD, .value = &options.corrupt, .take = take_corrupt},
        {"cliffs", TOOL_FLAG, .value = &options.cliffs},
        {"json", TOOL_TEXT, .value = &options.json},
        {"csv", TOOL_TEXT, .value = &options.csv},
        {"records", TOOL_FLAG, .value = &options.records},
        {"help", TOOL_FLAG, .value = &options.help},
        {"version", TOOL_FLAG, .value = &options.version},
    };
    set_defaults(&options);
    if (!tool_options_parse(argc, argv, table, sizeof table / sizeof *table, NULL, error_text, error_bytes))
        return false;
    const char *fault = fault_of(&options);
    if (fault) {
        snprintf(error_text, error_bytes, "%s", fault);
        return false;
    }
    set_sizes(&options);
    *options_out = options;
    return true;
}

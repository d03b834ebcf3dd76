/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The report for people. Of large jobs the first ranks stand for all; the JSON has every rank. Reasons of routes are
 * counted, so that one pair that differs from the others is seen.
 */
#include <string.h>

#include "tools/info/info_print.h"

enum { RANKS_SHOWN = 16, REASONS_MAX = 8 };

typedef struct wanted {
    const char *name;
    char *value;
    size_t bytes;
} wanted_t;

static void take_wanted(void *arg, const selvage_setting_t *setting)
{
    const wanted_t *wanted = arg;
    if (strcmp(setting->name, wanted->name) == 0)
        snprintf(wanted->value, wanted->bytes, "%s", setting->value);
}

void info_setting_value(const char *name, char *value, size_t value_bytes)
{
    wanted_t wanted = {name, value, value_bytes};
    value[0] = '\0';
    (void)selvage_config_visit(take_wanted, &wanted);
}

static const char *or_dash(const char *text)
{
    return text[0] ? text : "-";
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void print_head(FILE *file, const info_job_t *info)
{
    const tool_job_t *job = &info->job;
    fprintf(file, "build     %s\n", selvage_version_build());
    fprintf(file, "MPI       %s (MPI %d.%d), %s\n", info->mpi, info->mpi_version, info->mpi_subversion,
            info->thread_level);
    if (info->wire[0])
        fprintf(file, "wire      %s\n", info->wire);
    fprintf(file, "job       %d rank%s on %d host%s, %d core%s a host%s\n", job->size, plural(job->size), job->hosts,
            plural(job->hosts), job->host_cores, plural(job->host_cores),
            job->oversubscribed ? ", more ranks than cores" : "");
}

static void print_devices(FILE *file, const info_job_t *info)
{
    char asked[32];
    info_setting_value("SELVAGE_DEVICE", asked, sizeof asked);
    fprintf(file, "\ndevices (SELVAGE_DEVICE is %s; those that rank 0 sees)\n", or_dash(asked));
    for (int i = 0; i < INFO_DEVICES; i++) {
        const info_device_t *device = &info->devices[i];
        const bool chosen = strcmp(device->name, info->ranks[0].device) == 0;
        if (device->count)
            fprintf(file, "  %-8s%d here%s\n", device->name, device->count, chosen ? ", chosen" : "");
        else
            fprintf(file, "  %-8snot here: %s\n", device->name, device->why);
    }
}

static void print_rank(FILE *file, const info_rank_t *rank, int number)
{
    char which[48] = "-", node[16] = "-";
    if (rank->failed) {
        fprintf(file, "%6d  %-16s  no device: %s\n", number, rank->host, rank->error);
        return;
    }
    if (rank->bus_id[0])
        snprintf(which, sizeof which, "%s %d/%d", rank->device, rank->index, rank->count);
    else
        snprintf(which, sizeof which, "%s", rank->device);
    if (rank->near.numa_node >= 0)
        snprintf(node, sizeof node, "%d", rank->near.numa_node);
    fprintf(file, "%6d  %-16s  %-12s %-14s %5s  %-16s  %-10s  %s\n", number, rank->host, which, or_dash(rank->bus_id),
            node, or_dash(rank->near.cores), or_dash(rank->near.nic), or_dash(rank->model));
}

static void print_ranks(FILE *file, const info_job_t *info)
{
    const int size = info->job.size;
    fprintf(file, "\n%6s  %-16s  %-12s %-14s %5s  %-16s  %-10s  %s\n", "rank", "host", "device", "bus id", "NUMA",
            "cores near", "NIC near", "model");
    for (int r = 0; r < size && r < RANKS_SHOWN; r++)
        print_rank(file, &info->ranks[r], r);
    if (size > RANKS_SHOWN)
        fprintf(file, "        and %d more; --json has all\n", size - RANKS_SHOWN);
}

/* Whether two ranks are on one GPU. */
static bool on_same_gpu(const info_rank_t *left, const info_rank_t *right)
{
    return strcmp(left->bus_id, right->bus_id) == 0 && strcmp(left->host, right->host) == 0;
}

static bool named_before(const info_job_t *info, int rank)
{
    for (int r = 0; r < rank; r++) {
        if (on_same_gpu(&info->ranks[r], &info->ranks[rank]))
            return true;
    }
    return false;
}

/* One line for each GPU that the ranks shown share with others. */
static void print_sharing(FILE *file, const info_job_t *info)
{
    for (int r = 0; r < info->job.size && r < RANKS_SHOWN; r++) {
        const info_rank_t *rank = &info->ranks[r];
        if (rank->gpu_ranks < 2 || named_before(info, r))
            continue;
        fprintf(file, "note: GPU %s of %s is shared by %d ranks (", rank->bus_id, rank->host, rank->gpu_ranks);
        for (int other = r, shown = 0; other < info->job.size && shown < RANKS_SHOWN; other++) {
            if (on_same_gpu(rank, &info->ranks[other]))
                fprintf(file, shown++ ? ", %d" : "%d", other);
        }
        fputs("): none of their kernels waits for another rank\n", file);
    }
}

static void print_access(FILE *file, const info_job_t *info)
{
    static const char *const words[] = {"no", "yes", "?", "-"};
    fprintf(file, "\npeer access, from the device of the rank of the row to that of the column (?: not visible there, "
            "-: other host)\n      ");
    for (int to = 0; to < info->first; to++)
        fprintf(file, " %6d", to);
    for (int from = 0; from < info->first; from++) {
        fprintf(file, "\n%6d", from);
        for (int to = 0; to < info->first; to++)
            fprintf(file, " %6s", words[info->cells[from * INFO_ROUTE_RANKS + to].access]);
    }
    fputc('\n', file);
}

static void print_matrix(FILE *file, const info_job_t *info)
{
    fprintf(file, "\nroutes, from the rank of the row to that of the column%s\n      ",
            info->job.size > info->routes_known ? " (the first ranks only)" : "");
    for (int to = 0; to < info->routes_known; to++)
        fprintf(file, " %6d", to);
    for (int from = 0; from < info->routes_known; from++) {
        fprintf(file, "\n%6d", from);
        for (int to = 0; to < info->routes_known; to++)
            fprintf(file, " %6s",
                    selvage_route_name((selvage_route_t)info->cells[from * INFO_ROUTE_RANKS + to].route));
    }
    fputc('\n', file);
}

static void print_reasons(FILE *file, const info_job_t *info)
{
    const char *reasons[REASONS_MAX];
    int routes[REASONS_MAX], counts[REASONS_MAX], count = 0;
    char asked[32];
    info_setting_value("SELVAGE_ROUTE", asked, sizeof asked);
    for (int i = 0; i < info->routes_known * info->routes_known; i++) {
        const info_cell_t *cell = &info->cells[i / info->routes_known * INFO_ROUTE_RANKS + i % info->routes_known];
        const char *reason = info_route_reason(cell, asked);
        int at = 0;
        while (at < count && (routes[at] != cell->route || strcmp(reasons[at], reason) != 0))
            at++;
        if (at == count && count < REASONS_MAX) {
            routes[count] = cell->route;
            reasons[count] = reason;
            counts[count++] = 0;
        }
        if (at < count)
            counts[at]++;
    }
    for (int i = 0; i < count; i++)
        fprintf(file, "  %-7s %4d pair%s %s\n", selvage_route_name((selvage_route_t)routes[i]), counts[i],
                counts[i] == 1 ? ": " : "s:", reasons[i]);
}

typedef struct changed {
    FILE *file;
    int all, shown;
} changed_t;

static void print_changed(void *arg, const selvage_setting_t *setting)
{
    changed_t *changed = arg;
    changed->all++;
    if (strcmp(setting->source, "default") == 0)
        return;
    fprintf(changed->file, changed->shown++ ? "" : "settings that were set\n");
    fprintf(changed->file, "  %-28s %-12s default %-8s %s\n", setting->name, or_dash(setting->value),
            or_dash(setting->default_value), setting->text);
}

static bool print_changes(FILE *file)
{
    changed_t changed = {.file = file};
    if (selvage_config_visit(print_changed, &changed) != SELVAGE_SUCCESS)
        return false;
    fprintf(file, "%s%d of %d settings have their default; --settings shows all\n", changed.shown ? "  " : "settings: ",
            changed.all - changed.shown, changed.all);
    return fflush(file) == 0 && !ferror(file);
}

bool info_print_text(FILE *file, const info_job_t *info)
{
    if (info) {
        fprintf(file, "selvage-info %s\n", selvage_version(NULL, NULL, NULL));
        print_head(file, info);
        print_devices(file, info);
        print_ranks(file, info);
        print_sharing(file, info);
        print_access(file, info);
        if (info->routes_known) {
            print_matrix(file, info);
            print_reasons(file, info);
        } else {
            fprintf(file, "\nroutes are not known: %s\n", info->error);
        }
        fputc('\n', file);
    }
    const bool shown = info ? print_changes(file) : selvage_config_print(file) == SELVAGE_SUCCESS;
    if (!shown)
        fprintf(file, "settings: %s\n", selvage_error_detail());
    return shown;
}

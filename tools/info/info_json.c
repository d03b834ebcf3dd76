/* SPDX-License-Identifier: BSD-3-Clause */
/* The report as JSON: every rank, and null for what is not known. */
#include "tools/info/info_print.h"
#include "tools/common/tool_json.h"

static void write_pair(FILE *file, const char *before, const char *name, const char *text)
{
    fprintf(file, "%s\"%s\": ", before, name);
    if (text[0])
        tool_json_text(file, text);
    else
        fputs("null", file);
}

static void write_job(FILE *file, const info_job_t *info)
{
    const tool_job_t *job = &info->job;
    write_pair(file, ",\n  \"mpi\": {", "library", info->mpi);
    fprintf(file, ", \"standard\": \"%d.%d\"", info->mpi_version, info->mpi_subversion);
    write_pair(file, ", ", "thread_level", info->thread_level);
    write_pair(file, "},\n  ", "wire", info->wire);
    fprintf(file, ",\n  \"ranks\": %d,\n  \"hosts\": %d,\n  \"cores_per_host\": %d,\n  \"crowded\": %s", job->size,
            job->hosts, job->host_cores, job->oversubscribed ? "true" : "false");
}

static void write_devices(FILE *file, const info_job_t *info)
{
    fputs(",\n  \"devices\": [", file);
    for (int i = 0; i < INFO_DEVICES; i++) {
        write_pair(file, i ? ",\n    {" : "\n    {", "name", info->devices[i].name);
        fprintf(file, ", \"count\": %d", info->devices[i].count);
        write_pair(file, ", ", "why_not", info->devices[i].why);
        fputc('}', file);
    }
    fputs("]", file);
}

static void write_rank(FILE *file, const info_rank_t *rank, int number)
{
    fprintf(file, "%s\n    {\"rank\": %d", number ? "," : "", number);
    write_pair(file, ", ", "host", rank->host);
    write_pair(file, ", ", "device", rank->device);
    if (!rank->failed)
        fprintf(file, ", \"index\": %d, \"count\": %d", rank->index, rank->count);
    write_pair(file, ", ", "bus_id", rank->bus_id);
    if (rank->gpu_ranks)
        fprintf(file, ", \"gpu_ranks\": %d", rank->gpu_ranks);
    else
        fputs(", \"gpu_ranks\": null", file);
    write_pair(file, ", ", "model", rank->model);
    if (rank->near.numa_node >= 0)
        fprintf(file, ", \"numa_node\": %d", rank->near.numa_node);
    else
        fputs(", \"numa_node\": null", file);
    write_pair(file, ", ", "cores", rank->near.cores);
    write_pair(file, ", ", "nic", rank->near.nic);
    write_pair(file, ", ", "error", rank->error);
    fputc('}', file);
}

static void write_access(FILE *file, const info_job_t *info)
{
    static const char *const words[] = {"false", "true", "null", "null"};
    fputs(",\n  \"peer_access\": [", file);
    for (int from = 0; from < info->first; from++) {
        for (int to = 0; to < info->first; to++) {
            const int access = info->cells[from * INFO_ROUTE_RANKS + to].access;
            fprintf(file, "%s\n    {\"from\": %d, \"to\": %d, \"possible\": %s, \"same_host\": %s}",
                    from || to ? "," : "", from, to, words[access],
                    access == INFO_ACCESS_OTHER_HOST ? "false" : "true");
        }
    }
    fputs("]", file);
}

static void write_routes(FILE *file, const info_job_t *info)
{
    char asked[32];
    info_setting_value("SELVAGE_ROUTE", asked, sizeof asked);
    fputs(",\n  \"routes\": [", file);
    for (int from = 0; from < info->routes_known; from++) {
        for (int to = 0; to < info->routes_known; to++) {
            const info_cell_t *cell = &info->cells[from * INFO_ROUTE_RANKS + to];
            fprintf(file, "%s\n    {\"from\": %d, \"to\": %d", from || to ? "," : "", from, to);
            write_pair(file, ", ", "route", selvage_route_name((selvage_route_t)cell->route));
            write_pair(file, ", ", "why", info_route_reason(cell, asked));
            fputc('}', file);
        }
    }
    fputs("]", file);
    write_pair(file, ",\n  ", "error", info->error);
    fprintf(file, ",\n  \"ok\": %s", info->good ? "true" : "false");
}

typedef struct list {
    FILE *file;
    int count;
} list_t;

static void write_setting(void *arg, const selvage_setting_t *setting)
{
    list_t *list = arg;
    write_pair(list->file, list->count++ ? ",\n    {" : "\n    {", "name", setting->name);
    fputs(", \"value\": ", list->file);
    tool_json_text(list->file, setting->value);
    write_pair(list->file, ", ", "source", setting->source);
    fputs(", \"default\": ", list->file);
    tool_json_text(list->file, setting->default_value);
    write_pair(list->file, ", ", "range", setting->range);
    fprintf(list->file, ", \"all_ranks_alike\": %s", setting->all_ranks_alike ? "true" : "false");
    write_pair(list->file, ", ", "text", setting->text);
    fputc('}', list->file);
}

static bool write_settings(FILE *file)
{
    list_t list = {.file = file};
    fputs(",\n  \"settings\": [", file);
    const bool shown = selvage_config_visit(write_setting, &list) == SELVAGE_SUCCESS;
    fputs("]", file);
    write_pair(file, ",\n  ", "settings_error", shown ? "" : selvage_error_detail());
    return shown;
}

bool info_print_json(FILE *file, const info_job_t *info)
{
    write_pair(file, "{\n  ", "tool", "selvage-info");
    write_pair(file, ",\n  ", "version", selvage_version(NULL, NULL, NULL));
    write_pair(file, ",\n  ", "build", selvage_version_build());
    if (info) {
        write_job(file, info);
        write_devices(file, info);
        fputs(",\n  \"members\": [", file);
        for (int r = 0; r < info->job.size; r++)
            write_rank(file, &info->ranks[r], r);
        fputs("]", file);
        write_access(file, info);
        write_routes(file, info);
    }
    const bool shown = write_settings(file);
    fputs("\n}\n", file);
    return shown && fflush(file) == 0 && !ferror(file);
}

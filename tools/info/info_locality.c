/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading sysfs. A network interface is close to a GPU if both hang below one PCI root or on one NUMA node; the closest
 * is the one whose path has most in common with the GPU's, because the path is the tree of bridges. InfiniBand devices
 * come before Ethernet's, of equals the first by name.
 */
#define _GNU_SOURCE

#include "tools/info/info_locality.h"

#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* First line of a file below a folder; "" if it cannot be read. */
static void read_below(const char *folder, const char *name, char *line, size_t line_bytes)
{
    char path[PATH_MAX];
    line[0] = '\0';
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    if (!fgets(line, (int)line_bytes, file))
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

static int numa_node_of(const char *folder)
{
    char line[32], *end;
    read_below(folder, "numa_node", line, sizeof line);
    long node = strtol(line, &end, 10);
    return end == line ? -1 : (int)node;
}

/* How many folders two absolute paths have in common below "devices"; 0: not even the PCI root. */
static int common_folders(const char *left, const char *right)
{
    int count = 0;
    const char *below = strstr(left, "/devices/");
    for (size_t i = 0; left[i] == right[i] || left[i] == '\0' || right[i] == '\0'; i++) {
        const int ends = (left[i] == '/' || !left[i]) && (right[i] == '/' || !right[i]);
        if (ends && below && left + i > below + 8)
            count++;
        if (!left[i] || !right[i])
            break;
    }
    return count;
}

/* Larger is closer; 0: no reason to call it close. */
static int closeness(const char *gpu_path, const char *nic_path)
{
    const int common = common_folders(gpu_path, nic_path), node = numa_node_of(gpu_path);
    const int same_node = node >= 0 && node == numa_node_of(nic_path);
    return 2 * common + same_node;
}

/* The closest device of a class of interfaces; interfaces without hardware after them have no "device". */
static void find_nic(const char *sys_root, const char *class_name, const char *gpu_path, char *nic, size_t nic_bytes)
{
    char pattern[PATH_MAX], nic_path[PATH_MAX];
    glob_t found;
    int best = 0;
    snprintf(pattern, sizeof pattern, "%s/class/%s/*/device", sys_root, class_name);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *path = found.gl_pathv[i];
        const int close = realpath(path, nic_path) ? closeness(gpu_path, nic_path) : 0;
        if (close <= best)
            continue;
        best = close;
        *strrchr(path, '/') = '\0';
        snprintf(nic, nic_bytes, "%s", strrchr(path, '/') + 1);
    }
    globfree(&found);
}

void info_locality_find(const char *sys_root, const char *bus_id, info_locality_t *locality_out)
{
    char path[PATH_MAX], gpu_path[PATH_MAX];
    info_locality_t locality = {.numa_node = -1};
    *locality_out = locality;
    snprintf(path, sizeof path, "%s/bus/pci/devices/%s", sys_root, bus_id);
    if (!bus_id[0] || !realpath(path, gpu_path))
        return;
    locality.numa_node = numa_node_of(gpu_path);
    read_below(gpu_path, "local_cpulist", locality.cores, sizeof locality.cores);
    find_nic(sys_root, "infiniband", gpu_path, locality.nic, sizeof locality.nic);
    if (!locality.nic[0])
        find_nic(sys_root, "net", gpu_path, locality.nic, sizeof locality.nic);
    *locality_out = locality;
}

/* "transport/device" or "transport/device:port" */
static int is_by_device(const char *item, size_t item_bytes, const char *nic)
{
    const char *slash = memchr(item, '/', item_bytes);
    const size_t length = strlen(nic), left = slash ? item_bytes - (size_t)(slash + 1 - item) : 0;
    return length > 0 && left >= length && memcmp(slash + 1, nic, length) == 0 &&
           (left == length || slash[1 + length] == ':');
}

void info_locality_near_first(const char *list, const char *nic, char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int near = 1; near >= 0; near--) {
        for (const char *item = list; *item;) {
            const size_t bytes = strcspn(item, ",");
            if (is_by_device(item, bytes, nic) == near && used < text_bytes)
                used += (size_t)snprintf(text + used, text_bytes - used, "%s%.*s", used ? ", " : "", (int)bytes, item);
            item += bytes;
            item += strspn(item, ", ");
        }
    }
}

void info_locality_allowed(char *text, size_t text_bytes)
{
    cpu_set_t set;
    size_t used = 0;
    text[0] = '\0';
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int first = 0; first < CPU_SETSIZE; first++) {
        int last = first;
        if (!CPU_ISSET(first, &set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
            last++;
        char range[32];
        const int length = first == last ? snprintf(range, sizeof range, "%s%d", used ? "," : "", first)
                                         : snprintf(range, sizeof range, "%s%d-%d", used ? "," : "", first, last);
        if (used + (size_t)length + sizeof "..." > text_bytes) {
            snprintf(text + used, text_bytes - used, "...");
            return;
        }
        memcpy(text + used, range, (size_t)length + 1);
        used += (size_t)length;
        first = last;
    }
}

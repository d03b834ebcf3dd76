/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What selvage-info reads from sysfs, on a tree made here: two sockets, GPUs after bridges, interfaces near and far,
 * one without hardware, and addresses that are not there.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/info/info_locality.h"
#include "fixtures/check.h"

static char root[64];

/* Makes root/path and every folder above it. */
static void make_folder(const char *path)
{
    char full[512];
    size_t begin = strlen(root) + 1;
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *c = full + begin; *c; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        (void)mkdir(full, 0700);
        *c = '/';
    }
    (void)mkdir(full, 0700);
    CHECK(access(full, X_OK) == 0);
}

static void put(const char *folder, const char *name, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s/%s", root, folder, name);
    FILE *file = fopen(full, "w");
    CHECK(file != NULL);
    if (!file)
        return;
    fprintf(file, "%s\n", text);
    fclose(file);
}

/* A PCI function at a place in the tree of bridges. */
static void make_function(const char *place, const char *node, const char *cores)
{
    char path[256], link_path[512], target[512];
    snprintf(path, sizeof path, "devices/%s", place);
    make_folder(path);
    put(path, "numa_node", node);
    put(path, "local_cpulist", cores);
    make_folder("bus/pci/devices");
    snprintf(link_path, sizeof link_path, "%s/bus/pci/devices/%s", root, strrchr(place, '/') + 1);
    snprintf(target, sizeof target, "%s/%s", root, path);
    CHECK_EQ(symlink(target, link_path), 0);
}

static void make_interface(const char *class_name, const char *name, const char *place)
{
    char path[256], link_path[512], target[512];
    snprintf(path, sizeof path, "class/%s/%s", class_name, name);
    make_folder(path);
    if (!place)
        return;
    snprintf(link_path, sizeof link_path, "%s/%s/device", root, path);
    snprintf(target, sizeof target, "%s/devices/%s", root, place);
    CHECK_EQ(symlink(target, link_path), 0);
}

static void make_tree(void)
{
    make_function("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", "0", "0-15,64-79"); /* a GPU */
    make_function("pci0000:00/0000:00:01.0/0000:01:00.0/0000:03:00.0", "0", "0-15,64-79"); /* a NIC on its switch */
    make_function("pci0000:00/0000:00:02.0/0000:04:00.0", "0", "0-15,64-79");              /* another of the socket */
    make_function("pci0000:80/0000:81:00.0", "1", "16-31");                                /* a GPU */
    make_function("pci0000:90/0000:91:00.0", "1", "16-31");                                /* Ethernet, same node */
    make_function("pci0000:a0/0000:a1:00.0", "-1", "");                                    /* a GPU nobody knows of */
    make_interface("infiniband", "mlx5_0", "pci0000:00/0000:00:02.0/0000:04:00.0");
    make_interface("infiniband", "mlx5_1", "pci0000:00/0000:00:01.0/0000:01:00.0/0000:03:00.0");
    make_interface("net", "eth0", "pci0000:90/0000:91:00.0");
    make_interface("net", "lo", NULL);
}

static void check_found(void)
{
    info_locality_t near;
    info_locality_find(root, "0000:02:00.0", &near);
    CHECK_EQ(near.numa_node, 0);
    CHECK_STR(near.cores, "0-15,64-79");
    CHECK_STR(near.nic, "mlx5_1");
    info_locality_find(root, "0000:81:00.0", &near);
    CHECK_EQ(near.numa_node, 1);
    CHECK_STR(near.cores, "16-31");
    CHECK_STR(near.nic, "eth0");
    info_locality_find(root, "0000:a1:00.0", &near);
    CHECK_EQ(near.numa_node, -1);
    CHECK_STR(near.nic, "");
}

static void check_unknown(const char *sys_root, const char *bus_id)
{
    info_locality_t near = {.numa_node = 5, .cores = "x", .nic = "y"};
    info_locality_find(sys_root, bus_id, &near);
    CHECK_EQ(near.numa_node, -1);
    CHECK_STR(near.cores, "");
    CHECK_STR(near.nic, "");
}

static void check_allowed(void)
{
    char text[256], small[8];
    info_locality_allowed(text, sizeof text);
    CHECK(text[0] >= '0' && text[0] <= '9');
    info_locality_allowed(small, sizeof small);
    CHECK(strlen(small) < sizeof small);
}

static void check_order(const char *list, const char *nic, const char *wanted)
{
    char text[64];
    info_locality_near_first(list, nic, text, sizeof text);
    CHECK_STR(text, wanted);
}

int main(void)
{
    char command[128];
    snprintf(root, sizeof root, "/tmp/selvage-info-%ld", (long)getpid());
    CHECK_EQ(mkdir(root, 0700), 0);
    make_tree();
    check_found();
    check_unknown(root, "0000:ff:00.0");
    check_unknown(root, "");
    check_unknown("/nowhere", "0000:02:00.0");
    check_allowed();
    check_order("tcp/eth0, rc_verbs/mlx5_1:1", "mlx5_1", "rc_verbs/mlx5_1:1, tcp/eth0");
    check_order("tcp/eth0, tcp/eth1", "eth1", "tcp/eth1, tcp/eth0");
    check_order("tcp/eth10, tcp/eth1", "eth1", "tcp/eth1, tcp/eth10");
    check_order("tcp/eth0, posix/memory", "", "tcp/eth0, posix/memory");
    check_order("", "eth0", "");
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    CHECK_EQ(system(command), 0);
    return check_report("info_parts");
}

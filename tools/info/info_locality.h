/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lies close to a GPU, as sysfs says it: NUMA node, cores, network interface. And the cores a process may use.
 * Everything that is unknown is left empty: nothing here is guessed.
 */
#ifndef SELVAGE_INFO_LOCALITY_H
#define SELVAGE_INFO_LOCALITY_H

#include <stddef.h>

typedef struct info_locality {
    int numa_node; /* -1: unknown, or the machine has one */
    char cores[128]; /* "0-15,64-79" */
    char nic[64];    /* "mlx5_0", "eth0" */
} info_locality_t;

/* Looks a PCI address up below sys_root, which is "/sys" but in tests. */
void info_locality_find(const char *sys_root, const char *bus_id, info_locality_t *locality_out);

/* Puts what is by the device `nic` first: of "tcp/eth0, rc_verbs/mlx5_1:1" by mlx5_1 the second. */
void info_locality_near_first(const char *list, const char *nic, char *text, size_t text_bytes);

/* The cores that this process may run on, as a list of ranges; cut with "..." where it does not fit. */
void info_locality_allowed(char *text, size_t text_bytes);

#endif

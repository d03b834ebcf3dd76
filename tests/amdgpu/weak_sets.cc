/* SPDX-License-Identifier: BSD-3-Clause */
/* See weak_sets.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amdgpu/weak_collectives.h"
#include "amdgpu/weak_messages.h"
#include "amdgpu/weak_sets.h"

namespace {

enum { MOST_BYTES = 4 << 20 }; /* of a code object */

const amdgpu_kernel_t *load_kernel(const char *folder, const char *name, const char *arch)
{
    char path[512], error[256] = "it cannot be read", symbol[64];
    snprintf(path, sizeof path, "%s/kernel_%s.%s.co", folder, name, arch);
    snprintf(symbol, sizeof symbol, "sv_%s", name);
    FILE *file = fopen(path, "rb");
    uint8_t *image = (uint8_t *)malloc(MOST_BYTES);
    const size_t bytes = file && image ? fread(image, 1, MOST_BYTES, file) : 0;
    if (file)
        fclose(file);
    amdgpu_object_t *object =
        bytes > 64 && bytes < MOST_BYTES ? amdgpu_object_load(image, arch, error, sizeof error) : nullptr;
    const amdgpu_kernel_t *kernel = object ? amdgpu_kernel_find(object, symbol) : nullptr;
    if (!kernel) {
        fprintf(stderr, "%s: %s\n", path, object ? "it lacks its kernel" : error);
        exit(2);
    }
    return kernel;
}

const struct {
    const char *push, *pull;
    weak_form_t form;
    bool pieces;
    weak_run_t run;
} sets[] = {{"push", "pull", WEAK_BATCH, false, weak_exchange_run},
            {"gather", "scatter", WEAK_BATCH, true, weak_exchange_run},
            {"run", nullptr, WEAK_RUN, false, weak_exchange_run},
            {"run_pieces", nullptr, WEAK_RUN, true, weak_exchange_run},
            {"replay", nullptr, WEAK_REPLAY, false, weak_exchange_run},
            {"replay_pieces", nullptr, WEAK_REPLAY, true, weak_exchange_run},
            {"digest", nullptr, WEAK_MESSAGES, false, weak_messages_run},
            {"digests", nullptr, WEAK_GROUPS, false, weak_messages_run},
            {"coll_small", nullptr, WEAK_COLL_SMALL, false, weak_collectives_run},
            {"coll_ll", nullptr, WEAK_COLL_LINES, false, weak_collectives_run},
            {"coll", nullptr, WEAK_COLL_SLOTS, false, weak_collectives_run}};

} // namespace

weak_kernels_t weak_set_load(const char *folder, const char *arch, const char *name)
{
    for (const auto &set : sets)
        if (strcmp(set.push, name) == 0) {
            const amdgpu_kernel_t *push = load_kernel(folder, set.push, arch);
            return {arch, push, set.pull ? load_kernel(folder, set.pull, arch) : push, set.form, set.pieces, set.run};
        }
    fprintf(stderr, "no set of kernels has the name %s\n", name);
    exit(2);
}

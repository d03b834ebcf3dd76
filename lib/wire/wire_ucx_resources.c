/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What UCX has found, and what it uses: transports with their devices. UCX tells this as text only, so its text is read
 * here. A line that is not understood is passed over, and who asks then knows less. No state; any thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire_ucx_private.h"

/* "tcp/eth0" up to a blank or the end of the line, into two texts. */
static bool split_name(const char *text, sv_ucx_resource_t *resource_out)
{
    const size_t all = strcspn(text, " \t\n"), transport = strcspn(text, "/");
    if (transport >= all || transport == 0 || transport >= sizeof resource_out->transport ||
        all - transport - 1 >= sizeof resource_out->device)
        return false;
    memset(resource_out, 0, sizeof *resource_out);
    memcpy(resource_out->transport, text, transport);
    memcpy(resource_out->device, text + transport + 1, all - transport - 1);
    return true;
}

/* Each line's "TRANSPORT/DEVICE" after a mark that such lines have. */
static unsigned read_resource_lines(char *text, const char *line_mark, const char *name_mark,
                                    sv_ucx_resource_t *resources, unsigned room)
{
    unsigned n = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && n < room; line = strtok_r(NULL, "\n", &rest)) {
        const char *begin = strstr(line, line_mark), *name = begin ? strstr(begin, name_mark) : NULL;
        if (!name)
            continue;
        name += strlen(name_mark);
        name += strspn(name, " 0123456789:"); /* a lane's number of the resource */
        n += split_name(name, &resources[n]) ? 1 : 0;
    }
    return n;
}

unsigned sv_ucx_list_resources(const sv_ucx_library_t *ucp, ucp_context_h context, sv_ucx_resource_t *resources_out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return 0;
    ucp->context_print_info(context, stream);
    fclose(stream);
    const unsigned n = read_resource_lines(text, "resource ", "-- ", resources_out, SV_UCX_RESOURCES_MAX);
    free(text); /* of libc */
    return n;
}

unsigned sv_ucx_list_lanes(const sv_ucx_library_t *ucp, ucp_ep_h endpoint, sv_ucx_resource_t *resources_out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return 0;
    ucp->ep_print_info(endpoint, stream);
    fclose(stream);
    const unsigned n = read_resource_lines(text, "lane[", "]:", resources_out, SV_UCX_RESOURCES_MAX);
    free(text);
    for (unsigned i = 0; i < n; i++) { /* "eth0.0": the path after the device */
        char *path = strrchr(resources_out[i].device, '.');
        if (path)
            *path = '\0';
    }
    return n;
}

void sv_ucx_describe(const sv_ucx_library_t *ucp, ucp_context_h context, char *text, size_t text_bytes)
{
    sv_ucx_resource_t resources[SV_UCX_RESOURCES_MAX];
    const unsigned n = sv_ucx_list_resources(ucp, context, resources);
    size_t used = (size_t)snprintf(text, text_bytes, "ucx %s", ucp->get_version_string());
    const char *between = ": ";
    for (unsigned i = 0; i < n && used < text_bytes; i++) {
        if (strcmp(resources[i].transport, "self") == 0)
            continue;
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s/%s", between, resources[i].transport,
                                 resources[i].device);
        between = ", ";
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The rails of this machine, as the kernel and its file systems tell them: see wire_ucx_rails.h. */
#include "wire/wire_ucx_rails.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/wire_ucx.h"

static uint32_t ipv4_of(const struct sockaddr *address)
{
    struct sockaddr_in in;
    memcpy(&in, address, sizeof in);
    return in.sin_addr.s_addr;
}

static bool leads_elsewhere(const struct ifaddrs *it)
{
    const unsigned wanted = IFF_UP | IFF_RUNNING, unwanted = IFF_LOOPBACK | IFF_POINTOPOINT;
    if (!it->ifa_addr || !it->ifa_netmask || it->ifa_addr->sa_family != AF_INET ||
        (it->ifa_flags & (wanted | unwanted)) != wanted)
        return false;
    const uint32_t host = ntohl(ipv4_of(it->ifa_addr));
    return host >> 24 != IN_LOOPBACKNET && host >> 16 != 0xa9fe; /* 169.254/16 */
}

unsigned sv_ucx_list_rails(bool bridges, sv_ucx_rail_t *rails_out)
{
    struct ifaddrs *addresses = NULL;
    unsigned n = 0;
    if (getifaddrs(&addresses) != 0)
        return 0;
    for (const struct ifaddrs *it = addresses; it && n < SV_UCX_RAILS_MAX; it = it->ifa_next) {
        const size_t bytes = strlen(it->ifa_name) + 1;
        char bridge[128];
        snprintf(bridge, sizeof bridge, "/sys/class/net/%s/bridge", it->ifa_name);
        if (!leads_elsewhere(it) || bytes > sizeof rails_out->name || (access(bridge, F_OK) == 0) != bridges)
            continue;
        rails_out[n] = (sv_ucx_rail_t){.host = ipv4_of(it->ifa_addr), .mask = ipv4_of(it->ifa_netmask)};
        memcpy(rails_out[n++].name, it->ifa_name, bytes);
    }
    freeifaddrs(addresses);
    return n;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

uint64_t sv_ucx_machine(void)
{
    char boot[64] = "";
    struct stat network;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    const size_t bytes = file ? fread(boot, 1, sizeof boot, file) : 0;
    if (file)
        fclose(file);
    if (bytes == 0 || stat("/proc/self/ns/net", &network) != 0)
        return 0;
    const uint64_t name[2] = {(uint64_t)network.st_dev, (uint64_t)network.st_ino};
    return hash_bytes(hash_bytes(HASH_BEGIN, boot, bytes), name, sizeof name) | 1;
}

bool sv_ucx_share_subnet(uint32_t host, uint32_t mask, uint32_t other_host, uint32_t other_mask)
{
    return mask == other_mask && ((host ^ other_host) & mask) == 0;
}

static unsigned count_hosts(const sv_ucx_contact_t *contact)
{
    return contact->nhosts < SV_UCX_RAILS_MAX ? contact->nhosts : SV_UCX_RAILS_MAX;
}

/* The same address here as there does not lead there. */
static bool is_own(const sv_ucx_rail_t *rails, unsigned nrails, uint32_t host)
{
    for (unsigned i = 0; i < nrails; i++)
        if (rails[i].host == host)
            return true;
    return false;
}

const sv_ucx_host_t *sv_ucx_find_neighbour(const sv_ucx_rail_t *rails, unsigned nrails, unsigned rail,
                                           const sv_ucx_contact_t *contact)
{
    const sv_ucx_host_t *found[SV_UCX_RAILS_MAX];
    const sv_ucx_rail_t *own = &rails[rail];
    unsigned n = 0, before = 0;
    for (unsigned i = SV_UCX_LOOPBACK + 1; i < count_hosts(contact); i++) {
        const sv_ucx_host_t *host = &contact->hosts[i];
        if (sv_ucx_share_subnet(own->host, own->mask, host->host, host->mask) && !is_own(rails, nrails, host->host))
            found[n++] = host;
    }
    for (unsigned i = SV_UCX_LOOPBACK + 1; i < rail; i++)
        before += sv_ucx_share_subnet(own->host, own->mask, rails[i].host, rails[i].mask);
    return n > 0 ? found[before % n] : NULL;
}

const sv_ucx_host_t *sv_ucx_find_far_host(const sv_ucx_rail_t *rails, unsigned nrails, const sv_ucx_contact_t *contact)
{
    for (unsigned i = SV_UCX_LOOPBACK + 1; nrails > SV_UCX_LOOPBACK + 1 && i < count_hosts(contact); i++)
        if (!is_own(rails, nrails, contact->hosts[i].host))
            return &contact->hosts[i];
    return NULL;
}

const sv_ucx_host_t *sv_ucx_find_listener(const sv_ucx_contact_t *contact, uint32_t host)
{
    for (unsigned i = 0; i < count_hosts(contact); i++)
        if (contact->hosts[i].host == host)
            return &contact->hosts[i];
    return NULL;
}

void sv_wire_ucx_reach(sv_wire_ucx_reach_t *reach_out)
{
    sv_ucx_rail_t rails[SV_UCX_RAILS_MAX];
    const unsigned n = sv_ucx_list_rails(false, rails);
    *reach_out = (sv_wire_ucx_reach_t){.machine = sv_ucx_machine()};
    _Static_assert((int)SV_UCX_RAILS_MAX == (int)SV_WIRE_UCX_HOSTS, "all rails are told");
    for (unsigned i = 0; i < n; i++) {
        const uint32_t subnet[2] = {rails[i].host & rails[i].mask, rails[i].mask};
        reach_out->hosts[i] = rails[i].host;
        if (n > 1) /* whatever their order */
            reach_out->subnets += hash_bytes(HASH_BEGIN, subnet, sizeof subnet);
    }
}

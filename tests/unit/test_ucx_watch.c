/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The watch over peers of the UCX wire, without UCX: ranks of one process on machines and rails that are pretended, by
 * addresses of loopback. A rank is gone when all its proven connections have ended, and not before: not for a wrong
 * cookie, a refusal before any proof, one connection that is reset, or a program that polls rarely. Who connects and
 * says nothing takes few descriptors, and not for long. Silence needs a link that is cut: test_nodes.sh.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "wire/wire_ucx_rails.h"

unsigned list_real_rails(bool bridges, sv_ucx_rail_t *rails_out);
uint64_t name_real_machine(void);

#define sv_ucx_list_rails list_real_rails
#define sv_ucx_machine name_real_machine
#include "wire/wire_ucx_rails.c"
#undef sv_ucx_list_rails
#undef sv_ucx_machine
#include "wire/wire_ucx_watch.c"

#include <arpa/inet.h>

#include "fixtures/check.h"

enum { RANKS = 2, SETTLE_MS = 300, END_MS = 3000, LOW = 0, HIGH = 1, BACKWARDS = 3 };

static unsigned machine, machines; /* at hand, and how many there are */
static uint64_t ahead_ns;          /* of the clock: time that nobody waits for */
static ucs_status_t why_gone[RANKS];

/* Each machine has net0 and net1. */
unsigned sv_ucx_list_rails(bool bridges, sv_ucx_rail_t *rails_out)
{
    for (unsigned i = 0; i < 2 && !bridges; i++) {
        char text[32];
        snprintf(text, sizeof text, "127.%u.0.%u", 1 + i, 1 + machine);
        rails_out[i] = (sv_ucx_rail_t){.host = inet_addr(text), .mask = inet_addr("255.255.0.0")};
        snprintf(rails_out[i].name, sizeof rails_out[i].name, "net%u", i);
    }
    return bridges ? 0 : 2;
}

uint64_t sv_ucx_machine(void)
{
    return 1 + machine;
}

unsigned sv_ucx_list_resources(const sv_ucx_library_t *ucp, ucp_context_h context, sv_ucx_resource_t *resources_out)
{
    (void)ucp;
    (void)context;
    for (unsigned i = 0; i < 2; i++) {
        strcpy(resources_out[i].transport, "tcp");
        snprintf(resources_out[i].device, sizeof resources_out[i].device, "net%u", 1 - i);
    }
    return 2;
}

void sv_ucx_declare_gone(sv_ucx_peer_t *peer, ucs_status_t why, const char *device)
{
    (void)device;
    if (peer->state == SV_UCX_GONE)
        return;
    peer->state = SV_UCX_GONE;
    why_gone[peer->rank] = why;
}

/* Two ranks that know each other, and have not connected yet. */
typedef struct pair {
    sv_wire_ucx_t wire[RANKS];
    sv_ucx_peer_t peers[RANKS][RANKS];
    sv_ucx_peer_t *table[RANKS][RANKS];
    sv_ucx_contact_t contact[RANKS];
} pair_t;

static void open_pair(pair_t *pair, unsigned nmachines)
{
    memset(pair, 0, sizeof *pair);
    machines = nmachines;
    ahead_ns = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        sv_wire_ucx_t *wire = &pair->wire[rank];
        wire->base.rank = rank;
        wire->base.size = RANKS;
        wire->peers = pair->table[rank];
        wire->watcher.silence_ns = UINT64_C(2000000000);
        machine = (unsigned)rank % machines;
        sv_ucx_watch_begin(wire, &pair->contact[rank]);
        CHECK_EQ(wire->watcher.nrails, 3);
    }
    for (int rank = 0; rank < RANKS; rank++)
        for (int other = 0; other < RANKS; other++) {
            sv_ucx_peer_t *peer = pair->table[rank][other] = &pair->peers[rank][other];
            *peer = (sv_ucx_peer_t){.wire = &pair->wire[rank], .rank = other, .state = SV_UCX_CONNECTED, .lanes = 6};
            peer->contact = pair->contact[other];
        }
}

static void check_one(pair_t *pair, int rank)
{
    sv_ucx_watch_check(&pair->wire[rank], sv_clock_ns() + ahead_ns);
}

static void run_ms(pair_t *pair, int ms, int only)
{
    for (int i = 0; i < ms; i++) {
        for (int rank = 0; rank < RANKS; rank++)
            if (only < 0 || only == rank)
                check_one(pair, rank);
        sv_clock_sleep_until_ns(sv_clock_ns() + 1000000);
    }
}

static bool is_gone(const pair_t *pair, int rank, int other)
{
    return pair->peers[rank][other].state == SV_UCX_GONE;
}

/* Until the other is gone for this rank, or long enough. */
static void wait_gone(pair_t *pair, int rank, int other)
{
    for (int ms = 0; ms < END_MS && !is_gone(pair, rank, other); ms++)
        run_ms(pair, 1, rank);
}

static void close_pair(pair_t *pair)
{
    for (int rank = 0; rank < RANKS; rank++)
        sv_ucx_watch_end(&pair->wire[rank]);
    CHECK_EQ(descriptors_taken, 0);
    CHECK_EQ(sv_memory_live(), 0);
}

static void open_watched(pair_t *pair, unsigned nmachines, unsigned nconnections)
{
    open_pair(pair, nmachines);
    sv_ucx_watch_peer(&pair->peers[LOW][HIGH]);
    sv_ucx_watch_peer(&pair->peers[HIGH][LOW]); /* the higher rank waits */
    for (int ms = 0; ms < END_MS && pair->wire[LOW].watcher.nwatching + pair->wire[HIGH].watcher.nwatching <
                                        2 * nconnections; ms++)
        run_ms(pair, 1, -1);
    CHECK_EQ(pair->wire[LOW].watcher.nwatching, nconnections);
    CHECK_EQ(pair->wire[HIGH].watcher.nwatching, nconnections);
}

static connection_t *first_connection(pair_t *pair, int rank)
{
    return SV_CONTAINER_OF(pair->wire[rank].watcher.watching.next, connection_t, link);
}

/* A rank that ends is gone: with all it has read, and with heartbeats that it has not. */
static void check_end(unsigned nmachines, unsigned nconnections, bool unread, bool in_order)
{
    for (int rank = 0; rank < RANKS; rank++) {
        pair_t pair;
        open_watched(&pair, nmachines, nconnections);
        if (unread) {
            run_ms(&pair, 2 * SETTLE_MS, rank);
            CHECK(first_connection(&pair, rank)->unread > 0);
        }
        if (in_order)
            sv_ucx_watch_say_farewell(&pair.wire[1 - rank]);
        sv_ucx_watch_end(&pair.wire[1 - rank]);
        wait_gone(&pair, rank, 1 - rank);
        CHECK(is_gone(&pair, rank, 1 - rank));
        CHECK_EQ(why_gone[1 - rank], UCS_ERR_CONNECTION_RESET);
        CHECK_EQ(pair.peers[rank][1 - rank].left, in_order);
        close_pair(&pair);
    }
}

/* Of two connections one is reset, by either side. It is made again. */
static void check_reset(void)
{
    for (int rank = 0; rank < RANKS; rank++) {
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        pair_t pair;
        open_watched(&pair, 2, 2);
        connection_t *conn = first_connection(&pair, rank);
        CHECK_EQ(setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        drop_connection(&pair.wire[rank], conn);
        for (int ms = 0; ms < END_MS && pair.wire[rank].watcher.nwatching < 2; ms++)
            run_ms(&pair, 1, -1);
        run_ms(&pair, SETTLE_MS, -1);
        CHECK(!is_gone(&pair, LOW, HIGH) && !is_gone(&pair, HIGH, LOW));
        CHECK_EQ(pair.wire[LOW].watcher.nwatching, 2);
        CHECK_EQ(pair.wire[HIGH].watcher.nwatching, 2);
        close_pair(&pair);
    }
}

/* One of two is closed, as no rank does. The other speaks. */
static void check_closed(void)
{
    pair_t pair;
    open_watched(&pair, 2, 2);
    drop_connection(&pair.wire[HIGH], first_connection(&pair, HIGH));
    run_ms(&pair, 2 * SETTLE_MS, -1);
    CHECK(!is_gone(&pair, LOW, HIGH) && !is_gone(&pair, HIGH, LOW));
    close_pair(&pair);
}

/* Who does not know the cookie is no rank, and who is not there never was. */
static void check_unproven(bool wrong_cookie)
{
    pair_t pair;
    open_pair(&pair, 2);
    if (wrong_cookie)
        pair.peers[LOW][HIGH].contact.cookie++;
    sv_ucx_watch_peer(&pair.peers[LOW][HIGH]);
    if (!wrong_cookie)
        sv_ucx_watch_end(&pair.wire[HIGH]); /* connected, and refused from then on */
    run_ms(&pair, SETTLE_MS, -1);
    sv_ucx_watch_end(&pair.wire[HIGH]);
    run_ms(&pair, 4 * SETTLE_MS, LOW);
    CHECK(!is_gone(&pair, LOW, HIGH));
    CHECK_EQ(pair.wire[LOW].watcher.nwatching, 0);
    close_pair(&pair);
}

/* From an address that is not the rank's. */
static void check_source(void)
{
    pair_t pair;
    open_pair(&pair, 2);
    pair.peers[HIGH][LOW].contact.nhosts = 0;
    sv_ucx_watch_peer(&pair.peers[LOW][HIGH]);
    run_ms(&pair, SETTLE_MS, -1);
    CHECK_EQ(pair.wire[HIGH].watcher.nwatching, 0);
    CHECK(!is_gone(&pair, LOW, HIGH));
    close_pair(&pair);
}

/* A rank whose own address has not come yet is found to end as well. */
static void check_asked(void)
{
    pair_t pair;
    open_pair(&pair, 1);
    pair.peers[HIGH][LOW].state = SV_UCX_ASKED;
    memset(&pair.peers[HIGH][LOW].contact, 0, sizeof pair.peers[HIGH][LOW].contact);
    sv_ucx_watch_peer(&pair.peers[LOW][HIGH]);
    for (int ms = 0; ms < END_MS && pair.wire[LOW].watcher.nwatching < 1; ms++)
        run_ms(&pair, 1, -1);
    CHECK_EQ(pair.wire[HIGH].watcher.nwatching, 1);
    sv_ucx_watch_end(&pair.wire[LOW]);
    wait_gone(&pair, HIGH, LOW);
    CHECK(is_gone(&pair, HIGH, LOW));
    close_pair(&pair);
}

/* One that looks every 700 ms says so all the same, and blames nobody for it. */
static void check_rare(void)
{
    enum { MANY = 20, EVERY_MS = 710, ANSWER_MS = 60 };
    pair_t pair;
    open_watched(&pair, 2, 2);
    for (int i = 0; i < MANY; i++) {
        ahead_ns += UINT64_C(1000000) * EVERY_MS;
        check_one(&pair, LOW);
        sv_clock_sleep_until_ns(sv_clock_ns() + UINT64_C(1000000) * ANSWER_MS);
    }
    CHECK(first_connection(&pair, LOW)->unread > MANY / 2);
    run_ms(&pair, SETTLE_MS, -1);
    CHECK(!is_gone(&pair, LOW, HIGH) && !is_gone(&pair, HIGH, LOW));
    close_pair(&pair);
}

static int connect_stranger(const sv_ucx_contact_t *contact)
{
    const struct sockaddr_in there = {.sin_family = AF_INET,
                                      .sin_port = contact->hosts[SV_UCX_LOOPBACK].port,
                                      .sin_addr = {.s_addr = contact->hosts[SV_UCX_LOOPBACK].host}};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (const struct sockaddr *)&there, sizeof there), 0);
    return fd;
}

static void check_strangers(bool few_descriptors)
{
    enum { MANY = STRANGERS_MAX + 8, DESCRIPTORS = 96 };
    pair_t pair;
    int fds[MANY];
    struct rlimit limit, lower;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    lower = limit;
    if (few_descriptors)
        lower.rlim_cur = DESCRIPTORS;
    open_pair(&pair, 1);
    for (int i = 0; i < MANY; i++)
        fds[i] = connect_stranger(&pair.contact[HIGH]);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
    run_ms(&pair, SETTLE_MS, HIGH);
    CHECK_EQ(pair.wire[HIGH].watcher.nstrangers, few_descriptors ? DESCRIPTORS / 4 : STRANGERS_MAX);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ahead_ns = BACKWARDS * UINT64_C(1000000000);
    run_ms(&pair, 1, HIGH);
    ahead_ns += STRANGER_NS;
    run_ms(&pair, 2 * SETTLE_MS, HIGH);
    CHECK(pair.wire[HIGH].watcher.nstrangers <= MANY - STRANGERS_MAX);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    close_pair(&pair);
}

int main(void)
{
    check_end(1, 1, false, false);
    check_end(2, 2, false, false);
    check_end(2, 2, true, false);
    check_end(2, 2, false, true);
    check_reset();
    check_closed();
    check_unproven(true);
    check_unproven(false);
    check_source();
    check_asked();
    check_rare();
    check_strangers(false);
    check_strangers(true);
    return check_report("test_ucx_watch");
}

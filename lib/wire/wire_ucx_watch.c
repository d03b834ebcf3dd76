/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches over the ranks that are connected: see wire_ucx_watch.h for what it finds.
 *
 *   lower rank   --connect, handshake: cookie of the other, own rank-->   higher rank
 *                <--handshake: the same cookie, own rank---------------
 *                <--heartbeats, one byte each, while a rank waits----->
 *                <--farewell, one byte: a close in order-------------->
 *
 * - The connection of who does not know the cookie is closed. So it is found when an address
 *   means another machine there than here.
 * - A heartbeat goes out only when all that was sent has been acknowledged. So "nothing acknowledged" counts from a
 *   heartbeat.
 * - A rank that computes reads none. After HEARTBEATS_MAX unread ones no more are sent, lest its kernel has no room to
 *   acknowledge them. From then on the kernel's own probes watch, some seconds slower.
 * - A process may end before it has answered. Who is cut off connects again, and learns that nobody
 *   listens any more.
 * - Time in which this process did not run, as a machine that is moved, is not held against others.
 * - Descriptors are the program's: connections take a quarter of them at most. Ranks beyond that are UCX's to watch.
 * - The end of a connection counts after GRACE_NS only: what came by UCX before it is received first.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for accept4 */
#endif
#include "wire/wire_ucx_watch.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base_clock.h"
#include "base/base_log.h"
#include "base/base_memory.h"
#include "wire/wire_ucx_private.h"

#define CHECK_NS UINT64_C(50000000)
#define CHECK_SOON_NS UINT64_C(1000000) /* while connections are new */
#define NEW_NS UINT64_C(100000000)
#define PAUSED_NS UINT64_C(700000000)
#define HEARTBEAT_NS UINT64_C(300000000)
#define SILENCE_NS UINT64_C(1400000000)
#define GRACE_NS UINT64_C(200000000)
#define HANDSHAKE_NS UINT64_C(10000000000)

enum { HEARTBEATS_MAX = 64, BACKLOG = 128, NO_RAIL = -1, RETRIES_MAX = 3, MANY_CONNECTIONS = 128 };

static const char heartbeat = 'h', farewell = 'f';

typedef struct handshake {
    uint64_t cookie;
    uint64_t rank;
} handshake_t;

typedef enum connection_state {
    CONN_CONNECTS,
    CONN_HANDSHAKES,
    CONN_WATCHES,
    CONN_ENDED, /* by the other */
    CONN_SILENT /* left alone: to close it would look like an end */
} connection_state_t;

typedef struct connection {
    sv_list_t link;
    sv_ucx_peer_t *peer; /* NULL: not known yet */
    int fd;
    connection_state_t state;
    int rail;             /* position in the watcher's list, or NO_RAIL */
    uint64_t since_ns;    /* when its state began */
    uint64_t beat_ns;     /* when the last heartbeat went out */
    unsigned unread;      /* heartbeats since something came */
    bool in_order;        /* the other said farewell */
    struct sockaddr_in there; /* where to, and how often again */
    unsigned retries;
    handshake_t handshake;
} connection_t;

/* --- the beginning ------------------------------------------------------------------------------------------------ */

static bool host_of_device(const struct ifaddrs *addresses, const char *name, uint32_t *host_out)
{
    for (const struct ifaddrs *it = addresses; it; it = it->ifa_next) {
        if (!it->ifa_addr || it->ifa_addr->sa_family != AF_INET || strcmp(it->ifa_name, name) != 0)
            continue;
        struct sockaddr_in in;
        memcpy(&in, it->ifa_addr, sizeof in);
        *host_out = in.sin_addr.s_addr;
        return true;
    }
    return false;
}

static void list_rails(const sv_wire_ucx_t *wire, sv_ucx_watcher_t *watcher)
{
    sv_ucx_resource_t resources[SV_UCX_RESOURCES_MAX];
    const unsigned n = sv_ucx_list_resources(wire->ucp, wire->context, resources);
    struct ifaddrs *addresses = NULL;
    if (getifaddrs(&addresses) != 0)
        return;
    for (unsigned i = 0; i < n && watcher->nrails < SV_UCX_RAILS_MAX; i++) {
        sv_ucx_rail_t *rail = &watcher->rails[watcher->nrails];
        if (strcmp(resources[i].transport, "tcp") == 0 &&
            host_of_device(addresses, resources[i].device, &rail->host)) {
            memcpy(rail->name, resources[i].device, sizeof rail->name);
            watcher->nrails++;
        }
    }
    freeifaddrs(addresses);
    if (watcher->nrails == 0) { /* shared memory alone: processes that go are seen on the node */
        memcpy(watcher->rails[0].name, "lo", sizeof "lo");
        watcher->rails[0].host = htonl(INADDR_LOOPBACK);
        watcher->nrails = 1;
    }
}

void sv_ucx_watch_begin(sv_wire_ucx_t *wire, sv_ucx_contact_t *contact_out)
{
    sv_ucx_watcher_t *watcher = &wire->watcher;
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t length = sizeof here;
    struct rlimit limit;
    sv_list_init(&watcher->connections);
    list_rails(wire, watcher);
    watcher->connections_max = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (size_t)limit.rlim_cur / 4 : 0;
    watcher->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *contact_out = (sv_ucx_contact_t){0};
    if (watcher->listener < 0)
        return;
    if (bind(watcher->listener, (struct sockaddr *)&here, sizeof here) != 0 ||
        listen(watcher->listener, BACKLOG) != 0 ||
        getsockname(watcher->listener, (struct sockaddr *)&here, &length) != 0) {
        close(watcher->listener);
        watcher->listener = -1;
        return;
    }
    /* Tells ranks and jobs apart; it keeps no secret. */
    watcher->cookie = sv_clock_ns() ^ (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)wire;
    contact_out->cookie = watcher->cookie;
    contact_out->port = here.sin_port;
    contact_out->nhosts = (uint16_t)watcher->nrails;
    for (unsigned i = 0; i < watcher->nrails; i++)
        contact_out->hosts[i] = watcher->rails[i].host;
}

static void set_keepalive(int fd)
{
    const int yes = 1, idle_s = 1, interval_s = 1, probes = 4, one_byte = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one_byte, sizeof one_byte);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

/* Takes the socket. NULL: it is closed. Partner: drop_connection(). */
static connection_t *add_connection(sv_wire_ucx_t *wire, int fd, connection_state_t state)
{
    connection_t *conn = NULL;
    if (wire->watcher.nconnections >= wire->watcher.connections_max ||
        sv_calloc(1, sizeof *conn, &conn) != SELVAGE_SUCCESS) {
        close(fd);
        return NULL;
    }
    wire->watcher.nconnections++;
    conn->fd = fd;
    conn->state = state;
    conn->rail = NO_RAIL;
    conn->since_ns = sv_clock_ns();
    set_keepalive(fd);
    sv_list_append(&wire->watcher.connections, &conn->link);
    return conn;
}

static void drop_connection(sv_wire_ucx_t *wire, connection_t *conn)
{
    wire->watcher.nconnections--;
    close(conn->fd);
    sv_list_remove(&conn->link);
    sv_free(conn);
}

/* A socket that begins to connect; -1: none. */
static int begin_connect(const struct sockaddr_in *there)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)there, sizeof *there) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

void sv_ucx_watch_peer(sv_ucx_peer_t *peer, const sv_ucx_contact_t *contact)
{
    sv_wire_ucx_t *wire = peer->wire;
    if (wire->watcher.listener < 0 || contact->port == 0 || peer->rank <= wire->base.rank)
        return;
    for (unsigned i = 0; i < contact->nhosts && i < SV_UCX_RAILS_MAX; i++) {
        const struct sockaddr_in there = {
            .sin_family = AF_INET, .sin_port = contact->port, .sin_addr = {.s_addr = contact->hosts[i]}};
        const int fd = begin_connect(&there);
        connection_t *conn = fd >= 0 ? add_connection(wire, fd, CONN_CONNECTS) : NULL;
        if (!conn)
            continue;
        conn->peer = peer;
        conn->there = there;
        wire->watcher.check_ns = 0;
        conn->handshake = (handshake_t){.cookie = contact->cookie, .rank = (uint64_t)wire->base.rank};
    }
}

static void accept_connections(sv_wire_ucx_t *wire)
{
    int fd;
    while ((fd = accept4(wire->watcher.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        if (!add_connection(wire, fd, CONN_HANDSHAKES))
            return;
}

/* --- handshakes --------------------------------------------------------------------------------------------------- */

static void begin_watching(connection_t *conn, uint64_t now_ns)
{
    const sv_ucx_watcher_t *watcher = &conn->peer->wire->watcher;
    struct sockaddr_in here;
    socklen_t length = sizeof here;
    conn->state = CONN_WATCHES;
    conn->since_ns = conn->beat_ns = now_ns;
    if (getsockname(conn->fd, (struct sockaddr *)&here, &length) != 0)
        return;
    for (unsigned i = 0; i < watcher->nrails; i++)
        if (watcher->rails[i].host == here.sin_addr.s_addr)
            conn->rail = (int)i;
}

/* Who connects sends its handshake once the connection is there. False: it will not be. */
static bool open_handshake(connection_t *conn, uint64_t now_ns)
{
    const ssize_t sent = send(conn->fd, &conn->handshake, sizeof conn->handshake, MSG_NOSIGNAL);
    if (sent != (ssize_t)sizeof conn->handshake) /* so few bytes go whole or not at all */
        return sent < 0 && (errno == EAGAIN || errno == ENOTCONN || errno == EINPROGRESS);
    conn->state = CONN_HANDSHAKES;
    conn->since_ns = now_ns;
    return true;
}

/* Who was connected to answers. False: it is nobody that is known, which is answered as well: it is no end. */
static bool answer_handshake(sv_wire_ucx_t *wire, connection_t *conn, const handshake_t *came)
{
    const bool known = came->cookie == wire->watcher.cookie && came->rank < (uint64_t)wire->base.size &&
                       wire->peers[came->rank] != NULL;
    const handshake_t answer = {.cookie = known ? came->cookie : 0, .rank = (uint64_t)wire->base.rank};
    if (known)
        conn->peer = wire->peers[came->rank];
    return send(conn->fd, &answer, sizeof answer, MSG_NOSIGNAL) == (ssize_t)sizeof answer && known;
}

/* False: the connection is of no use. */
static bool advance_handshake(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    handshake_t came;
    const ssize_t got = recv(conn->fd, &came, sizeof came, MSG_PEEK);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    if (got < (ssize_t)sizeof came)
        return true; /* the rest comes */
    (void)recv(conn->fd, &came, sizeof came, 0);
    if (!conn->peer) {
        if (!answer_handshake(wire, conn, &came))
            return false;
    } else if (came.cookie != conn->handshake.cookie || came.rank != (uint64_t)conn->peer->rank) {
        conn->retries = RETRIES_MAX; /* another machine than was meant */
        return false;
    }
    begin_watching(conn, now_ns);
    return true;
}

/* The connection did not come to be. False: it is given up. */
static bool reconnect(connection_t *conn, uint64_t now_ns)
{
    const bool refused = conn->state == CONN_CONNECTS && errno == ECONNREFUSED;
    if (!conn->peer)
        return false;
    if (refused && conn->retries > 0)
        sv_ucx_declare_gone(conn->peer, UCS_ERR_CONNECTION_RESET, NULL);
    if (refused || conn->retries++ == RETRIES_MAX)
        return false;
    const int fd = begin_connect(&conn->there);
    if (fd < 0)
        return false;
    close(conn->fd);
    conn->fd = fd;
    conn->state = CONN_CONNECTS;
    conn->since_ns = now_ns;
    set_keepalive(fd);
    return true;
}

/* --- watching ----------------------------------------------------------------------------------------------------- */

static void read_heartbeats(connection_t *conn, uint64_t now_ns)
{
    char bytes[HEARTBEATS_MAX];
    ssize_t got;
    while ((got = recv(conn->fd, bytes, sizeof bytes, 0)) > 0) {
        conn->unread = 0;
        conn->in_order |= memchr(bytes, farewell, (size_t)got) != NULL;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* The kernel's probes end with ETIMEDOUT or what routers say of the link. */
    conn->state = got == 0 || errno == ECONNRESET || errno == EPIPE ? CONN_ENDED : CONN_SILENT;
    conn->since_ns = now_ns;
}

/* True: nothing has come back for so long that the link is gone. */
static bool is_silent(connection_t *conn, uint64_t now_ns)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    int out_bytes; /* not acknowledged: not sent either, where the device is down */
    if (ioctl(conn->fd, SIOCOUTQ, &out_bytes) != 0)
        return false;
    if (out_bytes > 0)
        return now_ns - conn->beat_ns > SILENCE_NS &&
               getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
               info.tcpi_last_ack_recv > SILENCE_NS / 1000000;
    if (now_ns - conn->beat_ns > HEARTBEAT_NS && conn->unread < HEARTBEATS_MAX &&
        send(conn->fd, &heartbeat, sizeof heartbeat, MSG_NOSIGNAL) == sizeof heartbeat) {
        conn->beat_ns = now_ns;
        conn->unread++;
    }
    return false;
}

/* UCX's lanes to this rank go by that device. */
static bool carries_lanes(const connection_t *conn)
{
    return conn->rail != NO_RAIL && (conn->peer->lanes >> conn->rail & 1);
}

/* False: it has ended. */
static bool watch_connection(connection_t *conn, uint64_t now_ns)
{
    sv_ucx_peer_t *peer = conn->peer;
    const sv_ucx_watcher_t *watcher = &peer->wire->watcher;
    if (conn->state == CONN_WATCHES) {
        read_heartbeats(conn, now_ns);
        if (conn->state == CONN_WATCHES && is_silent(conn, now_ns))
            conn->state = CONN_SILENT;
        if (conn->state == CONN_SILENT && carries_lanes(conn))
            sv_ucx_declare_gone(peer, UCS_ERR_ENDPOINT_TIMEOUT, watcher->rails[conn->rail].name);
        else if (conn->state == CONN_SILENT)
            sv_log(SV_LOG_DEBUG, "wire", "rank %d answers no more by a device that UCX does not use for it",
                   peer->rank);
    } else if (conn->state == CONN_ENDED && now_ns - conn->since_ns > GRACE_NS) {
        peer->left |= conn->in_order;
        sv_ucx_declare_gone(peer, UCS_ERR_CONNECTION_RESET, NULL);
        return false;
    }
    return true;
}

void sv_ucx_watch_check(sv_wire_ucx_t *wire)
{
    sv_ucx_watcher_t *watcher = &wire->watcher;
    const uint64_t now_ns = sv_clock_ns();
    if (watcher->listener < 0 || wire->closing || now_ns < watcher->check_ns)
        return;
    const bool paused = now_ns - watcher->checked_ns > PAUSED_NS;
    watcher->checked_ns = now_ns;
    watcher->check_ns = now_ns + CHECK_NS * (1 + watcher->nconnections / MANY_CONNECTIONS);
    accept_connections(wire);
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &watcher->connections) {
        connection_t *conn = SV_CONTAINER_OF(it, connection_t, link);
        bool goes_on = true;
        if (paused)
            conn->beat_ns = now_ns;
        if (conn->state == CONN_CONNECTS)
            goes_on = open_handshake(conn, now_ns);
        else if (conn->state == CONN_HANDSHAKES)
            goes_on = advance_handshake(wire, conn, now_ns);
        else
            goes_on = watch_connection(conn, now_ns);
        if (!goes_on && conn->state < CONN_WATCHES)
            goes_on = reconnect(conn, now_ns);
        /* Who connected waits for as long as the other computes. */
        if (!goes_on || (!conn->peer && now_ns - conn->since_ns > HANDSHAKE_NS))
            drop_connection(wire, conn);
        else if (conn->peer && conn->state < CONN_WATCHES && now_ns - conn->since_ns < NEW_NS)
            watcher->check_ns = now_ns + CHECK_SOON_NS;
    }
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

void sv_ucx_watch_say_farewell(sv_wire_ucx_t *wire)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &wire->watcher.connections) {
        const connection_t *conn = SV_CONTAINER_OF(it, connection_t, link);
        if (conn->state == CONN_WATCHES)
            (void)send(conn->fd, &farewell, sizeof farewell, MSG_NOSIGNAL);
    }
}

void sv_ucx_watch_end(sv_wire_ucx_t *wire)
{
    sv_ucx_watcher_t *watcher = &wire->watcher;
    if (!watcher->connections.next)
        return; /* not begun */
    while (!sv_list_is_empty(&watcher->connections))
        drop_connection(wire, SV_CONTAINER_OF(watcher->connections.next, connection_t, link));
    if (watcher->listener >= 0)
        close(watcher->listener);
    watcher->listener = -1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches over the ranks that are connected: see wire_ucx_watch.h for what it finds.
 *
 *   lower rank   --connect, handshake: cookie of the other, own rank-->   higher rank
 *                <--handshake: the same cookie, own rank---------------
 *                <--heartbeats, one byte each, while a rank waits----->
 *                <--farewell, one byte: a close in order-------------->
 *
 * - A connection is proven once both know the cookie. What happens to it before is of no account.
 * - One that was proven and is reset is made again: by who had made it, or by the other a little later. A process that
 *   ends with unread heartbeats resets its connections. Then nobody listens any more, and the refusal tells.
 * - A heartbeat goes out only when all that was sent has been acknowledged. So "nothing acknowledged" counts from a
 *   heartbeat.
 * - A rank that computes reads none. After HEARTBEATS_MAX unread ones no more are sent, lest its kernel has no room to
 *   acknowledge them. From then on the kernel's own probes watch, some seconds slower.
 * - Time in which this process did not look, as a machine that is moved, is not held against others.
 * - Descriptors are the program's: connections take a quarter of them at most. Ranks beyond that are UCX's to watch.
 *   Of who has not said yet who it is, few are kept, and not for long.
 * - The end of a connection counts after GRACE_NS only: what came by UCX before it is received first.
 * - A check visits a part of the connections, so that what it costs does not grow with their number.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for accept4 */
#endif
#include "wire/wire_ucx_watch.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
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
#define HEARTBEAT_NS UINT64_C(300000000)
#define GRACE_NS UINT64_C(200000000)
#define STRANGER_NS UINT64_C(2000000000)

enum {
    HEARTBEATS_MAX = 64, BACKLOG = 128, STRANGERS_MAX = 32, OF_PEER_MAX = 2 * SV_UCX_RAILS_MAX, RETRIES_MAX = 4,
    SLICE = 32, ROUND_CHECKS = 4, REPEATS = 3, IDLE_S = 10
};

static const char heartbeat = 'h', farewell = 'f';

static size_t descriptors_taken; /* by connections of all wires; atomic */

typedef struct handshake {
    uint64_t cookie;
    uint64_t rank;
} handshake_t;

typedef enum connection_state {
    CONN_CONNECTS,
    CONN_HANDSHAKES,
    CONN_RESET,   /* to be made again, after a while */
    CONN_LOST,    /* given up: says nothing */
    CONN_WATCHES, /* from here on it has been proven */
    CONN_SILENT,  /* by the kernel's word; left alone: to close it would look like an end */
    CONN_ENDED    /* closed by the other, or refused where it had listened */
} connection_state_t;

typedef struct connection {
    sv_list_t link;
    sv_ucx_peer_t *peer; /* NULL: a stranger */
    int fd;              /* -1: none for now */
    connection_state_t state;
    unsigned rail;      /* position in the watcher's list */
    bool proven;        /* both have known the cookie */
    bool made_here;     /* the other rank accepted it */
    bool beats;         /* a heartbeat had not been acknowledged when that was asked last ... */
    bool silent;        /* ... and will not be */
    bool in_order;      /* the other said farewell */
    uint64_t since_ns;  /* when its state began */
    uint64_t beat_ns;   /* when the last heartbeat went out */
    unsigned unread;    /* heartbeats since something came */
    unsigned retries;   /* without a proof between */
    struct sockaddr_in there;
} connection_t;

/* --- the beginning ------------------------------------------------------------------------------------------------ */

/* Those by which UCX's transport tcp goes, and loopback before them. */
static void choose_rails(const sv_wire_ucx_t *wire, sv_ucx_watcher_t *watcher)
{
    sv_ucx_resource_t resources[SV_UCX_RESOURCES_MAX];
    const unsigned n = sv_ucx_list_resources(wire->ucp, wire->context, resources);
    watcher->rails[SV_UCX_LOOPBACK] =
        (sv_ucx_rail_t){.name = "lo", .host = htonl(INADDR_LOOPBACK), .mask = htonl(IN_CLASSA_NET)};
    watcher->nrails = 1;
    for (int bridges = 0; bridges < 2 && watcher->nrails == 1; bridges++) {
        sv_ucx_rail_t found[SV_UCX_RAILS_MAX];
        const unsigned nfound = sv_ucx_list_rails(bridges != 0, found);
        for (unsigned f = 0; f < nfound; f++)
            for (unsigned i = 0; i < n && watcher->nrails < SV_UCX_RAILS_MAX; i++)
                if (strcmp(resources[i].transport, "tcp") == 0 && strcmp(resources[i].device, found[f].name) == 0) {
                    watcher->rails[watcher->nrails++] = found[f];
                    break;
                }
    }
}

static int listen_on(const sv_ucx_rail_t *rail, uint16_t *port_out)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {.s_addr = rail->host}};
    socklen_t length = sizeof here;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&here, sizeof here) == 0 && listen(fd, BACKLOG) == 0 &&
        getsockname(fd, (struct sockaddr *)&here, &length) == 0) {
        *port_out = here.sin_port;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

void sv_ucx_watch_begin(sv_wire_ucx_t *wire, sv_ucx_contact_t *contact_out)
{
    sv_ucx_watcher_t *watcher = &wire->watcher;
    memset(contact_out, 0, sizeof *contact_out);
    sv_list_init(&watcher->fresh);
    sv_list_init(&watcher->watching);
    if (getrandom(&watcher->cookie, sizeof watcher->cookie, 0) != (ssize_t)sizeof watcher->cookie)
        return; /* without rails nobody is watched */
    choose_rails(wire, watcher);
    watcher->machine = sv_ucx_machine();
    contact_out->cookie = watcher->cookie;
    contact_out->machine = watcher->machine;
    contact_out->nhosts = watcher->nrails;
    for (unsigned i = 0; i < watcher->nrails; i++) {
        sv_ucx_host_t *host = &contact_out->hosts[i];
        host->host = watcher->rails[i].host;
        host->mask = watcher->rails[i].mask;
        watcher->listeners[i] = listen_on(&watcher->rails[i], &host->port);
    }
}

/* Probes of the kernel's, from so long after the last word on. They take as long as silence is allowed to. */
static void set_keepalive(const sv_wire_ucx_t *wire, int fd, int idle_s)
{
    const int probes = 4, on = wire->watcher.silence_ns > 0;
    const int interval_s = (int)(wire->watcher.silence_ns / 1000000000) / probes + 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* Takes the socket. NULL: it is closed. Partner: drop_connection(). */
static connection_t *add_connection(sv_wire_ucx_t *wire, int fd, unsigned rail, const struct sockaddr_in *there)
{
    connection_t *conn = NULL;
    struct rlimit limit;
    const size_t taken = __atomic_add_fetch(&descriptors_taken, 1, __ATOMIC_RELAXED);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || taken > limit.rlim_cur / 4 ||
        sv_calloc(1, sizeof *conn, &conn) != SELVAGE_SUCCESS) {
        __atomic_sub_fetch(&descriptors_taken, 1, __ATOMIC_RELAXED);
        close(fd);
        return NULL;
    }
    conn->fd = fd;
    conn->rail = rail;
    conn->there = *there;
    conn->since_ns = sv_clock_ns();
    set_keepalive(wire, fd, IDLE_S);
    sv_list_append(&wire->watcher.fresh, &conn->link);
    return conn;
}

static void close_socket(connection_t *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
}

static void drop_connection(sv_wire_ucx_t *wire, connection_t *conn)
{
    wire->watcher.nwatching -= conn->state >= CONN_WATCHES;
    wire->watcher.nstrangers -= !conn->peer;
    __atomic_sub_fetch(&descriptors_taken, 1, __ATOMIC_RELAXED);
    close_socket(conn);
    sv_list_remove(&conn->link);
    sv_free(conn);
}

/* Puts the connection into the list of its state. */
static void set_state(sv_wire_ucx_t *wire, connection_t *conn, connection_state_t state, uint64_t now_ns)
{
    sv_ucx_watcher_t *watcher = &wire->watcher;
    const bool was_watching = conn->state >= CONN_WATCHES, is_watching = state >= CONN_WATCHES;
    conn->state = state;
    conn->since_ns = now_ns;
    if (was_watching == is_watching)
        return;
    sv_list_remove(&conn->link);
    sv_list_append(is_watching ? &watcher->watching : &watcher->fresh, &conn->link);
    watcher->nwatching += is_watching ? 1u : ~0u;
}

/* A socket that begins to connect, by this rail; -1: none, errno says why. */
static int begin_connect(const sv_ucx_rail_t *rail, const struct sockaddr_in *there)
{
    const struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {.s_addr = rail->host}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&here, sizeof here) == 0 &&
        (connect(fd, (const struct sockaddr *)there, sizeof *there) == 0 || errno == EINPROGRESS))
        return fd;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

static bool connect_rail(sv_ucx_peer_t *peer, unsigned rail, const sv_ucx_host_t *host)
{
    sv_wire_ucx_t *wire = peer->wire;
    const struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_port = host->port, .sin_addr = {.s_addr = host->host}};
    const int fd = host->port ? begin_connect(&wire->watcher.rails[rail], &there) : -1;
    connection_t *conn = fd >= 0 ? add_connection(wire, fd, rail, &there) : NULL;
    if (!conn)
        return false;
    conn->peer = peer;
    conn->made_here = true;
    wire->watcher.check_ns = 0;
    return true;
}

void sv_ucx_watch_peer(sv_ucx_peer_t *peer)
{
    const sv_ucx_watcher_t *watcher = &peer->wire->watcher;
    const sv_ucx_contact_t *contact = &peer->contact;
    bool any = false;
    if (watcher->nrails == 0 || contact->nhosts == 0 || peer->rank <= peer->wire->base.rank)
        return;
    if (contact->machine == watcher->machine && watcher->machine != 0) {
        (void)connect_rail(peer, SV_UCX_LOOPBACK, &contact->hosts[SV_UCX_LOOPBACK]);
        return;
    }
    for (unsigned i = SV_UCX_LOOPBACK + 1; i < watcher->nrails; i++) {
        const sv_ucx_host_t *host = sv_ucx_find_neighbour(watcher->rails, watcher->nrails, i, contact);
        any |= host && connect_rail(peer, i, host);
    }
    const sv_ucx_host_t *far = any ? NULL : sv_ucx_find_far_host(watcher->rails, watcher->nrails, contact);
    if (far)
        (void)connect_rail(peer, SV_UCX_LOOPBACK + 1, far);
}

static void accept_connections(sv_wire_ucx_t *wire, uint64_t now_ns)
{
    sv_ucx_watcher_t *watcher = &wire->watcher;
    for (unsigned i = 0; i < watcher->nrails; i++) {
        while (watcher->listeners[i] >= 0 && watcher->nstrangers < STRANGERS_MAX) {
            struct sockaddr_in there;
            socklen_t length = sizeof there;
            const int fd = accept4(watcher->listeners[i], (struct sockaddr *)&there, &length,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd < 0)
                break;
            connection_t *conn = add_connection(wire, fd, i, &there);
            if (!conn)
                break;
            conn->state = CONN_HANDSHAKES;
            conn->since_ns = now_ns;
            watcher->nstrangers++;
        }
    }
}

/* --- connections that are not proven ------------------------------------------------------------------------------ */

/* The peer of a stranger's handshake. NULL: it is nobody that is known. */
static sv_ucx_peer_t *find_stranger(const sv_wire_ucx_t *wire, const connection_t *conn, const handshake_t *came)
{
    unsigned n = 0;
    sv_list_t *it, *safe;
    if (came->cookie != wire->watcher.cookie || came->rank >= (uint64_t)wire->base.size)
        return NULL;
    sv_ucx_peer_t *peer = wire->peers[came->rank];
    if (!peer)
        return NULL;
    if (peer->state == SV_UCX_CONNECTED && !sv_ucx_find_listener(&peer->contact, conn->there.sin_addr.s_addr))
        return NULL; /* not from where that rank is */
    SV_LIST_FOR_EACH(it, safe, &wire->watcher.watching)
        n += SV_CONTAINER_OF(it, connection_t, link)->peer == peer;
    return n < OF_PEER_MAX ? peer : NULL;
}

/* One that was reset is not made again where the other rank has made a new one. */
static void replace_reset(const sv_wire_ucx_t *wire, const connection_t *by)
{
    sv_list_t *it, *safe;
    SV_LIST_FOR_EACH(it, safe, &wire->watcher.fresh) {
        connection_t *conn = SV_CONTAINER_OF(it, connection_t, link);
        if (conn != by && conn->peer == by->peer && conn->state == CONN_RESET && conn->rail == by->rail)
            conn->proven = false;
    }
}

/* It did not come to be, or is no more. False: it is given up. A proven one that is given up still says that its rank
   has not been seen to end. */
static bool make_again(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    if (!conn->peer)
        return false;
    if (!conn->made_here) { /* from now on it is */
        const sv_ucx_host_t *host = sv_ucx_find_listener(&conn->peer->contact, conn->there.sin_addr.s_addr);
        conn->there.sin_port = host ? host->port : 0;
    }
    close_socket(conn);
    conn->beats = conn->silent = false;
    const bool again = conn->there.sin_port != 0 && conn->retries++ < RETRIES_MAX;
    set_state(wire, conn, again ? CONN_RESET : CONN_LOST, now_ns);
    return again || conn->proven;
}

/* After an attempt to connect that failed, by errno: nobody listens any more where somebody had the cookie, or it is
   tried again. */
static bool take_refusal(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    if (errno != ECONNREFUSED)
        return make_again(wire, conn, now_ns);
    if (!conn->proven)
        return false;
    close_socket(conn);
    set_state(wire, conn, CONN_ENDED, now_ns);
    return true;
}

/* Who had not made the connection leaves that to the other first. */
static bool connect_again(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    if (now_ns - conn->since_ns < GRACE_NS * (conn->made_here ? 1 : 3))
        return true;
    if (!conn->proven && !conn->made_here)
        return false; /* it was replaced */
    conn->made_here = true;
    conn->fd = begin_connect(&wire->watcher.rails[conn->rail], &conn->there);
    if (conn->fd < 0)
        return take_refusal(wire, conn, now_ns);
    set_keepalive(wire, conn->fd, IDLE_S);
    set_state(wire, conn, CONN_CONNECTS, now_ns);
    return true;
}

/* Who connects sends its handshake once the connection is there. */
static bool open_handshake(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    const handshake_t own = {.cookie = conn->peer->contact.cookie, .rank = (uint64_t)wire->base.rank};
    const ssize_t sent = send(conn->fd, &own, sizeof own, MSG_NOSIGNAL); /* so few bytes go whole or not at all */
    if (sent == (ssize_t)sizeof own) {
        set_state(wire, conn, CONN_HANDSHAKES, now_ns);
        return true;
    }
    if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN || errno == EINPROGRESS))
        return true;
    return take_refusal(wire, conn, now_ns);
}

static bool advance_handshake(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    handshake_t came;
    const ssize_t got = recv(conn->fd, &came, sizeof came, MSG_PEEK);
    if (got == 0 || (got < 0 && errno != EAGAIN))
        return make_again(wire, conn, now_ns);
    if (got < (ssize_t)sizeof came) /* the other may be computing; a stranger knows what to say */
        return conn->peer || now_ns - conn->since_ns < STRANGER_NS;
    (void)recv(conn->fd, &came, sizeof came, 0);
    if (conn->peer) {
        if (came.cookie != conn->peer->contact.cookie || came.rank != (uint64_t)conn->peer->rank) {
            conn->retries = RETRIES_MAX; /* another machine than was meant */
            return make_again(wire, conn, now_ns);
        }
    } else {
        sv_ucx_peer_t *peer = find_stranger(wire, conn, &came);
        const handshake_t answer = {.cookie = peer ? came.cookie : 0, .rank = (uint64_t)wire->base.rank};
        if (send(conn->fd, &answer, sizeof answer, MSG_NOSIGNAL) != (ssize_t)sizeof answer || !peer)
            return false;
        conn->peer = peer;
        wire->watcher.nstrangers--;
        replace_reset(wire, conn);
    }
    conn->proven = true;
    conn->retries = conn->unread = 0;
    conn->beat_ns = now_ns;
    set_state(wire, conn, CONN_WATCHES, now_ns);
    return true;
}

/* --- watching ----------------------------------------------------------------------------------------------------- */

static void read_heartbeats(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    char bytes[HEARTBEATS_MAX];
    ssize_t got;
    while ((got = recv(conn->fd, bytes, sizeof bytes, 0)) > 0) {
        if (conn->unread == HEARTBEATS_MAX)
            set_keepalive(wire, conn->fd, IDLE_S);
        conn->unread = 0;
        conn->in_order |= memchr(bytes, farewell, (size_t)got) != NULL;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == 0)
        set_state(wire, conn, CONN_ENDED, now_ns);
    else if (errno == ETIMEDOUT) /* the kernel's probes had no answer */
        set_state(wire, conn, CONN_SILENT, now_ns);
    else
        (void)make_again(wire, conn, now_ns);
}

/* Nothing has come back for so long that the link is gone. */
static bool is_silent(const connection_t *conn, uint64_t silence_ns, uint64_t now_ns)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    return silence_ns > 0 && now_ns - conn->beat_ns > silence_ns &&
           getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           info.tcpi_last_ack_recv > silence_ns / 1000000 && info.tcpi_retransmits + info.tcpi_probes >= REPEATS;
}

/* A heartbeat is under way. */
static bool awaits_answer(connection_t *conn)
{
    int out_bytes = 0; /* not acknowledged: not sent either, where the device is down */
    conn->beats = conn->beats && ioctl(conn->fd, SIOCOUTQ, &out_bytes) == 0 && out_bytes > 0;
    return conn->beats;
}

static void exchange_heartbeats(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    read_heartbeats(wire, conn, now_ns);
    if (conn->state != CONN_WATCHES || now_ns - conn->beat_ns < HEARTBEAT_NS)
        return;
    if (awaits_answer(conn)) {
        conn->silent = is_silent(conn, wire->watcher.silence_ns, now_ns);
        return;
    }
    conn->silent = false;
    if (conn->unread < HEARTBEATS_MAX && send(conn->fd, &heartbeat, sizeof heartbeat, MSG_NOSIGNAL) > 0) {
        conn->beats = true;
        conn->beat_ns = now_ns;
        if (++conn->unread == HEARTBEATS_MAX)
            set_keepalive(wire, conn->fd, 1);
    }
}

static bool says_nothing(const connection_t *conn)
{
    return conn->silent || conn->state == CONN_SILENT || conn->state == CONN_ENDED;
}

/* Some proven connection with this rank, on this rail or on any (-1), has neither ended nor become silent. */
static bool speaks(sv_wire_ucx_t *wire, const sv_ucx_peer_t *peer, int rail)
{
    sv_list_t *it, *safe, *lists[2] = {&wire->watcher.watching, &wire->watcher.fresh};
    for (int i = 0; i < 2; i++)
        SV_LIST_FOR_EACH(it, safe, lists[i]) {
            const connection_t *conn = SV_CONTAINER_OF(it, connection_t, link);
            if (conn->peer == peer && conn->proven && !says_nothing(conn) && (rail < 0 || conn->rail == (unsigned)rail))
                return true;
        }
    return false;
}

/* UCX's lanes to this rank go by that rail, and no router is between. */
static bool carries_lanes(const connection_t *conn)
{
    const sv_ucx_rail_t *rail = &conn->peer->wire->watcher.rails[conn->rail];
    const sv_ucx_host_t *host = sv_ucx_find_listener(&conn->peer->contact, conn->there.sin_addr.s_addr);
    return host && (conn->peer->lanes >> conn->rail & 1) &&
           sv_ucx_share_subnet(rail->host, rail->mask, host->host, host->mask);
}

/* False: it is of no more use. */
static bool watch_connection(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    sv_ucx_peer_t *peer = conn->peer;
    if (conn->state == CONN_WATCHES)
        exchange_heartbeats(wire, conn, now_ns);
    if (conn->state == CONN_ENDED) {
        if (now_ns - conn->since_ns < GRACE_NS || speaks(wire, peer, -1))
            return true;
        peer->left |= conn->in_order;
        sv_ucx_declare_gone(peer, UCS_ERR_CONNECTION_RESET, NULL);
        return false;
    }
    if (wire->watcher.silence_ns > 0 && says_nothing(conn) && peer->state == SV_UCX_CONNECTED &&
        carries_lanes(conn) && !speaks(wire, peer, (int)conn->rail))
        sv_ucx_declare_gone(peer, UCS_ERR_ENDPOINT_TIMEOUT, wire->watcher.rails[conn->rail].name);
    return true;
}

static bool advance_connection(sv_wire_ucx_t *wire, connection_t *conn, uint64_t now_ns)
{
    switch (conn->state) {
    case CONN_CONNECTS: return open_handshake(wire, conn, now_ns);
    case CONN_HANDSHAKES: return advance_handshake(wire, conn, now_ns);
    case CONN_RESET: return connect_again(wire, conn, now_ns);
    case CONN_LOST: return true;
    default: return watch_connection(wire, conn, now_ns);
    }
}

void sv_ucx_watch_check(sv_wire_ucx_t *wire, uint64_t now_ns)
{
    sv_ucx_watcher_t *watcher = &wire->watcher;
    if (watcher->nrails == 0 || wire->closing || now_ns < watcher->check_ns)
        return;
    sv_list_t *it, *safe;
    if (watcher->check_ns != 0 && now_ns - watcher->check_ns > HEARTBEAT_NS) {
        /* This process did not look for so long, in which others may have stood still with it. */
        SV_LIST_FOR_EACH(it, safe, &watcher->watching) {
            connection_t *conn = SV_CONTAINER_OF(it, connection_t, link);
            if (awaits_answer(conn))
                conn->beat_ns += now_ns - watcher->check_ns;
        }
    }
    watcher->check_ns = now_ns + CHECK_NS;
    accept_connections(wire, now_ns);
    SV_LIST_FOR_EACH(it, safe, &watcher->fresh) {
        connection_t *conn = SV_CONTAINER_OF(it, connection_t, link);
        if (!advance_connection(wire, conn, now_ns))
            drop_connection(wire, conn);
        else if (conn->state < CONN_RESET && now_ns - conn->since_ns < NEW_NS)
            watcher->check_ns = now_ns + CHECK_SOON_NS;
    }
    unsigned left = watcher->nwatching / ROUND_CHECKS + SLICE;
    left = left < watcher->nwatching ? left : watcher->nwatching;
    for (; left > 0 && !sv_list_is_empty(&watcher->watching); left--) {
        connection_t *conn = SV_CONTAINER_OF(watcher->watching.next, connection_t, link);
        sv_list_remove(&conn->link);
        sv_list_append(&watcher->watching, &conn->link);
        if (!advance_connection(wire, conn, now_ns))
            drop_connection(wire, conn);
    }
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

void sv_ucx_watch_say_farewell(sv_wire_ucx_t *wire)
{
    sv_list_t *it, *safe;
    if (wire->watcher.nrails == 0)
        return;
    SV_LIST_FOR_EACH(it, safe, &wire->watcher.watching) {
        const connection_t *conn = SV_CONTAINER_OF(it, connection_t, link);
        if (conn->state == CONN_WATCHES)
            (void)send(conn->fd, &farewell, sizeof farewell, MSG_NOSIGNAL);
    }
}

void sv_ucx_watch_end(sv_wire_ucx_t *wire)
{
    sv_ucx_watcher_t *watcher = &wire->watcher;
    sv_list_t *lists[2] = {&watcher->fresh, &watcher->watching};
    for (unsigned i = 0; i < 2 && watcher->nrails > 0; i++)
        while (!sv_list_is_empty(lists[i]))
            drop_connection(wire, SV_CONTAINER_OF(lists[i]->next, connection_t, link));
    for (unsigned i = 0; i < watcher->nrails; i++)
        if (watcher->listeners[i] >= 0)
            close(watcher->listeners[i]);
    watcher->nrails = 0;
}

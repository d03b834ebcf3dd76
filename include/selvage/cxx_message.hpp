/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cxx_message.hpp
 * @brief Part of selvage.hpp: messages, their requests, and sets of requests.
 *
 * Functions have the names and rules of message.h, and take bytes or elements of an MPI datatype. Several threads may
 * call where MPI_THREAD_MULTIPLE is there; one request is one thread's at a time. A receive's SELVAGE_ERR_TRUNCATED is
 * thrown by the call that completes it.
 *
 * What is for libraries that make messages of others' calls (selvage_message_ibsend(), launching early, matched probes)
 * is left to the C API; request::reset() takes over what it begins.
 */
#ifndef SELVAGE_CXX_MESSAGE_HPP
#define SELVAGE_CXX_MESSAGE_HPP

#include <mpi.h>

#include <cstddef>
#include <utility>
#include <vector>

#include <selvage/cxx_error.hpp>
#include <selvage/cxx_handle.hpp>
#include <selvage/cxx_span.hpp>
#include <selvage/message.h>

namespace selvage {

/** What became of a message: source, tag, bytes. */
using message_status = selvage_message_status_t;

namespace detail {

struct request_start;

/* A request that is still open is ended, so that nobody reads or writes its buffer any more: a receive that nothing has
   matched is taken back, all else is waited for, at most for the deadline, and then let go. */
struct end_request {
    static void destroy(selvage_request_t *native) noexcept
    {
        selvage_message_cancel(native);
        selvage_message_wait(&native, nullptr);
        if (native)
            selvage_message_free(&native);
    }
};

} // namespace detail

/**
 * A send or receive under way, as isend() and irecv() return it. Empty once it is complete. The destructor of an open
 * one waits for it, at most for the deadline, but takes a receive back that nothing has matched. So an exception frees
 * no buffer that is still written. The communicator outlives it.
 */
class request : public handle<selvage_request_t, detail::end_request> {
public:
    request() noexcept = default;
    /** Whether it is complete; then it is empty. Never blocks. @param status  written if it is; may be null */
    bool test(message_status *status = nullptr)
    {
        return detail::is_complete(selvage_message_test(place(), status));
    }
    /** Blocks until it is complete, up to the deadline, after which it is still open. An empty one is complete. */
    message_status wait()
    {
        message_status status = message_status();
        check(selvage_message_wait(place(), &status));
        return status;
    }
    /** Takes a receive back that nothing has matched. It must still be completed. */
    void cancel() const { check(selvage_message_cancel(get())); }
    /** As selvage_message_free(): it goes on to its end alone, and the buffer stays in use until then. */
    void detach() { check(selvage_message_free(place())); }

private:
    friend struct detail::request_start;
};

namespace detail {

/* Makes requests, by the C calls that begin them. */
struct request_start {
    template <class Call, class... Arguments>
    static request begin(Call call, Arguments... arguments)
    {
        request begun;
        check(call(arguments..., begun.place()));
        return begun;
    }
};

} // namespace detail

/** Requests of one communicator that are completed together. Its destructor is that of each. */
class requests {
public:
    requests() noexcept = default;
    requests(requests &&other) noexcept { swap(other); }
    requests &operator=(requests &&other) noexcept
    {
        requests taken(std::move(other));
        swap(taken);
        return *this;
    }
    requests(const requests &) = delete;
    requests &operator=(const requests &) = delete;
    ~requests() { clear(); }

    /** Makes room, so that so many can be added without an allocation. */
    void reserve(std::size_t number) { natives_.reserve(number); }
    /** Adds a request, whose index is size() before. If there is no memory, the request stays the caller's. */
    void add(request &&added)
    {
        natives_.push_back(added.get());
        added.release();
    }
    /** Number of requests that were added, complete ones too. */
    std::size_t size() const noexcept { return natives_.size(); }
    /** Blocks until all are complete, also if some fail; throws the first error. */
    void wait_all() { check(selvage_message_waitall(natives_.size(), natives_.data(), nullptr)); }
    /** The same with a status for each, in their order. */
    void wait_all(span<message_status> statuses)
    {
        if (statuses.size() < natives_.size())
            detail::refuse("requests::wait_all: fewer statuses than requests");
        check(selvage_message_waitall(natives_.size(), natives_.data(), statuses.data()));
    }
    /** Blocks until one is complete. @return its index; SIZE_MAX if all were complete before */
    std::size_t wait_any(message_status *status = nullptr)
    {
        std::size_t index = 0;
        check(selvage_message_waitany(natives_.size(), natives_.data(), &index, status));
        return index;
    }
    /** Ends those that are open, as their destructors do, and forgets all. */
    void clear() noexcept
    {
        for (selvage_request_t *native : natives_)
            if (native)
                selvage_message_cancel(native);
        for (selvage_request_t *native : natives_)
            if (native)
                detail::end_request::destroy(native);
        natives_.clear();
    }

    void swap(requests &other) noexcept { natives_.swap(other.natives_); }
    friend void swap(requests &a, requests &b) noexcept { a.swap(b); }

private:
    std::vector<selvage_request_t *> natives_;
};

/** Begins to send; complete when the bytes may be used again. Never blocks; reads after the work on @p stream. */
inline request isend(selvage_comm_t *comm, const_bytes data, int destination, int tag, void *stream)
{
    return detail::request_start::begin(selvage_message_isend, comm, data.data(), data.size(), MPI_BYTE, destination,
                                        tag, stream);
}
/** The same of @p count elements of an MPI datatype. */
inline request isend(selvage_comm_t *comm, const void *buf, std::size_t count, MPI_Datatype type, int destination,
                     int tag, void *stream)
{
    return detail::request_start::begin(selvage_message_isend, comm, buf, count, type, destination, tag, stream);
}
/** Begins to send; complete only when a receive has matched the message. */
inline request issend(selvage_comm_t *comm, const_bytes data, int destination, int tag, void *stream)
{
    return detail::request_start::begin(selvage_message_issend, comm, data.data(), data.size(), MPI_BYTE, destination,
                                        tag, stream);
}
/** Begins to receive at most so many bytes. Never blocks; writes after the work on @p stream. */
inline request irecv(selvage_comm_t *comm, bytes data, int source, int tag, void *stream)
{
    return detail::request_start::begin(selvage_message_irecv, comm, data.data(), data.size(), MPI_BYTE, source, tag,
                                        stream);
}
/** The same of @p count elements of an MPI datatype. */
inline request irecv(selvage_comm_t *comm, void *buf, std::size_t count, MPI_Datatype type, int source, int tag,
                     void *stream)
{
    return detail::request_start::begin(selvage_message_irecv, comm, buf, count, type, source, tag, stream);
}

/** Sends; blocks until the bytes may be used again, up to the deadline. */
inline void send(selvage_comm_t *comm, const_bytes data, int destination, int tag, void *stream)
{
    check(selvage_message_send(comm, data.data(), data.size(), MPI_BYTE, destination, tag, stream));
}
/** Receives at most so many bytes; blocks, up to the deadline. */
inline message_status recv(selvage_comm_t *comm, bytes data, int source, int tag, void *stream)
{
    message_status status = message_status();
    check(selvage_message_recv(comm, data.data(), data.size(), MPI_BYTE, source, tag, stream, &status));
    return status;
}
/** Both at the same time. @return the receive's status */
inline message_status sendrecv(selvage_comm_t *comm, const_bytes sent, int destination, int send_tag, bytes received,
                               int source, int recv_tag, void *stream)
{
    message_status status = message_status();
    check(selvage_message_sendrecv(comm, sent.data(), sent.size(), MPI_BYTE, destination, send_tag, received.data(),
                                   received.size(), MPI_BYTE, source, recv_tag, stream, &status));
    return status;
}
/** Blocks until there is a message that a receive with this source and tag would take. */
inline message_status probe(selvage_comm_t *comm, int source, int tag)
{
    message_status status = message_status();
    check(selvage_message_probe(comm, source, tag, &status));
    return status;
}
/** Whether there is one. Never blocks. @param status  written if there is; may be null */
inline bool iprobe(selvage_comm_t *comm, int source, int tag, message_status *status = nullptr)
{
    int found = 0;
    check(selvage_message_iprobe(comm, source, tag, &found, status));
    return found != 0;
}

/** Between its construction and end() kernels of the communicator's messages are kept, and then launched together. */
class message_group {
public:
    explicit message_group(selvage_comm_t *comm) : comm_(comm) { check(selvage_message_group_begin(comm)); }
    message_group(const message_group &) = delete;
    message_group &operator=(const message_group &) = delete;
    /** As end(), but an error only goes to the log. */
    ~message_group()
    {
        if (comm_)
            selvage_message_group_end(comm_);
    }
    /** Launches what was kept. */
    void end()
    {
        selvage_comm_t *comm = comm_;
        comm_ = nullptr;
        check(selvage_message_group_end(comm));
    }

private:
    selvage_comm_t *comm_;
};

} // namespace selvage

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cxx_collective.hpp
 * @brief Part of selvage.hpp: communicators of collectives, their windows and operations.
 *
 * Calls that move data are stream-ordered, and enqueue. Their results may be believed when the stream has been
 * synchronised and coll::verify() has then thrown nothing.
 */
#ifndef SELVAGE_CXX_COLLECTIVE_HPP
#define SELVAGE_CXX_COLLECTIVE_HPP

#include <cstddef>
#include <cstdint>
#include <utility>

#include <selvage/collective.h>
#include <selvage/cxx_error.hpp>
#include <selvage/cxx_handle.hpp>
#include <selvage/cxx_span.hpp>

namespace selvage {

/**
 * The selvage_type_t of a C++ type. A program may add its own: `template <> struct selvage::type_of<__half>` with
 * `static constexpr selvage_type_t value = SELVAGE_FLOAT16;`.
 */
template <class T>
struct type_of;

namespace detail {

template <selvage_type_t Type>
struct type_constant {
    static constexpr selvage_type_t value = Type;
};

/* In a parameter that says nothing about T. */
template <class T>
struct same {
    using type = T;
};

struct destroy_coll {
    static void destroy(selvage_coll_t *native) noexcept { selvage_coll_destroy(native); }
};
/* What it refuses is logged. */
struct unregister_window {
    static void destroy(selvage_window_t *native) noexcept { selvage_coll_unregister(native); }
};

} // namespace detail

template <> struct type_of<std::int8_t> : detail::type_constant<SELVAGE_INT8> {};
template <> struct type_of<std::uint8_t> : detail::type_constant<SELVAGE_UINT8> {};
template <> struct type_of<std::int32_t> : detail::type_constant<SELVAGE_INT32> {};
template <> struct type_of<std::uint32_t> : detail::type_constant<SELVAGE_UINT32> {};
template <> struct type_of<std::int64_t> : detail::type_constant<SELVAGE_INT64> {};
template <> struct type_of<std::uint64_t> : detail::type_constant<SELVAGE_UINT64> {};
template <> struct type_of<float> : detail::type_constant<SELVAGE_FLOAT32> {};
template <> struct type_of<double> : detail::type_constant<SELVAGE_FLOAT64> {};

/**
 * A communicator of collectives. Constructors, split() and the destructor are collective and block. Its selvage::comm
 * outlives it. The methods that move data have the names, counts and rules of collective.h; those with a T take its
 * type from there, the others are of any type. One thread at a time.
 */
class coll : public handle<selvage_coll_t, detail::destroy_coll> {
public:
    coll() noexcept = default;
    explicit coll(selvage_comm_t *comm) { check(selvage_coll_create(comm, nullptr, place())); }
    /** @param params  started by selvage_coll_params_init() */
    coll(selvage_comm_t *comm, const selvage_coll_params_t &params)
    {
        check(selvage_coll_create(comm, &params, place()));
    }
    /** Whether this rank could take part in the constructor. One rank's false is an error for all: agree on it. */
    static bool is_supported(const selvage_comm_t *comm) noexcept { return selvage_coll_supported(comm) != 0; }
    /** The ranks that give the same colour; empty for -1. */
    coll split(int color, int key) const
    {
        coll made;
        check(selvage_coll_split(get(), color, key, made.place()));
        return made;
    }

    /** Of these ranks of this communicator, which alone call it, with the same list. */
    coll create_among(int nranks, const int *ranks) const
    {
        coll made;
        check(selvage_coll_create_among(get(), nranks, ranks, made.place()));
        return made;
    }

    /** Rank of the caller; -1 if empty. */
    int rank() const noexcept { return selvage_coll_rank(get()); }
    /** Number of ranks; -1 if empty. */
    int size() const noexcept { return selvage_coll_size(get()); }

    /** recv[i] = op over ranks of send[i], on all ranks. */
    template <class T>
    void all_reduce(const T *send, T *recv, std::size_t count, selvage_op_t op, void *stream) const
    {
        all_reduce(send, recv, count, type_of<T>::value, op, stream);
    }
    void all_reduce(const void *send, void *recv, std::size_t count, selvage_type_t type, selvage_op_t op,
                    void *stream) const
    {
        check(selvage_coll_all_reduce(get(), send, recv, count, type, op, stream));
    }
    /** recv[i] = op over ranks of send[rank * recv_count + i]. */
    template <class T>
    void reduce_scatter(const T *send, T *recv, std::size_t recv_count, selvage_op_t op, void *stream) const
    {
        reduce_scatter(send, recv, recv_count, type_of<T>::value, op, stream);
    }
    void reduce_scatter(const void *send, void *recv, std::size_t recv_count, selvage_type_t type, selvage_op_t op,
                        void *stream) const
    {
        check(selvage_coll_reduce_scatter(get(), send, recv, recv_count, type, op, stream));
    }
    /** recv[r * send_count + i] = send[i] of rank r. */
    template <class T>
    void all_gather(const T *send, T *recv, std::size_t send_count, void *stream) const
    {
        all_gather(send, recv, send_count, type_of<T>::value, stream);
    }
    void all_gather(const void *send, void *recv, std::size_t send_count, selvage_type_t type, void *stream) const
    {
        check(selvage_coll_all_gather(get(), send, recv, send_count, type, stream));
    }
    /** recv[i] = send[i] of root; elsewhere @p send may be null. */
    template <class T>
    void broadcast(const typename detail::same<T>::type *send, T *recv, std::size_t count, int root,
                   void *stream) const
    {
        broadcast(send, recv, count, type_of<T>::value, root, stream);
    }
    void broadcast(const void *send, void *recv, std::size_t count, selvage_type_t type, int root, void *stream) const
    {
        check(selvage_coll_broadcast(get(), send, recv, count, type, root, stream));
    }
    /** recv[i] on root = op over ranks of send[i]; elsewhere @p recv may be null. */
    template <class T>
    void reduce(const T *send, typename detail::same<T>::type *recv, std::size_t count, selvage_op_t op, int root,
                void *stream) const
    {
        reduce(send, recv, count, type_of<T>::value, op, root, stream);
    }
    void reduce(const void *send, void *recv, std::size_t count, selvage_type_t type, selvage_op_t op, int root,
                void *stream) const
    {
        check(selvage_coll_reduce(get(), send, recv, count, type, op, root, stream));
    }
    /** recv[r * count + i] = send[rank * count + i] of rank r. */
    template <class T>
    void all_to_all(const T *send, T *recv, std::size_t count, void *stream) const
    {
        all_to_all(send, recv, count, type_of<T>::value, stream);
    }
    void all_to_all(const void *send, void *recv, std::size_t count, selvage_type_t type, void *stream) const
    {
        check(selvage_coll_all_to_all(get(), send, recv, count, type, stream));
    }
    /** Sends to @p peer what its recv() takes. */
    template <class T>
    void send(const T *data, std::size_t count, int peer, void *stream) const
    {
        send(data, count, type_of<T>::value, peer, stream);
    }
    void send(const void *data, std::size_t count, selvage_type_t type, int peer, void *stream) const
    {
        check(selvage_coll_send(get(), data, count, type, peer, stream));
    }
    template <class T>
    void recv(T *data, std::size_t count, int peer, void *stream) const
    {
        recv(data, count, type_of<T>::value, peer, stream);
    }
    void recv(void *data, std::size_t count, selvage_type_t type, int peer, void *stream) const
    {
        check(selvage_coll_recv(get(), data, count, type, peer, stream));
    }
    /** Later work on the stream starts when every rank's earlier work on its stream is complete. */
    void barrier(void *stream) const { check(selvage_coll_barrier(get(), stream)); }

    /** Throws the first error that a kernel or rank met. After the stream was synchronised, before results are used. */
    void verify() const { check(selvage_coll_error(get())); }
    /** Ends everything that is under way on this rank; any thread. */
    void abort() const noexcept { selvage_coll_abort(get()); }
    /** The counters. */
    selvage_coll_stats_t stats() const
    {
        selvage_coll_stats_t counted = detail::started<selvage_coll_stats_t>();
        check(selvage_coll_stats(get(), &counted));
        return counted;
    }
};

/** User memory that the ranks of the node have mapped, as selvage_coll_register(). Collective and blocking, to make and
 *  to destroy, after the work on it. The memory outlives it, and the coll does, too. */
class window : public handle<selvage_window_t, detail::unregister_window> {
public:
    window() noexcept = default;
    window(selvage_coll_t *coll, bytes memory)
    {
        check(selvage_coll_register(coll, memory.data(), memory.size(), place()));
    }
};

/**
 * A sum of which each rank multiplies its own input by a scalar first. Local. The coll outlives it; calls already made
 * do not need it any more. get() is what collectives take.
 */
class scaled_sum {
public:
    scaled_sum() noexcept : coll_(nullptr), op_(SELVAGE_OP_DEFAULT) {}
    /** Of a scalar on the host, read here. */
    template <class T>
    scaled_sum(selvage_coll_t *coll, const T &scalar)
        : scaled_sum(coll, &scalar, type_of<T>::value, SELVAGE_SCALAR_HOST)
    {
    }
    scaled_sum(selvage_coll_t *coll, const void *scalar, selvage_type_t type, selvage_scalar_t where)
        : coll_(coll), op_(SELVAGE_OP_DEFAULT)
    {
        check(selvage_coll_op_create(coll, scalar, type, where, &op_));
    }
    scaled_sum(scaled_sum &&other) noexcept : scaled_sum() { swap(other); }
    scaled_sum &operator=(scaled_sum &&other) noexcept
    {
        scaled_sum taken(std::move(other));
        swap(taken);
        return *this;
    }
    scaled_sum(const scaled_sum &) = delete;
    scaled_sum &operator=(const scaled_sum &) = delete;
    ~scaled_sum()
    {
        if (op_ != SELVAGE_OP_DEFAULT)
            selvage_coll_op_destroy(coll_, op_);
    }

    /** The operation; SELVAGE_OP_DEFAULT, which calls refuse, if empty. */
    selvage_op_t get() const noexcept { return op_; }
    void swap(scaled_sum &other) noexcept
    {
        std::swap(coll_, other.coll_);
        std::swap(op_, other.op_);
    }
    friend void swap(scaled_sum &a, scaled_sum &b) noexcept { a.swap(b); }

private:
    selvage_coll_t *coll_;
    selvage_op_t op_;
};

/** Between its construction and end() the collectives of a coll are one launch. */
class coll_group {
public:
    explicit coll_group(selvage_coll_t *coll) : coll_(coll) { check(selvage_coll_group_begin(coll)); }
    coll_group(const coll_group &) = delete;
    coll_group &operator=(const coll_group &) = delete;
    /** As end(), but an error only goes to the log. */
    ~coll_group()
    {
        if (coll_)
            selvage_coll_group_end(coll_);
    }
    /** Launches them. Throws the first error of a call in the group. */
    void end()
    {
        selvage_coll_t *coll = coll_;
        coll_ = nullptr;
        check(selvage_coll_group_end(coll));
    }

private:
    selvage_coll_t *coll_;
};

} // namespace selvage

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selvage.hpp as a C++11 program meets it. Handles own: each is destroyed once, in the order that C++ says, whatever is
 * moved, swapped, reset or thrown; destroy calls are counted, by functions that the wrapper calls in their place.
 * Errors are thrown, with status and detail, by constructors and methods, and what is left then is destroyed rightly.
 * And each class does what it is for, once. Run by tests/mpi/test_cxx.sh on 1 and 2 ranks, or any other number.
 */
#include <selvage.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

static std::string destroyed; /* a letter for each destroy call, in their order */
static std::vector<void *> natives; /* and what was destroyed, while that is of interest */

#define DESTROY(letter, type, call)       \
    static inline void counted_##call(type *native) \
    {                                      \
        destroyed += letter;               \
        natives.push_back(native);         \
        call(native);                      \
    }
DESTROY('c', selvage_comm_t, selvage_comm_destroy)
DESTROY('d', selvage_device_t, selvage_device_close)
DESTROY('x', selvage_exchange_t, selvage_exchange_destroy)
DESTROY('g', selvage_grid_t, selvage_grid_destroy)
DESTROY('h', selvage_halo_t, selvage_halo_destroy)
DESTROY('l', selvage_coll_t, selvage_coll_destroy)
static inline void counted_selvage_stream_destroy(selvage_device_t *device, void *native)
{
    destroyed += 's';
    natives.push_back(native);
    selvage_stream_destroy(device, native);
}
static inline void counted_selvage_device_free(selvage_device_t *device, void *native)
{
    destroyed += 'm';
    natives.push_back(native);
    selvage_device_free(device, native);
}
#define selvage_comm_destroy counted_selvage_comm_destroy
#define selvage_device_close counted_selvage_device_close
#define selvage_exchange_destroy counted_selvage_exchange_destroy
#define selvage_grid_destroy counted_selvage_grid_destroy
#define selvage_halo_destroy counted_selvage_halo_destroy
#define selvage_coll_destroy counted_selvage_coll_destroy
#define selvage_stream_destroy counted_selvage_stream_destroy
#define selvage_device_free counted_selvage_device_free

#include <selvage.hpp>

static long checks, failures;

static void report(bool good, int line, const char *text, const std::string &shown = "")
{
    checks++;
    if (good)
        return;
    failures++;
    std::fprintf(stderr, "cxx_handles.cc:%d: check failed: %s %s\n", line, text, shown.c_str());
}
#define CHECK(condition) report((condition), __LINE__, #condition)
#define CHECK_TEXT(found, wanted) report((found) == std::string(wanted), __LINE__, #found " is " #wanted, found)
/* The call throws the status, with a detail that has the text in it. */
#define CHECK_THROWS(call, wanted, text)                                                                        \
    do {                                                                                                       \
        bool thrown_ = false;                                                                                  \
        try {                                                                                                  \
            call;                                                                                              \
        } catch (const selvage::error &error_) {                                                               \
            thrown_ = true;                                                                                    \
            report(error_.status() == (wanted), __LINE__, #call " throws " #wanted, error_.what());            \
            report(std::strstr(error_.detail(), (text)) != nullptr, __LINE__, #call " says " #text, error_.what()); \
        }                                                                                                      \
        report(thrown_, __LINE__, #call " throws");                                                            \
    } while (0)

/* --- what the compiler knows -------------------------------------------------------------------------------------- */

template <class T>
constexpr bool is_owner()
{
    return !std::is_copy_constructible<T>::value && !std::is_copy_assignable<T>::value &&
           std::is_nothrow_move_constructible<T>::value && std::is_nothrow_move_assignable<T>::value &&
           std::is_nothrow_default_constructible<T>::value && std::is_nothrow_destructible<T>::value;
}
static_assert(is_owner<selvage::device>() && is_owner<selvage::stream>() && is_owner<selvage::event>(), "");
static_assert(is_owner<selvage::graph>() && is_owner<selvage::comm>() && is_owner<selvage::buffer>(), "");
static_assert(is_owner<selvage::exchange>() && is_owner<selvage::grid>() && is_owner<selvage::halo>(), "");
static_assert(is_owner<selvage::coll>() && is_owner<selvage::window>() && is_owner<selvage::scaled_sum>(), "");
static_assert(is_owner<selvage::request>() && is_owner<selvage::requests>() && is_owner<selvage::pack>(), "");
static_assert(is_owner<selvage::device_array<int>>() && is_owner<selvage::pinned_array<int>>(), "");
static_assert(!std::is_copy_constructible<selvage::coll_group>::value, "");
static_assert(!std::is_copy_constructible<selvage::message_group>::value, "");
static_assert(std::is_nothrow_copy_constructible<selvage::error>::value, "an exception is copied as it is thrown");
static_assert(std::is_base_of<std::runtime_error, selvage::error>::value, "");
static_assert(sizeof(selvage::halo) == sizeof(void *) && sizeof(selvage::stream) == 2 * sizeof(void *), "thin");
static_assert(!std::is_constructible<selvage_comm_t *, selvage::comm>::value, "a temporary gives no handle");
static_assert(std::is_convertible<selvage::comm &, selvage_comm_t *>::value, "a handle in calls of the C API");
static_assert(!std::is_convertible<selvage_comm_t *, selvage::comm>::value, "reset() takes over");
static_assert(!std::is_constructible<selvage::bytes, const std::vector<int> &>::value, "const is not written");
static_assert(!std::is_constructible<selvage::span<int>, const std::vector<int> &>::value, "const stays const");
static_assert(!std::is_constructible<selvage::span<long>, std::vector<int> &>::value, "of its own type only");
static_assert(std::is_constructible<selvage::span<const int>, std::vector<int> &>::value, "const is added");
static_assert(selvage::type_of<double>::value == SELVAGE_FLOAT64, "");

/* --- handles ------------------------------------------------------------------------------------------------------ */

static selvage::grid make_grid(const selvage::comm &comm, std::int64_t cells)
{
    selvage_grid_params_t params = selvage_grid_params_init();
    params.ndims = 1;
    params.global_extent[0] = cells * comm.size();
    params.periodic[0] = 1;
    return selvage::grid(comm, params);
}

static void test_moves(const selvage::comm &comm)
{
    destroyed.clear();
    {
        selvage::grid first = make_grid(comm, 4), second = make_grid(comm, 5);
        selvage_grid_t *const native = first.get(), *const other = second.get();
        CHECK(first && native && native != other);

        selvage::grid moved(std::move(first));
        CHECK(moved.get() == native && first.get() == nullptr && !first);
        CHECK_THROWS(first.describe(), SELVAGE_ERR_ARGUMENT, "grid");
        CHECK_TEXT(destroyed, "");

        selvage::grid &itself = moved;
        moved = std::move(itself);
        CHECK(moved.get() == native);
        moved.swap(moved);
        CHECK(moved.get() == native);
        CHECK_TEXT(destroyed, "");

        using std::swap;
        swap(moved, second);
        CHECK(moved.get() == other && second.get() == native);
        std::swap(moved, second);
        CHECK(moved.get() == native && second.get() == other);
        CHECK_TEXT(destroyed, "");
        CHECK(second.describe().local_extent[0] == 5);

        natives.clear();
        second = std::move(moved); /* destroys what second held */
        CHECK_TEXT(destroyed, "g");
        CHECK(natives.size() == 1 && natives[0] == other && second.get() == native && !moved);

        moved.reset(second.release());
        CHECK(!second && moved.get() == native);
        second.reset();
        moved = selvage::grid();
        CHECK_TEXT(destroyed, "gg");
    }
    CHECK_TEXT(destroyed, "gg"); /* all of them were empty */
}

static void test_device_moves(selvage_device_t *device)
{
    destroyed.clear();
    natives.clear();
    {
        selvage::stream one(device), two(device);
        void *const first = one, *const second = two.get();
        CHECK(first && second && first != second && one.device() == device);
        selvage::stream moved(std::move(one));
        CHECK(moved.get() == first && !one && one.device() == nullptr);
        CHECK_THROWS(one.synchronize(), SELVAGE_ERR_ARGUMENT, "dev");
        selvage::stream &itself = moved;
        moved = std::move(itself);
        CHECK(moved.get() == first && moved.device() == device);
        CHECK_TEXT(destroyed, "");
        two = std::move(moved);
        CHECK_TEXT(destroyed, "s");
        CHECK(natives.size() == 1 && natives[0] == second);
        one.swap(two);
        CHECK(one.get() == first && !two);
        one.synchronize();
        two.reset(device, one.release());
        CHECK(two.get() == first && !one);
        two.reset();
        CHECK_TEXT(destroyed, "ss");
        CHECK(!two && two.device() == nullptr);
    }
    CHECK_TEXT(destroyed, "ss");

    destroyed.clear();
    {
        selvage::device_array<int> one(device, 10), none(device, 0), empty;
        int *const memory = one.data();
        CHECK(memory && one.size() == 10 && one.size_bytes() == 40 && none.data() && none.size() == 0 && !empty);
        selvage::device_array<int> moved(std::move(one));
        CHECK(moved.data() == memory && one.data() == nullptr && one.size() == 0);
        selvage::device_array<int> &itself = moved;
        moved = std::move(itself);
        CHECK(moved.data() == memory && moved.size() == 10);
        swap(moved, empty);
        CHECK(empty.data() == memory && moved.size() == 0 && empty.device() == device);
        CHECK_TEXT(destroyed, "");
        empty.reset();
        CHECK_TEXT(destroyed, "m");
        CHECK_THROWS(selvage::device_array<double>(device, SIZE_MAX / 8 + 2), SELVAGE_ERR_MEMORY, "");
        CHECK_TEXT(destroyed, "m");
    }
    CHECK_TEXT(destroyed, "mm");
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void test_errors(const selvage::comm &comm, void *stream)
{
    destroyed.clear();
    CHECK_THROWS(selvage::device("abacus"), SELVAGE_ERR_ARGUMENT, "abacus");
    CHECK_THROWS(selvage::exchange(nullptr), SELVAGE_ERR_ARGUMENT, "comm");
    CHECK_THROWS(make_grid(comm, 0), SELVAGE_ERR_ARGUMENT, "global_extent");
    CHECK_THROWS(selvage::halo().start(stream), SELVAGE_ERR_ARGUMENT, "halo");
    CHECK_THROWS(selvage::exchange().commit(), SELVAGE_ERR_ARGUMENT, "ex");
    CHECK_THROWS(selvage::coll().verify(), SELVAGE_ERR_ARGUMENT, "");
    CHECK_THROWS(selvage::comm().stats(), SELVAGE_ERR_ARGUMENT, "comm");
    CHECK_TEXT(destroyed, ""); /* what was not made is not destroyed */

    try {
        selvage::device unknown("abacus");
    } catch (const std::exception &caught) {
        const selvage::error copy = dynamic_cast<const selvage::error &>(caught);
        CHECK_TEXT(std::string(caught.what()), "SELVAGE_ERR_ARGUMENT: " + std::string(copy.detail()));
        CHECK_TEXT(std::string(copy.detail()), selvage_error_detail());
        CHECK(copy.status() == SELVAGE_ERR_ARGUMENT);
    }
    selvage::check(SELVAGE_SUCCESS);
    selvage::check(SELVAGE_IN_PROGRESS);
    CHECK_THROWS(selvage::check(SELVAGE_ERR_LIMIT), SELVAGE_ERR_LIMIT, "");

    /* A commit that fails on all ranks, since no rank receives; then the exchange can only be destroyed. */
    {
        selvage::device_array<char> data(comm.device(), 8);
        selvage::exchange ex(comm);
        CHECK(ex.add_send(data, (comm.rank() + 1) % comm.size(), 0) == 0);
        CHECK_THROWS(ex.add_send(data, comm.size(), 0), SELVAGE_ERR_ARGUMENT, "peer");
        CHECK_THROWS(ex.start(stream), SELVAGE_ERR_STATE, "");
        CHECK_THROWS(ex.commit(), SELVAGE_ERR_MISMATCH, "");
        CHECK_TEXT(destroyed, "");
    }
    CHECK_TEXT(destroyed, "xm");
}

/* What is thrown in a block with all kinds of handles ends them in the reverse order of their construction. */
static void test_unwinding(selvage_device_t *device, const selvage::comm &comm)
{
    destroyed.clear();
    try {
        selvage::stream stream(device);
        selvage::device_array<double> u(device, 6);
        selvage::grid grid = make_grid(comm, 4);
        selvage_field_t field = selvage_field_init();
        field.data = u.data();
        field.element_bytes = sizeof(double);
        field.width_lo[0] = field.width_hi[0] = 1;
        selvage::halo halo(grid, field);
        selvage::exchange ex(comm);
        halo.exchange(stream);
        halo.rebind(nullptr);
        CHECK(false);
    } catch (const selvage::error &caught) {
        CHECK(caught.status() == SELVAGE_ERR_ARGUMENT);
    }
    CHECK_TEXT(destroyed, "xhgms");
}

/* --- what the classes are for ------------------------------------------------------------------------------------- */

static void test_halo(selvage_device_t *device, const selvage::comm &comm, const selvage::stream &stream)
{
    enum { CELLS = 4 };
    const int rank = comm.rank(), size = comm.size();
    selvage::grid grid = make_grid(comm, CELLS);
    const int left = grid.neighbour({{-1}}), right = grid.neighbour({{1}});
    CHECK(left == (rank + size - 1) % size && right == (rank + 1) % size);
    CHECK(grid.rank(grid.coords(rank)) == rank && grid.block(rank).first[0] == CELLS * grid.coords(rank)[0]);
    const selvage_box_t inside = grid.interior({{1}}, {{1}});
    CHECK(inside.first[0] == 1 && inside.end[0] == CELLS - 1 && grid.boundary({{1}}, {{1}})[1].end[0] == CELLS);

    selvage::device_array<double> u(device, CELLS + 2), v(device, CELLS + 2);
    selvage::pinned_array<double> host(device, CELLS + 2);
    selvage_field_t field = selvage_field_init();
    field.data = u.data();
    field.element_bytes = sizeof(double);
    field.width_lo[0] = field.width_hi[0] = 1;
    const selvage_field_t fields[] = {field};
    selvage::halo halo(grid, fields);
    CHECK(halo.describe().packets == (size == 2 ? 1 : size == 1 ? 1 : 2));
    for (int step = 0; step < 4; step++) {
        selvage::device_array<double> &array = step % 2 ? v : u;
        const selvage::span<double> cells(host);
        for (double &cell : cells)
            cell = -1;
        for (int i = 1; i <= CELLS; i++)
            cells[i] = 100 * step + 10 * rank + i;
        stream.copy(array, host, SELVAGE_COPY_HOST_TO_DEVICE);
        halo.rebind(array.data());
        halo.start(stream);
        while (step == 2 && !halo.test(stream)) {
        }
        halo.wait(stream);
        stream.copy(host, array, SELVAGE_COPY_DEVICE_TO_HOST);
        stream.synchronize();
        CHECK(cells[0] == 100 * step + 10 * left + CELLS && cells[CELLS + 1] == 100 * step + 10 * right + 1);
    }
    const selvage::bytes too_short(host.data(), 3);
    CHECK_THROWS(stream.copy(too_short, u, SELVAGE_COPY_DEVICE_TO_HOST), SELVAGE_ERR_ARGUMENT, "to");
    CHECK(comm.stats().epochs >= 4);
}

static void test_rebind(selvage_device_t *device, const selvage::comm &comm, const selvage::stream &stream)
{
    const int rank = comm.rank(), size = comm.size(), right = (rank + 1) % size, left = (rank + size - 1) % size;
    selvage::device_array<std::int32_t> sent(device, 4), received(device, 4), other(device, 4);
    selvage_exchange_params_t params = selvage_exchange_params_init();
    params.rebindable = 1;
    selvage::exchange ex(comm, params);
    CHECK(ex.add_send(sent, right, 1) == 0 && ex.add_recv(received, left, 1) == 0);
    ex.commit();
    std::vector<void *> places = {other.data()};
    const std::vector<const void *> sources = {sent.data()};
    std::vector<std::int32_t> host(4), found(4);
    for (int step = 0; step < 3; step++) {
        host.assign(4, 100 * step + rank);
        stream.copy(sent, host, SELVAGE_COPY_HOST_TO_DEVICE);
        places[0] = step % 2 ? received.data() : other.data();
        if (step == 2)
            ex.rebind(sources, places);
        else
            ex.rebind({}, places);
        ex.start(stream);
        ex.wait(stream);
        stream.copy(found, step % 2 ? received : other, SELVAGE_COPY_DEVICE_TO_HOST);
        stream.synchronize();
        CHECK(found[0] == 100 * step + left && found[3] == found[0]);
    }
    places.push_back(nullptr);
    CHECK_THROWS(ex.rebind({}, places), SELVAGE_ERR_ARGUMENT, "nrecvs is 2");
}

static void test_lengths(selvage_device_t *device, const selvage::comm &comm, const selvage::stream &stream)
{
    const int rank = comm.rank(), size = comm.size(), right = (rank + 1) % size, left = (rank + size - 1) % size;
    selvage::device_array<std::int32_t> sent(device, 4), received(device, 4);
    selvage_exchange_params_t params = selvage_exchange_params_init();
    params.varying = 1;
    selvage::exchange ex(comm, params);
    CHECK(ex.add_send(sent, right, 1) == 0 && ex.add_recv(received, left, 1) == 0);
    ex.commit();
    for (std::size_t elements = 0; elements <= 4; elements++) {
        const std::vector<std::size_t> bytes = {elements * sizeof(std::int32_t)};
        std::vector<std::int32_t> host(4, 10 * static_cast<int>(elements) + rank), found(4, -1);
        stream.copy(sent, host, SELVAGE_COPY_HOST_TO_DEVICE);
        stream.copy(received, found, SELVAGE_COPY_HOST_TO_DEVICE);
        if (elements < 4)
            ex.set_bytes(bytes, bytes);
        else { /* one after the other */
            ex.set_bytes(bytes, {});
            ex.set_bytes({}, bytes);
        }
        ex.start(stream);
        ex.wait(stream);
        stream.copy(found, received, SELVAGE_COPY_DEVICE_TO_HOST);
        stream.synchronize();
        for (std::size_t i = 0; i < 4; i++)
            CHECK(found[i] == (i < elements ? 10 * static_cast<int>(elements) + left : -1));
    }
    CHECK_THROWS(ex.set_bytes(std::vector<std::size_t>{17}, {}), SELVAGE_ERR_ARGUMENT, "at most 16 were declared");
}

static void test_exchange(selvage_device_t *device, const selvage::comm &comm, const selvage::stream &stream)
{
    const int rank = comm.rank(), size = comm.size(), right = (rank + 1) % size, left = (rank + size - 1) % size;
    const std::vector<std::int64_t> backwards = {3, 2, 1, 0};
    const std::vector<std::int32_t> forwards = {0, 1, 2, 3};
    selvage::device_array<std::int32_t> sent(device, 4), received(device, 4), listed(device, 4);
    selvage::buffer exported(comm, received);
    selvage_exchange_params_t params = selvage_exchange_params_init();
    params.checksum = SELVAGE_CHECKSUM_RETRY;
    selvage::exchange ex(comm, params);
    CHECK(ex.add_send(sent, right, 1) == 0 && ex.add_send_indexed(sent.data(), backwards, right, 2) == 1);
    CHECK(ex.add_recv(received, left, 1) == 0 && ex.add_recv_indexed(listed.data(), forwards, left, 2) == 1);
    CHECK(ex.add_send_type(sent.data(), 0, MPI_INT, right, 3) == 2 &&
          ex.add_recv_type(received.data(), 0, MPI_INT, left, 3) == 2);
    ex.commit();
    CHECK(ex.epoch() == 0 && (size > 1 || ex.send_route(0) == SELVAGE_ROUTE_SELF));
    CHECK_THROWS(ex.commit(), SELVAGE_ERR_STATE, "");
    if (ex.send_route(0) == SELVAGE_ROUTE_PEER) {
        CHECK_THROWS(exported.unregister(), SELVAGE_ERR_STATE, "");
        CHECK(exported); /* it could not be, so it is still held */
    }

    std::vector<std::int32_t> host = {10 * rank, 10 * rank + 1, 10 * rank + 2, 10 * rank + 3}, found(4), list(4);
    stream.copy(sent, host, SELVAGE_COPY_HOST_TO_DEVICE);
    ex.start(stream);
    ex.wait(stream);
    stream.copy(found, received, SELVAGE_COPY_DEVICE_TO_HOST);
    stream.copy(list, listed, SELVAGE_COPY_DEVICE_TO_HOST);
    stream.synchronize();
    for (int i = 0; i < 4; i++)
        CHECK(found[i] == 10 * left + i && list[i] == 10 * left + 3 - i);
    CHECK(ex.epoch() == 1);
    ex.reset();
    exported.unregister();
    CHECK(!exported);
}

static void test_collectives(selvage_device_t *device, const selvage::comm &comm, const selvage::stream &stream)
{
    int able = selvage::coll::is_supported(comm), all = 0;
    MPI_Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all) {
        CHECK_THROWS(selvage::coll{comm}, SELVAGE_ERR_UNSUPPORTED, "");
        return;
    }
    const int rank = comm.rank(), size = comm.size();
    selvage::coll coll(comm);
    selvage::device_array<double> x(device, 2), y(device, 2);
    selvage::window window(coll, x);
    std::vector<double> host = {1.0 + rank, 0.5}, found(2);
    stream.copy(x, host, SELVAGE_COPY_HOST_TO_DEVICE);
    coll.all_reduce(x.data(), y.data(), 2, SELVAGE_OP_SUM, stream);
    stream.copy(found, y, SELVAGE_COPY_DEVICE_TO_HOST);
    stream.synchronize();
    coll.verify();
    CHECK(found[0] == size * (size + 1) / 2 && found[1] == 0.5 * size);

    selvage::scaled_sum twice(coll, 2.0), taken(std::move(twice));
    CHECK(twice.get() == SELVAGE_OP_DEFAULT);
    CHECK_THROWS(coll.all_reduce(x.data(), y.data(), 1, twice.get(), stream), SELVAGE_ERR_ARGUMENT, "op");
    {
        selvage::coll_group group(coll);
        coll.all_reduce(x.data(), y.data(), 1, taken.get(), stream);
        coll.broadcast(rank == 0 ? x.data() : nullptr, y.data() + 1, 1, 0, stream);
        group.end();
    }
    stream.copy(found, y, SELVAGE_COPY_DEVICE_TO_HOST);
    stream.synchronize();
    coll.verify();
    CHECK(found[0] == size * (size + 1) && found[1] == 1.0);

    /* Everything once, of one number for each rank: rank r has 10 * r + i for rank i. */
    const std::size_t ranks = static_cast<std::size_t>(size);
    selvage::device_array<std::int64_t> from(device, ranks), to(device, 4 * ranks + 3);
    std::vector<std::int64_t> numbers(ranks), seen(to.size(), -1);
    for (int i = 0; i < size; i++)
        numbers[i] = 10 * rank + i;
    stream.copy(from, numbers, SELVAGE_COPY_HOST_TO_DEVICE);
    stream.copy(to, seen, SELVAGE_COPY_HOST_TO_DEVICE);
    std::int64_t *const place = to.data();
    coll.all_to_all(from.data(), place, 1, stream);
    coll.all_gather(from.data(), place + ranks, 1, stream);
    coll.reduce(from.data(), rank == 0 ? place + 2 * ranks : nullptr, 1, SELVAGE_OP_MAX, 0, stream);
    coll.reduce_scatter(from.data(), place + 3 * ranks, 1, SELVAGE_OP_SUM, stream);
    {
        selvage::coll_group group(coll); /* ended by its destructor */
        coll.send(from.data(), 1, (rank + 1) % size, stream);
        coll.recv(place + 4 * ranks, 1, (rank + size - 1) % size, stream);
    }
    coll.barrier(stream);
    stream.copy(seen, to, SELVAGE_COPY_DEVICE_TO_HOST);
    stream.synchronize();
    coll.verify();
    for (int i = 0; i < size; i++)
        CHECK(seen[i] == 10 * i + rank && seen[ranks + i] == 10 * i);
    CHECK(seen[2 * ranks] == (rank == 0 ? 10 * (size - 1) : -1));
    CHECK(seen[3 * ranks] == 5 * size * (size - 1) + rank * size);
    CHECK(seen[4 * ranks] == 10 * ((rank + size - 1) % size));
    CHECK(coll.split(-1, 0).get() == nullptr && coll.split(rank, 0).size() == 1 && coll.stats().calls >= 3);
}

static void test_messages(selvage_device_t *device, const selvage::comm &comm, const selvage::stream &stream)
{
    const int rank = comm.rank(), size = comm.size(), right = (rank + 1) % size, left = (rank + size - 1) % size;
    const std::vector<int> out = {rank, 7};
    std::vector<int> in(2, -1), untouched(2, -1);
    {
        selvage::request never = selvage::irecv(comm, untouched, left, 5, stream); /* is taken back at the brace */
        CHECK(never && !never.test());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    selvage::request recv = selvage::irecv(comm, in, MPI_ANY_SOURCE, 5, stream);
    selvage::request sent = selvage::isend(comm, out, right, 5, stream), moved(std::move(sent));
    CHECK(!sent && sent.test() && sent.wait().bytes == 0);
    const selvage::message_status status = recv.wait();
    CHECK(!recv && status.source == left && status.tag == 5 && status.bytes == 2 * sizeof(int));
    CHECK(in[0] == left && in[1] == 7 && untouched[0] == -1);
    moved.wait();

    /* What is thrown while requests are open waits for those that go on. */
    int landed = -1;
    try {
        selvage::request open = selvage::irecv(comm, selvage::bytes(&landed, sizeof landed), left, 6, nullptr);
        selvage::request begun = selvage::isend(comm, {&rank, sizeof rank}, right, 6, nullptr);
        selvage::recv(comm, in, size, 6, nullptr);
        CHECK(false);
    } catch (const selvage::error &caught) {
        CHECK(caught.status() == SELVAGE_ERR_ARGUMENT);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int late = landed; /* taken back, or there: but not written from now on */
    if (late == -1)
        selvage::recv(comm, {&late, sizeof late}, left, 6, nullptr);
    CHECK(late == left);

    selvage::device_array<char> bytes(device, 16);
    selvage::requests set;
    std::vector<selvage::message_status> statuses(2);
    CHECK(set.wait_any() == SIZE_MAX);
    set.add(selvage::irecv(comm, bytes.data(), 4, MPI_FLOAT, left, 8, stream));
    set.add(selvage::issend(comm, selvage::const_bytes(out.data(), 4), right, 8, stream));
    CHECK(set.wait_any() < 2);
    set.wait_all(statuses);
    CHECK(set.size() == 2);
    set.clear();
    const selvage::message_status both = selvage::sendrecv(comm, out, right, 9, in, left, 9, stream);
    CHECK(both.bytes == 2 * sizeof(int) && !selvage::iprobe(comm, left, 9));
    selvage::request longer = selvage::isend(comm, out, right, 10, nullptr);
    CHECK(selvage::probe(comm, left, 10).bytes == 2 * sizeof(int));
    CHECK_THROWS(selvage::recv(comm, {in.data(), 3}, left, 10, nullptr), SELVAGE_ERR_TRUNCATED, "8");
    longer.wait();
    {
        selvage::message_group group(comm);
        set.add(selvage::irecv(comm, in, left, 11, nullptr));
        set.add(selvage::isend(comm, out, right, 11, nullptr));
        group.end();
    }
    set.wait_all();
    selvage::requests given(std::move(set));
    CHECK(set.size() == 0 && given.size() == 2);
}

static void test_streams(const selvage::device &device)
{
    CHECK(selvage::device::count(device.name()) >= 1 && device.describe().count >= 1);
    selvage::stream stream(device);
    selvage::event event(device);
    selvage::device_array<unsigned char> memory(device, 8), packed(device, 8);
    std::vector<unsigned char> found(8);
    CHECK(device.memory(memory.data(), 8) == SELVAGE_MEMORY_DEVICE && event.query());
    stream.fill(memory, 5);
    event.record(stream);
    event.synchronize();
    CHECK(event.query());
    stream.begin_capture();
    stream.fill(memory, 6);
    selvage::graph graph = stream.end_capture();
    CHECK_THROWS(stream.end_capture(), SELVAGE_ERR_DEVICE, "");
    graph.launch(stream);
    selvage::pack pack(device, 8, MPI_BYTE), same(device, 4, MPI_SHORT);
    CHECK(pack.size_bytes() == 8 && pack == pack && pack != selvage::pack());
    pack.gather(memory.data(), packed.data(), stream);
    stream.copy(found, packed, SELVAGE_COPY_DEVICE_TO_HOST);
    stream.synchronize();
    CHECK(found == std::vector<unsigned char>(8, 6));
    device.synchronize();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0;
    try {
        selvage::device device(nullptr);
        selvage::comm comm(MPI_COMM_WORLD, device);
        selvage::stream stream(device);
        rank = comm.rank();
        CHECK(comm.device() == device.get() && comm.node_size() >= 1);
        test_moves(comm);
        test_device_moves(device);
        test_errors(comm, stream);
        test_unwinding(device, comm);
        test_streams(device);
        test_halo(device, comm, stream);
        test_exchange(device, comm, stream);
        test_rebind(device, comm, stream);
        test_lengths(device, comm, stream);
        test_collectives(device, comm, stream);
        test_messages(device, comm, stream);
        destroyed.clear();
    } catch (const std::exception &caught) {
        report(false, __LINE__, caught.what());
    }
    CHECK_TEXT(destroyed, "scd");
    MPI_Finalize();
    if (rank == 0 || failures)
        std::printf("rank %d: %ld checks, %ld failed\n", rank, checks, failures);
    return failures != 0;
}

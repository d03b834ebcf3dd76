/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heat2d in C++11, by selvage.hpp: heat spreads on a periodic square that a grid cuts over the ranks; the interior is
 * computed while the halos travel, and an all-reduce on the device adds up what is left.
 *
 *     mpirun -n 4 heat2d_cxx [--n CELLS] [--steps STEPS]
 *
 * Read step(). The arithmetic is the host's, between copies, so that the program runs on any device; in a real one it
 * is kernels on the same stream. Every number in it is a small multiple of a power of two, so nothing is rounded: the
 * cells are compared with those of one serial run, and the sum with that of the beginning, to the bit.
 */
#include <mpi.h>
#include <selvage.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct options {
    int cells = 48, steps = 10;
};
enum { CELLS_MAX = 256, STEPS_MAX = 12 }; /* so that sums have at most 53 bits */

/* No two rows or columns alike, so that a halo in the wrong place shows. */
double initial(std::int64_t x, std::int64_t y)
{
    return static_cast<double>((x * 7919 + y * 104729 + x * y) % 1013) / 1024;
}

double average(double west, double east, double north, double south)
{
    return 0.25 * (west + east + north + south);
}

/* This rank's block: rows of own cells in a frame of one halo cell, on the device and on the host. Members are made
   from top to bottom and destroyed from bottom to top, which is the order that the library wants. */
class block {
public:
    block(const selvage::comm &comm, int cells)
        : stream_(comm.device()), grid_(comm, square(cells)), info_(grid_.describe()),
          rows_(info_.local_extent[0]), columns_(info_.local_extent[1]),
          device_(comm.device(), static_cast<std::size_t>((rows_ + 2) * (columns_ + 2))),
          host_(comm.device(), device_.size()), next_(comm.device(), device_.size()), halo_(grid_, field())
    {
        for (std::int64_t y = 0; y < rows_; y++)
            for (std::int64_t x = 0; x < columns_; x++)
                host_.data()[place(y, x)] = initial(info_.local_first[1] + x, info_.local_first[0] + y);
    }

    void step()
    {
        stream_.copy(device_, host_, SELVAGE_COPY_HOST_TO_DEVICE);
        halo_.start(stream_); /* returns at once; reads the cells after the copy */
        update(grid_.interior({{1, 1}}, {{1, 1}}));
        halo_.wait(stream_); /* verified; later work on the stream sees the halo */
        stream_.copy(host_, device_, SELVAGE_COPY_DEVICE_TO_HOST);
        stream_.synchronize();
        for (const selvage_box_t &side : grid_.boundary({{1, 1}}, {{1, 1}}))
            update(side);
        swap(host_, next_);
    }

    double sum() const
    {
        double total = 0;
        for (std::int64_t y = 0; y < rows_; y++)
            for (std::int64_t x = 0; x < columns_; x++)
                total += host_.data()[place(y, x)];
        return total;
    }

    /* Number of cells that are not those of the whole square. */
    int compare(const std::vector<double> &whole, int cells) const
    {
        int wrong = 0;
        for (std::int64_t y = 0; y < rows_; y++)
            for (std::int64_t x = 0; x < columns_; x++)
                wrong += host_.data()[place(y, x)] !=
                         whole[static_cast<std::size_t>((info_.local_first[0] + y) * cells + info_.local_first[1] + x)];
        return wrong;
    }

    const selvage::stream &stream() const { return stream_; }

private:
    static selvage_grid_params_t square(int cells)
    {
        selvage_grid_params_t params = selvage_grid_params_init();
        params.ndims = 2;
        for (int d = 0; d < 2; d++) {
            params.global_extent[d] = cells;
            params.periodic[d] = 1;
        }
        return params;
    }
    selvage_field_t field() const
    {
        selvage_field_t cells = selvage_field_init();
        cells.data = device_.data();
        cells.element_bytes = sizeof(double);
        for (int d = 0; d < 2; d++)
            cells.width_lo[d] = cells.width_hi[d] = 1;
        return cells;
    }
    std::size_t place(std::int64_t y, std::int64_t x) const
    {
        return static_cast<std::size_t>((y + 1) * (columns_ + 2) + x + 1);
    }
    void update(const selvage_box_t &box)
    {
        const double *u = host_.data();
        for (std::int64_t y = box.first[0]; y < box.end[0]; y++)
            for (std::int64_t x = box.first[1]; x < box.end[1]; x++)
                next_.data()[place(y, x)] =
                    average(u[place(y, x - 1)], u[place(y, x + 1)], u[place(y - 1, x)], u[place(y + 1, x)]);
    }

    selvage::stream stream_;
    selvage::grid grid_;
    selvage_grid_info_t info_;
    std::int64_t rows_, columns_;
    selvage::device_array<double> device_;
    selvage::pinned_array<double> host_, next_;
    selvage::halo halo_;
};

/* The whole square, by this rank alone. */
std::vector<double> solve_serially(const options &wanted)
{
    const std::size_t n = static_cast<std::size_t>(wanted.cells);
    std::vector<double> u(n * n), next(n * n);
    for (std::size_t i = 0; i < n * n; i++)
        u[i] = initial(static_cast<std::int64_t>(i % n), static_cast<std::int64_t>(i / n));
    for (int s = 0; s < wanted.steps; s++) {
        for (std::size_t y = 0; y < n; y++)
            for (std::size_t x = 0; x < n; x++)
                next[y * n + x] = average(u[y * n + (x + n - 1) % n], u[y * n + (x + 1) % n],
                                          u[(y + n - 1) % n * n + x], u[(y + 1) % n * n + x]);
        u.swap(next);
    }
    return u;
}

/* Sums over ranks: on the device, or by MPI where ranks share a GPU, whose kernels cannot wait for each other. */
std::vector<double> add_up(const selvage::comm &comm, const std::vector<double> &mine, const selvage::stream &stream,
                           const char **how)
{
    std::vector<double> total(mine.size());
    int able = selvage::coll::is_supported(comm), all_are = 0;
    MPI_Allreduce(&able, &all_are, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    *how = all_are ? "on the device" : "by MPI";
    if (!all_are) {
        MPI_Allreduce(mine.data(), total.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return total;
    }
    selvage::device_array<double> sums(comm.device(), mine.size());
    selvage::coll coll(comm);
    stream.copy(sums, mine, SELVAGE_COPY_HOST_TO_DEVICE);
    coll.all_reduce(sums.data(), sums.data(), sums.size(), SELVAGE_OP_SUM, stream); /* in place */
    stream.copy(total, sums, SELVAGE_COPY_DEVICE_TO_HOST);
    stream.synchronize();
    coll.verify(); /* now the sums may be believed */
    return total;
}

/* Returns whether all is right; rank 0 says so. */
bool run(const options &wanted)
{
    selvage::device device = selvage::device::open_local();
    selvage::comm comm(MPI_COMM_WORLD, device);
    block cells(comm, wanted.cells);
    const double before = cells.sum();
    for (int s = 0; s < wanted.steps; s++)
        cells.step();
    const int wrong = cells.compare(solve_serially(wanted), wanted.cells);

    const char *how = nullptr;
    const std::vector<double> mine = {before, cells.sum(), static_cast<double>(wrong)};
    const std::vector<double> total = add_up(comm, mine, cells.stream(), &how);
    const bool right = total[0] > 0 && total[1] == total[0] && total[2] == 0;
    if (comm.rank() == 0)
        std::printf("%dx%d cells, %d steps, %d ranks: %.0f cells differ from the serial run; "
                    "the heat, added up %s, was %.10g and is %.10g: %s\n",
                    wanted.cells, wanted.cells, wanted.steps, comm.size(), total[2], how, total[0], total[1],
                    right ? "right" : "WRONG");
    return right;
}

/* "--n 48 --steps 10"; false if there is anything else. */
bool parse(int argc, char **argv, options *wanted)
{
    for (int i = 1; i < argc; i += 2) {
        const bool is_cells = std::strcmp(argv[i], "--n") == 0;
        if ((!is_cells && std::strcmp(argv[i], "--steps") != 0) || i + 1 == argc)
            return false;
        char *end = nullptr;
        const long value = std::strtol(argv[i + 1], &end, 10);
        if (*end != '\0' || value < (is_cells ? 1 : 0) || value > (is_cells ? CELLS_MAX : STEPS_MAX))
            return false;
        (is_cells ? wanted->cells : wanted->steps) = static_cast<int>(value);
    }
    return true;
}

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    options wanted;
    int status = 2;
    if (!parse(argc, argv, &wanted)) {
        std::fprintf(stderr, "usage: heat2d_cxx [--n 1..%d] [--steps 0..%d]\n", CELLS_MAX, STEPS_MAX);
    } else {
        try {
            status = run(wanted) ? 0 : 1;
        } catch (const selvage::error &caught) { /* the library has said why; ranks that wait are ended */
            std::fprintf(stderr, "heat2d_cxx: %s\n", selvage_status_name(caught.status()));
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    MPI_Finalize();
    return status;
}

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""wilson_dense.py LATTICE KAPPA

The pion correlator that examples/wilson computes, by other means: the whole Wilson-Dirac matrix of a small lattice,
with gamma matrices in Dirac's form (the example has the chiral one), inverted by elimination. No parity, no projection,
no halo, no iteration. Prints t and C(t) as the example does.
"""
import array
import sys

PAULI = [[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]]


def gamma(mu):
    """Euclidean: ((0, -i sigma), (i sigma, 0)) in space, diag(1, 1, -1, -1) in time."""
    g = [[0] * 4 for _ in range(4)]
    for i in range(2):
        if mu == 3:
            g[i][i], g[i + 2][i + 2] = 1, -1
        else:
            for j in range(2):
                g[i][j + 2], g[i + 2][j] = -1j * PAULI[mu][i][j], 1j * PAULI[mu][i][j]
    return g


def read_lattice(path):
    """Extents, and the list of links[site][mu], each nine complex numbers, x fastest."""
    with open(path, 'rb') as opened:
        header = array.array('i', opened.read(20))
        opened.seek(96)
        words = array.array('f', opened.read())
    links = [[[complex(words[k], words[k + 1]) for k in range(start, start + 18, 2)]
              for start in range(site, site + 72, 18)] for site in range(0, len(words), 72)]
    return list(header[1:5]), links


def neighbour(site, extent, mu):
    """The site ahead, and whether the step goes around the end of the lattice."""
    stride = 1
    for d in range(mu):
        stride *= extent[d]
    last = site // stride % extent[mu] == extent[mu] - 1
    return site + stride * (1 - extent[mu] if last else 1), last


def build(extent, links, kappa):
    """M, row by row; unknown 12 site + 3 spin + colour."""
    size = 12 * len(links)
    matrix = [[0j] * size for _ in range(size)]
    for row in range(size):
        matrix[row][row] = 1 + 0j
    for mu in range(4):
        g = gamma(mu)
        for site, link in enumerate(links):
            ahead, around = neighbour(site, extent, mu)
            sign = -1 if mu == 3 and around else 1
            for spin in range(16):
                s, r = divmod(spin, 4)
                forth, back = (s == r) - g[s][r], (s == r) + g[s][r]
                for k in range(9):
                    a, b = divmod(k, 3)
                    u = kappa * sign * link[mu][k]
                    matrix[12 * site + 3 * s + a][12 * ahead + 3 * r + b] -= forth * u
                    matrix[12 * ahead + 3 * s + b][12 * site + 3 * r + a] -= back * u.conjugate()
    return matrix


def solve(matrix, columns):
    """The first columns of the inverse, by elimination with pivots; destroys the matrix."""
    size = len(matrix)
    for row in range(size):
        matrix[row].extend(1 + 0j if row == column else 0j for column in range(columns))
    for k in range(size):
        pivot = max(range(k, size), key=lambda row: abs(matrix[row][k]))
        matrix[k], matrix[pivot] = matrix[pivot], matrix[k]
        top = matrix[k][k:]
        for row in range(k + 1, size):
            factor = matrix[row][k] / top[0]
            if factor != 0:
                matrix[row][k:] = [x - factor * y for x, y in zip(matrix[row][k:], top)]
    solution = [None] * size
    for k in reversed(range(size)):
        values = matrix[k][size:]
        for j in range(k + 1, size):
            if matrix[k][j] != 0:
                values = [v - matrix[k][j] * x for v, x in zip(values, solution[j])]
        solution[k] = [v / matrix[k][k] for v in values]
    return solution


def main():
    extent, links = read_lattice(sys.argv[1])
    solution = solve(build(extent, links, float(sys.argv[2])), 12)
    slice_size = len(solution) // extent[3]
    for t in range(extent[3]):
        rows = solution[t * slice_size:(t + 1) * slice_size]
        print('%4d   %.15e' % (t, sum(abs(x) ** 2 for row in rows for x in row)))


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What collectives between nodes cost: messages and bytes of each rank, and the time of the wire, by a model.

coll_cost.py check FILE...         compares the model with what tests/mpi/coll_count counted; exit status 1 if one of
                                   its numbers is not exactly the model's
coll_cost.py cpu FILE...           fits the CPU time of a rank to what coll_count CPU=TIMES measured on up to 8 ranks,
                                   and says how far off that is on more; no exit status of its own
coll_cost.py table BYTES P N...    what it says for vectors of so many bytes on N nodes of P ranks
coll_cost.py time ALPHA_US GBITS BYTES P N...   and the time: ALPHA_US for each message of those that wait for each
                                   other, a link of GBITS for each node, both ways at a time, and GBITS 0 for none.
                                   A chunk goes on when it is whole. Ranks come at once, and have a core each

All nodes have the same number of ranks, the root is rank 0, nothing is damaged. The model restates
lib/collective/coll_nodes_{plan,reduce,copy,tree,pairs,message}.c, and doc/measured.md tells of it.
"""
import math
import sys

HEAD, ANSWER, COMPARISON = 64, 192, 2 * 176      # bytes: before data, in answer to it, of a round of comparing
EAGER, LEAST, MOST, UNIT, DIRECT = 60 << 10, 16 << 10, 512 << 10, 256, 16
SENT_EVERYWHERE, SLOTS = 32 << 10, 8
SHARE, SHARE_UNIT, ROUNDS = 4 << 10, 16, 16  # of those that travel whole; messages of a slot
FITTED_RANKS = 8
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all")


def chunk_bytes(total, turns):
    chunk = max(int(math.sqrt(total * 1024)), EAGER)
    if turns and chunk > total // (2 * turns):
        chunk = max(total // (2 * turns), LEAST)
    chunk = min(chunk, max(total, 1))
    return min((chunk + UNIT - 1) // UNIT * UNIT, MOST)


def divide_up(number, by):
    return (number + by - 1) // by


class Count:
    """Messages and bytes that each rank sends in one call; ranks are (node, rail)."""

    def __init__(self, nodes, rails):
        self.nodes, self.rails = nodes, rails
        rounds = math.ceil(math.log2(nodes * rails)) if nodes * rails > 1 else 0
        # steps: messages that wait for each other, of chunk bytes; fills: some nodes have nothing to send before
        self.rounds, self.steps, self.chunk, self.fills = rounds, 0, 0, True
        self.rows = 0
        self.sent = self.payload = self.added = 0  # of all ranks: messages of data, their bytes, bytes added
        self.received = [rails * rounds * COMPARISON for _ in range(nodes)]
        self.messages = [[rounds] * rails for _ in range(nodes)]
        self.bytes = [[rounds * COMPARISON] * rails for _ in range(nodes)]

    def send(self, source, to, rail, size, times=1, to_rail=None):
        """A message of data, and the answer to it."""
        to_rail = rail if to_rail is None else to_rail
        self.sent += times
        self.payload += times * size
        self.messages[source][rail] += times
        self.bytes[source][rail] += times * (HEAD + size)
        self.messages[to][to_rail] += times
        self.bytes[to][to_rail] += times * ANSWER
        self.received[to] += times * (HEAD + size)
        self.received[source] += times * ANSWER

    def chain(self, rail, size, times=1):
        self.added += (self.nodes - 1) * size * times
        for node in range(self.nodes - 1):
            self.send(node, node + 1, rail, size, times)

    def star(self, root, rail, size):
        self.added += (self.nodes - 1) * size
        for node in range(self.nodes):
            if node != root:
                self.send(node, root, rail, size)

    def fan(self, origin, rail, size):
        for node in range(self.nodes):
            if node != origin:
                self.send(origin, node, rail, size)

    def ring(self, origin, rail, size):
        for step in range(self.nodes - 1):
            self.send((origin + step) % self.nodes, (origin + step + 1) % self.nodes, rail, size)

    def rings(self, rail, size):
        """One from each node."""
        for node in range(self.nodes):
            self.send(node, (node + 1) % self.nodes, rail, size, self.nodes - 1)

    def back(self, rail, size):
        for node in range(self.nodes - 1, 0, -1):
            self.send(node, node - 1, rail, size)

    def branches(self, origin, rail, size):
        """A tree: node d after the origin has it from d without its lowest bit."""
        for d in range(1, self.nodes):
            self.send((origin + (d & (d - 1))) % self.nodes, (origin + d) % self.nodes, rail, size)

    def gather(self, root, rail, size):
        """The same tree, and each node's message has all that is under it."""
        self.added += (self.nodes - 1) * size
        for d in range(1, self.nodes):
            shares = min(d & -d, self.nodes - d)
            self.send((root + d) % self.nodes, (root + (d & (d - 1))) % self.nodes, rail, shares * size)

    def gather_all(self, rail, size):
        self.added += self.nodes * (self.nodes - 1) * size
        known = 1
        while known < self.nodes:
            for node in range(self.nodes):
                self.send(node, (node - known) % self.nodes, rail, min(known, self.nodes - known) * size)
            known *= 2

    def path(self, steps, chunk):
        self.steps, self.chunk = steps, chunk

    def seconds(self, alpha_us, gbits):
        """The fuller way of the fullest node, and what comes before the pipeline is full."""
        per_byte = 8e-9 / gbits if gbits else 0
        sent = [sum(rails) for rails in self.bytes]
        fullest = max(max(sent), max(self.received))
        filling = max(self.steps - 1, 0) * (self.chunk + HEAD) if self.fills else 0
        return (self.rounds + self.steps) * alpha_us * 1e-6 + (fullest + filling) * per_byte

    def totals(self):
        messages = [m for node in self.messages for m in node]
        sizes = [b for node in self.bytes for b in node]
        return sum(messages), sum(sizes), max(messages), max(sizes)


def count_vector(count, kind, total):
    nodes, rails = count.nodes, count.rails
    direct = nodes <= DIRECT
    chunk = chunk_bytes(divide_up(total, rails), nodes if direct and kind == "all_reduce" else 0)
    rows = divide_up(total, rails * chunk)
    everywhere = kind == "all_reduce" and direct and rows == 1 and chunk * (nodes - 1) <= SENT_EVERYWHERE
    fanned = kind == "broadcast" and direct and rows <= 1
    starred = kind == "reduce" and direct and (nodes == 2 or rows == 1)
    binary = math.ceil(math.log2(nodes))
    whole = (MOST - ROUNDS * (HEAD + SHARE_UNIT)) // nodes // SHARE_UNIT * SHARE_UNIT
    gathers = not direct and kind != "broadcast" and whole > 0 and divide_up(total, rails) <= SHARE
    if gathers:
        chunk = min(whole, chunk)
        rows = divide_up(total, rails * chunk)
    branches = not direct and (rows + 1) * binary <= nodes - 1 + rows
    back = binary if branches else nodes - 1
    steps = {"all_reduce": 1 if everywhere else 2 if direct else nodes - 1 + back,
             "reduce": 1 if starred else nodes, "broadcast": 1 if fanned else back}[kind]
    if gathers:  # a number of rows are under way at a time
        steps = binary * divide_up(rows, SLOTS)
    count.path(steps, min(chunk, divide_up(total, rails)))
    count.fills = not gathers
    count.rows = rows
    for row in range(rows):
        for rail in range(rails):
            size = min(max(total - (row * rails + rail) * chunk, 0), chunk)
            if size == 0:
                continue
            if gathers and kind == "all_reduce":
                count.gather_all(rail, size)
            elif gathers:
                count.gather(0, rail, size)
            elif everywhere:
                count.added += nodes * (nodes - 1) * size
                for node in range(nodes):
                    count.fan(node, rail, size)
            elif kind == "all_reduce" and direct:
                count.star(row % nodes, rail, size)
                count.fan(row % nodes, rail, size)
            elif kind == "all_reduce":
                count.chain(rail, size)
                if branches:
                    count.branches(nodes - 1, rail, size)
                else:
                    count.back(rail, size)
            elif starred:
                count.star(0, rail, size)
            elif kind == "reduce":
                count.chain(rail, size)
                count.send(nodes - 1, 0, rail, size)
            elif fanned:
                count.fan(0, rail, size)
            elif branches:
                count.branches(0, rail, size)
            else:
                count.ring(0, rail, size)


def count_blocks(count, kind, block):
    nodes, rails = count.nodes, count.rails
    direct = nodes <= DIRECT
    chunk = min(chunk_bytes(block * nodes, 0), divide_up(block, UNIT) * UNIT)
    pieces = divide_up(block, chunk)
    count.rows = nodes * pieces
    one_step = direct and (kind == "reduce_scatter" or pieces == 1)
    count.path(1 if one_step else nodes if kind == "reduce_scatter" else nodes - 1, min(chunk, block))
    count.fills = kind == "reduce_scatter"  # in an all-gather every node begins
    for piece in range(pieces):
        size = min(block - piece * chunk, chunk)
        for rail in range(rails):
            if not one_step and kind == "reduce_scatter":
                count.chain(rail, size, nodes)
            elif not one_step:
                count.rings(rail, size)
            for node in range(nodes):
                if one_step and kind == "reduce_scatter":
                    count.star(node, rail, size)
                elif one_step:
                    count.fan(node, rail, size)
                elif kind == "reduce_scatter" and node != nodes - 1:
                    count.send(nodes - 1, node, rail, size)


def count_pairs(count, block):
    chunk = chunk_bytes(block, 0)
    sizes = [min(block - at, chunk) for at in range(0, block, chunk)]
    far = (count.nodes - 1) * count.rails
    count.path(divide_up(far * len(sizes), SLOTS), 0)
    count.sent, count.payload = far * len(sizes) * count.nodes * count.rails, far * block * count.nodes * count.rails
    count.rows = far * len(sizes)
    for node in range(count.nodes):
        for rail in range(count.rails):
            count.messages[node][rail] += 2 * far * len(sizes)
            count.bytes[node][rail] += far * sum(HEAD + size + ANSWER for size in sizes)
            count.received[node] += far * sum(HEAD + size + ANSWER for size in sizes)


def predict(kind, total, nodes, rails):
    count = Count(nodes, rails)
    if nodes == 1:
        return None
    if kind in ("all_reduce", "broadcast", "reduce"):
        count_vector(count, kind, total)
    elif kind == "all_to_all":
        count_pairs(count, total // (nodes * rails))
    else:
        count_blocks(count, kind, total // (nodes * rails))
    return count


def check(files):
    compared = wrong = 0
    for name in files:
        with open(name, encoding="utf-8") as lines:
            for line in lines:
                words = line.split()
                if not words or words[0] != "count":
                    continue
                kind, (total, nodes, rails) = words[1], map(int, words[2:5])
                told = predict(kind, total, nodes, rails).totals()
                counted = tuple(map(int, words[5:9]))
                compared += 1
                if told != counted:
                    wrong += 1
                    print(f"FAIL: {kind} of {total} B on {nodes} x {rails}: counted {counted}, told {told}")
    print(f"coll_cost: {compared} calls compared, {wrong} not as told")
    return 1 if wrong or not compared else 0


def features(count):
    """What the CPU time of a rank depends on, on average: a call, rounds of comparing, rows, those of nodes of several
    ranks, messages, their bytes, sums."""
    ranks = count.nodes * count.rails
    return [1.0, float(count.rounds), float(count.rows), float(count.rows) if count.rails > 1 else 0.0,
            count.sent / ranks, count.payload / ranks, count.added / ranks]


def solve(matrix, right):
    """Gauss, with the largest pivot; the matrix is small and symmetric."""
    size = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(size):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def fit(points):
    """Least squares of the relative errors."""
    size = len(points[0][0])
    matrix = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    for values, taken in points:
        for i in range(size):
            right[i] += values[i] / taken
            for j in range(size):
                matrix[i][j] += values[i] * values[j] / taken ** 2
    return solve(matrix, right)


def cpu(files):
    measured = []
    for name in files:
        with open(name, encoding="utf-8") as lines:
            for words in map(str.split, lines):
                if words and words[0] == "cpu":
                    total, nodes, rails, taken = map(int, words[2:6])
                    if nodes > 1:
                        measured.append((words[1], total, nodes, rails, taken))
    few = [m for m in measured if m[2] * m[3] <= FITTED_RANKS]
    if not few:
        print("no counts of few ranks")
        return
    constants = fit([(features(predict(*m[:4])), m[4]) for m in few])
    print("ns: a call {:.0f}, a round of comparing {:.0f}, a row {:.0f} and {:.0f}, a message {:.0f}, a byte sent "
          "{:.3f}, a byte added {:.3f}".format(*constants))
    errors = {}
    for kind, total, nodes, rails, taken in measured:
        told = sum(c * v for c, v in zip(constants, features(predict(kind, total, nodes, rails))))
        errors.setdefault((nodes * rails, nodes), []).append(told / taken - 1)
        print(f"{kind} of {total} B on {nodes} x {rails}: {taken / 1e3:.1f} us, told {told / 1e3:.1f} "
              f"({told / taken * 100 - 100:+.0f} %)")
    for (ranks, nodes), off in sorted(errors.items()):
        sizes = sorted(abs(e) for e in off)
        print(f"{ranks} ranks on {nodes} nodes: {len(off)} calls, off by {sizes[len(off) // 2] * 100:.0f} % in the "
              f"median, {sizes[-1] * 100:.0f} % at most")


def table(total, rails, nodes_list, alpha_us=None, gbits=0.0):
    for kind in KINDS:
        for nodes in nodes_list:
            if kind not in ("all_reduce", "broadcast", "reduce") and total < nodes * rails:
                continue
            count = predict(kind, total, nodes, rails)
            messages, sizes, most, most_bytes = count.totals()
            ranks = nodes * rails
            time = "" if alpha_us is None else f"; {count.seconds(alpha_us, gbits) * 1e3:.3f} ms"
            print(f"{kind} {nodes} nodes: {messages / ranks:.1f} messages a rank, {sizes / ranks:.0f} B; "
                  f"most {most} and {most_bytes}{time}")


def main(words):
    if len(words) > 1 and words[0] == "check":
        return check(words[1:])
    if len(words) > 1 and words[0] == "cpu":
        cpu(words[1:])
        return 0
    if len(words) > 3 and words[0] == "table":
        table(int(words[1], 0), int(words[2]), [int(word) for word in words[3:]])
        return 0
    if len(words) > 5 and words[0] == "time":
        table(int(words[3], 0), int(words[4]), [int(word) for word in words[5:]], float(words[1]), float(words[2]))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

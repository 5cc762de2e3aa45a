"""The compiled loops of mcframe at the size of p3, beside what this machine can do at most.

    python examples/benchmarks/kernels.py [--runs 5] [--widths 4 10 20] [--quick]
    python examples/benchmarks/kernels.py --page

Prints Markdown. ``--page`` writes the part of ``docs/scaling.md`` that asks what an accelerator
would give: loops with the columns that a fit of p3 has, and their bounds there.

A loop cannot be faster than its least memory traffic at the bandwidth of a triad a = b + 3 c (24
bytes an element counted), nor than its arithmetic at the speed of a matrix product; the larger of
the two times is the bound. The least traffic reads and writes every array once: all gathers hit
the cache, which holds for the small factor of p3 and not for the large one.
Threads are those of NUMBA_NUM_THREADS and of BLAS.
"""

import argparse
import statistics
import time

import ledger
import numba as nb
import numpy as np
from pages import SCALING, markdown, write_part
from problems import P3, TINY_P3, distinct
from report import processor
from scipy.linalg import cholesky

from mcframe.numerics import kernels
from mcframe.numerics.sampled import Pattern

DERIVED = """\
With N entries, L lines (rows, or columns) and k columns of the factors:

- `entries`: reads 4 bytes of `across` and 4 of `places` and writes 8 of `out` for each entry,
  16 N, and reads both factors once; k products and k sums an entry, 2 N k flops.
- `sampled`: the same with two indices of 8 bytes an entry, 24 N; 2 N k flops.
- `product`: reads 8 bytes of `values` and 4 of `across`, 12 N, one factor, and writes L k
  numbers; 2 N k flops.
- `transposed_product`: the same, the factor of the lines read and the other one written.
- `gram_product`: the same once, for entries that stay in the cache between both products; 4 N k
  flops. Lanczos steps take it with k = 4.
- `ridge_solutions`: reads 4 bytes of `across`, 4 of `places` and 8 of `pull`, 16 N, and 8 of
  `curvature` where there is one for each entry, 24 N; one factor, and writes L k numbers. An entry
  costs k (k + 1) flops for half of the normal matrix, 2 k for its image and k for the curvature,
  N k (k + 4) in all; a line k³ / 3 for the factorisation and 2 k² for the two substitutions.
"""
# Half of the bytes and of the floating-point operations a second of an NVIDIA H100 in 64 bits.
ACCELERATOR = 0.5 * 3e12, 0.5 * 30e12
# Columns of a block of Lanczos steps, and of the factors of p3 at its answer.
BLOCK, RANK = 4, 10
# The loops of a fit to 1e-4: how often an iteration, or a product with a block, takes them.
LANCZOS = "gram_product, by rows"
OF_AN_ITERATION = {
    "entries": 2,
    "ridge_solutions, one curvature, by rows": 1,
    "ridge_solutions, one curvature, by columns": 1,
}
CHOLESKY = "Cholesky factorisation, in place"


@nb.njit(parallel=True)
def triad(a, b, c):
    """a = b + 3 c."""
    for i in nb.prange(a.size):
        a[i] = b[i] + 3.0 * c[i]


def seconds(function, runs):
    """The median time of a call, after one that is not counted."""
    function()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def limits(runs, quick):
    """Bytes a second of a triad, and floating-point operations a second of a matrix product."""
    size, order = (2_000_000, 500) if quick else (40_000_000, 3000)
    a, b, c = np.zeros(size), np.ones(size), np.ones(size)
    bandwidth = 24.0 * size / seconds(lambda: triad(a, b, c), runs)
    square, out = np.ones((order, order)), np.empty((order, order))
    speed = 2.0 * order**3 / seconds(lambda: np.matmul(square, square, out=out), runs)
    return bandwidth, speed


def cases(pattern, rows, columns, k, rng):
    """Each loop with its name, its call, its least bytes and its flops."""
    n = rows.size
    factors = [rng.standard_normal((size, k)) for size in pattern.shape]
    numbers, out = rng.standard_normal(n), np.empty(n)
    both = 8.0 * k * sum(pattern.shape)
    left, right = factors
    yield "entries", lambda: pattern.entries(left, right, out), 16.0 * n + both, 2.0 * n * k
    yield (
        "sampled",
        lambda: kernels.low_rank_entries(rows, columns, left, right),
        (rows.itemsize + columns.itemsize + 8.0) * n + both,
        2.0 * n * k,
    )
    for side, other in ((0, 1), (1, 0)):
        by = "rows" if side == 0 else "columns"
        found = by_lines(pattern.lines(side == 0), numbers, factors[other], pattern.shape[side])
        for name, call, traffic, flops in found:
            yield f"{name}, by {by}", call, traffic, flops


def by_lines(lines, numbers, factor, n_lines):
    """The loops that run over rows or over columns."""
    n, k = numbers.size, factor.shape[1]
    solved, one, curvatures = np.empty((n_lines, k)), np.ones(1), np.ones(n)
    thin = 8.0 * (factor.size + solved.size)
    ridge = n * k * (k + 4.0) + n_lines * (k**3 / 3.0 + 2.0 * k**2)
    order = lines.starts, lines.across
    yield (
        "product",
        lambda: kernels.product(*order, numbers, factor),
        12.0 * n + thin,
        2.0 * n * k,
    )
    yield (
        "transposed_product",
        lambda: kernels.transposed_product(*order, numbers, solved, factor.shape[0]),
        12.0 * n + thin,
        2.0 * n * k,
    )
    yield (
        "gram_product",
        lambda: kernels.gram_product(*order, numbers, factor),
        12.0 * n + 16.0 * factor.size,
        4.0 * n * k,
    )
    kinds = (("one curvature", one, 16.0), ("a curvature an entry", curvatures, 24.0))
    for name, curvature, each in kinds:
        yield (
            f"ridge_solutions, {name}",
            lambda curvature=curvature: lines.ridge_solutions(curvature, numbers, factor, 1.0),
            each * n + thin,
            ridge,
        )


def bound(traffic, flops, bandwidth, speed):
    """The least time of a loop, and what it is bound by."""
    times = {"memory": traffic / bandwidth, "arithmetic": flops / speed}
    binding = max(times, key=times.get)
    return times[binding], binding


def factorisation(order):
    """A bound of a norm: the Cholesky factorisation of a matrix of all columns."""
    matrix = np.empty((order, order), order="F")

    def run():
        matrix[:] = 0.0
        np.fill_diagonal(matrix, 2.0)
        cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)

    return CHOLESKY, run, 8.0 * order**2, order**3 / 3.0


def accelerator_lines(pattern, rows, columns, runs, rng):
    """The table of the loops of p3, here and on paper, and the sum over a fit of the ledger."""
    loops = [(RANK, case) for case in cases(pattern, rows, columns, RANK, rng)]
    loops = [(k, case) for k, case in loops if case[0] in OF_AN_ITERATION]
    of_block = cases(pattern, rows, columns, BLOCK, rng)
    loops += [(BLOCK, case) for case in of_block if case[0] == LANCZOS]
    loops.append((pattern.shape[1], factorisation(pattern.shape[1])))
    here, there, table = {}, {}, []
    for k, (name, call, traffic, flops) in loops:
        here[name] = seconds(call, runs)
        there[name], binding = bound(traffic, flops, *ACCELERATOR)
        counted = (f"{number:,.0f}" for number in (k, traffic / 1e6, flops / 1e6))
        times = (f"{1e3 * here[name]:.3g}", f"{1e3 * there[name]:.2g}")
        table.append([name, *counted, *times, binding])
    header = ["loop", "columns", "MB", "MFLOP", "two cores, ms", "estimate, ms", "bound by"]
    yield from markdown(header, table)
    commit, fit = ledger.latest(ledger.read(ledger.FILE), "p3", lambda n: n.get("products"))
    # A product with a Gram matrix is one with the gradient and one with its transpose.
    counts = {name: times * fit["iterations"] for name, times in OF_AN_ITERATION.items()}
    counts |= {LANCZOS: fit["products"] / (2 * BLOCK), CHOLESKY: 1}
    sums = [sum(counts[name] * times[name] for name in counts) for times in (here, there)]
    yield ""
    yield (
        f"The last fit of `p3` in the ledger (`{commit}`) took {fit['seconds']:.2g} s on two"
        f" cores, in {fit['iterations']} iterations and {fit['products']:,} products with the"
        f" gradient or its transpose. By the table these loops take {sums[0] - here[CHOLESKY]:.2g}"
        " s, without the Cholesky factorisation, which is no part of that fit; with it they would"
        f" take {sums[1]:.2g} s on the accelerator."
    )


def main():
    """The limits, the counts, and a row for each loop and width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--widths", type=int, nargs="+", default=[4, 10, 20])
    parser.add_argument("--quick", action="store_true", help="a tiny table")
    parser.add_argument("--page", action="store_true", help="write a part of docs/scaling.md")
    options = parser.parse_args()
    size = TINY_P3 if options.quick else P3
    shape, rng = (size["n_rows"], size["n_columns"]), np.random.default_rng(0)
    cells = distinct(rng, shape[0] * shape[1], size["n_observed"])
    rows, columns = cells // shape[1], cells % shape[1]
    pattern = Pattern.of(shape, rows, columns)
    if options.page:
        lines = list(accelerator_lines(pattern, rows, columns, options.runs, rng))
        print("\n".join(lines))
        write_part(SCALING, "accelerator", lines)
        return
    bandwidth, speed = limits(options.runs, options.quick)
    print(
        f"{processor()}, {nb.get_num_threads()} threads: {bandwidth / 1e9:.3g} GB/s by a triad,"
        f" {speed / 1e9:.3g} GFLOP/s by a matrix product."
        f" {shape[0]:,} × {shape[1]:,}, N = {rows.size:,}; medians of {options.runs}.\n"
    )
    print(DERIVED)
    print("| loop | k | ms | MB | MFLOP | bound by | bound, ms | time / bound |")
    print("|---|---|---|---|---|---|---|---|")
    for k in options.widths:
        for name, call, traffic, flops in cases(pattern, rows, columns, k, rng):
            spent = seconds(call, options.runs)
            least, binding = bound(traffic, flops, bandwidth, speed)
            print(
                f"| {name} | {k} | {1e3 * spent:.3g} | {traffic / 1e6:.4g} | {flops / 1e6:.4g}"
                f" | {binding} | {1e3 * least:.3g} | {spent / least:.2g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""The compiled loops of mcframe at the size of p3, beside what this machine can do at most.

    python examples/benchmarks/kernels.py [--runs 5] [--widths 4 10 20] [--quick]

Prints Markdown. A loop cannot be faster than its least memory traffic at the bandwidth of a
triad a = b + 3 c (24 bytes an element counted), nor than its arithmetic at the speed of a matrix
product; the larger of the two times is the bound. The least traffic reads and writes every array
once: all gathers hit the cache, which holds for the small factor of p3 and not for the large one.
Threads are those of NUMBA_NUM_THREADS and of BLAS.
"""

import argparse
import statistics
import time

import numba as nb
import numpy as np
from problems import P3, TINY_P3, distinct
from report import processor

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


def main():
    """The limits, the counts, and a row for each loop and width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--widths", type=int, nargs="+", default=[4, 10, 20])
    parser.add_argument("--quick", action="store_true", help="a tiny table")
    options = parser.parse_args()
    size = TINY_P3 if options.quick else P3
    shape, rng = (size["n_rows"], size["n_columns"]), np.random.default_rng(0)
    cells = distinct(rng, shape[0] * shape[1], size["n_observed"])
    rows, columns = cells // shape[1], cells % shape[1]
    pattern = Pattern.of(shape, rows, columns)
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
            bounds = {"memory": traffic / bandwidth, "arithmetic": flops / speed}
            binding = max(bounds, key=bounds.get)
            print(
                f"| {name} | {k} | {1e3 * spent:.3g} | {traffic / 1e6:.4g} | {flops / 1e6:.4g}"
                f" | {binding} | {1e3 * bounds[binding]:.3g} | {spent / bounds[binding]:.2g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

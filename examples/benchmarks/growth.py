"""How time and memory grow: seconds a step, bytes an entry, iterations by tolerance.

In the tables of steps each row changes one number of a Gaussian table and leaves the others: rows,
columns, rank, observed entries, over two decades where one machine allows. A step is timed alone,
as the median of several after the first ones; memory is the peak of a process of its own, less
what it held before it read the data from a file. The other tables have whole fits, in seconds of
the processor.

    python examples/benchmarks/growth.py [--quick] [--parts proximal ...] [--page]

``--page`` writes each table into its part of ``docs/scaling.md``. Ratings are read from
``movielens100k.npz`` in the folder that the environment variable MCFRAME_DATA names.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from unittest import mock

import large_tables
import ledger
import numpy as np
import pandas as pd
import posterior
import problems
import scipy.sparse as sp
import vocabulary
from compare import busy_processes
from memory import peak_megabytes
from pages import SCALING, markdown, write_part

import mcframe as mc
from mcframe.backends import Point
from mcframe.compile import compile_problem
from mcframe.model import binding
from mcframe.numerics.operators import LowRank
from mcframe.papers import projected_factors

DENSE = {"n_rows": 1000, "n_columns": 300, "rank": 10}
DENSE_GROWTH = {
    "n_rows": (300, 1000, 3000, 10_000, 30_000),
    "n_columns": (30, 100, 300, 1000, 3000),
    "rank": (3, 10, 30, 100),
}
SPARSE = {"n_rows": 20_000, "n_columns": 5000, "rank": 10, "n_observed": 1_000_000}
SPARSE_GROWTH = {
    "n_rows": (5000, 20_000, 100_000, 500_000),
    "n_columns": (500, 5000, 50_000),
    "rank": (2, 5, 10, 20, 50),
    "n_observed": (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000),
}
STEPS, SKIPPED = 7, 2
PARTS = (
    "proximal",
    "alternating",
    "memory",
    "iterations",
    "count-share",
    "wide",
    "max-norm",
    "unlabeled",
    "posteriors",
    "busy",
)
COUNT_SHARES = {
    ("20,000 x 800", 0.98): (12, 10, 9, 8, 7, 6),
    ("MovieLens 100k", 0.5): (16, 13, 11, 9),
    ("MovieLens 100k", 0.98): (11,),
}
WIDE = (300, 1000, 1500, 5000)
# Tolerances of the certified fits, and columns of the factors of the published method.
MAX_NORM = {"300 x 300": 1e-6, "MovieLens 100k": 1e-3}
PUBLISHED_WIDTHS = (5, 20)
# Rows, columns, labels, weight, whether unlabeled cells are stored, and the tolerance.
UNLABELED = (
    (2000, 600, 8000, 8, True, 1e-4),
    (2000, 600, 8000, 8, False, 1e-4),
    (20_000, 3000, 60_000, 9, False, 2e-2),
)
LIKELIHOODS = {"numbers": mc.Gaussian(variance=None), "labels": mc.Bernoulli()}
POSTERIOR = {"factors": 10, "max_iter": 4, "tol": 0.0}
BUSY, BUSY_RUNS, BUSY_LIMIT = (0, 1, 2), 3, 600.0  # processes, runs, seconds of a side
UNITS = {"n_rows": "rows", "n_columns": "columns", "rank": "rank", "n_observed": "entries"}


def dense_table(n_rows, n_columns, rank, seed=0):
    """30 % of a noisy matrix of low rank, NaN elsewhere, and its factors."""
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((n_rows, rank)), rng.standard_normal((n_columns, rank))
    table = left @ right.T + rng.standard_normal((n_rows, n_columns))
    table[rng.random(table.shape) > 0.3] = np.nan
    return table, left, right


def sparse_table(n_rows, n_columns, rank, n_observed, seed=0):
    """So many entries of a noisy matrix of low rank, and its factors."""
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((n_rows, rank)), rng.standard_normal((n_columns, rank))
    places = np.unique(rng.integers(0, n_rows * n_columns, n_observed))
    rows, columns = places // n_columns, places % n_columns
    values = np.einsum("ij,ij->i", left[rows], right[columns])
    values += 0.5 * rng.standard_normal(values.size)
    return sp.csr_array((values, (rows, columns)), shape=(n_rows, n_columns)), left, right


def seconds_a_step(solver, table, left, right):
    """The median over some steps from the matrix without noise, and the rank there."""
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(weight_for(table))])
    program = compile_problem(mc.Problem.bind(model, {"x": table}))
    state = solver.init(program, Point(LowRank(left, right)), np.random.default_rng(0))
    times = []
    for _ in range(SKIPPED + STEPS):
        began = time.perf_counter()
        solver.step(program, state)
        times.append(time.perf_counter() - began)
    return statistics.median(times[SKIPPED:]), state.rank


def weight_for(table):
    """Twice what the noise alone would reach, so that the rank stays that of the signal."""
    share = table.nnz / np.prod(table.shape) if sp.issparse(table) else 0.3
    return 2.0 * np.sqrt(share) * (np.sqrt(table.shape[0]) + np.sqrt(table.shape[1]))


def growth(name, solver, make, base, changes):
    """A table of one solver: each number changed alone."""
    sizes = [f"rank {v}" if k == "rank" else f"{v:,} {UNITS[k]}" for k, v in base.items()]
    yield f"### `{name}`, from {', '.join(sizes)}"
    yield ""
    yield from markdown(["changed", "to", "seconds a step", "rank"], [])
    for changed, values in changes.items():
        for value in values:
            seconds, rank = seconds_a_step(solver, *make(**{**base, changed: value}))
            yield f"| {UNITS[changed]} | {value:,} | {seconds:.2g} | {rank} |"


def apart(function, *arguments):
    """What a function of this file returns in a process of its own, where clocks are CPU time."""
    command = [sys.executable, __file__, "--apart", function.__name__, json.dumps(arguments)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def memory(counts):
    """Peak bytes an entry of a sparse fit, each in a process of its own."""
    yield from markdown(["entries", "GB", "bytes an entry"], [])
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            # Making a table takes more than fitting it, so that another process does.
            path = str(pathlib.Path(folder) / "table.npz")
            table = sparse_table(**{**SPARSE, "n_observed": count})[0]
            sp.save_npz(path, table, compressed=False)
            del table
            peak = apart(peak_of, path)
        yield f"| {count:,} | {peak / 1e9:.2f} | {peak / count:.0f} |"


def peak_of(path):
    """Bytes that a table and a few sweeps add at most to those of the imports."""
    fit_sparse(sparse_table(**{**SPARSE, "n_observed": 1000})[0], 2)
    return cost_of(lambda: fit_sparse(sp.load_npz(path), 4))[-1]


def fit_sparse(table, steps):
    """A few steps, whatever their gap."""
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(weight_for(table))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mc.fit(model, {"x": table}, backend="alternating", max_iter=steps)


def iterations_by_tolerance():
    """When one fit's certified gap first fell below each tolerance."""
    table = dense_table(1000, 600, 10)[0]
    largest = np.linalg.norm(np.nan_to_num(table), 2)
    tolerances = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
    header = ["weight / sigma_1", "rank", *(f"{t:.0e}" for t in tolerances)]
    yield from markdown(header, [])
    for share in (0.3, 0.1, 0.03):
        model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(share * largest)])
        fit = mc.fit(model, {"x": table}, tol=tolerances[-1])
        first = [next(r.iteration for r in fit.history if r.gap <= t) for t in tolerances]
        yield f"| {share} | {fit.rank} | " + " | ".join(map(str, first)) + " |"


def count_shares(cases):
    """Fits by a plain nuclear norm beside those by one with a ``count_share``."""
    side = ["rank", "seconds", "error"]
    header = ["table", "weight", *(f"plain: {side[0]}", *side[1:])]
    yield from markdown([*header, f"`count_share`: {side[0]}", *side[1:]], [])
    for (name, share), weights in cases.items():
        table, where, truth = UNEVEN[name]()
        fit_uneven(problems.instance("p7", quick=True).data(), 8, share)  # compiles the loops
        for weight in weights:
            cells = [f"{name}, share {share}", str(weight)]
            for count_share in (0.0, share):
                began = time.process_time()
                fit = fit_uneven(table, weight, count_share)
                seconds = time.process_time() - began
                error = np.sqrt(np.mean(np.square(fit.predict("x", *where) - truth)))
                cells += [str(fit.rank), two_digits(seconds), f"{error:.4f}"]
            yield f"| {' | '.join(cells)} |"


def fit_uneven(table, weight, count_share):
    """A fit certified to 1e-3."""
    norm = mc.NuclearNorm(weight, count_share=count_share)
    return mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], [norm]), {"x": table}, tol=1e-3)


def simulated():
    """``p7`` of the standard problems, and cells without an entry with what is true there."""
    made = problems.instance("p7")
    return made.data(), (made.held_rows, made.held_columns), made.truth


def ratings():
    """MovieLens 100k less means of users and then of films, and the tenth that is left out."""
    users, films, stars, test, train = posterior.split_ratings()
    stars = stars - np.mean(stars[train])
    for owners in (users, films):
        sums, counts = (
            np.bincount(owners[train], w, owners.max() + 1) for w in (stars[train], None)
        )
        stars -= (sums / np.maximum(counts, 1))[owners]
    shape = users.max() + 1, films.max() + 1
    table = sp.csr_array((stars[train], (users[train], films[train])), shape=shape)
    return table, (users[test], films[test]), stars[test]


def max_norms(cases):
    """How far the certified and the published method are from the optimum after each look."""
    header = ["problem", "method", "step", "seconds", "distance to the optimum at most", "gap"]
    yield from markdown(header, [])
    for name, tol in cases.items():
        records, bound = apart(certified_records, name, tol)
        methods = {"`factored`": records}
        for width in PUBLISHED_WIDTHS:
            methods[f"published, k = {width}"] = apart(published_records, name, width)[-1:]
        for method, looks in methods.items():
            for step, _, seconds, objective, gap in looks:
                numbers = f"{two_digits(seconds)} | {excess(objective, bound)} | {gap:.1e}"
                yield f"| {name} | {method} | {step} | {numbers} |"


def certified_records(name, tol):
    """The records of a certified fit of a max norm, and its bound on the optimum."""
    model, labels = vocabulary.MAX_NORM[name]()
    fit = mc.fit(model, {"labels": labels}, tol=tol, max_seconds=600)
    return records_of(fit), fit.bound


def published_records(name, width):
    """Those of the published projected gradient, of at most 1,000 steps or 60 seconds."""
    model, labels = vocabulary.MAX_NORM[name]()
    data = {"labels": labels}
    step = 1e-3 / float(np.max(np.abs(mc.Problem.bind(model, data).scale("labels"))))
    return records_of(projected_factors(model, data, width, step, max_iter=1000, max_seconds=60))


def records_of(fit):
    """Step, rank, seconds, objective and gap at each look at the certificate but the first."""
    return [(r.iteration, r.rank, r.seconds, r.objective, r.gap) for r in fit.history[1:]]


def two_digits(number):
    """A positive number to two digits, 210 and not 2.1e+02."""
    return f"{float(f'{number:.2g}'):g}"


def excess(objective, lower):
    """How far an objective is above a lower number, relative to it."""
    return f"{(objective - lower) / abs(lower):.1e}"


def unlabeled(cases):
    """Fits of positive and unlabeled cells, stored or by blocks; of the last one all looks."""
    header = ["table", "labels", "weight", "cells", "step", "seconds", "rank", "gap"]
    yield from markdown([*header, "above the last objective", "GB"], [])
    for case in cases:
        n_rows, n_columns, n_labels, weight, stored, _ = case
        backend, records, peak = apart(records_of_labels, *case)
        where = f"{'stored' if stored else 'by blocks'}, `{backend}`"
        table = f"{n_rows:,} x {n_columns:,} | {n_labels:,} | {weight} | {where}"
        last = records[-1]
        for look in records if case == cases[-1] else [last]:
            step, rank, seconds, objective, gap = look
            numbers = f"{step} | {two_digits(seconds)} | {rank} | {gap:.1e}"
            memory_at_end = f"{peak / 1e9:.2f}" if look is last else ""
            yield f"| {table} | {numbers} | {excess(objective, last[3])} | {memory_at_end} |"


def records_of_labels(n_rows, n_columns, n_labels, weight, stored, tol):
    """The backend of a fit, its records, and the bytes that it adds."""
    if not stored:
        binding.MAX_WRITTEN_OUT_CELLS = 0
    table = sparse_table(n_rows, n_columns, 3, n_labels)[0]
    table.data = (table.data > 0) * 1.0
    risk = mc.RiskMixture(pu=1.0, missing_rate=0.5, likelihood=mc.Bernoulli())
    model = mc.Model([mc.Block("labels", risk)], [mc.NuclearNorm(weight)])
    mc.fit(model, {"labels": table[:200, :60]}, max_iter=2)  # compiles the loops
    fit, _, peak = cost_of(lambda: mc.fit(model, {"labels": table}, tol=tol))
    return fit.backend, records_of(fit), peak


def posteriors(n_entries):
    """Sweeps of posteriors of a table on disk."""
    header = ["entries", "partitions", "first sweep, with reading", "another sweep"]
    yield from markdown([*header, "intervals of 100 cells", "GB"], [])
    for kind in LIKELIHOODS:
        with tempfile.TemporaryDirectory() as folder:
            n_written = write_rows(f"{folder}/table", n_entries, kind)
            n_partitions, seconds, peak = apart(cost_of_posterior, folder, kind)
        numbers = " | ".join(two_digits(second) for second in seconds)
        yield f"| {n_written:,} {kind} | {n_partitions} | {numbers} | {peak / 1e9:.2f} |"


def write_rows(folder, n_entries, kind):
    """Factors, biases and noise in partitions, or signs of these; how many entries there are."""
    wide = large_tables.KINDS["wide"]
    pieces, shapes = wide.triples(n_entries), wide.shapes(n_entries)
    if kind == "labels":
        pieces = ((rows, columns, (values > 0) * 1.0) for rows, columns, values in pieces)
    table = mc.datasets.write_partitions({"x": pieces}, folder, shapes=shapes)
    return sum(map(table.n_entries, range(table.n_partitions)))


def cost_of_posterior(folder, kind):
    """Partitions; seconds of the first sweep, of another one and of intervals; bytes added."""
    tempfile.tempdir = folder
    table = mc.datasets.on_disk(f"{folder}/table")
    model = mc.Model([mc.Block("x", LIKELIHOODS[kind], bias=True)], [mc.NuclearNorm()])

    def sweeps_and_intervals(table):
        answer = mc.posterior(model, table, **POSTERIOR)
        began = time.perf_counter()
        answer.interval("x", 0.9, rows=np.arange(100), columns=np.arange(100))
        return [sweep.seconds for sweep in answer.history], time.perf_counter() - began

    write_rows(f"{folder}/small", 2e4, kind)
    sweeps_and_intervals(mc.datasets.on_disk(f"{folder}/small"))  # compiles the loops
    (ends, interval), _, peak = cost_of(sweeps_and_intervals, table)
    sweep = (ends[-1] - ends[0]) / (len(ends) - 1)
    return table.n_partitions, (ends[0], sweep, interval), peak


def busy(counts, name="p3", quick=False):
    """An item of the ledger and its peer beside so many processes that keep cores busy."""
    (peer,) = ledger.ITEMS[name].peers
    header = ["busy processes", "seconds, two threads", "one thread", peer]
    yield from markdown(header, [])
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / ("quick" if quick else "full")
        data.mkdir()
        ledger.ITEMS[name].prepare(data)
        for count in counts:
            runs = []
            for _ in range(1 if quick else BUSY_RUNS):
                with busy_processes(count):
                    numbers = ledger.measured(name, data, ledger.ROOT, BUSY_LIMIT)
                    with mock.patch.dict(os.environ, MCFRAME_NUM_THREADS="1"):
                        alone = ledger.side_apart(name, None, data, None, ledger.ROOT, BUSY_LIMIT)
                sides = numbers, alone, numbers["peers"][peer]
                runs.append([side["seconds"] for side in sides])
            medians = map(statistics.median, zip(*runs, strict=True))
            yield f"| {count} | {' | '.join(map(two_digits, medians))} |"


def wide(counts):
    """``mc.complete`` of few rows with many columns, each in a process of its own."""
    yield from markdown(["columns", "seconds", "GB"], [])
    for count in counts:
        seconds, peak = apart(cost_of_wide, count)
        yield f"| {count:,} | {two_digits(seconds)} | {peak / 1e9:.2f} |"


def cost_of_wide(n_columns):
    """CPU seconds, and bytes that are added to those of a small table."""
    mc.complete(wide_table(150, n_rows=20))
    return cost_of(mc.complete, wide_table(n_columns))[1:]


def cost_of(function, *arguments):
    """The answer of a call, its CPU seconds, and the bytes that it adds at most to the memory."""
    before, began = peak_megabytes(), time.process_time()
    answer = function(*arguments)
    return answer, time.process_time() - began, 2**20 * (peak_megabytes() - before)


def wide_table(n_columns, n_rows=50, rank=4, seed=0):
    """Factors and noise, a fifth missing."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n_rows, rank)) @ rng.standard_normal((rank, n_columns))
    table += 0.5 * rng.standard_normal(table.shape)
    table[rng.random(table.shape) < 0.2] = np.nan
    return pd.DataFrame(table).add_prefix("x")


UNEVEN = {"20,000 x 800": simulated, "MovieLens 100k": ratings}
APART = {
    function.__name__: function
    for function in (
        peak_of,
        cost_of_wide,
        cost_of_posterior,
        certified_records,
        published_records,
        records_of_labels,
    )
}


def main():
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the two smallest of each row")
    parser.add_argument("--apart", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--page", action="store_true", help="write parts of docs/scaling.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore", mc.UnobservedWarning)
    if options.apart:
        time.perf_counter = time.process_time
        print(json.dumps(APART[options.apart[0]](*json.loads(options.apart[1]))))
        return
    shown = slice(0, 2) if options.quick else slice(None)
    dense = {key: values[shown] for key, values in DENSE_GROWTH.items()}
    sparse = {key: values[shown] for key, values in SPARSE_GROWTH.items()}
    tables = {
        "proximal": growth("proximal", mc.Proximal(), dense_table, DENSE, dense),
        "alternating": growth("alternating", mc.Alternating(), sparse_table, SPARSE, sparse),
        "memory": memory(sparse["n_observed"][1:]),
        "iterations": iterations_by_tolerance(),
        "wide": wide(WIDE[shown]),
        "posteriors": posteriors(2e4 if options.quick else 1e7),
        "unlabeled": unlabeled(UNLABELED[shown]),
        "max-norm": max_norms(dict(list(MAX_NORM.items())[shown])),
        "busy": busy(BUSY[shown], quick=options.quick),
        "count-share": count_shares(dict(list(COUNT_SHARES.items())[shown])),
    }
    for part in options.parts:
        lines = []
        for line in tables[part]:
            print(line, flush=True)
            lines.append(line)
        if options.page:
            write_part(SCALING, part, lines)


if __name__ == "__main__":
    main()

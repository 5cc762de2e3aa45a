"""How rows in partitions grow: a sweep and a certificate by the number of partitions and workers.

Each partition has as many rows and entries as the others, so that the table grows with them. A
sweep is timed as the median of some after the first; rounds and bytes are counted by the
executor; memory is the peak of each process, imports included. Each line is measured in a
process of its own. Beside the numbers stands what ``Costs`` says of them, and from these a
projection to tables and clusters that nobody measured, with its assumptions.

    python examples/benchmarks/partitions.py [--quick] [--page docs/partitions-inside.md]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack, closing

import attrs
import numpy as np
import scipy.sparse as sp
from memory import peak_megabytes
from pages import markdown, write_part
from partition_costs import Costs

import mcframe as mc
from mcframe.backends import Point
from mcframe.backends.alternating import half_sweep
from mcframe.backends.certificate import certify
from mcframe.numerics.operators import LowRank
from mcframe.partitions.alternating_rows import EQUATION_BYTES
from mcframe.partitions.binding_rounds import bind_partitions
from mcframe.partitions.fit_partitions import executor_for
from mcframe.partitions.part import DRIVER_SUM_BYTES, REDUCTION_ARITY
from mcframe.runtime.machine import thread_limit

ROWS, COLUMNS, ENTRIES, WIDTH = 2_000, 500, 50_000, 10
PARTITIONS, WORKERS = (1, 2, 4, 8, 16, 32, 64), (0, 1, 2)  # 0 workers: this process
SWEEPS, TOLERANCE = 3, 1e-3
PART = "growth of partitions"
# Of the projection: bytes/s of the network of the driver and each worker, seconds a round beside
# its tasks and a level of its sums, and seconds a task where no cluster was measured.
BANDWIDTH, LATENCY, TASK = 1e9, 5e-3, 1e-3
LANCZOS = 50  # steps of a certificate
PROJECTED = ((10**9, 10), (10**9, 100), (10**10, 10), (10**10, 100), (10**10, 1000))


def block_of_rows(rng, right, size):
    """Rows of a noisy matrix of low rank, some of its cells observed, and their factor."""
    n_rows, n_columns, entries = size
    left = rng.standard_normal((n_rows, right.shape[1]))
    cells = rng.choice(n_rows * n_columns, entries, replace=False)
    rows, columns = np.divmod(cells, n_columns)
    values = np.einsum("ij,ij->i", left[rows], right[columns])
    values += 0.5 * rng.standard_normal(values.size)
    return sp.csr_array((values, (rows, columns)), shape=(n_rows, n_columns)), left


def table(folder, n_partitions, size):
    """So many blocks of rows in a folder, and the factors of all of them."""
    rng = np.random.default_rng(0)
    right, lefts = rng.standard_normal((size[1], WIDTH)), []

    def blocks():
        for _ in range(n_partitions):
            block, left = block_of_rows(rng, right, size)
            lefts.append(left)
            yield block

    data = mc.datasets.write_partitions({"x": blocks()}, folder, n_partitions=n_partitions)
    return data, Point(LowRank(np.vstack(lefts), right))


def measured(n_partitions, n_workers, size):
    """The line of a table: seconds, rounds and bytes of a sweep and a certificate, and memory."""
    with ExitStack() as stack:
        client = client_of(stack, n_workers)
        stack.enter_context(thread_limit(1))  # as workers have: what is projected is by cores
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        data, start = table(pathlib.Path(folder) / "x", n_partitions, size)
        share = size[2] / (size[0] * size[1])
        weight = 2.0 * np.sqrt(share) * (np.sqrt(data.n_items) + np.sqrt(size[1]))
        model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(weight)])
        return {
            "n_partitions": n_partitions,
            "n_workers": n_workers,
            **of_fit(stack, model, data, start, client),
            "driver_mb": peak_megabytes(),
            "worker_mb": max(client.run(peak_megabytes).values()) if client else 0.0,
        }


def client_of(stack, n_workers):
    """A client of so many local workers, or None."""
    if not n_workers:
        return None
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    )
    return stack.enter_context(Client(stack.enter_context(cluster)))


def of_fit(stack, model, data, start, client):
    """What sweeps and a certificate took."""
    solver = mc.Alternating()
    executor = stack.enter_context(closing(executor_for(model, data, client)))
    problem, program = bind_partitions(model, executor)
    bound = problem.partitions
    program = program.with_storage_for(solver.in_factors, solver.dense)
    state = solver.init(program, start, np.random.default_rng(0))
    seconds = []
    for _ in range(1 + SWEEPS):
        began, before = time.perf_counter(), bound.work
        for by_rows in (True, False):
            half_sweep(program, state, by_rows)
        seconds.append(time.perf_counter() - began)
        sweep = bound.work - before
    began, before = time.perf_counter(), bound.work
    certify(program, solver.candidate(program, state), TOLERANCE)
    certificate = bound.work - before
    return {
        "width": state.rank,
        "n_entries": sum(data.n_entries(p) for p in range(data.n_partitions)),
        "n_rows": data.n_items,
        "n_columns": data.shape("x")[1],
        "sweep": {"seconds": statistics.median(seconds[1:]), **attrs.asdict(sweep)},
        "certificate": {"seconds": time.perf_counter() - began, **attrs.asdict(certificate)},
    }


def measured_elsewhere(n_partitions, n_workers, size):
    """``measured`` in a process of its own."""
    given = map(str, (n_partitions, n_workers, *size))
    command = [sys.executable, __file__, "--one", *given]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def costs_of(line):
    """What the model of cost says of a line."""
    sizes = (line[key] for key in ("n_entries", "n_rows", "n_columns", "width", "n_partitions"))
    return Costs(*sizes)


def measured_lines(lines):
    """The table of measurements, in Markdown."""
    header = ["partitions", "workers", "entries", "s a sweep", "rounds", "sent, model MB"]
    header += ["received, model MB", "s a certificate", "its rounds", "sent, received MB"]
    header += ["driver MB", "a worker MB"]
    rows = []
    for line in lines:
        sweep, certificate, costs = line["sweep"], line["certificate"], costs_of(line)
        rows.append(
            [
                str(line["n_partitions"]),
                str(line["n_workers"] or "none"),
                f"{line['n_entries']:,}",
                f"{sweep['seconds']:.2g}",
                str(sweep["rounds"]),
                beside(line, sweep["sent"], costs.sweep_sent),
                beside(line, sweep["received"], costs.sweep_received),
                f"{certificate['seconds']:.2g}",
                str(certificate["rounds"]),
                beside(line, certificate["sent"], certificate["received"]),
                f"{line['driver_mb']:.0f}",
                f"{line['worker_mb']:.0f}" if line["n_workers"] else "–",
            ]
        )
    return markdown(header, rows)


def beside(line, first, second):
    """Two numbers of megabytes; in one process nothing travels."""
    return f"{first / 1e6:.3g}, {second / 1e6:.3g}" if line["n_workers"] else "–"


def speed_of(lines):
    """Operations a second of one core in sweeps of the largest table in one process."""
    alone = [line for line in lines if not line["n_workers"]]
    largest = max(alone, key=lambda line: line["n_entries"])
    return costs_of(largest).sweep_operations / largest["sweep"]["seconds"]


def seconds_a_task(lines):
    """What a task of a round takes beside its arithmetic, by the largest table on one worker."""
    by_sizes = {(line["n_partitions"], line["n_workers"]): line["sweep"] for line in lines}
    n_partitions = max((p for p, workers in by_sizes if workers == 1), default=0)
    if (n_partitions, 0) not in by_sizes:
        return TASK
    there, here = by_sizes[n_partitions, 1], by_sizes[n_partitions, 0]
    return (there["seconds"] - here["seconds"]) / (there["rounds"] * n_partitions)


def projected_lines(speed, task, shapes=PROJECTED):
    """The table of projections, in Markdown: seconds of a sweep and of a certificate."""
    header = ["entries", "workers", "partitions", "columns", "arithmetic s", "rounds s"]
    header += ["network s", "a sweep s", "a certificate s", "second copy by columns, network s"]
    rows = [
        projected(n_entries, n_workers, n_columns, speed, task)
        for n_entries, n_workers in shapes
        for n_columns in (10_000, 1_000_000)
    ]
    return markdown(header, rows)


def projected(n_entries, n_workers, n_columns, speed, task, width=20):
    """One line of the projection, 100 entries a row."""
    n_rows = n_entries // 100
    costs = Costs(n_entries, n_rows, n_columns, width, max(n_workers, n_entries // 10**8))
    n_partitions, equations = costs.n_partitions, costs.equations
    slabs = -(-equations // EQUATION_BYTES)
    arithmetic = costs.sweep_operations / speed / n_workers
    waiting = 5 * round_seconds(costs, task, 0) + slabs * round_seconds(costs, task, equations)
    network = costs.sweep_sent + costs.sweep_received + costs.passed_on(equations)
    network /= BANDWIDTH
    lanczos = costs.certificate_operations(LANCZOS) / speed / n_workers
    block = costs.certificate_sent(1)
    lanczos += LANCZOS * round_seconds(costs, task, block) + 14 * round_seconds(costs, task, 0)
    travels = costs.certificate_sent(LANCZOS) + costs.certificate_received(LANCZOS)
    lanczos += (travels + LANCZOS * costs.passed_on(block)) / BANDWIDTH
    # V from the driver, and all of U by each worker from others.
    copied = (costs.sweep_sent + 8 * width * n_rows) / BANDWIDTH
    return [
        f"{n_entries:.0e}",
        str(n_workers),
        str(n_partitions),
        f"{n_columns:,}",
        *map(in_words, (arithmetic, waiting, network, arithmetic + waiting + network)),
        in_words(lanczos),
        in_words(copied),
    ]


def round_seconds(costs, task, answer):
    """What a round takes beside its arithmetic, with answers of so many bytes to be added up."""
    if not costs.on_cluster(answer):
        return LATENCY + task * costs.n_partitions
    return LATENCY * (1 + costs.depth) + task * (costs.n_partitions + costs.n_additions)


def in_words(seconds):
    """Two digits of a number of seconds."""
    return f"{float(f'{seconds:.2g}'):,.{0 if seconds >= 9.5 else 1}f}"


def report(lines, size):
    """All that the page shows."""
    return [
        f"A partition has {size[0]:,} rows, {size[1]:,} columns and {size[2]:,} entries, from"
        f" a folder; {WIDTH} columns of the factors. A sweep is the median of {SWEEPS}, a"
        f" certificate at a tolerance of {TOLERANCE:g}. Workers are processes on one machine;"
        " each, and the one process without, has one thread.",
        "",
        *measured_lines(lines),
        "",
        *projection(speed_of(lines), seconds_a_task(lines)),
    ]


def projection(speed, task):
    """What the page says of tables and clusters that nobody measured."""
    return [
        f"**A projection, not a measurement**, by the model of cost: {speed / 1e6:.0f} million"
        " operations a second of a core, as in the largest table in one process above; workers of"
        f" one core each; {BANDWIDTH / 1e9:g} GB/s at the driver and at each worker; answers of"
        f" more than {DRIVER_SUM_BYTES / 1e6:g} MB together are added up on the cluster,"
        f" {REDUCTION_ARITY} in each task, and their sum comes to the driver;"
        f" each round takes {1e3 * LATENCY:g} ms, and so does each level of its tree of"
        f" sums; each task takes {1e3 * task:.2g} ms in addition to"
        " its arithmetic, and tasks start one after the other (measured on the largest table with"
        f" one worker above); 100 entries a row, 20 columns of the factors, {LANCZOS} Lanczos"
        " steps; one partition for each worker, or more, so that no partition has more than 1e8"
        " entries. The last column is about a second copy of the entries, partitioned by columns."
        " Only its network time is given: all of U goes to each worker, from the others.",
        "",
        *projected_lines(speed, task),
    ]


def main():
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two tiny tables in one process")
    parser.add_argument("--page", type=pathlib.Path, help="the page to write the tables into")
    parser.add_argument("--partitions", type=int, nargs="+", default=PARTITIONS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--one", type=int, nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore", mc.UnobservedWarning)
    if options.one:
        n_partitions, n_workers, *size = options.one
        print(json.dumps(measured(n_partitions, n_workers, tuple(size))))
        return
    size, counts, workers = (ROWS, COLUMNS, ENTRIES), options.partitions, options.workers
    if options.quick:
        size, counts, workers = (60, 20, 400), (1, 2), (0,)
    lines = []
    for n_workers in workers:
        for n_partitions in counts:
            lines.append(measured_elsewhere(n_partitions, n_workers, size))
            print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
    made = report(lines, size)
    print("\n".join(made))
    if options.page is not None:
        write_part(options.page, PART, made)


if __name__ == "__main__":
    main()

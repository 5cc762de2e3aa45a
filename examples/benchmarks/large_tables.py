"""A table larger than its memory limit allows: written, then fitted from the disk.

A noisy matrix of low rank is written by ``mc.datasets.write_partitions`` and fitted in a process
of its own under ``RLIMIT_DATA``, or on the workers of a ``LocalCluster``, each with a limit of
its own. ``RLIMIT_DATA`` counts what a process allocates, and not the pages of mapped files, which
the system takes back where they are wanted; so the peaks of both are told, looked at ten times a
second: ``RssAnon`` and ``VmHWM``.

    python examples/benchmarks/large_tables.py --entries 1e8 --memory 6GB
    python examples/benchmarks/large_tables.py --entries 1e8 --workers 2 --memory 5GB [--sweeps 2]
    python examples/benchmarks/large_tables.py --page docs/partitions.md [--sizes 1e7 1e8]
    python examples/benchmarks/large_tables.py --page docs/scaling.md --kind long --sizes 8e6 8e7

A table is ``wide``, with 2,000 columns, or ``long``, with 100: see ``KINDS``.
With ``--sweeps`` it is so many sweeps of the posterior, with as many factors as the rank of the
table, instead of a fit. ``--page`` measures fits, and ten sweeps of posteriors, of several sizes
in one process of 6 GB and on two workers of 5 GB, and writes a table of them into the page; of
1e7 and 1e8 entries it takes a quarter of an hour.
``--folder`` is where the table and what does not fit into memory go, some 75 bytes for each entry;
a table that is there is read, and not written again.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import time

import attrs
import numpy as np
from pages import markdown, write_part

import mcframe as mc
from mcframe import datasets

NOISE = 0.5  # its standard deviation
PIECE = 20_000  # rows that are drawn at a time
UNITS = {"KB": 1e3, "MB": 1e6, "GB": 1e9}
WATCHED = ("RssAnon", "RssFile", "VmHWM")
# What a posterior and two workers are measured with for the page.
SWEEPS, WORKERS = 10, 2


@attrs.frozen
class Kind:
    """Tables of a rank with so many columns and entries in a row, with biases of columns or not.

    A cell that is drawn twice counts once. ``part`` is the part of a page about them.
    """

    n_columns: int
    entries_in_row: int
    rank: int
    bias: bool
    part: str

    def n_rows(self, n_entries):
        """The number of rows of a table of about so many entries."""
        return max(round(n_entries / self.entries_in_row), 50)

    def shapes(self, n_entries):
        """That of the block."""
        return {"x": (self.n_rows(n_entries), self.n_columns)}

    def triples(self, n_entries, seed=0):
        """Rows, columns and values, some rows at a time."""
        rng, n_rows = np.random.default_rng(seed), self.n_rows(n_entries)
        right = rng.standard_normal((self.n_columns, self.rank))
        biases = self.bias * rng.standard_normal(self.n_columns)
        for first in range(0, n_rows, PIECE):
            left = rng.standard_normal((min(PIECE, n_rows - first), self.rank))
            drawn = rng.integers(0, self.n_columns, (len(left), self.entries_in_row))
            drawn.sort(axis=1)
            rows, at = np.nonzero(np.diff(drawn, axis=1, prepend=-1))
            columns = drawn[rows, at]
            values = np.einsum("ij,ij->i", left[rows], right[columns]) + biases[columns]
            yield rows + first, columns, values + NOISE * rng.standard_normal(values.size)

    def model(self, table):
        """A nuclear norm of twice what the noise alone reaches, so the rank is the signal's."""
        n_rows, n_columns = table.shape("x")
        share = self.entries_in_row / self.n_columns
        weight = 2.0 * NOISE * np.sqrt(share) * (np.sqrt(n_rows) + np.sqrt(n_columns))
        block = mc.Block("x", mc.Gaussian(), bias=self.bias)
        return mc.Model([block], [mc.NuclearNorm(weight)])

    def written(self, folder, n_entries):
        """The table in a folder, which is written where there is none."""
        if not folder.exists():
            pieces = {"x": self.triples(n_entries)}
            datasets.write_partitions(pieces, folder, shapes=self.shapes(n_entries))
        return datasets.on_disk(folder)


KINDS = {
    "wide": Kind(2000, 100, 10, True, "large tables"),
    "long": Kind(100, 8, 5, False, "long tables"),
}


def answer(table, options):
    """The fit of a table, or its posterior, and what there is to print of it."""
    kind = KINDS[options.kind]
    if options.sweeps:
        block = mc.Block("x", mc.Gaussian(variance=None), bias=kind.bias)
        budget = {"factors": kind.rank, "max_iter": options.sweeps, "tol": 0.0, "progress": True}
        made = mc.posterior(mc.Model([block], [mc.NuclearNorm()]), table, **budget)
        told = f"log evidence at least {made.evidence:.7g} after {len(made.history)} sweeps"
    else:
        made = mc.fit(kind.model(table), table, tol=options.tol, progress=True)
        made_by = f"{made.history[-1].iteration} iterations, rank {made.rank}"
        told = f"gap {made.gap:.1e} after {made_by}, {made.history[-1].work.rounds} rounds"
    return {"status": made.status, "told": told}


def fit(options):
    """Fit the table in a folder, in this process or on workers, and print numbers as JSON."""
    folder, began = options.fit, time.perf_counter()
    tempfile.tempdir = str(folder)  # a disk, as the table is on
    table = datasets.on_disk(folder / "table")
    if options.workers:
        import dask
        from distributed import Client, LocalCluster

        dask.config.set({"temporary-directory": str(folder)})
        kind = {"n_workers": options.workers, "memory_limit": options.memory}
        with LocalCluster(threads_per_worker=1, **kind) as cluster, Client(cluster):
            said = answer(table, options)
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (int(options.memory), int(options.memory)))
        said = answer(table, options)
    said["entries"] = sum(map(table.n_entries, range(table.n_partitions)))
    said |= {"partitions": table.n_partitions, "seconds": time.perf_counter() - began}
    print(json.dumps(said), flush=True)


def children(process):
    """A process and all that it has started, by their numbers."""
    found = [process]
    for number in found:
        for path in pathlib.Path(f"/proc/{number}/task").glob("*/children"):
            found.extend(map(int, path.read_text().split()))
    return found


def watch(process, peaks):
    """Take the memory of a process and of its children into the peaks of each."""
    for number in children(process):
        try:
            lines = pathlib.Path(f"/proc/{number}/status").read_text().splitlines()
        except OSError:  # it has ended
            continue
        sizes = dict(line.split(":", 1) for line in lines)
        own = peaks.setdefault(number, dict.fromkeys(WATCHED, 0.0))
        for what in WATCHED:
            if what in sizes:
                own[what] = max(own[what], int(sizes[what].split()[0]) * 1024 / 1e9)


def measured(options, folder):
    """Run the fit in a process of its own, and return what it says with the peaks of memory."""
    command = [sys.executable, __file__, "--fit", str(folder), "--tol", str(options.tol)]
    command += ["--memory", str(options.memory), "--workers", str(options.workers)]
    command += ["--sweeps", str(options.sweeps), "--kind", options.kind]
    peaks, said = {}, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        ended = threading.Event()

        def look():
            while not ended.wait(0.1):
                watch(run.pid, peaks)

        watcher = threading.Thread(target=look)
        watcher.start()
        for line in run.stdout:
            said.append(line)
            print(line, end="", flush=True)
        ended.set()
        watcher.join()
    if run.returncode:
        raise SystemExit(f"the fit ended with {run.returncode}")
    return json.loads(said[-1]), peaks


def report(options, folder):
    """Write the table, fit it, and print what came out."""
    began = time.perf_counter()
    table = KINDS[options.kind].written(folder / "table", options.entries)
    print(f"{table}, {time.perf_counter() - began:.0f} s", flush=True)
    said, peaks = measured(options, folder)
    print(f"\n{said['entries']:,} entries in {said['partitions']} partitions: {said['status']}")
    print(f"{said['told']}, {said['seconds']:.0f} s\n")
    print("| process | " + " | ".join(f"{what}, GB" for what in WATCHED) + " |")
    print("|---|" + "---|" * len(WATCHED))
    largest = sorted(peaks.values(), key=lambda own: -own["VmHWM"])[: options.workers + 1]
    for k, own in enumerate(largest):
        print(f"| {k} | " + " | ".join(f"{own[what]:.2f}" for what in WATCHED) + " |")


def line_of(options, folder, sweeps):
    """The line of the page for a reading of a table, and what was said of it."""
    one, answers, line = argparse.Namespace(**vars(options)), [], []
    for one.workers, one.memory in ((0, 6e9), (WORKERS, 5e9)):
        one.sweeps = sweeps
        said, peaks = measured(one, folder)
        answers.append(said["told"])
        # The process that fits has begun first, then the workers; helpers of Dask are small.
        driver, *others = (own["RssAnon"] for own in peaks.values())
        line.append(f"{said['seconds']:.0f}")
        if one.workers:
            line.append(", ".join(f"{of:.1f}" for of in sorted(others)[-WORKERS:]) + " GB")
        line.append(f"{driver:.1f} GB")
    assert answers[0] == answers[1], answers
    return [f"{said['entries']:.1e}", "posterior" if sweeps else "fit", *line], answers[0]


def page_part(options, folder):
    """The table of the page, of tables of several sizes, and what came out of them."""
    header = ["entries", "reading", "seconds, one process", "its memory"]
    header += ["seconds, two workers", "memory of each worker", "of the driver"]
    kind, lines, answers = KINDS[options.kind], [], []
    for n_entries in options.sizes:
        place = folder / f"{options.kind}-{n_entries:g}"
        place.mkdir(exist_ok=True)
        kind.written(place / "table", n_entries)
        for sweeps in (0, SWEEPS):
            line, said = line_of(options, place, sweeps)
            lines.append(line)
            answers += [] if sweeps else [said]
    said = "; ".join(answers)
    return [
        f"Fits to {options.tol:g}, and {SWEEPS} sweeps of posteriors of {kind.rank} factors. In"
        " one process and on two workers answers were the same, of the fits in the order of the"
        f" table: {said}.",
        "",
        *markdown(header, lines),
    ]


def main():
    """Read the options, and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=float, default=1e6)
    parser.add_argument("--kind", choices=KINDS, default="wide")
    parser.add_argument("--memory", type=in_bytes, default=6e9, help="of the fit, or of a worker")
    parser.add_argument("--workers", type=int, default=0, help="0: this process alone")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--sweeps", type=int, default=0, help="of the posterior; 0: a fit")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path, help="the page to write a table into")
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e7, 1e8], help="of the page")
    parser.add_argument("--fit", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        fit(options)
        return
    with tempfile.TemporaryDirectory() as fresh:
        folder = options.folder or pathlib.Path(fresh)
        folder.mkdir(parents=True, exist_ok=True)
        if options.page is None:
            report(options, folder)
        else:
            write_part(options.page, KINDS[options.kind].part, page_part(options, folder))


def in_bytes(size):
    """A number of bytes, as 6GB or 6e9."""
    unit = UNITS.get(size[-2:].upper())
    return float(size) if unit is None else float(size[:-2]) * unit


if __name__ == "__main__":
    main()

"""The ledger of times: what mcframe needs on standard tasks, each beside a peer in the same run.

    python examples/benchmarks/ledger.py [--items p1 p3 ...] [--checkout FOLDER] [--quiet]
    python examples/benchmarks/ledger.py --compare [COMMIT COMMIT]
    python examples/benchmarks/ledger.py --page

The first form appends one line of JSON to ``ledger.jsonl``: commit, processor, and for each item
seconds, seconds of processor time, peak memory, iterations, products of the gradient with a
vector, rank, and the ratio of its seconds to those of each peer. ``--checkout`` measures the
package in another folder, such as a worktree of an older commit, by the script that stands here.
``--quiet`` says that nothing else ran on the machine; nobody can check it later.

``--compare`` prints the ratios of two commits, by default the last two of the file, and ends with
status 1 if one of them has risen by more than a fifth. ``--page`` writes the tables and the
picture of ``docs/ledger.md`` from the file, the table of ``AIMS`` with what was reached, and the
times of large items in ``docs/scaling.md``.

Each side of an item is a process of its own. Imports and a small table of the same kind, which
compiles the loops, come before its clock starts. Data of ``--data`` are drawn once and kept.
"""

import argparse
import datetime as dt
import importlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
import warnings
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from unittest import mock

import numpy as np
import problems
from memory import peak_megabytes
from pages import SCALING, markdown, write_part
from peers import Cmfrec, FullSVD

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
FILE, DOCUMENT = HERE / "ledger.jsonl", ROOT / "docs" / "ledger.md"
# A ratio that rises by more than this factor is explained or mended.
RISE = 1.2
# The sweeps of cmfrec, after which its objective is within 1e-4 and 1e-6 of the optimum of P3.
SWEEPS, MORE_SWEEPS = 10, 40


class Products:
    """Counts products of gradients with vectors: a product with k columns counts k times.

    Those of gradients that are written out are not counted where a decomposition makes them.
    """

    METHODS = ("_matmat", "_rmatmat", "gram", "both_products")

    def __init__(self):
        self.count, self.inside = 0, False
        from mcframe.numerics import operators

        # Of older commits both are in one package.
        sampled = vars(operators).get("Sampled")
        if sampled is None:
            sampled = importlib.import_module("mcframe.numerics.sampled").Sampled
        for kind in (operators.Dense, sampled):
            for name in self.METHODS:
                if name in vars(kind):
                    setattr(kind, name, self.counted(vars(kind)[name], 1 + (name == "gram")))

    def counted(self, method, times):
        """A method that notes how many columns it is given."""

        def product(matrix, *blocks):
            if self.inside:  # one product by means of another
                return method(matrix, *blocks)
            self.count += times * sum(block.shape[1] for block in blocks if np.ndim(block) == 2)
            self.inside = True
            try:
                return method(matrix, *blocks)
            finally:
                self.inside = False

        return product


class Stopwatch:
    """Seconds and seconds of processor time of what stands in its ``with``."""

    def __enter__(self):
        self.began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error):
        self.seconds = time.perf_counter() - self.began[0]
        self.cpu = time.process_time() - self.began[1]


class Fit:
    """A standard problem to a tolerance, beside peers with the same objective."""

    def __init__(self, name, tol, small, peers=()):
        self.name, self.tol, self.small = name, tol, small
        self.peers = dict(peers)

    def path(self, data, name):
        """The file of an instance, which is drawn where there is none."""
        path = data / f"{name}.npz"
        if not path.exists():
            instance = problems.instance(name, quick=data.name == "quick")
            instance.save(path)
        return path

    def prepare(self, data):
        """Draw the data."""
        self.path(data, self.name)

    def mcframe(self, data):
        """A fit by default options."""
        from ours import data as tables
        from ours import model

        import mcframe as mc

        products = Products()
        small = problems.instance(self.small, quick=True)
        mc.fit(model(small), tables(small), tol=self.tol)
        instance = problems.Instance.load(self.path(data, self.name))
        declared, given = model(instance), tables(instance)
        products.count, before = 0, peak_megabytes()
        with Stopwatch() as clock:
            fit = mc.fit(declared, given, tol=self.tol)
        added = {"added_mb": peak_megabytes() - before}  # at least; the data are held before
        return of_fit(fit, clock, products) | added

    def peer(self, data, name, goal):
        """A peer on the same instance, told the rank or the objective of the certified answer."""
        from methods import Clock, Task

        instance = problems.Instance.load(self.path(data, self.name))
        method, iterations = self.peers[name]
        small = problems.instance(self.small, quick=True)
        method.solve(Task(small, iterations or 20, 2), Clock())
        target = goal["objective"] * (1.0 + self.tol)
        clock = Clock()
        with Stopwatch() as watch:
            method.solve(Task(instance, iterations, goal["rank"], target), clock)
        return {"seconds": clock.seconds or watch.seconds, "cpu": watch.cpu}


def of_fit(fit, clock, products=None):
    """The numbers of a fit."""
    return {
        "seconds": clock.seconds,
        "cpu": clock.cpu,
        "iterations": int(fit.history[-1].iteration),
        "products": None if products is None else products.count or None,
        "rank": int(fit.latent.rank),
        "objective": float(fit.objective),
        "gap": float(fit.gap),
        "status": str(fit.status),
    }


class SimulatedRatings:
    """Ratings of the size of MovieLens 1M with effects of users and films, to 1e-3.

    6,040 x 3,706 with 1,136,061 cells drawn by powers of the ranks of rows and columns, rank
    8 and noise of standard deviation .8, and effects of both of standard deviation .4.
    """

    peers = ()
    shape, n_drawn, rank, weight = (6040, 3706), 1_350_000, 8, 25.0

    def prepare(self, data):
        """It is drawn each time."""

    def table(self, shape=None, n_drawn=None):
        """The ratings as a sparse matrix."""
        import scipy.sparse as sp

        rng, shape = np.random.default_rng(0), shape or self.shape
        left, right = (rng.standard_normal((n, self.rank)) / self.rank**0.25 for n in shape)
        effects = [0.4 * rng.standard_normal(n) for n in shape]
        shares = [np.arange(1, n + 1) ** -0.6 for n in shape]
        cells = [
            rng.choice(share.size, n_drawn or self.n_drawn, p=share / share.sum())
            for share in shares
        ]
        rows, columns = np.unique(np.transpose(cells), axis=0).T
        values = 0.6 * np.einsum("ij,ij->i", left[rows], right[columns])
        values += 3.5 + effects[0][rows] + effects[1][columns]
        values += 0.8 * rng.standard_normal(values.size)
        return sp.csr_array((values, (rows, columns)), shape=shape)

    def mcframe(self, data):
        """An optimum with biases and row effects."""
        import mcframe as mc

        block = mc.Block("stars", mc.Gaussian(), bias=True, row_effects=True)
        declared, products = mc.Model([block], [mc.NuclearNorm(self.weight)]), Products()
        mc.fit(declared, {"stars": self.table((300, 200), 20_000)}, tol=1e-3)
        table = self.table()
        products.count = 0
        with Stopwatch() as clock:
            fit = mc.fit(declared, {"stars": table}, tol=1e-3)
        return of_fit(fit, clock, products)


class Ratings:
    """MovieLens 100k of ``$MCFRAME_DATA`` with effects of users and films, all ratings."""

    def __init__(self, reading):
        self.reading = reading
        self.peers = {"cmfrec als_chol": None} if reading == "optimum" else {}

    def prepare(self, data):
        """Nothing is drawn."""

    def table(self):
        """The ratings as a sparse matrix."""
        import scipy.sparse as sp

        kept = np.load(pathlib.Path(os.environ["MCFRAME_DATA"]) / "movielens100k.npz")
        users, films = (np.unique(kept[k], return_inverse=True)[1] for k in ("user", "item"))
        return sp.csr_array((kept["rating"].astype(float), (users, films)))

    def mcframe(self, data):
        """An optimum to 1e-3, or a posterior by default options."""
        import mcframe as mc

        products, table = Products(), self.table()
        noise = 1.0 if self.reading == "optimum" else None
        block = mc.Block("stars", mc.Gaussian(variance=noise), bias=True, row_effects=True)
        weight = [12.0] if self.reading == "optimum" else []
        declared = mc.Model([block], [mc.NuclearNorm(*weight)])
        small = table[:300]
        run = self.fitted if self.reading == "optimum" else self.posterior
        run(mc, declared, small)
        products.count = 0
        with Stopwatch() as clock:
            answer = run(mc, declared, table)
        if self.reading == "optimum":
            return of_fit(answer, clock, products)
        numbers = {"seconds": clock.seconds, "cpu": clock.cpu}
        return numbers | {"iterations": len(answer.history), "objective": float(answer.evidence)}

    def fitted(self, mc, declared, table):
        """The optimum."""
        return mc.fit(declared, {"stars": table}, tol=1e-3)

    def posterior(self, mc, declared, table):
        """The posterior."""
        return mc.posterior(declared, {"stars": table})

    def peer(self, data, name, goal):
        """Sweeps with effects of users and items, told the rank."""
        import cmfrec
        import scipy.sparse as sp

        table = sp.coo_matrix(self.table())
        options = {"method": "als", "use_cg": False, "finalize_chol": False, "verbose": False}
        options |= {"use_float": False, "precompute_for_predictions": False, "nthreads": -1}
        model = cmfrec.CMF(k=max(goal["rank"], 1), lambda_=12.0, niter=SWEEPS, **options)
        with Stopwatch() as clock:
            model.fit(table)
        return {"seconds": clock.seconds, "cpu": clock.cpu}


class Complete:
    """``mc.complete`` of a table of numbers, labels and categories with a fifth missing."""

    def __init__(self, n_rows, n_columns, peer="IterativeImputer"):
        self.shape, self.peers = (n_rows, n_columns), {} if peer is None else {peer: None}

    def prepare(self, data):
        """It is drawn each time."""

    def frame(self, n_rows=None):
        """Half of the columns numbers, a quarter labels, a quarter categories of four values."""
        import pandas as pd

        n, d = n_rows or self.shape[0], self.shape[1]
        rng = np.random.default_rng(0)
        z = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
        z += 0.7 * rng.standard_normal(z.shape)
        columns = {}
        for j in range(d):
            gone = rng.random(n) < 0.2
            if j % 4 == 1:
                column = pd.Series(np.where(z[:, j] > 0.0, "yes", "no"), dtype=object)
            elif j % 4 == 3:
                places = np.digitize(z[:, j], [-1.5, 0.0, 1.5])
                column = pd.Series(
                    np.array(["red", "blue", "green", "gold"])[places], dtype=object
                )
            else:
                column = pd.Series(z[:, j])
            columns[f"c{j}"] = column.mask(gone)
        return pd.DataFrame(columns)

    def mcframe(self, data):
        """``mc.complete`` by default options."""
        import mcframe as mc

        frame = self.frame()
        mc.complete(self.frame(200))
        with Stopwatch() as clock:
            mc.complete(frame)
        return {"seconds": clock.seconds, "cpu": clock.cpu}

    def peer(self, data, name, goal):
        """An imputer of scikit-learn on the codes of labels and categories, by its defaults."""
        import sklearn.impute
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401

        frame = self.frame()
        codes = frame.apply(lambda column: column.astype("category").cat.codes)
        numbers = frame.select_dtypes("number").columns
        codes = codes.where(codes >= 0).astype(float)
        codes[numbers] = frame[numbers]
        with Stopwatch() as clock:
            getattr(sklearn.impute, name)().fit_transform(codes.to_numpy())
        return {"seconds": clock.seconds, "cpu": clock.cpu}


class Draws(Complete):
    """Twenty filled tables of that kind."""

    def mcframe(self, data):
        """``draws(20)`` of an answer that is there."""
        import mcframe as mc

        mc.complete(self.frame(200)).draws(2)
        completed = mc.complete(self.frame())
        with Stopwatch() as clock:
            completed.draws(20)
        return {"seconds": clock.seconds, "cpu": clock.cpu}


class ParquetFile(Complete):
    """A Parquet file of such a table, completed in parts."""

    def path(self, data):
        """The file."""
        return data / "table.parquet"

    def prepare(self, data):
        """Write the file where there is none, a tenth of the rows in each of its groups."""
        if not self.path(data).exists():
            self.frame().to_parquet(self.path(data), row_group_size=self.shape[0] // 10)

    def mcframe(self, data):
        """``mc.datasets.complete_file`` by default options, on one core."""
        import mcframe as mc

        with Stopwatch() as clock:
            mc.datasets.complete_file(
                self.path(data), self.path(data).with_suffix(".filled.parquet")
            )
        return {"seconds": clock.seconds, "cpu": clock.cpu}


class OnWorkers(Fit):
    """A fit of a problem in four partitions, in this process or on two workers of a cluster.

    The peak of the memory is that of the driver and of both workers together, and the peer is the
    same fit of the table in memory in one process.
    """

    def __init__(self, name, tol, small, n_workers):
        super().__init__(name, tol, small)
        self.n_workers, self.peers = n_workers, {"in memory": None} if n_workers else {}

    def mcframe(self, data):
        """The fit of partitions, and the rounds of a step, those of certificates apart."""
        from ours import data as tables
        from ours import model
        from partitions import client_of

        import mcframe as mc
        from mcframe.backends import loop
        from mcframe.backends.certificate import certify
        from mcframe.partitions.partitioned_data import RowsInMemory

        instance = problems.Instance.load(self.path(data, self.name))
        folder = data / f"{self.name}-in-four"
        if not folder.exists():
            [(block, table)] = tables(instance).items()
            mc.datasets.write_partitions({block: [table]}, folder, n_partitions=4)
        on_disk = mc.datasets.on_disk(folder)
        small, of_certificates = problems.instance(self.small, quick=True), []

        def counted(program, *arguments):
            before = program.entries.work.rounds
            certificate = certify(program, *arguments)
            of_certificates.append(program.entries.work.rounds - before)
            return certificate

        with ExitStack() as stack:
            client = client_of(stack, self.n_workers)
            mc.fit(model(small), RowsInMemory(tables(small), 2), tol=self.tol)
            stack.enter_context(mock.patch.object(loop, "certify", counted))
            with Stopwatch() as clock:
                fit = mc.fit(model(instance), on_disk, tol=self.tol)
            numbers, last = of_fit(fit, clock), fit.history[-1]
            steps = last.work.rounds - fit.history[0].work.rounds - sum(of_certificates[1:])
            numbers["rounds"] = steps / last.iteration
            if client is not None:
                workers = sum(client.run(peak_megabytes).values())
                numbers["peak_mb"] = peak_megabytes() + workers
        return numbers

    def peer(self, data, name, goal):
        """The fit in memory."""
        return super().mcframe(data)


class Command:
    """A command in the folder of the package, such as its tests."""

    peers = ()

    def __init__(self, *words):
        self.words = words

    def prepare(self, data):
        """Nothing is drawn."""

    def mcframe(self, data):
        """Seconds of the processes that it starts."""
        before, began = os.times(), time.perf_counter()
        subprocess.run([sys.executable, "-m", *self.words], check=True, stdout=subprocess.DEVNULL)
        seconds, after = time.perf_counter() - began, os.times()
        return {"seconds": seconds, "cpu": sum(after[2:4]) - sum(before[2:4])}


class Disk:
    """A table that is written to the disk once, and fitted from there to 1e-3."""

    def __init__(self, n_entries):
        self.n_entries, self.peers = n_entries, {}

    def folder(self, data):
        """Where the table is, which is written where there is none."""
        return data / f"table-{self.n_entries:g}"

    def prepare(self, data):
        """Write the table."""
        from large_tables import KINDS

        KINDS["wide"].written(self.folder(data), self.n_entries)

    def mcframe(self, data):
        """A fit, in this process."""
        from large_tables import KINDS

        import mcframe as mc

        wide = KINDS["wide"]
        table = wide.written(self.folder(data), self.n_entries)
        with Stopwatch() as clock:
            fit = mc.fit(wide.model(table), table, tol=1e-3)
        return of_fit(fit, clock)


class Import:
    """``import mcframe`` in a fresh process, beside that of CVXPY."""

    def __init__(self):
        self.peers = {"import cvxpy": None}

    def prepare(self, data):
        """Nothing is drawn."""

    def mcframe(self, data):
        """The median of five processes."""
        return self.imported("mcframe")

    def peer(self, data, name, goal):
        """The median of five processes."""
        return self.imported("cvxpy")

    def imported(self, name):
        """Seconds of processes that import one package, less those of one that imports none."""

        def times(command):
            rows = []
            for _ in range(5):
                before, began = os.times(), time.perf_counter()
                subprocess.run([sys.executable, "-c", command], check=True)
                after = os.times()
                cpu = sum(after[2:4]) - sum(before[2:4])
                rows.append((time.perf_counter() - began, cpu))
            return np.median(rows, axis=0)

        seconds, cpu = times(f"import {name}") - times("pass")
        return {"seconds": float(seconds), "cpu": float(cpu)}


class Tiny:
    """The mean of many fits of 20 x 10 to the default tolerance, beside a CVXPY program."""

    repeats, weight = 50, 2.0

    def __init__(self):
        self.peers = {"CVXPY with Clarabel": None}

    def prepare(self, data):
        """Nothing is drawn."""

    def table(self):
        """A table of rank 2 with noise, a third missing."""
        rng = np.random.default_rng(0)
        x = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 10))
        x += 0.3 * rng.standard_normal(x.shape)
        x[rng.random(x.shape) < 0.33] = np.nan
        return x

    def mcframe(self, data):
        """``mc.fit`` by default options."""
        import mcframe as mc

        x, declared = self.table(), mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(2.0)])
        fit = mc.fit(declared, {"x": x})
        with Stopwatch() as clock:
            for _ in range(self.repeats):
                mc.fit(declared, {"x": x})
        numbers = of_fit(fit, clock)
        return numbers | {k: numbers[k] / self.repeats for k in ("seconds", "cpu")}

    def peer(self, data, name, goal):
        """The same problem, stated anew each time."""
        import cvxpy as cp

        x = self.table()
        seen = ~np.isnan(x)

        def solve():
            z = cp.Variable(x.shape)
            away = cp.multiply(seen, z - np.where(seen, x, 0.0))
            objective = 0.5 * cp.sum_squares(away) + self.weight * cp.normNuc(z)
            cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)

        solve()
        with Stopwatch() as clock:
            for _ in range(5):
                solve()
        return {"seconds": clock.seconds / 5, "cpu": clock.cpu / 5}


class Binding(Fit):
    """Binding a model to the data of P3, beside SciPy's conversion of the same entries."""

    def mcframe(self, data):
        """``mc.Problem.bind``."""
        from ours import data as tables
        from ours import model

        import mcframe as mc

        small = problems.instance(self.small, quick=True)
        mc.Problem.bind(model(small), tables(small))
        instance = problems.Instance.load(self.path(data, self.name))
        declared, given = model(instance), tables(instance)
        with Stopwatch() as clock:
            mc.Problem.bind(declared, given)
        return {"seconds": clock.seconds, "cpu": clock.cpu}

    def peer(self, data, name, goal):
        """Rows, columns and values into a sparse matrix by rows."""
        instance = problems.Instance.load(self.path(data, self.name))
        with Stopwatch() as clock:
            instance.data()
        return {"seconds": clock.seconds, "cpu": clock.cpu}


CHOL, CG = Cmfrec(use_cg=False), Cmfrec(use_cg=True)
ITEMS = {
    "p1": Fit("p1-0.1", 1e-6, "p1-0.1", {"full SVD": (FullSVD(), 0), CG.name: (CG, 60)}),
    "p2": Fit("p2-0.1", 1e-4, "p2-0.1", {"full SVD": (FullSVD(), 0)}),
    "p3": Fit("p3-0.1", 1e-4, "p3-0.1", {CHOL.name: (CHOL, SWEEPS)}),
    "p7": Fit("p7", 1e-3, "p7", {CHOL.name: (CHOL, SWEEPS)}),
    "mixed table": Complete(2_000, 30),
    "MovieLens optimum": Ratings("optimum"),
    "MovieLens posterior": Ratings("posterior"),
    "complete 1,000 x 10": Complete(1_000, 10),
    "complete 10,000 x 20": Complete(10_000, 20),
    "complete 100,000 x 20": Complete(100_000, 20),
    "complete 5,000 x 200": Complete(5_000, 200, "KNNImputer"),
    "disk": Disk(2e7),
    "import": Import(),
    "tiny fit": Tiny(),
    "binding": Binding("p3-0.1", 1e-4, "p3-0.1", {"SciPy": None}),
    "p3 to 1e-6": Fit("p3-0.1", 1e-6, "p3-0.1", {CHOL.name: (CHOL, MORE_SWEEPS)}),
    "p3 with labels and counts": Fit("p3-mixed-0.2", 1e-3, "p3-mixed-0.2"),
    "simulated ratings": SimulatedRatings(),
    "p7 in partitions": OnWorkers("p7", 1e-3, "p7", 0),
    "p7 on two workers": OnWorkers("p7", 1e-3, "p7", 2),
    "complete a file of 1,000,000 x 20": ParquetFile(1_000_000, 20, None),
    "draws of 10,000 x 20": Draws(10_000, 20, None),
    "tests": Command("pytest", "-p", "no:cacheprovider"),
    "core tests": Command("pytest", "-p", "no:cacheprovider", "-m", "core"),
    "demo": Command("mcframe", "demo"),
}
# What takes minutes, or a gigabyte on the disk: only where it is asked for.
ON_REQUEST = (
    "disk",
    "p3 to 1e-6",
    "p3 with labels and counts",
    "simulated ratings",
    "p7 in partitions",
    "p7 on two workers",
    "complete a file of 1,000,000 x 20",
    "draws of 10,000 x 20",
    "tests",
    "core tests",
    "demo",
)
# Those on the page of scaling.
SCALED = (
    "tiny fit",
    "p1",
    "p2",
    "MovieLens optimum",
    "p3",
    "p3 to 1e-6",
    "p3 with labels and counts",
    "simulated ratings",
    "p7",
    "p7 in partitions",
    "p7 on two workers",
    "mixed table",
    "complete 1,000 x 10",
    "complete 10,000 x 20",
    "complete 100,000 x 20",
    "complete 5,000 x 200",
    "complete a file of 1,000,000 x 20",
    "draws of 10,000 x 20",
)


@dataclass(frozen=True)
class Aim:
    """What an item is to reach, and how it is read from its numbers: at most so much of ``key``.

    With ``peer`` it is the ratio to that of the peer.
    """

    item: str
    key: str
    most: float
    peer: str | None = None
    in_words: str = ""

    def reached(self, numbers):
        """What was reached; None where it was not measured."""
        value = numbers.get(self.key)
        if self.peer is None or value is None:
            return value
        other = numbers["peers"].get(self.peer, {}).get(self.key)
        return None if other is None else value / other

    def __str__(self):
        beside = "" if self.peer is None else f" over those of {self.peer}"
        return self.in_words or UNITS[self.key] + beside


UNITS = {"seconds": "seconds", "cpu": "seconds of the processor", "peak_mb": "peak of memory, MB"}
UNITS |= {
    "added_mb": "memory beside the data, MB",
    "rounds": "rounds of a step",
}
AIMS = (
    Aim("p3", "seconds", 1.5, CHOL.name),
    Aim("p3", "added_mb", 400.0),
    Aim("p3 to 1e-6", "seconds", 3.0, CHOL.name),
    Aim("p7", "seconds", 3.0),
    Aim("p3 with labels and counts", "cpu", 60.0),
    Aim("simulated ratings", "seconds", 20.0),
    Aim("p7 in partitions", "rounds", 6.0),
    Aim("p7 on two workers", "peak_mb", 1.2, "in memory", "memory of three processes over one"),
    Aim("complete 1,000 x 10", "cpu", 0.4),
    Aim("complete 10,000 x 20", "cpu", 1.5),
    Aim("complete 100,000 x 20", "cpu", 4.0),
    Aim("complete 5,000 x 200", "cpu", 5.0),
    Aim("complete a file of 1,000,000 x 20", "peak_mb", 1000.0),
    Aim("draws of 10,000 x 20", "seconds", 5.0),
    Aim("tests", "seconds", 300.0),
    Aim("core tests", "seconds", 60.0),
    Aim("demo", "seconds", 20.0),
    Aim("import", "seconds", 0.5),
)


def side(name, peer, data, goal):
    """One side of an item in this process: its numbers, and the most memory that was held."""
    warnings.simplefilter("ignore")
    item = ITEMS[name]
    numbers = item.peer(data, peer, goal) if peer else item.mcframe(data)
    return {"peak_mb": peak_megabytes()} | numbers


def side_apart(name, peer, data, goal, checkout, limit):
    """One side of an item in a process of its own; why there are no numbers, if there are none."""
    command = [sys.executable, __file__, "--side", json.dumps([name, peer, str(data), goal])]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    try:
        made = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit:g} s"}
    if made.returncode:
        return {"failed": (made.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(made.stdout.splitlines()[-1])


def measured(name, data, checkout, limit):
    """An item: the numbers of mcframe, and those of each peer with the ratio to it."""
    numbers = side_apart(name, None, data, None, checkout, limit)
    goal = {key: numbers.get(key) for key in ("objective", "rank")}
    peers = {}
    for peer in ITEMS[name].peers if "failed" not in numbers else ():
        other = side_apart(name, peer, data, goal, checkout, limit)
        if "failed" not in other:
            other["ratio"] = numbers["seconds"] / other["seconds"]
        peers[peer] = other
    return numbers | {"peers": peers}


def commit_of(checkout):
    """The commit of a folder, with a plus where files of the package differ from it."""

    def git(*words):
        run = subprocess.run(
            ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "mcframe")
    number = git("rev-parse", "--short=8", "HEAD")
    return number + "+" * bool(changed), git("log", "-1", "--format=%cI")


def processor():
    """The name of the processor, and how many cores there are."""
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{named[0] if named else platform.processor()}, {os.cpu_count()} cores"


def read(path):
    """The lines of a ledger."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def by_commit(lines):
    """The latest numbers of each item of each commit, commits in the order of their dates."""
    commits = {}
    for line in lines:
        known = commits.setdefault(line["commit"], {"committed": line["committed"], "items": {}})
        known["items"] |= {
            name: numbers | {"quiet": line["quiet"]} for name, numbers in line["items"].items()
        }
    return dict(sorted(commits.items(), key=lambda pair: pair[1]["committed"]))


def figures(numbers):
    """What two commits are compared by: ratios to peers, or seconds where there is no peer."""
    ratios = {peer: p["ratio"] for peer, p in numbers.get("peers", {}).items() if "ratio" in p}
    if ratios:
        return ratios
    return {"seconds of processor time": numbers["cpu"]} if "cpu" in numbers else {}


def comparison(old, new):
    """(item, what, before, after) of all figures that two commits have, and those that rose."""
    rows = []
    for name, numbers in new.items():
        before = figures(old.get(name, {}))
        for what, after in figures(numbers).items():
            if what in before:
                rows.append((name, what, before[what], after))
    return rows, [row for row in rows if row[3] > RISE * row[2]]


def compare(path, chosen):
    """Print the figures of two commits; True where none has risen by more than a fifth."""
    commits = by_commit(read(path))
    names = list(chosen) or list(commits)[-2:]
    if len(names) < 2 or any(name not in commits for name in names):
        raise SystemExit(f"two of these commits are needed: {', '.join(commits)}")
    rows, risen = comparison(*(commits[name]["items"] for name in names))
    print(f"{names[0]} -> {names[1]}")
    for row in rows:
        name, what, before, after = row
        mark = "  more than a fifth: explain or mend" if row in risen else ""
        print(f"{name:24s} {what:28s} {before:8.3g} -> {after:8.3g}{mark}")
    return not risen


def number(value, form="{:.3g}"):
    """A number of a table, or nothing."""
    return "" if value is None else form.format(value)


def page_lines(lines):
    """The tables of the page: ratios of all commits, and the numbers of the last one."""
    commits = by_commit(lines)
    names = [name for name in ITEMS if any(name in c["items"] for c in commits.values())]
    rows = []
    for name in names:
        peers = dict.fromkeys(
            what for c in commits.values() for what in figures(c["items"].get(name, {}))
        )
        for what in peers:
            cells = []
            for commit in commits.values():
                numbers = commit["items"].get(name, {})
                value = figures(numbers).get(what)
                cells.append(
                    "" if value is None else f"{value:.3g}{'' if numbers['quiet'] else '*'}"
                )
            rows.append([name, what, *cells])
    made = [*markdown(["item", "beside", *(f"`{c}`" for c in commits)], rows), ""]
    last = list(commits)[-1]
    made += [f"The numbers of `{last}`:", ""]
    rows = []
    for name, numbers in commits[last]["items"].items():
        cells = [number(numbers.get(k)) for k in ("seconds", "cpu", "peak_mb")]
        counts = [number(numbers.get(k), "{:,}") for k in ("iterations", "products", "rank")]
        rows.append([name, *cells, *counts, numbers.get("failed", "")])
    header = ["item", "seconds", "processor seconds", "peak MB", "iterations", "products", "rank"]
    made += [*markdown([*header, "failed"], rows), ""]
    counted = Counter(line["processor"] for line in lines)
    made.append("Measured on " + "; ".join(f"{p} ({n} lines)" for p, n in counted.items()) + ".")
    return made


def latest(lines, name, has):
    """The last commit on which an item was measured and has a number, and its numbers."""
    for commit, of_commit in reversed(by_commit(lines).items()):
        numbers = of_commit["items"].get(name, {})
        if has(numbers):
            return commit, numbers
    return None, None


def aim_lines(lines):
    """The table of aims: the latest numbers of each, and the commit they were measured on."""
    rows = []
    for aim in AIMS:
        commit, numbers = latest(lines, aim.item, lambda n, aim=aim: aim.reached(n) is not None)
        cells = ["not measured", "", ""]
        if numbers is not None:
            value = aim.reached(numbers)
            reached = f"{value:.3g}{'' if numbers['quiet'] else '*'}"
            cells = [reached, "yes" if value <= aim.most else "no", f"`{commit}`"]
        rows.append([aim.item, str(aim), f"{aim.most:g}", *cells])
    return markdown(["item", "what", "at most", "reached", "met", "commit"], rows)


def scaling_lines(lines):
    """The latest times of items that are compared or large, for the page of scaling."""
    rows = []
    for name in SCALED:
        commit, numbers = latest(lines, name, lambda n: "seconds" in n)
        if numbers is None:
            continue
        cells = [number(numbers.get(k)) for k in ("seconds", "cpu", "peak_mb")]
        cells += [number(numbers.get(k), "{:,}") for k in ("iterations", "rank")]
        peers = [
            f"{peer} {other['seconds']:.3g}"
            for peer, other in numbers["peers"].items()
            if "seconds" in other
        ]
        rows.append([name + "*" * (not numbers["quiet"]), *cells, ", ".join(peers), f"`{commit}`"])
    header = ["item", "seconds", "processor seconds", "peak MB", "iterations", "rank"]
    return markdown([*header, "seconds of a peer", "commit"], rows)


def draw(lines, path):
    """The picture: the first figure of each item over the commits, relative to the first one."""
    import matplotlib.pyplot as plt

    commits = by_commit(lines)
    shown, axes = plt.subplots(figsize=(9.0, 5.0), layout="constrained")
    for place, name in enumerate(ITEMS):
        points = []
        for k, commit in enumerate(commits.values()):
            values = list(figures(commit["items"].get(name, {})).values())
            points += [(k, values[0])] if values else []
        if len(points) > 1:
            at, values = np.transpose(points)
            style = ("-", "--", ":")[place // 10 % 3]
            axes.plot(at, values / values[0], style, marker="o", label=name)
    axes.set_yscale("log", base=2)
    axes.axhline(1.0, color="0.8", zorder=0)
    axes.set_xticks(range(len(commits)), commits, rotation=20)
    axes.set_ylabel("time beside the peer, relative to the first commit")
    shown.legend(loc="outside right upper", fontsize="small")
    shown.savefig(path, dpi=110, metadata={"Software": None})


def add_line(options):
    """Measure the items, and append a line."""
    data = options.data / ("quick" if options.quick else "full")
    data.mkdir(parents=True, exist_ok=True)
    names = options.items or [name for name in ITEMS if name not in ON_REQUEST]
    items = {}
    for name in names:
        ITEMS[name].prepare(data)
        if options.prepare:
            continue
        items[name] = measured(name, data, options.checkout.resolve(), options.limit)
        print(name, json.dumps(items[name]), flush=True)
    if options.prepare:
        return
    commit, committed = commit_of(options.checkout)
    line = {
        "commit": commit,
        "committed": committed,
        "measured": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "quiet": options.quiet,
        "python": platform.python_version(),
        "items": items,
    }
    with options.file.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def main():
    """Read the options, and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", nargs="+", choices=list(ITEMS), metavar="ITEM")
    parser.add_argument("--checkout", type=pathlib.Path, default=ROOT)
    parser.add_argument("--file", type=pathlib.Path, default=FILE)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("ledger-data"))
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of a side")
    parser.add_argument("--quiet", action="store_true", help="nothing else runs here")
    parser.add_argument("--quick", action="store_true", help="tiny instances, to try the command")
    parser.add_argument("--prepare", action="store_true", help="draw the data, and no more")
    parser.add_argument("--compare", nargs="*", metavar="COMMIT")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        name, peer, data, goal = json.loads(options.side)
        print(json.dumps(side(name, peer, pathlib.Path(data), goal)))
    elif options.compare is not None:
        sys.exit(0 if compare(options.file, options.compare) else 1)
    elif options.page:
        lines = read(options.file)
        write_part(DOCUMENT, "ledger", page_lines(lines))
        write_part(DOCUMENT, "aims", aim_lines(lines))
        write_part(SCALING, "times", scaling_lines(lines))
        draw(lines, DOCUMENT.with_name("ledger.png"))
    else:
        options.data = options.data.resolve()
        add_line(options)


if __name__ == "__main__":
    main()

"""Record what every word of the test catalogue gives on every backend, and compare two records.

    python examples/benchmarks/record.py record BEFORE.jsonl [--only TEXT]
    python examples/benchmarks/record.py compare BEFORE.jsonl AFTER.jsonl

One line a fit: each likelihood with the effects that it takes, and each term, by every backend
that can run it in memory, and with the rows in one and in three partitions. It is run before and
after a change that is to lose nothing. ``compare`` asks that objectives agree within the sum of
both gaps, and prints the totals: iterations, rounds, CPU seconds, peak memory.
"""

import argparse
import json
import pathlib
import sys
import time
import warnings
import zlib

import numpy as np
from memory import peak_megabytes

import mcframe as mc
from mcframe.backends import eligibilities
from mcframe.compile import CompiledProblem
from mcframe.contracts import Factored, Spectral
from mcframe.contracts.likelihood import fits_parameters
from mcframe.partitions.partitioned_data import RowsInMemory

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from tests import catalogue

SHAPE = (24, 6)
OPTIONS = {"tol": 1e-6, "max_iter": 3000, "max_seconds": 20.0, "random_state": 0, "n_jobs": 1}
# What two records may differ by in all; objectives are compared fit by fit.
ALLOWED = {"iterations": 1.1, "cpu": 1.15, "rounds": 1.0, "peak_mb": 1.05}


def table_of(likelihood, shape, rng):
    """Values that the likelihood takes, numbers of rank two; 3 of 10 are missing.

    Of low and high values only limits are known, where the likelihood takes them.
    """
    valid = next(e.values for e in catalogue.LIKELIHOODS if e.word == likelihood)
    factors = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    if likelihood.location:
        values = factors + 0.3 * rng.standard_normal(shape)
    elif not likelihood.invalid(np.array([1e6])).any():
        values = np.exp(factors / 2)
        whole = likelihood.invalid(np.array([0.5])).any()
        values = rng.poisson(values).astype(float) if whole else values
    else:
        levels = np.sort(valid[np.isfinite(valid)])
        places = np.clip(np.round(factors + levels.size / 2 - 0.5), 0, levels.size - 1)
        values = levels[places.astype(int)]
    values = np.where(rng.random(shape) < 0.3, np.nan, values)
    if not likelihood.takes_intervals:
        return values
    upper, lower = np.where(values < -1.0, -1.0, np.nan), np.where(values > 1.0, 1.0, np.nan)
    return mc.Observations(
        np.where(np.abs(values) > 1.0, np.nan, values), lower=lower, upper=upper
    )


def models_of_likelihoods():
    """Name, model and data of each likelihood of the catalogue with each of its effects."""
    for entry in catalogue.LIKELIHOODS:
        word = entry.word
        risk = isinstance(word, mc.RiskMixture)
        free = not risk and not fits_parameters(word)
        effects = [{}] + [{"bias": True}] * free
        if free and word.width == 1:
            effects += [{"row_effects": True}] * word.smooth
            effects += [{"bias": True, "row_effects": True, "effects_weight": 0.5}] * word.smooth
            effects += [{"standardize": True}]
        table = table_of(word, SHAPE, np.random.default_rng(0))
        main = mc.NuclearBall(3.0) if risk else mc.NuclearNorm(0.7)
        for options in effects:
            name = f"{word} {' '.join(options)}".strip()
            yield name, mc.Model([mc.Block("x", word, **options)], [main]), {"x": table}


def models_of_terms():
    """Name, model and data of each term of the catalogue, by itself or beside a nuclear norm."""
    for term in catalogue.TERMS:
        rng = np.random.default_rng(zlib.crc32(str(term).encode()))  # whatever stands before it
        alone = isinstance(term, Spectral | Factored) and not isinstance(term, mc.OnesColumn)
        blocks = [mc.Block("features", mc.Gaussian()), mc.Block("labels", mc.Bernoulli())]
        data = {b.name: table_of(b.likelihood, (24, 4), rng) for b in blocks}
        yield str(term), mc.Model(blocks, [term] if alone else [mc.NuclearNorm(0.7), term]), data
    for k, (term, shape) in enumerate(catalogue.SHAPED_TERMS):
        rng = np.random.default_rng(k)
        block = mc.Block("features", mc.Gaussian())
        data = {"features": table_of(block.likelihood, shape, rng)}
        rows = isinstance(term, mc.GaussianRows)
        terms = [term] if rows else [mc.NuclearNorm(0.7), term]
        yield f"{type(term).__name__} {k}", mc.Model([block], terms), data


def fits_of(name, model, data):
    """A record for each backend and each number of partitions that takes the model."""
    problem = mc.Problem.bind(model, data)
    able = [v.name for v in eligibilities(CompiledProblem(problem)) if v.can_run]
    ways = [(backend, 0) for backend in able] + [("auto", 1), ("auto", 3)]
    for backend, partitions in ways:
        table = RowsInMemory(data, partitions) if partitions else data
        key = f"{name} | {backend} | {partitions or 'memory'}"
        start = time.process_time()
        try:
            fit = mc.fit(model, table, backend=backend, **OPTIONS)
        except mc.McframeError as error:
            yield {"key": key, "refused": str(error)[:160]}
            continue
        block = model.blocks[0].name
        rows = np.arange(5) % problem.n_items
        columns = np.arange(5) % problem.tables[block].shape[1]
        yield {
            "key": key,
            "cpu": time.process_time() - start,
            "status": fit.status,
            "objective": fit.objective,
            "bound": fit.bound,
            "gap": fit.gap,
            "rank": fit.rank,
            "iterations": fit.history[-1].iteration,
            "rounds": getattr(fit.history[-1].work, "rounds", 0),
            "predicted": np.ravel(fit.predict(block, rows, columns)).tolist(),
        }


def record(path, only):
    """Write a line a fit, and a last one with the peak memory of the process."""
    with path.open("w") as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model, data in [*models_of_likelihoods(), *models_of_terms()]:
            if only in name:
                for line in fits_of(name, model, data):
                    out.write(json.dumps(line) + "\n")
        out.write(json.dumps({"key": "process", "peak_mb": peak_megabytes()}) + "\n")


def lines_of(path):
    """The records by their keys."""
    return {line["key"]: line for line in map(json.loads, path.read_text().splitlines())}


def compare(before, after):
    """Print the differences; 0 where none is beyond what is allowed, else 1."""
    old, new = lines_of(before), lines_of(after)
    wrong = [f"{key}: missing" for key in old.keys() - new.keys()]
    largest, totals = 0.0, {name: [0.0, 0.0] for name in ALLOWED}
    for key in old.keys() & new.keys():
        one, two = old[key], new[key]
        if ("refused" in one) != ("refused" in two):
            wrong.append(f"{key}: {one.get('refused', 'ran')} -> {two.get('refused', 'ran')}")
        for name, total in totals.items():
            total[0] += one.get(name, 0.0)
            total[1] += two.get(name, 0.0)
        if "objective" in one and "objective" in two:
            size = max(abs(one["objective"]), abs(two["objective"]), 1e-300)
            difference = abs(one["objective"] - two["objective"]) / size
            if not difference <= one["gap"] + two["gap"]:
                wrong.append(f"{key}: objective {one['objective']!r} -> {two['objective']!r}")
            if one["status"] != two["status"]:
                print(f"{key}: {one['status']} -> {two['status']}")
            moved = np.abs(np.subtract(one["predicted"], two["predicted"]))
            largest = max(largest, float(moved.max(initial=0.0)))
    for name, (a, b) in totals.items():
        ratio = b / a if a else 1.0
        print(f"{name:<12}{a:14.6g} -> {b:14.6g}   {ratio:.3f} (allowed {ALLOWED[name]})")
        if ratio > ALLOWED[name]:
            wrong.append(f"{name}: {ratio:.3f} times")
    print(f"{len(old)} -> {len(new)} records, largest change of a prediction {largest:.1e}")
    print("\n".join(sorted(wrong)) or "nothing beyond what is allowed")
    return int(bool(wrong))


def main():
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=pathlib.Path)
    recording.add_argument("--only", default="", help="instances whose name holds this text")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=pathlib.Path)
    comparing.add_argument("after", type=pathlib.Path)
    given = parser.parse_args()
    if given.command == "record":
        record(given.out, given.only)
        return 0
    return compare(given.before, given.after)


if __name__ == "__main__":
    sys.exit(main())

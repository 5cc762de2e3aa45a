"""mcframe and its peers on standard problems: one command, one machine, one run, in turns.

    python examples/benchmarks/compare.py [--problems p1-0.1 mc-b ...] [--runs 3] [--quick]
        [--methods mcframe "cmfrec als_cg" ...] [--python gcimpute=/path/to/python ...]
        [--busy 1] [--out DIR]

Writes ``results.json`` after every run, then ``table.md`` and pictures. In a folder that holds
results already, what was measured there is not measured again. What is timed and what is not
stands in the README of this folder.
"""

import argparse
import datetime as dt
import json
import os
import pathlib
import platform
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import problems
import report
from methods import Answer
from ours import Judge, imputation_errors
from peers import METHODS, REFERENCE

HERE = pathlib.Path(__file__).parent
# A method whose gap is below this is not run for more iterations.
DONE = 1e-7
# What a busy process does.
COUNT = "k = 0\nwhile True: k += 1"
# Imports a package and prints its version, which a distribution of another name may hold, or the
# package itself where it was not installed.
IMPORTED = """
import importlib, importlib.metadata, sys
package = importlib.import_module(sys.argv[1])
names = importlib.metadata.packages_distributions().get(sys.argv[1])
print(importlib.metadata.version(names[0]) if names else package.__version__)
"""


@contextmanager
def busy_processes(count):
    """So many processes inside that only count, which every method has to share the cores with."""
    processes = [subprocess.Popen([sys.executable, "-c", COUNT]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@dataclass
class Comparison:
    """The options and the results so far, on disk after every change."""

    options: argparse.Namespace
    interpreters: dict
    results: dict = field(default_factory=dict)
    present: dict = field(default_factory=dict)

    @property
    def out(self):
        """The folder of results."""
        return self.options.out

    def save(self):
        """Write ``results.json``, whole or not at all."""
        fresh = self.out / "results.json.new"
        fresh.write_text(json.dumps(self.results, indent=1))
        fresh.replace(self.out / "results.json")

    def interpreter(self, package):
        """What runs the methods of a package."""
        return self.interpreters.get(
            package, "Rscript" if package == "Rscript" else sys.executable
        )

    def absence(self, package):
        """Why a package cannot be measured here, or None."""
        if package not in self.present:
            self.present[package] = looked_up(package, self.interpreter(package))
            version, reason = self.present[package]
            self.results["versions"][package] = version if reason is None else reason
        return self.present[package][1]

    def measure(self, method, iterations, instance, reference):
        """One run in its own process: what it reports, or why it failed."""
        out = self.out / "run"
        # An R script is started from here; a Python peer by its own interpreter.
        script = method.package == "Rscript"
        program = self.interpreter(method.package)
        limit = self.options.max_seconds
        command = [sys.executable if script else program, HERE / "measure.py", method.name]
        command += [self.out / "instance.npz", out, "--iterations", iterations]
        command += ["--rank", reference.get("rank", 0), "--goal", reference.get("goal", 0.0)]
        command += ["--max-seconds", limit, *(["--program", program] if script else [])]
        # The warm-up and the imports are not under the limit of the method itself.
        ended = 2 * limit + 120
        try:
            done = subprocess.run(
                [str(part) for part in command], capture_output=True, text=True, timeout=ended
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"ended after {ended:.0f} s"}
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            return {"failed": lines[-1][:200]}
        return json.loads(out.with_suffix(".json").read_text())

    def answer(self):
        """What the last run left."""
        with np.load(self.out / "run.npz") as file:
            arrays = dict(file)
        biases = {k.split(" ")[1]: v for k, v in arrays.items() if k.startswith("biases ")}
        return Answer(arrays.get("left"), arrays.get("right"), biases, arrays.get("predicted"))


def looked_up(package, program):
    """The version of a package in its interpreter, and why it is absent, one of them None."""
    if package == "Rscript":
        question = [program, "-e", "cat(as.character(packageVersion('softImpute')))"]
    else:
        question = [program, "-c", IMPORTED, package]
    try:
        done = subprocess.run(question, capture_output=True, text=True, timeout=300)
    except OSError as error:
        return None, f"absent: {error.strerror}: {program}"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason was given"]
        return None, f"absent: {lines[-1][:200]}"
    return done.stdout.split()[-1], None


def judged(measured, answer, judge):
    """A measurement with the objective and the held-out errors of its answer."""
    if "failed" in measured:
        return measured
    if answer.predicted is not None:
        return {**measured, "errors": imputation_errors(judge.instance, answer.predicted)}
    if answer.left is None:
        return measured
    objective = judge.objective(answer)
    trace = measured["trace"] or [(measured["seconds"], objective, -np.inf)]
    return {**measured, "objective": objective, "trace": trace, "errors": judge.errors(answer)}


def certified_reference(comparison, instance, judge, record):
    """The best lower bound, by a fit to a gap of 1e-9; peers are told the rank it needs."""
    if "reference" in record:
        return record["reference"]
    measured = comparison.measure(REFERENCE, 0, instance, {})
    if "failed" in measured:
        raise SystemExit(f"{instance.name}: the reference failed: {measured['failed']}")
    answer = comparison.answer()
    objective = judge.objective(answer)
    bound = max(point[2] for point in measured["trace"])
    record["reference"] = {
        "bound": bound,
        "objective": objective,
        "rank": needed_rank(answer, judge, objective),
        # Where a method without a certificate may stop; a loose bound is never reached.
        "goal": bound * (1 + DONE) if objective <= bound * (1 + DONE) else objective * (1 + DONE),
        "seconds": measured["seconds"],
    }
    comparison.save()
    return record["reference"]


def needed_rank(answer, judge, objective):
    """The least rank to which Z can be truncated for a relative 1e-7 of the objective.

    Singular values that are almost 0 slow methods in factors down and gain them nothing.
    """
    left, upper = np.linalg.qr(answer.left)
    right, lower = np.linalg.qr(answer.right)
    inner, values, outer = np.linalg.svd(upper @ lower.T)
    left, right = (left @ inner) * values, right @ outer.T

    def cost(rank):
        truncated = Answer(left[:, :rank], right[:, :rank], answer.biases)
        return judge.objective(truncated) - objective

    few, enough = 0, values.size
    while enough - few > 1:
        rank = (few + enough) // 2
        few, enough = (few, rank) if cost(rank) <= DONE * objective else (rank, enough)
    return enough


def settings(comparison, instance, record):
    """Methods with their iteration counts; for those that cannot run, a row with the reason."""
    found = []
    for method in METHODS:
        if comparison.options.methods and method.name not in comparison.options.methods:
            continue
        reason = method.unsuitable(instance)
        if reason is not None:
            # The same name may stand for another way to run, which is suitable.
            record["unsuitable"][method.name] = reason
            continue
        reason = comparison.absence(method.package)
        if reason is not None:
            record["absent"][method.name] = reason
            continue
        record["absent"].pop(method.name, None)
        counts = method.iterations[:2] if comparison.options.quick else method.iterations
        found += [(method, count) for count in counts]
    return found


def compare(comparison, name):
    """All runs of one problem: each round runs every method and setting once."""
    options = comparison.options
    instance = problems.instance(name, options.quick)
    instance.save(comparison.out / "instance.npz")
    fresh = {"unsuitable": {}, "absent": {}, "notes": {}, "runs": []}
    record = comparison.results["problems"].setdefault(name, fresh)
    # What failed is tried again.
    record["runs"] = [run for run in record["runs"] if "failed" not in run]
    record.update(shape=instance.shape, observed=instance.values.size, weight=instance.weight)
    judge = Judge(instance)
    imputes = name == "imputation"
    reference = {} if imputes else certified_reference(comparison, instance, judge, record)
    chosen = settings(comparison, instance, record)
    for turn in range(options.runs):
        for method, count in chosen:
            record["notes"][method.name] = method.note
            known = [run for run in record["runs"] if run["method"] == method.name]
            if needless(known, turn, count, reference):
                continue
            print(
                f"{name}: {method.name}, {count or 'own'} iterations, run {turn + 1}", flush=True
            )
            with busy_processes(options.busy):
                measured = comparison.measure(method, count, instance, reference)
            answer = None if "failed" in measured else comparison.answer()
            run = {"method": method.name, "iterations": count, "turn": turn}
            record["runs"].append({**run, **judged(measured, answer, judge)})
            comparison.save()


def needless(known, turn, count, reference):
    """Whether a run is there already, or would only add iterations to what is done or failed."""
    if any(run["turn"] == turn and run["iterations"] == count for run in known):
        return True
    fewer = [run for run in known if run["turn"] == turn and run["iterations"] < count]
    goal = reference.get("goal", -np.inf)
    return any("failed" in run or run.get("objective", np.inf) <= goal for run in fewer)


def machine():
    """Where and when."""
    threads = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")}
    return {
        "date": dt.date.today().isoformat(),
        "processor": report.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "threads": threads,
    }


def parsed(arguments):
    """The options, and the interpreters by package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=problems.NAMES, default=problems.NAMES)
    parser.add_argument("--methods", nargs="+", choices=[m.name for m in METHODS])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=600.0,
        help="a limit for each run; what cannot stop by itself is ended after twice that",
    )
    parser.add_argument(
        "--busy",
        type=int,
        default=0,
        metavar="N",
        help="processes that only count beside every method, for a table of a machine in use",
    )
    parser.add_argument("--quick", action="store_true", help="tiny problems, few settings")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("benchmark-results"))
    return with_interpreters(parser, arguments)


def with_interpreters(parser, arguments):
    """The options of a parser with ``--python``, and the interpreters by package."""
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a package's interpreter",
    )
    options = parser.parse_args(arguments)
    return options, dict(pair.split("=", 1) for pair in options.python)


def main(arguments=None):
    """Measure what is not there yet, then write the report."""
    options, interpreters = parsed(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    comparison = Comparison(options, interpreters)
    stored = options.out / "results.json"
    if stored.exists():
        comparison.results = json.loads(stored.read_text())
        for option in ("quick", "busy"):
            known, asked = comparison.results.get(option, 0), getattr(options, option)
            if known != asked:
                raise SystemExit(f"{options.out} holds results with {option}={known}")
    else:
        fresh = {"quick": options.quick, "busy": options.busy}
        comparison.results = {**fresh, "problems": {}, "versions": {}}
    comparison.results["machine"] = machine()
    try:
        for name in options.problems:
            compare(comparison, name)
    finally:
        comparison.save()
        for left in ("instance.npz", "run.npz", "run.json"):
            (options.out / left).unlink(missing_ok=True)
        report.write(comparison.results, options.out)
    print((options.out / "table.md").read_text())


if __name__ == "__main__":
    main()

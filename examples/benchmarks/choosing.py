"""Which backend ``auto`` takes on drawn problems, and which was the fastest.

    python examples/benchmarks/choosing.py [--problems 0 30] [--seconds 20] [--out choosing.jsonl]

runs every backend that can on each of the drawn problems (``drawn.py``), on one thread, to a gap
of 1e-6 or for so many seconds of the processor, and prints the table. A backend's time is the one
to the least gap that any of them reached, 1e-6 at best; where it was cut off before that, about
the one that it would have taken, had its gap gone on falling. What was measured stands in the file
and is not measured again.

    python examples/benchmarks/choosing.py --calibrate [--problems 101 200] [--seconds 5]

measures others and prints the constants of ``mcframe/backends/effort.py`` that fit them best. A
run that was cut off counts as long as it would have taken had its gap gone on falling.
"""

import argparse
import json
import math
import pathlib
import time
import warnings

import numpy as np
from drawn import drawn
from scipy.optimize import nnls

import mcframe as mc
from mcframe.backends import BACKENDS, LADDER, Budget, Settings, able, verdict_on
from mcframe.backends.effort import Size
from mcframe.backends.ladder import work_of
from mcframe.compile import CompiledProblem
from mcframe.fitting import fit_problem
from mcframe.numerics.threads import thread_limit

TOL = 1e-6
# A conic solver, which has no estimate of this kind, and what is never chosen are left out.
MEASURED = [r.name for r in LADDER if r.automatic and not r.backend.exact]
# Without this, constants of traits that few problems have would be those of their chance.
RIDGE = 5.0
# A run that was cut off counts for so many times the iterations that it made, at most.
FARTHEST = 20.0
# Rounds of weighting errors, and the least share of the truth that a weight is told by.
ROUNDS, LEAST_SHARE = 30, 0.05
# A choice is good up to this ratio.
GOOD = 1.5


def main():
    """The table, or the constants."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calibrate", action="store_true", help="print the constants")
    parser.add_argument("--problems", nargs=2, type=int, help="from this one up to that one")
    parser.add_argument("--seconds", type=float, help="of the processor, for each run")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("choosing.jsonl"))
    options = parser.parse_args()
    first, last = options.problems or ((101, 200) if options.calibrate else (0, 30))
    seconds = options.seconds or (5.0 if options.calibrate else 20.0)
    warnings.simplefilter("ignore")
    measure(3, 1.0)  # whose loops are compiled, or loaded, before anything counts
    runs = measured(range(first, last), seconds, options.out)
    if options.calibrate:
        calibrate(runs)
    else:
        table(runs)


def compiled_problem(seed):
    """The name of a drawn problem, and itself."""
    problem = drawn(seed)
    return problem.name, CompiledProblem(mc.Problem.bind(problem.model, problem.data))


def measured(seeds, seconds, path):
    """The looks of each backend on each problem: from the file where they stand there."""
    lines = path.read_text().splitlines() if path.exists() else []
    known = {run["seed"]: run for run in map(json.loads, lines)}
    for seed in seeds:
        if seed not in known:
            known[seed] = {"seed": seed, "looks": measure(seed, seconds)}
            with path.open("a") as file:
                file.write(json.dumps(known[seed]) + "\n")
    return [known[seed] for seed in seeds]


def measure(seed, seconds):
    """(seconds, iteration, gap, rank) at the looks of each backend that can run a problem."""
    _, compiled = compiled_problem(seed)
    names = [name for name in MEASURED if verdict_on(BACKENDS[name], compiled).can_run]
    # Without nonsmooth parts splitting is what it holds.
    names = [name for name in names if name != "splitting" or "proximal" not in names]
    return {name: looks_of(compiled, name, seconds) for name in names}


def looks_of(compiled, name, seconds):
    """(seconds of the processor, iteration, gap, rank) at each look of one run."""
    looks, began = [], time.process_time()

    def note(record):
        looks.append((time.process_time() - began, record.iteration, record.gap, record.rank))
        return looks[-1][0] > seconds

    # The second limit, of the wall clock, is for steps and looks that take long.
    with thread_limit(1):
        fit_problem(compiled, name, Settings(Budget(tol=TOL, max_seconds=2 * seconds), None, note))
    return looks


def table(runs):
    """Chosen, best and their ratio; how often it is good."""
    print("| problem | chosen | estimated, s | its seconds | best | seconds | gap | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    ratios = []
    for run in runs:
        name, compiled = compiled_problem(run["seed"])
        chosen = able(compiled, TOL)[0].name
        chosen = "proximal" if chosen == "splitting" and chosen not in run["looks"] else chosen
        estimate = work_of(BACKENDS[chosen], Size.of(compiled)).seconds(TOL)
        gap = max(TOL, min(look[2] for looks in run["looks"].values() for look in looks))
        times = {own: time_to(looks, gap) for own, looks in run["looks"].items()}
        best = min(times, key=lambda own: times[own][0])
        ratio = times[chosen][0] / times[best][0]
        ratios.append(ratio)
        said = "" if times[chosen][1] else "about "
        print(
            f"| {run['seed']}: {name} | {chosen} | {estimate:.2g} | {said}{times[chosen][0]:.2g} |"
            f" {best} | {times[best][0]:.2g} | {gap:.0e} | {said}{ratio:.2f} |",
            flush=True,
        )
    good = sum(ratio <= GOOD for ratio in ratios)
    print(f"\n{good} of {len(ratios)} within {GOOD} times of the best")


def time_to(looks, gap):
    """Seconds to a gap, and whether it was reached: else those it would take from how it fell."""
    reached = [look[0] for look in looks if look[2] <= gap]
    if reached:
        return reached[0], True
    return looks[-1][0] * iterations_to(looks, gap) / max(looks[-1][1], 1), False


def calibrate(runs):
    """Print the constants that fit the looks best."""
    sizes = {run["seed"]: Size.of(compiled_problem(run["seed"])[1]) for run in runs}
    print("EFFORTS = {")
    for name in MEASURED:
        own = [run for run in runs if run["looks"].get(name, [(0, 0)])[-1][1] > 0]
        looks, size = [run["looks"][name] for run in own], [sizes[run["seed"]] for run in own]
        ranks = [np.mean([max(look[3], 1) for look in each if look[1] > 0]) for each in looks]
        traits = [each.traits for each in size]
        of_steps = [each.traits_of_a_step(rank) for each, rank in zip(size, ranks, strict=True)]
        counts = [each.counts(rank) for each, rank in zip(size, ranks, strict=True)]
        seconds = [each[-1][0] / each[-1][1] for each in looks]
        iterations = [iterations_to(each, TOL) for each in looks]
        print(f'    "{name}": Effort(')
        print(f"        iterations={least_squares(traits, iterations)},")
        print(f"        rank={least_squares(traits, ranks)},")
        print(f"        step={least_squares(of_steps, seconds)},")
        print(f"        operations={seconds_of_counts(counts, seconds)},\n    ),")
    print("}")


def iterations_to(looks, gap):
    """How many it took, or would take if the gap went on falling as it did in the second half."""
    reached = [look[1] for look in looks if look[2] <= gap]
    if reached:
        return max(reached[0], 1)
    last = looks[-1]
    if last[1] == 0:
        return FARTHEST
    earlier = [look for look in looks[:-1] if look[1] <= last[1] / 2][-1]
    fall = math.log(earlier[2] / last[2]) / (last[1] - earlier[1]) if last[2] < earlier[2] else 0.0
    ahead = math.log(last[2] / gap) / fall if 0.0 < fall < math.inf else math.inf
    return min(last[1] + ahead, FARTHEST * last[1])


def least_squares(traits, values):
    """Coefficients in logarithms of values, as code; those of traits that say little are small."""
    traits, logarithms = np.array(traits, dtype=float), np.log(values)
    middle, spread = traits[:, 1:].mean(axis=0), traits[:, 1:].std(axis=0)
    spread[spread == 0.0] = np.inf  # alike in all problems: a part of the constant
    centred = (traits[:, 1:] - middle) / spread
    small = RIDGE * np.eye(spread.size)
    each = np.linalg.solve(centred.T @ centred + small, centred.T @ logarithms) / spread
    found = [np.mean(logarithms) - middle @ each, *each]
    return "(" + ", ".join(f"{value:.2f}" for value in found) + ")"


def seconds_of_counts(counts, seconds):
    """Seconds of each count, none negative, as code: half and twice too much are as bad.

    Relative errors e with weights 1 / sqrt(1 + e), which are about even in the logarithm.
    """
    relative = np.array(counts) / np.array(seconds)[:, None]
    sizes = np.maximum(np.linalg.norm(relative, axis=0), 1e-300)
    weights = np.ones(len(seconds))
    for _ in range(ROUNDS):
        each = nnls(relative / sizes * weights[:, None], weights)[0] / sizes
        weights = 1.0 / np.sqrt(np.maximum(relative @ each, LEAST_SHARE))
    return "(" + ", ".join(f"{value:.1e}" if value else "0.0" for value in each) + ")"


if __name__ == "__main__":
    main()

"""Which backend ``auto`` takes on drawn problems, and which was the fastest.

    python examples/benchmarks/choosing.py [--problems 0 30] [--seconds 20] [--out choosing.jsonl]

runs every backend that can on each of the drawn problems (``drawn.py``), on one thread, to a gap
of 1e-6 or for so many seconds of the processor, and prints the table. A backend's time is the one
to the least gap that any of them reached, 1e-6 at best; where it was cut off before that, about
the one that it would have taken, had its gap gone on falling. What was measured stands in the file
and is not measured again.
"""

import argparse
import json
import math
import pathlib
import time
import warnings

from drawn import drawn

import mcframe as mc
from mcframe.backends import BACKENDS, CANDIDATES, Budget, Settings, able, eligibility_of
from mcframe.compile import CompiledProblem
from mcframe.fitting.fit import fit_problem
from mcframe.runtime.machine import thread_limit

TOL = 1e-6
# The conic solver, which is for small tables, and what is never chosen are left out.
MEASURED = [r.name for r in CANDIDATES if r.automatic and not r.backend.exact]
# A run that was cut off counts for so many times the iterations that it made, at most.
FARTHEST = 20.0
# A choice is good up to this ratio.
GOOD = 1.3


def main():
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs=2, type=int, default=(0, 30), help="from, up to")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the processor, each run")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("choosing.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    measure(3, 1.0)  # whose loops are compiled, or loaded, before anything counts
    table(measured(range(*options.problems), options.seconds, options.out))


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
    names = [name for name in MEASURED if eligibility_of(BACKENDS[name], compiled).can_run]
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
    print("| problem | chosen | its seconds | best | seconds | gap | ratio |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for run in runs:
        name, compiled = compiled_problem(run["seed"])
        chosen = next(able(compiled)).name
        chosen = "proximal" if chosen == "splitting" and chosen not in run["looks"] else chosen
        gap = max(TOL, min(look[2] for looks in run["looks"].values() for look in looks))
        times = {own: time_to(looks, gap) for own, looks in run["looks"].items()}
        best = min(times, key=lambda own: times[own][0])
        ratio = times[chosen][0] / times[best][0]
        ratios.append(ratio)
        said = "" if times[chosen][1] else "about "
        print(
            f"| {run['seed']}: {name} | {chosen} | {said}{times[chosen][0]:.2g} |"
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


if __name__ == "__main__":
    main()

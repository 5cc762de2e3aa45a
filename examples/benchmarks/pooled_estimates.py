"""Pooled estimates of simulated tables beside the truth: bias, spread, and what intervals hold."""

import argparse
import pathlib

import numpy as np
from pages import markdown, write_part
from runs import Runs

__all__ = ["simulate_and_write"]

METHOD = "all ways"


def repeat(runs, shapes, estimates, seconds, first_seed=0):
    """Add the estimates of one simulated table after another.

    Parameters
    ----------
    runs : Runs
        With the keys shape, method and seed; tables that it has are not simulated again.
    shapes : names of simulations
    estimates : callable
        ``estimates(shape, seed)``: quantity, way, estimate, its standard deviation, and the ends
        of a 95 % interval, of each quantity by each way, in one table.
    seconds : float
    first_seed : int
    """

    def measured(shape, _, seed):
        lines = [
            [quantity, way, *(float(np.ravel(value)[-1]) for value in values)]
            for quantity, way, *values in estimates(shape, seed)
        ]
        return {"estimates": lines}

    runs.take_turns(shapes, (METHOD,), measured, seconds, first_seed)


def table(runs, truth):
    """A line for each shape, quantity and way; ``truth(shape, quantity, way)`` is a float."""
    by_way = {}
    for run in runs.latest():
        for quantity, way, *values in run["estimates"]:
            by_way.setdefault((run["shape"], quantity, way), []).append(values)
    header = ["simulation", "quantity", "way", "tables", "truth", "bias", "sd", "reported"]
    lines = []
    for key, rows in sorted(by_way.items()):
        estimates, sds, lower, upper = np.array(rows).T
        right = truth(*key)
        numbers = right, np.mean(estimates) - right, np.std(estimates), np.mean(sds)
        held = np.mean((lower <= right) & (right <= upper))
        shown = [f"{number:.3f}" for number in numbers]
        lines.append([*key, str(len(rows)), *shown, f"{held:.1%}"])
    return markdown([*header, "in 95 %"], lines)


def simulate_and_write(part, page, shapes, estimates, truth, description):
    """Read the arguments of a command, simulate, print the table and write it into a page."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rows", type=int, help="rows of a table")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--only", action="append", choices=shapes)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("benchmark-results"))
    parser.add_argument("--page", action="store_true", help=f"write the table into {page.name}")
    options = parser.parse_args()
    runs = Runs(options.out / part, ("shape", "method", "seed"))
    of_table = {"rows": options.rows} if options.rows else {}
    repeat(
        runs,
        options.only or shapes,
        lambda shape, seed: estimates(shape, seed, draws=options.draws, **of_table),
        options.seconds,
        options.first_seed,
    )
    lines = table(runs, truth)
    print("\n".join(lines))
    if options.page:
        write_part(page, part, lines)

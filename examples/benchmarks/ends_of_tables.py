"""Whether gaps beyond an end of the observed numbers are found, and others are not.

    OMP_NUM_THREADS=1 python examples/benchmarks/ends_of_tables.py [--seeds 20] [--seconds 1200]
        [--page] [--out DIR]

Drawn tables have four columns of two normal factors and noise, so that the other columns explain
some of the variance of the first one, of which 30 % are hidden: its largest numbers; those whose
nearest neighbour among the columns is largest, sharply as after a screening or not; large ones
themselves with a larger probability; and at random. Its numbers are normal, or their monotone
functions that end abruptly or have a long tail. Then tables of R packages follow that have gaps
of their own, as many as the seconds allow; every end that is found is named. Each table is a line
of ``runs.jsonl``; ``--page`` writes the report into docs/quality.md.
"""

import argparse
import pathlib
import time
import warnings

import many_tables
import numpy as np
import pandas as pd
import scipy
from compare import machine
from pages import DOCUMENT, add_page, markdown, write_part
from runs import Runs

import mcframe as mc
from mcframe.datasets import hide

KEYS = ("table", "rows", "explained", "numbers", "gaps", "seed")
ROWS, EXPLAINED, SHARE = (300, 1000), (0.5, 0.8), 0.3
NUMBERS = {
    "normal": lambda z: z,
    "uniform": scipy.stats.norm.cdf,
    "exponential": lambda z: -scipy.stats.norm.logsf(z),
    "log-normal": np.exp,
}
GAPS = ("the largest", "screened", "by another column", "self-masked", "at random")
DRAWN, NATURAL = "drawn", "its own"
# Tables of R packages of so many rows and cells.
FEWEST_ROWS, MOST_CELLS = 40, 100_000


def drawn(rows, explained, numbers, gaps, seed):
    """A table whose first column has gaps."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((rows, 2))
    z = factors @ np.array([[1.0, 0.9, 0.3, 0.5], [0.0, 0.4, 0.9, -0.8]])
    # Noise by which the others explain that much of the first one, nearly.
    z += np.sqrt(1.0 / explained - 1.0) * rng.standard_normal(z.shape) / np.sqrt(2.0)
    frame = pd.DataFrame(z, columns=list("abcd"))
    frame["a"] = NUMBERS[numbers](scipy.stats.zscore(z[:, 0]))
    if gaps == "the largest":
        return hide(frame, SHARE, "censored", columns="a").table
    if gaps == "screened":
        return frame.assign(a=frame["a"].mask(frame["b"] > frame["b"].quantile(1.0 - SHARE)))
    how = {"by another column": "mar", "self-masked": "self-masked", "at random": "mcar"}[gaps]
    by = {"by": "b"} if how == "mar" else {}
    return hide(frame, SHARE, how, columns="a", random_state=seed, **by).table


def ends_in(frame):
    """The columns in which an end is found."""
    completed = mc.complete(frame, nonlinear=False)
    return [str(one.name) for one in completed.declared.columns if one.has_detected_limits]


def lines(runs, about):
    """The report."""
    made = [run for run in runs if run["table"] == DRAWN]
    header, rows = ["rows", "explained", "numbers", *GAPS], []
    for n in ROWS:
        for explained in EXPLAINED:
            for numbers in NUMBERS:
                cells = []
                for gaps in GAPS:
                    key = {"rows": n, "explained": explained, "numbers": numbers, "gaps": gaps}
                    alike = [run for run in made if key.items() <= run.items()]
                    cells.append(f"{sum(bool(run['ends']) for run in alike)} of {len(alike)}")
                rows.append([str(n), f"{explained:.0%}", numbers, *cells])
    natural = [run for run in runs if run["table"] != DRAWN and "ends" in run]
    found = [run for run in natural if run["ends"]]
    named = "; ".join(f"{run['table']} ({', '.join(run['ends'])})" for run in found) or "none"
    return [
        f"{about['date']}, {about['processor']}.",
        "",
        *markdown(header, rows),
        "",
        f"Of {len(natural)} tables of R packages with gaps of their own {len(found)} have columns"
        f" in which an end is found: {named}.",
    ]


def tables_with_gaps(seconds):
    """Tables of R packages that have gaps, until the seconds are over."""
    end = time.time() + seconds
    for package, item in many_tables.names():
        if time.time() > end:
            return
        try:
            whole = many_tables.table(package, item)
        except Exception:  # a file that its package does not hold, or cannot be read
            continue
        if whole is None or whole.codes.size > MOST_CELLS or len(whole.codes) < FEWEST_ROWS:
            continue
        if np.isnan(whole.codes).any():
            yield f"{package}: {item}", whole.frame()


def main(arguments=None):
    """Run what has not been run, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1200.0, help="for tables of R packages")
    parser.add_argument("--again", action="store_true", help="run what was run already, too")
    add_page(parser, "ends")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("ends-results"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    runs = Runs(options.out, KEYS, options.again)
    for seed in range(options.seeds):
        for n in ROWS:
            for explained in EXPLAINED:
                for numbers in NUMBERS:
                    for gaps in GAPS:
                        values = (DRAWN, n, explained, numbers, gaps, seed)
                        key = dict(zip(KEYS, values, strict=True))
                        if key not in runs:
                            ends = ends_in(drawn(n, explained, numbers, gaps, seed))
                            runs.add(key | {"ends": ends})
    for name, frame in tables_with_gaps(options.seconds):
        key = dict.fromkeys(KEYS, "") | {"table": name, "gaps": NATURAL, "rows": len(frame)}
        if key not in runs:
            try:
                runs.add(key | {"ends": ends_in(frame)})
            except mc.McframeError as error:
                runs.add(key | {"failed": str(error)[:200]})
    report = lines(runs.latest(), machine())
    runs.write_table(report)
    if options.page:
        write_part(DOCUMENT, options.page, report)


if __name__ == "__main__":
    main()

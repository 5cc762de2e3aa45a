"""How sure the answers of ``mc.complete`` are said to be, and how sure they are.

    python examples/benchmarks/covered_tables.py [--page] [--seeds 0 1] [names ...]

The tables are those of ``imputation.py``, with 10, 30 and 50 % of their entries hidden. ``--page``
writes the table into docs/quality.md.
"""

import argparse
import warnings

import numpy as np
from hidden_tables import masked
from mixed_tables import DEVELOPMENT, SET_ASIDE_FIRST, table
from pages import DOCUMENT, markdown, write_part

import mcframe as mc

SHARES = 0.1, 0.3, 0.5


def numbers_of(series):
    """A column as floats."""
    return np.asarray(series, dtype=float)


def answers(name, share, seed):
    """Facts on hidden entries of a table, column by column."""
    coded = table(name)
    given = masked(coded, share, seed).frame()
    return facts(coded.frame(), given, mc.complete(given))


def facts(whole, given, completed):
    """Facts on hidden entries, column by column: of numbers, and of other values.

    Of numbers: whether they are covered, and squares of errors and sds over the variance. Of
    others: whether they are wrong, and how probably they were said to be.
    """
    lower, upper = completed.interval(0.9)
    numbers, others = [], []
    for each in completed.declared.columns:
        column = each.name
        hidden = given[column].isna().to_numpy() & whole[column].notna().to_numpy()
        if each.place is None or not hidden.any():
            continue
        sd = numbers_of(completed.sd[column])[hidden]
        if column in lower:
            truth = numbers_of(whole[column][hidden])
            error = numbers_of(completed.table[column][hidden]) - truth
            ends = (numbers_of(end[column][hidden]) for end in (lower, upper))
            inside = (next(ends) <= truth) & (truth <= next(ends))
            spread = np.nanvar(numbers_of(given[column].dropna()))
            numbers.append(np.column_stack([inside, error**2 / spread, sd**2 / spread]))
        else:
            wrong = completed.table[column][hidden].astype(str) != whole[column][hidden].astype(
                str
            )
            others.append(np.column_stack([wrong, sd]))
    return numbers, others


def row_of(name, seeds):
    """The row of a table: means over hidden entries, shares and seeds."""
    found = [answers(name, share, seed) for share in SHARES for seed in seeds]
    covered, error, said = np.mean(np.vstack([own for pair in found for own in pair[0]]), axis=0)
    row = [name, f"{covered:.3f}", f"{np.sqrt(error):.3f}", f"{np.sqrt(said):.3f}"]
    others = [own for pair in found for own in pair[1]]
    if others:
        row += [f"{share:.3f}" for share in np.mean(np.vstack(others), axis=0)]
    return row + [""] * (6 - len(row))


def main():
    """Print the table, and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    header = ["table", "intervals cover", "error of numbers", "said to be"]
    header += ["values wrong", "said to be"]
    rows = [row_of(name, given.seeds) for name in given.names or DEVELOPMENT | SET_ASIDE_FIRST]
    lines = markdown(header, rows)
    print("\n".join(lines))
    if given.page:
        write_part(DOCUMENT, "sureness", lines)


if __name__ == "__main__":
    main()

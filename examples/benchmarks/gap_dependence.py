"""False alarms and power of the tests of whether gaps depend on other columns.

    python examples/benchmarks/gap_dependence.py [--tables 200] [--page]

Tables of six columns: normal ones with two factors, or mixed ones (log-normal, a count with many
zeros, labels, categories of up to eight values, a rare label). Gaps are by chance: each by itself,
most of them in the same rows, or one for each row and few others. A false alarm is a table in
which any column has an adjusted p-value of at most .05. Then gaps of one column depend on another
one, or on the sum of five, with a coefficient of .7 in the logit for a standard deviation of
ranks. In panels values and gaps differ between groups, by chance. ``--page`` writes the tables
into docs/quality.md.
"""

import argparse

import numpy as np
import pandas as pd
from pages import DOCUMENT, markdown, write_part

import mcframe as mc
from mcframe.tables.gap_tests import GapTests

NAMES, LEVEL = list("abcdef"), 0.05
SIZES, KINDS = (40, 200, 600), ("normal", "mixed")
CHANCES = ("each by itself", "in the same rows", "one for each row")


def drawn(kind, n, rng):
    """A table without gaps."""
    factors = rng.standard_normal((n, 2)) @ rng.standard_normal((2, len(NAMES)))
    table = pd.DataFrame(factors + rng.standard_normal(factors.shape), columns=NAMES)
    if kind == "mixed":
        table["a"] = np.exp(1.5 * table["a"])
        table["b"] = np.maximum(np.round(table["b"]), 0.0)
        table["c"] = np.where(table["c"] > 0.0, "yes", "no")
        shares = [0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.03, 0.02]
        table["d"] = rng.choice(list("pqrstuvw"), n, p=shares)
        table["e"] = np.where(rng.random(n) < 0.05, "rare", "usual")
    return table


def hidden_by_chance(how, shape, rng):
    """A mask of gaps that depend on no value."""
    if how == "in the same rows":
        rows = rng.random((shape[0], 1)) < 0.3
        return (rows & (rng.random(shape) < 0.9)) | (rng.random(shape) < 0.03)
    if how == "one for each row":
        one = rng.integers(shape[1], size=shape[0])[:, None] == np.arange(shape[1])
        return one | (rng.random(shape) < 0.1)
    return rng.random(shape) < 0.3


def gap_tests(table, groups=None):
    """The tests of a table."""
    declared = mc.declare(table)
    placed = [column for column in declared.columns if column.place is not None]
    return GapTests.of(placed, groups)


def names_an_error(table, groups=None):
    """True if gaps of any column are said to depend on others."""
    adjusted = gap_tests(table, groups).adjusted
    return any(p_value <= LEVEL for p_value in adjusted.values())


def false_alarms(kind, how, n, count):
    """The share of tables without any dependence in which one is named."""
    alarms = 0
    for seed in range(count):
        rng = np.random.default_rng([KINDS.index(kind), CHANCES.index(how), n, seed])
        table = drawn(kind, n, rng)
        alarms += names_an_error(table.mask(hidden_by_chance(how, table.shape, rng)))
    return alarms / count


def power(kind, n_sources, n, count):
    """The share of tables in which gaps that depend on other columns are said to do so."""
    named = 0
    for seed in range(count):
        rng = np.random.default_rng([KINDS.index(kind), n_sources, n, seed])
        table = drawn(kind, n, rng)
        ranks = table.apply(lambda column: pd.Series(pd.factorize(column, sort=True)[0]).rank())
        sources = ranks[NAMES[:n_sources]]
        score = ((sources - sources.mean()) / sources.std()).sum(axis=1) / np.sqrt(n_sources)
        hidden = rng.random(table.shape) < 0.1
        hidden[:, :n_sources] &= n_sources > 1
        hidden[:, -1] = rng.random(n) < 1.0 / (1.0 + np.exp(1.0 - 0.7 * score))
        named += gap_tests(table.mask(hidden)).adjusted.get("f", 1.0) <= LEVEL
    return named / count


def alarms_in_groups(n_groups, size, count):
    """Shares of false alarms in a panel, by tests of groups and by tests of rows."""
    alarms = np.zeros(2)
    for seed in range(count):
        rng = np.random.default_rng([n_groups, size, seed])
        labels = np.repeat(np.arange(n_groups), size)
        values = rng.standard_normal((n_groups, 4))[labels]
        values = values + rng.standard_normal(values.shape)
        logits = 1.5 * rng.standard_normal((n_groups, 4))[labels] - 1.0
        hidden = rng.random(values.shape) < 1.0 / (1.0 + np.exp(-logits))
        table = pd.DataFrame(np.where(hidden, np.nan, values), columns=NAMES[:4])
        groups = mc.GaussianRows(groups=labels).groups
        alarms += [names_an_error(table, groups), names_an_error(table)]
    return alarms / count


def tables(count):
    """The lines of the three tables of the page."""
    alarms = [
        [kind, how, *(f"{false_alarms(kind, how, n, count):.3f}" for n in SIZES)]
        for kind in KINDS
        for how in CHANCES
    ]
    powers = [
        [kind, of, *(f"{power(kind, n_sources, n, count):.2f}" for n in (100, 200, 400))]
        for kind in KINDS
        for n_sources, of in ((1, "one column"), (5, "five columns"))
    ]
    panels = [
        [f"{n} of {size} rows", *(f"{share:.3f}" for share in alarms_in_groups(n, size, count))]
        for n, size in ((10, 20), (20, 15), (50, 6))
    ]
    return [
        *markdown(["columns", "gaps by chance", *(f"{n} rows" for n in SIZES)], alarms),
        "",
        *markdown(["columns", "gaps depend on", "100 rows", "200 rows", "400 rows"], powers),
        "",
        *markdown(["groups", "tests of groups", "tests of rows"], panels),
    ]


def main():
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--page", action="store_true", help="write the tables into the page")
    given = parser.parse_args()
    lines = tables(given.tables)
    print("\n".join(lines))
    if given.page:
        write_part(DOCUMENT, "gap_dependence", lines)


if __name__ == "__main__":
    main()

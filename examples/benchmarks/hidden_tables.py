"""Tables of the benchmark with hidden entries, by ``mc.datasets.hide``."""

from dataclasses import replace

import numpy as np
import pandas as pd

from mcframe.datasets import hide

__all__ = ["MECHANISMS", "hidden_alike", "hidden_by", "masked"]

# Columns that go missing together, clusters of rows, and the share of rows that skip questions.
WIDTH, CLUSTERS, SKIPPING = 3, 10, 0.3


def without(whole, cells):
    """A coded table without the marked entries."""
    return replace(whole, codes=np.where(cells, np.nan, whole.codes))


def masked(whole, share, seed):
    """The table with a share of its observed entries hidden, completely at random.

    At least two entries stay in each column and one in each row.
    """
    rng = np.random.default_rng([seed, round(100 * share)])
    return without(whole, hide(whole.codes, share, random_state=rng).cells)


def no_options(_frame, _rng):
    """No option."""
    return {}


def groups_of_columns(frame, rng):
    """All columns in random groups."""
    names = [frame.columns[place] for place in rng.permutation(frame.shape[1])]
    return {"columns": [names[k : k + WIDTH] for k in range(0, len(names), WIDTH)]}


def order_of_columns(frame, rng):
    """All columns in random order."""
    return {"columns": [frame.columns[place] for place in rng.permutation(frame.shape[1])]}


def half_of_columns(frame, rng):
    """Half of the columns, at random."""
    chosen = np.sort(rng.permutation(frame.shape[1])[: frame.shape[1] // 2])
    return {"columns": list(frame.columns[chosen])}


def question(frame, rng):
    """A column with the fewest gaps, its values that skip, and half of the others.

    Of categories the value of which the share is nearest to that of skipping rows, of numbers the
    largest ones.
    """
    gaps = frame.isna().sum()
    by = rng.choice(gaps.index[gaps == gaps.min()])
    column, others = frame[by], frame.drop(columns=by)
    if pd.api.types.is_numeric_dtype(column):
        values = sorted(set(column[column > column.quantile(1.0 - SKIPPING)]))
        values = values or [column.max()]
    else:
        shares = column.value_counts(normalize=True)
        values = [(shares - SKIPPING).abs().idxmin()]
    return {"by": {by: values}, **half_of_columns(others, rng)}


# The options of each mechanism, drawn for a table.
OPTIONS = {
    "mcar": no_options,
    "mar": no_options,
    "self-masked": no_options,
    "censored": no_options,
    "blocks": groups_of_columns,
    "skip": question,
    "monotone": order_of_columns,
    "clusters": no_options,
    "two-phase": half_of_columns,
}
MECHANISMS = tuple(OPTIONS)


def in_clusters(codes, rng):
    """The codes and a last column of clusters: tenths of the rows, in the order of a column."""
    by = codes[:, rng.integers(codes.shape[1])]
    places = np.argsort(np.argsort(np.where(np.isnan(by), np.nanmean(by), by), kind="stable"))
    return np.column_stack([codes, places * CLUSTERS // len(codes)])


def hidden_by(whole, how, share, seed):
    """The table without the entries that a mechanism hides; of "skip" the share is its own."""
    rng = np.random.default_rng([seed, MECHANISMS.index(how)])
    if how == "clusters":
        codes = in_clusters(whole.codes, rng)
        answer = hide(codes, share, how, by=codes.shape[1] - 1, random_state=rng)
        return without(whole, answer.cells[:, :-1])
    frame = whole.frame()
    shares = {} if how == "skip" else {"share": share}
    answer = hide(frame, how=how, random_state=rng, **shares, **OPTIONS[how](frame, rng))
    return without(whole, answer.cells.to_numpy())


def hidden_alike(whole, given, seed):
    """The table with as many entries of each column hidden as in a given one, but at random."""
    rng = np.random.default_rng([seed, len(MECHANISMS)])
    codes = whole.codes
    for place, count in enumerate(np.sum(np.isnan(given.codes) & ~np.isnan(codes), axis=0)):
        share = count / np.sum(~np.isnan(whole.codes[:, place]))
        codes = hide(codes, share, columns=place, random_state=rng).table if count else codes
    return replace(whole, codes=codes)

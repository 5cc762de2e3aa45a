"""Tables with hidden entries on which the mechanisms of ``mc.complete`` are switched off.

Real tables lose entries in five patterns. Drawn tables are of kinds that the real ones lack, one
or two for each mechanism: clusters, modules of a questionnaire that are left out as a whole,
follow-up questions, few rows, many columns, many classes.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from hidden_tables import hidden_by, masked
from mixed_tables import Coded, table

__all__ = ["DRAWN", "PATTERNS", "Case", "drawn_case", "real_case"]

# Rows of most drawn tables.
ROWS = 400


@dataclass(frozen=True)
class Case:
    """A table, and the same with hidden entries."""

    whole: Coded
    hidden: Coded


def with_hidden(whole, hidden, rng):
    """The table without these entries; two stay in each column and one in each row."""
    observed = ~np.isnan(whole.codes)
    hidden = hidden & observed
    for row in np.flatnonzero(observed.any(axis=1) & ~(observed & ~hidden).any(axis=1)):
        hidden[row, rng.choice(np.flatnonzero(observed[row]))] = False
    for column in range(hidden.shape[1]):
        rows = np.flatnonzero(observed[:, column])
        for row in rng.permutation(rows)[: max(0, 2 - np.sum(~hidden[rows, column]))]:
            hidden[row, column] = False
    return replace(whole, codes=np.where(hidden, np.nan, whole.codes))


# What hides entries of real tables, by name.
PATTERNS = {
    "10 %": lambda whole, seed: masked(whole, 0.1, seed),
    "30 %": lambda whole, seed: masked(whole, 0.3, seed),
    "50 %": lambda whole, seed: masked(whole, 0.5, seed),
    "by another column": lambda whole, seed: hidden_by(whole, "mar", 0.3, seed),
    "groups of columns": lambda whole, seed: hidden_by(whole, "blocks", 0.3, seed),
}


def real_case(name, pattern, seed):
    """A table of the benchmark with hidden entries."""
    whole = table(name)
    return Case(whole, PATTERNS[pattern](whole, seed))


def in_parts(numbers, count):
    """The number of the part, of so many equally large ones, that each number lies in."""
    return pd.Series(numbers).rank(method="first").sub(1).mul(count).floordiv(len(numbers))


def levels(numbers, count):
    """Ordered categories of equally many numbers."""
    return pd.Categorical(in_parts(numbers, count).astype(int).astype(str), ordered=True)


def label(numbers):
    """A category of two values by the sign."""
    return pd.Categorical(np.where(numbers > 0.0, "yes", "no"))


def category(scores):
    """The category of the largest score of each row."""
    return pd.Categorical(np.char.add("c", np.argmax(scores, axis=1).astype(str)))


def mixed_columns(rng, rows=ROWS):
    """Twelve columns of all kinds upon three common factors."""
    factors = rng.standard_normal((rows, 3))

    def number(noise=0.6):
        return factors @ rng.standard_normal(3) + noise * rng.standard_normal(rows)

    frame = {f"number {k}": number() for k in range(4)}
    frame["skewed"] = np.exp(number())
    frame |= {f"label {k}": label(number()) for k in range(2)}
    frame |= {f"level {k}": levels(number(), 5) for k in range(2)}
    for k, count in enumerate((3, 4, 6)):
        frame[f"category {k}"] = category(np.column_stack([number() for _ in range(count)]))
    return pd.DataFrame(frame)


def mixed(rng):
    """Columns of all kinds, 30 % hidden at random."""
    frame = mixed_columns(rng)
    return frame, rng.random(frame.shape) < 0.3


def clusters(rng):
    """Four clusters with covariances of their own, and the cluster's name, 20 % hidden."""
    cluster = rng.choice(4, ROWS, p=[0.4, 0.3, 0.2, 0.1])
    centres = 3.0 * rng.standard_normal((4, 6))
    roots = rng.standard_normal((4, 6, 6)) / np.sqrt(6.0)
    numbers = centres[cluster] + np.einsum(
        "nij,nj->ni", roots[cluster], rng.normal(size=(ROWS, 6))
    )
    frame = pd.DataFrame(numbers).rename(columns=str)
    frame["cluster"] = pd.Categorical(np.char.add("k", cluster.astype(str)))
    return frame, rng.random(frame.shape) < 0.2


def curves(rng):
    """Numbers on a curve with noise, and a label along it, 20 % hidden."""
    t = rng.uniform(-2.0, 2.0, ROWS)
    frame = pd.DataFrame({"x": t, "square": t**2, "sine": np.sin(2.0 * t), "size": np.abs(t)})
    frame += 0.2 * rng.standard_normal(frame.shape)
    frame["sign"] = label(np.sin(2.0 * t) + 0.3 * rng.standard_normal(ROWS))
    return frame, rng.random(frame.shape) < 0.2


def modules(rng):
    """A questionnaire of four modules, of which each row has two, drawn at random.

    The four items of a module have a factor of their own beside the one common to all.
    """
    rows = 600
    common = rng.standard_normal(rows)
    frame, left_out = {}, np.argsort(rng.random((rows, 4)), axis=1) < 2
    for module in range(4):
        shared = rng.standard_normal(rows)
        for item in range(4):
            number = 0.6 * common + 0.7 * shared + 0.5 * rng.standard_normal(rows)
            frame[f"{module}.{item}"] = number if item < 2 else levels(number, 5)
    return pd.DataFrame(frame), np.repeat(left_out, 4, axis=1)


def follow_ups(rng):
    """Four questions are asked where a label, always observed, says yes; 10 % are hidden, too."""
    frame = mixed_columns(rng)
    hidden = rng.random(frame.shape) < 0.1
    columns = [frame.columns.get_loc(name) for name in ("number 0", "number 1", "level 0")]
    columns.append(frame.columns.get_loc("category 0"))
    hidden[:, columns] |= (frame["label 0"] == "no").to_numpy()[:, None]
    hidden[:, frame.columns.get_loc("label 0")] = False
    return frame, hidden


def refusals(rng):
    """The errors of three columns are large where age is, and there they are mostly missing."""
    age = rng.standard_normal(ROWS)
    size = np.exp(0.7 * age)
    z = rng.standard_normal(ROWS)
    frame = pd.DataFrame({"age": age, "z": z + 0.3 * rng.standard_normal(ROWS)})
    frame["income"] = z + 0.5 * age + 0.6 * size * rng.standard_normal(ROWS)
    frame["wealth"] = -z + 0.6 * size * rng.standard_normal(ROWS)
    frame["ill"] = label(np.where(age > 0.0, rng.standard_normal(ROWS), -1.0) + 0.5 * z)
    hidden = rng.random(frame.shape) < 0.8 / (1.0 + np.exp(-2.0 * age))[:, None]
    hidden[:, :2] = False
    return frame, hidden


def few_rows(rng):
    """Sixteen rows of five numbers and a label, 40 % hidden."""
    factor = rng.standard_normal((16, 1))
    numbers = factor @ rng.standard_normal((1, 5)) + 0.7 * rng.standard_normal((16, 5))
    frame = pd.DataFrame(numbers).rename(columns=str)
    frame["label"] = label(factor[:, 0] - np.median(factor))
    return frame, rng.random(frame.shape) < 0.4


def many_columns(rng):
    """Sixty rows of eighty numbers upon three factors, 30 % hidden."""
    numbers = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 80))
    frame = pd.DataFrame(numbers + 0.5 * rng.standard_normal((60, 80))).rename(columns=str)
    return frame, rng.random(frame.shape) < 0.3


def many_classes(rng):
    """Fifteen places of two coordinates and fifteen parts of a number, with these, 20 % hidden."""
    city = rng.integers(15, size=600)
    place = rng.standard_normal((15, 2))[city] + 0.15 * rng.standard_normal((600, 2))
    x = rng.standard_normal(600)
    frame = pd.DataFrame(place, columns=["east", "north"])
    frame["x"] = x + 0.1 * rng.standard_normal(600)
    frame["city"] = pd.Categorical(np.char.add("c", city.astype(str)))
    parts = in_parts(x, 15).astype(int)
    frame["part"] = pd.Categorical(("p" + parts.astype(str)).to_numpy())
    return frame, rng.random(frame.shape) < 0.2


def ages(rng):
    """Schooling, years of work and the age that follows, beside others that say nothing of them.

    A fifth is hidden.
    """
    schooling, work = rng.normal(13.0, 2.6, 300), rng.gamma(2.0, 8.0, 300)
    columns = {"schooling": schooling, "work": work, "age": schooling + work + 6.0}
    columns |= {f"other {k}": rng.standard_normal(300) for k in range(10)}
    columns |= {"label": label(rng.standard_normal(300))}
    columns |= {"category": category(rng.standard_normal((300, 4)))}
    frame = pd.DataFrame(columns)
    return frame, rng.random(frame.shape) < 0.2


def cities(rng):
    """Twelve places of two coordinates alone, and 20 % of their names hidden."""
    city = rng.integers(12, size=600)
    place = rng.standard_normal((12, 2))[city] + 0.1 * rng.standard_normal((600, 2))
    frame = pd.DataFrame(place, columns=["east", "north"])
    frame["city"] = pd.Categorical(np.char.add("c", city.astype(str)))
    return frame, (rng.random(600) < 0.2)[:, None] & (frame.columns == "city")


def silent_old(rng):
    """The old are ill or not, the young are not, and the old mostly do not tell."""
    age = rng.uniform(20.0, 90.0, ROWS)
    is_old = age > 60.0
    frame = pd.DataFrame({"age": age, "weight": rng.standard_normal(ROWS)})
    frame["ill"] = label(np.where(is_old, frame["weight"] + rng.standard_normal(ROWS), -1.0))
    hidden = np.zeros(frame.shape, dtype=bool)
    hidden[:, 2] = rng.random(ROWS) < np.where(is_old, 0.7, 0.1)
    return frame, hidden


# The drawn tables: a DataFrame, and which of its entries are hidden.
DRAWN = {
    "mixed columns": mixed,
    "clusters": clusters,
    "curves": curves,
    "modules left out": modules,
    "follow-up questions": follow_ups,
    "refusals": refusals,
    "few rows": few_rows,
    "many columns": many_columns,
    "many classes": many_classes,
    "ages": ages,
    "cities": cities,
    "silent old": silent_old,
}


def drawn_case(name, seed):
    """A drawn table with hidden entries."""
    rng = np.random.default_rng([seed, list(DRAWN).index(name)])
    frame, hidden = DRAWN[name](rng)
    whole = Coded.of(name, frame)
    return Case(whole, with_hidden(whole, hidden, rng))

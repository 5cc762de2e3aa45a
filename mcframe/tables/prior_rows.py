"""How much the covariance of rows is held back, chosen by what was held out."""

from collections.abc import Sequence

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.model import Problem
from mcframe.selection.folds import Fold, Folds
from mcframe.selection.prior_rows import PriorSearch, SeenAndHeld
from mcframe.tables.as_numbers import as_numbers, with_calibration
from mcframe.tables.coding import Means
from mcframe.tables.column_scores import ColumnScores, errors_of_constant, observed
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import DeclaredColumn

__all__ = ["ChosenPrior", "choose_prior"]


@attrs.frozen(eq=False)
class ChosenPrior:
    """How many rows a prior of independent columns counts as, and what that was chosen by.

    Attributes
    ----------
    search : PriorSearch
        By the mean over columns of the squared errors of held-out entries, over the variance.
    columns : tuple of DeclaredColumn
        With probabilities that fit what was held out.
    scores : tuple of ColumnScores or None
        What was lost at the best prior, column by column.
    """

    search: PriorSearch
    columns: tuple[DeclaredColumn, ...]
    scores: tuple[ColumnScores | None, ...]

    @property
    def best_weight(self) -> float:
        """How many rows the prior with the least mean loss counts as."""
        return self.search.best_prior

    @property
    def means(self) -> Array:
        """The mean loss over folds of each prior of ``search.priors``, in the order tried."""
        return np.mean(self.search.losses, axis=1)

    def __str__(self) -> str:
        return f"a prior of {self.best_weight:g} rows"


@attrs.frozen(eq=False)
class Numbers:
    """The columns of a table that stand in a block, by number and as numbers.

    Attributes
    ----------
    columns : tuple of DeclaredColumn
        With codings as numbers.
    codes : array (n x n_columns)
        One number a value.
    values : array (n x d)
        What the block holds.
    """

    columns: tuple[DeclaredColumn, ...]
    codes: Array
    values: Array

    @classmethod
    def of(cls, columns: Sequence[DeclaredColumn], rows: IntArray | slice) -> "Numbers":
        """Some rows of the columns that stand in a block."""
        own = tuple(each for each in columns if each.place is not None)
        codes = np.column_stack([each.codes[rows] for each in own])
        values = [each.modelled[0].numbers(codes[:, k]) for k, each in enumerate(own)]
        return cls(own, codes, np.column_stack(values))

    def own(self, position: int) -> slice:
        """Which columns of the block are those of a column of the table."""
        first = self.columns[position].place
        assert first is not None
        return slice(first, first + self.columns[position].modelled[0].width)

    def loss(self, held: Mask, means: Array) -> float:
        """The mean over columns of the squared errors of held-out entries, over the variance."""
        squares = np.square(self.values - means)
        variances = np.nanvar(self.values, axis=0)
        found = []
        for position in range(len(self.columns)):
            own, here = self.own(position), held[:, position]
            if here.any() and np.sum(variances[own]) > 0.0:
                mean = np.sum(np.mean(squares[here, own], axis=0))
                found.append(mean / np.sum(variances[own]))
        return float(np.mean(found)) if found else np.nan


def choose_prior(
    declared: Declared,
    folds: Folds | None,
    rows: IntArray,
    deadline: float,
    rng: np.random.Generator,
) -> ChosenPrior:
    """Return the prior with the least loss on the held-out entries of a declared table.

    Parameters
    ----------
    declared : Declared
        By likelihoods, whose kinds say how entries are dealt out to folds.
    folds : Folds
        Of the table of these rows; None where nothing can be held out.
    rows : array of integers
        Those by which it is chosen.
    deadline : float
        By ``time.perf_counter``: one prior at least is tried.
    """
    numbers = Numbers.of(as_numbers(declared.columns), rows)
    data = {
        name: np.asarray(codes, dtype=np.float64)[rows] for name, codes in declared.data.items()
    }
    drawn = () if folds is None else folds.draw(Problem.bind(declared.model, data), data, rng)
    parts = [part_of(fold, declared, numbers) for fold in drawn]
    search, means = PriorSearch.over(parts, numbers.loss, deadline)
    columns, scores = judged(as_numbers(declared.columns), numbers, parts, means)
    return ChosenPrior(search, columns, scores)


def part_of(fold: Fold, declared: Declared, numbers: Numbers) -> SeenAndHeld:
    """Return a fold of a declared table as numbers of one block."""
    positions: dict[str, list[int]] = {name: [] for name in declared.data}
    in_blocks = [each for each in declared.columns if each.place is not None]
    for position, each in enumerate(in_blocks):
        positions[each.modelled[1]].append(position)
    held = np.zeros(numbers.codes.shape, dtype=bool)
    for name, entries in fold.held.items():
        held[entries.rows, np.array(positions[name])[entries.columns]] = True
    given = numbers.values.copy()
    for position in range(len(in_blocks)):
        given[held[:, position], numbers.own(position)] = np.nan
    if fold.known is None:
        return SeenAndHeld(given, given, held)
    fitted = [~np.isnan(np.asarray(own)).all(axis=1) for own in fold.data.values()]
    seen = np.where(np.any(fitted, axis=0)[:, None], numbers.values, np.nan)
    return SeenAndHeld(seen, given, held)


def judged(
    columns: Sequence[DeclaredColumn],
    numbers: Numbers,
    parts: Sequence[SeenAndHeld],
    means: Sequence[Array],
) -> tuple[tuple[DeclaredColumn, ...], tuple[ColumnScores | None, ...]]:
    """Return all columns, their probabilities fitted to what was held out, and what was lost."""
    found: list[DeclaredColumn] = []
    scores: list[ColumnScores | None] = []
    positions = iter(range(len(numbers.columns)))
    for each in columns:
        position = None if each.place is None else next(positions)
        if position is None or not parts:
            found.append(each)
            scores.append(None)
            continue
        codes, own = numbers.codes[:, position], numbers.own(position)
        held = [part.held[:, position] for part in parts]
        hidden = np.concatenate([codes[here] for here in held])
        predicted = np.concatenate([at[here, own] for at, here in zip(means, held, strict=True)])
        constant = sum(
            errors_of_constant(each.modelled[0], np.where(here, np.nan, codes), codes[here])
            for here in held
        )
        found.append(with_calibration(each, hidden, predicted))
        scores.append(scores_of(found[-1], codes, hidden, predicted, constant))
    return tuple(found), tuple(scores)


def scores_of(
    column: DeclaredColumn, codes: Array, held: Array, means: Array, constant: float
) -> ColumnScores | None:
    """Return what was lost on the held-out codes of a column; None where none was held out."""
    coding = column.modelled[0]
    if not held.size:
        return None
    assert isinstance(coding, Means)
    answer = coding.read(means)
    least = coding.loss_of_constant(observed(codes))
    loss = float(np.mean(coding.losses(answer, held)))
    return ColumnScores(
        loss=loss / least if least > 0.0 else np.nan,
        error=coding.error(float(np.mean(coding.errors(coding.predicted(answer), held)))),
        error_of_constant=coding.error(constant / held.size),
        n_held=int(held.size),
    )

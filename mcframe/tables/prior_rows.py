"""How much the covariance of rows is held back, chosen by what was held out."""

from collections.abc import Sequence

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.model import Problem
from mcframe.numerics.gaussian_rows import left_out_means
from mcframe.selection.folds import Fold, folds_of
from mcframe.selection.prior_rows import PriorSearch, SeenAndHeld
from mcframe.selection.splitters import Splitter
from mcframe.tables.as_numbers import (
    as_numbers,
    calibrated,
    constant_everywhere,
    filled_by_constant,
)
from mcframe.tables.coding import Choice, Means
from mcframe.tables.column_scores import ColumnScores, constant_answer, observed
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.missingness import Missingness

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

    @property
    def owners(self) -> IntArray:
        """The position of the column of the table to which each column of the block belongs."""
        widths = [each.modelled[0].width for each in self.columns]
        return np.repeat(np.arange(len(widths)), widths)

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
    folds: Splitter | None,
    rows: IntArray,
    most: int,
    rng: np.random.Generator,
) -> ChosenPrior:
    """Return the prior with the least loss on the held-out entries of a declared table.

    Parameters
    ----------
    declared : Declared
        By likelihoods, whose kinds say how entries are dealt out to folds.
    folds : Splitter
        Of the table of these rows; None where nothing can be held out.
    rows : array of integers
        Those by which it is chosen.
    most : int
        How many priors are tried at most.
    """
    numbers = Numbers.of(as_numbers(declared.columns), rows)
    data = {
        name: np.asarray(codes, dtype=np.float64)[rows] for name, codes in declared.data.items()
    }
    problem = Problem.bind(declared.model, data)
    drawn = () if folds is None else folds_of(folds, problem, data, rng)
    parts = [part_of(fold, declared, numbers) for fold in drawn]
    search, best = PriorSearch.over(parts, numbers.loss, most)
    owners = numbers.owners
    means = [
        part.natural(left_out_means(part.standard(numbers.values), own, owners))
        for part, own in zip(parts, best, strict=True)
    ]
    columns, scores = judged(
        as_numbers(declared.columns),
        numbers,
        [part.held for part in parts],
        means,
        Missingness.of_columns(numbers.values, owners, rng),
    )
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
    held: Sequence[Mask],
    means: Sequence[Array],
    holes: Sequence[Missingness],
) -> tuple[tuple[DeclaredColumn, ...], tuple[ColumnScores | None, ...]]:
    """Return all columns, their probabilities fitted to what was held out, and what was lost.

    Parameters
    ----------
    held : sequence of masks (n x n_columns)
        What each fold holds out.
    means : sequence of arrays (n x d)
        Of each number given the others of its row, by what each fold has fitted.
    holes : sequence of Missingness
        Of each column that stands in a block.
    """
    found: list[DeclaredColumn] = []
    scores: list[ColumnScores | None] = []
    positions = iter(range(len(numbers.columns)))
    for each in columns:
        position = None if each.place is None else next(positions)
        if position is None or not any(here[:, position].any() for here in held):
            found.append(each)
            scores.append(None)
            continue
        own = HeldOut(
            numbers.codes[:, position],
            [here[:, position] for here in held],
            [at[:, numbers.own(position)] for at in means],
            holes[position],
        )
        assert isinstance(each.modelled[0], Means)
        coding, own_scores = own.calibrated_and_scored(each.modelled[0])
        found.append(attrs.evolve(each, taken=attrs.evolve(each.taken, coding=coding)))
        scores.append(own_scores)
    return tuple(found), tuple(scores)


@attrs.frozen(eq=False)
class HeldOut:
    """What was held out of a column, and what was predicted of it.

    Attributes
    ----------
    codes : array (n,)
    held : sequence of masks (n,)
        Fold by fold.
    means : sequence of arrays (n x width of the coding)
    holes : Missingness
    """

    codes: Array
    held: Sequence[Mask]
    means: Sequence[Array]
    holes: Missingness

    def fitted(self, coding: Means, folds: Sequence[int]) -> Means:
        """The coding, its probabilities fitted to what these folds held out."""
        codes = [self.codes[self.held[k]] for k in folds]
        means = [self.means[k][self.held[k]] for k in folds]
        return (
            calibrated(coding, np.concatenate(codes), np.concatenate(means)) if codes else coding
        )

    def calibrated_and_scored(self, coding: Means) -> tuple[Means, ColumnScores]:
        """The coding, fitted to all that was held out, and what was lost.

        What is lost of a fold is by a coding that was fitted to the others. Probabilities that
        lose more than those of the constant are the constant's, and values that are farther off
        than the best constant are that one.
        """
        folds = range(len(self.held))
        known = observed(self.codes)
        sums = np.zeros(4)
        n_held = 0
        for k in folds:
            here = self.held[k]
            hidden, left = self.codes[here], observed(np.where(here, np.nan, self.codes))
            own = self.fitted(coding, [other for other in folds if other != k])
            answer = own.read(self.means[k][here])
            constant = coding.constant(left if left.size else hidden)
            lost = (
                own.losses(answer, hidden),
                coding.losses(constant_answer(coding, known, hidden.size), hidden),
                own.errors(own.predicted(answer), hidden),
                coding.errors(np.full(hidden.size, constant), hidden),
            )
            sums += np.array(lost) @ self.holes.weights[here]
            n_held += hidden.size
        found = self.fitted(coding, folds)
        if isinstance(coding, Choice):
            if sums[0] > sums[1]:
                found, sums[0], sums[2] = constant_everywhere(coding, known), sums[1], sums[3]
            elif sums[2] > sums[3]:
                found, sums[2] = filled_by_constant(found, known), sums[3]
        weight = sum(float(np.sum(self.holes.weights[here])) for here in self.held)
        return found, ColumnScores(
            loss=float(sums[0] / sums[1]) if sums[1] > 0.0 else np.nan,
            error=coding.error(float(sums[2] / weight)),
            error_of_constant=coding.error(float(sums[3] / weight)),
            n_held=n_held,
            auc_of_holes=self.holes.auc,
            weighted=self.holes.is_told,
        )

"""Intervals and sets that hold jointly for all missing entries of a row, given which they are.

Rows are held out in folds, and a posterior without them is conditioned on what is observed of
each. The entries that are missing in one row are hidden in the other rows before these are
predicted (missing data augmentation; Zaffran, Dieuleveut, Josse and Romano, Conformal prediction
with missing values, ICML 2023), or as many entries drawn at random (Liang, Zhou and Sesia,
Structured conformal inference for matrix completion, 2024). The largest score of the hidden
entries of a row is the score of the row.
"""

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np
from scipy.special import gammaln, ndtri

from mcframe.contracts.arrays import (
    Array,
    InFormOfData,
    IntArray,
    Mask,
    Pairs,
    Positions,
    is_interval,
)
from mcframe.contracts.errors import DataError, ModelError, UnobservedWarning, warn_caller
from mcframe.contracts.likelihood import Likelihood, has_probabilities
from mcframe.contracts.limits import BATCH_NUMBERS
from mcframe.contracts.validators import Options, RandomState, counted, is_word, suggest_options
from mcframe.fitting.prediction import Cells
from mcframe.model import Problem
from mcframe.model.held_out import dealt, entries_as_data, observed_entries
from mcframe.model.model import Observations
from mcframe.model.table import Table
from mcframe.posterior.conformal import (
    DEFAULT_FOLDS,
    VALUES_THAT_LACK,
    FoldScores,
    Missingness,
    PosteriorOf,
    WeightedScores,
    check_entries_of,
    distances,
    given_odds,
    least_scores,
    moments,
    option_of_block,
    possible_values,
)
from mcframe.runtime.progress import Progress, stage

if TYPE_CHECKING:
    from mcframe.posterior.answer import Posterior

# What is hidden in other rows: the entries that are missing in a row, or as many of any columns.
MASK, SIZE = "mask", "size"
# So many rows of a fold have scores for one kind of rows with gaps, at most: quantiles of more are
# hardly more exact, and each row is predicted once for each kind.
MOST_ROWS = 1000


def answer_of(likelihood: Likelihood) -> str:
    """The answer for entries of a likelihood: "set" of those of few values, else "interval"."""
    is_choice = likelihood.values is not None and has_probabilities(likelihood)
    return "set" if is_choice else "interval"


def scores_of_values(probabilities: Array) -> Array:
    """The scores of values (..., V) by their probabilities, on the scale of |y - mean| / sd.

    With the probability p of the value and of all less probable ones it is the z for which
    P(|N(0, 1)| >= z) = p: 0 of the most probable value, about 1.96 where p is .05.
    """
    n_values = probabilities.shape[-1]
    tails = np.zeros_like(probabilities)
    for value in range(n_values):  # the probability of this value and of less probable ones
        other = probabilities[..., value, None]
        tails[..., value] = np.sum(np.where(probabilities <= other, probabilities, 0.0), axis=-1)
    return -ndtri(0.5 * np.minimum(tails, 1.0))


@attrs.frozen(eq=False)
class ModelRows:
    """The observed entries of all blocks of a model, side by side.

    Attributes
    ----------
    problem : Problem
    tables : dict from block name to Table
        In the units of the data.
    values : array (n x columns of all blocks)
        NaN where missing, or where limits are all that is known.
    """

    problem: Problem
    tables: Mapping[str, Table]
    values: Array

    @classmethod
    def of(cls, problem: Problem) -> "ModelRows":
        """The rows of a problem."""
        tables = observed_entries(problem)
        values = np.full((problem.n_items, sum(t.shape[1] for t in tables.values())), np.nan)
        rows = cls(problem, tables, values)
        for name, columns in rows.columns.items():
            table = tables[name]
            exact = np.where(is_interval(table.observations), np.nan, table.values)
            values[table.rows, columns.start + table.columns] = exact
        return rows

    @property
    def columns(self) -> dict[str, slice]:
        """The columns of each block among those of all."""
        ends = np.cumsum([table.shape[1] for table in self.tables.values()])
        return {
            name: slice(int(end) - table.shape[1], int(end))
            for (name, table), end in zip(self.tables.items(), ends, strict=True)
        }

    @property
    def observed(self) -> Mask:
        """The observed entries (n x columns of all blocks)."""
        return ~np.isnan(self.values)

    def data(self, rows: IntArray, hidden: Mask | None = None) -> dict[str, Observations]:
        """The data of some rows, without those of their entries that are hidden."""
        data = {}
        for name, columns in self.columns.items():
            table = self.tables[name].rows_at(rows)
            if hidden is not None:
                table = table.select(~hidden[:, columns][table.rows, table.columns])
            data[name] = entries_as_data(table, self.problem.model.block(name).likelihood.width)
        return data

    def log_odds(self, missingness: Missingness) -> Array:
        """The logarithms of the odds of being missing, one for each entry."""
        log_odds = np.zeros(self.values.shape)
        for name, columns in self.columns.items():
            option = option_of_block(missingness, name, "missingness")
            if is_word(option, "uniform"):
                continue
            if isinstance(option, str):
                raise ModelError(
                    f"missingness={option!r} was given for block {name!r}; for whole rows"
                    " 'uniform' or the probabilities of being missing are needed"
                )
            shape = self.tables[name].shape
            of_cells = given_odds(name, option, shape)
            cells = tuple(places.ravel() for places in np.indices(shape))
            log_odds[:, columns] = np.log(of_cells(*cells)).reshape(shape)
        return log_odds


@attrs.frozen(eq=False)
class HiddenGroups:
    """The groups of entries that are hidden in other rows, for each kind of row with gaps.

    Attributes
    ----------
    kinds : array of integers (n,)
        The kind of each row, -1 of rows without gaps.
    patterns : mask (number of kinds x columns) or None
        The columns of each kind's group, where all rows have the same.
    sizes : array of integers (number of kinds,)
        The number of entries of a group.
    order : array of integers (n x columns) or None
        Where groups are drawn, the observed columns of each row in the order in which they are.
    n_observed : array of integers (n,)
    observed : mask (n x columns)
    """

    kinds: IntArray
    patterns: Mask | None
    sizes: IntArray
    order: IntArray | None
    n_observed: IntArray
    observed: Mask

    @classmethod
    def of(cls, observed: Mask, groups: str, rng: np.random.Generator) -> "HiddenGroups":
        """The groups of a table, by the masks of its rows or by their sizes."""
        missing, n_observed = ~observed, np.count_nonzero(observed, axis=1)
        with_gaps = np.flatnonzero(missing.any(axis=1))
        kinds = np.full(len(observed), -1)
        if groups == MASK:
            patterns, numbers = np.unique(missing[with_gaps], axis=0, return_inverse=True)
            kinds[with_gaps] = numbers.ravel()
            sizes = np.count_nonzero(patterns, axis=1)
            return cls(kinds, patterns, sizes, None, n_observed, observed)
        counts = observed.shape[1] - n_observed
        sizes, numbers = np.unique(counts[with_gaps], return_inverse=True)
        kinds[with_gaps] = numbers.ravel()
        draws = np.where(observed, rng.random(observed.shape), 2.0)
        return cls(kinds, None, sizes, np.argsort(draws, axis=1), n_observed, observed)

    @property
    def has_gaps(self) -> Mask:
        """The rows with gaps."""
        return self.kinds >= 0

    def candidates(self, kind: int) -> IntArray:
        """The rows in which the group of a kind can be hidden."""
        if self.patterns is None:
            return np.flatnonzero(self.n_observed >= self.sizes[kind])
        return np.flatnonzero(self.observed[:, self.patterns[kind]].all(axis=1))

    def hidden(self, rows: IntArray, kinds: IntArray) -> Mask:
        """The entries to hide in some rows, for these kinds (len(rows) x columns)."""
        if self.patterns is not None:
            return np.asarray(self.patterns[kinds])
        assert self.order is not None
        hidden: Mask = np.zeros((rows.size, self.observed.shape[1]), dtype=bool)
        chosen = np.arange(hidden.shape[1]) < self.sizes[kinds][:, None]
        np.put_along_axis(hidden, self.order[rows], chosen, axis=1)
        return hidden


@attrs.frozen(eq=False)
class MissingCells:
    """The predictions of the missing entries of a block by the posteriors of the folds.

    Attributes
    ----------
    rows, columns : arrays of integers (N,)
        The entries, row by row.
    answers : list of arrays
        Means and standard deviations (folds x N) of numbers; of others the scores of their values
        (folds x N x V).
    """

    rows: IntArray
    columns: IntArray
    answers: list[Array]


@attrs.frozen(eq=False, repr=False)
class JointPredictions:
    """Intervals and sets of all missing entries of a row: the answer of ``conformalize_jointly``.

    Attributes
    ----------
    posterior : Posterior
        That of all rows.
    confidence_level : float
        The level that is used if none is given.
    groups : str
        "mask" or "size".
    n_folds : int
    cells : dict from block name to MissingCells
    kinds : array of integers (n,)
        The number of its scores for each row, -1 of rows without gaps.
    scores : tuple of FoldScores
    odds : array (n,)
        The odds of each row, relative to those of its scores.
    rows : ModelRows
    """

    posterior: "Posterior"
    confidence_level: float
    groups: str
    n_folds: int
    cells: Mapping[str, MissingCells]
    kinds: IntArray
    scores: tuple[FoldScores, ...]
    odds: Array
    rows: ModelRows

    def interval(
        self,
        block: str,
        level: float | None = None,
        rows: Positions = None,
        columns: Positions = None,
        *,
        pairs: Pairs = None,
    ) -> tuple[InFormOfData, InFormOfData]:
        """Lower and upper ends: of every entry, at positions from 0, or at ``pairs`` of labels.

        Of an observed entry both are its value. They are infinite where too few rows can stand
        for the row, or the ends of what is possible.

        Raises
        ------
        ModelError
            If the block has labels, levels or classes.
        """
        cells, level = self._asked(block, "interval", level, rows, columns, pairs)
        values, missing = self._values(block), self.cells[block]
        lower, upper = values.copy(), values.copy()
        means, deviations = missing.answers
        ends = np.full((2, missing.rows.size), np.inf)
        for scores, members in self._by_scores(missing):
            odds = self.odds[missing.rows[members]]
            of_members = means[:, members], deviations[:, members]
            ends[:, members] = scores.interval(level, odds, *of_members)
        low, high = possible_values(self.posterior, block, ends)
        lower[missing.rows, missing.columns] = low
        upper[missing.rows, missing.columns] = high
        at = cells.rows, cells.columns
        return cells.form(lower[at]), cells.form(upper[at])

    def set(
        self,
        block: str,
        level: float | None = None,
        rows: Positions = None,
        columns: Positions = None,
        *,
        pairs: Pairs = None,
    ) -> Mask:
        """Sets of labels, levels or classes: of every entry, at positions, or at ``pairs``.

        In the shape of ``Posterior.set``. Of an observed entry the set has its value alone. The
        most probable value is always in the set.

        Raises
        ------
        ModelError
            If the block has numbers or counts.
        """
        cells, level = self._asked(block, "set", level, rows, columns, pairs)
        values, missing = self._values(block), self.cells[block]
        possible = self.posterior.model.block(block).likelihood.values
        assert possible is not None
        chosen = np.asarray(values[:, :, None] == possible)
        [of_values] = missing.answers
        of_missing = np.zeros(of_values.shape[1:], dtype=bool)
        for scores, members in self._by_scores(missing):
            odds = self.odds[missing.rows[members]]
            of_missing[members] = scores.chosen(level, odds, of_values[:, members])
        likeliest = np.argmin(np.mean(of_values, axis=0), axis=1)
        of_missing[np.arange(len(of_missing)), likeliest] = True
        chosen[missing.rows, missing.columns] = of_missing
        asked = chosen[cells.rows, cells.columns].astype(np.float64)
        return np.asarray(cells.array(asked) > 0.0)

    def _values(self, block: str) -> Array:
        """The entries of a block, NaN where missing."""
        return self.rows.values[:, self.rows.columns[block]]

    def _by_scores(self, missing: MissingCells) -> Iterator[tuple[FoldScores, IntArray]]:
        """The scores of rows with the missing entries of a block, and these entries."""
        numbers = self.kinds[missing.rows]
        order = np.argsort(numbers, kind="stable")
        starts = np.searchsorted(numbers[order], np.arange(len(self.scores) + 1))
        for number, scores in enumerate(self.scores):
            members = order[starts[number] : starts[number + 1]]
            if members.size:
                yield scores, members

    def _asked(
        self,
        block: str,
        kind: str,
        level: float | None,
        rows: Positions,
        columns: Positions,
        pairs: Pairs,
    ) -> tuple[Cells, float]:
        """The cells that are asked for, and the level."""
        problem = self.posterior.problem
        answer = answer_of(problem.model.block(block).likelihood)
        if kind != answer:
            values = VALUES_THAT_LACK[kind].replace("labels or", "labels, levels or")
            raise ModelError(
                f"block {block!r} has {values} and no joint {kind}; take .{answer}({block!r})"
            )
        level = self.confidence_level if level is None else Options.level(level)
        return Cells.of(problem, problem.tables, block, rows, columns, pairs), level

    def __repr__(self) -> str:
        n_rows, n_infinite = int(np.count_nonzero(self.kinds >= 0)), self._n_infinite
        lines = [
            f"JointPredictions: level {self.confidence_level:g}, by {self.groups}",
            f"  {counted(n_rows, 'row')} with gaps in {self.n_folds} folds;"
            f" {n_infinite} without finite intervals",
        ]
        return "\n".join(lines)

    @property
    def _n_infinite(self) -> int:
        """The number of rows for which there are too few scores."""
        least = least_scores(self.confidence_level)
        few = np.array([scores.effective_size < least for scores in self.scores], dtype=bool)
        return int(np.count_nonzero(few[self.kinds[self.kinds >= 0]]))


suggest_options(JointPredictions, methods=True)


def joint_predictions(
    posterior: "Posterior",
    posterior_of: PosteriorOf,
    confidence_level: float,
    missingness: Missingness,
    groups: str,
    folds: int | str,
    random_state: RandomState,
    progress: bool | None,
) -> JointPredictions:
    """Return joint intervals and sets of a ``Posterior``, as its ``conformalize_jointly`` says.

    ``posterior_of`` is as ``conformal_predictions`` takes it.
    """
    level, groups = Options.confidence_level(confidence_level), Options.row_groups(groups)
    seed, problem = Options.random_state(random_state), posterior.problem
    n_folds = None if is_word(folds, "auto") else Options.row_folds(folds)
    check_entries_of(posterior)
    rng, rows = np.random.default_rng(seed), ModelRows.of(problem)
    log_odds, n_rows = rows.log_odds(missingness), problem.n_items
    if n_rows < 2:
        raise DataError("of one row none can be held out; two at least are needed")
    hidden_groups = HiddenGroups.of(rows.observed, groups, rng)
    shuffled, counts = rng.permutation(n_rows), hidden_groups.n_observed

    def dealt_rows(n_parts: int) -> IntArray:
        parts = np.empty(n_rows, dtype=np.intp)
        parts[shuffled] = dealt(counts[shuffled], n_parts)
        return parts

    candidates = [hidden_groups.candidates(kind) for kind in range(hidden_groups.sizes.size)]
    if n_folds is None:
        n_folds = 2 if halves_suffice(candidates, dealt_rows(2), level) else DEFAULT_FOLDS // 2
    n_folds = min(n_folds, n_rows)
    part = dealt_rows(n_folds)
    with (
        stage("conformalize", Options.progress(progress)) as display,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UnobservedWarning)
        scorer = RowScorer(posterior, posterior_of, rows, hidden_groups, log_odds, part)
        answer = scorer.predictions(level, groups, candidates, display)
    if answer._n_infinite:
        needed = int(np.ceil(least_scores(level)))
        remedy = "; groups='size' takes rows with other gaps, too" * (groups == MASK)
        warn_caller(
            f"{counted(answer._n_infinite, 'row')} of {np.count_nonzero(answer.kinds >= 0)} with"
            f" gaps have infinite intervals: fewer than {needed} rows in which the same entries"
            f" are observed can stand for them at the level {level:g}{remedy}"
        )
    return answer


def halves_suffice(candidates: list[IntArray], part: IntArray, level: float) -> bool:
    """True if no rows with gaps have more than half of the table to thank for finite intervals."""
    least = least_scores(level)
    for rows in candidates:
        if rows.size >= least and np.min(np.bincount(part[rows], minlength=2)) < least:
            return False
    return True


@attrs.frozen(eq=False)
class RowScorer:
    """Rows that are held out in folds, their groups of hidden entries, and the scores of these.

    With two folds a row with gaps and those that stand for it are of one fold, and the posterior
    is that of the other fold. With more, the posterior is without both folds of two rows that are
    compared.

    Attributes
    ----------
    posterior : Posterior
        Of all rows.
    posterior_of : function
    rows : ModelRows
    groups : HiddenGroups
    log_odds : array (n x columns)
    part : array of integers (n,)
        The fold of each row.
    """

    posterior: "Posterior"
    posterior_of: PosteriorOf
    rows: ModelRows
    groups: HiddenGroups
    log_odds: Array
    part: IntArray

    def without(self, folds: tuple[int, int]) -> "Posterior":
        """The posterior of the rows of other folds."""
        remaining = np.flatnonzero(~np.isin(self.part, folds))
        options = self.posterior.options.copy()
        if not isinstance(options["factors"], str):
            options["factors"] = min(options["factors"], remaining.size)
        return self.posterior_of(
            self.rows.problem.model,
            self.rows.data(remaining),
            self.posterior.random_state,
            options,
        )

    def predictions(
        self,
        level: float,
        groups: str,
        candidates: list[IntArray],
        display: Progress,
    ) -> JointPredictions:
        """Scores of hidden groups, and predictions of missing entries, by all posteriors."""
        n_folds = int(self.part.max()) + 1
        is_split = n_folds <= 2
        pairs = [
            (a, b) for a in range(n_folds) for b in range(a, n_folds) if a == b or not is_split
        ]
        n_answers = 1 if is_split else n_folds
        cells = {
            name: self.missing_cells(name, columns, n_answers)
            for name, columns in self.rows.columns.items()
        }
        numbers: dict[tuple[int, int], int] = {}
        for fold, kind in zip(self.part, self.groups.kinds, strict=True):
            if kind >= 0:
                numbers.setdefault((int(fold), int(kind)), len(numbers))
        logs = self.log_weights(np.arange(len(self.part)), ~self.groups.observed)
        largest = np.full(len(numbers), -np.inf)
        scores: dict[tuple[int, int], list[tuple[Array, Array]]] = {key: [] for key in numbers}
        for count, (a, b) in enumerate(pairs):
            remaining = self.without((a, b))
            for of_gaps, of_scores in dict.fromkeys([(a, b), (b, a)]):
                number = 0 if is_split else of_scores
                self.predict_gaps(remaining, of_gaps, number, cells)
                for kind, values, log_weights in self.scores_of_groups(
                    remaining, of_gaps, of_scores, candidates
                ):
                    scores[of_gaps, kind].append((values, log_weights))
            display.count(count + 1, len(pairs), "posteriors")
        of_rows = np.full(len(self.part), -1)
        for row in np.flatnonzero(self.groups.has_gaps):
            of_rows[row] = numbers[int(self.part[row]), int(self.groups.kinds[row])]
            largest[of_rows[row]] = max(largest[of_rows[row]], logs[row])
        weighted = []
        for key, place in numbers.items():
            tops = [np.max(log_weights, initial=-np.inf) for _, log_weights in scores[key]]
            largest[place] = max([largest[place], *tops])
            weighted.append(
                FoldScores(
                    tuple(
                        WeightedScores.of(values, np.exp(log_weights - largest[place]))
                        for values, log_weights in scores[key]
                    )
                )
            )
        odds = np.where(of_rows >= 0, np.exp(logs - np.append(largest, 0.0)[of_rows]), 1.0)
        return JointPredictions(
            *(self.posterior, level, groups, n_folds, cells, of_rows, tuple(weighted), odds),
            self.rows,
        )

    def missing_cells(self, name: str, columns: slice, n_answers: int) -> MissingCells:
        """The missing entries of a block, with answers that are still empty."""
        likelihood = self.rows.problem.model.block(name).likelihood
        rows, places = np.nonzero(~self.groups.observed[:, columns])
        if answer_of(likelihood) == "interval":
            return MissingCells(rows, places, [np.zeros((n_answers, rows.size)) for _ in range(2)])
        assert likelihood.values is not None
        return MissingCells(
            rows, places, [np.zeros((n_answers, rows.size, likelihood.values.size))]
        )

    def log_weights(self, rows: IntArray, hidden: Mask) -> Array:
        """The logarithms of the weights of rows, with these entries hidden (len(rows) x columns).

        The probability that these entries of the row are missing and all others observed, over the
        probability with which the row has a score: that they are observed, and of drawn entries
        that they are chosen among the observed ones, of which there are as many as expected.
        """
        log_odds = self.log_odds[rows]
        log_observed = -np.logaddexp(0.0, log_odds)
        weights = np.sum(np.where(hidden, log_odds, log_observed), axis=1)
        if self.groups.patterns is None:
            sizes = np.count_nonzero(hidden, axis=1)
            others = np.sum(np.exp(log_observed), axis=1, where=~hidden)
            weights += gammaln(sizes + others + 1.0) - gammaln(others + 1.0) - gammaln(sizes + 1.0)
        return np.asarray(weights)

    def predict_gaps(
        self, remaining: "Posterior", fold: int, number: int, cells: Mapping[str, MissingCells]
    ) -> None:
        """Write answers at the missing entries of a fold, by a posterior without its rows."""
        rows = np.flatnonzero((self.part == fold) & self.groups.has_gaps)
        for batch in self.batches(rows.size):
            conditioned = remaining.condition(self.rows.data(rows[batch]))
            places = np.full(len(self.part), -1)
            places[rows[batch]] = np.arange(rows[batch].size)
            for name, missing in cells.items():
                members = np.flatnonzero(places[missing.rows] >= 0)
                at = places[missing.rows[members]], missing.columns[members]
                if not members.size:
                    continue
                if answer_of(self.rows.problem.model.block(name).likelihood) == "interval":
                    for answer, moment in zip(
                        missing.answers, moments(conditioned, name, *at), strict=True
                    ):
                        answer[number, members] = moment
                else:
                    probabilities = conditioned.probabilities(name, *at)
                    missing.answers[0][number, members] = scores_of_values(probabilities)

    def scores_of_groups(
        self,
        remaining: "Posterior",
        fold: int,
        of_scores: int,
        candidates: list[IntArray],
    ) -> Iterator[tuple[int, Array, Array]]:
        """Each kind of rows with gaps in a fold, with scores and log odds of rows of another."""
        kinds = np.unique(self.groups.kinds[(self.part == fold) & self.groups.has_gaps])
        rows_of_kinds = []
        for kind in kinds:
            rows = candidates[kind]
            rows = rows[self.part[rows] == of_scores]
            if rows.size > MOST_ROWS:
                rows = np.random.default_rng((fold, int(kind))).choice(rows, MOST_ROWS, False)
            rows_of_kinds.append(rows)
        if not kinds.size:
            return
        rows = np.concatenate(rows_of_kinds)
        of_kind = np.repeat(kinds, [of_one.size for of_one in rows_of_kinds])
        scores, log_weights = np.zeros(rows.size), np.zeros(rows.size)
        for batch in self.batches(rows.size):
            hidden = self.groups.hidden(rows[batch], of_kind[batch])
            scores[batch] = self.largest_scores(remaining, rows[batch], hidden)
            log_weights[batch] = self.log_weights(rows[batch], hidden)
        for kind in kinds:
            yield int(kind), scores[of_kind == kind], log_weights[of_kind == kind]

    def largest_scores(self, remaining: "Posterior", rows: IntArray, hidden: Mask) -> Array:
        """The largest score of the hidden entries of each row."""
        conditioned, largest = (
            remaining.condition(self.rows.data(rows, hidden)),
            np.zeros(rows.size),
        )
        for name, columns in self.rows.columns.items():
            at = np.nonzero(hidden[:, columns])
            if not at[0].size:
                continue
            values = self.rows.values[:, columns][rows[at[0]], at[1]]
            likelihood = self.rows.problem.model.block(name).likelihood
            if answer_of(likelihood) == "interval":
                scores = distances(values, *moments(conditioned, name, *at))
            else:
                of_values = scores_of_values(conditioned.probabilities(name, *at))
                assert likelihood.values is not None
                chosen = np.searchsorted(likelihood.values, values)
                scores = of_values[np.arange(chosen.size), chosen]
            np.maximum.at(largest, at[0], scores)
        return largest

    def batches(self, n_rows: int) -> Iterator[slice]:
        """Parts of so many rows, whose entries fit into memory."""
        size = max(1, BATCH_NUMBERS // self.log_odds.shape[1])
        for start in range(0, n_rows, size):
            yield slice(start, start + size)

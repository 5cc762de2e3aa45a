"""Intervals and sets that hold when the model does not: weighted conformal prediction.

Entries are held out once (split conformal prediction), or all of them in folds, each scored by a
posterior without its fold (CV+; Barber, Candès, Ramdas and Tibshirani, Predictive inference with
the jackknife+, Annals of Statistics 2021).
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np
from numpy.typing import ArrayLike

from mcframe.contracts.arrays import Array, InFormOfData, IntArray, Mask, Pairs, Positions
from mcframe.contracts.errors import DataError, ModelError, UnobservedWarning
from mcframe.contracts.likelihood import ValueKind, has_probabilities
from mcframe.contracts.limits import BISECTIONS
from mcframe.contracts.pictures import Pictured
from mcframe.contracts.rounding import EPS, SUM_ROUNDING
from mcframe.contracts.validators import Options, RandomState, a_type, is_word, suggest_options
from mcframe.fitting.prediction import Cells, check_size
from mcframe.likelihoods import Bernoulli
from mcframe.model import Block, Model
from mcframe.model.held_out import (
    Held,
    HeldOut,
    by_content,
    dealt,
    entries_as_data,
    observed_entries,
)
from mcframe.model.table import Table
from mcframe.posterior.estimation import PosteriorOptions
from mcframe.regularizers import NuclearNorm
from mcframe.runtime.progress import stage

if TYPE_CHECKING:  # what the pictures are; nothing of them is needed to run
    from mcframe.plots.of_answers import ConformalPictures
    from mcframe.posterior.answer import Posterior

Odds = Callable[[IntArray, IntArray], Array]
#: A posterior of a model, data, seed and options.
PosteriorOf = Callable[[Model, Mapping[str, object], int, PosteriorOptions], "Posterior"]
#: "uniform", "rank1", "bernoulli" or probabilities of being missing; or these by block.
Missingness: TypeAlias = ArrayLike | Mapping[str, ArrayLike]
#: "block", "column" or a label of each column; or these by block.
Groups: TypeAlias = ArrayLike | Mapping[str, ArrayLike]

# Estimated probabilities of being observed are at most this: odds of being missing would otherwise
# be 0, by the error of their estimate alone.
LARGEST_OBSERVED_PROBABILITY = 0.995
# Factors of the logistic model of which cells are observed.
MISSINGNESS_FACTORS = 2
# Folds, if no number is given and the entries that one share holds out are too few.
DEFAULT_FOLDS = 10
# The values of blocks that have no intervals, and of those that have no sets.
VALUES_THAT_LACK = {"interval": "labels or classes", "set": "numbers"}


@attrs.frozen(eq=False)
class WeightedScores:
    """Scores of held-out entries of a fold in ascending order, and their odds of being missing."""

    values: Array
    odds: Array

    @classmethod
    def of(cls, values: Array, odds: Array) -> "WeightedScores":
        """The scores of these entries, sorted."""
        order = np.argsort(values, kind="stable")
        return cls(values[order], odds[order])

    def odds_up_to(self, limits: Array, *, inclusive: bool) -> Array:
        """The sum of the odds of the scores below some limits, or up to these."""
        sums = np.concatenate([[0.0], np.cumsum(self.odds)])
        return sums[np.searchsorted(self.values, limits, "right" if inclusive else "left")]


@attrs.frozen(eq=False)
class FoldScores:
    """The scores of one group of entries, fold by fold.

    The scores of a fold come from the posterior without it. A posterior that is asked for a cell
    has a mean and a deviation of its own in each fold, and so every held-out entry says where the
    ends of the interval of that cell would lie, were it like this entry.
    """

    folds: tuple[WeightedScores, ...]

    @property
    def size(self) -> int:
        """The number of held-out entries."""
        return sum(scores.values.size for scores in self.folds)

    @property
    def effective_size(self) -> float:
        """The number of equally weighted entries that say as much."""
        odds = np.concatenate([scores.odds for scores in self.folds])
        squares = float(np.sum(np.square(odds)))
        return float(np.sum(odds)) ** 2 / squares if squares else 0.0

    def needed(self, level: float, odds: Array) -> Array:
        """The sum of odds that is ``level`` of all of them, those of each cell included."""
        total = sum(float(np.sum(scores.odds)) for scores in self.folds)
        return level * (total + odds) * (1.0 - SUM_ROUNDING)

    def upper(self, level: float, odds: Array, means: Array, deviations: Array) -> Array:
        """Upper ends at cells of these odds, with means and deviations of each fold (folds x N).

        The weighted quantile of ``mean + deviation * score`` over all scores and one at infinity:
        the least one up to which the odds sum up to at least ``level`` of all of them, those of
        the cell included; infinity where there is none, and where a mean or deviation is infinite.
        """
        needed = self.needed(level, odds)
        of_finite = np.all(np.isfinite(means) & np.isfinite(deviations), axis=0)
        means, deviations = np.where(of_finite, means, 0.0), np.where(of_finite, deviations, 1.0)

        def reached(ends: Array) -> Array:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                limits = (ends - means) / deviations
            limits = np.where(np.isnan(limits), 0.0, limits)  # where there is no deviation
            of_folds = zip(self.folds, limits, strict=True)
            sums = [scores.odds_up_to(one, inclusive=True) for scores, one in of_folds]
            return np.asarray(np.sum(sums, axis=0) >= needed)

        if len(self.folds) == 1:
            [scores] = self.folds
            places = np.searchsorted(np.cumsum(scores.odds), needed)
            quantiles = np.append(scores.values, np.inf)[places]
            with np.errstate(invalid="ignore"):  # 0 times infinity
                ends = np.where(np.isinf(quantiles), np.inf, means[0] + quantiles * deviations[0])
            return np.where(of_finite, ends, np.inf)
        finite = [scores.values[np.isfinite(scores.values)] for scores in self.folds]
        largest = np.array([np.max(values, initial=0.0) for values in finite])
        farthest = largest[:, None] * deviations
        # Beyond the last score of every fold, by more than these sums are rounded.
        rounding = SUM_ROUNDING * np.max(np.abs(means) + farthest, axis=0)
        low, high = np.min(means, axis=0), np.max(means + farthest, axis=0) + rounding
        ends = np.where(reached(high), high, np.inf)
        for _ in range(BISECTIONS):
            middle = low + 0.5 * (high - low)
            above = reached(middle)
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.where(of_finite & ~np.isinf(ends), high, np.inf)

    def interval(
        self, level: float, odds: Array, means: Array, deviations: Array
    ) -> tuple[Array, Array]:
        """The lower and the upper ends at cells, with arguments as of ``upper``.

        At levels below 1/2 they cross where folds differ more than scores are large, and change
        places.
        """
        upper = self.upper(level, odds, means, deviations)
        lower = -self.upper(level, odds, -means, deviations)
        return np.minimum(lower, upper), np.maximum(lower, upper)

    def chosen(self, level: float, odds: Array, scores: Array) -> Mask:
        """Which values (N x V) are in the sets of cells, given their scores in each fold.

        Those for which the odds of smaller scores sum up to less than ``level`` of all of them.
        """
        of_folds = zip(self.folds, scores, strict=True)
        sums = [one.odds_up_to(limits, inclusive=False) for one, limits in of_folds]
        return np.asarray(np.sum(sums, axis=0) < self.needed(level, odds)[:, None])


@attrs.frozen(eq=False)
class CalibratedBlock:
    """The scores of a block: by groups of its columns, with the odds of being missing of cells.

    Attributes
    ----------
    groups : array of integers (n_columns,)
        From 0, the place among the scores.
    scores : dict from "interval" and "set" to tuple of FoldScores
        The scores of intervals, and those of sets, of each group; what the block has of these.
    odds : tuple of functions of rows and columns (N,)
        By the posterior of each fold.
    """

    groups: IntArray
    scores: Mapping[str, tuple[FoldScores, ...]]
    odds: tuple[Odds, ...]

    def by_group(
        self, kind: str, rows: IntArray, columns: IntArray
    ) -> Iterator[tuple[FoldScores, Mask, Array]]:
        """The scores of each group that cells belong to, these cells, and the odds of all."""
        odds = np.mean([of_fold(rows, columns) for of_fold in self.odds], axis=0)
        groups = self.groups[columns]
        for group in np.unique(groups):
            yield self.scores[kind][group], groups == group, odds


@attrs.frozen(eq=False, repr=False)
class ConformalPredictions(Pictured["ConformalPictures"]):
    """Intervals and sets from scores of held-out entries: the answer of ``conformalize``.

    Attributes
    ----------
    posteriors : tuple of Posterior
        The posterior without the held-out entries, around whose means intervals lie; in folds, one
        without the entries of each fold.
    confidence_level : float
        The level that is used if none is given.
    blocks : dict from block name to CalibratedBlock
    tables : dict from block name to Table
        Of the posterior of all entries.
    """

    posteriors: tuple["Posterior", ...]
    confidence_level: float
    blocks: Mapping[str, CalibratedBlock]
    tables: Mapping[str, Table]

    @property
    def posterior(self) -> "Posterior":
        """The first posterior: without the held-out entries, or those of the first fold."""
        return self.posteriors[0]

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

        In the shape of ``Posterior.predict``: DataFrames if the data were one. Ends lie within the
        possible values, for levels and for values that are never negative. An infinite interval
        means that too few similar entries were held out for this level.

        Raises
        ------
        ModelError
            If the block has labels or classes.
        """
        cells, level = self._asked(block, "interval", level, rows, columns, pairs)
        row, column = cells.rows, cells.columns
        of_folds = [moments(posterior, block, row, column) for posterior in self.posteriors]
        means, deviations = (np.array(of_moment) for of_moment in zip(*of_folds, strict=True))
        ends = np.full((2, row.size), np.inf)
        for scores, members, odds in self.blocks[block].by_group("interval", row, column):
            at = odds[members], means[:, members], deviations[:, members]
            ends[:, members] = scores.interval(level, *at)
        lower, upper = possible_values(self.posterior, block, ends)
        return cells.form(lower), cells.form(upper)

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

        In the shape of ``Posterior.set``. The most probable value is always in the set. A set of
        all values may mean that too few similar entries were held out for this level.

        Raises
        ------
        ModelError
            If the block has numbers or counts.
        """
        cells, level = self._asked(block, "set", level, rows, columns, pairs)
        row, column = cells.rows, cells.columns
        probabilities = np.array([p.probabilities(block, row, column) for p in self.posteriors])
        chosen = np.zeros(probabilities.shape[1:], dtype=bool)
        for scores, members, odds in self.blocks[block].by_group("set", row, column):
            of_group = 1.0 - probabilities[:, members]
            chosen[members] = scores.chosen(level, odds[members], of_group)
        likeliest = np.argmax(np.mean(probabilities, axis=0), axis=1)
        chosen[np.arange(len(chosen)), likeliest] = True
        return np.asarray(cells.array(chosen.astype(np.float64)) > 0.0)

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
        problem.model.block(block)
        calibrated = self.blocks[block]
        if kind not in calibrated.scores:
            values, [method] = VALUES_THAT_LACK[kind], calibrated.scores
            raise ModelError(
                f"block {block!r} has {values} and no conformal {kind}; take .{method}({block!r})"
            )
        level = self.confidence_level if level is None else Options.level(level)
        return Cells.of(problem, self.tables, block, rows, columns, pairs), level

    def __repr__(self) -> str:
        lines = [f"ConformalPredictions: level {self.confidence_level:g}"]
        for name, block in self.blocks.items():
            scores = next(iter(block.scores.values()))
            n_held = sum(group_scores.size for group_scores in scores)
            folds = f" in {len(self.posteriors)} folds" if len(self.posteriors) > 1 else ""
            least = min(group_scores.effective_size for group_scores in scores)
            lines.append(
                f"  {name!r}: {n_held} entries held out{folds}, by {len(scores)}"
                f" group{'s' * (len(scores) != 1)}; {least:.0f} at least in a group, by weight"
            )
        return "\n".join(lines)


suggest_options(ConformalPredictions, methods=True)


def conformal_predictions(
    posterior: "Posterior",
    posterior_of: PosteriorOf,
    confidence_level: float,
    missingness: Missingness,
    by: Groups,
    share: float,
    folds: int | str,
    random_state: RandomState,
    progress: bool | None,
) -> ConformalPredictions:
    """Return conformal intervals and sets of a ``Posterior``, as its ``conformalize`` says.

    ``posterior_of`` computes a posterior of a model, data, seed and options.
    """
    level, share = Options.confidence_level(confidence_level), Options.share(share)
    seed, problem = Options.random_state(random_state), posterior.problem
    n_folds = None if is_word(folds, "auto") else Options.folds(folds)
    check_entries_of(posterior)
    posteriors, odds, scores = [], [], []
    with (
        stage("conformalize", Options.progress(progress)) as display,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UnobservedWarning)
        tables = observed_entries(problem)
        check_held_out(tables, n_folds or 1)
        groups = {
            name: groups_of(name, option_of_block(by, name, "by"), table.shape[1])
            for name, table in tables.items()
        }
        if n_folds is None:
            most = min(DEFAULT_FOLDS, *(table.n_entries for table in tables.values()))
            n_folds = most if too_few(tables, groups, share, level) else 1
        rng = np.random.default_rng(seed)
        held_outs = [
            held_out.of_values() for held_out in held_out_in_folds(tables, n_folds, share, rng)
        ]
        data = {
            block.name: entries_as_data(tables[block.name], block.likelihood.width)
            for block in problem.model.blocks
        }
        for number, held_out in enumerate(held_outs):
            remaining = posterior_of(
                problem.model,
                held_out.remaining(data),
                posterior.random_state,
                posterior.options,
            )
            of_fold = {
                name: odds_of(
                    name,
                    option_of_block(missingness, name, "missingness"),
                    remaining,
                    held.values.size,
                    posterior_of,
                    seed,
                )
                for name, held in held_out.values.items()
            }
            posteriors.append(remaining)
            odds.append(of_fold)
            scores.append(
                {
                    name: scores_of(remaining, name, held, groups[name], of_fold[name])
                    for name, held in held_out.values.items()
                }
            )
            display.count(number + 1, len(held_outs), "folds")
    blocks = {
        name: CalibratedBlock(
            of_columns,
            {
                kind: tuple(
                    FoldScores(tuple(of_fold[name][kind][group] for of_fold in scores))
                    for group in range(of_columns.max() + 1)
                )
                for kind in scores[0][name]
            },
            tuple(of_fold[name] for of_fold in odds),
        )
        for name, of_columns in groups.items()
    }
    return ConformalPredictions(tuple(posteriors), level, blocks, problem.tables)


def possible_values(posterior: "Posterior", block: str, ends: Array) -> Array:
    """Ends of intervals within what the likelihood and the bounds of a block allow."""
    within = np.clip(ends, *posterior.problem.likelihoods[block].limits)
    return posterior.model.block(block).limited(within)


def check_entries_of(posterior: "Posterior") -> None:
    """Raise a ``ModelError`` if entries of a posterior cannot be held out."""
    problem = posterior.problem
    if problem.rows_elsewhere:
        raise ModelError(
            "conformalize: this posterior is of rows in partitions, and entries are held out of"
            " tables in this process; give arrays, for example of a sample of the rows"
        )
    if posterior.tables is not problem.tables:
        raise ModelError(
            "this posterior is one of new rows, of which no entries can be held out; ask the"
            " posterior that it was conditioned from"
        )


def least_scores(level: float) -> float:
    """The least number of scores of equal weight with which intervals of a level are finite."""
    return level / (1.0 - level) * (1.0 - SUM_ROUNDING)


def too_few(
    tables: Mapping[str, Table], groups: Mapping[str, IntArray], share: float, level: float
) -> bool:
    """True if a share of the entries of some group is too few for finite intervals."""
    least = least_scores(level)
    sizes = [np.bincount(groups[name][table.columns]) for name, table in tables.items()]
    return any(np.any(np.rint(share * size[size > 0]) < least) for size in sizes)


def held_out_in_folds(
    tables: Mapping[str, Table], n_folds: int, share: float, rng: np.random.Generator
) -> list[HeldOut]:
    """A share of the entries held out once, or all in folds with their part of each column."""
    if n_folds == 1:
        return [HeldOut.of_share(tables, share, rng)]
    parts = {}
    for name, (table, order) in by_content(tables).items():
        shuffled, dealt_parts = rng.permutation(table.n_entries), np.empty_like(order)
        dealt_parts[shuffled] = dealt(table.columns[shuffled], n_folds)
        parts[name] = dealt_parts[np.argsort(order)]
    return [HeldOut.of_parts(tables, parts, number) for number in range(n_folds)]


def check_held_out(tables: Mapping[str, Table], n_folds: int) -> None:
    """Raise a ``DataError`` where a block has too few observed entries to hold one out by fold."""
    for name, table in tables.items():
        if table.n_entries < n_folds:
            raise DataError(
                f"block {name!r}: {n_folds} folds were asked for, and {table.n_entries} entries"
                " are observed; ask for fewer folds"
            )
        if table.n_entries < 2:
            raise DataError(
                f"block {name!r}: of {table.n_entries} observed entries none can be held out; two"
                " at least are needed"
            )


def scores_of(
    posterior: "Posterior", name: str, held: Held, groups: IntArray, odds: Odds
) -> dict[str, tuple[WeightedScores, ...]]:
    """The scores of held-out entries of a block, of intervals and of sets, by groups."""
    likelihood = posterior.model.block(name).likelihood
    weights, group_of = odds(held.rows, held.columns), groups[held.columns]

    def by_groups(scores: Array) -> tuple[WeightedScores, ...]:
        members = [group_of == group for group in range(groups.max() + 1)]
        return tuple(WeightedScores.of(scores[member], weights[member]) for member in members)

    scores = {}
    if likelihood.width == 1 and likelihood.kind is not ValueKind.LABEL:  # numbers, counts, levels
        mean, sd = moments(posterior, name, held.rows, held.columns)
        scores["interval"] = by_groups(distances(held.values, mean, sd))
    if likelihood.values is not None and has_probabilities(likelihood):
        value = np.searchsorted(likelihood.values, held.values)
        probabilities = posterior.probabilities(name, held.rows, held.columns)
        scores["set"] = by_groups(1.0 - probabilities[np.arange(value.size), value])
    return scores


def distances(values: Array, means: Array, sds: Array) -> Array:
    """|value - mean| / sd; infinite where that is not defined."""
    differences = np.abs(values - means)
    with np.errstate(divide="ignore", invalid="ignore"):
        standardised = np.where(differences > 0.0, differences / sds, 0.0)
    return np.where(np.isnan(standardised), np.inf, standardised)


def moments(
    posterior: "Posterior", block: str, rows: IntArray, columns: IntArray
) -> tuple[Array, Array]:
    """Mean and standard deviation of a new observation at cells."""
    return posterior.predict(block, rows, columns), posterior.sd(block, rows, columns)


def option_of_block(
    option: ArrayLike | Mapping[str, ArrayLike], name: str, option_name: str
) -> ArrayLike:
    """The value of an option for a block, which is given by itself or in a dict by block name."""
    if not isinstance(option, Mapping):
        return option
    if name not in option:
        raise ModelError(
            f"{option_name}: the dict has nothing for block {name!r}; give it a value"
        )
    return option[name]


def groups_of(name: str, by: ArrayLike, n_columns: int) -> IntArray:
    """The group of each column, from 0, or an error that names what was given."""
    if isinstance(by, str) and by in ("block", "column"):
        return np.arange(n_columns) * (by == "column")
    try:
        labels = np.asarray(by)
    except ValueError:  # lists of several lengths
        labels = np.asarray(by, dtype=object)[None]
    if labels.shape == (n_columns,):
        return np.unique(labels, return_inverse=True)[1].ravel()
    described = by if isinstance(by, str) else f"an array of shape {labels.shape}"
    raise ModelError(
        f"by={described!r} was given for block {name!r}; 'block', 'column' or a label for each of"
        f" its {n_columns} columns is needed"
    )


def odds_of(
    name: str,
    missingness: ArrayLike,
    posterior: "Posterior",
    n_held: int,
    posterior_of: PosteriorOf,
    seed: int,
) -> Odds:
    """The odds of being missing as a function of cells.

    Parameters
    ----------
    name : str
    missingness : "uniform", "rank1", "bernoulli" or array
    posterior : Posterior
        Of the entries that are not held out; probabilities are estimated from these alone, since
        held-out and missing entries may not differ in what is known of them.
    n_held : int
    posterior_of : function
        As ``conformal_predictions`` takes one.
    seed : int
    """
    table = posterior.problem.tables[name]
    if not isinstance(missingness, str):
        return given_odds(name, missingness, table.shape)
    if missingness == "uniform":
        return lambda rows, columns: np.ones(rows.size)
    if missingness == "rank1":
        probability_of = product_of_shares(table)
    elif missingness == "bernoulli":
        check_size(name, table.shape[0], posterior.problem.n_latent(name))
        probability_of = logistic_probabilities(table, posterior_of, seed)
    else:
        raise ModelError(
            f"missingness={missingness!r} was given for block {name!r}; 'uniform', 'rank1',"
            " 'bernoulli' or the probabilities of being missing are needed"
        )
    kept_share = table.n_entries / (table.n_entries + n_held)

    def odds(rows: IntArray, columns: IntArray) -> Array:
        return (
            1.0
            / np.minimum(probability_of(rows, columns) / kept_share, LARGEST_OBSERVED_PROBABILITY)
            - 1.0
        )

    return odds


def given_odds(name: str, probabilities: ArrayLike, shape: tuple[int, int]) -> Odds:
    """The odds of given probabilities of being missing."""
    try:
        missing = np.broadcast_to(np.asarray(probabilities, dtype=np.float64), shape)
    except (TypeError, ValueError):
        raise DataError(
            f"missingness of block {name!r}: {a_type(probabilities)} was given; probabilities of"
            f" shape {shape} are needed, or a row or a column of them"
        ) from None
    wrong = ~((missing > 0.0) & (missing < 1.0))
    if wrong.any():
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        raise DataError(
            f"missingness of block {name!r}: {missing[row, column]!r} was given at"
            f" [{row}, {column}]; a probability between 0 and 1 is needed"
        )
    return lambda rows, columns: missing[rows, columns] / (1.0 - missing[rows, columns])


def product_of_shares(table: Table) -> Odds:
    """Probabilities as a product over rows and columns."""
    n_rows, n_columns = table.shape
    of_rows = shares_of(table.row_counts, n_columns)
    of_columns = shares_of(table.column_counts, n_rows) / (table.n_entries / table.n_cells)
    return lambda rows, columns: of_rows[rows] * of_columns[columns]


def shares_of(counts: IntArray, n: int) -> Array:
    """Shares of n as means under a beta prior of their mean and their variance beyond chance.

    The prior counts as one observation at least. A row of few columns that has few entries by
    chance would have a large weight otherwise.
    """
    mean = float(np.mean(counts)) / n
    binomial_variance = mean * (1.0 - mean)
    excess_variance = (float(np.var(counts / n)) - binomial_variance / n) * n / max(n - 1, 1)
    prior_count = max(binomial_variance / max(excess_variance, EPS) - 1.0, 1.0)
    return np.asarray((counts + prior_count * mean) / (n + prior_count))


def logistic_probabilities(table: Table, posterior_of: PosteriorOf, seed: int) -> Odds:
    """Probabilities by effects of rows and columns and few factors, of a posterior."""
    mask = np.zeros(table.shape)
    mask[table.rows, table.columns] = 1.0
    block = Block("observed", Bernoulli(), bias=True, row_effects=True)
    posterior = posterior_of(
        Model([block], [NuclearNorm()]),
        {"observed": mask},
        seed,
        PosteriorOptions(
            factors=min(MISSINGNESS_FACTORS, *table.shape),
            tol=None,
            max_iter=500,
            max_seconds=np.inf,
            n_jobs=None,
        ),
    )
    return lambda rows, columns: np.asarray(posterior.predict("observed", rows, columns))

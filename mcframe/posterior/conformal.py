"""Intervals and sets that hold when the model does not: weighted split conformal prediction."""

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np
from numpy.typing import ArrayLike

from mcframe.contracts.arrays import Array, InFormOfData, IntArray, Mask, Pairs, Positions
from mcframe.contracts.errors import DataError, ModelError, UnobservedWarning
from mcframe.contracts.likelihood import ValueKind, has_probabilities
from mcframe.contracts.pictures import Pictured
from mcframe.contracts.rounding import EPS, SUM_ROUNDING
from mcframe.contracts.validators import Options, RandomState, a_type
from mcframe.fitting.prediction import Cells, check_size
from mcframe.likelihoods import Bernoulli
from mcframe.model import Block, Model
from mcframe.model.held_out import Held, HeldOut, data_of, observed_entries
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
# The values of blocks that have no intervals, and of those that have no sets.
VALUES_THAT_LACK = {"interval": "labels or classes", "set": "numbers"}


@attrs.frozen(eq=False)
class WeightedScores:
    """Scores of held-out entries in ascending order, and their odds of being missing."""

    values: Array
    odds: Array

    @classmethod
    def of(cls, values: Array, odds: Array) -> "WeightedScores":
        """The scores of these entries, sorted."""
        order = np.argsort(values, kind="stable")
        return cls(values[order], odds[order])

    @property
    def effective_size(self) -> float:
        """The number of equally weighted entries that say as much."""
        squares = float(np.sum(np.square(self.odds)))
        return float(np.sum(self.odds)) ** 2 / squares if squares else 0.0

    def quantile(self, level: float, odds: Array) -> Array:
        """The weighted quantile of the scores and one at infinity, for cells of these odds.

        The least score up to which the odds sum up to at least ``level`` of all of them, those of
        the cell included; infinity where there is none.
        """
        sums = np.cumsum(self.odds)
        total = (sums[-1] if sums.size else 0.0) + odds
        places = np.searchsorted(sums, level * total * (1.0 - SUM_ROUNDING))
        return np.append(self.values, np.inf)[places]


@attrs.frozen(eq=False)
class CalibratedBlock:
    """The scores of a block: by groups of its columns, with the odds of being missing of cells.

    Attributes
    ----------
    groups : array of integers (n_columns,)
        From 0, the place among the scores.
    scores : dict from "interval" and "set" to tuple of WeightedScores
        The scores of intervals, and those of sets, of each group; what the block has of these.
    odds : function of rows and columns (N,)
    """

    groups: IntArray
    scores: Mapping[str, tuple[WeightedScores, ...]]
    odds: Odds

    def quantiles(self, kind: str, level: float, rows: IntArray, columns: IntArray) -> Array:
        """The quantile of the scores of intervals or of sets at each cell (N,)."""
        odds, groups = self.odds(rows, columns), self.groups[columns]
        quantiles = np.empty(rows.size)
        for group in np.unique(groups):
            in_group = groups == group
            quantiles[in_group] = self.scores[kind][group].quantile(level, odds[in_group])
        return quantiles


@attrs.frozen(eq=False, repr=False)
class ConformalPredictions(Pictured["ConformalPictures"]):
    """Intervals and sets from scores of held-out entries: the answer of ``conformalize``.

    Attributes
    ----------
    posterior : Posterior
        The posterior without the held-out entries. Intervals lie around its means.
    confidence_level : float
        The level that is used if none is given.
    blocks : dict from block name to CalibratedBlock
    tables : dict from block name to Table
        Of the posterior of all entries.
    """

    posterior: "Posterior"
    confidence_level: float
    blocks: Mapping[str, CalibratedBlock]
    tables: Mapping[str, Table]

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
        cells, quantiles = self._quantiles(block, "interval", level, rows, columns, pairs)
        mean, sd = moments(self.posterior, block, cells.rows, cells.columns)
        with np.errstate(invalid="ignore"):
            half_width = np.where(np.isinf(quantiles), np.inf, quantiles * sd)
            lowest, highest = self.posterior.problem.likelihoods[block].limits
            # Where a mean or a deviation overflows, every value is in the interval.
            lower, upper = np.fmax(mean - half_width, lowest), np.fmin(mean + half_width, highest)
        limited = self.posterior.model.block(block).limited
        return cells.form(limited(lower)), cells.form(limited(upper))

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
        cells, quantiles = self._quantiles(block, "set", level, rows, columns, pairs)
        probabilities = self.posterior.probabilities(block, cells.rows, cells.columns)
        chosen = 1.0 - probabilities <= quantiles[:, None]
        chosen[np.arange(len(chosen)), np.argmax(probabilities, axis=1)] = True
        return np.asarray(cells.array(chosen.astype(np.float64)) > 0.0)

    def _quantiles(
        self,
        block: str,
        kind: str,
        level: float | None,
        rows: Positions,
        columns: Positions,
        pairs: Pairs,
    ) -> tuple[Cells, Array]:
        """The cells that are asked for, and the quantiles of scores there."""
        problem = self.posterior.problem
        problem.model.block(block)
        calibrated = self.blocks[block]
        if kind not in calibrated.scores:
            values, [method] = VALUES_THAT_LACK[kind], calibrated.scores
            raise ModelError(
                f"block {block!r} has {values} and no conformal {kind}; take .{method}({block!r})"
            )
        level = self.confidence_level if level is None else Options.level(level)
        cells = Cells.of(problem, self.tables, block, rows, columns, pairs)
        return cells, calibrated.quantiles(kind, level, cells.rows, cells.columns)

    def __repr__(self) -> str:
        lines = [f"ConformalPredictions: level {self.confidence_level:g}"]
        for name, block in self.blocks.items():
            scores = next(iter(block.scores.values()))
            n_held = sum(group_scores.values.size for group_scores in scores)
            least = min(group_scores.effective_size for group_scores in scores)
            lines.append(
                f"  {name!r}: {n_held} entries held out, by {len(scores)}"
                f" group{'s' * (len(scores) != 1)}; {least:.0f} at least in a group, by weight"
            )
        return "\n".join(lines)


def split_conformal(
    posterior: "Posterior",
    posterior_of: PosteriorOf,
    confidence_level: float,
    missingness: Missingness,
    by: Groups,
    share: float,
    random_state: RandomState,
    progress: bool | None,
) -> ConformalPredictions:
    """Return conformal intervals and sets of a ``Posterior``, as its ``conformalize`` says.

    ``posterior_of`` computes a posterior of a model, data, seed and options.
    """
    level, share = Options.confidence_level(confidence_level), Options.share(share)
    seed, problem = Options.random_state(random_state), posterior.problem
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
    blocks, shows_progress = {}, Options.progress(progress)
    with stage("conformalize", shows_progress), warnings.catch_warnings():
        warnings.simplefilter("ignore", UnobservedWarning)
        tables = observed_entries(problem)
        check_held_out(tables)
        held_out = HeldOut.of_share(tables, share, np.random.default_rng(seed))
        data = {
            block.name: data_of(tables[block.name], block.likelihood.width)
            for block in problem.model.blocks
        }
        remaining = held_out.remaining(data)
        remaining_posterior = posterior_of(
            problem.model, remaining, posterior.random_state, posterior.options
        )
        for name, held in held_out.values.items():
            block_missingness = option_of_block(missingness, name, "missingness")
            odds = odds_of(
                name, block_missingness, remaining_posterior, held.values.size, posterior_of, seed
            )
            groups = groups_of(name, option_of_block(by, name, "by"), tables[name].shape[1])
            blocks[name] = calibrated_block(remaining_posterior, name, held, groups, odds)
    return ConformalPredictions(remaining_posterior, level, blocks, problem.tables)


def check_held_out(tables: Mapping[str, Table]) -> None:
    """Raise a ``DataError`` where a block has too few observed entries to hold one out."""
    for name, table in tables.items():
        if table.n_entries < 2:
            raise DataError(
                f"block {name!r}: of {table.n_entries} observed entries none can be held out; two"
                " at least are needed"
            )


def calibrated_block(
    posterior: "Posterior", name: str, held: Held, groups: IntArray, odds: Odds
) -> CalibratedBlock:
    """Return a block with the scores of its held-out entries."""
    likelihood = posterior.model.block(name).likelihood
    weights, group_of = odds(held.rows, held.columns), groups[held.columns]

    def by_groups(scores: Array) -> tuple[WeightedScores, ...]:
        members = [group_of == group for group in range(groups.max() + 1)]
        return tuple(WeightedScores.of(scores[member], weights[member]) for member in members)

    scores = {}
    if likelihood.width == 1 and likelihood.kind is not ValueKind.LABEL:  # numbers, counts, levels
        mean, sd = moments(posterior, name, held.rows, held.columns)
        distances_from_mean = np.abs(held.values - mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            distances = np.where(distances_from_mean > 0.0, distances_from_mean / sd, 0.0)
        scores["interval"] = by_groups(np.where(np.isnan(distances), np.inf, distances))
    if likelihood.values is not None and has_probabilities(likelihood):
        value = np.searchsorted(likelihood.values, held.values)
        probabilities = posterior.probabilities(name, held.rows, held.columns)
        scores["set"] = by_groups(1.0 - probabilities[np.arange(value.size), value])
    return CalibratedBlock(groups, scores, odds)


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
        As ``split_conformal`` takes one.
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

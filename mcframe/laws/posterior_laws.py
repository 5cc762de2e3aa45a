"""The law of posteriors: what a table was drawn from is one more draw of its posterior."""

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from scipy.special import ndtr

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape
from mcframe.contracts.endings import Status
from mcframe.contracts.errors import (
    DataError,
    LawViolation,
    ModelError,
    NotConvergedWarning,
    UnobservedWarning,
)
from mcframe.contracts.likelihood import GaussianNoise, ValueKind, has_probabilities
from mcframe.contracts.pictures import Pictured
from mcframe.contracts.rounding import TINY
from mcframe.contracts.validators import (
    Options,
    RandomState,
    is_word,
    number,
    suggests_options,
)
from mcframe.fitting.prediction import table_of_values
from mcframe.model import Block, Model, Observations, Problem
from mcframe.numerics.uniformity import UniformityTest, share_error, uniformity
from mcframe.posterior.answer import Posterior, posterior_of
from mcframe.posterior.attributes import OBSERVED, raw_groups, stored_attributes
from mcframe.posterior.estimation import PosteriorOptions, demand_posterior
from mcframe.posterior.observed import Observed, Summary
from mcframe.posterior.predictive import as_distribution, predictive_at
from mcframe.posterior.prior_draws import DrawnTables, drawn_tables, parameters_of
from mcframe.runtime.jobs import results_as_finished
from mcframe.runtime.progress import stage

if TYPE_CHECKING:  # what the pictures are; nothing of them is needed to run
    from mcframe.plots.of_answers import CalibrationPictures

# The nominal coverages of intervals. Their ends are ends of the bins in which ranks are counted.
LEVELS = (0.5, 0.8, 0.9, 0.95)
RANK_BINS, TESTED_BINS = 40, 20
# The most draws among which a number has its rank, and the fewest.
MOST_RANKED_DRAWS, FEWEST_RANKED_DRAWS = 199, 9
# The most cells of a table whose new observations are ranked, of those that are observed and of
# those that are hidden.
MOST_RANKED_CELLS = 200
# Observed values beyond this are drawn anew, with their table, in so many rounds at most.
LARGEST_VALUE, MOST_ROUNDS = 1e9, 20
# Hidden cells are also counted in the rows with the fewest, and the most, entries of a table.
ROWS_SHARE = 0.25


@attrs.frozen(eq=False)
class Ranks:
    """Ranks of one kind of numbers: coverage of intervals, and a test of uniformity.

    Attributes
    ----------
    n : int
        The numbers, over all tables.
    coverage : dict from level to (share, error)
        The share of numbers within the central interval of their posterior, and its Monte Carlo
        standard error, by tables.
    mean_rank : (mean, error)
        The mean of ranks between 0 and 1: below 1/2 where the posterior is too large.
    test : UniformityTest
    """

    n: int
    coverage: Mapping[float, tuple[float, float]]
    mean_rank: tuple[float, float]
    test: UniformityTest

    @classmethod
    def of(cls, counts: Array) -> "Ranks":
        """The ranks of one kind, counted in bins (tables x bins)."""
        sizes = counts.sum(axis=1)
        middles = (np.arange(RANK_BINS) + 0.5) / RANK_BINS
        inside = {level: np.abs(middles - 0.5) < 0.5 * level for level in LEVELS}
        return cls(
            n=int(sizes.sum()),
            coverage={level: share_error(counts @ mask, sizes) for level, mask in inside.items()},
            mean_rank=share_error(counts @ middles, sizes),
            test=uniformity(counts.reshape(len(counts), TESTED_BINS, -1).sum(axis=2)),
        )


@attrs.frozen(eq=False, repr=False)
class PosteriorCalibration(Pictured["CalibrationPictures"]):
    """Ranks of what tables were drawn from among draws of its posterior: of ``check_posterior``.

    Attributes
    ----------
    method : str
    shapes : dict from block name to shape
    counts : dict from kind to array (tables x 40)
        How many ranks of each table lie in bins of equal width between 0 and 1.
    log_ratios : dict from kind to array (tables x p)
        Logarithms of estimate over truth, of numbers for which the posterior has one value.
    n_redrawn : int
        Tables that were drawn anew, since observed values were too large.
    n_not_converged : int
        Tables whose posterior did not converge.
    seconds : float
        Processor seconds of all posteriors.
    """

    method: str
    shapes: Mapping[str, Shape]
    counts: Mapping[str, Array]
    log_ratios: Mapping[str, Array]
    n_redrawn: int
    n_not_converged: int
    seconds: float

    @property
    def n_tables(self) -> int:
        """The number of tables."""
        return max(len(one) for one in (*self.counts.values(), *self.log_ratios.values()))

    @cached_property
    def ranks(self) -> dict[str, Ranks]:
        """Coverage and the test of uniformity, by kind."""
        return {kind: Ranks.of(counts) for kind, counts in self.counts.items() if counts.any()}

    @property
    def worst(self) -> str:
        """The kind with the smallest p value."""
        return min(self.ranks, key=lambda kind: self.ranks[kind].test.p_value)

    @property
    def p_value(self) -> float:
        """The smallest p value times the number of kinds (Bonferroni), at most 1."""
        return min(1.0, len(self.ranks) * self.ranks[self.worst].test.p_value)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{rows} x {columns}" for rows, columns in self.shapes.values())
        levels = "".join(f"{f'{level:.0%} interval':>15}" for level in LEVELS)
        lines = [
            f"PosteriorCalibration: {self.n_tables} tables of {shapes}, method {self.method!r}",
            f"{'':46}{'numbers':>9}{levels}{'mean rank':>14}{'p':>9}",
        ]
        for kind, ranks in self.ranks.items():
            cells = "".join(
                f"{f'{share:.1%} ± {error:.1%}':>15}" for share, error in ranks.coverage.values()
            )
            mean, error = ranks.mean_rank
            lines.append(
                f"{kind:46}{ranks.n:9d}{cells}{f'{mean:.3f} ± {error:.3f}':>14}"
                f"{ranks.test.p_value:9.2g}"
            )
        for kind, ratios in self.log_ratios.items():
            mean, error = share_error(ratios.sum(axis=1), np.full(len(ratios), ratios.shape[1]))
            lines.append(
                f"{kind}: one estimate each, {np.exp(mean):.2f} times the truth (geometric mean;"
                f" its logarithm {mean:.2f} ± {error:.2f})"
            )
        facts = {
            "drawn anew, for their size": self.n_redrawn,
            "not converged": self.n_not_converged,
        }
        lines += [f"{count} tables {what}" for what, count in facts.items() if count]
        lines.append(
            f"p = {self.p_value:.2g} for all kinds together (Bonferroni), the smallest:"
            f" {self.worst}"
        )
        return "\n".join(lines)


@attrs.frozen(eq=False)
class TableRanks:
    """The ranks of one table by kind, counted in bins, and ratios of single estimates."""

    counts: Mapping[str, Array]
    log_ratios: Mapping[str, Array]
    converged: bool
    seconds: float


@suggests_options
def check_posterior(
    model: Model,
    data: Mapping[str, Any],
    *,
    method: str = "variational",
    factors: int | str = "auto",
    share: float = 0.3,
    hidden: Mapping[str, Any] | None = None,
    n_tables: int = 100,
    error_rate: float = 0.01,
    tol: float | None = None,
    max_iter: int | None = None,
    random_state: RandomState = 0,
    n_jobs: int = 1,
    progress: bool | None = None,
    row_attributes: Any = None,
    column_attributes: Any = None,
) -> PosteriorCalibration:
    """Hold the posterior of a model to the law that what a table was drawn from is a draw of it.

    Simulation-based calibration (Talts, Betancourt, Simpson, Vehtari and Gelman, 2018):
    parameters and tables are drawn from the prior of the model, entries are hidden, and the
    posterior of each table is computed. The rank of a number that the table was drawn from, among
    draws of its posterior, is then uniform, and central intervals of any level hold as many of
    these numbers as they say. Ranks are those of

    - z of observed and of hidden cells, and of hidden cells in the quarters of the rows with the
      fewest and the most entries;
    - new observations at observed and at hidden cells;
    - the sum of the hidden values of a table;
    - variances of noise, deviations of priors and parameters of likelihoods, where these are
      drawn. A variational posterior has one value of each, which is compared with the truth.

    Uniformity is tested by the distribution function of the ranks with simultaneous bands
    (Säilynoja, Bürkner and Vehtari, 2022), for numbers of one table as for so many independent
    ones as their variance between tables says.

    What is drawn is the prior of the page on posteriors, with the scales that ``mc.posterior``
    takes from the values of a table: those of the table in ``data``, or 1 where only its shape is
    given. The posteriors of factors are computed with the same scales. Standardised blocks are
    drawn in standard units. Where a prior has no density, this is drawn in its place:

    - the mean of the biases of a block without ``effects_weight``, whose prior is flat, is that
      of the values in ``data``, or 0;
    - the mean and covariance of ``GaussianRows()`` are drawn from an inverse Wishart distribution
      with the scales of the columns, which counts as ``prior_rows`` rows, or as many as there are
      columns; their posterior takes its prior from the values, so that the law holds nearly, for
      more rows than a few times the columns;
    - under the variational posterior, all that it estimates by one value.

    Tables with observed values beyond 1e9 are drawn again, which depends on observed values alone
    and therefore leaves ranks uniform.

    Parameters
    ----------
    model : Model
        One that has a posterior. Weights of entries and blocks are part of a density of data for
        Gaussian blocks alone, and an error elsewhere.
    data : dict from block name to table or (rows, columns)
        A table gives its shape, missing entries, weights, offsets and the scales of the priors,
        and its values are not used otherwise; its missing entries are hidden.
    method, factors, tol, max_iter : as in ``mc.posterior``
        As many factors are drawn as the posterior has at most.
    share : float, default 0.3
        The probability that an entry is hidden.
    hidden : dict from block name to mask (rows x columns), optional
        The hidden entries of every table, in place of ``share``.
    n_tables : int, default 100
    error_rate : float, default 0.01
        The probability at which a right posterior breaks the law by chance, over all kinds of
        numbers. With 0 the answer is returned whatever it is.
    random_state : int, generator of numpy or None, default 0
    n_jobs : int, default 1
        The number of processes that tables are spread over; -1 for one on each processor.
    progress : bool, optional
        As in ``mc.fit``.
    row_attributes, column_attributes : as in ``mc.posterior``
        All tables have the same. Not "observed", since it is not drawn which cells are.

    Returns
    -------
    PosteriorCalibration
        Its text is the table of coverage by kind, with Monte Carlo errors, and p values;
        ``plot.ranks()`` shows the ranks with their bands.

    Raises
    ------
    LawViolation
        If the ranks of a kind are not uniform.
    BackendError, ModelError, DataError
        If the model has no posterior, no tables can be drawn from it, or an option is wrong.

    Examples
    --------
    >>> import mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.5))], [mc.NuclearNorm(1.0)])
    >>> found = mc.laws.check_posterior(model, {"x": (8, 4)}, factors=1, n_tables=20)
    >>> share, error = found.ranks["new observations, hidden cells"].coverage[0.9]
    >>> bool(abs(share - 0.9) < 3.0 * error)
    True
    """
    n_tables, n_jobs = Options.n_tables(n_tables), Options.n_processes(n_jobs)
    seed, share = Options.random_state(random_state), Options.share(share)
    error_rate = number(
        error_rate, "error_rate", "a number from 0 to below 1 is needed", lambda x: 0.0 <= x < 1.0
    )
    options = PosteriorOptions(
        method=Options.posterior_method(method),
        factors=factors,
        tol=tol,
        max_iter=max_iter,
        max_seconds=np.inf,
        n_jobs=1,
    )
    refuse_observed_sets(
        {"row_attributes": row_attributes, "column_attributes": column_attributes}
    )
    options.update(stored_attributes(row_attributes, column_attributes))
    with (
        stage("check_posterior", Options.progress(progress)) as display,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UnobservedWarning)
        rng = np.random.default_rng(seed)
        template = Template.of(model, data, rng)
        tasks, n_redrawn = template.tasks(n_tables, share, hidden, options, rng)
        results: list[TableRanks | None] = [None] * n_tables
        with closing(results_as_finished(tasks, n_jobs, "the model")) as finished:
            for done, (place, result) in enumerate(finished):
                results[place] = result
                display.count(done + 1, n_tables, "tables", rated=True)
    tables = [result for result in results if result is not None]
    answer = PosteriorCalibration(
        method=options["method"],
        shapes={name: table.shape for name, table in template.problem.tables.items()},
        counts=joined([table.counts for table in tables]),
        log_ratios=joined([table.log_ratios for table in tables]),
        n_redrawn=n_redrawn,
        n_not_converged=sum(not table.converged for table in tables),
        seconds=sum(table.seconds for table in tables),
    )
    if answer.p_value < error_rate:
        worst = answer.ranks[answer.worst]
        level, (covered, error) = min(
            worst.coverage.items(), key=lambda one: -abs(one[1][0] - one[0])
        )
        raise LawViolation(
            f"the posterior by method={method!r} breaks the law 'ranks are uniform' for"
            f" {answer.worst} (p = {worst.test.p_value:.2g} in {answer.n_tables} tables): their"
            f" {level:.0%} intervals hold {covered:.1%} ± {error:.1%}, and the mean rank is"
            f" {worst.mean_rank[0]:.3f} ± {worst.mean_rank[1]:.3f}; error_rate=0 returns all ranks"
        )
    return answer


def refuse_observed_sets(attributes: Mapping[str, Any]) -> None:
    """Raise a ``ModelError`` where attributes are sets of observed cells."""
    for side, raw in attributes.items():
        for name, group in raw_groups(raw, side).items():
            if is_word(group, OBSERVED):
                raise ModelError(
                    f"{name}={OBSERVED!r} was given, and tables are drawn before cells are hidden;"
                    " give numbers"
                )


def joined(parts: list[Mapping[str, Array]]) -> dict[str, Array]:
    """The arrays of all tables, of one kind each."""
    kinds = dict.fromkeys(kind for part in parts for kind in part)
    empty = {kind: np.zeros_like(next(p[kind] for p in parts if kind in p)) for kind in kinds}
    return {kind: np.array([part.get(kind, empty[kind]) for part in parts]) for kind in kinds}


# ------------------------------------------------------------------------ drawing tables


@attrs.frozen(eq=False)
class Template:
    """A table of all cells, of whose model others are drawn.

    Attributes
    ----------
    problem : Problem
        Of valid values in all cells, with weights and offsets as given.
    observed : Observed
        Its entries, with the scales of the priors.
    missing : dict from block name to mask
        The cells that are missing in the data.
    """

    problem: Problem
    observed: Observed
    missing: Mapping[str, Mask]

    @classmethod
    def of(cls, model: Model, data: Mapping[str, Any], rng: np.random.Generator) -> "Template":
        """The template of a model with tables or shapes."""
        demand_posterior(model, tuple(model.terms))
        model = attrs.evolve(
            model, blocks=[attrs.evolve(block, standardize=False) for block in model.blocks]
        )
        shapes = {name: value for name, value in dict(data).items() if is_shape(value)}
        filled = dict(data)
        for name, shape in shapes.items():
            filled[name] = valid_values(model.block(name), shape, rng)
        problem = Problem.bind(model, filled)
        demand_posterior(problem.model, problem.terms)
        summaries = [
            in_unit_scale(summary) if block.name in shapes else summary
            for block, summary in zip(model.blocks, Observed.of(problem).summaries, strict=True)
        ]
        full, missing = {}, {}
        for block in model.blocks:
            table = problem.tables[block.name]
            present = np.zeros(table.shape, dtype=bool)
            present[table.rows, table.columns] = True
            weights = np.ones(table.shape)
            if table.weights is not None:
                weights[table.rows, table.columns] = table.weights
            full[block.name] = Observations(
                valid_values(block, table.shape, rng),
                weights=None if table.weights is None else weights,
                offset=None
                if table.offset is None
                else np.array(table.offset.dense()[:, :: block.likelihood.width]),
            )
            missing[block.name] = ~present
        whole = Problem.bind(model, full)
        observed = Observed.of(whole)
        pairs = zip(observed.summaries, summaries, strict=True)
        observed = observed.with_summaries(
            tuple(attrs.evolve(one.with_scales(s), centres=s.centres) for one, s in pairs)
        )
        for entries in observed.blocks:
            if np.any(entries.weights != 1.0) and not isinstance(entries.unfitted, GaussianNoise):
                raise ModelError(
                    f"block {entries.block.name!r}: weights other than 1 belong to no density of"
                    f" {type(entries.unfitted).__name__} data, so that no tables can be drawn;"
                    " drop them"
                )
        return cls(whole, observed, missing)

    def tasks(
        self,
        n_tables: int,
        share: float,
        hidden: Mapping[str, Any] | None,
        options: PosteriorOptions,
        rng: np.random.Generator,
    ) -> tuple[list[Callable[[], TableRanks]], int]:
        """A task for each table, and how many tables were drawn anew."""
        masks = self.masks(n_tables, share, hidden, rng)
        tasks: list[Callable[[], TableRanks]] = []
        n_redrawn = 0
        for _ in range(MOST_ROUNDS):
            n_left = n_tables - len(tasks)
            drawn = drawn_tables(self.problem, self.observed, options, n_left, rng)
            for place in range(n_left):
                of_table = {name: masks[name][len(tasks)] for name in masks}
                if self.is_moderate(drawn, place, of_table):
                    task = TableTask.of(self, drawn, place, of_table, options)
                    tasks.append(attrs.evolve(task, seed=len(tasks)))
                else:
                    n_redrawn += 1
            if len(tasks) == n_tables:
                return tasks, n_redrawn
        raise ModelError(
            f"check_posterior: of {MOST_ROUNDS * n_tables} tables that were drawn from the prior"
            f" only {len(tasks)} have values of at most {LARGEST_VALUE:g}; give the norm a larger"
            " weight"
        )

    def masks(
        self,
        n_tables: int,
        share: float,
        hidden: Mapping[str, Any] | None,
        rng: np.random.Generator,
    ) -> dict[str, Mask]:
        """The hidden cells of each table (tables x rows x columns)."""
        masks = {}
        for name, missing in self.missing.items():
            if hidden is None:
                drawn = rng.random((n_tables, *missing.shape)) < share
            else:
                mask = np.asarray(hidden.get(name, ()), dtype=bool)
                if mask.shape != missing.shape:
                    raise DataError(
                        f"hidden: a mask of shape {missing.shape} is needed for block {name!r};"
                        f" one of shape {mask.shape} was given"
                    )
                drawn = np.tile(mask, (n_tables, 1, 1))
            masks[name] = drawn | missing
            if np.any(np.all(masks[name], axis=(1, 2))):
                raise DataError(
                    f"block {name!r}: all entries of a table are hidden; hide fewer, by share= or"
                    " hidden="
                )
        return masks

    def is_moderate(self, drawn: DrawnTables, place: int, hidden: Mapping[str, Mask]) -> bool:
        """True if all observed values are of a size that sums of squares can have."""
        for block in self.problem.model.blocks:
            seen = drawn.values[block.name][place][~hidden[block.name]]
            with np.errstate(invalid="ignore"):
                if not np.all(np.abs(seen) <= LARGEST_VALUE) or np.any(
                    block.likelihood.invalid(seen)
                ):
                    return False
        return True


def is_shape(value: object) -> bool:
    """True for a pair of whole numbers."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(one, int | np.integer) and one > 0 for one in value)
    )


def valid_values(block: Block, shape: Shape, rng: np.random.Generator) -> Array:
    """Any values that a block accepts."""
    likelihood: Any = block.likelihood
    count = int(np.prod(shape))
    if likelihood.values is not None:
        values = rng.choice(likelihood.values, count)
    elif isinstance(likelihood, GaussianNoise):
        values = rng.standard_normal(count)
    else:
        width = (likelihood.width,) if likelihood.width > 1 else ()
        values = as_distribution(likelihood).sample(np.zeros((count, *width)), rng)
    return np.asarray(values, dtype=np.float64).reshape(shape)


def in_unit_scale(summary: Summary) -> Summary:
    """The summary of values about 0 with a mean square of 1."""
    return attrs.evolve(
        summary,
        centres=np.zeros_like(summary.centres),
        mean_squares=np.ones_like(summary.mean_squares),
        reference_square=1.0,
    )


# ----------------------------------------------------------------------------- one table


@attrs.frozen(eq=False)
class TableTask:
    """One table: called, it computes the posterior and returns the ranks.

    Attributes
    ----------
    model : Model
    data : dict from block name to Observations
        Without the hidden entries.
    hidden : dict from block name to mask
    z : array (n_rows x n_columns of Z)
    new_values : dict from block name to array
    parameters : dict from name to array (p,)
    scales : tuple of Summary
    options : PosteriorOptions
    seed : int
    """

    model: Model
    data: Mapping[str, Observations]
    hidden: Mapping[str, Mask]
    z: Array
    new_values: Mapping[str, Array]
    parameters: Mapping[str, Array]
    scales: tuple[Summary, ...]
    options: PosteriorOptions
    seed: int = 0

    @classmethod
    def of(
        cls,
        template: Template,
        drawn: DrawnTables,
        place: int,
        hidden: Mapping[str, Mask],
        options: PosteriorOptions,
    ) -> "TableTask":
        """One of many tables that were drawn."""
        data = {}
        for block in template.problem.model.blocks:
            name = block.name
            table, values = template.problem.tables[name], drawn.values[name][place]
            data[name] = Observations(
                np.where(hidden[name], np.nan, values),
                weights=None if table.weights is None else table.weights.reshape(table.shape),
                offset=None
                if table.offset is None
                else np.array(table.offset.dense()[:, :: block.likelihood.width]),
            )
        return cls(
            model=template.problem.model,
            data=data,
            hidden=hidden,
            z=drawn.z[place],
            new_values={name: values[place] for name, values in drawn.new_values.items()},
            parameters={name: values[place] for name, values in drawn.parameters.items()},
            scales=template.observed.summaries,
            options=options,
        )

    def __call__(self) -> TableRanks:
        """The ranks of what the table was drawn from."""
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)
            warnings.simplefilter("ignore", NotConvergedWarning)
            posterior = posterior_of(
                self.model, self.data, self.seed, self.options, scales=self.scales, progress=False
            )
        return self.ranks(posterior, time.process_time() - began)

    def ranks(self, posterior: Posterior, seconds: float = 0.0) -> TableRanks:
        """The ranks of what the table was drawn from among draws of a posterior."""
        rng, engine = np.random.default_rng((self.seed, 2)), posterior.engine
        n_draws = MOST_RANKED_DRAWS
        if engine.diagnostics is not None:
            least = max(engine.diagnostics.effective_draws, FEWEST_RANKED_DRAWS)
            n_draws = int(min(n_draws, least, engine.n_draws))
        ranks: dict[str, Array] = {}
        z = self.ranks_of_z(posterior, n_draws, rng)
        for block in self.model.blocks:
            ranks |= self.ranks_of_block(posterior, block, z, n_draws, rng)
        log_ratios = {}
        for name, draws in parameters_of(engine).items():
            truth = self.parameters[name]
            if len(draws) > 1:
                ranks[name] = ranks_among(draws[engine.draw_numbers(n_draws)], truth, rng)
            else:
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratios = np.log(draws[0] / truth)
                if np.all(np.isfinite(ratios)):
                    log_ratios[name] = ratios
        counts = {
            kind: np.histogram(of_kind, RANK_BINS, (0.0, 1.0))[0]
            for kind, of_kind in ranks.items()
        }
        return TableRanks(counts, log_ratios, posterior.status is Status.CONVERGED, seconds)

    def ranks_of_z(self, posterior: Posterior, n_draws: int, rng: np.random.Generator) -> Array:
        """Ranks of all numbers of z, (n_rows x n_columns of Z)."""
        engine = posterior.engine
        if engine.n_draws > 1:
            return ranks_among(engine.draws(np.arange(len(self.z)), rng, n_draws), self.z, rng)
        rows, columns = (places.ravel() for places in np.indices(self.z.shape))
        weights, means, variances = engine.mixture(rows, columns)
        deviations = np.sqrt(np.maximum(variances, TINY))
        below = np.sum(weights * ndtr((self.z.ravel() - means) / deviations), axis=0)
        return np.asarray(below.reshape(self.z.shape))

    def ranks_of_block(
        self,
        posterior: Posterior,
        block: Block,
        z: Array,
        n_draws: int,
        rng: np.random.Generator,
    ) -> dict[str, Array]:
        """Ranks of z, of new observations and of the total of one block, by kind."""
        name, hidden = block.name, self.hidden[block.name]
        prefix = f"{name}: " if len(self.model.blocks) > 1 else ""
        width = block.likelihood.width
        of_block = z[:, posterior.problem.columns(name)].reshape(*hidden.shape, width)
        n_entries = np.sum([np.sum(~mask, axis=1) for mask in self.hidden.values()], axis=0)
        few, many = np.quantile(n_entries, [ROWS_SHARE, 1.0 - ROWS_SHARE])
        cells = {"observed cells": ~hidden, "hidden cells": hidden}
        if few < many:
            cells["hidden, rows with few entries"] = hidden & (n_entries <= few)[:, None]
            cells["hidden, rows with many entries"] = hidden & (n_entries >= many)[:, None]
        ranks = {f"{prefix}z, {kind}": of_block[mask].ravel() for kind, mask in cells.items()}
        sampled = posterior.sample(name, n_draws)
        for kind, mask in (("observed cells", ~hidden), ("hidden cells", hidden)):
            rows, columns = np.nonzero(mask)
            kind = f"{prefix}new observations, {kind}"
            if posterior.engine.n_draws > 1:
                at = sampled[:, rows, columns], self.new_values[name][rows, columns]
                ranks[kind] = ranks_among(*at, rng)
                continue
            if rows.size > MOST_RANKED_CELLS:
                chosen = rng.choice(rows.size, MOST_RANKED_CELLS, replace=False)
                rows, columns = rows[chosen], columns[chosen]
            below, upto = self.distribution_at(posterior, block, rows, columns)
            ranks[kind] = below + rng.random(below.size) * (upto - below)
        if block.likelihood.kind is not ValueKind.CLASS and hidden.any():
            totals = sampled[:, hidden].sum(axis=1)
            total = np.array([self.new_values[name][hidden].sum()])
            ranks[f"{prefix}total of hidden values"] = ranks_among(totals[:, None], total, rng)
        return ranks

    def distribution_at(
        self, posterior: Posterior, block: Block, rows: IntArray, columns: IntArray
    ) -> tuple[Array, Array]:
        """P(Y < y) and P(Y <= y) of new observations y at cells."""
        if not rows.size:
            return np.zeros(0), np.zeros(0)
        values = np.clip(self.new_values[block.name][rows, columns], -1e15, 1e15)
        table = posterior.tables[block.name]
        predictive = predictive_at(
            posterior.engine, posterior.problem, block.name, rows, columns, table
        )
        y = table_of_values(block, table, rows, columns, values).values
        if has_probabilities(block.likelihood):
            possible, probabilities = predictive.probabilities()
            upto = np.cumsum(probabilities, axis=1) / np.sum(probabilities, axis=1)[:, None]
            place = np.searchsorted(possible, y)
            cells = np.arange(y.size)
            before = np.where(place > 0, upto[cells, np.maximum(place - 1, 0)], 0.0)
            return before, upto[cells, place]
        upto = predictive.cdf(y)
        return (predictive.cdf(y - 1.0) if block.likelihood.whole else upto), upto


def ranks_among(draws: Array, truth: Array, rng: np.random.Generator) -> Array:
    """The ranks of numbers (...) among draws (m x ...), between 0 and 1; at random among equals.

    Uniform where a number and the draws are independent and alike.
    """
    below = np.sum(draws < truth, axis=0)
    equal = np.sum(draws == truth, axis=0)
    return np.asarray((below + rng.random(truth.shape) * (equal + 1.0)) / (len(draws) + 1.0))

"""Gaussian factors by variational Bayes: z_ij = x_i'w_j, with distributions of rows and columns.

Row i has K numbers x_i and column j K numbers w_j. The first k are factors. For each block with
effects of rows there is one more: the effect in x_i, and in w_j a 1 for columns of the block. If a
block has biases there is a last one: a 1 in x_i, and the bias in w_j. The posterior is
approximated by a product of one Gaussian for each row and one for each column (Lim and Teh, 2007;
Raiko, Ilin and Karhunen, 2007), which maximises

    sum over entries of E[constant - precision (z - value)^2 / 2] - KL(q(x) || p) - KL(q(w) || p),

a lower bound on the log evidence: each entry counts by the Gaussian pseudo-observation that
``posterior.observed`` makes of it. Variances of noise and precisions of the priors are those that
make it largest. In the answers rows and columns depend on each other by linear response, which is
found when it is first asked for (``posterior.linear_response``).
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import Any

import attrs
import numpy as np
from scipy.special import gammaln

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import ValueKind
from mcframe.contracts.rounding import EPS, TINY
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.sent import fresh_key
from mcframe.contracts.stored_classes import stored
from mcframe.numerics import factor_loops as loops
from mcframe.numerics.density_of_deviation import mean_square
from mcframe.posterior.attributes import AttributeGroup, read_new_rows
from mcframe.posterior.coefficients import AttributeSums, Coefficients
from mcframe.posterior.engine import SingleDistribution
from mcframe.posterior.factor_state import Design, FactorState, Priors, initial_precision
from mcframe.posterior.gaussians import (
    SINGULAR_MESSAGE,
    Gaussians,
    SingularEquations,
    gaussians_of_groups,
)
from mcframe.posterior.linear_response import (
    ColumnResponse,
    RowsGiven,
    is_small,
    rows_at_a_time,
)
from mcframe.posterior.observed import LOG_TWO_PI, NOISE_PRIOR_ENTRIES, Observed
from mcframe.posterior.row_pass import PosteriorRows, RowSums, SweptRows

# The number of first sweeps in which noise variances stay at their initial values: a column that
# no factor explains yet would be explained by noise alone, and stay so.
SWEEPS_OF_FIXED_NOISE = 2
# The smallest noise variance, over the mean square of the column's values.
LEAST_NOISE_SHARE = 1e-10
# The smallest variance of noise in predictors.
LEAST_PREDICTOR_NOISE = 1e-6
# The prior of the variance of effects counts as much as so many effects.
EFFECTS_PRIOR_COUNT = 2.0
# A factor has collapsed if its loadings are below this share of the deviation of their prior.
COLLAPSED_SHARE = 0.3
# A factor fades if its posterior variances in columns are more than 1 less this share of its prior
# variance. Its precision is multiplied by the step after a sweep that raises the bound by less
# than SLOW_RISE for each entry.
FADING_SHARE, FADING_PRECISION_STEP, SLOW_RISE = 0.1, 8.0, 1e-4
# Sweeps by expected log likelihoods, at most. They end when no mean of a column moves by more than
# this part of its standard deviation.
MOST_EXPECTED_SWEEPS, SETTLED_MOVE = 100, 0.02

INDEPENDENCE_NOTE = (
    "rows and columns are taken as independent of each other, and likelihoods are replaced by"
    " bounds, as in all large tables, and in files of earlier versions: standard deviations of z"
    " are too small, on drawn tables of two factors and 1,000 x 100 by less than 1 % for numbers,"
    " 11 % for levels and 15 % for labels, of 100 x 20 by 2 %, 16 % and 22 %"
)
PREDICTOR_NOISE_NOTE = (
    "rows and columns are taken as independent of each other, as in all large tables, and the"
    " noise in predictors of counts or durations is found too large where there is little: on"
    " drawn tables of 100 x 12 and 200 x 10 without such noise, standard deviations of z were"
    " 1.9 to 2.1 times the exact ones"
)
LEARNED_NOTE = (
    "precisions of factors are estimates, and weak factors may be missing: in drawn tables of"
    " 30 x 8 without a weight, standard deviations of z were .3 (labels) to 1.1 times the exact"
    " ones, means of durations off by a quarter of one; method='sampler' averages over precisions"
)
LABELS_NOTE = (
    "the distribution of z given labels has longer tails than the Gaussian in its place: on drawn"
    " tables of 30 x 8, 100 x 12 and 200 x 10 standard deviations of z were 8, 13 and 13 % too"
    " small; method='sampler' is exact"
)


@stored
@attrs.frozen(eq=False)
class FactorPosterior(SingleDistribution):
    """Gaussian factors of some rows, wherever these are, and the columns and priors of a fit.

    ``observed`` has the summaries of all blocks, with fitted parameters of likelihoods.
    ``evidence`` is the lower bound on the log evidence after the sweep, and ``rounding`` how far
    rounding may move it.
    """

    rows: SweptRows
    observed: Observed
    state: FactorState
    evidence: float = -np.inf
    rounding: float = 0.0
    converged: bool | None = None  # sweeps go on
    has_response: bool = False  # not new rows, nor answers of earlier versions in files
    response_of_fit: ColumnResponse | None = None  # of new rows

    @property
    def noise(self) -> Array:
        """The noise variance of each column of Z, 1 where none is learned."""
        return self.state.priors.noise

    @property
    def factor_precisions(self) -> Array:
        """Prior precisions of the loadings of each factor, ascending."""
        return np.sort(np.broadcast_to(self.state.priors.factors, self.n_factors))

    def rows_given(self, rows: IntArray) -> Gaussians:
        """The Gaussians of some rows, which are in ascending order."""
        return self.rows_with_entries(rows).gaussians

    def rows_with_entries(self, rows: IntArray) -> RowsGiven:
        """Some rows given the columns, with their entries; rows are in ascending order."""
        return self.rows.rows_given(rows, self.observed.summaries, self.state)

    @property
    def has_predictor_noise(self) -> bool:
        """True if the predictors of a block have noise of their own."""
        return any(block.learned_noise == "block" for block in self.observed.blocks)

    @property
    def has_independent_rows(self) -> bool:
        """True if the answers take rows and columns as independent of each other."""
        if self.response_of_fit is not None:
            return False
        small = is_small(*self.observed.shape, self.state.design.width)
        return not self.has_response or not small or self.state.has_attributes

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what the variances leave out, or have too much of."""
        if self.has_independent_rows:
            return (PREDICTOR_NOISE_NOTE if self.has_predictor_noise else INDEPENDENCE_NOTE,)
        has_labels = any(b.unfitted.kind is ValueKind.LABEL for b in self.observed.blocks)
        is_learned = self.state.priors.weight is None and self.observed.has_expectations
        notes = (LEARNED_NOTE,) * is_learned + (LABELS_NOTE,) * has_labels
        return (*self.observed.bounds_notes, *notes)

    @property
    def refined(self) -> "FactorPosterior":
        """The distributions by which answers are given; effects and noise of columns are the same.

        In small tables entries count by their expected log likelihoods where the sweeps have
        bounds: rows and columns are found in turn by natural gradient steps (Khan and Lin,
        Conjugate-computation variational inference, AISTATS 2017). Noise of predictors then has
        its expected variance, and factors have learned precisions at the mode of the sampler's
        prior, under which they are not switched off.
        """
        small = self.has_response and is_small(*self.observed.shape, self.state.design.width)
        small = small and not self.state.has_attributes
        # Nothing that holds itself is kept: its arrays would wait for the collector of garbage.
        needed = small and self.observed.has_expectations and not self.state.expects
        return self._by_expectations if needed else self

    @cached_property
    def _by_expectations(self) -> "FactorPosterior":
        state = attrs.evolve(self.state, expects=True, key=fresh_key())
        engine = without_collapse(attrs.evolve(self, rows=self.rows.for_sweeps(), state=state))
        settle = settled_with_noise if self.has_predictor_noise else settled_columns
        try:
            state = settle(engine).state
        except SingularEquations:
            return self
        return attrs.evolve(self, rows=self.rows.without_bounds(), state=state)

    @cached_property
    def response(self) -> ColumnResponse | None:
        """All columns together; None where the answers have rows and columns as independent."""
        if self.response_of_fit is not None:
            return self.response_of_fit
        if self.has_independent_rows:
            return None
        # Bounds that suit the columns, wherever the rows are.
        settled = attrs.evolve(self, rows=self.rows.without_bounds())
        n_rows, columns = self.observed.shape[0], self.state.columns
        size = rows_at_a_time(*columns.means.shape)
        starts = range(0, n_rows, size)
        groups = (
            settled.rows_with_entries(np.arange(at, min(at + size, n_rows))) for at in starts
        )
        return ColumnResponse.of(columns, groups)

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        return self.state.design.n_factors

    @property
    def n_steps(self) -> int:
        """0: factors take sweeps."""
        return 0

    def __str__(self) -> str:
        return f"factors    {self.n_factors}"

    def mixture(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array, Array]:
        """Weights, means and variances (1 x N) of z at cells, effects included."""
        if not rows.size:
            return np.ones((1, 0)), np.zeros((1, 0)), np.zeros((1, 0))
        distinct, which = np.unique(rows, return_inverse=True)
        order = np.argsort(which, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(which))])
        refined = self.refined
        of_rows, response = refined.rows_with_entries(distinct), refined.response
        if response is not None:
            mean, variance = response.moments(of_rows, which, columns)
        else:
            mean, variance = np.empty(rows.size), np.empty(rows.size)
            sides = of_rows.gaussians, refined.state.columns
            moments = [array for side in sides for array in (side.means, side.covariances)]
            places = starts, columns[order], order
            loops.predictor_moments(0, distinct.size, *places, *moments, mean, variance)
        mean, variance = (
            mean + self.observed.centres[columns],
            variance + self.predictor_noise[columns],
        )
        return np.ones((1, rows.size)), mean[None], variance[None]

    @property
    def predictor_noise(self) -> Array:
        """The variance of the noise that is part of the predictors of each column of Z."""
        noise = self.refined.state.noise_of_predictors(self.observed)
        sizes = [block.columns.stop - block.columns.start for block in self.observed.blocks]
        return np.repeat(noise, sizes)

    def draws(self, rows: IntArray, rng: np.random.Generator, m: int) -> Array:
        """Draws of z (m x len(rows) x n_columns), effects included; columns are drawn once."""
        distinct, which = np.unique(rows, return_inverse=True)
        refined = self.refined
        of_rows, response = refined.rows_with_entries(distinct), refined.response
        if response is None:
            drawn = of_rows.gaussians.draws(rng, m)
            z = np.einsum("mrk,mck->mrc", drawn, refined.state.columns.draws(rng, m))[:, which]
        else:
            z = response.predictors(of_rows, rng, m)[:, which]
        noise = np.sqrt(self.predictor_noise)
        if noise.any():
            z += noise * rng.standard_normal(z.shape)
        return np.asarray(z + self.observed.centres)

    @property
    def attributes(self) -> dict[str, str]:
        """The groups of attributes on which prior means depend, as text."""
        sides = self.state.row_coefficients, self.state.column_coefficients
        return described_groups([() if one is None else one.groups for one in sides])

    def with_row_attributes(self, attributes: Any, observed: Observed) -> "FactorPosterior":
        """The posterior with the attributes of the rows that have these entries."""
        coefficients = self.state.row_coefficients
        if coefficients is None:
            return self
        values = read_new_rows(attributes, coefficients.groups, observed)
        state = attrs.evolve(self.state, row_coefficients=coefficients.with_values(values))
        return attrs.evolve(self, state=state)

    def condition(
        self, observed: Observed, members: GroupMembers | None = None
    ) -> "FactorPosterior":
        """The posterior of new rows with these entries, columns and priors as they are."""
        rows, refined = PosteriorRows(observed), self.refined
        return attrs.evolve(
            refined,
            rows=rows,
            observed=observed,
            response_of_fit=refined.response,
            has_response=False,
        )


def described_groups(groups: Sequence[tuple[AttributeGroup, ...]]) -> dict[str, str]:
    """The formulas of prior means of rows and of columns, with groups of attributes by name."""
    formulas = {
        "attributes of rows": "x_i = A'f_i + d_i, f",
        "attributes of columns": "w_j = B'g_j + e_j, g",
    }
    return {
        side: f"{formula} = {', '.join(map(str, of_side))}"
        for (side, formula), of_side in zip(formulas.items(), groups, strict=False)
        if of_side
    }


def sweep(before: FactorPosterior, learns_noise: bool = True) -> FactorPosterior:
    """A pass over rows, then columns, noise and priors."""
    rows, observed, state = before.rows, before.observed, before.state
    if observed.fits_parameters:
        observed = rows.fitted(observed, state)
    if state.row_coefficients is not None:
        state = row_coefficients_step(rows, observed, state)
    key = fresh_key()
    sums = rows.sums(observed.summaries, state, key)
    state = attrs.evolve(state, key=key)
    after = columns_step(rows, observed, state, sums, learns_noise)
    # Factors with learned precisions that the data hardly determine.
    variances = state.columns.variances
    if state.column_coefficients is not None:
        variances = variances - state.column_coefficients.variances
    variances = np.mean(variances[:, : state.design.n_factors], axis=0)
    fading = state.priors.factors * variances > 1.0 - FADING_SHARE
    fading &= state.priors.weight is None
    if not fading.any() or after.evidence - before.evidence > SLOW_RISE * observed.n_entries:
        return after
    # Their best precisions are infinite, and updates raise them by the same amount each sweep. Not
    # earlier: factors that have not quite faded make predictions better.
    factors = np.where(fading, FADING_PRECISION_STEP, 1.0) * state.priors.factors
    state = attrs.evolve(state, priors=attrs.evolve(state.priors, factors=factors))
    faster = columns_step(rows, observed, state, sums, learns_noise)
    return faster if faster.evidence > after.evidence else after


def columns_step(
    rows: SweptRows, observed: Observed, state: FactorState, sums: RowSums, learns_noise: bool
) -> FactorPosterior:
    """Columns, noise and priors given the sums of rows; factors are rotated if that is better."""
    sides, residuals = columns_given(observed, state, sums)
    design, priors = state.design, state.priors
    if learns_noise:
        noise, noise_prior_centre = best_noise(observed, priors, sums, residuals)
        priors = attrs.evolve(priors, noise=noise, noise_prior_centre=noise_prior_centre)
    pair = [sides, rotated(design, sides, observed.shape[0], priors.weight)]
    priors_of = [best_priors(observed, design, priors, one) for one in pair]
    if learns_noise and state.has_attributes:
        pair = [one.rescaled(design, best) for one, best in zip(pair, priors_of, strict=True)]
    candidates = list(zip(pair, priors_of, strict=True))
    values = [prior_terms(observed, design, *candidate) for candidate in candidates]
    best = int(values[1] > values[0])
    sides, priors = candidates[best]
    data = data_term(observed, priors, sums, residuals) + noise_term(observed, priors)
    evidence = float(data + values[best])
    rounding = EPS * float(np.sum(sums.totals[:, 1] / priors.noise)) + float(sums.rounding)
    state = attrs.evolve(
        state,
        columns=sides.columns,
        priors=priors,
        row_coefficients=sides.row_coefficients,
        column_coefficients=sides.column_coefficients,
    )
    return FactorPosterior(rows, observed, state, evidence, rounding, has_response=True)


@attrs.frozen(eq=False)
class Sides:
    """Columns, sums of rows, and the coefficients of the attributes of both.

    ``deviations`` are the columns without what attributes say of them; None where these say
    nothing.
    """

    columns: Gaussians
    sums: RowSums
    row_coefficients: Coefficients | None = None
    column_coefficients: Coefficients | None = None
    deviations: Gaussians | None = None

    @property
    def column_deviations(self) -> Gaussians:
        """Columns without what attributes say of them."""
        return self.columns if self.deviations is None else self.deviations

    def rescaled(self, design: Design, priors: Priors) -> "Sides":
        """Columns, sums and coefficients with the best scales of attributes."""
        of_rows, of_columns = priors.of_coefficients(design)
        rows, columns = self.row_coefficients, self.column_coefficients
        return attrs.evolve(
            self,
            row_coefficients=rows and rows.rescaled(of_rows, design.n_factors),
            column_coefficients=columns and columns.rescaled(of_columns, design.n_factors),
        )


def row_coefficients_step(rows: SweptRows, observed: Observed, state: FactorState) -> FactorState:
    """The state with the best coefficients of rows' attributes, given the columns."""
    assert state.row_coefficients is not None
    prior = state.priors.of_coefficients(state.design)[0]
    sums = rows.attribute_sums(observed.summaries, state)
    coefficients = state.row_coefficients.updated(sums, prior)
    return attrs.evolve(state, row_coefficients=coefficients)


def factor_sweeps(engine: FactorPosterior, n_before: int = 0) -> Iterator[FactorPosterior]:
    """Yield the posterior after each sweep, without end.

    ``n_before`` sweeps were made before, in another process perhaps.
    """
    for number in count(n_before):
        engine = sweep(engine, learns_noise=number >= SWEEPS_OF_FIXED_NOISE)
        yield engine


def columns_given(observed: Observed, state: FactorState, sums: RowSums) -> tuple[Sides, Array]:
    """All columns given the sums of rows, with coefficients, and expected squared residuals.

    Residuals are sums of ``precision * E[(value - z)^2]``, before a division by learned variances.
    """
    design, scale = state.design, 1.0 / state.priors.noise[:, None]
    precisions, means = state.priors.of_columns(observed, design)
    matrices = scale * sums.matrices
    columns = gaussians_of_groups(
        *(matrices, scale * sums.vectors, design.groups, design.fixed_values, precisions, means)
    )
    coefficients, deviations = state.column_coefficients, None
    if coefficients is not None:
        prior = state.priors.of_coefficients(design)[1]
        of_columns = matrices, columns, means, precisions
        sums_of_attributes = AttributeSums.of(coefficients.attributes, *of_columns)
        coefficients = coefficients.updated(sums_of_attributes, prior)
        columns, deviations = coefficients.added_to(columns, precisions)
    twice = np.full(sums.matrices.shape[1], 2.0)
    twice[np.diag(loops.unpacking(design.width))] = 1.0
    residuals = (
        sums.totals[:, 1]
        - 2.0 * np.einsum("jk,jk->j", sums.vectors, columns.means)
        + np.einsum("jp,jp,p->j", sums.matrices, columns.outer_products, twice)
    )
    sides = Sides(columns, sums, state.row_coefficients, coefficients, deviations)
    return sides, np.maximum(residuals, 0.0)


def best_noise(
    observed: Observed, priors: Priors, sums: RowSums, residuals: Array
) -> tuple[Array, float]:
    """Variances of the noise that make the bound largest, and the centre of their prior."""
    noise, noise_prior_centre = np.array(priors.noise), priors.noise_prior_centre
    learned = observed.columns_with_noise
    means = (residuals + NOISE_PRIOR_ENTRIES * noise_prior_centre) / (
        observed.counts + NOISE_PRIOR_ENTRIES
    )
    noise[learned] = np.maximum(means, LEAST_NOISE_SHARE * observed.mean_squares)[learned]
    if learned.size:
        noise_prior_centre = 1.0 / float(np.mean(1.0 / noise[learned]))
    for b, block in enumerate(observed.blocks):
        total = np.sum(block.required_summary.counts)
        if block.learned_noise == "block" and total:
            mean = (np.sum(residuals[block.columns]) + sums.variance_sums[b]) / total
            noise[block.columns] = max(float(mean), LEAST_PREDICTOR_NOISE)
    return noise, noise_prior_centre


def settled_columns(engine: FactorPosterior) -> FactorPosterior:
    """The engine after sweeps by expected log likelihoods, with noise and effects as they are.

    Its evidence is that before the last sweep, if predictors have noise. Raises
    ``SingularEquations`` where numbers grow beyond all bounds.
    """
    observed, rows, state, evidence = engine.observed, engine.rows, engine.state, -np.inf
    design = state.design
    for _ in range(MOST_EXPECTED_SWEEPS):
        before = state.columns
        sums = rows.sums(observed.summaries, state, state.key)
        columns = columns_given(observed, state, sums)[0].columns
        evidence = float(sums.constants) + prior_terms(
            observed, design, Sides(before, sums), state.priors
        )
        if not np.all(np.isfinite(columns.means)):
            raise SingularEquations(SINGULAR_MESSAGE)
        deviations = np.sqrt(np.maximum(columns.variances, TINY))
        moves = np.abs(columns.means - before.means) / deviations
        state = attrs.evolve(state, columns=columns)
        if state.priors.weight is None:
            columns = rotated(design, Sides(columns, sums), observed.shape[0], None).columns
            squares = np.sum(np.square(columns.means) + columns.variances, axis=0)
            factors = factor_precisions(observed, squares[: design.n_factors])
            priors = attrs.evolve(state.priors, factors=factors)
            state = attrs.evolve(state, columns=columns, priors=priors)
        if np.all(moves <= SETTLED_MOVE, where=design.free):
            break
    return attrs.evolve(engine, state=state, evidence=evidence)


def factor_precisions(observed: Observed, squares: Array) -> Array:
    """Precisions of factors whose deviations t have a half-Cauchy prior, at the mode of log t.

    There ``squares / t^2 = n_columns - 1 + 2 t^2 / (unit^2 + t^2)`` with the expected sums of
    squares of the loadings and the ``unit`` of ``deviation_unit``: a quadratic equation in t^2.
    """
    d, unit = observed.shape[1], deviation_unit(observed, squares.size) ** 2
    # (d + 1) t^4 + ((d - 1) unit - squares) t^2 - squares unit = 0
    half = 0.5 * ((d - 1.0) * unit - squares)
    root = np.sqrt(np.square(half) + (d + 1.0) * squares * unit)
    variances = np.where(
        half > 0.0, squares * unit / (root + np.abs(half)), (root - half) / (d + 1.0)
    )
    return 1.0 / np.maximum(variances, TINY)


def deviation_unit(observed: Observed, k: int) -> float:
    """The scale of a factor's deviation: all k together expect the mean square of the values.

    Otherwise each factor that is allowed would add to what the prior expects of z.
    """
    return float(np.sqrt(np.mean(observed.mean_squares) / max(k, 1)))


@attrs.define(eq=False)
class NoiseSearch:
    """The engine, settled where the noise in the predictors of block b has several deviations."""

    begin: FactorPosterior
    b: int
    settled: dict[float, FactorPosterior] = attrs.field(factory=dict)

    def engine(self, s: float) -> FactorPosterior:
        """The engine with noise of this deviation, from where that with the nearest one ended."""
        if s not in self.settled:
            nearest = min(self.settled, key=lambda other: abs(other - s), default=None)
            start = self.begin if nearest is None else self.settled[nearest]
            noise = np.array(start.state.predictor_noise)
            noise[self.b] = s * s
            state = attrs.evolve(start.state, predictor_noise=noise)
            self.settled[s] = settled_columns(attrs.evolve(start, state=state))
        return self.settled[s]

    def log_density(self, s: float) -> float:
        """The bound on the evidence given s, and the logarithm of its half-normal prior."""
        return self.engine(s).evidence - 0.5 * s * s


def settled_with_noise(engine: FactorPosterior) -> FactorPosterior:
    """The engine with ``settled_columns`` where predictors' noise has its expected variance."""
    noise = engine.state.noise_of_predictors(engine.observed)
    of_columns = np.array(engine.state.priors.noise)
    for block in engine.observed.blocks:
        if block.learned_noise == "block":
            of_columns[block.columns] = 1.0
    priors = attrs.evolve(engine.state.priors, noise=of_columns)
    state = attrs.evolve(engine.state, priors=priors, predictor_noise=noise)
    engine, least = attrs.evolve(engine, state=state), float(np.sqrt(LEAST_PREDICTOR_NOISE))
    for b in np.flatnonzero(noise).tolist():
        search, largest = NoiseSearch(engine, b), max(float(np.sqrt(noise[b])), 2.0 * least)
        variance = mean_square(search.log_density, largest, least)
        engine = search.engine(float(np.sqrt(variance)))
    return engine


def without_collapse(engine: FactorPosterior) -> FactorPosterior:
    """The engine with columns in which factors that are next to 0 begin anew.

    The sweeps leave them at 0, where they would stay: bounds are loose, and noise of predictors is
    found too large.
    """
    state, k = engine.state, engine.n_factors
    means, priors = np.array(state.columns.means), state.priors
    initial = initial_precision(engine.observed, priors.weight)
    deviation = 1.0 / np.sqrt(initial)
    weak = np.sqrt(np.mean(np.square(means[:, :k]), axis=0)) < COLLAPSED_SHARE * deviation
    drawn = np.random.default_rng(0).standard_normal((len(means), k))
    means[:, :k] = np.where(weak, deviation * drawn, means[:, :k])
    priors = attrs.evolve(priors, factors=np.where(weak, initial, priors.factors))
    columns = attrs.evolve(state.columns, means=means)
    return attrs.evolve(engine, state=attrs.evolve(state, columns=columns, priors=priors))


def data_term(observed: Observed, priors: Priors, sums: RowSums, residuals: Array) -> float:
    """The expected parabolas below the log likelihoods of all entries."""
    total = float(sums.constants) - 0.5 * float(np.sum(residuals / priors.noise))
    for b, block in enumerate(observed.blocks):
        counts, noise = block.required_summary.counts, priors.noise[block.columns]
        if block.learned_noise == "column":
            total -= 0.5 * float(np.sum(counts * (LOG_TWO_PI + np.log(noise))))
            total += 0.5 * block.required_summary.log_weights
        elif block.learned_noise == "block":
            total -= 0.5 * float(
                sums.variance_sums[b] / noise[0] + np.sum(counts) * np.log(noise[0])
            )
    return total


def noise_term(observed: Observed, priors: Priors) -> float:
    """The log density of the logarithms of learned variances: scaled inverse chi square."""
    learned, half = observed.columns_with_noise, 0.5 * NOISE_PRIOR_ENTRIES
    if not learned.size:
        return 0.0
    ratio = priors.noise_prior_centre / priors.noise[learned]
    constant = half * np.log(half) - gammaln(half)
    return float(np.sum(constant + half * (np.log(ratio) - ratio)))


def rotated(design: Design, sides: Sides, n_rows: int, weight: float | None) -> Sides:
    """Columns and sums of rows where factors are turned and scaled to the largest bound.

    z does not change under u -> R'u, v -> R^-1 v, the divergences from the priors do. With
    F = sum E[u u'] and G = sum E[v v'] the best R is F^(-1/2) Q diag(x)^(1/2), Q the axes of
    F^(1/2) G F^(1/2) and x = n_rows where the precisions of columns' factors are learned (Luttinen
    and Ilin, 2010); under a given weight w, and m the sizes along these axes,
    ``x^2 - (n_rows - n_columns) x = w^2 m``. Coefficients of attributes count as rows and columns,
    whose places deviations from attributes take.
    """
    k, width = design.n_factors, design.width
    if not k:
        return sides
    where, sums, deviations = loops.unpacking(width), sides.sums, sides.column_deviations
    squares = np.sum(deviations.covariances, axis=0)[where] + deviations.means.T @ deviations.means
    outer_products = sums.outer_products[where[:k, :k]]
    of_row_attributes, of_column_attributes = sides.row_coefficients, sides.column_coefficients
    n_rows_before, n_columns = n_rows, design.fixed_values.shape[0]
    if of_row_attributes is not None:
        outer_products = outer_products + of_row_attributes.outer_products[:k, :k]
        n_rows += of_row_attributes.attributes.shape[1]
    if of_column_attributes is not None:
        squares += of_column_attributes.outer_products
        n_columns += of_column_attributes.attributes.shape[1]
    values, axes = np.linalg.eigh(outer_products)
    root = (axes * np.sqrt(values)) @ axes.T
    sizes, rotation = np.linalg.eigh(root @ squares[:k, :k] @ root)
    sizes, rotation = np.maximum(sizes[::-1], 0.0), rotation[:, ::-1]
    scales = np.full(k, float(n_rows))
    if weight is not None:
        excess_rows = float(n_rows - n_columns)
        products = weight**2 * np.maximum(sizes, EPS * np.max(sizes))
        larger = 0.5 * (abs(excess_rows) + np.sqrt(excess_rows**2 + 4.0 * products))
        scales = larger if excess_rows >= 0.0 else products / larger
    inverse = (rotation / np.sqrt(scales)).T @ root  # R^-1
    forward = ((axes / np.sqrt(values)) @ axes.T @ rotation * np.sqrt(scales)).T  # R'
    log_det = 0.5 * float(np.sum(np.log(scales)) - np.sum(np.log(values)))  # of R
    of_columns, of_rows = np.eye(width), np.eye(width)
    of_columns[:k, :k], of_rows[:k, :k] = inverse, forward
    outer_products = loops.packed(of_rows @ sums.outer_products[where] @ of_rows.T)
    log_determinants = sums.log_determinants + 2.0 * n_rows_before * log_det
    sums = attrs.evolve(sums, outer_products=outer_products, log_determinants=log_determinants)
    return Sides(
        sides.columns.turned(of_columns, -log_det),
        sums,
        of_row_attributes and of_row_attributes.turned(of_rows, log_det),
        of_column_attributes and of_column_attributes.turned(of_columns, -log_det),
        sides.deviations and sides.deviations.turned(of_columns, -log_det),
    )


def best_priors(observed: Observed, design: Design, priors: Priors, sides: Sides) -> Priors:
    """Precisions and means of the priors that make the bound largest."""
    k, (n_rows, n_columns) = design.n_factors, observed.shape
    factors, columns, sums = priors.factors, sides.column_deviations, sides.sums
    if priors.weight is None:
        squares = np.sum((np.square(columns.means) + columns.variances)[:, :k], axis=0)
        if sides.column_coefficients is not None:
            n_columns += sides.column_coefficients.attributes.shape[1]
            squares += np.diag(sides.column_coefficients.outer_products)[:k]
        factors = n_columns / np.maximum(squares, TINY)
    of_rows = sums.outer_products[np.diag(loops.unpacking(design.width))]
    row_effects, biases = np.array(priors.row_effects), np.array(priors.biases)
    bias_means = np.array(priors.bias_means)
    for place, b in enumerate(design.row_blocks):
        if not observed.blocks[b].ridge:
            prior_squares = (
                EFFECTS_PRIOR_COUNT * observed.blocks[b].required_summary.reference_square
            )
            row_effects[place] = (n_rows + EFFECTS_PRIOR_COUNT) / (
                of_rows[k + place] + prior_squares
            )
    for b, block in enumerate(observed.blocks):
        if block.layout.n_biases:
            means = columns.means[block.columns, -1] + block.required_summary.centres
            free = not block.ridge or block.layout.n_intercepts
            bias_means[b] = np.mean(means) if free else 0.0
            if not block.ridge:
                variances = columns.covariances[block.columns, -1]
                squares = np.sum(variances + (means - bias_means[b]) ** 2)
                prior_squares = EFFECTS_PRIOR_COUNT * block.required_summary.reference_square
                biases[b] = (means.size + EFFECTS_PRIOR_COUNT) / (squares + prior_squares)
    return attrs.evolve(
        priors, factors=factors, row_effects=row_effects, biases=biases, bias_means=bias_means
    )


def prior_terms(observed: Observed, design: Design, sides: Sides, priors: Priors) -> float:
    """Minus the divergences from the priors, and the densities of learned precisions."""
    coefficients = sides.row_coefficients, sides.column_coefficients
    pairs = zip(coefficients, priors.of_coefficients(design), strict=True)
    return (
        effects_term(observed, design, priors)
        - divergence_of_columns(observed, design, priors, sides.column_deviations)
        - divergence_of_rows(observed, design, priors, sides.sums)
        - sum(one.divergence(prior) for one, prior in pairs if one is not None)
    )


def effects_term(observed: Observed, design: Design, priors: Priors) -> float:
    """The log densities of the logarithms of learned precisions of effects, up to a constant."""
    total = 0.0
    pairs = list(zip(priors.row_effects, design.row_blocks, strict=True))
    pairs += [
        (priors.biases[b], b) for b, block in enumerate(observed.blocks) if block.layout.n_biases
    ]
    for precision, b in pairs:
        block = observed.blocks[b]
        if not block.ridge:
            ratio = float(precision) * block.required_summary.reference_square
            total += 0.5 * EFFECTS_PRIOR_COUNT * (np.log(ratio) - ratio)
    return total


def divergence_of_columns(
    observed: Observed, design: Design, priors: Priors, columns: Gaussians
) -> float:
    """KL(q(w) || p), summed over columns."""
    precisions, means = priors.of_columns(observed, design)
    squared_deviations = columns.variances + np.square(columns.means - means)
    terms = np.where(design.free, precisions * squared_deviations - np.log(precisions) - 1.0, 0.0)
    return 0.5 * float(np.sum(terms) - np.sum(columns.log_determinants))


def divergence_of_rows(observed: Observed, design: Design, priors: Priors, sums: RowSums) -> float:
    """KL(q(x) || p), summed over rows."""
    free, precisions = design.row_free, priors.of_rows(design)[0]
    squares = sums.outer_products[np.diag(loops.unpacking(design.width))]
    terms = precisions * squares - observed.shape[0] * (np.log(precisions) + 1.0)
    return 0.5 * float(np.sum(terms[free]) - sums.log_determinants)

"""The half of a sweep over columns: their Gaussians, noise, rotation, priors, and the bound."""

import attrs
import numpy as np
from scipy.special import gammaln

from mcframe.contracts.arrays import Array
from mcframe.contracts.rounding import EPS
from mcframe.numerics import factor_loops as loops
from mcframe.posterior.factor_rows import RowSums
from mcframe.posterior.factor_state import Design, FactorState, Gaussians, Priors, gaussians_given
from mcframe.posterior.observed import LOG_TWO_PI, Observed

# Columns that are worked on at a time.
CHUNK = 2048
# The prior of a column's noise variance counts as much as so many entries, with the mean of all.
NOISE_ENTRIES = 10.0
# The smallest noise variance, over the mean square of the column's values.
LEAST_NOISE = 1e-10
# The smallest variance of noise in predictors.
LEAST_SPREAD = 1e-6
# The prior of the variance of effects counts as much as so many of them.
EFFECTS = 2.0
TINY = 1e-300


@attrs.frozen(eq=False)
class Terms:
    """The terms of the bound that depend on priors: divergences, and densities of precisions."""

    observed: Observed
    design: Design

    def with_best_priors(
        self, priors: Priors, columns: Gaussians, sums: RowSums
    ) -> tuple[Gaussians, RowSums, Priors]:
        """Columns, sums of rows, and the priors under which they are most likely."""
        best = best_priors(self.observed, self.design, priors, columns, sums)
        return columns, sums, best

    def of_priors(self, columns: Gaussians, sums: RowSums, priors: Priors) -> float:
        """Minus the divergences from the priors, and the densities of learned precisions."""
        return (
            effects_term(self.observed, self.design, priors)
            - divergence_of_columns(self.observed, self.design, priors, columns)
            - divergence_of_rows(self.observed, self.design, priors, sums)
        )


def columns_given(
    observed: Observed, state: FactorState, sums: RowSums
) -> tuple[Gaussians, Array]:
    """The Gaussians of all columns given the sums of rows, and their expected squared residuals.

    Residuals are sums of ``precision * E[(value - z)^2]``, before a division by learned variances.
    """
    design, priors = state.design, state.priors
    precisions, means = priors.of_columns(observed, design)
    scale = 1.0 / priors.noise[:, None]
    n_columns, width = sums.vectors.shape
    found = Gaussians(
        np.array(design.given),
        np.zeros((n_columns, loops.packed_size(width))),
        np.zeros(n_columns),
    )
    for begin in range(0, n_columns, CHUNK):
        chunk = np.arange(begin, min(begin + CHUNK, n_columns))
        for group, free in design.groups:
            here = np.intersect1d(group, chunk, assume_unique=True)
            if not here.size:
                continue
            own = gaussians_given(
                scale[here] * sums.matrices[here],
                scale[here] * sums.vectors[here],
                free,
                design.given[here],
                precisions[here],
                means[here],
            )
            found.means[here] = own.means
            found.covariances[here] = own.covariances
            found.log_determinants[here] = own.log_determinants
    twice = np.full(loops.packed_size(width), 2.0)
    twice[np.diag(loops.unpacking(width))] = 1.0
    residuals = (
        sums.totals[:, 1]
        - 2.0 * np.einsum("jk,jk->j", sums.vectors, found.means)
        + np.einsum("jp,jp,p->j", sums.matrices, found.outer_products, twice)
    )
    return found, np.maximum(residuals, 0.0)


def best_noise(
    observed: Observed, priors: Priors, sums: RowSums, residuals: Array
) -> tuple[Array, float]:
    """Variances of the noise that make the bound largest, and the centre of their prior."""
    noise, usual = np.array(priors.noise), priors.usual_noise
    for b, block in enumerate(observed.blocks):
        here = block.columns
        counts = observed.counts[here]
        if block.unknown_noise == "column":
            prior = NOISE_ENTRIES * usual
            found = (residuals[here] + prior) / (counts + NOISE_ENTRIES)
            noise[here] = np.maximum(found, LEAST_NOISE * block.mean_squares)
        elif block.unknown_noise == "block" and np.sum(counts):
            mean = (np.sum(residuals[here]) + sums.spreads[b]) / np.sum(counts)
            noise[here] = max(float(mean), LEAST_SPREAD)
    learned = observed.columns_with_noise
    if learned.size:
        usual = 1.0 / float(np.mean(1.0 / noise[learned]))
    return noise, usual


def data_term(observed: Observed, priors: Priors, sums: RowSums, residuals: Array) -> float:
    """The expected parabolas below the log likelihoods of all entries."""
    noise = priors.noise
    total = float(sums.scalars[0]) - 0.5 * float(np.sum(residuals / noise))
    for b, block in enumerate(observed.blocks):
        counts, own = observed.counts[block.columns], noise[block.columns]
        if block.unknown_noise == "column":
            total -= 0.5 * float(np.sum(counts * (LOG_TWO_PI + np.log(own))))
            total += 0.5 * block.known.log_weights
        elif block.unknown_noise == "block":
            total -= 0.5 * float(sums.spreads[b] / own[0] + np.sum(counts) * np.log(own[0]))
    return total


def noise_term(observed: Observed, priors: Priors) -> float:
    """The log density of the logarithms of learned variances: scaled inverse chi square."""
    learned, half = observed.columns_with_noise, 0.5 * NOISE_ENTRIES
    if not learned.size:
        return 0.0
    ratio = priors.usual_noise / priors.noise[learned]
    constant = half * np.log(half) - gammaln(half)
    return float(np.sum(constant + half * (np.log(ratio) - ratio)))


def rotated(
    design: Design, columns: Gaussians, sums: RowSums, n_rows: int, weight: float | None
) -> tuple[Gaussians, RowSums]:
    """Columns and sums of rows where factors are turned and scaled to the largest bound.

    z does not change under u -> R'u, v -> R^-1 v, the divergences from the priors do. With
    F = sum E[u u'] and G = sum E[v v'] the best R is F^(-1/2) Q diag(x)^(1/2), Q the axes of
    F^(1/2) G F^(1/2) and x = n_rows where the precisions of columns' factors are learned (Luttinen
    and Ilin, 2010); under a given weight w, and m the sizes along these axes,
    ``x^2 - (n_rows - n_columns) x = w^2 m``.
    """
    k, width = design.n_factors, design.width
    if not k:
        return columns, sums
    where = loops.unpacking(width)
    ofrows = sums.outer_products[where[:k, :k]]
    ofcolumns = np.sum(columns.covariances, axis=0)[where] + columns.means.T @ columns.means
    ofcolumns = ofcolumns[:k, :k]
    values, axes = np.linalg.eigh(ofrows)
    root = (axes * np.sqrt(values)) @ axes.T
    sizes, turn = np.linalg.eigh(root @ ofcolumns @ root)
    sizes, turn = np.maximum(sizes[::-1], 0.0), turn[:, ::-1]
    stretch = np.full(k, float(n_rows))
    if weight is not None:
        more = float(n_rows - design.given.shape[0])
        products = weight**2 * np.maximum(sizes, EPS * np.max(sizes))
        larger = 0.5 * (abs(more) + np.sqrt(more**2 + 4.0 * products))
        stretch = larger if more >= 0.0 else products / larger
    inverse = (turn / np.sqrt(stretch)).T @ root  # R^-1
    forward = ((axes / np.sqrt(values)) @ axes.T @ turn * np.sqrt(stretch)).T  # R'
    log_det = 0.5 * float(np.sum(np.log(stretch)) - np.sum(np.log(values)))  # of R
    of_columns, of_rows = np.eye(width), np.eye(width)
    of_columns[:k, :k], of_rows[:k, :k] = inverse, forward
    covariances = np.empty_like(columns.covariances)
    for begin in range(0, len(covariances), CHUNK):
        chunk = slice(begin, begin + CHUNK)
        full = columns.covariances[chunk][:, where]
        covariances[chunk] = loops.packed(of_columns @ full @ of_columns.T)
    columns = Gaussians(
        columns.means @ of_columns.T, covariances, columns.log_determinants - 2.0 * log_det
    )
    outer_products = loops.packed(of_rows @ sums.outer_products[where] @ of_rows.T)
    scalars = sums.scalars + np.array([0.0, 2.0 * n_rows * log_det])
    return columns, attrs.evolve(sums, outer_products=outer_products, scalars=scalars)


def best_priors(
    observed: Observed,
    design: Design,
    priors: Priors,
    columns: Gaussians,
    sums: RowSums,
) -> Priors:
    """Precisions and means of the priors that make the bound largest."""
    k, moments = design.n_factors, columns.second_moments()
    n_rows, n_columns = observed.shape
    factors = priors.factors
    if priors.weight is None:
        factors = n_columns / np.maximum(np.sum(moments[:, :k], axis=0), TINY)
    diagonal = sums.outer_products[np.diag(loops.unpacking(design.width))]
    row_effects, biases = np.array(priors.row_effects), np.array(priors.biases)
    bias_means = np.array(priors.bias_means)
    for place, b in enumerate(design.row_blocks):
        if not observed.blocks[b].ridge:
            counted = EFFECTS * observed.blocks[b].usual_square
            row_effects[place] = (n_rows + EFFECTS) / (diagonal[k + place] + counted)
    for b, block in enumerate(observed.blocks):
        if block.layout.n_biases:
            own = columns.means[block.columns, -1] + block.centres
            bias_means[b] = np.mean(own) if not block.ridge or block.layout.n_intercepts else 0.0
            if not block.ridge:
                variances = columns.covariances[block.columns, -1]
                squares = np.sum(variances + (own - bias_means[b]) ** 2)
                counted = EFFECTS * block.usual_square
                biases[b] = (own.size + EFFECTS) / (squares + counted)
    return attrs.evolve(
        priors, factors=factors, row_effects=row_effects, biases=biases, bias_means=bias_means
    )


def effects_term(observed: Observed, design: Design, priors: Priors) -> float:
    """The log densities of the logarithms of learned precisions of effects, up to a constant."""
    total = 0.0
    pairs = [(priors.row_effects[p], b) for p, b in enumerate(design.row_blocks)]
    pairs += [
        (priors.biases[b], b) for b, own in enumerate(observed.blocks) if own.layout.n_biases
    ]
    for precision, b in pairs:
        block = observed.blocks[b]
        if not block.ridge:
            ratio = float(precision) * block.usual_square
            total += 0.5 * EFFECTS * (np.log(ratio) - ratio)
    return total


def divergence_of_columns(
    observed: Observed, design: Design, priors: Priors, columns: Gaussians
) -> float:
    """KL(q(w) || p), summed over columns."""
    precisions, means = priors.of_columns(observed, design)
    diagonal = np.diag(loops.unpacking(design.width))
    away = columns.covariances[:, diagonal] + np.square(columns.means - means)
    terms = np.where(design.free, precisions * away - np.log(precisions) - 1.0, 0.0)
    return 0.5 * float(np.sum(terms) - np.sum(columns.log_determinants))


def divergence_of_rows(observed: Observed, design: Design, priors: Priors, sums: RowSums) -> float:
    """KL(q(x) || p), summed over rows."""
    free, precisions = design.row_free, priors.of_rows(design)[0]
    diagonal = sums.outer_products[np.diag(loops.unpacking(design.width))]
    terms = precisions * diagonal - observed.shape[0] * (np.log(precisions) + 1.0)
    return 0.5 * float(np.sum(terms[free]) - sums.scalars[1])

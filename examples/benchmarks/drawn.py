"""Problems that nobody tuned to: sizes, shares observed, losses and terms drawn by a seed."""

import attrs
import numpy as np
import scipy.sparse as sp

import mcframe as mc

__all__ = ["Drawn", "drawn"]

# Sides are drawn on a logarithmic scale, cells and entries have a largest number.
ROWS, COLUMNS = (60, 30_000), (20, 4000)
MOST_CELLS, MOST_ENTRIES, LEAST_ENTRIES = 2e7, 1e6, 1500
LOSSES = ("gaussian", "gaussian", "gaussian", "bernoulli", "poisson", "both", "huber")
TERMS = ("nuclear", "nuclear", "nuclear", "nuclear", "nuclear", "ridge", "ball", "box")
EFFECTS = ("none", "none", "none", "bias", "row_effects")
# A largest singular value of the gradient is found by so many products.
POWER_STEPS = 30


@attrs.frozen(eq=False)
class Drawn:
    """A model with its data, and what was drawn, in words."""

    name: str
    model: mc.Model
    data: dict


def drawn(seed):
    """The problem of a seed."""
    rng = np.random.default_rng([17, seed])
    while True:
        n, d = (int(np.exp(rng.uniform(*np.log(side)))) for side in (ROWS, COLUMNS))
        share = np.exp(rng.uniform(np.log(0.004), np.log(1.2)))
        if n * d <= MOST_CELLS and LEAST_ENTRIES <= share * n * d <= MOST_ENTRIES:
            break
    share = min(share, 1.0)
    loss, term, effects = (str(rng.choice(words)) for words in (LOSSES, TERMS, EFFECTS))
    rank, noise = int(np.exp(rng.uniform(np.log(2), np.log(25)))), np.exp(rng.uniform(-2.5, 1.0))
    lightness = np.exp(rng.uniform(np.log(0.015), np.log(0.6)))
    weighted = rng.random() < 0.2
    left = rng.standard_normal((n, rank)) / rank**0.25
    right = rng.standard_normal((d, rank)) / rank**0.25
    places = np.unique(rng.integers(0, n * d, int(share * n * d))) if share < 0.5 else None
    if places is None:
        places = np.flatnonzero(rng.random(n * d) < share)
    rows, columns = places // d, places % d
    z = np.einsum("ij,ij->i", left[rows], right[columns])
    cut = d // 2 if loss == "both" else (0 if loss == "bernoulli" else d)
    values, means = values_of(loss, z, columns < cut, noise, rng)
    weights = rng.gamma(2.0, 0.5, values.size) if weighted else None
    gradients = means if weights is None else means * weights
    sigma = largest_singular_value(sp.csr_array((gradients, (rows, columns)), shape=(n, d)))
    terms, with_effects = terms_of(term, lightness * sigma, left, right), {}
    if effects != "none" and loss != "both":
        with_effects = {effects: True}
    words = [("x", word_of(loss), 0, d)]
    if loss == "both":
        words = [("x", mc.Gaussian(), 0, cut), ("y", mc.Bernoulli(), cut, d)]
    blocks = [mc.Block(block, word, **with_effects) for block, word, _, _ in words]
    data = {
        block: observations(values, weights, rows, columns, n, lower, upper)
        for block, _, lower, upper in words
    }
    said = f"{n} x {d}, {values.size / (n * d):.2g} observed, {loss}, {term}"
    said += f" {lightness:.2g} sigma_1, noise {noise:.2g}"
    said += f", {effects}" if with_effects else ""
    return Drawn(said + (", weighted" if weighted else ""), mc.Model(blocks, terms), data)


def values_of(loss, z, measured, noise, rng):
    """Values of entries, and about the gradient of each at Z = 0."""
    if loss == "poisson":
        counts = rng.poisson(np.exp(np.clip(0.5 * z, -3.0, 3.0))).astype(float)
        return counts, counts - 1.0
    labels = (z + noise * rng.logistic(size=z.size) > 0.0).astype(float)
    numbers = z + noise * rng.standard_normal(z.size)
    means = np.clip(numbers, -1.0, 1.0) if loss == "huber" else numbers
    return np.where(measured, numbers, labels), np.where(measured, means, labels - 0.5)


def word_of(loss):
    """The likelihood of a block."""
    words = {"bernoulli": mc.Bernoulli(), "poisson": mc.Poisson(), "huber": mc.Huber(1.0)}
    return words.get(loss, mc.Gaussian())


def terms_of(term, weight, left, right):
    """The terms of a model, of a size beside which neither the data nor the term vanishes."""
    if term == "ball":
        small = np.linalg.qr(left)[1] @ np.linalg.qr(right)[1].T
        return [mc.NuclearBall(0.5 * float(np.linalg.norm(small, "nuc")))]
    beside = {"ridge": [mc.Ridge(0.05)], "box": [mc.Box(-2.0, 2.0)]}
    return [mc.NuclearNorm(float(weight)), *beside.get(term, [])]


def largest_singular_value(matrix):
    """About that of a sparse matrix."""
    vector = np.random.default_rng(0).standard_normal(matrix.shape[1])
    for _ in range(POWER_STEPS):
        vector = matrix.T @ (matrix @ (vector / np.linalg.norm(vector)))
    return np.sqrt(np.linalg.norm(vector))


def observations(values, weights, rows, columns, n, lower, upper):
    """Some columns as a user has them: sparse where few are observed, else with NaN."""
    here = (columns >= lower) & (columns < upper)
    shape = (n, upper - lower)
    if here.sum() < 0.05 * shape[0] * shape[1] and weights is None:
        places = (rows[here], columns[here] - lower)
        return sp.csr_array((values[here] + 0.0, places), shape=shape)
    table = np.full(shape, np.nan)
    table[rows[here], columns[here] - lower] = values[here]
    if weights is None:
        return table
    each = np.zeros(shape)
    each[rows[here], columns[here] - lower] = weights[here]
    return mc.Observations(table, weights=each)

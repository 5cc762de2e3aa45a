"""Algorithms 1 and 2 of Goldberg et al. (2010) as they stand there: loops over dense matrices.

One run visits every stage of the continuation, and each stage ends with an answer for its own
weight: all weights of a path for the price of the last one.
"""

from collections.abc import Iterator

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.model import Problem
from mcframe.model.table import Table

__all__ = ["FixedPoint", "Stage", "decreasing"]

# tau = 3.8 |Omega_Y| / lambda, where convergence is proven below 4.
FRACTION = 3.8
# Eigenvalues of Z'Z give singular values down to this share of the largest one, or a nuclear
# norm, to about 8 digits; what is finer takes a decomposition of Z itself.
GRAM_SHARE, GRAM_CHANGE = 1e-4, 1e-7


@attrs.frozen(eq=False)
class Stage:
    """The end of a stage of the continuation: by which rule, and after how many iterations.

    ``iterate`` is Z, with its ones for Algorithm 2, ``biases`` is b, and ``multiplier`` what
    the last overwriting took from each entry of the ones column, divided by the step.
    """

    mu: float
    iterate: Array
    biases: Array
    multiplier: Array | None
    objective: float
    iterations: int
    converged: bool


def decreasing(sigma: float, last: float, eta: float = 0.25) -> list[float]:
    """mu_1 = eta sigma, then mu_{k+1} = max(eta mu_k, last), their section 3.1."""
    values, mu = [], eta * sigma
    while mu > last:
        values.append(mu)
        mu *= eta
    return [*values, last]


@attrs.define(eq=False)
class FixedPoint:
    """One run of Algorithm 1, or with ``ones`` of Algorithm 2; begin with ``FixedPoint.of``.

    Items are rows. Features come first, then labels, then the ones column. A step is
    ``b -= tau_b g(b)``, ``A = Z - tau_Z g(Z)``, ``Z = shrink(A, tau_Z mu)``, and with
    ``ones`` the last column of Z set to 1.
    """

    label_weight: float  # lambda
    ones: bool
    x: Array  # observed features
    x_at: IntArray  # where they stand in Z, raveled
    signs: Array  # observed labels, -1 or 1
    y_at: IntArray
    y_columns: IntArray
    iterate: Array  # Z
    biases: Array  # b
    sigma: float  # of the zero-filled observed entries
    nuclear: float = 0.0  # ||Z||_*
    loss: float = 0.0
    pulled: Array = attrs.field(factory=lambda: np.zeros(0))  # -l'(z) of the labels
    multiplier: Array | None = None

    @classmethod
    def of(cls, problem: Problem, label_weight: float, ones: bool) -> "FixedPoint":
        """Return the paper's start: b = 0, Z of rank 1 and closest to the observed entries."""
        features, labels = problem.tables["features"], problem.tables["labels"]
        width = problem.n_columns
        x_at, y_at = flat(features, 0, width), flat(labels, features.shape[1], width)
        signs = 2.0 * labels.values - 1.0
        filled = np.zeros(problem.shape)
        filled.ravel()[x_at] = features.values
        filled.ravel()[y_at] = signs
        filled[:, width - ones :] = 1.0
        left, values, right = np.linalg.svd(filled, full_matrices=False)
        run = cls(
            label_weight=label_weight,
            ones=ones,
            x=features.values,
            x_at=x_at,
            signs=signs,
            y_at=y_at,
            y_columns=labels.columns,
            iterate=values[0] * np.outer(left[:, 0], right[0]),
            biases=np.zeros(labels.shape[1]),
            sigma=float(values[0]),
        )
        if ones:
            run.iterate[:, -1] = 1.0
        run.nuclear = float(np.sum(np.linalg.svd(run.iterate, compute_uv=False)))
        run.evaluate()
        return run

    @property
    def steps(self) -> tuple[float, float]:
        """tau_Z = min(3.8 |Omega_Y| / lambda, |Omega_X|), tau_b = 3.8 |Omega_Y| / (lambda n)."""
        label_step = FRACTION * self.signs.size / self.label_weight
        return min(label_step, self.x.size), label_step / len(self.iterate)

    def evaluate(self) -> None:
        """The losses at Z and b, and the gradients of the labels'."""
        z = np.take(self.iterate, self.y_at)
        if not self.ones:
            z += self.biases[self.y_columns]
        z *= self.signs
        residual = np.take(self.iterate, self.x_at) - self.x
        self.loss = 0.5 * float(residual @ residual) / self.x.size
        # log(1 + exp(-z)) and 1 / (1 + exp(z)) from one exponential that cannot overflow.
        small = np.exp(-np.abs(z))
        losses = np.log1p(small) - np.minimum(z, 0.0)
        self.loss += self.label_weight * float(losses.sum()) / z.size
        self.pulled = self.signs * np.where(z >= 0.0, small, 1.0) / (1.0 + small)

    def step(self, mu: float, exact: bool) -> None:
        """One iteration of the published algorithm."""
        step, bias_step = self.steps
        target = self.iterate.copy()
        entries = target.ravel()
        entries[self.x_at] += (step / self.x.size) * (self.x - entries[self.x_at])
        per_label = self.label_weight / self.signs.size
        entries[self.y_at] += (step * per_label) * self.pulled
        if self.ones:
            self.iterate = shrink_singular_values(target, step * mu)[0]
            self.multiplier = (self.iterate[:, -1] - 1.0) / step
            self.iterate[:, -1] = 1.0
            self.nuclear = nuclear_norm(self.iterate, exact)
        else:
            total = np.bincount(self.y_columns, self.pulled, minlength=self.biases.size)
            self.biases = self.biases + bias_step * per_label * total
            self.iterate, self.nuclear = shrink_singular_values(target, step * mu)
        self.evaluate()

    def stages(self, weights: list[float], change: float, max_iter: int) -> Iterator[Stage]:
        """Walk down the weights; a stage ends when the objective changes by less than ``change``.

        ``max_iter`` bounds the iterations of the whole run; a stage that meets it is the last.
        """
        made = 0
        for mu in weights:
            last, before = np.inf, made
            while made < max_iter:
                self.step(mu, exact=change < GRAM_CHANGE)
                made += 1
                now = self.loss + mu * self.nuclear
                converged = abs(last - now) <= change * max(abs(now), np.finfo(float).tiny)
                if converged:
                    break
                last = now
            else:
                now, converged = self.loss + mu * self.nuclear, False
            yield Stage(
                mu, self.iterate, self.biases, self.multiplier, now, made - before, converged
            )
            if not converged:
                return


def flat(table: Table, first: int, width: int) -> IntArray:
    """Return the places of a block's entries in Z, raveled."""
    places: IntArray = table.rows * width + first + table.columns
    return places


def shrink_singular_values(target: Array, threshold: float) -> tuple[Array, float]:
    """U max(S - threshold, 0) V', and its nuclear norm."""
    tall = target if target.shape[0] >= target.shape[1] else target.T
    eigenvalues, vectors = np.linalg.eigh(tall.T @ tall)
    if threshold**2 < GRAM_SHARE**2 * eigenvalues[-1]:
        left, values, right = np.linalg.svd(target, full_matrices=False)
        values = np.maximum(values - threshold, 0.0)
        return (left * values) @ right, float(values.sum())
    first = int(np.searchsorted(eigenvalues, threshold**2, side="right"))
    values, short = np.sqrt(eigenvalues[first:]), vectors[:, first:]
    scaled = short * (1.0 - threshold / values)
    thin = 2 * values.size < eigenvalues.size
    result = (tall @ scaled) @ short.T if thin else tall @ (scaled @ short.T)
    return result if tall is target else result.T, float((values - threshold).sum())


def nuclear_norm(matrix: Array, exact: bool) -> float:
    """The sum of singular values; from those of Z'Z where 7 digits will do."""
    if exact:
        return float(np.sum(np.linalg.svd(matrix, compute_uv=False)))
    square = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    return float(np.sum(np.sqrt(np.maximum(np.linalg.eigvalsh(square), 0.0))))

"""Features and tasks of one low rank, with known column means: the synthetic data of TMCC."""

from collections.abc import Mapping

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError

__all__ = ["CalibratedTasks", "calibrated_tasks"]

TASKS = ("bernoulli", "poisson", "gaussian")


@attrs.frozen(eq=False, repr=False)
class CalibratedTasks:
    """Incomplete features and tasks, what is true of them, and external summaries.

    Attributes
    ----------
    data : dict from block name to array
        "features" (n_items x d), "bernoulli" (0 and 1), "poisson" (counts) and "gaussian"
        (n_items x m each); NaN is missing.
    truth : dict from block name to array
        X_* of the features, the natural parameters Z_* of the tasks.
    A, B : arrays (1 x n_items), (1 x d)
        ``A X_* = B``: the column means of X_*.
    """

    data: Mapping[str, Array]
    truth: Mapping[str, Array]
    A: Array
    B: Array

    @property
    def n_cells(self) -> int:
        """n D, over all blocks."""
        return sum(block.size for block in self.truth.values())

    def relative_error(self, name: str, estimate: Array) -> float:
        """||estimate - truth||_F / ||truth||_F of one block."""
        truth = self.truth[name]
        return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name} {block.shape[0]} x {block.shape[1]} ({np.isnan(block).mean():.0%} missing)"
            for name, block in self.data.items()
        )
        return f"CalibratedTasks: {shapes}"


def calibrated_tasks(
    rng: np.random.Generator,
    *,
    linear: bool = True,
    n_items: int = 1500,
    n_features: int = 500,
    n_targets: int = 500,
    rank: int = 3,
    shift: float = 0.5,
    noise: float = 1.0,
    missing: float = 0.5,
) -> CalibratedTasks:
    """The data of Wang et al. (TMCC), linear and non-linear case.

    ``X_* = P Q' / max |P Q'|``. Linear: ``Z_*^(s) = X_* W^(s)``, divided by its largest size.
    Non-linear: the quadratics ``x^2 + x + 0.5``, ``-x^2 - x`` and ``-x^2 - 2x + 0.2`` of each
    x_*. Y^(1) is Bernoulli, Y^(2) Poisson, Y^(3) Gaussian with variance 1, all of natural
    parameters Z_*. ``A = (1, ..., 1) / n`` and ``B = A X_*``.

    Parameters
    ----------
    rng : numpy Generator
    linear : bool
        Which case.
    n_items, n_features, n_targets : int
        n, d and m_s (each of the three); the non-linear case needs d = m_s.
    rank, shift, noise, missing
        What their poster does not print: r; the mean of the entries of P, which like those of
        Q and W are uniform on an interval of length 2 (those of Q and W on [-1, 1]); the
        standard deviation of the features' noise, 1 by default, since their objective weighs
        features as it weighs Gaussian tasks of variance 1; the share of entries that are
        missing, at random, in every block.

    Raises
    ------
    DataError
        Where d and m_s differ in the non-linear case.

    Examples
    --------
    >>> import numpy as np
    >>> from papers.data import calibrated_tasks
    >>> tasks = calibrated_tasks(np.random.default_rng(0), n_items=60, n_features=20, n_targets=20)
    >>> bool(np.allclose(tasks.A @ tasks.truth["features"], tasks.B))
    True
    """
    left = shift + rng.uniform(-1.0, 1.0, (n_items, rank))
    features = over_largest(left @ rng.uniform(-1.0, 1.0, (rank, n_features)))
    targets = (
        linear_targets(rng, features, n_targets) if linear else quadratics(features, n_targets)
    )
    truth = {"features": features, **dict(zip(TASKS, targets, strict=True))}
    complete = {
        "features": features + noise * rng.standard_normal(features.shape),
        "bernoulli": (rng.random(targets[0].shape) < 1.0 / (1.0 + np.exp(-targets[0]))) * 1.0,
        "poisson": rng.poisson(np.exp(targets[1])).astype(np.float64),
        "gaussian": targets[2] + rng.standard_normal(targets[2].shape),
    }
    data = {
        name: np.where(rng.random(block.shape) < missing, np.nan, block)
        for name, block in complete.items()
    }
    average = np.full((1, n_items), 1.0 / n_items)
    return CalibratedTasks(data, truth, average, average @ features)


def over_largest(matrix: Array) -> Array:
    """Divided by its largest entry in size."""
    return matrix / np.max(np.abs(matrix))


def linear_targets(rng: np.random.Generator, features: Array, n_targets: int) -> list[Array]:
    """X W, scaled, for each task."""
    shape = (features.shape[1], n_targets)
    return [over_largest(features @ rng.uniform(-1.0, 1.0, shape)) for _ in TASKS]


def quadratics(x: Array, n_targets: int) -> list[Array]:
    """Return t^(1), t^(2) and t^(3) of the paper, entry by entry."""
    if n_targets != x.shape[1]:
        raise DataError(
            f"n_targets={n_targets} and n_features={x.shape[1]} were given; in the non-linear"
            " case each target is a function of one feature, so that both must be equal"
        )
    return [x**2 + x + 0.5, -(x**2) - x, -(x**2) - 2.0 * x + 0.2]

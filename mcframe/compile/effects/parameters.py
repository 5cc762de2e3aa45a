"""Parameters of a likelihood that are fitted with Z, such as thresholds."""

from typing import Any

import attrs
import numpy as np

from mcframe.compile.effects.contract import Effects
from mcframe.contracts.arrays import Array
from mcframe.contracts.likelihood import Parametric

__all__ = ["Parameters"]


@attrs.frozen(eq=False)
class Parameters(Effects):
    """Effects that are not added to z: they change the likelihood of all entries at once."""

    size: int
    fixed: Array = attrs.field(factory=lambda: np.zeros(0))
    ridge: None = None

    n_added = 0

    def solve(
        self, likelihood: Any, z: Array, y: Array, weights: Array | float, warm: Array | None
    ) -> Array:
        """The likelihood's own best parameters."""
        parametric: Parametric = likelihood
        return parametric.best_parameters(z, y, weights * np.ones(y.size), warm)

    def predictor(self, z: Array, effects: Array | None) -> Array:
        """z."""
        return z

    def likelihood(self, likelihood: Any, effects: Array | None) -> Any:
        """The likelihood at these parameters."""
        return likelihood.with_parameters(effects)

    def sum_by_effect(self, numbers: Array) -> Array:
        """An empty array: no effect is added to z."""
        return np.zeros(0)

    def centre(self, gradient: Array) -> Array:
        """The gradient as it is: no effects restrict it."""
        return gradient

    def imbalance(self, gradient: Array, effects: Array | None) -> float:
        """Nothing: no sum has to vanish."""
        return 0.0

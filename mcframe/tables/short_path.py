"""A path of certified fits that ends where its iterations do."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.model import Model
from mcframe.selection.paths import CertifiedPath

__all__ = ["ShortPath"]


@attrs.define(eq=False)
class ShortPath:
    """The fits of ``mc.path`` until so many iterations were made: one fit on each path at least.

    Attributes
    ----------
    path : CertifiedPath
        With a budget for each fit.
    most : int
        Iterations of all fits on all paths.
    n_steps, n_fits, n_open : int
        How many iterations and fits were made, and how many of these are not certified.
    ended : bool
        Whether a path ended before its last weight.
    """

    path: CertifiedPath
    most: int
    n_steps: int = 0
    n_fits: int = 0
    n_open: int = 0
    ended: bool = False

    def __call__(self, model: Model, data: Mapping[str, Any], weights: Array) -> Iterator[Fit]:
        """A fit at each weight, as long as iterations are left."""
        for fit in self.path(model, data, weights):
            self.n_steps += fit.history[-1].iteration
            self.n_fits += 1
            self.n_open += fit.status != "certified"
            yield fit
            if self.n_steps >= self.most:
                self.ended = True
                return

"""A path of certified fits that ends where its time does."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.model import Model
from mcframe.selection.work import CertifiedPath

__all__ = ["TimedPath"]


@attrs.define(eq=False)
class TimedPath:
    """The fits of ``mc.path`` down to the weight at which time is up: one of them at least.

    Attributes
    ----------
    path : CertifiedPath
        With a budget for each fit.
    deadline : float
        By ``time.perf_counter``.
    n_fits, n_open : int
        How many fits were made, and how many of them are not certified.
    ended : bool
        Whether time ended a path.
    """

    path: CertifiedPath
    deadline: float
    n_fits: int = 0
    n_open: int = 0
    ended: bool = False

    def __call__(self, model: Model, data: Mapping[str, Any], weights: Array) -> Iterator[Fit]:
        """A fit at each weight, as long as there is time."""
        for fit in self.path(model, data, weights):
            self.n_fits += 1
            self.n_open += fit.status != "certified"
            yield fit
            if time.perf_counter() > self.deadline:
                self.ended = True
                return

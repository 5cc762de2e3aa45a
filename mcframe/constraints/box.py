"""Bounds on every entry."""

import math
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.rounding import SET_ROUNDING
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Constraint, Prox
from mcframe.contracts.validators import block_name, number


def number_or_infinity(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: a finite number or an infinity, kept as a Python float."""
    infinite = isinstance(value, float | np.floating) and math.isinf(value)
    what = f"Box: {attribute.name}"
    needed = "a finite number or, without a bound, an infinite one is needed, for all entries"
    bound = float(value) if infinite else number(value, what, needed)  # type: ignore[arg-type]
    object.__setattr__(instance, attribute.name, bound)


@stored
@attrs.frozen
class Box(Constraint, Prox):
    """``lower <= z_ij <= upper`` for every entry of Z, observed or not.

    Bounds on Z alone: biases, effects of rows and offsets are added to it, so that what is
    predicted in a block with any of these may lie outside; of a standardised block they are in
    standard units. For Poisson counts without effects they bound the rate, exp(z), and with it the
    curvature. An entry may lie outside by 1e-9 of the largest bound or entry, the
    rounding of a Z in factors. Where a model holds ``OnesColumn()``, that column is free.

    Parameters
    ----------
    lower, upper : float
        ``lower < upper``; one of them may be infinite.
    block : str, optional
        The block whose columns it bounds; by default all blocks.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> mc.Box(-1, 1).prox(np.array([[-3.0, 0.5]]), step=1.0)
    (array([[-1. ,  0.5]]), 0.0)
    """

    lower: float = attrs.field(validator=number_or_infinity)
    upper: float = attrs.field(validator=number_or_infinity)
    block: str | None = attrs.field(default=None, validator=attrs.validators.optional(block_name))

    def __attrs_post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ModelError(
                f"Box: lower={self.lower:g} and upper={self.upper:g} were given;"
                " lower < upper is needed"
            )
        if math.isinf(self.lower) and math.isinf(self.upper):
            raise ModelError("Box: lower=-inf and upper=inf were given; at least one is needed")

    @property
    def entry_bounds(self) -> tuple[float, float]:
        """The two bounds."""
        return self.lower, self.upper

    def value(self, latent: Array) -> float:
        """0 where all entries lie within the bounds, up to rounding, else inf."""
        sizes = [abs(b) for b in (self.lower, self.upper) if math.isfinite(b)]
        slack = SET_ROUNDING * max(*sizes, float(np.max(np.abs(latent), initial=0.0)))
        inside = np.all((latent >= self.lower - slack) & (latent <= self.upper + slack))
        return 0.0 if bool(inside) else np.inf

    def feasibility_tolerance(self, dual: Array, length: float) -> float:
        """1e-9 of the largest bound, or of ||Z||_F, for each entry of the dual matrix."""
        sizes = [abs(b) for b in (self.lower, self.upper) if math.isfinite(b)]
        return SET_ROUNDING * max(*sizes, length) * float(np.sum(np.abs(dual)))

    def conjugate(self, dual: Array) -> float:
        """The sum of max(lower s, upper s), inf where s points to an infinite bound."""
        above, below = np.maximum(dual, 0.0), np.maximum(-dual, 0.0)
        return dual_share(self.upper, above) + dual_share(-self.lower, below)

    def conjugate_size(self, dual: Array) -> float:
        """The sum of the sizes of lower s or upper s over all entries."""
        above, below = np.maximum(dual, 0.0), np.maximum(-dual, 0.0)
        return dual_share(abs(self.upper), above) + dual_share(abs(self.lower), below)

    def nearest_dual(self, dual: Array) -> Array:
        """Entries that point to an infinite bound set to 0."""
        return np.clip(
            dual, 0.0 if math.isinf(self.lower) else None, 0.0 if math.isinf(self.upper) else None
        )

    def prox(self, latent: Array, step: float) -> tuple[Array, float]:
        """The projection: every entry clipped; the step plays no part."""
        return np.clip(latent, self.lower, self.upper), 0.0

    def constraints(self, cp: Any, latent: Any) -> list[Any]:
        """lower <= Z and Z <= upper, as far as they are finite."""
        stated = []
        if math.isfinite(self.lower):
            stated.append(latent >= self.lower)
        if math.isfinite(self.upper):
            stated.append(latent <= self.upper)
        return stated

    def in_units(self, unit: float) -> "Box":
        """The box of both bounds over the unit."""
        return attrs.evolve(self, lower=self.lower / unit, upper=self.upper / unit)

    def recession(self) -> "Box | None":
        """Entries of one sign where a bound is infinite; None where both are finite."""
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            return None
        lower, upper = (0.0 if math.isfinite(b) else b for b in (self.lower, self.upper))
        return attrs.evolve(self, lower=lower, upper=upper)

    def formula(self) -> str:
        """lower ≤ z_ij ≤ upper, with a block's name for the block's columns."""
        entries = "z_ij" if self.block is None else f"z_ij of {self.block}"
        return f"{self.lower:g} ≤ {entries} ≤ {self.upper:g}"


def dual_share(limit: float, pull: Array) -> float:
    """limit * sum of the dual; where the limit is infinite, 0 if the dual is 0 and else inf."""
    if math.isinf(limit):
        return np.inf if bool(np.any(pull)) else 0.0
    return limit * float(np.sum(pull))

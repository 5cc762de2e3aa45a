"""Points that are offered, and what they are worth."""

import attrs

from mcframe.backends.certificate.rounding import Rounding
from mcframe.compile import Dual
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank

__all__ = ["Judgement", "Point"]


@attrs.frozen(eq=False)
class Point:
    """A feasible Z in factors, and what is known of the dual of nonsmooth parts: a ``Candidate``.

    ``warm`` are the effects of each block at Z or nearby, where a solver knows them: the start of
    their solution.
    """

    latent: LowRank
    dual: Dual | None = None
    warm: tuple[Array | None, ...] | None = None


@attrs.frozen(eq=False)
class Judgement:
    """What a candidate is worth: objective, lower bound, and the effects that go with them."""

    objective: float
    bound: float
    effects: dict[str, Array]
    rounding: Rounding = attrs.field(factory=Rounding)

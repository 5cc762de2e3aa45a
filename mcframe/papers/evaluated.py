"""What the states of published algorithms share."""

from typing import Self

import attrs

from mcframe.compile import Evaluation
from mcframe.numerics.operators import LowRank

__all__ = ["Evaluated"]


class Evaluated:
    """Z in factors, the losses and the penalty there: for the states, which are attrs classes."""

    latent: LowRank
    evaluation: Evaluation
    penalty: float

    @property
    def rank(self) -> int:
        """Return the rank of the iterate."""
        return self.latent.width

    @property
    def objective(self) -> float:
        """Return the objective at the iterate."""
        return self.evaluation.value + self.penalty

    def sharpen(self) -> None:
        """Every decomposition is exact already."""

    def become(self, moved: Self) -> None:
        """Take over all that another state holds."""
        for field in attrs.fields(type(self)):  # type: ignore[arg-type]
            setattr(self, field.name, getattr(moved, field.name))

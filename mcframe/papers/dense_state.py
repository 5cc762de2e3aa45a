"""The state of a published algorithm that works on a dense Z."""

from typing import Self

import attrs
import numpy as np

from mcframe.compile import Evaluation, Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank


@attrs.define(eq=False)
class DenseState:
    """Z, dense and in factors, with the losses and the penalty there."""

    iterate: Array
    latent: LowRank
    evaluation: Evaluation
    penalty: float
    residual: float = np.inf
    finished: str | None = None

    @classmethod
    def at(cls, program: Program, latent: LowRank, **fields: object) -> Self:
        """Return the state at some Z under a norm of its singular values."""
        iterate = latent.dense()
        penalty = program.penalty.of_singular_values(latent.singular_values())
        return cls(iterate, latent, program.evaluate(iterate), penalty, **fields)  # type: ignore[arg-type]

    @property
    def rank(self) -> int:
        """The rank of the iterate."""
        return self.latent.width

    @property
    def objective(self) -> float:
        """The objective at the iterate."""
        return self.evaluation.value + self.penalty

    def sharpen(self) -> None:
        """Every decomposition is exact already."""

    def become(self, moved: Self) -> None:
        """Take over all that another state holds."""
        for field in attrs.fields(type(self)):
            setattr(self, field.name, getattr(moved, field.name))

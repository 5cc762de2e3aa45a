"""How long a backend takes, about: iterations times the work of one, by measured constants.

An estimate and no bound: it knows sizes, the share observed, the kinds of losses and terms and how
heavy the weight is beside the gradient at Z = 0, but nothing of the spectrum. On drawn problems
half of the estimates were within a factor of two of what was measured. It is made for comparing
backends, which a hard table makes slow together.
"""

import math

import attrs
import numpy as np

from mcframe.compile import CompiledProblem, Program
from mcframe.contracts.arrays import Array
from mcframe.numerics.operators import LowRank

__all__ = ["EFFORTS", "Effort", "Size", "Work", "in_words"]

# A relative gap that iterations are counted to; to another as the logarithm, down to the least.
COUNTED_TO, LEAST_TOL = 1e-6, 1e-12
# Heaviness is kept within these, the share observed from here on: beyond them, where nothing was
# measured, a fit is as easy, or as hard, as there.
LIGHTEST, HEAVIEST = 1e-2, 1e1
SPARSEST = 0.004
# About the rank from which on products with factors, and their squares, are most of a step.
LARGE_RANK = 30.0


@attrs.frozen
class Effort:
    """What is known of a backend.

    ``iterations`` and ``rank`` are the coefficients of ``Size.traits`` in the logarithm of the
    iterations to a gap of 1e-6 and in that of the rank on the way. The seconds of an iteration on
    one core, its share of looks at the certificate included, are told twice: ``step`` are the
    coefficients of ``traits_of_a_step`` in their logarithm, which follow what was measured
    closely, ``operations`` the seconds of each of ``Size.counts``, which hold for other sizes.
    """

    iterations: tuple[float, ...]
    rank: tuple[float, ...]
    step: tuple[float, ...]
    operations: tuple[float, ...]


# Measured on one core of an Intel Xeon (2 cores, AVX-512), least squares over the drawn problems
# 101 to 199 of ``examples/benchmarks/drawn.py``, each run for at most 5 seconds. To measure them
# anew run ``python examples/benchmarks/choosing.py --calibrate``, which prints them. What more is
# known of the gradient at Z = 0, its norm, its stable rank, how many of its singular values are
# above the threshold, did not make the choice any better on problems that were left out.
EFFORTS: dict[str, Effort] = {
    "proximal": Effort(
        iterations=(2.44, -0.47, 0.26, -0.46, 0.52, 0.00, -0.19, -0.12, 0.01),
        rank=(-1.38, -0.63, 0.04, -0.12, 0.53, 0.00, -0.29, 0.44, 0.20),
        step=(-13.37, 0.05, 0.35, 0.22, -0.05, 0.00, 0.32, 0.86, 0.78),
        operations=(
            2.5e-03,
            1.7e-08,
            1.1e-09,
            0.0,
            1.4e-08,
            0.0,
            5.3e-13,
            6.0e-08,
            7.2e-11,
            6.3e-12,
            0.0,
            9.7e-08,
            1.9e-07,
            0.0,
        ),
    ),
    "splitting": Effort(
        iterations=(7.70, -0.04, 0.00, -0.23, 0.19, 0.00, 0.10, -0.12, -0.28),
        rank=(1.42, -0.17, 0.00, -0.00, 0.28, 0.00, -0.06, 0.37, 0.08),
        step=(-13.44, 0.36, 0.38, 0.02, 0.09, 0.00, 0.22, 0.72, 0.63),
        operations=(
            6.6e-04,
            8.4e-08,
            5.3e-10,
            0.0,
            0.0,
            0.0,
            0.0,
            5.0e-08,
            0.0,
            4.1e-10,
            0.0,
            6.5e-08,
            0.0,
            0.0,
        ),
    ),
    "alternating": Effort(
        iterations=(2.93, -0.42, 0.00, -0.29, 0.67, 0.00, -0.10, -0.17, 0.01),
        rank=(1.44, -0.52, 0.00, 0.02, 0.42, 0.00, -0.18, 0.05, 0.06),
        step=(-9.80, 0.34, 0.31, 0.27, 0.21, 0.00, 0.23, 0.43, 0.63),
        operations=(
            1.4e-02,
            1.3e-07,
            1.5e-08,
            0.0,
            6.9e-07,
            0.0,
            0.0,
            4.8e-09,
            6.1e-11,
            0.0,
            1.6e-12,
            1.4e-07,
            1.9e-07,
            0.0,
        ),
    ),
    "factored": Effort(
        iterations=(4.33, -0.75, -0.14, -0.04, 0.39, -0.05, -0.46, -0.06, 0.02),
        rank=(2.60, -0.35, 0.91, -0.03, 0.12, -0.01, -0.08, -0.02, 0.03),
        step=(-12.47, -0.07, -0.47, 0.21, -0.01, 0.44, 0.68, 0.67, 0.92),
        operations=(
            0.0,
            1.5e-07,
            0.0,
            0.0,
            2.0e-07,
            0.0,
            0.0,
            1.8e-08,
            0.0,
            0.0,
            0.0,
            0.0,
            4.5e-07,
            8.8e-08,
        ),
    ),
}


@attrs.frozen
class Size:
    """What the effort of a fit is told by.

    Attributes
    ----------
    shape : (n_rows, n_columns)
    n_entries : int
        Numbers that carry loss, unlabeled cells that are read at each step included.
    heaviness : float
        The threshold of the main term relative to what the norm of the gradient at Z = 0 would be,
        were it noise spread over all of Z: ``||G||_F (1 / sqrt(n_rows) + 1 / sqrt(n_columns))``.
        Where it is small, much of the noise is fitted. NaN where there is no threshold, as of a
        ball, or no gradient.
    curved, nonsmooth, effects : bool
        Whether a loss is not quadratic or only nearly so, whether a part beside the main term has
        no gradient, whether there are free effects.
    """

    shape: tuple[int, int]
    n_entries: int
    heaviness: float
    curved: bool
    nonsmooth: bool
    effects: bool

    @classmethod
    def of(cls, compiled: CompiledProblem) -> "Size":
        """The size of a problem that has a program: one pass over its entries."""
        program = compiled.program
        blocks = compiled.problem.model.blocks
        return cls(
            shape=program.shape,
            n_entries=program.entries.size + program.background.n_read,
            heaviness=heaviness_of(program),
            curved=not all(p.likelihood.quadratic for p in program.loss.pieces),
            nonsmooth=not program.plain,
            effects=any(compiled.problem.layout(block.name).size for block in blocks),
        )

    @property
    def cells(self) -> int:
        """Entries of Z."""
        return self.shape[0] * self.shape[1]

    @property
    def traits(self) -> Array:
        """What the logarithms of iterations and of seconds are sums of, times coefficients."""
        known = math.isfinite(self.heaviness)
        heaviness = min(max(self.heaviness, LIGHTEST), HEAVIEST) if known else 1.0
        return np.array(
            [
                1.0,
                math.log(heaviness),
                not known,
                math.log(max(self.n_entries / self.cells, SPARSEST)),
                self.curved,
                self.nonsmooth,
                self.effects,
                math.log(min(self.shape)),
                math.log(max(self.shape)),
            ]
        )

    def traits_of_a_step(self, rank: float) -> Array:
        """Rather than how heavy the weight is the rank itself, and all else.

        Twice, since small ranks cost little and large ones more than in proportion.
        """
        first, last = self.traits[:1], self.traits[3:]
        return np.array([*first, math.log(rank), math.log(1.0 + rank / LARGE_RANK), *last])

    def counts(self, rank: float) -> Array:
        """What the seconds of a step are a sum of, times seconds each.

        With N entries, n rows, d columns and rank k: 1, N, N k, N k^2, (n + d) k, (n + d) k^2,
        (n + d) k^3, n d, n d k, n d min(n, d), min(n, d)^3, then N once more for losses that are
        not quadratic and for effects, and n d for nonsmooth parts.
        """
        entries, cells, lines = self.n_entries, self.cells, sum(self.shape)
        small = min(self.shape)
        plain = [
            1.0,
            *(entries * rank**p for p in (0, 1, 2)),
            *(lines * rank**p for p in (1, 2, 3)),
        ]
        dense = [cells, cells * rank, cells * small, small**3]
        special = [entries * self.curved, entries * self.effects, cells * self.nonsmooth]
        return np.array([*plain, *dense, *special], dtype=np.float64)


def heaviness_of(program: Program) -> float:
    """``Size.heaviness``, where the losses have a gradient."""
    threshold = program.penalty.threshold(1.0)
    if threshold == 0.0 or not program.loss.smooth:
        return math.nan
    place = program.entries.place(LowRank.zeros(program.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        gradient = program.loss.evaluate(place.z, None).gradient
        spread = float(np.linalg.norm(gradient)) * sum(1.0 / math.sqrt(n) for n in program.shape)
    return float(threshold / spread) if 0.0 < spread < math.inf else math.nan


@attrs.frozen
class Work:
    """What one backend has to do on one problem."""

    effort: Effort
    size: Size

    @property
    def rank(self) -> float:
        """About the rank of the iterates on the way, 1 to the smaller side."""
        logarithm = float(np.dot(self.effort.rank, self.size.traits))
        return min(max(math.exp(logarithm), 1.0), *self.size.shape)

    def seconds_a_step(self, rank: float) -> float:
        """Seconds of an iteration at some rank, its share of the certificates included.

        The geometric mean of both estimates: of 111 problems it chose wrongly on 12, either alone
        on 13 and 16.
        """
        told = math.exp(float(np.dot(self.effort.step, self.size.traits_of_a_step(rank))))
        return math.sqrt(told * float(np.dot(self.effort.operations, self.size.counts(rank))))

    def iterations(self, tol: float) -> float:
        """How many to a relative gap."""
        to_counted = math.exp(float(np.dot(self.effort.iterations, self.size.traits)))
        return to_counted * math.log(max(tol, LEAST_TOL)) / math.log(COUNTED_TO)

    def seconds(self, tol: float = COUNTED_TO) -> float:
        """How many to a relative gap, at the rank that is expected."""
        return self.iterations(tol) * self.seconds_a_step(self.rank)


def in_words(seconds: float) -> str:
    """An estimate of seconds, as roughly as it is known."""
    if seconds < 0.1:
        return "less than 0.1 s"
    for size, unit in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * size:
            return f"about {float(f'{seconds / size:.1g}'):,.0f} {unit}"
    return f"about {float(f'{seconds:.1g}'):g} s"

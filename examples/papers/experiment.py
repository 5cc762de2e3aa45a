"""What a reproduced table or figure is: settings, trials of them, what the paper prints."""

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import attrs
import numpy as np

__all__ = ["Experiment", "Measured", "Published", "Trial", "summarised"]


@attrs.frozen
class Published:
    """A figure as the paper prints it.

    Attributes
    ----------
    mean : float
    deviation : float, optional
        The standard deviation over trials; None where the paper gives none.
    trials : int, optional
        How many trials it is a mean of; None where the paper does not say.
    """

    mean: float
    deviation: float | None = None
    trials: int | None = None

    @property
    def error(self) -> float:
        """The standard error of the mean, 0 where the paper lets nobody know it."""
        if self.deviation is None or self.trials is None:
            return 0.0
        return self.deviation / math.sqrt(self.trials)


@attrs.frozen
class Trial:
    """One repetition of one setting.

    Its random numbers depend on the seed, the setting and its number alone, so that neither
    the order of the trials nor the number of processes changes a result.
    """

    setting: str
    number: int

    def generator(self, seed: int) -> np.random.Generator:
        """All that is random in this trial comes from here."""
        return np.random.default_rng([seed, zlib.crc32(self.setting.encode()), self.number])


@attrs.frozen
class Measured:
    """What trials of one setting gave for one measure."""

    values: tuple[float, ...]

    @property
    def trials(self) -> int:
        """How many there are."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Over the trials; an infinity or NaN among them is not hidden."""
        with np.errstate(invalid="ignore"):
            return float(np.mean(self.values))

    @property
    def deviation(self) -> float | None:
        """The standard deviation over the trials (n - 1), None for a single one."""
        with np.errstate(invalid="ignore"):
            return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    def distance(self, published: Published) -> float | None:
        """(Ours - theirs) in standard errors of that difference; None where none is known."""
        own = 0.0 if self.deviation is None else self.deviation / math.sqrt(self.trials)
        error = math.hypot(own, published.error)
        return (self.mean - published.mean) / error if error > 0.0 else None


# Setting, then measure, to what was measured there.
Summary = Mapping[str, Mapping[str, Measured]]


def summarised(results: Mapping[Trial, Mapping[str, float]]) -> dict[str, dict[str, Measured]]:
    """Collect the results of trials by setting and measure."""
    collected: dict[str, dict[str, list[float]]] = {}
    for trial in sorted(results, key=lambda trial: trial.number):
        measures = collected.setdefault(trial.setting, {})
        for measure, value in results[trial].items():
            measures.setdefault(measure, []).append(float(value))
    return {
        setting: {measure: Measured(tuple(values)) for measure, values in measures.items()}
        for setting, measures in collected.items()
    }


class Experiment(ABC):
    """A table or figure of a paper: an attrs class whose fields are the sizes it runs at.

    A subclass gives ``settings``, ``run``, and what the paper prints in ``published``; where
    the paper has a picture, ``draw``. ``tiny`` gives the same experiment in seconds.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    default_trials: ClassVar[int]
    measure: ClassVar[str] = "measure"
    notes: ClassVar[Sequence[str]] = ()

    @classmethod
    @abstractmethod
    def tiny(cls) -> Self:
        """Return the experiment in a size that takes seconds."""

    def check(self) -> None:  # noqa: B027  # most need nothing
        """Raise a ``DataError`` where something it needs, such as a file, is missing."""

    @abstractmethod
    def settings(self) -> Sequence[str]:
        """The rows of the table, or the points of the figure, in their order."""

    @abstractmethod
    def run(self, setting: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One trial: the measures of one setting, by name. Called in processes of its own.

        Single-threaded; every random number comes from ``rng``.
        """

    def published(self) -> Mapping[tuple[str, str], Published]:
        """What the paper prints, by setting and measure; empty for ``tiny`` and for pictures."""
        return {}

    def trials_of(self, setting: str, trials: int) -> int:
        """How many trials a setting gets when ``trials`` are asked for; fewer where it is long."""
        return trials

    def trials(self, trials: int) -> list[Trial]:
        """All trials, the first of every setting before the second of any."""
        return [
            Trial(setting, number)
            for number in range(trials)
            for setting in self.settings()
            if number < self.trials_of(setting, trials)
        ]

    def draw(self, figure: Any, summary: Summary) -> bool:
        """Draw the paper's picture into a matplotlib figure; False where there is none."""
        return False

"""What a reproduced table or figure is: settings, trials of them, what the paper prints."""

import math
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import attrs
import numpy as np

__all__ = ["Cause", "Experiment", "Measured", "Published", "Trial", "summarised"]


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
    decimals : int, optional
        Decimals of the printed mean. A mean that is rounded to so many has an error of its own,
        whose variance is a twelfth of the squared last digit.
    """

    mean: float
    deviation: float | None = None
    trials: int | None = None
    decimals: int | None = None

    @property
    def rounding(self) -> float:
        """The variance of the rounding of the mean; 0 where the decimals are not given."""
        return 0.0 if self.decimals is None else 0.01**self.decimals / 12.0


@attrs.frozen
class Trial:
    """One repetition of one setting.

    Its random numbers depend on the seed, the setting and its number alone, so that neither
    the order of the trials nor the number of processes changes a result. A long trial may have
    parts, such as one for each method: they have the same draw, and are run and stored apart.
    """

    setting: str
    number: int
    part: str = ""

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
        """(Ours - theirs) in standard errors of that difference; None where none is known.

        As in a two-sample t-test both sides have one variance, pooled by their degrees of
        freedom: few trials of ours borrow it from the paper's. Where the paper lets nobody know
        its standard error, that of ours stands alone.
        """
        variance = None if self.deviation is None else self.deviation**2
        if published.deviation is None or published.trials is None:
            squared = 0.0 if variance is None else variance / self.trials
        else:
            degrees = self.trials - 1, published.trials - 1
            squares = degrees[0] * (variance or 0.0) + degrees[1] * published.deviation**2
            pooled = squares / max(sum(degrees), 1)
            squared = pooled * (1.0 / self.trials + 1.0 / published.trials)
        error = math.sqrt(squared + published.rounding)
        return (self.mean - published.mean) / error if squared > 0.0 else None


@attrs.frozen
class Cause:
    """Why ours differs from the paper in some cells.

    Attributes
    ----------
    name : str
        As tables have it; the page says what it means.
    measures : str
        A regular expression that a measure matches as a whole.
    shown_by : str
        The measure, as in ``re.sub``, that is computed as the cause says the paper's was. It
        explains a cell where it is within two standard errors of the paper. Without one the
        cause is an argument, which the page makes.
    settings : str
        A regular expression of the settings that it is about.
    """

    name: str
    measures: str
    shown_by: str = ""
    settings: str = ".*"

    def alternative(self, setting: str, measure: str) -> str | None:
        """The measure that shows it, "" for an argument; None where it is not about the cell."""
        if not re.fullmatch(self.settings, setting) or not re.fullmatch(self.measures, measure):
            return None
        return re.sub(f"^{self.measures}$", self.shown_by, measure) if self.shown_by else ""


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
    causes: ClassVar[Sequence[Cause]] = ()
    # The experiment whose trials these are, where two tables show the same ones.
    trials_from: ClassVar[str] = ""

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

    def parts(self, setting: str) -> Sequence[str]:
        """The parts of a trial, by name; one without a name where a trial is run as a whole."""
        return ("",)

    def run_part(self, setting: str, part: str, rng: np.random.Generator) -> Mapping[str, float]:
        """One part of a trial; the parts of a trial get equal generators."""
        return self.run(setting, rng)

    def shows(self, measure: str) -> bool:
        """Whether the table has this measure; what is stored beside it serves the page."""
        return True

    def tolerance(self, measure: str) -> float:
        """How far a measure may be, relatively, from that of the same trial computed anew."""
        return 1e-4

    def published(self) -> Mapping[tuple[str, str], Published]:
        """What the paper prints, by setting and measure; empty for ``tiny`` and for pictures."""
        return {}

    def trials_of(self, setting: str, trials: int) -> int:
        """How many trials a setting gets when ``trials`` are asked for; fewer where it is long."""
        return trials

    def trials(self, trials: int) -> list[Trial]:
        """All trials, the first of every setting before the second of any."""
        return [
            Trial(setting, number, part)
            for number in range(trials)
            for setting in self.settings()
            if number < self.trials_of(setting, trials)
            for part in self.parts(setting)
        ]

    def draw(self, figure: Any, summary: Summary) -> bool:
        """Draw the paper's picture into a matplotlib figure; False where there is none."""
        return False

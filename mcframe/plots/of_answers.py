"""The attribute ``plot`` of answers: which class of them has which pictures."""

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec

import attrs

from mcframe.contracts.pictures import pictures_for
from mcframe.contracts.validators import a_type, suggest_options
from mcframe.plots import diagnostics, predictions, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Options = ParamSpec("Options")


class Picture(Generic[Options]):
    """A function of an answer and of options, as a method of the pictures of that answer."""

    def __init__(self, function: "Callable[Concatenate[Any, Options], Axes]") -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, pictures: "Pictures | None", _: type) -> "Callable[Options, Axes]":
        if pictures is None:
            raise AttributeError("pictures are those of an answer, as in fit.plot.gap()")
        return MethodType(self.function, pictures._answer)


@attrs.frozen(repr=False)
class Pictures:
    """The pictures of an answer: ``fit.plot.gap()`` is ``mcframe.plots.gap(fit)``."""

    _answer: Any

    def __dir__(self) -> list[str]:
        return [name for name in dir(type(self)) if not name.startswith("_")]

    if not TYPE_CHECKING:  # where it would be one of any name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"{a_type(self._answer)} has no picture {name!r}; it has {', '.join(dir(self))}"
            )

    def __repr__(self) -> str:
        return f"Pictures of {a_type(self._answer)}: {', '.join(dir(self))}"


@pictures_for("Fit")
class FitPictures(Pictures):
    """The pictures of a fit."""

    biplot = Picture(predictions.biplot)
    calibration = Picture(predictions.calibration)
    gap = Picture(diagnostics.gap)
    missingness = Picture(tables.missingness)
    predictions = Picture(predictions.predictions)
    singular_values = Picture(diagnostics.singular_values)


@pictures_for("Posterior")
class PosteriorPictures(Pictures):
    """The pictures of a posterior."""

    biplot = Picture(predictions.biplot)
    calibration = Picture(predictions.calibration)
    coverage = Picture(predictions.coverage)
    evidence = Picture(diagnostics.evidence)
    missingness = Picture(tables.missingness)
    precisions = Picture(diagnostics.precisions)
    predictions = Picture(predictions.predictions)


@pictures_for("ConformalPredictions")
class ConformalPictures(Pictures):
    """The pictures of conformal predictions."""

    coverage = Picture(predictions.coverage)


@pictures_for("PosteriorCalibration")
class CalibrationPictures(Pictures):
    """The pictures of the calibration of a posterior."""

    ranks = Picture(diagnostics.ranks)


@pictures_for("Completion")
class CompletionPictures(Pictures):
    """The pictures of a completed table."""

    filled = Picture(tables.filled)
    gap_dependence = Picture(tables.gap_dependence)
    missingness = Picture(tables.missingness)


@pictures_for("TippingPoint")
class TippingPointPictures(Pictures):
    """The pictures of estimates under shifts of missing values."""

    estimates = Picture(tables.estimates)


@pictures_for("Path")
class PathPictures(Pictures):
    """The pictures of a path."""

    singular_values = Picture(diagnostics.singular_values)


@pictures_for("CrossValidation")
class CrossValidationPictures(Pictures):
    """The pictures of a cross-validation."""

    scores = Picture(diagnostics.scores)
    ternary = Picture(diagnostics.ternary)


suggest_options(Pictures)

"""The weights that a path or a cross-validation tries."""

from functools import partial
from typing import Any

import attrs
import numpy as np

from mcframe.compile import CompiledProblem
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.term import Term
from mcframe.contracts.validators import as_given, instead_of_class, probability, takes, whole
from mcframe.selection.weight_max import largest_weight


def checked_weights(weights: Any) -> tuple[float, ...]:
    """Return weights that are above 0 and descend, or raise a ``ModelError``."""
    remedy = instead_of_class(weights, Grid)
    if remedy:
        raise ModelError(f"weights are the class Grid; {remedy}")
    try:
        sequence: Array = np.asarray(weights)
        if sequence.dtype.kind not in "iufO":  # text and dates would be read as numbers
            raise TypeError
        sequence = sequence.astype(np.float64)
    except (TypeError, ValueError):
        raise ModelError(
            f"weights={as_given(weights)} were given; a list of numbers, each below the one"
            " before it, or"
            " a mc.selection.Grid is needed"
        ) from None
    if sequence.ndim != 1 or sequence.size == 0:
        raise ModelError(
            f"weights of shape {sequence.shape} were given; a list of at least one is needed,"
            " such as [1.0]"
        )
    wrong = sequence[~(np.isfinite(sequence) & (sequence > 0.0))]
    if wrong.size:
        raise ModelError(f"weights hold {wrong[0]:g}; each must be above 0 and finite")
    rising = np.flatnonzero(np.diff(sequence) >= 0.0)
    if rising.size:
        before, after = sequence[rising[0]], sequence[rising[0] + 1]
        raise ModelError(
            f"weights hold {after:g} after {before:g}; they must descend, since each fit starts"
            " from the one before: give numpy.unique(weights)[::-1]"
        )
    return tuple(sequence.tolist())


def checked_count(count: object) -> int:
    """Return a number of weights, at least two, or raise a ``ModelError``."""
    n_weights = whole(count, "count")
    if n_weights < 2:
        raise ModelError(
            f"count={n_weights} was given; two weights at least are needed, from the largest, at"
            " which Z = 0,"
            " down to ratio times it: give weights=[w] for a path of one fit"
        )
    return n_weights


@attrs.frozen
class Grid:
    """The weights of a term that ``path`` and ``cross_validate`` try, as their ``weights=``.

    Parameters
    ----------
    values : list of float, optional
        The weights, strictly descending. By default they are ``count`` weights, geometrically
        spaced from ``weight_max``, the smallest weight at which the answer is trivial, down to
        ``ratio`` times that.
    count : int, default 20
        The number of weights, at least two; of no use with ``values``.
    ratio : float, default 0.01
        The smallest weight over the largest, between 0 and 1; of no use with ``values``.
    term : a class such as mc.NuclearNorm, or one of the model's terms, optional
        The term whose weight changes: by default the model's NuclearNorm or MaxNorm, else its
        only term with a weight.
    patience : int or None, default 2
        Of ``cross_validate`` alone: end a model's path where this number of weights in a row were
        worse than the best one before them, on all folds together. The smallest weights take the
        most time, and have no score then. A weight counts as worse if (a) some weight was better
        than the first and (b) the mean over folds of the differences to the best weight is above
        one standard error of these differences; no path ends in its first half, in the logarithm
        of the weight. On 46 tables (simulated, and of scikit-learn; 20 weights, 3 folds) the
        choice was always that among all weights. With None every weight is tried, and the folds
        of a model, whose fits are in memory together otherwise, come one after the other.

    Raises
    ------
    ModelError
        If weights do not descend or are not above 0, or if another option is wrong.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import Grid
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> path = mc.path(model, {"x": np.diag([4.0, 3.0])}, weights=Grid(count=3, ratio=0.25))
    >>> print(path.weights)
    [4. 2. 1.]
    """

    values: tuple[float, ...] | None = attrs.field(
        default=None, converter=attrs.converters.optional(checked_weights)
    )
    count: int = attrs.field(default=20, converter=checked_count, kw_only=True)
    ratio: float = attrs.field(default=0.01, validator=takes(probability), kw_only=True)
    term: type[Term] | Term | None = attrs.field(default=None, kw_only=True)
    patience: int | None = attrs.field(
        default=2,
        validator=takes(partial(whole, least=1), optional=True),
        kw_only=True,
    )

    @classmethod
    def of(cls, weights: Any) -> "Grid":
        """Return the grid that an option ``weights`` means: a grid, numbers, or None."""
        return weights if isinstance(weights, Grid) else cls(weights)

    def weights(self, compiled: CompiledProblem, place: int) -> Array:
        """Return the descending weights of the term at this place among those of the model."""
        if self.values is not None:
            return np.array(self.values)
        largest = largest_weight(compiled, place)
        return np.asarray(np.geomspace(largest, self.ratio * largest, self.count))

"""Values of a block with a weight or an offset for each entry."""

from typing import Any

import attrs

from mcframe.contracts.errors import DataError


@attrs.frozen(eq=False)
class Observations:
    """A block's data with weights w and offsets o: the loss of an entry is ``w * l(z + o, y)``.

    It replaces a matrix in ``data``: ``{"visits": mc.Observations(counts, exposure=days)}``.

    Parameters
    ----------
    values : array, DataFrame, scipy.sparse matrix or triples (n_items x columns of the block)
        As without weights.
    weights : number or array, optional
        Survey weights, inverse propensities for entries that are not missing at random, or
        repetitions (an integer w is w equal observations). At least 0; 0 means not observed. With
        ``reduce="mean"`` N is the sum of the weights.
    offset : number or array, optional
        A known part of the linear predictor, in its units. Every entry needs one, observed or not,
        since predictions use it.
    exposure : number or array, optional
        For likelihoods with a log link, such as Poisson; others raise an error. The offset is
        log(exposure), with exposure above 0. Give this or ``offset``.

    Each may have the block's shape, be a column (n_items x 1), a row (1 x columns) or one number.
    A vector is a row, or a column if the block has one column; for a square block it raises an
    error. Values that a sparse matrix does not store are 0; every exposure must be stored. For
    triples they may be triples with the same labels, one for each of the values.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> days = np.array([[1.0, 10.0]])
    >>> counts = np.array([[2.0, 20.0], [1.0, 10.0], [4.0, np.nan]])
    >>> model = mc.Model([mc.Block("visits", mc.Poisson())], [mc.NuclearNorm(0.1)])
    >>> fit = mc.fit(model, {"visits": mc.Observations(counts, exposure=days)})
    >>> print(fit.predict("visits")[0].round(1))
    [ 2.  19.9]
    """

    values: Any
    weights: Any = attrs.field(default=None, kw_only=True)
    offset: Any = attrs.field(default=None, kw_only=True)
    exposure: Any = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.offset is not None and self.exposure is not None:
            raise DataError(
                "Observations: offset and exposure were both given; add log(exposure) to the"
                " offset and give that alone"
            )
        if isinstance(self.values, Observations):
            raise DataError("Observations: values are Observations already; give the matrix")


@attrs.frozen(eq=False)
class EntryExposures:
    """Exposures that are known at the entries alone, in a sparse matrix; elsewhere they are 1.

    Stands where ``Observations`` has an exposure, in tables that are too large to have one for
    every cell.
    """

    matrix: Any

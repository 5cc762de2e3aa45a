"""Propensities of labels, estimated from counts of rows and columns."""

from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array
from mcframe.contracts.validators import number, suggests_options, within
from mcframe.likelihoods import Bernoulli
from mcframe.model.forms import LARGEST_VALUE, check_values
from mcframe.model.model import Block, Observations
from mcframe.model.reading import read_values
from mcframe.model.triples import Triples
from mcframe.risks import RiskMixture


@suggests_options
def estimate_propensities(
    labels: Any, *, columns: float = 0.5, rows: float = 0.0, least: float = 0.0
) -> Any:
    """Estimate the probability that a positive entry is recorded, from counts.

    ``theta_ij = max((n_j / max n)^columns (m_i / max m)^rows, least)`` with n_j and m_i the
    numbers of labels 1 in column j and row i, at least 1. With ``columns=0.5`` and ``rows=0`` it
    is the estimate of Saito et al. (Unbiased recommender learning from missing-not-at-random
    implicit feedback, WSDM 2020, section 5): popular columns are those that many rows are exposed
    to. The data cannot tell whether they are, or whether more rows like these columns: exponents
    are assumptions, to be varied.

    The numbers go into ``Observations(labels, propensity=...)``, for a block with
    ``RiskMixture(propensities=True)``.

    Parameters
    ----------
    labels : array, DataFrame, scipy.sparse matrix or triples (n_items x columns of the block)
        1, 0, and NaN or not stored for unlabeled.
    columns, rows : float, default 0.5 and 0
        Exponents, at least 0; 0 leaves the counts of columns, or of rows, out.
    least : float, default 0
        From 0 to 1. Smaller propensities are raised to it: small ones make the risk vary, and this
        bounds the weight of a label at the price of a bias.

    Returns
    -------
    array, DataFrame, scipy.sparse matrix or triples
        In the form of the labels: a number for each cell, of a sparse matrix or triples for each
        cell that is stored.

    Raises
    ------
    DataError
        If the labels are not 0 and 1.
    ModelError
        If an option is out of range.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> nan = np.nan
    >>> labels = np.array([[1.0, 1.0], [1.0, nan], [1.0, nan], [1.0, nan]])
    >>> mc.estimate_propensities(labels)[0]
    array([1. , 0.5])
    """
    needed = "a finite number of at least 0 is needed"
    exponents = [
        number(exponent, f"estimate_propensities: {what}", needed, lambda x: x >= 0.0)
        for what, exponent in (("rows", rows), ("columns", columns))
    ]
    least = max(within(least, "estimate_propensities: least", 0.0, 1.0), 1.0 / LARGEST_VALUE)
    values = labels.values if isinstance(labels, Observations) else labels
    block = Block("labels", RiskMixture(pn=1.0, likelihood=Bernoulli()))
    table = read_values(block, values)
    check_values(block, table)
    positive = table.values == 1.0
    of_rows, of_columns = (
        relative_counts(np.bincount(places[positive], minlength=count)) ** exponent
        for places, count, exponent in zip(
            (table.rows, table.columns), table.shape, exponents, strict=True
        )
    )
    if isinstance(values, Triples) or sp.issparse(values):
        numbers = np.clip(of_rows[table.rows] * of_columns[table.columns], least, 1.0)
        if isinstance(values, Triples):
            return attrs.evolve(values, values=numbers)
        return sp.csr_array((numbers, (table.rows, table.columns)), shape=table.shape)
    return table.wrap(np.clip(np.outer(of_rows, of_columns), least, 1.0))


def relative_counts(counts: Any) -> Array:
    """Return counts over the largest, at least 1 each."""
    raised = np.maximum(counts, 1.0)
    return np.asarray(raised / np.max(raised))

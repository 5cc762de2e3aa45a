"""A declared table as one Gaussian block whose rows are draws of one distribution."""

import attrs
import numpy as np

from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.numerics.gaussian_rows import RowDistribution, log_likelihood
from mcframe.regularizers import GaussianRows
from mcframe.selection.prior_rows import (
    FIRST_STEPS,
    LAST_STEPS,
    LATER_STEPS,
    NOISE,
    USUAL_PRIORS,
    distribution,
    rows_of_estimate,
    standard_units,
)
from mcframe.tables.as_numbers import BLOCK, as_numbers
from mcframe.tables.blocks import data_of
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.prior_rows import ChosenPrior

__all__ = [
    "FOLDS",
    "declared_as_numbers",
    "gaussian_table",
    "is_narrow",
    "log_likelihood_of",
    "work_of_search",
]

# Folds that complete chooses by.
FOLDS = 3
# Multiplications that choosing the prior and estimating the covariance may take: two minutes or
# less on one core.
MOST_WORK = 3e11


def gaussian_table(declared: Declared, chosen: ChosenPrior) -> Declared:
    """Return a declared table with all columns in one block, under the estimated distribution.

    The noise of a column in standard units has the variance ``NOISE``: a standardised block counts
    each squared difference once, so that its weight is 1 / (2 NOISE).
    """
    numbers = declared_as_numbers(declared, chosen.columns)
    rows = distribution(np.asarray(numbers.data[BLOCK]), chosen.best_weight)
    model = Model(numbers.model.blocks, [GaussianRows(rows.covariance, mean=rows.mean)])
    return attrs.evolve(numbers, model=model)


def log_likelihood_of(table: Declared) -> float:
    """Return the log likelihood of the observed entries, in standard units, of Gaussian rows."""
    [rows] = table.model.terms
    assert isinstance(rows, GaussianRows)
    values = np.asarray(table.data[BLOCK])
    standard = standard_units(values).standard(values, np.arange(values.shape[1]))
    return log_likelihood(standard, RowDistribution(*rows.moments, NOISE))


def declared_as_numbers(declared: Declared, columns: tuple[DeclaredColumn, ...]) -> Declared:
    """Return a declared table with all columns, which are as numbers, in one block."""
    codes = {each.name: each.codes for each in columns if each.place is not None}
    block = Block(BLOCK, Gaussian(), standardize=True, weight=0.5 / NOISE)
    data = data_of([block], columns, codes, declared.frame)
    model = attrs.evolve(declared.model, blocks=(block,))
    return attrs.evolve(declared, model=model, data=data, columns=columns)


def work_of_search(declared: Declared, n_rows: int, n_priors: int) -> float:
    """Return about how many multiplications trying priors on some rows of a table takes."""
    steps = FIRST_STEPS + LATER_STEPS * (n_priors - 1)
    return FOLDS * steps * n_rows * work_of_row(declared, 1.0 / FOLDS)


def is_narrow(declared: Declared, n_rows: int) -> bool:
    """Whether the covariance is estimated by at most ``MOST_WORK`` multiplications.

    Parameters
    ----------
    n_rows : int
        How many rows the search for the prior reads.
    """
    shape = (declared.frame.shape[0], sum(widths(declared)))
    estimate = LAST_STEPS * rows_of_estimate(shape) * work_of_row(declared, 0.0)
    return work_of_search(declared, n_rows, USUAL_PRIORS) + estimate <= MOST_WORK


def work_of_row(declared: Declared, share: float) -> float:
    """Return about how many multiplications a step of EM takes for a row.

    With a share of the observed entries held out.
    """
    own = [each for each in declared.columns if each.place is not None]
    missing = np.column_stack([np.isnan(each.codes) for each in own]) @ np.array(widths(declared))
    width = sum(widths(declared))
    cubes = np.power(missing + share * (width - missing), 3.0)
    return float(2.0 * np.mean(cubes)) + width**2 + 2.0 * width**3 / len(missing)


def widths(declared: Declared) -> list[int]:
    """Return how many columns of the block each column of a table takes."""
    columns = as_numbers(declared.columns)
    return [each.modelled[0].width for each in columns if each.place is not None]

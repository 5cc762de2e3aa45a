"""A declared table as one Gaussian block whose rows are draws of one distribution."""

import attrs
import numpy as np

from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.numerics.gaussian_rows import multiplications
from mcframe.regularizers import GaussianRows
from mcframe.selection.prior_rows import (
    LAST_STEPS,
    NOISE,
    USUAL_STEPS,
    distribution,
    rows_of_estimate,
)
from mcframe.tables.as_numbers import BLOCK, as_numbers
from mcframe.tables.blocks import data_of
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.prior_rows import ChosenPrior

__all__ = ["FOLDS", "declared_as_numbers", "estimate_seconds", "gaussian_table"]

# Folds that complete chooses by.
FOLDS = 3
# Multiplications of small matrices a second, of a slow core beside a busy one.
SPEED = 5e8


def gaussian_table(declared: Declared, chosen: ChosenPrior) -> Declared:
    """Return a declared table with all columns in one block, under the estimated distribution.

    The noise of a column in standard units has the variance ``NOISE``: a standardised block counts
    each squared difference once, so that its weight is 1 / (2 NOISE).
    """
    numbers = declared_as_numbers(declared, chosen.columns)
    rows = distribution(np.asarray(numbers.data[BLOCK]), chosen.best_weight)
    model = Model(numbers.model.blocks, [GaussianRows(rows.covariance, mean=rows.mean)])
    return attrs.evolve(numbers, model=model)


def declared_as_numbers(declared: Declared, columns: tuple[DeclaredColumn, ...]) -> Declared:
    """Return a declared table with all columns, which are as numbers, in one block."""
    codes = {each.name: each.codes for each in columns if each.place is not None}
    block = Block(BLOCK, Gaussian(), standardize=True, weight=0.5 / NOISE)
    data = data_of([block], columns, codes, declared.frame)
    model = attrs.evolve(declared.model, blocks=(block,))
    return attrs.evolve(declared, model=model, data=data, columns=columns)


def estimate_seconds(declared: Declared, n_chosen_by: int) -> float:
    """Return about how long the search for the prior and the estimate of the covariance take.

    Parameters
    ----------
    n_chosen_by : int
        How many rows the search reads.
    """
    columns = [each for each in as_numbers(declared.columns) if each.place is not None]
    missing = np.hstack(
        [
            np.repeat(np.isnan(each.codes)[:, None], each.modelled[0].width, axis=1)
            for each in columns
        ]
    )
    a_row = multiplications(missing) / len(missing)
    searched = FOLDS * USUAL_STEPS * n_chosen_by
    return (searched + LAST_STEPS * rows_of_estimate(missing.shape)) * a_row / SPEED

"""CMC.SI: collective completion of the tasks, and Soft-Impute of the features, apart."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.contracts.likelihood import Likelihood
from mcframe.fitting.fit import fit
from mcframe.fitting.fit_answer import Fit
from mcframe.papers.wang import FEATURES_BLOCK, collective
from mcframe.papers.zheng import soft_impute

__all__ = ["Separate", "collective_soft_impute", "features_and_tasks"]


@attrs.frozen(eq=False)
class Separate:
    """Two fits that know nothing of each other.

    Attributes
    ----------
    features : Fit of the features by Soft-Impute
    tasks : Fit of all tasks by collective completion
    """

    features: Fit
    tasks: Fit

    def natural(self, name: str) -> Any:
        """The natural parameters of a block, by the fit that has it."""
        return (self.features if name == FEATURES_BLOCK else self.tasks).natural(name)


def collective_soft_impute(
    data: Mapping[str, Any],
    lam: float,
    weight: float,
    tasks: Mapping[str, Likelihood] | None = None,
    **options: Any,
) -> Separate:
    """CMC.SI of Wang et al.: Alaya and Klopp (2019) for the tasks, Soft-Impute for the features.

    Parameters
    ----------
    data : dict with "features" and a matrix for each task
    lam : float
        Of ``mcframe.papers.soft_impute``, for the features.
    weight : float
        Of ``mcframe.papers.collective``, for the tasks.
    tasks : dict from block name to likelihood, optional
        By default those of ``mcframe.papers.tmcc``.
    **options : as ``mc.fit`` takes them
        For both fits.

    Raises
    ------
    DataError
        Where there are no features, or no tasks.
    """
    features, others = features_and_tasks(data)
    n_cells = sum(int(np.prod(np.shape(block))) for block in others.values())
    return Separate(
        fit(soft_impute(lam, [FEATURES_BLOCK]), features, **options),
        fit(collective(n_cells, weight, tasks), others, **options),
    )


def features_and_tasks(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The features, and the tasks."""
    others = {name: block for name, block in data.items() if name != FEATURES_BLOCK}
    if FEATURES_BLOCK not in data or not others:
        known = ", ".join(repr(name) for name in data) or "nothing"
        raise DataError(
            f"data hold {known}; a block {FEATURES_BLOCK!r} and at least one more block are needed"
        )
    return {FEATURES_BLOCK: data[FEATURES_BLOCK]}, others

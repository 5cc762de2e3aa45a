"""TS: first the features are imputed, then everything is completed as if they were observed."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.likelihood import Likelihood
from mcframe.fitting.fit import fit
from mcframe.fitting.fit_answer import Fit
from mcframe.papers.wang import FEATURES_BLOCK, mc0
from mcframe.papers.zheng import soft_impute
from papers.baselines.collective import features_and_tasks

__all__ = ["TwoStage", "two_stage"]


@attrs.frozen(eq=False)
class TwoStage:
    """The fits of the two stages: features first, then the whole table.

    Attributes
    ----------
    first : Fit of the features by Soft-Impute
    second : Fit of the imputed features and the tasks by MC.0
    """

    first: Fit
    second: Fit

    def natural(self, name: str) -> Any:
        """The natural parameters of a block after the second stage."""
        return self.second.natural(name)


def two_stage(
    data: Mapping[str, Any],
    lam: float,
    tau_2: float,
    tasks: Mapping[str, Likelihood] | None = None,
    **options: Any,
) -> TwoStage:
    """TS of Wang et al.: Soft-Impute fills the features, then MC.0 completes the whole table.

    The second stage reads the filled features, observed entries kept, as if none were
    missing: it cannot know which of them are guesses.

    Parameters
    ----------
    data : dict with "features" and a matrix for each task
    lam : float
        Of ``mcframe.papers.soft_impute``, for the first stage.
    tau_2 : float
        Of ``mcframe.papers.mc0``, for the second.
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
    first = fit(soft_impute(lam, [FEATURES_BLOCK]), features, **options)
    filled = {FEATURES_BLOCK: first.impute(FEATURES_BLOCK), **others}
    n_cells = sum(int(np.prod(np.shape(block))) for block in filled.values())
    return TwoStage(first, fit(mc0(n_cells, tau_2, tasks), filled, **options))

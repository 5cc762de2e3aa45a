"""Zheng and Hastie (2015): Semi-supervised learning via matrix completion.

Soft-Impute (Mazumder, Hastie and Tibshirani, JMLR 2010) read as a rule for new rows, which is
``Fit.predict_rows``, and its special case for complete features.
"""

from collections.abc import Sequence

import numpy as np

from mcframe.backends.alternating import balanced
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.fitting import Fit
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.regularizers import NuclearNorm

__all__ = ["gamma", "soft_impute"]


def soft_impute(lam: float, blocks: Sequence[str] = ("features", "labels")) -> Model:
    """Soft-Impute, the first display of their section 1: squares and a nuclear norm.

    ``1/2 sum over observed (r - z)^2 + lambda ||Z||_*`` with R = [X Y] for two blocks.

    Parameters
    ----------
    lam : float
        Their lambda.
    blocks : names of the blocks, default "features" and "labels"
        All of them Gaussian.

    Examples
    --------
    >>> from mcframe.papers import soft_impute
    >>> print(soft_impute(2.0, ["table"]))
    minimise over Z
        Σ_(i,j)∈table (z_ij − x_ij)²/2
      + 2 ‖Z‖_*
    where Z = [table] is n_items × n_columns
    """
    return Model([Block(name, Gaussian()) for name in blocks], [NuclearNorm(lam)])


def gamma(fit: Fit, labels: str = "labels") -> Array:
    """The linear rule ``y = gamma x`` of their section 3, for rows with complete features.

    ``gamma = V_y (V_x'V_x + lambda I)^-1 V_x'`` where Z = U V' in balanced factors, V_y are
    the rows of V that belong to the labels and V_x all others.

    Parameters
    ----------
    fit : Fit
        Of ``soft_impute``.
    labels : str, default "labels"
        The block that a new row lacks; the others, in the order of the model, are x.

    Returns
    -------
    array (columns of the labels x all other columns)

    Raises
    ------
    ModelError
        Where the fit is not one of ``soft_impute``.
    """
    names = [block.name for block in fit.model.blocks]
    fit.model.block(labels)
    if len(names) < 2:
        raise ModelError(f"the model has no block beside {labels!r} to predict it from")
    lam = sum(term.weight for term in fit.model.terms if isinstance(term, NuclearNorm))
    if lam == 0.0 or fit.model != soft_impute(lam, names):
        raise ModelError("gamma is known of soft_impute alone; use fit.predict_rows")
    loadings = balanced(fit.latent.left, fit.latent.right)[2]
    here = fit.problem.columns(labels)
    own, others = loadings[here], np.delete(loadings, here, axis=0)
    normal = others.T @ others + lam * np.eye(loadings.shape[1])
    rule: Array = own @ np.linalg.solve(normal, others.T)
    return rule

"""The verb ``compare``: models by their evidence and held-out density."""

import itertools
import warnings
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError, UnobservedWarning
from mcframe.contracts.validators import Options, RandomState, suggests_options
from mcframe.model import Model, Problem
from mcframe.posterior.answer import Posterior, posterior
from mcframe.runtime.progress import stage
from mcframe.selection.cross_validation import checked_splitter
from mcframe.selection.splitters import Fold, Splitter, folds_of


@attrs.frozen(eq=False, repr=False)
class Comparison:
    """Evidence of several models, and their log densities of held-out entries.

    Attributes
    ----------
    names : tuple of str
    posteriors : tuple of Posterior
        The posteriors given all data, in the order of the names.
    densities : array (n_models x n_folds)
        The mean log predictive density of the entries that each fold held out.
    """

    names: tuple[str, ...]
    posteriors: tuple[Posterior, ...]
    densities: Array

    @property
    def evidence(self) -> Array:
        """The lower bound on the log evidence of each model; NaN of draws of the sampler."""
        return np.array(
            [
                answer.evidence if answer.diagnostics is None else np.nan
                for answer in self.posteriors
            ]
        )

    @property
    def log_density(self) -> Array:
        """The mean log predictive density of held-out entries, over folds, of each model."""
        return np.asarray(np.mean(self.densities, axis=1))

    @property
    def best(self) -> str:
        """The name of the model with the largest mean log predictive density."""
        return self.names[int(np.argmax(self.log_density))]

    def __repr__(self) -> str:
        width = max(len("model"), *(len(name) for name in self.names))
        lines = [f"{'model':<{width}}  {'evidence':>12}  held-out log density"]
        with np.errstate(invalid="ignore"):  # of entries that a model takes for impossible
            spreads = np.std(self.densities, axis=1)
        spreads = spreads / np.sqrt(max(self.densities.shape[1] - 1, 1))
        rows = zip(self.names, self.evidence, self.log_density, spreads, strict=True)
        for name, evidence, density, spread in rows:
            bound = "none" if np.isnan(evidence) else f"{evidence:.6g}"
            line = f"{name:<{width}}  {bound:>12}  {density:.4f} +- {spread:.4f}"
            lines.append(line + "  best" * (name == self.best))
        return "\n".join(lines)


@suggests_options
def compare(
    models: Mapping[str, Model],
    data: Any,
    *,
    cv: int | Splitter = 5,
    random_state: RandomState = 0,
    **options: Any,
) -> Comparison:
    """Compare models of the same data: evidence, and log density of held-out entries.

    The evidence of a model is the density of all observed data under it, averaged over its
    parameters. Of two models the one with the larger evidence is more likely. Only a lower bound
    on it is computed, which may be less exact for one model than for another. Values of
    standardised blocks are in standard units. The density of held-out entries needs no prior and
    no bound: if both disagree, trust this density.

    Parameters
    ----------
    models : dict from name to Model
        With the same blocks of data.
    data : as in ``mc.posterior``
    cv : int, EntryFolds, RowFolds or TimeFolds of ``mcframe.selection``, default 5
        The folds, as in ``mc.cross_validate``; the same ones for all models.
    random_state : int, generator of numpy or None, default 0
        Seeds the folds and each posterior.
    **options
        Options of ``mc.posterior``: ``method``, ``factors``, ``tol``, ``max_iter``,
        ``max_seconds``, ``n_jobs`` and ``progress``. Draws of the sampler have no evidence, so
        that it is NaN there.

    Returns
    -------
    Comparison
        Printed as a table.

    Raises
    ------
    ModelError
        If there are no models, or if their blocks differ.
    BackendError
        If a model has no posterior.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 1)) @ rng.normal(size=(1, 8)) + 0.1 * rng.normal(size=(60, 8))
    >>> block = mc.Block("x", mc.Gaussian(variance=None), bias=True)
    >>> alone = mc.Block("x", mc.Gaussian(variance=None))
    >>> models = {"with biases": mc.Model([block], [mc.NuclearNorm()]),
    ...           "without": mc.Model([alone], [mc.NuclearNorm()])}
    >>> comparison = mc.compare(models, {"x": x}, cv=3)
    >>> comparison.best in models
    True
    """
    if not isinstance(models, Mapping) or not models:
        raise ModelError("models= needs a dict from name to Model with one model or more")
    for name in models:
        if not isinstance(name, str):
            raise ModelError(f"models= has the name {name!r}; give each model a name of text")
    problems = {name: Problem.bind(model, data) for name, model in models.items()}
    first = next(iter(problems.values()))
    blocks = {block.name for block in first.model.blocks}
    for name, problem in problems.items():
        block_names = {block.name for block in problem.model.blocks}
        if block_names != blocks:
            raise ModelError(
                f"model {name!r} has the blocks {sorted(block_names)}, the first one"
                f" {sorted(blocks)}; models are compared on the same data"
            )
    seed = Options.random_state(random_state)
    folds = folds_of(checked_splitter(cv), first, data, seed)
    options["random_state"] = seed
    shown, densities = Options.progress(options.pop("progress", None)), []
    with stage("compare", shown) as display:
        whole = [posterior(model, data, **options) for model in models.values()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)  # of rows that folds hold out
            for model, fold in itertools.product(models.values(), folds):
                densities.append(density_of(fold, posterior(model, fold.data, **options)))
                display.count(len(densities), len(models) * len(folds), "folds")
        densities_of_models = np.reshape(densities, (len(models), -1))
        answer = Comparison(tuple(models), tuple(whole), densities_of_models)
        display.report(f"{display.text}, the best: {answer.best}")
    return answer


def density_of(fold: Fold, fitted: Posterior) -> float:
    """The mean log predictive density of what a fold held out."""
    answer = fitted if fold.observed_rows is None else fitted.condition(fold.observed_rows)
    densities = [
        answer.log_predictive_density(name, held.rows, held.columns, held.observations)
        for name, held in fold.held.items()
    ]
    return float(np.mean(np.concatenate(densities)))

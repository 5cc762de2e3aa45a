"""Choices among models: by their evidence and held-out density, and of the weights of blocks."""

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError, UnobservedWarning, warn_caller
from mcframe.contracts.validators import RandomState, checked_seed, number, whole
from mcframe.model import Model, Problem
from mcframe.posterior.answer import Posterior, posterior
from mcframe.runtime.progress import checked_progress, stage
from mcframe.selection.cross_validation import checked_splitter, clearly_above, cross_validate
from mcframe.selection.cross_validation_answer import AT_EDGE, CrossValidation, edges_unsaid
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
        """The lower bound on the log evidence of each model."""
        return np.array([each.evidence for each in self.posteriors])

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
            line = f"{name:<{width}}  {evidence:>12.6g}  {density:.4f} +- {spread:.4f}"
            lines.append(line + "  best" * (name == self.best))
        return "\n".join(lines)


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
        Options of ``mc.posterior``: ``factors``, ``tol``, ``max_iter``, ``max_seconds``,
        ``n_jobs`` and ``progress``.

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
        own = {block.name for block in problem.model.blocks}
        if own != blocks:
            raise ModelError(
                f"model {name!r} has the blocks {sorted(own)}, the first one {sorted(blocks)};"
                " models are compared on the same data"
            )
    seed = checked_seed(random_state)
    folds = folds_of(checked_splitter(cv), first, data, seed)
    options["random_state"] = seed
    shown, densities = checked_progress(options.pop("progress", None)), []
    with stage("compare", shown) as here:
        whole = [posterior(model, data, **options) for model in models.values()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)  # of rows that folds hold out
            for model, fold in itertools.product(models.values(), folds):
                densities.append(density_of(fold, posterior(model, fold.data, **options)))
                here.count(len(densities), len(models) * len(folds), "folds")
        densities_of_models = np.reshape(densities, (len(models), -1))
        answer = Comparison(tuple(models), tuple(whole), densities_of_models)
        here.report(f"{here.text}, the best: {answer.best}")
    return answer


def density_of(fold: Fold, fitted: Posterior) -> float:
    """The mean log predictive density of what a fold held out."""
    answer = fitted if fold.known is None else fitted.condition(fold.known)
    densities = [
        answer.log_predictive_density(name, held.rows, held.columns, held.values)
        for name, held in fold.held.items()
    ]
    return float(np.mean(np.concatenate(densities)))


@attrs.frozen
class SearchStep:
    """The best weight that was tried for one block, and the score at the best term weight.

    ``block`` is None for the model as it was given. ``taken`` is True if the search continued
    from this weight.
    """

    block: str | None
    block_weight: float
    weight: float
    mean: float
    standard_error: float
    taken: bool


@attrs.frozen(eq=False, repr=False)
class CoordinateSearch:
    """The steps of a search over the weights of blocks, and its result.

    Attributes
    ----------
    chosen : CrossValidation
        The one that the best model comes from.
    steps : tuple of SearchStep
        The start, then the best try of each block in turn.
    """

    chosen: CrossValidation
    steps: tuple[SearchStep, ...]

    @property
    def best_model(self) -> Model:
        """The model with the block weights and the term weight of the last step that was taken."""
        return self.chosen.best_model

    def __repr__(self) -> str:
        lines = [f"CoordinateSearch: {len(self.steps)} steps, by {self.chosen.criterion}"]
        lines.append(f"{'block':>16}{'its weight':>12}{self.chosen.term:>16}{'mean score':>20}")
        for step in self.steps:
            block = "as given" if step.block is None else repr(step.block)
            weight = "" if step.block is None else f"{step.block_weight:.6g}"
            score = f"{step.mean:.4g} ± {step.standard_error:.2g}{'*' if step.taken else ' '}"
            lines.append(f"{block:>16}{weight:>12}{step.weight:>16.6g}{score:>20}")
        lines.append("* was taken: lower by more than one standard error of the differences")
        return "\n".join(lines)


def search_block_weights(
    model: Model,
    data: Mapping[str, Any],
    *,
    criterion: Any = None,
    factors: Sequence[float] = (0.25, 0.5, 2.0, 4.0),
    rounds: int = 2,
    random_state: RandomState = 0,
    **options: Any,
) -> CoordinateSearch:
    """Choose the weights of blocks by cross-validation, one block after the other.

    Starting from the given model, the weight of each block except the first is multiplied by every
    factor, and the weight of the term is chosen again each time on the same folds. The best factor
    is taken if its mean score is lower than that of the best model so far by more than one
    standard error of the fold-by-fold differences, since some of many factors are better by
    chance. A round without a change is the last one. The weight of the first block stays, since a
    common factor of all blocks only changes the weight of the term. The final score is the lowest
    of many and therefore optimistic. An unbiased score needs entries that were not used in the
    search.

    Parameters
    ----------
    model : Model
        With two blocks or more.
    data : as in ``fit``
    criterion : as in ``cross_validate``
        One that does not depend on weights, such as ``RelativeDeviance()``.
    factors : list of float, default (1/4, 1/2, 2, 4)
        Above 0, without 1.
    rounds : int, default 2
        The largest number of passes over all blocks.
    random_state : as in ``cross_validate``
        One draw of folds for the whole search.
    **options
        Further options of ``cross_validate``, except ``checkpoint``.

    Returns
    -------
    CoordinateSearch
        With ``best_model``, which ``fit`` takes. Ctrl-C within a step ends the search with the
        result of the steps before. The number of paths is that of a cross-validation times
        ``1 + rounds * (blocks - 1) * len(factors)`` at most.

    Raises
    ------
    ModelError
        If the model has only one block, or if factors or options are wrong.
    DataError, BackendError
        As in ``cross_validate``.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> from mcframe.selection import RelativeDeviance, search_block_weights
    >>> rng = np.random.default_rng(0)
    >>> z = 2.0 * rng.standard_normal((40, 2)) @ rng.standard_normal((2, 8))
    >>> x = z[:, :5] + 2.0 * rng.standard_normal((40, 5))
    >>> data = {"x": x, "y": (z[:, 5:] + rng.logistic(size=(40, 3)) > 0.0) * 1.0}
    >>> blocks = [mc.Block("x", mc.Gaussian()), mc.Block("y", mc.Bernoulli(), bias=True)]
    >>> model = mc.Model(blocks, [mc.NuclearNorm(1.0)])
    >>> search = search_block_weights(
    ...     model, data, criterion=RelativeDeviance(), count=5, cv=3, rounds=1
    ... )
    >>> [block.weight for block in search.best_model.blocks]
    [1.0, 2.0]
    """
    if not isinstance(model, Model):
        raise ModelError(f"model of type {type(model).__name__} was given; a Model is needed")
    if len(model.blocks) < 2:
        raise ModelError(
            f"the model has the block {model.blocks[0].name!r} alone, whose weight is one with"
            " that of the term; take cross_validate"
        )
    if "checkpoint" in options:
        raise ModelError("checkpoint was given, which a search does not write; leave it out")
    common = options | {"criterion": criterion, "random_state": checked_seed(random_state)}
    most = whole(rounds, "rounds", 1)
    try:
        tried = [number(factor, "a factor") for factor in factors]
    except TypeError:
        tried = []
    if not tried or min(tried) <= 0.0 or 1.0 in tried:
        raise ModelError(
            f"factors={factors!r} were given; a list of numbers above 0 is needed, without 1, such"
            " as (0.25, 0.5, 2.0, 4.0)"
        )
    shown = checked_progress(common.pop("progress", None))
    with edges_unsaid(), stage("search_block_weights", shown) as here:
        first = cross_validate(model, data, **common)
        warnings.simplefilter("ignore", UnobservedWarning)  # the first has warned of the same
        search = walk(first, data, tried, most, common)
        weights = [f"{block.weight:.4g}" for block in search.best_model.blocks]
        here.report(f"the best: weights of blocks {', '.join(weights)}")
    if search.chosen.grids.shape[1] > 2 and search.chosen.at_edge:
        warn_caller(AT_EDGE[search.chosen.at_edge])
    return search


def walk(
    first: CrossValidation,
    data: Mapping[str, Any],
    factors: Sequence[float],
    rounds: int,
    options: Mapping[str, Any],
) -> CoordinateSearch:
    """Search block by block until a round changes nothing, or the search is interrupted."""
    chosen, steps = first, [step_of(first, None, taken=True)]
    names = [block.name for block in first.best_model.blocks[1:]]
    for _ in range(rounds):
        before = chosen
        for name in names:
            models = [reweighted(chosen.best_model, name, factor) for factor in factors]
            try:
                tried = cross_validate(models, data, **options)
            except KeyboardInterrupt:
                return CoordinateSearch(chosen, tuple(steps))
            if tried.partial:
                return CoordinateSearch(chosen, tuple(steps))
            both = chosen.counted & tried.counted  # the folds that count for both
            taken = clearly_above(chosen.scores[chosen.best][both], tried.scores[tried.best][both])
            steps.append(step_of(tried, name, taken))
            chosen = tried if taken else chosen
        if chosen is before:
            break
    return CoordinateSearch(chosen, tuple(steps))


def step_of(tried: CrossValidation, block: str | None, taken: bool) -> SearchStep:
    """Return the best of a cross-validation as a step."""
    weight = 1.0 if block is None else tried.best_model.block(block).weight
    mean, error = tried.means[tried.best], tried.standard_errors[tried.best]
    return SearchStep(block, weight, tried.best_weight, float(mean), float(error), taken)


def reweighted(model: Model, name: str, factor: float) -> Model:
    """Return the model with the weight of a block multiplied."""
    changed = attrs.evolve(model.block(name), weight=factor * model.block(name).weight)
    return attrs.evolve(model, blocks=[changed if b.name == name else b for b in model.blocks])

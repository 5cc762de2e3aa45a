"""The base class of the estimators: options, the weight of the main regularizer, the fit."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError, NoInfluence, UnobservedWarning
from mcframe.contracts.validators import number, whole
from mcframe.estimators.frame_columns import FrameColumns, holds_more_than_numbers
from mcframe.estimators.gaussian import GAUSSIAN, as_number_blocks
from mcframe.estimators.number_columns import NumberColumns
from mcframe.fitting import fit
from mcframe.model import Block, Model
from mcframe.model.model import terms_with_weight
from mcframe.model.partitioned import refuse_partitions
from mcframe.posterior.answer import Posterior
from mcframe.regularizers import NuclearNorm
from mcframe.selection import cross_validate, weight_max
from mcframe.selection.choice import edges_unsaid
from mcframe.selection.criteria import Criterion
from mcframe.selection.splitters import fewest_free
from mcframe.selection.weight_max import chosen_place
from mcframe.tables.columns import read_frame
from mcframe.tables.rows_choice import COMPONENTS, RowsChoice, choose_rows, takes_factors

__all__ = ["Completion"]

# The weight where a table is too small to choose one: this share of the least that gives Z = 0.
SHARE = 0.1


class Completion(BaseEstimator):
    """An estimator that fits one model to all of a table, with the options common to all."""

    completion_: Fit | Posterior
    # The numbers of Gaussians that are mixed beside one where they predict better.
    components_tried: tuple[int, ...] = COMPONENTS
    # Whether probabilities are fitted to what is held out, where the prior is given, too.
    calibrates = False

    def __init__(
        self,
        likelihoods: Any = "auto",
        terms: Any = None,
        *,
        model: Any = None,
        types: Any = None,
        unseen: str = "missing",
        weight: Any = "cv",
        n_weights: int = 12,
        cv: int = 3,
        tol: float = 1e-5,
        max_iter: int = 20_000,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.likelihoods = likelihoods
        self.terms = terms
        self.model = model
        self.types = types
        self.unseen = unseen
        self.weight = weight
        self.n_weights = n_weights
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def read(self, X: Any, reset: bool) -> Any:
        """X as floats, NaN where missing, or as the DataFrame of any columns that it is."""
        refuse_partitions(X)
        if reset:
            self.is_frame_ = self.types is not None or holds_more_than_numbers(X)
        if self.is_frame_:
            read_frame(X)  # which refuses what is none
            return validate_data(self, X, skip_check_array=True, reset=reset)
        return self.read_numbers(X, reset)

    def read_numbers(self, X: Any, reset: bool) -> Array:
        """X as floats, NaN where missing."""
        table: Array = validate_data(
            self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset
        )
        return table

    def takes_gaussian(self) -> bool:
        """True if the answer is the posterior of rows of numbers.

        That is if ``terms`` says so, or by default.
        """
        if isinstance(self.terms, str):
            if self.terms != GAUSSIAN:
                raise ModelError(
                    f"terms={self.terms!r} was given; {GAUSSIAN!r}, a list of terms or None is"
                    " needed"
                )
            return True
        automatic = isinstance(self.likelihoods, str) and self.weight == "cv"
        return automatic and self.terms is None and self.model is None

    def columns_of(self, table: Any) -> NumberColumns | FrameColumns:
        """The columns of a table that was read, as blocks."""
        model = self.given_model()
        if self.is_frame_:
            columns = FrameColumns.of(
                table, self.types, self.likelihoods, self.unseen, model, self.gaussian_
            )
            self.declared_ = columns.declared
            return columns
        names = getattr(self, "feature_names_in_", None)
        return NumberColumns.of(table, self.likelihoods, names, model)

    def given_model(self) -> Model | None:
        """The given model; a ``ModelError`` if likelihoods or terms are given too."""
        if self.model is None:
            return None
        if not isinstance(self.model, Model):
            raise ModelError(f"model={self.model!r} was given; a Model or None is needed")
        auto = isinstance(self.likelihoods, str) and self.likelihoods == "auto"
        if not auto or self.terms is not None:
            raise ModelError(
                "model was given, and likelihoods or terms beside it, which a model has already;"
                " give one or the other"
            )
        return self.model

    def fit_model(
        self, blocks: Sequence[Block], data: Mapping[str, Array], criterion: Criterion
    ) -> None:
        """Fit the model of these blocks, with a chosen weight if none is given."""
        with warnings.catch_warnings():
            # Empty rows and columns have a meaning of their own in scikit-learn.
            warnings.simplefilter("ignore", UnobservedWarning)
            model = self.model_of(blocks, data, criterion)
        self.fit_complete(model, data)

    def fit_complete(self, model: Model, data: Mapping[str, Array]) -> None:
        """Fit a model whose weights are all known."""
        self.model_ = model
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)
            final = fit(
                model,
                data,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
            )
        self.completion_ = final
        self.n_iter_ = max(final.history[-1].iteration, 1)

    def fit_gaussian(
        self, blocks: Sequence[Block], data: Mapping[str, Array], folds: Callable[..., Any]
    ) -> Array:
        """Find the posterior of the rows of these blocks.

        ``folds(values, n_folds, rng)`` says which entries (n x d) are held out in turn. Returned
        are the means of these at the best prior (n x d), NaN where nothing was held out.
        """
        values, prior = np.hstack([data[block.name] for block in blocks]), self.given_prior()
        wide, held_means = takes_factors(values.shape), np.full(values.shape, np.nan)
        chosen = RowsChoice() if wide else RowsChoice(1, prior)
        if prior is None or self.calibrates:
            rng = np.random.default_rng(self.random_state)
            held_out = folds(values, whole(self.cv, "cv", 2), rng)
            chosen, means = choose_rows(held_out, wide, prior, components=self.components_tried)
            for fold, own in zip(held_out, means, strict=True):
                held_means[fold.held[:, fold.owners]] = own[fold.held[:, fold.owners]]
        model = chosen.model(as_number_blocks(blocks))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnobservedWarning)
            found = chosen.posterior(
                model, data, random_state=self.random_state, n_jobs=self.n_jobs
            )
        self.keep_rows(chosen, found)
        return held_means

    def given_prior(self) -> float | None:
        """The given number of rows that the prior counts as, or None."""
        if isinstance(self.weight, str) and self.weight == "cv":
            return None
        given = number(self.weight, "weight")
        if not 0.0 < given < np.inf:
            raise ModelError(
                f"weight={self.weight!r} was given, how many rows a prior counts as; a number"
                " above 0 is needed"
            )
        return given

    def keep_rows(self, chosen: RowsChoice, found: Posterior) -> None:
        """Keep the posterior of rows, and the choice of its prior."""
        self.model_, self.n_iter_ = found.model, len(found.history)
        self.completion_ = found
        self.prior_rows_ = chosen.prior_rows
        if chosen.tried:
            self.prior_search_ = chosen

    def model_of(
        self, blocks: Sequence[Block], data: Mapping[str, Array], criterion: Criterion
    ) -> Model:
        """The model with the given or the chosen weight."""
        model = self.unweighted_model(blocks)
        if self.weight is None:
            return model
        place = chosen_place(model, None)
        if not isinstance(self.weight, str):
            return with_weight(model, place, number(self.weight, "weight"))
        if self.weight != "cv":
            raise ModelError(
                f"weight={self.weight!r} was given; 'cv', a number, or None for that of the terms"
                " is needed"
            )
        try:
            largest = weight_max(model, data)
        except NoInfluence:  # nothing to be learnt beyond the columns' levels, as of one row
            return with_weight(model, place, 1.0)
        if fewest_free(model, data) < 2 * self.cv:
            return with_weight(model, place, SHARE * largest)
        with edges_unsaid():
            self.cross_validation_ = cross_validate(
                model,
                data,
                criterion=criterion,
                count=self.n_weights,
                cv=self.cv,
                random_state=self.random_state,
            )
        return self.cross_validation_.best_model

    def unweighted_model(self, blocks: Sequence[Block]) -> Model:
        """The model of these blocks, with the weight that its term was given."""
        if self.model is not None:
            own = {block.name for block in self.model.blocks}
            added = [block for block in blocks if block.name not in own]
            return attrs.evolve(self.model, blocks=(*self.model.blocks, *added))
        if self.weight is None and self.terms is None:
            raise ModelError(
                "weight=None was given, which is that of terms, and no terms; give"
                " terms=[mc.NuclearNorm(2.0)], or weight='cv' or a number"
            )
        return Model(blocks, [NuclearNorm(1.0)] if self.terms is None else self.terms)


def with_weight(model: Model, place: int, weight: float) -> Model:
    """A model with another weight of one term."""
    return attrs.evolve(model, terms=terms_with_weight(model.terms, place, weight))

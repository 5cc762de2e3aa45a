"""What the estimators share: their options, the weight of the main term, the fit."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from sklearn.base import BaseEstimator

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError, UnobservedWarning
from mcframe.contracts.validators import number
from mcframe.fitting import fit
from mcframe.model import Block, Model
from mcframe.model.model import terms_with_weight
from mcframe.regularizers import NuclearNorm
from mcframe.selection import cross_validate, weight_max
from mcframe.selection.choice import edges_unsaid
from mcframe.selection.chosen_term import chosen_place
from mcframe.selection.criteria import Criterion
from mcframe.selection.entry_folds import fewest_free

__all__ = ["Completion"]

# The weight where a table is too small to choose one: this share of the least that gives Z = 0.
SHARE = 0.1


class Completion(BaseEstimator):
    """An estimator that fits one model to all of a table, with the options common to all."""

    def __init__(
        self,
        likelihoods: Any = "auto",
        terms: Any = None,
        *,
        weight: Any = "cv",
        n_weights: int = 12,
        cv: int = 3,
        tol: float = 1e-5,
        max_iter: int = 20_000,
        random_state: int | None = 0,
        threads: int | None = None,
    ) -> None:
        self.likelihoods = likelihoods
        self.terms = terms
        self.weight = weight
        self.n_weights = n_weights
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.threads = threads

    def fit_model(
        self, blocks: Sequence[Block], data: Mapping[str, Array], criterion: Criterion
    ) -> Fit:
        """Fit the model of these blocks, its weight chosen where it is to be."""
        with warnings.catch_warnings():
            # Empty rows and columns have a meaning of their own in scikit-learn.
            warnings.simplefilter("ignore", UnobservedWarning)
            model = self.model_of(blocks, data, criterion)
            self.model_ = model
            self.completion_ = fit(
                model,
                data,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=self.random_state,
                threads=self.threads,
            )
        self.n_iter_ = max(self.completion_.history[-1].iteration, 1)
        return self.completion_

    def model_of(
        self, blocks: Sequence[Block], data: Mapping[str, Array], criterion: Criterion
    ) -> Model:
        """The model with the weight that was given, or with the one that is chosen."""
        if self.weight is None and self.terms is None:
            raise ModelError(
                "weight=None was given, which is that of terms, and no terms; give"
                " terms=[mc.NuclearNorm(2.0)], or weight='cv' or a number"
            )
        model = Model(blocks, [NuclearNorm(1.0)] if self.terms is None else self.terms)
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
        except ModelError:  # nothing to be learnt beyond the columns' levels, as of one row
            return with_weight(model, place, 1.0)
        if fewest_free(model, data) < 2 * self.cv:
            return with_weight(model, place, SHARE * largest)
        with edges_unsaid():
            self.cross_validation_ = cross_validate(
                model,
                data,
                criterion=criterion,
                count=self.n_weights,
                folds=self.cv,
                random_state=self.random_state,
            )
        return self.cross_validation_.best_model


def with_weight(model: Model, place: int, weight: float) -> Model:
    """A model with another weight of one term."""
    return attrs.evolve(model, terms=terms_with_weight(model.terms, place, weight))

"""Answers of a fit by the labels of its data: pairs of them, and the best columns of a row."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import ModelError
from mcframe.model import Model, Problem
from mcframe.prediction import NewRows
from mcframe.ranking import Axes, best_columns

__all__ = ["AnswersByLabel"]


class AnswersByLabel(ABC):
    """What a ``Fit`` answers by label, from what it answers by position."""

    __slots__ = ()

    @property
    @abstractmethod
    def problem(self) -> Problem:
        """The model with its data."""

    @property
    @abstractmethod
    def model(self) -> Model:
        """The model that was fitted."""

    @abstractmethod
    def predict(self, name: str, rows: Any = None, columns: Any = None) -> Any:
        """The mean response of a block, or some of its entries."""

    @abstractmethod
    def mean_of(self, name: str, z: Array) -> Array:
        """The mean response at a linear predictor (rows x latent columns of the block)."""

    @abstractmethod
    def new_rows(self, data: Mapping[str, Any], name: str | None = None) -> NewRows:
        """New items by the rule for them."""

    def predict_pairs(self, name: str, pairs: Any, *, unknown: str = "refuse") -> Array:
        """The mean response of a block at pairs of labels, (row, column) by (row, column).

        The whole block is not formed. Labels are those of triples or of a DataFrame; of data
        without labels they are positions from 0.

        Parameters
        ----------
        name : str
        pairs : list of tuples, array (n x 2), or DataFrame of pandas, polars or pyarrow
            A frame has a column of row labels and one of column labels, called as in the triples
            that were fitted; others are not looked at.
        unknown : "refuse" or "nan", default "refuse"
            A pair with a label that was not in the fit is an error, or has no prediction.

        Returns
        -------
        array (n,), of classes (n x classes)
            In the order of the pairs, in the units of the data; probabilities for labels.

        Raises
        ------
        DataError
            Where a label is unknown; the message names it.

        Examples
        --------
        >>> import mcframe as mc
        >>> users, films = ["ann", "ann", "bob", "bob"], ["Up", "Jaws", "Up", "Alien"]
        >>> triples = mc.from_triples(row=users, column=films, value=[5, 1, 4, 2])
        >>> model = mc.Model([mc.Block("stars", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.1)])
        >>> fit = mc.fit(model, {"stars": triples})
        >>> fit.predict_pairs("stars", [("bob", "Jaws"), ("eve", "Up")], unknown="nan").round(1)
        array([ 1., nan])
        """
        self.model.block(name)  # which names the blocks there are
        axes = Axes.of(name, self.problem.tables[name])
        rows, columns = axes.places_of_pairs(pairs, unknown)
        known = (rows >= 0) & (columns >= 0)
        found = self.predict(name, rows=rows[known], columns=columns[known])
        predicted = np.full((rows.size, *found.shape[1:]), np.nan)
        predicted[known] = found
        return predicted

    def top(self, name: str, row: Any, n: int = 10, *, observed: bool = False) -> Any:
        """The n columns of a row with the largest mean response, best first, by their labels.

        Only the rows that are asked for are formed. Of equal predictions the column further left
        comes first.

        Parameters
        ----------
        name : str
            A block of columns of one number each; classes have no best one.
        row : label, or list of labels
            Of triples or of a DataFrame; of data without labels a position from 0.
        n : int, default 10
            How many columns a row; fewer where there are no more.
        observed : bool, default False
            Whether columns with an observed entry in the row are among them.

        Returns
        -------
        DataFrame or list
            The row, the column and the prediction, row after row as asked: in a frame of the
            library of the data, with the columns "predicted" and those of the triples; tuples in
            a list where the data were no frames.

        Raises
        ------
        DataError
            Where the fit has no such row.
        ModelError
            Where the block has classes, or n is no whole number from 1 on.

        Examples
        --------
        >>> import mcframe as mc
        >>> users, films = ["ann", "ann", "bob", "bob"], ["Up", "Jaws", "Up", "Alien"]
        >>> triples = mc.from_triples(row=users, column=films, value=[5, 1, 4, 2])
        >>> model = mc.Model([mc.Block("stars", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.1)])
        >>> fit = mc.fit(model, {"stars": triples})
        >>> [(user, film) for user, film, predicted in fit.top("stars", ["ann", "bob"], n=2)]
        [('ann', 'Alien'), ('bob', 'Jaws')]
        """
        self.refuse_classes(name)
        table = self.problem.tables[name]
        axes = Axes.of(name, table)

        def predictions(rows: IntArray) -> Array:
            columns = np.arange(table.shape[1])
            cells = np.repeat(rows, columns.size), np.tile(columns, rows.size)
            return self.predict(name, *cells).reshape(rows.size, columns.size)

        found = best_columns(table, axes.places_of_rows(row), predictions, n, observed)
        return axes.as_triples(*found)

    def top_rows(
        self, data: Mapping[str, Any], name: str, n: int = 10, *, observed: bool = False
    ) -> Any:
        """The n columns of each new row with the largest mean response, best first.

        As ``top`` says it of rows of the fit, by the predictions of ``predict_rows``.

        Parameters
        ----------
        data, name : as in ``predict_rows``
            Triples have some of the columns of the fit, by their labels; the others are not
            observed.
        n, observed : as in ``top``
            Observed are the entries of the new rows.

        Returns
        -------
        DataFrame or list
            As of ``top``, for all new rows, in a frame of the library of the new data.

        Raises
        ------
        ModelError, DataError
            As in ``predict_rows`` and ``top``.

        Examples
        --------
        >>> import mcframe as mc
        >>> users, films = ["ann", "ann", "bob", "bob"], ["Up", "Jaws", "Up", "Alien"]
        >>> triples = mc.from_triples(row=users, column=films, value=[5, 1, 4, 2])
        >>> model = mc.Model([mc.Block("stars", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.1)])
        >>> fit = mc.fit(model, {"stars": triples})
        >>> new = mc.from_triples(row=["eve"], column=["Up"], value=[5])
        >>> [(user, film) for user, film, predicted in fit.top_rows({"stars": new}, "stars")]
        [('eve', 'Alien'), ('eve', 'Jaws')]
        """
        self.refuse_classes(name)
        new = self.new_rows(data, name)
        mean, table = self.mean_of(name, new.predictor(name)), new.table(name)
        found = best_columns(table, np.arange(len(mean)), mean.__getitem__, n, observed)
        return Axes.of(name, table).as_triples(*found)

    def refuse_classes(self, name: str) -> None:
        """A ``ModelError`` where a block has classes, of which none is more than another."""
        likelihood = self.model.block(name).likelihood
        if likelihood.width > 1:
            raise ModelError(
                f"block {name!r}: {type(likelihood).__name__} has classes, of which none is more"
                f" than another; rank by probabilities, as of fit.predict_pairs({name!r}, pairs)"
            )

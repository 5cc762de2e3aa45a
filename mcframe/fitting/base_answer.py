"""What answers share: pictures, files, how they are printed, and predictions at labels."""

import os
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, overload

import attrs
from numpy.typing import ArrayLike

from mcframe.contracts.arrays import Array, InFormOfData, IntArray, Pairs, Positions
from mcframe.contracts.pictures import Pictured, PicturesT
from mcframe.contracts.showing import card, remarks, table_as_html
from mcframe.fitting.prediction import BlockLabels, Cells, check_ranked
from mcframe.model import Model, Problem
from mcframe.model.table import Table
from mcframe.storage.archive import save


class Answer(Pictured[PicturesT]):
    """An answer with pictures that can be saved."""

    __slots__ = ()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the answer into a file, which ``mc.load`` reads.

        The file contains the model, the entries of the data with their labels, and all that was
        estimated; of a completed table also the table before and after, with the types, codes and
        scores of its columns. The loaded answer gives the same results, with the same bits, draws
        included. Frames come back in their library and with their dtypes, and ``fit(...,
        start=loaded)`` does what it does from the fit itself: it begins at its Z, with its bound.

        A fit takes some 25 bytes for each observed entry (41 in standardised blocks), and about
        ``8 rank (n_items + n_columns)`` bytes: ten million entries took 248 MB and a third of a
        second. The state of the solver is not in the file; ``checkpoint`` of ``fit`` keeps it.
        ``fit.compact().save(path)`` leaves out the entries; so does ``save`` of a fit whose rows
        are in partitions. A posterior takes some 80
        bytes for each observed entry, 8 k^2 bytes for each column of k factors, and with
        ``GaussianRows`` 24 bytes for each cell of the table; distributions of rows are computed
        again from the entries if possible. A completed table takes about twelve times its size:
        one of 100,000 x 20 numbers took 184 MB.

        An existing file is replaced only when the new one is complete and on the disk. If the
        process dies before, or the disk is full, the existing file stays as it was. The file is a
        zip of arrays and JSON, as ``numpy.savez`` writes one, without pickle, under exactly this
        path.

        Parameters
        ----------
        path : str or Path
            Usually with the ending ``.npz``.

        Returns
        -------
        Path

        Raises
        ------
        ModelError
            If the answer holds what no file can: a likelihood or a term of your own that
            ``mcframe.contracts.stored`` does not declare; in a posterior rows in partitions, of
            which ``mc.posterior(..., checkpoint=path)`` keeps what columns and priors have
            learned; in the columns of a completed table objects that are no numbers, texts or
            times.
        DataError
            If the file cannot be written.

        Examples
        --------
        >>> import os, tempfile, numpy as np, mcframe as mc
        >>> x = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
        >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.01)])
        >>> fit = mc.fit(model, {"x": x})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = mc.load(fit.save(os.path.join(folder, "fit.npz")))
        >>> again.gap == fit.gap
        True
        """
        return save(self._stored(), path)

    def _stored(self) -> "Answer[PicturesT]":
        """The answer as files hold it."""
        return self


@attrs.frozen(eq=False, repr=False)
class BlockAnswer(Answer[PicturesT]):
    """An answer about the cells of a problem's blocks: a ``Fit`` or a ``Posterior``.

    A subclass says what it predicts, by ``_means`` and ``_means_at``.
    """

    problem: Problem

    @property
    @abstractmethod
    def status(self) -> str:
        """Why it ended, in a word."""

    @property
    @abstractmethod
    def message(self) -> str:
        """Why it ended, in a sentence."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the data."""
        return self.problem.notes

    @property
    def model(self) -> Model:
        """The declared model."""
        return self.problem.model

    @property
    def _tables(self) -> Mapping[str, Table]:
        """The tables of the rows that are predicted."""
        return self.problem.tables

    @abstractmethod
    def _means_at(self, block: str, rows: Positions, columns: Positions) -> Array:
        """The mean response at positions, also beyond the bounds of the block."""

    @abstractmethod
    def _means(self, block: str) -> InFormOfData:
        """The mean response at all entries, within the bounds of the block."""

    def _deviations(self, block: str, rows: IntArray, columns: IntArray) -> tuple[Array, ...]:
        """The standard deviations that ``top`` lists after means; none of an optimum."""
        return ()

    @abstractmethod
    def _facts(self) -> dict[str, str]:
        """The numbers that are printed, by name."""

    def _cells(
        self,
        block: str,
        rows: Positions,
        columns: Positions,
        pairs: Pairs = None,
        unknown: str = "refuse",
    ) -> Cells:
        """The cells that are asked for: all, at positions, or at pairs of labels."""
        return Cells.of(self.problem, self._tables, block, rows, columns, pairs, unknown)

    @overload
    def predict(self, block: str) -> InFormOfData: ...
    @overload
    def predict(self, block: str, rows: ArrayLike, columns: ArrayLike) -> Array: ...
    def predict(self, block: str, rows: Positions = None, columns: Positions = None) -> Any:
        """The mean response of a block: probabilities for labels and classes.

        Of a fit it is the mean at the optimum, of a posterior E[y], the mean of a new observation;
        for a ``Quantile`` block the quantile, or its posterior mean. At observed entries, too, it
        is what the model says there, and not the observed value, which ``impute`` keeps.

        Without ``rows`` and ``columns`` it gives every entry, in a DataFrame with the labels of
        the data if they were a DataFrame or a Series, else in an array (K columns for each column
        of K classes). With ``rows`` and ``columns``, of equal length and counted from 0, it gives
        the entries at these positions as an array, one number each or one for each class. The
        whole block is then never formed, which for a large sparse table would not fit into memory.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> x = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0, 4.0])
        >>> x[0, 3] = np.nan
        >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.01))], [mc.NuclearNorm()])
        >>> posterior = mc.posterior(model, {"x": x})
        >>> print(posterior.predict("x", rows=[0], columns=[3]).round(1))
        [4.]
        """
        if rows is None and columns is None:
            return self._means(block)
        return self.model.block(block).limited(self._means_at(block, rows, columns))

    def predict_pairs(self, block: str, pairs: Pairs, *, unknown: str = "refuse") -> Array:
        """The mean response of a block at pairs (row label, column label).

        What ``predict`` gives there; the whole block is not formed. Labels are those of triples
        or of a DataFrame; data without labels use positions from 0.

        Parameters
        ----------
        block : str
        pairs : list of tuples, array (n x 2), or DataFrame of pandas, polars or pyarrow
            A frame has a column of row labels and one of column labels, with the same names as in
            the triples; other columns are ignored.
        unknown : "refuse" or "nan", default "refuse"
            With "refuse" a label that was not in the data raises an error; with "nan" the
            prediction is NaN.

        Returns
        -------
        array (n,), for classes (n x classes)
            In the order of the pairs, in the units of the data; probabilities for labels.

        Raises
        ------
        DataError
            If a label is unknown; the message names it.

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
        self.model.block(block)  # which names the blocks there are
        cells = Cells.of_pairs(self._tables[block], block, pairs, unknown)
        return cells.array(self.predict(block, cells.rows, cells.columns))

    def top(self, block: str, row: object, n: int = 10, *, observed: bool = False) -> InFormOfData:
        """The n columns of a row with the largest mean response, best first, by label.

        Only the requested rows are formed. Of equal predictions the column further left comes
        first. A posterior adds the standard deviation of a new observation.

        Parameters
        ----------
        block : str
            A block whose columns have one number each; classes have no order.
        row : label, or list of labels
            Of triples or of a DataFrame; for data without labels a position from 0.
        n : int, default 10
            The number of columns for each row; fewer if there are no more.
        observed : bool, default False
            Include columns with an observed entry in the row.

        Returns
        -------
        DataFrame or list
            Row, column and prediction, in the order of the requested rows; of a posterior also
            the standard deviation. A frame in the library of the data, with the columns of the
            triples, "predicted" and "sd"; or a list of tuples if the data were no frames.

        Raises
        ------
        DataError
            If there is no such row.
        ModelError
            If the block has classes, or n is not a whole number of at least 1.

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
        declared = self.model.block(block)
        check_ranked(declared)
        table = self._tables[block]
        axes = BlockLabels.of(block, table)
        means_at = partial(self._means_at, block)
        rows, columns, means = axes.best(table, means_at, row, n, observed)
        deviations = self._deviations(block, rows, columns)
        return axes.as_list(rows, columns, declared.limited(means), *deviations)

    def __repr__(self) -> str:
        title = f"{type(self).__name__}: {self.status} ({self.message})"
        lines = [*self._facts().items(), *(("note", note) for note in self.notes)]
        return "\n".join([title, *(f"  {name:<10} {value}" for name, value in lines)])

    def _repr_html_(self) -> str:
        title, facts = (
            f"{type(self).__name__}: {self.status}",
            table_as_html((), self._facts().items()),
        )
        notes = remarks(f"note: {note}" for note in self.notes)
        return card(title, remarks([self.message]), facts, notes)

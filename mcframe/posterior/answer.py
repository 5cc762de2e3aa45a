"""The answer of ``mc.posterior``: means, intervals, sets and draws of new observations."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import number, whole
from mcframe.likelihoods import Gaussian
from mcframe.model import Model, Problem
from mcframe.model.table import Table
from mcframe.model.units import AffineUnits
from mcframe.new_rows import tables_of_new_rows
from mcframe.posterior.observed import Observed, nothing
from mcframe.posterior.predictive import Predictive, columns_of, has_few_values
from mcframe.prediction import Axes, best_columns, check_ranked, check_size, checked_places
from mcframe.storage import save

if TYPE_CHECKING:
    from mcframe.posterior.conformal import ConformalPredictions
    from mcframe.posterior.principal_axes import Factors

# How many cells are answered at a time.
BATCH = 200_000


@attrs.frozen
class Sweep:
    """One sweep: its number, the bound on the log evidence, factors, and seconds.

    With ``GaussianRows`` as the prior ``n_factors`` is the number of Gaussians in the mixture.
    """

    iteration: int
    evidence: float
    n_factors: int
    seconds: float


@attrs.frozen(eq=False, repr=False)
class Posterior:
    """The distribution of all entries given the observed ones.

    Attributes
    ----------
    problem : Problem
        The model with its data.
    engine : FactorPosterior or JointPosterior
        The distributions of z after the last sweep.
    evidence : float
        A lower bound on the log evidence of the data, with all constants; it never falls from one
        sweep to the next. Standardised blocks count in standard units. Of two models of the same
        data the one with the larger bound is preferred.
    status : str
        "converged", "iteration_limit", "time_limit" or "interrupted".
    message : str
        The status in a sentence.
    history : tuple of Sweep
    random_state : int
        The seed of the initial factors and of draws.
    options : dict
        The other options of the call.
    tables : mapping from block name to Table
        The tables of the rows that are predicted: those of the data, or of new rows.
    """

    problem: Problem
    engine: Any
    evidence: float
    status: str
    message: str
    history: tuple[Sweep, ...]
    random_state: int
    options: Mapping[str, Any]
    tables: Mapping[str, Table]

    @property
    def model(self) -> Model:
        """The declared model."""
        return self.problem.model

    def predict(self, block: str, rows: Any = None, columns: Any = None) -> Any:
        """E[y] of a block: the mean of a new observation, probabilities for labels and classes.

        For a ``Quantile`` block it is the posterior mean of the quantile. Without ``rows`` and
        ``columns`` it gives every entry, in a DataFrame if the data were one, else in an array (K
        columns for each column of K classes). With ``rows`` and ``columns``, of equal length and
        counted from 0, it gives the entries at these positions.

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
        return self._answer(block, rows, columns, lambda here: here.mean())

    def sd(self, block: str, rows: Any = None, columns: Any = None) -> Any:
        """The standard deviation of a new observation, noise included; for classes of indicators.

        In the shape of ``predict``.
        """
        return self._answer(block, rows, columns, lambda here: here.sd())

    def interval(
        self, block: str, level: float = 0.9, rows: Any = None, columns: Any = None
    ) -> tuple[Any, Any]:
        """Lower and upper bounds between which a new observation lies with this probability.

        The quantiles (1 - level) / 2 and (1 + level) / 2, each in the shape of ``predict``. Counts
        and levels are whole numbers, so their intervals have at least this probability.

        Raises
        ------
        ModelError
            If the block has classes, which have no order: use ``set``.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> x = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0, 4.0])
        >>> x[0, 3] = np.nan
        >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.01))], [mc.NuclearNorm()])
        >>> lower, upper = mc.posterior(model, {"x": x}).interval("x", 0.9)
        >>> bool(lower[0, 3] < 4.0 < upper[0, 3])
        True
        """
        if self.model.block(block).likelihood.width > 1:
            raise ModelError(
                f"block {block!r}: classes have no order and no interval; take"
                f" posterior.set({block!r}, {level!r})"
            )
        tail = 0.5 * (1.0 - checked_level(level))
        lower = self._answer(block, rows, columns, lambda here: here.quantile(tail))
        upper = self._answer(block, rows, columns, lambda here: here.quantile(1.0 - tail))
        return lower, upper

    def set(self, block: str, level: float = 0.9, rows: Any = None, columns: Any = None) -> Array:
        """The smallest sets of labels, levels or classes with at least this probability.

        Returns
        -------
        array of bool (rows x columns x V), or (N x V) with ``rows`` and ``columns``
            True where a value is in the set. For labels V = 2 and the values are 0 and 1; for
            levels and classes they are all values in their order.
        """
        level = checked_level(level)
        return self._of_values(block, rows, columns, lambda here: here.likeliest(level))

    def probabilities(self, block: str, rows: Any = None, columns: Any = None) -> Array:
        """The probability of each label, level or class, in the shape of ``set``."""
        return self._of_values(block, rows, columns, lambda here: here.probabilities()[1])

    def log_predictive_density(self, block: str, rows: Any, columns: Any, values: Any) -> Array:
        """log p(value | data) of new observations at some entries.

        For a standardised block it is the density in the units of the data, or in standard units
        if these are ranks.

        Parameters
        ----------
        block : str
        rows, columns, values : of one length
            Positions counted from 0, and values as in the data.

        Returns
        -------
        array (N,)
        """
        (row, column), _ = self._cells(block, rows, columns)
        fitted = self.tables[block]
        values = np.asarray(values, dtype=np.float64)
        if values.shape != row.shape:
            raise DataError(
                f"block {block!r}: {values.size} values were given for {row.size} cells; one for"
                " each is needed"
            )
        table = Table(fitted.shape, row, column, values, offset=fitted.given_offset)
        table = table.on_standard_of(fitted)
        found, start = [np.zeros(0)], 0
        for here in self._predictives(block, row, column):
            stop = start + here.means.shape[1]
            found.append(here.log_density(table.values[start:stop]))
            start = stop
        density: Array = np.concatenate(found) - table.log_spreads()
        return density

    def sample(self, block: str, m: int, rows: Any = None) -> Array:
        """m draws of new observations of a block, (m x rows x columns), for all rows or for some.

        Rows are drawn jointly, so a statistic computed from each draw has the right spread. The
        factors of the columns are drawn once for all rows of a draw.
        """
        n_rows, n_columns = self.tables[block].shape
        m = whole(m, "m", least=1)
        chosen = np.arange(n_rows) if rows is None else np.asarray(rows)
        checked_places(self.problem, block, chosen, np.zeros(chosen.size, dtype=int))
        rng = np.random.default_rng((self.random_state, m))
        z = self.engine.draws(chosen, rng, m)[:, :, self.problem.columns(block)]
        z = z.reshape(m * chosen.size, -1)
        cells = np.tile(np.repeat(chosen, n_columns), m), np.tile(np.arange(n_columns), z.shape[0])
        likelihood: Any = self._likelihood(block)
        noise = self._noise(block)
        shaped = z.reshape(-1, likelihood.width) if likelihood.width > 1 else z.ravel()
        table = self.tables[block]
        offset = table.offset_at(*cells)
        if noise is not None:
            drawn = shaped + np.sqrt(noise[cells[1]]) * rng.standard_normal(shaped.shape)
            drawn = drawn if offset is None else drawn + offset
        else:
            drawn = likelihood.sample(shaped if offset is None else shaped + offset, rng)
        drawn = table.natural_at(drawn, *cells) if likelihood.location else drawn
        return np.asarray(drawn).reshape(m, chosen.size, n_columns)

    def impute(self, block: str) -> Any:
        """The block with observed entries kept and missing ones filled.

        Numbers and counts are filled with their mean; labels, levels and classes with the most
        probable value.
        """
        check_size(self.problem, block)
        table, likelihood = self.tables[block].observed_entries(), self._likelihood(block)
        places, shape = self._cells(block, None, None)
        filled = []
        for here in self._predictives(block, *places):
            if likelihood.location or not has_few_values(likelihood):
                filled.append(here.mean())
            else:
                values, probabilities = here.probabilities()
                filled.append(values[np.argmax(probabilities, axis=1)])
        entries = np.concatenate(filled).astype(np.float64).reshape(shape)
        entries[table.rows, table.columns] = table.as_given().values
        return table.wrap(entries)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the posterior into a file, which ``mc.load`` reads.

        Stored are the model, the entries of the data with their labels, and the
        distributions of rows and columns as far as rows are not found anew from the
        entries: some 80 bytes for each observed entry, 8 k^2 bytes for each column of k
        factors, and of ``GaussianRows`` 24 bytes for each cell of the table. What is
        loaded answers all that this posterior does, with the same bits, draws included.

        A file that is there is replaced at once when the new one is whole and on the disk; a
        process that dies before, or a full disk, leaves it as it was. The file is a zip of arrays
        and JSON as ``numpy.savez`` writes one, without pickle, under exactly this path.

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
            Where the posterior holds what no file can: a likelihood of your own, or
            rows in partitions, of which ``mc.posterior(..., checkpoint=path)`` keeps
            what columns and priors have learned.
        DataError
            Where the file cannot be written.

        Examples
        --------
        >>> import os, tempfile, numpy as np, mcframe as mc
        >>> x = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0, 4.0])
        >>> x[0, 3] = np.nan
        >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.01))], [mc.NuclearNorm()])
        >>> posterior = mc.posterior(model, {"x": x})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = mc.load(posterior.save(os.path.join(folder, "posterior.npz")))
        >>> bool((again.sample("x", 2) == posterior.sample("x", 2)).all())
        True
        """
        return save(self, path)

    def condition(self, data: Mapping[str, Any]) -> "Posterior":
        """The posterior of new rows given their data, with columns and priors unchanged.

        ``predict``, ``interval``, ``sample`` and the other methods then apply to the new rows.

        Parameters
        ----------
        data : dict from block name to array, DataFrame, ... as in ``mc.posterior``
            Some or all blocks, with the columns of the fit. NaN is missing.

        Raises
        ------
        DataError
            If the new data do not fit the model.
        """
        tables = tables_of_new_rows(self.problem, data)
        observed = Observed.of(self.problem, tables, known=self.engine.observed)
        index, n_rows = next(iter(tables.values())).index, observed.shape[0]
        shown = {}
        for name, fitted in self.tables.items():
            table = tables[name] if name in tables else nothing(self.problem, name, n_rows)
            names = table.names if fitted.names is None else fitted.names
            shown[name] = attrs.evolve(table, names=names, index=index)
        return attrs.evolve(self, engine=self.engine.condition(observed), tables=shown)

    def predict_rows(self, block: str, data: Mapping[str, Any]) -> Any:
        """E[y] of a block for new rows: ``condition(data).predict(block)``."""
        self.model.block(block)
        return self.condition(data).predict(block)

    def predict_pairs(self, block: str, pairs: Any, *, unknown: str = "refuse") -> Array:
        """The mean of a new observation at pairs (row label, column label).

        Parameters
        ----------
        block : str
        pairs : list of tuples, array (n x 2), or DataFrame of pandas, polars or pyarrow
            A frame has a column of row labels and one of column labels, with the same names as in
            the triples; other columns are ignored. Data without labels use positions from 0.
        unknown : "refuse" or "nan", default "refuse"
            With "refuse" an unknown label raises a ``DataError``; with "nan" the mean is NaN.

        Returns
        -------
        array (n,), for classes (n x classes)
            In the order of the pairs, in the units of the data; probabilities for labels.
        """
        self.model.block(block)
        axes = Axes.of(block, self.tables[block])
        return axes.at_pairs(pairs, unknown, partial(self.predict, block))

    def top(self, block: str, row: Any, n: int = 10, *, observed: bool = False) -> Any:
        """The n columns of a row with the largest mean, best first, by label.

        As ``Fit.top``.
        """
        check_ranked(self.model.block(block))
        table = self.tables[block]
        axes = Axes.of(block, table)

        def predictions(rows: IntArray) -> Array:
            columns = np.arange(table.shape[1])
            cells = np.repeat(rows, columns.size), np.tile(columns, rows.size)
            return np.asarray(self.predict(block, *cells)).reshape(rows.size, columns.size)

        return axes.as_triples(
            *best_columns(table, axes.places_of_rows(row), predictions, n, observed)
        )

    def noise(self, block: str) -> Any:
        """The noise variance of each column of a Gaussian block, in squared units of the data.

        A Series if the data were a DataFrame. For a block standardised by ranks it is in units of
        the ranks.
        """
        noise = self._noise(block)
        if noise is None:
            word = type(self._likelihood(block)).__name__
            raise ModelError(f"block {block!r}: {word} has no noise variance; a Gaussian has")
        spreads = getattr(getattr(self._standard(block), "units", None), "spread", 1.0)
        return self.tables[block].wrap_row(noise * np.square(spreads))

    def factors(self) -> "Factors":
        """Scores of rows and loadings of columns along the principal axes of Z.

        Factors are determined up to a rotation. Here scores and loadings are orthogonal, and
        sorted by the mean square that they explain. The largest loading of each factor is
        positive, and removed factors are left out. With ``GaussianRows`` of one component the axes
        are those of the covariance, and scores are expected scores. Standard deviations are along
        the axes, with the axes taken as known: of scores given the loadings, of loadings given the
        scores.

        Standardise blocks with different units; otherwise the axes are those of the block with the
        largest values.

        Raises
        ------
        ModelError
            If the rows are a mixture of Gaussians, or new rows.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> x = np.outer(np.arange(9.0) - 4.0, [1.0, 2.0, 3.0, 4.0])
        >>> x[0, 3] = np.nan
        >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.01))], [mc.NuclearNorm()])
        >>> factors = mc.posterior(model, {"x": x}).factors()
        >>> print(factors.shares.round(3), (factors.loadings["x"][:, 0] ** 2).round(0))
        [1.] [  7.  27.  60. 107.]
        """
        from mcframe.posterior.principal_axes import factors_of

        return factors_of(self)

    def conformalize(
        self,
        confidence_level: float = 0.9,
        missingness: Any = "uniform",
        *,
        by: Any = "block",
        share: float = 0.2,
        random_state: int | None = 0,
    ) -> "ConformalPredictions":
        """Intervals and sets that are valid for a wrong model, by split conformal prediction.

        A share of the observed entries is held out, and the posterior is computed without them,
        with the same options. Each held-out entry has a score: |y - mean| / sd with the sd of a
        new observation, and for labels, levels and classes also 1 - P(y). An interval is mean plus
        and minus sd times a quantile of the scores. A set has the values whose 1 - P is at most a
        quantile (Sadinle, Lei and Wasserman, Least ambiguous set-valued classifiers, 2019), and
        always the most probable value. In the quantile entries are weighted by their odds of being
        missing, h = (1 - p) / p with p the probability of being observed. One more score at
        infinity has the odds of the predicted cell as its weight (Gui, Barber and Ma,
        Conformalized matrix completion, 2023). There is no randomisation at a boundary: with equal
        scores, or if the most probable value alone exceeds the level, the coverage is higher.

        On average at least the share ``confidence_level`` of the missing entries is covered, for
        every distribution of the entries and every model, if entries are observed independently
        with these probabilities. If the probabilities are estimated, this holds up to the error of
        the estimate. A good model makes the intervals short.

        Parameters
        ----------
        confidence_level : float, default 0.9
        missingness : "uniform", "rank1", "bernoulli" or array
            The model of the probabilities of being missing. "uniform": one for all cells. "rank1":
            a number for the row times one for the column. "bernoulli": logistic with effects of
            rows and columns and two factors, by a posterior of the observed cells (it forms all
            cells). Or the probabilities themselves, strictly between 0 and 1, (rows x columns) or
            any shape that NumPy broadcasts to it. For several blocks it may be a dict from block
            name to one of these.
        by : "block", "column" or a label for each column of the block
            The groups of entries within which the level holds; it may be a dict from block name.
            Smaller groups have longer intervals. If a group is too small, its intervals are
            infinite, and its sets have every value.
        share : float, default 0.2
            The share of the observed entries that is held out.
        random_state : int or None, default 0
            The seed of the held-out entries.

        Returns
        -------
        ConformalPredictions
            With ``interval`` for numbers, counts and levels, and ``set`` for labels, levels and
            classes, which are called like those of the posterior.

        Raises
        ------
        ModelError, DataError
            If an argument is none of these, or a block has fewer than two observed entries.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> rng = np.random.default_rng(0)
        >>> x = np.outer(np.arange(20.0), np.ones(8)) + rng.standard_t(2.0, (20, 8))
        >>> x[rng.random(x.shape) < 0.2] = np.nan
        >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm()])
        >>> intervals = mc.posterior(model, {"x": x}).conformalize(0.8)
        >>> lower, upper = intervals.interval("x")
        >>> bool(np.mean((lower <= x)[~np.isnan(x)] & (x <= upper)[~np.isnan(x)]) > 0.7)
        True
        """
        from mcframe.posterior.conformal import conformalized

        return conformalized(self, confidence_level, missingness, by, share, random_state)

    def _standard(self, block: str) -> Any:
        given = self.problem.tables[block].given
        return None if given is None else given.standard

    def _units(self, block: str, columns: IntArray) -> Any:
        """One standard unit of some columns in the data's own; None where units are ranks."""
        units = getattr(self._standard(block), "units", None)
        if units is None:
            return 1.0
        return units.spread[columns] if isinstance(units, AffineUnits) else None

    def _likelihood(self, block: str) -> Any:
        self.model.block(block)
        return self.engine.likelihood(block)

    def _noise(self, block: str) -> Array | None:
        """The variances of observations of a Gaussian block given z, in standard units."""
        likelihood = self._likelihood(block)
        if not isinstance(likelihood, Gaussian):
            return None
        if likelihood.variance is None:
            return np.asarray(self.engine.noise[self.problem.columns(block)])
        return np.full(self.tables[block].shape[1], likelihood.variance)

    def _cells(self, block: str, rows: Any, columns: Any) -> tuple[Any, tuple[int, ...]]:
        """Positions of cells, and the shape of an answer with one number for each."""
        self.model.block(block)
        n_rows, n_columns = self.tables[block].shape
        if rows is None and columns is None:
            check_size(self.problem, block)
            cells = np.repeat(np.arange(n_rows), n_columns), np.tile(np.arange(n_columns), n_rows)
            return cells, (n_rows, n_columns)
        sized = attrs.evolve(self.problem, tables=self.tables)
        row, column = checked_places(sized, block, rows, columns)
        return (row, column), (row.size,)

    def _predictives(self, block: str, rows: IntArray, columns: IntArray) -> Any:
        """The predictive distributions at cells, some of them at a time."""
        likelihood, table = self._likelihood(block), self.tables[block]
        first, noise, width = self.problem.columns(block).start, self._noise(block), None
        width = likelihood.width
        for start in range(0, rows.size, BATCH):
            row, column = rows[start : start + BATCH], columns[start : start + BATCH]
            places = first + columns_of(width, column)
            flat = np.repeat(row, width) if width > 1 else row
            weights, means, variances = self.engine.mixture(flat, places.ravel())
            if width > 1:
                weights = weights[:, ::width]
                means = means.reshape(len(weights), -1, width)
                variances = variances.reshape(means.shape)
            offset = table.offset_at(row, column)
            if offset is not None:
                means = means + offset

            def natural(values: Array, row: IntArray = row, column: IntArray = column) -> Array:
                return table.natural_at(values, row, column) if likelihood.location else values

            yield Predictive(
                likelihood,
                weights,
                means,
                np.maximum(variances, 0.0),
                None if noise is None else noise[column],
                natural,
                self._units(block, column),
            )

    def _of_values(self, block: str, rows: Any, columns: Any, ask: Any) -> Array:
        """Something of each label, level or class of cells."""
        places, shape = self._cells(block, rows, columns)
        found = [ask(here) for here in self._predictives(block, *places)]
        numbers = np.concatenate(found) if found else np.zeros((0, 0))
        return numbers.reshape(*shape, -1)

    def _answer(self, block: str, rows: Any, columns: Any, ask: Any) -> Any:
        places, shape = self._cells(block, rows, columns)
        found = [ask(here) for here in self._predictives(block, *places)]
        width = self._likelihood(block).width
        entries = np.concatenate(found) if found else np.zeros(0)
        if len(shape) == 1:
            return entries
        return self.tables[block].wrap(entries.reshape(shape[0], shape[1] * width), width)

    def __repr__(self) -> str:
        last = self.history[-1]
        lines = [
            f"Posterior: {self.status} ({self.message})",
            f"  evidence   {self.evidence:.9g} (a lower bound on its logarithm)",
            f"  {self.engine}",
            f"  sweeps     {last.iteration}, {last.seconds:.2f} s",
        ]
        return "\n".join([*lines, *(f"  note       {note}" for note in self.problem.notes)])


def checked_level(level: float) -> float:
    """A probability strictly between 0 and 1, or a ``ModelError``."""
    found = number(level, "level")
    if not 0.0 < found < 1.0:
        raise ModelError(f"level={level!r} was given; a number between 0 and 1 is needed")
    return found


__all__ = ["Posterior", "Sweep"]

"""The answer of ``mc.posterior``: means, intervals, sets and draws of new observations."""

from collections.abc import Mapping
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

if TYPE_CHECKING:
    from mcframe.posterior.conformal import ConformalPredictions
    from mcframe.posterior.principal_axes import Factors

# How many cells are answered at a time.
BATCH = 200_000


@attrs.frozen
class Sweep:
    """One sweep: its number, the bound on the log evidence after it, factors, and seconds.

    ``n_factors`` counts the Gaussians that are mixed where the prior is ``GaussianRows``.
    """

    iteration: int
    evidence: float
    n_factors: int
    seconds: float


@attrs.frozen(eq=False, repr=False)
class Posterior:
    """The distribution of everything that was not observed, given what was.

    Attributes
    ----------
    problem : Problem
        The model with its data.
    engine : FactorPosterior or JointPosterior
        The distributions of z after the last sweep.
    evidence : float
        A lower bound on the log evidence of the data, with every constant; it never falls from
        one sweep to the next. Data of standardised blocks count in standard units. Of two models
        of the same data that with the larger bound is preferred.
    status : str
        "converged", "iteration_limit", "time_limit" or "interrupted".
    message : str
        The status in a sentence.
    history : tuple of Sweep
    random_state : int
        The seed of the factors to begin with, and of draws.
    options : dict
        The other options that it was found with.
    tables : mapping from block name to Table
        The tables of the rows that are answered for: those of the data, or of new rows.
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
        """The model that was read."""
        return self.problem.model

    def predict(self, block: str, rows: Any = None, columns: Any = None) -> Any:
        """E[y] of a block: the mean of a new observation, probabilities for labels and classes.

        Of a ``Quantile`` block the posterior mean of the quantile.

        Every entry, in a DataFrame if the data were one, else in an array (of K classes with K
        columns for each); with ``rows`` and ``columns``, equally long, the entries at these
        positions, counted from 0.

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
        """The standard deviation of a new observation, noise included; of classes of each 0 or 1.

        In the shape of ``predict``.
        """
        return self._answer(block, rows, columns, lambda here: here.sd())

    def interval(
        self, block: str, level: float = 0.9, rows: Any = None, columns: Any = None
    ) -> tuple[Any, Any]:
        """Lower and upper ends between which a new observation lies with this probability.

        The quantiles (1 - level) / 2 and (1 + level) / 2, each in the shape of ``predict``. Counts
        and levels are whole, so that their intervals hold with at least this probability.

        Raises
        ------
        ModelError
            Where the block has classes, which have no order: ask for ``set``.

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
        """The smallest sets of labels, levels or classes that have at least this probability.

        Returns
        -------
        array of bool (rows x columns x V), or (N x V) with ``rows`` and ``columns``
            True where a value is in the set: of labels V = 2 and the values are 0 and 1, of
            levels and classes they are all in their order.
        """
        level = checked_level(level)
        return self._of_values(block, rows, columns, lambda here: here.likeliest(level))

    def probabilities(self, block: str, rows: Any = None, columns: Any = None) -> Array:
        """The probability of each label, level or class, in the shape of ``set``."""
        return self._of_values(block, rows, columns, lambda here: here.probabilities()[1])

    def log_predictive_density(self, block: str, rows: Any, columns: Any, values: Any) -> Array:
        """log p(value | data) of observations at some entries that were not given.

        Of a standardised block the density of the data in their own units; where these are ranks,
        which have none, in standard units.

        Parameters
        ----------
        block : str
        rows, columns, values : of one length
            Positions counted from 0, and values as the data have them.

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
        """m draws of new observations of a block, (m x rows x columns), of all rows or of some.

        Rows are drawn jointly, so that what is computed from a draw has the spread that the
        posterior says; the columns' factors are drawn once for all rows of a draw.
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

        Numbers and counts by their mean, labels, levels and classes by the most probable one.
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

    def condition(self, data: Mapping[str, Any]) -> "Posterior":
        """The posterior of new rows given their data, columns and priors as they are.

        ``predict``, ``interval``, ``sample`` and the others then answer for the new rows.

        Parameters
        ----------
        data : dict from block name to array, DataFrame, ... as in ``mc.posterior``
            Some or all blocks, in the columns of the fit. NaN is missing.

        Raises
        ------
        DataError
            Where the new data do not fit the model.
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

    def top(self, block: str, row: Any, n: int = 10, *, observed: bool = False) -> Any:
        """The n columns of a row with the largest mean, best first, by their labels.

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
        """The noise variance of each column of a Gaussian block, in the data's own units squared.

        A Series if the data were a DataFrame. Of a block standardised by ranks in their units.
        """
        noise = self._noise(block)
        if noise is None:
            word = type(self._likelihood(block)).__name__
            raise ModelError(f"block {block!r}: {word} has no noise variance; a Gaussian has")
        spreads = getattr(getattr(self._standard(block), "units", None), "spread", 1.0)
        return self.tables[block].wrap_row(noise * np.square(spreads))

    def factors(self) -> "Factors":
        """Scores of rows and loadings of columns along the principal axes of Z.

        Factors are known up to a rotation. Here they are turned so that scores and loadings are
        orthogonal, sorted by the mean square that they explain, and signed so that the largest
        loading of each is positive; factors that are switched off are left out. With
        ``GaussianRows`` of one component the axes are those of the covariance, and scores are
        expected ones. Standard deviations are those along the axes, which are taken as they are:
        of scores given the loadings, of loadings given the scores.

        Of blocks of different units standardise all, or the axes are those of the largest.

        Raises
        ------
        ModelError
            Where the rows are a mixture of Gaussians, or new ones.

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
        """Intervals and sets that hold when the model does not: weighted split conformal ones.

        A share of the observed entries is held out, the posterior is found without them, with the
        options of this one, and each has a score: |y - mean| / sd with the sd of a new
        observation, of labels, levels and classes also 1 - P(y). An interval is mean plus and
        minus sd times a quantile of the scores, a set has the values whose 1 - P is at most one
        (Sadinle, Lei and Wasserman, Least ambiguous set-valued classifiers, 2019), and always the
        likeliest. In the quantile entries count by their odds of being missing, h = (1 - p) / p
        with p the probability of being observed, and one at infinity by the odds of the cell
        asked for (Gui, Barber and Ma, Conformalized matrix completion, 2023). Nothing is drawn at
        a boundary: where scores are equal, or the likeliest value alone has more than the level,
        more is covered.

        Of all missing entries a share of at least ``confidence_level`` is covered on average,
        whatever the distribution of the entries and however bad the model, if entries are
        observed independently with these probabilities; where these are estimated, up to the
        error of the estimate. A good model makes the intervals short.

        Parameters
        ----------
        confidence_level : float, default 0.9
        missingness : "uniform", "rank1", "bernoulli" or array
            How the probabilities of being missing are found: one for all cells; a number for the
            row times one for the column; logistic with effects of rows and columns and two
            factors, by a posterior of which cells are observed (it writes out all cells); or the
            probabilities themselves, strictly between 0 and 1, (rows x columns) or what numpy
            spreads over that. Of several blocks perhaps a dict from block name to one of these.
        by : "block", "column" or a label for each column of the block
            For which entries together the level holds; perhaps a dict from block name. The fewer
            they are, the longer the intervals; where there are too few, these are infinite, and
            sets have every value.
        share : float, default 0.2
            The share of the observed entries that is held out.
        random_state : int or None, default 0
            Draws these.

        Returns
        -------
        ConformalPredictions
            With ``interval`` for numbers, counts and levels, and ``set`` for labels, levels and
            classes, which are called as those of the posterior.

        Raises
        ------
        ModelError, DataError
            Where an argument is none of these, or a block has fewer than two observed entries.

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

"""The answer of ``mc.posterior``: means, intervals, sets and draws of new observations."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import attrs
import numpy as np
from numpy.typing import ArrayLike

from mcframe.contracts.arrays import Array, InFormOfData, IntArray, Pairs, Positions, is_interval
from mcframe.contracts.endings import Status
from mcframe.contracts.errors import (
    DataError,
    ModelError,
    NoSuchAnswer,
    NotConvergedWarning,
    warn_caller,
)
from mcframe.contracts.former import POSTERIOR
from mcframe.contracts.likelihood import has_probabilities
from mcframe.contracts.limits import BATCH_ENTRIES
from mcframe.contracts.row_groups import GroupMembers
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import row_groups_of
from mcframe.contracts.validators import (
    Options,
    RandomState,
    suggest_options,
    without_former_options,
)
from mcframe.fitting.base_answer import BlockAnswer
from mcframe.fitting.new_rows import table_without_entries, tables_of_new_rows
from mcframe.fitting.prediction import Cells, checked_places, table_of_values
from mcframe.model import Model, Problem
from mcframe.model.table import Table
from mcframe.posterior.attributes import stored_attributes
from mcframe.posterior.chain_diagnostics import SamplerDiagnostics
from mcframe.posterior.conformal import (
    ConformalPredictions,
    Groups,
    Missingness,
    conformal_predictions,
)
from mcframe.posterior.conformal_rows import JointPredictions, joint_predictions
from mcframe.posterior.engine import Engine
from mcframe.posterior.estimation import PosteriorOptions, Sweep, estimate
from mcframe.posterior.observed import Observed
from mcframe.posterior.predictive import (
    Predictive,
    as_distribution,
    noise_of,
    predictive_at,
    smallest_sets_on_average,
)
from mcframe.posterior.principal_axes import Factors, factors_of

if TYPE_CHECKING:  # what the pictures are; nothing of them is needed to run
    from mcframe.plots.of_answers import PosteriorPictures

PredictiveFunction = Callable[[Predictive], Array]
# What an interval or a deviation is of: a new observation, its mean given z, or z.
Quantity = Literal["observation", "mean", "predictor"]


@stored(former_fields=("evidence",))
@attrs.frozen(eq=False, repr=False)
class Posterior(BlockAnswer["PosteriorPictures"]):
    """The distribution of all entries given the observed ones.

    Attributes
    ----------
    problem : Problem
        The model with its data.
    engine : Engine
        The distributions of z after the last sweep.
    status : str
        "converged", "iteration_limit", "time_limit" or "interrupted", a ``Status``, which equals
        its text.
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

    engine: Engine
    status: Status = attrs.field(converter=Status)
    message: str
    history: tuple[Sweep, ...]
    random_state: int
    options: PosteriorOptions
    tables: Mapping[str, Table]

    @property
    def _tables(self) -> Mapping[str, Table]:
        return self.tables

    @property
    def evidence(self) -> float:
        """A lower bound on the log evidence of the data, with all constants.

        It never falls from one sweep to the next. Standardised blocks count in standard units. Of
        two models of the same data the one with the larger bound is preferred. Numbers of
        components of a mixture of Gaussian rows are not compared by it: too many often have a
        slightly larger bound.

        Raises
        ------
        ModelError
            By the sampler, whose draws say nothing of the evidence: compare models by
            ``mc.compare``, whose log densities of held-out entries need none, or by the evidence
            of the variational posterior. It is an ``AttributeError``, too.
        """
        if self.diagnostics is not None:
            raise NoSuchAnswer(
                "draws of the sampler have no evidence; compare models by the held-out densities"
                " of mc.compare(models, data, method='sampler'), or take the evidence of"
                " method='variational'"
            )
        return self.engine.evidence

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the data, and on what the variances leave out."""
        return (*self.problem.notes, *self.engine.notes)

    @overload
    def sd(self, block: str, *, of: Quantity = "observation") -> InFormOfData: ...
    @overload
    def sd(
        self, block: str, rows: ArrayLike, columns: ArrayLike, *, of: Quantity = "observation"
    ) -> Array: ...
    @overload
    def sd(
        self, block: str, *, pairs: Pairs, unknown: str = "refuse", of: Quantity = "observation"
    ) -> Array: ...
    def sd(
        self,
        block: str,
        rows: Positions = None,
        columns: Positions = None,
        *,
        pairs: Pairs = None,
        unknown: str = "refuse",
        of: Quantity = "observation",
    ) -> InFormOfData:
        """The standard deviation of a new observation with its noise; for classes of indicators.

        In the shape of ``predict``, for every entry or at positions; at ``pairs`` of labels in the
        shape of ``predict_pairs``.

        Parameters
        ----------
        block : str
        rows, columns : as in ``predict``
        pairs, unknown : as in ``predict_pairs``
            Labels in the place of positions.
        of : "observation", "mean" or "predictor", default "observation"
            As in ``interval``.

        Examples
        --------
        >>> import mcframe as mc
        >>> users, films = ["ann", "ann", "bob", "bob"], ["Up", "Jaws", "Up", "Alien"]
        >>> triples = mc.from_triples(row=users, column=films, value=[5, 1, 4, 2])
        >>> model = mc.Model([mc.Block("stars", mc.Gaussian(), bias=True)], [mc.NuclearNorm()])
        >>> posterior = mc.posterior(model, {"stars": triples})
        >>> lower, upper = posterior.interval("stars", 0.9, pairs=[("bob", "Jaws")])
        >>> bool(upper[0] - lower[0] > posterior.sd("stars", pairs=[("bob", "Jaws")])[0])
        True
        """
        if Options.quantity(of) == "predictor" and self.model.block(block).likelihood.width > 1:
            raise ModelError(
                f"block {block!r}: classes have a predictor each, whose deviations say little by"
                " themselves; take of='mean', the deviations of their probabilities"
            )
        functions: dict[str, PredictiveFunction] = {
            "observation": lambda part: part.sd(),
            "mean": lambda part: part.sd_of_mean(),
            "predictor": lambda part: part.predictor.sd(),
        }
        cells = self._cells(block, rows, columns, pairs, unknown)
        return cells.form(self._evaluated(cells, block, functions[of]))

    @overload
    def interval(
        self, block: str, level: float = 0.9, *, of: Quantity = "observation"
    ) -> tuple[InFormOfData, InFormOfData]: ...
    @overload
    def interval(
        self,
        block: str,
        level: float = 0.9,
        *,
        rows: ArrayLike,
        columns: ArrayLike,
        of: Quantity = "observation",
    ) -> tuple[Array, Array]: ...
    @overload
    def interval(
        self,
        block: str,
        level: float,
        rows: ArrayLike,
        columns: ArrayLike,
        *,
        of: Quantity = "observation",
    ) -> tuple[Array, Array]: ...
    @overload
    def interval(
        self,
        block: str,
        level: float = 0.9,
        *,
        pairs: Pairs,
        unknown: str = "refuse",
        of: Quantity = "observation",
    ) -> tuple[Array, Array]: ...
    def interval(
        self,
        block: str,
        level: float = 0.9,
        rows: Positions = None,
        columns: Positions = None,
        *,
        pairs: Pairs = None,
        unknown: str = "refuse",
        of: Quantity = "observation",
    ) -> tuple[InFormOfData, InFormOfData]:
        """Lower and upper bounds between which a new observation lies with this probability.

        The quantiles (1 - level) / 2 and (1 + level) / 2, each in the shape of ``predict``; at
        ``pairs`` of labels as in ``sd``. Counts and levels are whole numbers, so their intervals
        have at least this probability; one end then moves in as far as it can. With ``bounds`` of
        the block no end lies beyond them.

        Parameters
        ----------
        block : str
        level : float, default 0.9
            Strictly between 0 and 1.
        rows, columns : as in ``predict``
        pairs, unknown : as in ``predict_pairs``
            Labels in the place of positions.
        of : "observation", "mean" or "predictor", default "observation"
            "observation": a new one, its noise included. "mean": E[y | z], the mean of such
            observations at the cell, without their noise: for labels the probability of 1, for
            levels the mean level. "predictor": z with its effects and offset, of labels the
            logarithm of the odds, of counts that of the mean; of a location, such as a
            ``Gaussian``, it is the mean, in the units of the data. Noise that is part of
            predictors of counts and durations belongs to z.

        Raises
        ------
        ModelError
            If the block has classes, which have no order: use ``set``. If ``of`` is another word.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> x = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0, 4.0])
        >>> x[0, 3] = np.nan
        >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=0.01))], [mc.NuclearNorm()])
        >>> lower, upper = mc.posterior(model, {"x": x}).interval("x", 0.9)
        >>> bool(lower[0, 3] < 4.0 < upper[0, 3])
        True

        The interval of a probability, and of its log odds:

        >>> model = mc.Model([mc.Block("y", mc.Bernoulli(), bias=True)], [mc.NuclearNorm(1.0)])
        >>> posterior = mc.posterior(model, {"y": np.where(np.isnan(x), x, x > 8.0)})
        >>> cell = {"rows": [0], "columns": [3]}
        >>> p, z = (posterior.interval("y", 0.9, **cell, of=of) for of in ("mean", "predictor"))
        >>> bool(np.allclose(p, 1.0 / (1.0 + np.exp(-np.array(z)))))
        True
        """
        if self.model.block(block).likelihood.width > 1:
            raise ModelError(
                f"block {block!r}: classes have no order and no interval; take"
                f" posterior.set({block!r}, {level!r})"
            )
        level = Options.level(level)
        functions: dict[str, PredictiveFunction] = {
            "observation": lambda part: part.interval(level),
            "mean": lambda part: part.interval_of_mean(level),
            "predictor": lambda part: part.predictor.interval(level),
        }
        function = functions[Options.quantity(of)]
        cells = self._cells(block, rows, columns, pairs, unknown)
        ends = self._evaluated(cells, block, function).reshape(-1, 2)
        if of != "predictor":
            ends = self.model.block(block).limited(ends)
        return cells.form(ends[:, 0]), cells.form(ends[:, 1])

    def set(
        self,
        block: str,
        level: float = 0.9,
        rows: Positions = None,
        columns: Positions = None,
        *,
        on_average: bool = False,
        pairs: Pairs = None,
    ) -> Array:
        """The smallest sets of labels, levels or classes with at least this probability.

        A set that has a level of .9 for each entry holds both labels unless one has a probability
        of .9, so more than nine in ten sets hold the true one. With ``on_average`` the sets of the
        entries that are asked for have this probability on average (Sadinle, Lei and Wasserman,
        Least ambiguous set-valued classifiers, 2019): they are smaller, and a set of one entry
        depends on the others that are asked for. Each has at least the most probable value.

        Returns
        -------
        array of bool (rows x columns x V), or (N x V) with ``rows`` and ``columns`` or ``pairs``
            True where a value is in the set. For labels V = 2 and the values are 0 and 1; for
            levels and classes they are all values in their order.
        """
        level = Options.level(level)
        if Options.on_average(on_average):
            probabilities = self.probabilities(block, rows, columns, pairs=pairs)
            return smallest_sets_on_average(probabilities, level)
        cells = self._cells(block, rows, columns, pairs)
        return cells.array(self._evaluated(cells, block, lambda part: part.smallest_sets(level)))

    def probabilities(
        self,
        block: str,
        rows: Positions = None,
        columns: Positions = None,
        *,
        pairs: Pairs = None,
        unknown: str = "refuse",
    ) -> Array:
        """The probability of each label, level or class, in the shape of ``set``.

        ``pairs`` and ``unknown`` as in ``sd``.
        """
        cells = self._cells(block, rows, columns, pairs, unknown)
        return cells.array(self._evaluated(cells, block, lambda part: part.probabilities()[1]))

    def expected(
        self,
        block: str,
        function: Callable[[Array], Array],
        rows: Positions = None,
        columns: Positions = None,
    ) -> InFormOfData:
        """E[f(y)] of new observations y of a location, by quadrature.

        Parameters
        ----------
        block : str
            With a likelihood of a location, such as ``Gaussian``.
        function : callable
            From values in the units of the data (..., N), whose last axis are the cells, to
            numbers of that shape.
        rows, columns : as in ``predict``

        Returns
        -------
        In the shape of ``predict``.

        Raises
        ------
        ModelError
            If the block has no likelihood of a location.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> model = mc.Model([mc.Block("logs", mc.Gaussian(), bias=True)], [mc.NuclearNorm()])
        >>> posterior = mc.posterior(model, {"logs": np.array([[1.0, 2.0], [2.0, np.nan]])})
        >>> mean, sd = (answer("logs", [1], [1]) for answer in (posterior.predict, posterior.sd))
        >>> lognormal = np.exp(mean + 0.5 * sd**2)
        >>> bool(np.allclose(posterior.expected("logs", np.exp, [1], [1]), lognormal, rtol=1e-3))
        True
        """
        likelihood = self.model.block(block).likelihood
        if not likelihood.location:
            raise ModelError(
                f"block {block!r}: {type(likelihood).__name__} is no likelihood of a location;"
                " ask for its mean, its probabilities or draws"
            )
        cells = self._cells(block, rows, columns)

        def expectation(part: Predictive) -> Array:
            return part.expected_of_observations(lambda y: function(part.to_data_units(y)))

        return cells.form(self._evaluated(cells, block, expectation))

    def log_predictive_density(
        self, block: str, rows: Positions, columns: Positions, values: ArrayLike
    ) -> Array:
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
        cells = self._cells(block, rows, columns)
        row, column = cells.rows, cells.columns
        table = table_of_values(self.model.block(block), self.tables[block], row, column, values)
        batches = np.split(table.observations, range(self._batch, row.size, self._batch))
        pairs = zip(self._predictives(block, row, column), batches, strict=False)
        densities = [predictive.log_density(batch) for predictive, batch in pairs]
        log_densities = np.concatenate([np.zeros(0), *densities])
        places = table.rows, table.columns
        numbers = table.units.invert(table.values, *places)
        slopes = table.units.log_derivative(numbers, *places)
        slopes = np.where(
            is_interval(table.observations), 0.0, slopes
        )  # a probability has no unit
        return np.asarray(log_densities + slopes)

    def sample(self, block: str, m: int, rows: Positions = None) -> Array:
        """m draws of new observations of a block, (m x rows x columns), for all rows or for some.

        Rows are drawn jointly, so a statistic computed from each draw has the right spread. The
        factors of the columns, or mean and covariance of Gaussian rows, are drawn once for all
        rows of a draw, and draw k of one block belongs to draw k of every other one. Of Gaussian
        rows of wide tables mean and covariance are the same in all draws.
        """
        self.model.block(block)  # which names the blocks there are
        table, width = self.tables[block], self.model.block(block).likelihood.width
        n_rows, n_columns = table.shape
        m = Options.m(m)
        chosen = np.arange(n_rows) if rows is None else np.asarray(rows)
        checked_places(block, table.shape, chosen, np.zeros(chosen.size, dtype=int))
        if not chosen.size:
            return np.zeros((m, 0, n_columns))
        # The same z for every block, and noise of its own.
        z = self.engine.draws(chosen, np.random.default_rng((self.random_state, m)), m)
        z = z[:, :, self.problem.columns(block)]
        block_number = [declared.name for declared in self.model.blocks].index(block)
        # The numbers from 1 on, since z had the generator without one.
        rng = np.random.default_rng((self.random_state, m, block_number + 1))
        z = z.reshape(m * chosen.size, -1)
        cells = np.tile(np.repeat(chosen, n_columns), m), np.tile(np.arange(n_columns), z.shape[0])
        noise = noise_of(self.engine, self.problem, block, np.arange(n_columns))
        z = z.reshape(-1, width) if width > 1 else z.ravel()
        if noise is not None:
            of_draws = np.broadcast_to(noise, (self.engine.n_draws, n_columns))
            by_draw = of_draws[self.engine.draw_numbers(m)]
            by_cell = np.broadcast_to(by_draw[:, None], (m, chosen.size, n_columns))
            z = z + np.sqrt(by_cell.ravel()) * rng.standard_normal(z.shape)
        z = table.pending.invert(z, *self.problem.latent_places(block, *cells))
        drawn = z if noise is not None else self._observations(block, z, m, rng)
        drawn = table.applied.invert(drawn, *cells)
        limited = self.model.block(block).limited(np.asarray(drawn))
        return np.asarray(limited).reshape(m, chosen.size, n_columns)

    def _observations(self, block: str, z: Array, m: int, rng: np.random.Generator) -> Array:
        """Draws of new observations at predictors of m draws, one after the other."""
        likelihoods = [as_distribution(one) for one in self.engine.likelihoods(block)]
        if len(likelihoods) == 1:
            return np.asarray(likelihoods[0].sample(z, rng))
        parts = zip(self.engine.draw_numbers(m), np.split(z, m), strict=True)
        return np.concatenate([likelihoods[number].sample(part, rng) for number, part in parts])

    def impute(self, block: str) -> InFormOfData:
        """The block with observed entries kept and missing ones filled.

        Numbers and counts are filled with their mean; labels, levels and classes with the most
        probable value.
        """
        declared = self.model.block(block)
        table = self.tables[block].observed_entries()

        def filling(predictive: Predictive) -> Array:
            if not has_probabilities(predictive.likelihood):
                return np.asarray(declared.limited(predictive.mean()))
            values, probabilities = predictive.probabilities()
            return values[np.argmax(probabilities, axis=1)]

        return table.filled_with(self._evaluated(self._cells(block, None, None), block, filling))

    def condition(
        self,
        data: Mapping[str, object],
        *,
        groups: Any = None,
        times: Any = None,
        row_attributes: Any = None,
    ) -> "Posterior":
        """The posterior of new rows given their data, with columns and priors unchanged.

        ``predict``, ``interval``, ``sample`` and the other methods then apply to the new rows.

        Parameters
        ----------
        data : dict from block name to array, DataFrame, ... as in ``mc.posterior``
            Some or all blocks, with the columns of the fit. NaN is missing.
        groups : sequence with a label for each row, optional
            Where the rows of the fit have groups (``GaussianRows(groups=...)``). A label of the
            fit is that group, any other a new one. By default each row is a new group.
        times : sequence with a number for each row, optional
            Where the means of these groups move in time (``GaussianRows(trend=...)``). By
            default rows are at any time of those of the fit.
        row_attributes : array, DataFrame, scipy.sparse matrix, or dict of such, optional
            Of the new rows, where ``mc.posterior`` had ``row_attributes``; sets of observed cells
            are those of the new data. A row without data is predicted from its attributes.

        Raises
        ------
        DataError
            If the new data or attributes do not fit the model.
        ModelError
            If groups or times are given and the rows of the fit have none.
        """
        if row_attributes is not None and self.options.get("row_attributes") is None:
            raise DataError(
                "row_attributes of new rows were given, and the posterior was made without any;"
                " drop them, or estimate the posterior with those of its rows"
            )
        new_tables = tables_of_new_rows(self.problem, data)
        first, tables = next(iter(new_tables.values())), {}
        for name, fitted in self.tables.items():
            table = (
                new_tables[name]
                if name in new_tables
                else table_without_entries(self.problem, name, first.shape[0])
            )
            names = table.names if fitted.names is None else fitted.names
            tables[name] = attrs.evolve(table, names=names, index=first.index)
        entries = Observed.of_tables(self.problem, tables)
        observed = entries.with_summaries(self.engine.observed.summaries)
        engine = self.engine.with_row_attributes(row_attributes, observed)
        members = members_of_new_rows(self.problem, groups, times, first.shape[0])
        return attrs.evolve(self, engine=engine.condition(observed, members), tables=tables)

    def predict_rows(
        self, block: str, data: Mapping[str, object], *, row_attributes: Any = None
    ) -> InFormOfData:
        """E[y] of a block for new rows: ``condition(data).predict(block)``."""
        self.model.block(block)
        return self.condition(data, row_attributes=row_attributes).predict(block)

    def noise(self, block: str) -> InFormOfData:
        """The noise variance of each column of a Gaussian block, in squared units of the data.

        A Series if the data were a DataFrame. For a block standardised by ranks it is in units of
        the ranks.
        """
        word = type(self.model.block(block).likelihood).__name__
        columns = np.arange(self.tables[block].shape[1])
        noise = noise_of(self.engine, self.problem, block, columns)
        if noise is None:
            raise ModelError(f"block {block!r}: {word} has no noise variance; a Gaussian has")
        unit = self.tables[block].units.unit(columns)
        mean = np.mean(np.atleast_2d(noise), axis=0)
        return self.tables[block].wrap_row(mean * np.square(1.0 if unit is None else unit))

    @property
    def diagnostics(self) -> SamplerDiagnostics | None:
        """R-hat, effective draws and Monte Carlo errors of the sampler; None without one."""
        return self.engine.diagnostics

    def factors(self) -> Factors:
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
            If the rows are a mixture of Gaussians, or new rows, or the posterior has draws.

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
        return factors_of(self.engine, self.problem, self.tables)

    def conformalize(
        self,
        confidence_level: float = 0.9,
        missingness: Missingness = "uniform",
        *,
        by: Groups = "block",
        share: float = 0.2,
        folds: int | str = "auto",
        random_state: RandomState = 0,
        progress: bool | None = None,
    ) -> ConformalPredictions:
        """Intervals and sets that are valid for a wrong model, by conformal prediction.

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

        With one fold a share of the entries is held out, as described, and all others are what
        intervals are made from (split conformal prediction). With more, every observed entry has a
        score by the posterior without its fold, and the ends of an interval are quantiles of mean
        plus and mean minus sd times score, with the mean and the sd at the cell by the posterior
        without the fold of that score (CV+; Barber, Candes, Ramdas and Tibshirani, Predictive
        inference with the jackknife+, Annals of Statistics 2021). A value is in a set if fewer
        than the level of all entries have a smaller score than it has without their fold. What
        holds for every distribution is then coverage of at least twice the level less 1, up to
        about the square root of 2 over the number of entries, which is .8 at the level .9; in
        practice it is about the level. All entries count, so that groups may be five times
        smaller: at the level .9 nine entries give finite intervals.

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
            The share of the observed entries that is held out, with one fold.
        folds : int or "auto", default "auto"
            One, or the number of parts of the observed entries that are held out in turn, each
            with a posterior of its own. "auto" is one where each group has enough entries for
            finite intervals in the share, and 10 elsewhere.
        random_state : int, generator of numpy or None, default 0
            The seed of the held-out entries.
        progress : bool, optional
            As in ``mc.posterior``.

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
        return conformal_predictions(
            *(self, posterior_of, confidence_level, missingness, by, share, folds),
            random_state,
            progress,
        )

    def conformalize_jointly(
        self,
        confidence_level: float = 0.9,
        missingness: Missingness = "uniform",
        *,
        groups: str = "mask",
        folds: int | str = "auto",
        random_state: RandomState = 0,
        progress: bool | None = None,
    ) -> JointPredictions:
        """Intervals and sets that hold for all missing entries of a row at once.

        ``conformalize`` covers a share of all entries. Here all missing entries of a row, of all
        blocks, lie in their intervals and sets with the probability ``confidence_level``,
        whichever they are: rows with many gaps are covered as often as those with few.

        Rows are held out in folds, and the posterior of the others is conditioned on what is
        observed of them. For a row whose entries G are missing, the entries G are hidden in each
        other row that has all of them, beside its own gaps, before they are predicted (missing
        data augmentation; Zaffran, Dieuleveut, Josse and Romano, Conformal prediction with missing
        values, ICML 2023). The score of such a row is the largest |y - mean| / sd of its hidden
        entries. A label, level or class counts as the quantile of |N(0, 1)| at the level from
        which on the smallest set of the posterior contains it. The intervals of the row are mean
        plus and minus sd times a quantile of the scores, its sets the values up to that quantile.

        **What holds.** Assumed are rows that are exchangeable, and gaps that depend on no value,
        or only through the probabilities ``missingness``, with which entries are missing
        independently of each other. Scores are then weighted by the probability of the gaps of
        the row that is predicted, over that of having a score (Tibshirani, Barber, Candes and
        Ramdas, Conformal prediction under covariate shift, 2019): the product of the odds of the
        hidden entries times the probability that all others are observed. With two folds a row is
        compared with rows of its fold, by the posterior of the other one. If those have no further
        gaps, all missing entries of the row are covered with at least the probability
        ``confidence_level``, given its mask, for every distribution and every model. Rows with
        further gaps are predicted from less than the row itself; the level holds if standardised
        errors do not become smaller by that, and it is about the level where deviations of the
        posterior are about right. With more than two folds the posterior that compares two rows is
        without the folds of both, and all rows count; what is proved is then twice the level less
        1 (as of the jackknife+: Barber, Candes, Ramdas and Tibshirani, 2021), and in practice it
        is about the level.

        Parameters
        ----------
        confidence_level : float, default 0.9
            Of n rows that can stand for a row, ``n / (n + 1)`` at most: intervals are infinite and
            sets have every value where fewer than 9 rows have the same entries observed, at the
            level .9. A warning then says of how many rows.
        missingness : "uniform" or array, default "uniform"
            The probabilities of being missing, (rows x columns) or any shape that NumPy broadcasts
            to it; a dict from block name to these for several blocks.
        groups : "mask" or "size", default "mask"
            The entries that are hidden in other rows: those of the same columns, or as many
            entries drawn at random from the observed ones of each row (Liang, Zhou and Sesia,
            Structured conformal inference for matrix completion, 2024). With "size" many more rows
            can stand for a row. The level then holds given the number of gaps of a row, on average
            over the masks with this number, which are taken to be equally likely or as
            ``missingness`` says.
        folds : int or "auto", default "auto"
            The number of parts of the rows, at least 2. "auto" is two, which take two posteriors,
            or five, which take 15, if some rows have finite intervals by these alone.
        random_state : int, generator of numpy or None, default 0
            The seed of folds and of drawn groups.
        progress : bool, optional
            As in ``mc.posterior``.

        Returns
        -------
        JointPredictions
            With ``interval`` for numbers and counts, and ``set`` for labels, levels and classes.

        Raises
        ------
        ModelError, DataError
            If an argument is none of these, or there is one row alone.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((200, 1)) + rng.standard_normal((200, 4))
        >>> x = truth.copy()
        >>> x[:60, :2] = np.nan
        >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=None))], [mc.GaussianRows()])
        >>> intervals = mc.posterior(model, {"x": x}).conformalize_jointly(0.8)
        >>> lower, upper = intervals.interval("x")
        >>> covered = np.all((lower <= truth) & (truth <= upper), axis=1)
        >>> bool(np.mean(covered[:60]) > 0.6)
        True
        """
        if any(name in self.options for name in ("row_attributes", "column_attributes")):
            raise ModelError(
                "rows are held out for joint intervals, and their attributes are not; take"
                " conformalize(), or a posterior without attributes"
            )
        return joint_predictions(
            *(self, posterior_of, confidence_level, missingness, groups, folds, random_state),
            progress,
        )

    @property
    def _batch(self) -> int:
        """The number of cells whose distributions are computed at a time."""
        return max(BATCH_ENTRIES // self.engine.n_draws, 1)

    def _predictives(self, block: str, rows: IntArray, columns: IntArray) -> Iterator[Predictive]:
        """The predictive distributions at cells, some of them at a time."""
        for start in range(0, rows.size, self._batch):
            batch = slice(start, start + self._batch)
            cells = rows[batch], columns[batch]
            yield predictive_at(self.engine, self.problem, block, *cells, self.tables[block])

    def _evaluated(self, cells: Cells, block: str, function: PredictiveFunction) -> Array:
        """A function of the predictive distributions at cells (n, ...)."""
        answers = [function(part) for part in self._predictives(block, cells.rows, cells.columns)]
        if not answers and all(cells.table.shape):  # dtype and shape are those at any cell
            first = np.zeros(1, dtype=np.intp)
            answers = [function(part)[:0] for part in self._predictives(block, first, first)]
        return np.concatenate(answers) if answers else np.zeros(0)

    def _means_at(self, block: str, rows: Positions, columns: Positions) -> Array:
        return self._evaluated(self._cells(block, rows, columns), block, lambda part: part.mean())

    def _means(self, block: str) -> InFormOfData:
        cells = self._cells(block, None, None)
        means = self._evaluated(cells, block, lambda part: part.mean())
        return cells.form(self.model.block(block).limited(means))

    def _deviations(self, block: str, rows: IntArray, columns: IntArray) -> tuple[Array, ...]:
        return (self.sd(block, rows, columns),)

    def _facts(self) -> dict[str, str]:
        """The evidence, what was estimated, and the sweeps, as text."""
        last, (estimated, number) = self.history[-1], str(self.engine).split(maxsplit=1)
        if self.diagnostics is not None:
            sweeps = f"{self.diagnostics.n_sweeps} of {self.diagnostics.n_chains} chains"
            return {estimated: number, **self.engine.attributes, "sweeps": sweeps}
        return {
            "evidence": f"{self.evidence:.9g} (a lower bound on its logarithm)",
            estimated: number,
            **self.engine.attributes,
            "sweeps": f"{last.iteration}, {last.seconds:.2f} s",
        }


suggest_options(Posterior, methods=True)


def rounded_interval(
    posterior: Posterior,
    block: str,
    level: float,
    rounded: Callable[[Array], Array],
    edges: Callable[[Array], Array],
    rows: IntArray,
    columns: IntArray,
) -> tuple[Array, Array]:
    """The ends of intervals of the whole numbers that new observations are rounded to.

    ``rounded`` and ``edges`` are as ``Predictive.rounded_interval`` has them, in the units of the
    data; likelihoods of whole numbers have the intervals of ``Posterior.interval``.
    """
    if posterior.model.block(block).likelihood.whole:
        return posterior.interval(block, level, rows, columns)
    level = Options.level(level)
    ends = posterior._evaluated(
        posterior._cells(block, rows, columns),
        block,
        lambda part: part.rounded_interval(level, rounded, edges),
    ).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


def members_of_new_rows(
    problem: Problem, groups: Any, times: Any, n_rows: int
) -> GroupMembers | None:
    """The group of each new row, by its label, and its time; None where no groups are given."""
    of_fit = row_groups_of(problem.terms)
    if groups is not None and of_fit is None:
        raise ModelError("groups were given, and the rows of the fit have none; drop groups=")
    if times is not None and (groups is None or of_fit is None or of_fit.trend is None):
        raise ModelError(
            "times were given without groups that move in time; give groups= as well, or drop"
            " times="
        )
    if groups is None or of_fit is None:
        return None
    return of_fit.of_new_rows(groups, times, n_rows)


def posterior_of(
    model: Model, data: Any, seed: int, options: PosteriorOptions, **run_options: Any
) -> Posterior:
    """The posterior of a model, given the arguments of ``mc.posterior``.

    ``options`` become those of the answer; ``run_options`` are checkpoint and progress.
    """
    ascent = estimate(model, data, seed, options, **run_options)
    assert ascent.ending is not None
    assert ascent.problem is not None
    assert ascent.engine is not None
    return Posterior(
        problem=ascent.problem,
        engine=ascent.engine,
        status=ascent.ending.status,
        message=ascent.ending.message,
        history=tuple(ascent.history),
        random_state=seed,
        options=options,
        tables=ascent.problem.tables,
    )


@without_former_options(POSTERIOR)
def posterior(
    model: Model,
    data: Any,
    *,
    method: str = "variational",
    factors: int | str = "auto",
    tol: float | None = None,
    max_iter: int | None = None,
    max_seconds: float = np.inf,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    row_attributes: Any = None,
    column_attributes: Any = None,
) -> Posterior:
    """Compute the posterior of a model: likely values given the data, with their uncertainty.

    The losses of the model are negative log likelihoods, and its regularizer is the negative
    logarithm of a prior density:

    - ``NuclearNorm(w)`` is the mode of Gaussian factors, since ``||Z||_*`` is the minimum of
      ``(||U||_F^2 + ||V||_F^2) / 2`` over Z = U V'. The posterior is over U and V, with precisions
      1 and w^2. A w below 1e-6 divided by the root mean square of the values counts as that, the
      limit of double precision. ``NuclearNorm()`` without a weight learns one precision for each
      factor, which removes useless factors.
    - ``GaussianRows(covariance, mean)`` has rows that are draws from this Gaussian. Their
      posterior is exact for Gaussian blocks. ``GaussianRows()`` estimates mean and covariance.
      ``GaussianRows(components="auto")`` estimates those of a mixture, and the number of its
      components.

    ``Gaussian(variance=None)`` learns a noise variance for each column. With ``GaussianRows`` it
    is a thousandth of the variance of the column's values, since a full covariance leaves no
    other noise: at observed cells, intervals are then those of the cell's own value, not of a
    second measurement. Biases and row effects are Gaussian,
    with the precision ``effects_weight`` or a learned one.

    Parameters
    ----------
    model : Model
    data : dict from block name to array, DataFrame, scipy.sparse matrix or Observations
        As in ``mc.fit``. Weights multiply log likelihoods; they divide a learned variance. Offsets
        are known. With ``NuclearNorm`` data may also be in partitions of rows, on disk or
        elsewhere, or be collections of Dask, so that no process holds all rows; who computes, and
        where temporary files are, is as in ``mc.fit``.
    method : "variational", "sampler" or "auto", default "variational"
        "variational" is fast; its deviations of z are about right in small tables and too small in
        others. "sampler" draws from the exact posterior of factors, or of Gaussian rows, by Markov
        chain Monte Carlo, from where the variational one ends: precisions, noise variances, means
        and covariances of rows, and thresholds are drawn, too, so that intervals hold what they
        say. Eight chains run side by side, four where there are more than 50,000 entries, so that
        each is longer in the same time. It needs all rows in this process, and with
        ``GaussianRows()`` not too many columns for these. Its ``diagnostics`` say how far it can
        be trusted. "auto" takes the sampler where it is expected to take seconds, up to 15 (a
        hundred rows of ten columns), and keeps its draws if the chains agree (R-hat is 1.05 at
        most after 6,000 sweeps); else it takes the variational posterior. The ``message`` says
        which, and why.
    factors : "auto" or int, default "auto"
        The largest number of factors. "auto" is 24, or the length of the shorter side if that is
        less. An error with ``GaussianRows``, which has no factors. With more than half as many as
        columns, learned noise and intervals at observed cells are too small if the sweeps end
        early: see ``tol``.
    tol : float, optional
        Stop after a sweep that raises the bound on the log evidence by less than this for each
        entry. The default is 1e-3 for factors; a smaller value finds more evidence with fewer
        factors, and on ratings it predicts less well (see the guide). It is 1e-5 for
        ``GaussianRows``, whose sweeps are smaller steps, and in tables of at most 50,000 entries
        where factors may be more than half as many as rows or columns; with thousands of rows the
        noise needs 1e-6 and hundreds of sweeps. Of the sampler it is the largest Monte Carlo error
        of the mean of a watched number, in posterior standard deviations: .05 by default, which
        takes 400 effective draws.
    max_iter : int, optional
        The largest number of sweeps: 500 by default, 20,000 of the sampler. The steps that
        estimate ``GaussianRows()`` are not sweeps; each estimate makes 100 at most.
    max_seconds : float, default inf
    random_state : int, generator of numpy or None, default 0
        The seed of the initial factors and of draws.
    n_jobs : int, optional
        The number of threads for the rows; -1 for one on each processor. The default is that of
        ``mc.fit``.
    progress : bool, optional
        As in ``mc.fit``: the evidence, the number of factors, and an estimate of the time that
        remains.
    checkpoint : str or Path, optional
        With ``NuclearNorm``: a file for columns and priors, written after a sweep, at least every
        half minute. If it exists already, for the same model, data, factors and seed, the sweeps
        continue from there. Bounds of likelihoods that are not Gaussian are then computed again.
    row_attributes, column_attributes : array, DataFrame, scipy.sparse matrix or dict, optional
        With ``NuclearNorm``: what is known of rows (rows x p) or of columns of Z (columns x p),
        those of all blocks in their order. Factors and effects of rows have prior means ``F A``
        with the attributes F and Gaussian coefficients A, and so have factors and biases of
        columns (biases only where all blocks have them); rows and columns without entries are
        predicted from them. "observed" is the set of columns that are observed in a row, with
        weights ``1 / sqrt(size)`` (the implicit set of SVD++), and for columns the set of rows. A
        dict has several groups, by names; each group has a variance of coefficients of its own,
        which is learned. Numbers of arrays and frames count in standard units, and a gap as the
        mean; those of sparse matrices as they are. ``condition`` takes attributes of new rows.
        Under the sampler coefficients are drawn, and the scales of groups. Of rows in partitions
        row attributes may be partitions, too, whose blocks are groups, with a gap where no number
        is stored; "observed" is not taken then. Not with a checkpoint.

    Returns
    -------
    Posterior
        With means, standard deviations, intervals, sets, draws, and the evidence. Its ``status``
        is "converged", or another one and a ``NotConvergedWarning``: "iteration_limit",
        "time_limit", or "interrupted" by Ctrl-C.

    Raises
    ------
    DataError
        If the data do not fit the model.
    ModelError
        If an option is wrong.
    BackendError
        If the model has no posterior; the message gives the reason.

    Notes
    -----
    The posterior of rows and columns is approximated by a product of Gaussians: variational Bayes
    (Lim and Teh, 2007; Raiko, Ilin and Karhunen, 2007). The logarithm of a likelihood that is not
    Gaussian is replaced by the best quadratic lower bound (Jaakkola and Jordan, 2000); counts and
    durations have a Gaussian for each entry. The lower bound on the evidence rises with every half
    sweep; a fall from one sweep to the next beyond rounding is an error. In large tables, where
    answers have rows and columns as independent, variances are too small;
    ``mc.verify_posterior`` measures by how much.

    Under a ``NuclearNorm`` the sweeps find the best product of a distribution of rows and one of
    columns. All answers (means, deviations, intervals, sets, draws) are then of one distribution,
    in which rows and columns depend on each other by linear response (Giordano, Broderick and
    Jordan, Covariances, robustness, and variational Bayes, JMLR 2018): their precision is the
    Hessian of the bound, and products of their deviations leave out rotations of the factors.
    Where they can, entries count by their expected log likelihoods in the place of bounds then
    (Opper and Archambeau, The variational Gaussian approximation revisited, Neural Computation
    2009), with the noise of columns, effects and thresholds of the sweeps; the evidence is that of
    the sweeps. Noise in predictors of counts and durations is integrated over, and its variance is
    the posterior mean; factors that sweeps have switched off begin anew, with learned precisions
    at the mode of the prior of the sampler. All of this is found when it is first asked for. With
    K factors and effects of each row it is found where ``columns K`` is at most 800 and ``rows K
    (columns K)^2`` at most 2e9, which takes some seconds (numbers in 1,000 rows and 100 columns
    with 5 factors: .2 s and 61 MB; labels: 2 s). Answers of larger tables are of the product and
    the bounds of the sweeps, and ``posterior.notes`` say so. The same holds of rows in
    partitions, which are read again for it in this process, one partition after the other.

    A sweep over N entries of n rows and d columns with k factors takes ``N k^2`` multiplications,
    four times as many if bounds are recomputed, and (n + d) k^3. A sweep of one chain of the
    sampler takes about a fifth of that time where observations are Gaussian, and one of all chains
    about half a millisecond at least; up to 1,000 draws of all rows and columns are kept, 50
    million numbers at most. Memory was some 50 bytes an entry beyond the data (ten million
    entries, ten factors); bounds take 32 N more. In partitions a sweep is one round, and each
    partition answers with d k^2 / 2 numbers, and with p attributes of rows in a second one, with
    ``p^2 k^2 / 4``. A hundred million entries on disk took 2.6 GB. Bounds that a process has lost
    are computed again.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> x = np.outer(rng.normal(size=50), rng.normal(size=20)) + 0.1 * rng.normal(size=(50, 20))
    >>> hidden, x[0, 0] = x[0, 0], np.nan
    >>> model = mc.Model([mc.Block("x", mc.Gaussian(variance=None))], [mc.NuclearNorm()])
    >>> posterior = mc.posterior(model, {"x": x})
    >>> lower, upper = posterior.interval("x", 0.99, rows=[0], columns=[0])
    >>> bool(lower[0] < hidden < upper[0])
    True
    """
    options = PosteriorOptions(
        method=Options.posterior_method(method),
        factors=factors,
        tol=tol,
        max_iter=max_iter,
        max_seconds=max_seconds,
        n_jobs=n_jobs,
    )
    options.update(stored_attributes(row_attributes, column_attributes))
    run_options = {"progress": progress, "checkpoint": checkpoint}
    answer = posterior_of(model, data, Options.random_state(random_state), options, **run_options)
    if answer.status is not Status.CONVERGED:
        last = f"the evidence after the last sweep is {answer.engine.evidence:.6g}"
        if answer.diagnostics is not None:
            last = " ".join(str(answer.engine).split())
        warn_caller(f"{answer.status}: {answer.message}; {last}", NotConvergedWarning)
    return answer

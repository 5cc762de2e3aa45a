"""The answer of every verb that solves: ``Fit``."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.answers_by_label import AnswersByLabel
from mcframe.backends import History, Outcome, Paused, Point, Rounding, relative_gap
from mcframe.backends.new_rows import RowSpace, refuse_rows
from mcframe.compile import notes_on_effects
from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.likelihood import Distribution, Likelihood
from mcframe.contracts.term import Sums
from mcframe.model import Model, Problem
from mcframe.model.table import Table
from mcframe.numerics.machine.memory import MEMORY_SHARE, physical_gigabytes
from mcframe.numerics.operators import LowRank
from mcframe.prediction import NewRows, refuse_swapped

__all__ = ["Fit"]

# How many arrays of the size of a block a whole answer takes at its peak.
WHOLE_ARRAYS = 3


@attrs.frozen(eq=False)
class Kept:
    """What a fit keeps of what its data said: the space of new rows, and the notes.

    ``space`` is None where the model leaves new rows no meaning.
    """

    space: RowSpace | None
    notes: tuple[str, ...]


@attrs.frozen(eq=False, repr=False)
class Fit(AnswersByLabel):
    """The answer: Z in factors, the free effects, and a certificate of how good they are.

    Attributes
    ----------
    status : str
        "certified" (gap <= tol), "limited_by_rounding" where double precision does not tell
        objective and bound apart any closer, "iteration_limit", "time_limit", "interrupted", or
        "local" for a loss that is declared not convex.
    message : str
        The status in a sentence.
    problem : Problem
        The model with its data, whose ``objective`` is the judge.
    effects : dict from block name to array
        The free numbers b of each block that has them, as ``Problem.objective`` takes them:
        biases of columns, effects of rows, an intercept, thresholds, in this order and counted
        from ``Problem.origins``. ``bias``, ``row_effects`` and ``likelihood`` give them apart and
        counted from 0.
    objective, bound : float
        The objective at (Z, b), by ``Problem.objective``; a rigorous lower bound on its
        minimum over all Z and b.
    rounding : Rounding
        How exactly both are known in double precision.
    backend : str
        The backend that ran; where "auto" changed it in mid-fit, which ``message`` says, the last.
    history : History
        One record for each time the certificate was computed.
    random_state : int
        The seed of all that was random.
    paused : Paused or None
        Where the solver stood, of the size of a few thin factors: ``fit(..., start=this)`` goes on
        from there. None in fits of paths and after a conic solver.
    kept : Kept or None
        Of a fit that ``compact`` made, or of rows in partitions: what the data said of new rows,
        and its notes.
    """

    problem: Problem
    point: Point
    effects: Mapping[str, Array]
    status: str
    message: str
    objective: float
    bound: float
    rounding: Rounding
    backend: str
    history: History
    random_state: int = 0
    paused: Paused | None = None
    kept: Kept | None = None

    @classmethod
    def of(cls, problem: Problem, outcome: Outcome, backend: str, random_state: int = 0) -> "Fit":
        """The way back from an outcome: its objective is the problem's own.

        A certificate that this objective and the bound deny is withdrawn.
        """
        fit = cls(
            problem=problem,
            point=outcome.point,
            effects=outcome.effects,
            status=outcome.status,
            message=outcome.message,
            objective=problem.objective(outcome.point.latent, outcome.effects),
            bound=outcome.bound,
            rounding=outcome.rounding,
            backend=backend,
            history=outcome.history,
            random_state=random_state,
            paused=outcome.paused,
        )
        if fit.status == "certified" and not fit.gap <= outcome.tol:
            status, message = fit.withdrawal(outcome.tol)
            fit = attrs.evolve(fit, status=status, message=message)
        return fit

    def withdrawal(self, tol: float) -> tuple[str, str]:
        """Status and message of a fit that a backend certified and whose own gap is too large.

        Where rounding explains the difference that is said; else the package contradicts itself.
        """
        asked = tol * max(abs(self.objective), abs(self.bound))
        if abs(self.objective - self.bound) <= asked + self.rounding.moved:
            return "limited_by_rounding", f"the gap exceeds tol={tol:g} by rounding alone"
        return "interrupted", (
            f"{self.backend} certified this point, but its objective and its bound, computed"
            f" anew, have a gap of {self.gap:.1e}, above tol={tol:g}. This is a bug in mcframe:"
            " please report it with the model and, if possible, the data. Another backend may"
            " still answer"
        )

    @property
    def latent(self) -> LowRank:
        """Z (n_items x n_columns) as the product of two thin factors; see ``.dense()``.

        In the standard units of blocks that have them.
        """
        return self.point.latent

    @property
    def model(self) -> Model:
        """The model that was fitted."""
        return self.problem.model

    @property
    def gap(self) -> float:
        """(objective - bound) / max(|objective|, |bound|): how far from optimal at most.

        Never below what rounding may have moved both by; 0 where the objective is 0 up to
        rounding.
        """
        return relative_gap(self.objective, self.bound, self.rounding)

    @property
    def slack(self) -> float:
        """The most by which a bound may lie above this objective, or this bound above another.

        That is rounding, and where there are sets what it is worth at most that they count as
        met up to 1e-9 of their size: a point may lie outside by that and its objective lower.
        """
        return self.rounding.moved + self.rounding.room

    @property
    def rank(self) -> int:
        """The number of singular values of Z above rounding."""
        return self.latent.rank

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was allowed in the data but is worth knowing, and effects that are infinite."""
        if self.kept is not None:
            return self.kept.notes
        return (*self.problem.notes, *notes_on_effects(self.problem))

    def natural(self, name: str, rows: Any = None, columns: Any = None) -> Any:
        """The linear predictor of a block: Z, its biases and row effects, and its offset if any.

        Of a standardised location in the data's own units: centre + spread * (Z + effects).
        (n_items x its columns); for classes one column for each class of each. Entries by
        ``rows`` and ``columns`` as in ``predict``.
        """
        if rows is not None or columns is not None:
            return self.predictor_at(name, rows, columns)
        width = self.model.block(name).likelihood.width
        return self.problem.tables[name].wrap(self.predictor(name), width)

    def predict(self, name: str, rows: Any = None, columns: Any = None) -> Any:
        """The mean response of a block: probabilities for labels and classes.

        Every entry, in a DataFrame with the labels of the data if they were a DataFrame or a
        Series, else in an array. With ``rows`` and ``columns``, equally long, the entries at
        these positions, counted from 0, as an array: one number each, or one a class. That
        never forms the whole block, which of a large sparse table fits in no memory.
        """
        if rows is not None or columns is not None:
            return self.likelihood(name).mean(self.predictor_at(name, rows, columns))
        width = self.model.block(name).likelihood.width
        return self.problem.tables[name].wrap(self.mean(name), width)

    def predict_rows(self, data: Mapping[str, Any], name: str) -> Any:
        """The mean response of a block for new items, which were not in the fit.

        Of its rows of Z see ``latent_rows``. Biases, thresholds and what losses were scaled by are
        those of the fit; a row effect is estimated for each new item, together with its row.

        Parameters
        ----------
        data : dict from block name to array, DataFrame, scipy.sparse matrix, ... as in ``fit``
            Of the new items: some or all blocks, in the columns of the fit. NaN is missing; a
            block may hold nothing else, as the labels of new items do. Columns with names come in
            any order, triples by the labels of columns; those that are absent count as missing,
            of frames with an ``UnobservedWarning``.
        name : str
            The block that is asked for, given or not. An offset counts where it is given.

        Returns
        -------
        array (n_new x its columns), or DataFrame if the new data were one

        Raises
        ------
        ModelError
            Where terms tie rows to each other (``MaxNorm``, ``MaxNormBall``, ``Calibration``,
            ``ResidualNuclearNorm``), a ``NuclearBall`` does not bind, or a loss is not convex.
        DataError
            Where the new data do not fit the model.

        Notes
        -----
        Cost: one ridge regression of rank columns a row, or some Newton steps of it; of losses
        without a gradient and of boxes some dozens. Rows are worked on by batches: memory is that
        of the data and of the answer.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> x = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
        >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.01)])
        >>> fit = mc.fit(model, {"x": x})
        >>> print(fit.predict_rows({"x": [[np.nan, 8.0]]}, "x").round(1))
        [[4. 8.]]
        """
        new = self.new_rows(data, name)
        mean = self.mean_of(name, new.predictor(name))
        return new.table(name).wrap(mean, self.model.block(name).likelihood.width)

    def impute_rows(self, data: Mapping[str, Any], name: str) -> Any:
        """A block of new items with observed entries kept and missing ones filled.

        As ``impute`` does for the rows of the fit: numbers and counts by ``predict_rows``, labels,
        levels and classes by the most probable one.

        Parameters
        ----------
        data, name : as in ``predict_rows``
            Of a block that is not among the data every entry is filled.

        Returns
        -------
        array (n_new x columns of the block), or DataFrame if the new data were one
            The data themselves are left as they are.

        Raises
        ------
        ModelError, DataError
            As in ``predict_rows``.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> x = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
        >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.01)])
        >>> fit = mc.fit(model, {"x": x})
        >>> print(fit.impute_rows({"x": [[np.nan, 8.5]]}, "x").round(1))
        [[4.2 8.5]]
        """
        return self.filled_rows(name, self.new_rows(data, name))

    def latent_rows(self, data: Mapping[str, Any]) -> LowRank:
        """The rows of Z of new items, which were not in the fit: ``latent`` for them.

        With Z = U V' in balanced factors, singular values s, a new item's row u minimises
        ``sum of its losses at (V u + what is free) + sum_k d_k u_k^2 / 2`` over its observed
        entries, where ``d_k = weight of the NuclearNorm + weight of the Ridge * s_k``. A
        ``NuclearBall`` counts by its multiplier at the optimum; bounds of a ``Box`` hold, and a
        ``OnesColumn`` is 1. V and all that items share stay as they were fitted: this is the rule
        of Zheng and Hastie (2015, section 3) for any convex loss. Under ``GaussianRows`` a row
        costs what a row of the fit does; with a ``count_share`` the square is times that of its
        scale, by the counts of its own data. On the rows of the fit it gives
        the fitted rows, as exactly as the fit is optimal; of an item without an entry V u is 0, or
        as close to it as bounds and a column of ones allow. Refitting with the new rows would let
        them change V.

        Parameters
        ----------
        data : as in ``predict_rows``

        Returns
        -------
        LowRank (n_new x columns of Z)
            The product of two thin factors, ``.left`` with one row for each item and ``.right``,
            the same for all data; see ``.dense()``. Biases and row effects are no part of it.

        Raises
        ------
        ModelError, DataError
            As in ``predict_rows``.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> x = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
        >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.01)])
        >>> fit = mc.fit(model, {"x": x})
        >>> rows = fit.latent_rows({"x": [[np.nan, 8.0], [2.0, np.nan]]})
        >>> print(rows.shape, rows.dense().round(1))
        (2, 2) [[4. 8.]
                [2. 4.]]
        """
        return self.new_rows(data).latent

    def impute(self, name: str) -> Any:
        """The block with observed entries kept and missing ones filled, all of one kind.

        Numbers and counts by their mean, labels, levels and classes by the most probable one, as
        the data have it; ``predict`` has the probabilities and the expected levels.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> model = mc.Model([mc.Block("y", mc.Bernoulli(), bias=True)], [mc.NuclearNorm(0.1)])
        >>> fit = mc.fit(model, {"y": [[1.0, 1.0], [0.0, 0.0], [1.0, np.nan]]})
        >>> print(fit.impute("y")[2], fit.predict("y")[2, 1].round(1))
        [1. 1.] 0.9
        """
        self.model.block(name)  # which names the blocks there are
        z = self.predictor(name)
        return self.filled(name, self.problem.tables[name].observed_entries(), z)

    def filled(self, name: str, table: Table, z: Array) -> Any:
        """The observed entries of a table, elsewhere what its likelihood fills with at z."""
        likelihood = self.likelihood(name)
        values = likelihood.filling(z if likelihood.width == 1 else in_classes(z, likelihood))
        values = np.array(values.reshape(table.shape), dtype=np.float64)
        values[table.rows, table.columns] = table.as_given().values
        return table.wrap(values)

    def filled_rows(self, name: str, new: NewRows) -> Any:
        """A block of new items, whose rows are found once for all blocks, filled."""
        return self.filled(name, new.table(name), new.predictor(name))

    def new_rows(self, data: Mapping[str, Any], name: str | None = None) -> NewRows:
        """New items by the rule for them; ``name`` is a block that is asked for, there or not."""
        if name is not None:
            refuse_swapped(data, name)
            self.model.block(name)  # which names the blocks there are
        return NewRows.of(self.problem, self.effects, self.row_space, data)

    @property
    def row_space(self) -> RowSpace:
        """What a row of Z may be and what it costs, or a ``ModelError`` where rows are tied."""
        refuse_rows(self.problem)
        kept = None if self.kept is None else self.kept.space
        return self.row_space_of_data if kept is None else kept

    @cached_property
    def row_space_of_data(self) -> RowSpace:
        """What a row of Z may be and what it costs, from the data of the fit; found once."""
        return RowSpace.of(self.problem, self.latent, self.effects, self.point.dual)

    def compact(self) -> "Fit":
        """The fit without the data that it was fitted to: small, and fast to pickle.

        It keeps Z in its factors, effects, labels of rows and columns, the certificate's numbers
        and the history, and with them ``predict``, ``natural``, ``bias``, ``row_effects``,
        ``likelihood``, and all that is asked of new rows. What needs an observed entry, as
        ``impute``, ``log_likelihood``, ``problem.objective`` or a start of another ``fit``, raises
        a ``ModelError``. Offsets of the data are part of predictions, and are kept, but for those
        of rows in partitions, which no process holds: their predictions raise a ``ModelError``.

        Returns
        -------
        Fit
            Of about ``8 rank (n_items + n_columns)`` bytes.

        Examples
        --------
        >>> import pickle, numpy as np, mcframe as mc
        >>> x = np.outer(np.arange(1.0, 500.0), np.arange(1.0, 41.0))
        >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
        >>> fit = mc.fit(model, {"x": x})
        >>> small = pickle.loads(pickle.dumps(fit.compact()))
        >>> print(small.predict_rows({"x": 7 * x[:1]}, "x")[0, :3].round(1))
        [ 7. 14. 21.]
        >>> len(pickle.dumps(small)) < 0.05 * len(pickle.dumps(fit))
        True
        """
        kept = self.kept
        if kept is None:
            space = None
            with suppress(ModelError):  # which ``row_space`` says again when it is asked for
                space = self.row_space
            kept = Kept(space, self.notes)
        return attrs.evolve(
            self,
            problem=self.problem.without_data(),
            point=Point(self.latent),
            paused=None,
            kept=kept,
        )

    def bias(self, name: str) -> Any:
        """The fitted biases of a block, one a column; a Series if the data were a DataFrame.

        For classes an array, one for each class of each column, (columns x classes). Where all
        observed labels of a column are alike the best bias is infinite; one is given that is
        large enough for a loss of exactly 0. An ``offset`` of the data is no part of it. Of a
        standardised location the value of each column where Z is 0, in the data's own units.
        """
        block = self.model.block(name)
        if not block.bias:
            raise ModelError(
                f"block {name!r} has no bias; declare it with mc.Block({name!r}, ..., bias=True)"
            )
        biases = self.problem.layout(name).biases(self.problem.effects(name, self.effects))
        if block.likelihood.width > 1:
            return biases.reshape(-1, block.likelihood.width)
        table = self.problem.tables[name]
        if table.given is not None:
            biases = table.given.standard.natural(biases, np.arange(biases.size))
        return table.wrap_row(biases)

    def row_effects(self, name: str) -> Any:
        """Fitted effects of a block's rows, one an item; a Series if the data were a DataFrame.

        Of a standardised location in its standard units, which all of its columns share.
        """
        if not self.model.block(name).row_effects:
            raise ModelError(
                f"block {name!r} has no effects of rows; declare it with"
                f" mc.Block({name!r}, ..., row_effects=True)"
            )
        effects = self.problem.layout(name).row_effects(self.problem.effects(name, self.effects))
        return self.problem.tables[name].wrap_column(effects)

    def likelihood(self, name: str) -> Likelihood:
        """A block's likelihood, with its thresholds if they were fitted and its estimates.

        Of a standardised location its parameters are in standard units.
        """
        self.model.block(name)
        return self.problem.likelihood(name, self.effects)

    def log_likelihood(self, name: str) -> Any:
        """log p(y | z) of each observed entry with every constant, NaN where none is observed.

        Of a standardised block the density of the data in their own units; of ranks there is none.
        """
        if self.model.block(name).standardize == "ranks":
            raise ModelError(
                f"block {name!r}: normal scores have a density, and the values that they are read"
                " back to have none; take standardize=True or 'robust'"
            )
        self.refuse_too_large(name)
        likelihood = self.likelihood(name)
        if not isinstance(likelihood, Distribution):
            raise ModelError(
                f"block {name!r}: {type(likelihood).__name__} is a loss without a distribution"
            )
        table = self.problem.tables[name]
        z, y = self.problem.compared(name, self.latent, self.effects)
        entries = np.full(table.shape, np.nan)
        entries[table.rows, table.columns] = likelihood.log_likelihood(z, y) - table.log_spreads()
        return table.wrap(entries)

    def losses_at(self, name: str, rows: Any, columns: Any, values: Any) -> Array:
        """The losses l of values at some entries of a block, without any weight.

        Of a standardised block in its standard units, as the objective has them: parameters of
        its likelihood are in these, and no column outweighs another by its unit.

        Parameters
        ----------
        name : str
        rows, columns, values : of one length
            Positions counted from 0, and values as the data have them.
        """
        places = self.checked_places(name, rows, columns)
        return self.problem.losses_at(
            name, self.latent, self.effects, *places, np.asarray(values, dtype=np.float64)
        )

    def residual(self, block: str) -> float:
        """||A Z - B||_F of a block's calibration, in the data's own units."""
        self.model.block(block)
        given = self.problem.tables[block].given
        for stated, bound in zip(self.model.terms, self.problem.terms, strict=True):
            if bound.block == block and isinstance(bound, Sums) and isinstance(stated, Sums):
                z = self.latent.columns(self.problem.columns_of_term(bound)).dense()
                if given is None:
                    return bound.residual(z)
                return stated.residual(given.standard.natural(z, np.arange(z.shape[1])))
        raise ModelError(f"block {block!r} has no calibration")

    def mean(self, name: str) -> Array:
        """The mean response as a plain array."""
        return self.mean_of(name, self.predictor(name))

    def mean_of(self, name: str, z: Array) -> Array:
        """The mean response at a linear predictor (rows x latent columns of the block)."""
        likelihood = self.likelihood(name)
        if likelihood.width == 1:
            return likelihood.mean(z)
        return likelihood.mean(in_classes(z, likelihood)).reshape(z.shape)

    def predictor(self, name: str) -> Array:
        """Z + biases + row effects + offset of a block as a plain array."""
        self.refuse_too_large(name)
        return self.problem.predictor(name, self.latent, self.effects)

    def predictor_at(self, name: str, rows: Any, columns: Any) -> Array:
        """The linear predictor at some entries of a block: one number each, or one a class."""
        places = self.checked_places(name, rows, columns)
        return self.problem.predictor_at(name, self.latent, self.effects, *places)

    def checked_places(self, name: str, rows: Any, columns: Any) -> tuple[IntArray, IntArray]:
        """Positions of entries of a block as integers, or a ``DataError``."""
        self.model.block(name)
        n_rows, n_columns = self.problem.tables[name].shape
        if rows is None or columns is None:
            given, missing = ("columns", "rows") if rows is None else ("rows", "columns")
            raise DataError(f"block {name!r}: {given} were given without {missing}; give both")
        row_places = checked_positions(name, "rows", rows, n_rows)
        column_places = checked_positions(name, "columns", columns, n_columns)
        if row_places.size != column_places.size:
            raise DataError(
                f"block {name!r}: {row_places.size} rows and {column_places.size} columns were"
                " given; a row and a column for each entry are needed"
            )
        return row_places, column_places

    def refuse_too_large(self, name: str) -> None:
        """A ``DataError`` where an answer for every entry of a block does not fit in memory."""
        n_rows, width = self.problem.n_items, self.problem.n_latent(name)
        gigabytes = 8e-9 * WHOLE_ARRAYS * n_rows * width
        memory = physical_gigabytes()
        if gigabytes > MEMORY_SHARE * memory:
            raise DataError(
                f"block {name!r}: all of its {n_rows} x {width} entries take about"
                f" {gigabytes:.2g} GB, more than {MEMORY_SHARE:.0%} of the machine's"
                f" {memory:.3g} GB; ask for some of them, as by fit.predict({name!r}, rows=rows,"
                f" columns=columns) or by label, fit.predict_pairs({name!r}, pairs)"
            )

    def __repr__(self) -> str:
        last = self.history[-1]
        bound = self.bound + 0.0  # not -0
        lines = [
            f"Fit: {self.status} ({self.message})",
            f"  objective  {self.objective:.9g}",
            f"  bound      {bound:.9g}",
            f"  gap        {self.gap:.1e}",
            f"  rank       {self.rank} of at most {min(self.problem.shape)}",
            f"  backend    {self.backend}, {last.iteration} iterations, {last.seconds:.2f} s",
        ]
        lines += [f"  note       {note}" for note in self.notes]
        return "\n".join(lines)


def in_classes(z: Array, likelihood: Likelihood) -> Array:
    """Predictors (rows x latent columns) with one row for each column of data."""
    return z.reshape(-1, likelihood.width)


def checked_positions(name: str, what: str, given: Any, count: int) -> IntArray:
    """Positions of rows or columns as integers from 0, or a ``DataError`` with the first wrong."""
    try:
        positions = np.asarray(given)
    except ValueError:  # lists among numbers
        positions = np.asarray(given, dtype=object)
    if positions.ndim != 1 or (positions.dtype.kind not in "iu" and positions.size):
        raise DataError(
            f"block {name!r}: {what} of shape {positions.shape} and dtype {positions.dtype} were"
            " given; a list of positions is needed, integers counted from 0"
        )
    wrong = (positions < 0) | (positions >= count)
    if wrong.any():
        raise DataError(
            f"block {name!r}: {what} hold position {positions[wrong][0]}; they go from 0 to"
            f" {count - 1}"
        )
    return positions.astype(np.intp)

"""The answer of every verb that solves: ``Fit``."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, overload

import attrs
import numpy as np
from numpy.typing import ArrayLike

from mcframe.backends import (
    Certificate,
    History,
    Outcome,
    Point,
    Rounding,
    SolverCheckpoint,
    Start,
    relative_gap,
)
from mcframe.backends.row_space import RowSpace, refuse_rows
from mcframe.compile import notes_on_effects
from mcframe.contracts.arrays import Array, InFormOfData, Positions, is_interval
from mcframe.contracts.endings import Status, StopReason
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.likelihood import Distribution, Likelihood
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Sums
from mcframe.contracts.validators import a_type
from mcframe.fitting.base_answer import BlockAnswer
from mcframe.fitting.new_rows import NewRows
from mcframe.fitting.prediction import (
    BlockLabels,
    FittedRows,
    best_columns,
    check_ranked,
    check_size,
)
from mcframe.model import Problem
from mcframe.model.binding import sums_by_place
from mcframe.model.table import TableWithoutData
from mcframe.numerics.operators import LowRank

if TYPE_CHECKING:  # what the pictures are; nothing of them is needed to run
    from mcframe.plots.of_answers import FitPictures


@stored(formerly=("Kept",))
@attrs.frozen(eq=False)
class CompactState:
    """The space of new rows and the notes, for a fit without its data.

    ``space`` is None if the model does not define new rows.
    """

    space: RowSpace | None
    notes: tuple[str, ...]


@stored(former_fields=("paused",))
@attrs.frozen(eq=False, repr=False)
class Fit(BlockAnswer["FitPictures"]):
    """The answer of ``fit``: Z in factors, the free effects, and a certificate.

    Attributes
    ----------
    status : str
        "certified" (gap <= tol), "limited_by_rounding" if double precision cannot separate
        objective and bound any further, "unbounded" if the objective falls without end,
        "iteration_limit", "time_limit", "interrupted", or "local" for a loss that is declared
        nonconvex. A ``Status``, which equals its text.
    message : str
        The status in a sentence.
    reason : StopReason
        Why the run ended, such as "callback" or "from outside" of an interrupted one.
    problem : Problem
        The model with its data; ``problem.objective`` is the objective that was minimised.
    point : Point
        Z in factors, and the dual point of the bound.
    effects : dict from block name to array
        The free parameters b of each block that has them, as ``Problem.objective`` takes them:
        biases of columns, effects of rows, an intercept, thresholds, in this order and relative to
        ``Problem.origins``. ``bias``, ``row_effects`` and ``likelihood`` give them separately and
        relative to 0.
    objective, bound : float
        The objective at (Z, b), by ``Problem.objective``; a rigorous lower bound on its minimum
        over all Z and b.
    rounding : Rounding
        The accuracy of both in double precision.
    backend : str
        The backend that ran. If "auto" changed it during the fit, which ``message`` says, the last
        one.
    history : History
        One record for each certificate.
    random_state : int
        The seed.
    notes : tuple of str
        Remarks on the data, such as columns without an entry, and on diverging effects.
    """

    point: Point
    effects: Mapping[str, Array]
    status: Status = attrs.field(converter=Status)
    message: str
    objective: float
    bound: float
    rounding: Rounding
    backend: str
    history: History
    random_state: int = 0
    _kept: CompactState | None = None
    reason: StopReason = attrs.field(converter=StopReason)

    @reason.default
    def _usual_reason(self) -> StopReason:
        return self.status.usual_reason

    @classmethod
    def of(cls, problem: Problem, outcome: Outcome, backend: str, random_state: int = 0) -> "Fit":
        """The fit for the outcome of a backend; the problem computes the objective.

        A certificate that this objective and the bound contradict is withdrawn.
        """
        fit = cls(
            problem=problem,
            point=outcome.point,
            effects=outcome.effects,
            status=outcome.status,
            message=outcome.message,
            reason=outcome.reason,
            objective=problem.objective(outcome.point.latent, outcome.effects),
            bound=outcome.bound,
            rounding=outcome.rounding,
            backend=backend,
            history=outcome.history,
            random_state=random_state,
        )
        if fit.status is Status.CERTIFIED and not fit.gap <= outcome.tol:
            return withdrawn(fit, outcome.tol)
        return fit

    def _check_read(self) -> None:
        """Raise a ``DataError`` where the numbers of a file contradict the certificate.

        The objective is computed anew, of a fit with its data. A bound is not: it is as good as
        whoever wrote the file.
        """
        certified = self.status is Status.CERTIFIED
        if not any(isinstance(table, TableWithoutData) for table in self.problem.tables.values()):
            recomputed = self.problem.objective(self.latent, self.effects)
            allowed = self.rounding.total + self.rounding.zero_below
            if not (recomputed == self.objective or abs(recomputed - self.objective) <= allowed):
                raise DataError(
                    f"the fit says that its objective is {self.objective!r}, and it is"
                    f" {recomputed!r}"
                )
        if not self.bound <= self.objective + self.allowed_excess or certified > (self.gap < 1.0):
            raise DataError(
                f"the fit says that it is {self.status}, with objective {self.objective!r} and"
                f" bound {self.bound!r}"
            )

    @property
    def latent(self) -> LowRank:
        """Z (n_items x n_columns) as the product of two thin factors; see ``.dense()``.

        Blocks with standard units have Z in these units.
        """
        return self.point.latent

    @property
    def gap(self) -> float:
        """(objective - bound) / max(|objective|, |bound|): a bound on the distance to the optimum.

        It is never below the effect of rounding on both, and 0 if the objective is 0 up to
        rounding.
        """
        return relative_gap(self.objective, self.bound, self.rounding)

    @property
    def allowed_excess(self) -> float:
        """The largest amount by which a valid lower bound may lie above this objective.

        It is the rounding error plus, under constraints, a bound on the change of the objective
        due to their feasibility tolerance of 1e-9 of their size: a point outside by that much may
        have a lower objective.
        """
        return self.rounding.total + self.rounding.infeasibility

    @property
    def rank(self) -> int:
        """The number of singular values of Z above rounding."""
        return self.latent.rank

    @property
    def _rows(self) -> FittedRows:
        return FittedRows(self.problem, self.effects, self.latent)

    @cached_property
    def _row_space(self) -> RowSpace:  # computed once, at the first question about new rows
        return RowSpace.of(self.problem, self.latent, self.effects, self.point.dual)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the data and on diverging effects."""
        if self._kept is not None:
            return self._kept.notes
        return (*self.problem.notes, *notes_on_effects(self.problem))

    @overload
    def natural(self, block: str) -> InFormOfData: ...
    @overload
    def natural(self, block: str, rows: ArrayLike, columns: ArrayLike) -> Array: ...
    def natural(
        self, block: str, rows: Positions = None, columns: Positions = None
    ) -> InFormOfData:
        """The linear predictor of a block: Z plus its biases, row effects and offset.

        (n_items x its columns); for classes one column for each class of each. For a standardised
        location it is in the units of the data: centre + spread * (Z + effects). ``rows`` and
        ``columns`` select entries as in ``predict``.
        """
        if rows is not None or columns is not None:
            return self._rows.predictor_at(block, rows, columns)
        width = self.model.block(block).likelihood.width
        return self.problem.tables[block].wrap(self._rows.predictor(block), width)

    def predict_rows(self, block: str, data: Mapping[str, object]) -> InFormOfData:
        """The mean response of a block for new items, which were not in the fit.

        ``latent_rows`` explains their rows of Z. Biases, thresholds and the scales of losses are
        those of the fit. A row effect is estimated for each new item, together with its row.

        Parameters
        ----------
        block : str
            The block to predict, given in the data or not. Its offset counts if it is given.
        data : dict from block name to array, DataFrame, scipy.sparse matrix, ... as in ``fit``
            Some or all blocks of the new items, with the columns of the fit. NaN is missing; a
            whole block may be missing, such as the labels of new items. Columns with names may be
            in any order, and triples are matched by column labels. Absent columns count as
            missing, for frames with an ``UnobservedWarning``.

        Returns
        -------
        array (n_new x its columns), or DataFrame if the new data were one

        Raises
        ------
        ModelError
            If terms tie rows to each other (``MaxNorm``, ``MaxNormBall``, ``Calibration``,
            ``ResidualNuclearNorm``), if a ``RowRelation`` does not state the same of all rows, if
            a ``NuclearBall`` is not active, or if a loss is not convex.
        DataError
            If the new data do not fit the model.

        Notes
        -----
        A row costs one ridge regression with rank columns, or some Newton steps of it. With losses
        without a gradient and with boxes it costs some dozens. Rows are solved in batches, so the
        memory is that of the data and of the answer.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> x = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
        >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.01)])
        >>> fit = mc.fit(model, {"x": x})
        >>> print(fit.predict_rows("x", {"x": [[np.nan, 8.0]]}).round(1))
        [[4. 8.]]
        """
        self.model.block(block)  # which names the blocks there are
        return new_rows(self, data).predicted(block)

    def impute_rows(self, block: str, data: Mapping[str, object]) -> InFormOfData:
        """A block of new items with observed entries kept and missing ones filled.

        As ``impute`` for the rows of the fit: numbers and counts are filled with ``predict_rows``;
        labels, levels and classes with the most probable value.

        Parameters
        ----------
        block, data : as in ``predict_rows``
            If the block is not in the data, every entry is filled.

        Returns
        -------
        array (n_new x columns of the block), or DataFrame if the new data were one
            The data themselves are not changed.

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
        >>> print(fit.impute_rows("x", {"x": [[np.nan, 8.5]]}).round(1))
        [[4.2 8.5]]
        """
        self.model.block(block)
        return new_rows(self, data).imputed(block)

    def latent_rows(self, data: Mapping[str, object]) -> LowRank:
        """The rows of Z of new items, which were not in the fit.

        Let Z = U V' in balanced factors with singular values s. The row u of a new item minimises
        ``sum of its losses at (V u + free effects) + sum_k d_k u_k^2 / 2`` over its observed
        entries, with ``d_k = weight of the NuclearNorm + weight of the Ridge * s_k``. A
        ``NuclearBall`` counts with its multiplier at the optimum; bounds of a ``Box`` hold, and a
        ``OnesColumn`` is 1. V and everything that items share stay as fitted. This is the rule of
        Zheng and Hastie (2015, section 3) for any convex loss.

        Under ``GaussianRows`` a row has the same cost as a row of the fit. With a ``count_share``
        the square is multiplied by that of the scale of the row, which depends on the number of
        its entries. For the rows of the fit this gives the fitted rows, as exactly as the fit is
        optimal. For an item without an entry V u is 0, or as close to 0 as bounds and a column of
        ones allow. A refit with the new rows would also change V.

        Parameters
        ----------
        data : as in ``predict_rows``

        Returns
        -------
        LowRank (n_new x columns of Z)
            The product of two thin factors: ``.left`` with one row for each item, and ``.right``,
            the same for all data; see ``.dense()``. It does not contain biases and row effects.

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
        return new_rows(self, data).latent

    def _means_at(self, block: str, rows: Positions, columns: Positions) -> Array:
        return self._rows.mean_at(block, rows, columns)

    def _means(self, block: str) -> InFormOfData:
        return self._rows.predicted(block)

    def impute(self, block: str) -> InFormOfData:
        """The block with observed entries kept and missing ones filled.

        Numbers and counts are filled with their mean; labels, levels and classes with the most
        probable value, coded as in the data. ``predict`` gives the probabilities and the expected
        levels.

        Examples
        --------
        >>> import numpy as np, mcframe as mc
        >>> model = mc.Model([mc.Block("y", mc.Bernoulli(), bias=True)], [mc.NuclearNorm(0.1)])
        >>> fit = mc.fit(model, {"y": [[1.0, 1.0], [0.0, 0.0], [1.0, np.nan]]})
        >>> print(fit.impute("y")[2], fit.predict("y")[2, 1].round(1))
        [1. 1.] 0.9
        """
        return self._rows.imputed(block)

    def top_rows(
        self, block: str, data: Mapping[str, object], n: int = 10, *, observed: bool = False
    ) -> InFormOfData:
        """The n columns of each new row with the largest mean response, best first.

        As ``top`` for rows of the fit, with the predictions of ``predict_rows``.

        Parameters
        ----------
        block, data : as in ``predict_rows``
            Triples have some of the columns of the fit, by label; the others are not observed.
        n, observed : as in ``top``
            The observed entries are those of the new rows.

        Returns
        -------
        DataFrame or list
            As from ``top``, for all new rows, in a frame of the library of the new data.

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
        >>> [(user, film) for user, film, predicted in fit.top_rows("stars", {"stars": new})]
        [('eve', 'Alien'), ('eve', 'Jaws')]
        """
        check_ranked(self.model.block(block))
        new = new_rows(self, data)
        mean, table = new.mean(block), new.table(block)
        rows, columns, means = best_columns(
            table, np.arange(len(mean)), mean.__getitem__, n, observed
        )
        limited = self.model.block(block).limited(means)
        return BlockLabels.of(block, table).as_list(rows, columns, limited)

    def _stored(self) -> "Fit":
        """The fit; without its data if these are in partitions, where they stay."""
        return self.compact() if self.problem.rows_elsewhere else self

    def compact(self) -> "Fit":
        """The fit without its training data: small, and fast to pickle.

        It keeps the factors of Z, the effects, the labels of rows and columns, the numbers of the
        certificate and the history. So ``predict``, ``natural``, ``bias``, ``row_effects``,
        ``likelihood`` and all methods for new rows still work. Everything that needs an observed
        entry raises a ``ModelError``: ``impute``, ``log_likelihood``, ``problem.objective``, or a
        start of another ``fit``. Offsets of the data are part of predictions and are kept. Those
        of rows in partitions are not, since no process holds them; predictions with them raise a
        ``ModelError``.

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
        >>> print(small.predict_rows("x", {"x": 7 * x[:1]})[0, :3].round(1))
        [ 7. 14. 21.]
        >>> len(pickle.dumps(small)) < 0.05 * len(pickle.dumps(fit))
        True
        """
        kept = self._kept
        if kept is None:
            space = None
            with suppress(ModelError):  # which ``new_rows`` raises again when it is asked
                space = row_space(self)
            kept = CompactState(space, self.notes)
        return attrs.evolve(
            self,
            problem=self.problem.without_data(),
            point=Point(self.latent),
            kept=kept,
        )

    def bias(self, block: str) -> InFormOfData:
        """The fitted biases of columns, one for each; a Series if the data were a DataFrame.

        For classes an array (columns x classes). If all observed labels of a column are equal the
        best bias is infinite; the value given is large enough for a loss of exactly 0. An
        ``offset`` of the data is not included. For a standardised location it is the value of each
        column where Z is 0, in the units of the data.
        """
        declared = self.model.block(block)
        if not declared.bias:
            raise ModelError(
                f"block {block!r} has no bias; declare it with mc.Block({block!r}, ..., bias=True)"
            )
        biases = self.problem.layout(block).biases(
            self.problem.reported_effects(block, self.effects)
        )
        if declared.likelihood.width > 1:
            return biases.reshape(-1, declared.likelihood.width)
        table = self.problem.tables[block]
        first_row = np.zeros(1, dtype=np.intp)  # units are those of columns
        return table.wrap_row(table.units.invert(biases, first_row, np.arange(biases.size)))

    def row_effects(self, block: str) -> InFormOfData:
        """The fitted effects of rows, one for each item; a Series if the data were a DataFrame.

        For a standardised location they are in standard units, which all of its columns share.
        """
        if not self.model.block(block).row_effects:
            raise ModelError(
                f"block {block!r} has no effects of rows; declare it with"
                f" mc.Block({block!r}, ..., row_effects=True)"
            )
        effects = self.problem.layout(block).row_effects(
            self.problem.reported_effects(block, self.effects)
        )
        return self.problem.tables[block].wrap_column(effects)

    def likelihood(self, block: str) -> Likelihood:
        """A block's likelihood, with its fitted thresholds and its estimates.

        For a standardised location its parameters are in standard units.
        """
        self.model.block(block)
        return self.problem.likelihood(block, self.effects)

    def log_likelihood(self, block: str) -> InFormOfData:
        """log p(y | z) of each observed entry with all constants, NaN at missing entries.

        For a standardised block it is the density in the units of the data; ranks have none.
        """
        if self.model.block(block).standardize == "ranks":
            raise ModelError(
                f"block {block!r}: normal scores have a density, and the values that they are read"
                " back to have none; take standardize=True or 'robust'"
            )
        check_size(block, self.problem.n_items, self.problem.n_latent(block))
        likelihood = self.likelihood(block)
        if not isinstance(likelihood, Distribution):
            raise ModelError(
                f"block {block!r}: {type(likelihood).__name__} is a loss without a distribution"
            )
        table = self.problem.tables[block]
        z, y = self.problem.predictors_and_targets(block, self.latent, self.effects)
        entries = np.full(table.shape, np.nan)
        places = table.rows, table.columns
        numbers = table.units.invert(table.values, *places)
        slopes = table.units.log_derivative(numbers, *places)
        slopes = np.where(is_interval(y), 0.0, slopes)  # a probability has no unit
        entries[places] = likelihood.log_likelihood(z, y) + slopes
        return table.wrap(entries)

    def losses_at(
        self, block: str, rows: Positions, columns: Positions, values: ArrayLike
    ) -> Array:
        """The losses l of values at some entries of a block, without any weight.

        For a standardised block they are in standard units, as in the objective: the parameters of
        its likelihood are in these units, and no column dominates because of its unit. For a
        ``RiskMixture`` l is the loss of its likelihood.

        Parameters
        ----------
        block : str
        rows, columns, values : of one length
            Positions counted from 0, and values as in the data.
        """
        return self._rows.losses_at(block, rows, columns, values)

    def residual(self, block: str, word: str | None = None) -> float:
        """||A P - B||_F of a block's calibration, P its predictors in the units of the data.

        Of a ``RowRelation`` it is ||P A' - B||_F. P is Z + effects + offset, ``natural(block)``:
        where z is the mean, what ``predict`` returns. Unknown equations do not count.

        Parameters
        ----------
        block : str
        word : "Calibration" or "RowRelation", optional
            Which of the block's terms is meant. By default the first; of a penalty and a
            constraint that, too.
        """
        self.model.block(block)
        terms = [t for t in self.model.terms if isinstance(t, Sums) and block in t.block_names]
        meant = [term for term in terms if word in (None, term.word)]
        if terms and not meant:
            words = ", ".join(repr(term.word) for term in terms)
            raise ModelError(f"block {block!r} has known sums by {words}, and none by {word!r}")
        if not terms:
            raise ModelError(
                f"block {block!r} has no calibration; add mc.Calibration({block!r}, A, B) to the"
                " terms"
            )
        blocks, term = sums_by_place(meant[0], self.model, self.problem.tables)
        return term.residual(np.hstack([self._rows.predictor(b.name) for b in blocks]))

    def _facts(self) -> dict[str, str]:
        """The numbers of the certificate, and how they were found, as text."""
        last = self.history[-1]
        return {
            "objective": f"{self.objective:.9g}",
            "bound": f"{self.bound + 0.0:.9g}",  # not -0
            "gap": f"{self.gap:.1e}",
            "rank": f"{self.rank} of at most {min(self.problem.shape)}",
            "backend": f"{self.backend}, {last.iteration} iterations, {last.seconds:.2f} s",
        }


def withdrawn(fit: Fit, tol: float) -> Fit:
    """The fit without the certificate of its backend, which its gap contradicts.

    If rounding explains the difference, the message says so; otherwise it is a bug of the package.
    """
    allowed = tol * max(abs(fit.objective), abs(fit.bound)) + fit.rounding.total
    if abs(fit.objective - fit.bound) <= allowed:
        message = f"the gap exceeds tol={tol:g} by rounding alone"
        return attrs.evolve(
            fit,
            status=Status.LIMITED_BY_ROUNDING,
            message=message,
            reason=StopReason.ROUNDING,
        )
    message = (
        f"{fit.backend} certified this point, but its objective and its bound, computed"
        f" anew, have a gap of {fit.gap:.1e}, above tol={tol:g}. This is a bug in mcframe:"
        " please report it with the model and, if possible, the data. Another backend may"
        " still answer"
    )
    return attrs.evolve(
        fit, status=Status.INTERRUPTED, message=message, reason=StopReason.CONTRADICTION
    )


def row_space(fit: Fit) -> RowSpace:
    """The possible rows of Z and their cost; a ``ModelError`` if terms tie rows together."""
    refuse_rows(fit.problem)
    kept = None if fit._kept is None else fit._kept.space
    return fit._row_space if kept is None else kept


def new_rows(fit: Fit, data: Mapping[str, object]) -> NewRows:
    """New items for the predictions of a fit: ``predicted``, ``imputed``, ``latent``."""
    return NewRows.of(fit.problem, fit.effects, row_space(fit), data)


def checked_start(
    start: Fit | None, problem: Problem, solver: SolverCheckpoint | None = None
) -> Start | None:
    """The place to begin, or a ``DataError`` where its shape is another.

    A fit of the same model to the same data gives its certificate, and the backend that it is
    from, too. ``solver`` is the state of a solver to go on from, as a checkpoint keeps it.
    """
    if start is None:
        return None
    if not isinstance(start, Fit):
        raise DataError(
            f"start is {a_type(start)}; a Fit is needed (mc.load(path, mc.Fit) reads one)"
        )
    if start.latent.shape != problem.shape:
        raise DataError(
            f"start has a latent matrix of {start.latent.shape}, this problem one of"
            f" {problem.shape}; start from a fit of the same blocks and items"
        )
    if start.problem.digest != problem.digest:
        return Start(start.point)
    certificate = Certificate(start.objective, start.bound, dict(start.effects), start.rounding)
    backend = start.backend if solver is None else solver.solver.name
    return Start(start.point, certificate, backend, solver)

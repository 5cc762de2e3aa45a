"""A model bound to data, checked once, and its objective."""

from collections.abc import Mapping
from functools import cached_property
from itertools import takewhile
from operator import attrgetter
from typing import Any, ClassVar

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Shape, is_interval
from mcframe.contracts.errors import DataError, UnobservedWarning, warn_caller
from mcframe.contracts.likelihood import Likelihood, Parametric, UnlabeledLoss
from mcframe.contracts.rounding import TINY
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Constraint, Factored, Spectral, Sums, Term
from mcframe.model.binding import (
    Layout,
    Totals,
    bound_term,
    layout_of,
    notes_on_unobserved,
    origin_in,
    origins_of,
    row_counts,
    same_rows,
    standardised,
    tables_of,
    targets_of,
    worth_a_warning,
)
from mcframe.model.forms import check_scale
from mcframe.model.model import Model, terms_with_weight
from mcframe.model.table import Table, TableWithoutData
from mcframe.model.transforms import Chain, latent_places
from mcframe.numerics.blockwise import Blockwise
from mcframe.numerics.operators import LowRank, Scales
from mcframe.numerics.unlabeled import ImplicitCells, QuadraticCells
from mcframe.storage.digest import digest_of

# What distinguishes the data of a block from others.
DATA_ATTRIBUTES = attrgetter(
    "shape", "rows", "columns", "values", "weights", "offset", "has_implicit_cells", "original"
)


def cells_of_loss(
    loss: UnlabeledLoss, scale: float, shape: Shape, rows: IntArray, columns: IntArray
) -> ImplicitCells:
    """Return the losses of all cells but some, times a scale."""
    if loss.quadratic is None:
        return Blockwise(loss, scale, shape, rows, columns)
    weight, centre, constant = loss.quadratic
    return QuadraticCells(scale * weight, centre, scale * constant, shape, rows, columns)


@stored
@attrs.frozen(eq=False, repr=False)
class Problem:
    """A model with checked data. ``Problem.bind(model, data)`` makes one.

    ``objective`` is the objective that every backend minimises, computed independently of them.
    Effects are relative to ``origins``, numbers close to the data, so that a column far from 0 is
    fitted as exactly as one around 0.
    """

    model: Model
    tables: Mapping[str, Table]
    totals: Totals
    terms: tuple[Term, ...]
    n_items: int
    index: Any
    notes: tuple[str, ...]
    origins: Mapping[str, Array] = attrs.field(factory=dict)
    # Whether the rows are in a store, where they stay: no file holds them.
    rows_elsewhere: ClassVar[bool] = False

    @classmethod
    def bind(cls, model: Model, data: Mapping[str, Any]) -> "Problem":
        """Check data against a model; every message names block, column, value and remedy.

        Parameters
        ----------
        model : Model
        data : mapping from block name to array, DataFrame, scipy.sparse matrix or Observations
            Each (n_items x columns of the block); NaN, or not stored, means missing.

        Raises
        ------
        DataError
            If the data do not fit the model.
        """
        tables = tables_of(model, data)
        problem = cls.of_tables(model, tables)
        unobserved = notes_on_unobserved(model, tables, problem.n_items)
        for note in worth_a_warning(unobserved):
            warn_caller(note, UnobservedWarning)
        return attrs.evolve(problem, notes=unobserved)

    @classmethod
    def of_tables(
        cls, model: Model, tables: Mapping[str, Table], totals: Totals | None = None
    ) -> "Problem":
        """Return the problem of tables that are already read, without notes; a table may be empty.

        With ``totals`` of other tables, these tables are some of their rows. Quantities over all
        rows, such as units of standardised blocks, then come from ``totals``. Terms are those of
        the rows that are here.

        Raises
        ------
        DataError
            If the tables have different rows, or do not fit a likelihood or a term.
        """
        n_items, index = same_rows(tables.items())
        tables = standardised(model, tables, None if totals is None else totals.standards)
        origins = origins_of(model, tables, None if totals is None else totals.centres)
        totals = totals or Totals.of(model, tables, origins)
        terms = tuple(bound_term(term, model, tables, origins) for term in model.terms)
        problem = cls(model, tables, totals, terms, n_items, index, (), origins)
        for block in model.blocks:
            check_scale(block, problem.scale(block.name), tables[block.name])
        return problem

    @property
    def likelihoods(self) -> Mapping[str, Likelihood]:
        """The likelihood of each block, with what it estimates from all observed values."""
        return self.totals.likelihoods

    @cached_property
    def digest(self) -> str:
        """A digest of the model and of the bits of its data: equal only where both are."""
        return digest_of((self.model, self.digest_of_data))

    @cached_property
    def digest_of_data(self) -> str:
        """A digest of the bits of all blocks: equal only for equal entries and their additions."""
        return digest_of(
            [
                (name, *DATA_ATTRIBUTES(table), *(part for part in added if part is not None))
                for name, table in self.tables.items()
                for added in [(table.intervals, table.propensities)]
            ]
        )

    def with_weight(self, place: int, weight: float) -> "Problem":
        """Return the problem with another weight of one term; the data are shared."""
        declared = terms_with_weight(self.model.terms, place, weight)
        bound = terms_with_weight(self.terms, place, weight)
        return attrs.evolve(self, model=attrs.evolve(self.model, terms=declared), terms=bound)

    def without_data(self) -> "Problem":
        """Return the problem without its entries: shapes, labels and what was counted over them.

        What needs an entry raises a ``ModelError``.
        """
        tables: Any = {
            name: TableWithoutData.of(name, table) for name, table in self.tables.items()
        }
        terms = tuple(
            declared if declared.needs_values else term
            for declared, term in zip(self.model.terms, self.terms, strict=True)
        )
        return attrs.evolve(self, tables=tables, terms=terms)

    @property
    def n_columns(self) -> int:
        """Columns of Z: all blocks, then those that constraints add."""
        return self.n_block_columns + self.model.extra_columns

    @property
    def n_block_columns(self) -> int:
        """Columns of Z that belong to blocks."""
        return sum(self.n_latent(block.name) for block in self.model.blocks)

    def n_latent(self, name: str) -> int:
        """Columns of Z that belong to a block: one for each of its data, or one for each class."""
        return self.model.block(name).likelihood.width * self.tables[name].shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of Z."""
        return self.n_items, self.n_columns

    @property
    def n_observed(self) -> int:
        """Observed entries of all blocks."""
        return sum(table.n_observed for table in self.tables.values())

    def implicit_cells(self, name: str) -> ImplicitCells | None:
        """The losses of a block's cells that are no entries, scale included, if there are any."""
        loss, table = self.likelihoods[name].unlabeled, self.tables[name]
        if loss is None or not table.has_implicit_cells:
            return None
        return cells_of_loss(loss, self.scale(name), table.shape, table.rows, table.columns)

    def written_out(self) -> "Problem":
        """Return the problem with every cell that carries loss among its entries."""
        tables = {
            name: table.with_all_cells() if table.has_implicit_cells else table
            for name, table in self.tables.items()
        }
        return attrs.evolve(self, tables=tables)

    def columns(self, name: str) -> slice:
        """Return the slice of the columns of Z that belong to a block."""
        width = self.n_latent(name)
        before = takewhile(lambda block: block.name != name, self.model.blocks)
        start = sum(self.n_latent(block.name) for block in before)
        return slice(start, start + width)

    def scale(self, name: str) -> float:
        """weight / N: the factor of an entry of a block, without the weight of the entry."""
        block = self.model.block(name)
        return block.weight / (self.totals.weights[name] if block.reduce == "mean" else 1.0)

    def layout(self, name: str) -> Layout:
        """The free numbers of a block: effects and fitted parameters."""
        return layout_of(self.model.block(name), self.tables[name])

    def targets(self, name: str, table: Table | None = None) -> Array:
        """The y of the losses of a block, one for each entry that carries loss.

        These are the values, of a location less offset and origin, since its losses are functions
        of differences. ``table`` may have other entries, in the units of the block.
        """
        block, fitted = self.model.block(name), self.tables[name]
        origin = origin_in(self.origins, block, fitted)
        return targets_of(block, fitted if table is None else table, origin)

    def transforms(self, name: str) -> Chain:
        """The way from the units of the data to those of losses: offset, units, origin.

        The values of a location go it, and predictors come back by ``invert``; ``print`` shows it.
        """
        block, table = self.model.block(name), self.tables[name]
        return Chain.of(*table.transforms, origin_in(self.origins, block, table))

    def predictor_offsets(self, name: str, table: Table | None = None) -> Array | None:
        """The offsets that stay in the predictor at the entries; those of a location do not."""
        if self.model.block(name).likelihood.location:
            return None
        return (self.tables[name] if table is None else table).offsets

    def ridge(self, name: str) -> float:
        """The weight of the ridge on a block's effects, in units of the objective."""
        weight = self.model.block(name).effects_weight
        # A weight that underflows still means a ridge, with which a block has an intercept.
        return max(self.scale(name) * weight, TINY) if weight else 0.0

    def reported_effects(self, name: str, effects: Mapping[str, Array]) -> Array:
        """A block's effects counted from 0, as they are reported.

        With biases, unpenalised row effects are reported with a mean of 0 over the rows with
        entries: a constant may be traded between both kinds.
        """
        layout, total = self.layout(name), effects[name].copy()
        if name in self.origins:
            total += self.origins[name]
        if layout.n_biases and layout.n_row_effects and not self.ridge(name):
            of_rows = layout.row_effects(total)
            mean = float(np.mean(of_rows[self.tables[name].rows_with_entries]))
            of_rows -= mean
            layout.biases(total)[:] += mean
        return total

    def likelihood(self, name: str, effects: Mapping[str, Array]) -> Likelihood:
        """A block's likelihood with its fitted parameters, if it has any."""
        likelihood = self.likelihoods[name]
        layout = self.layout(name)
        if layout.n_parameters:
            assert isinstance(likelihood, Parametric)
            return likelihood.with_parameters(layout.parameters(effects[name]))
        return likelihood

    def predictors_and_targets(
        self,
        name: str,
        latent: LowRank,
        effects: Mapping[str, Array],
        table: Table | None = None,
    ) -> tuple[Array, Array]:
        """The predictors and the targets at the entries of a block, as its losses take them.

        In standard units, those of a location less offset and origin. ``table`` may have other
        entries, in the units of the block.
        """
        table = self.tables[name] if table is None else table
        z = self.fitted_at(name, latent, effects, table.rows, table.columns)
        added = self.predictor_offsets(name, table)
        return z if added is None else z + added, self.targets(name, table)

    def fitted_at(
        self,
        name: str,
        latent: LowRank,
        effects: Mapping[str, Array],
        rows: IntArray,
        columns: IntArray,
    ) -> Array:
        """Z + effects at some entries, less origin and offset: what targets are compared with."""
        block_latent = latent.columns(self.columns(name))
        rows, columns = self.latent_places(name, rows, columns)
        rows = np.broadcast_to(rows, columns.shape)
        z = block_latent.at(rows.ravel(), columns.ravel()).reshape(columns.shape)
        return z + self.layout(name).at(rows, columns, effects[name]) if name in effects else z

    def latent_places(
        self, name: str, rows: IntArray, columns: IntArray
    ) -> tuple[IntArray, IntArray]:
        """The places of the numbers of a block's part of Z at cells, K for each of K classes."""
        return latent_places(rows, columns, self.model.block(name).likelihood.width)

    @cached_property
    def row_counts(self) -> IntArray:
        """The number of losses in each row of Z."""
        return row_counts(self.model, self.tables)

    def scales_of(self, term: Term) -> Scales | None:
        """The scales of the matrix ``R Z C`` that a term is given; None where it is given Z."""
        if not term.count_share:
            return None
        assert self.totals.counts is not None
        return self.totals.counts.scales(
            term.count_share, self.row_counts, self.model.extra_columns
        )

    def counted_from_zero(self) -> "Problem":
        """Return the problem whose effects are counted from 0, as users count them."""
        if not self.origins:
            return self
        terms = tuple(bound_term(term, self.model, self.tables, {}) for term in self.model.terms)
        return attrs.evolve(self, origins={}, terms=terms)

    def effects_in_term(self, term: Term) -> Layout | None:
        """The effects of a block that a term of its predictors speaks of; None without any."""
        if not isinstance(term, Sums) or term.block is None:
            return None
        layout = self.layout(str(term.block))
        return layout if layout.n_effects else None

    def argument_of(self, term: Term, latent: LowRank, effects: Mapping[str, Array]) -> Array:
        """The matrix that a term is given: its columns of Z, with effects if it is of predictors.

        Without the scales of a term with a ``count_share``.
        """
        columns = latent.columns(self.columns_of_term(term)).dense()
        layout = self.effects_in_term(term)
        if layout is None:
            return columns
        return columns + layout.of_cells(effects[str(term.block)], columns.shape)

    def columns_of_term(self, term: Term) -> slice:
        """The columns of Z that a term speaks of."""
        if term.block is not None:
            return self.columns(term.block)
        if isinstance(term, Constraint) and term.extra_columns:
            return slice(self.n_block_columns, self.n_columns)
        if isinstance(term, Spectral | Factored):
            return slice(0, self.n_columns)
        return slice(0, self.n_block_columns)

    def objective(self, latent: "LowRank | Array", effects: Mapping[str, Array]) -> float:
        """The objective at Z and the unpenalised numbers; ``inf`` where a constraint is violated.

        Parameters
        ----------
        latent : LowRank or array
            Z, of ``shape``. Of a max norm, whose value is a minimum over factorisations, a
            ``LowRank`` gives the value for its factors, an array the minimum.
        effects : mapping from block name to array
            For each block that has them: one bias a column, one effect an item, an intercept,
            the parameters of its likelihood, in this order; counted from ``origins``.
        """
        self.check_point(latent, effects)
        factors = latent if isinstance(latent, LowRank) else None
        latent = latent if isinstance(latent, LowRank) else LowRank.of(np.asarray(latent))
        total = self.loss(latent, effects)
        singular_values = latent.singular_values()
        for term in self.terms:
            whole = term.block is None
            scales = self.scales_of(term)
            if whole and isinstance(term, Spectral):
                total += term.of_singular_values(
                    singular_values if scales is None else scales.apply(latent).singular_values()
                )
            elif whole and isinstance(term, Factored) and factors is not None:
                total += term.of_factors(factors.balance())
            else:
                total += term.value(self.argument_of(term, latent, effects))
        return total

    def loss(self, latent: LowRank, effects: Mapping[str, Array]) -> float:
        """The losses of all blocks at Z and the unpenalised numbers."""
        total = 0.0
        for block in self.model.blocks:
            total += self.loss_of_cells(block.name, latent, effects)
            total += self.cost_of_effects(block.name, effects)
        return total

    def loss_of_cells(self, name: str, latent: LowRank, effects: Mapping[str, Array]) -> float:
        """The losses of the entries of one block, and those of its unwritten cells."""
        table, (z, y) = self.tables[name], self.predictors_and_targets(name, latent, effects)
        losses = self.likelihood(name, effects).value(z, y)
        losses = losses if table.weights is None else table.weights * losses
        total, cells = self.scale(name) * float(np.sum(losses)), self.implicit_cells(name)
        if cells is not None:
            block_latent = latent.columns(self.columns(name))
            total += float(np.sum(cells.of_lines(block_latent, z, by_rows=True)))
        return total

    def cost_of_effects(self, name: str, effects: Mapping[str, Array]) -> float:
        """The ridge on a block's effects, 0 where there is none."""
        if not self.ridge(name):
            return 0.0
        total = effects[name] + self.origins.get(name, 0.0)
        return 0.5 * self.ridge(name) * float(np.dot(total, total))

    def check_point(self, latent: "LowRank | Array", effects: Mapping[str, Array]) -> None:
        """Shapes of Z and effects, or a ``DataError``: a wrong one would give a wrong value."""
        shape = tuple(latent.shape) if isinstance(latent, LowRank) else np.shape(latent)
        if shape != self.shape:
            raise DataError(f"Z of shape {shape} was given; {self.shape} is needed")
        sizes = {block.name: self.layout(block.name).size for block in self.model.blocks}
        needed = {name: (size,) for name, size in sizes.items() if size}
        shapes = {name: np.shape(vector) for name, vector in effects.items()}
        if shapes != needed:
            raise DataError(f"effects of shapes {shapes} were given; {needed} are needed")

    def __repr__(self) -> str:
        lines = [str(self.model), ""]
        for block in self.model.blocks:
            table = self.tables[block.name].in_data_units()
            unlabeled = table.has_implicit_cells or table.n_entries > table.n_observed
            least = 0.0 if table.propensities is None else np.min(table.propensities)
            n_limited = int(np.count_nonzero(is_interval(table.observations)))
            lines.append(
                f"{block.name}: {table.shape[0]} x {table.shape[1]},"
                f" {table.n_observed} observed ({table.n_observed / table.n_cells:.0%})"
                + f", {n_limited} of them between limits" * (n_limited > 0)
                + ", the others carry loss as unlabeled" * unlabeled
                + ", with weights" * (table.weights is not None)
                + ", with offsets" * (table.offset is not None)
                + f", with propensities down to {least:.3g}" * bool(least)
            )
        lines += [t.summary for t in self.model.terms if isinstance(t, Sums) and t.summary]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

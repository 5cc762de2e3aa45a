"""A model bound to data: checked once, and the one judge of every backend."""

import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import DataError, ModelError, UnobservedWarning
from mcframe.contracts.likelihood import Likelihood, Parametric
from mcframe.contracts.term import Constraint, Factored, Regularizer, Spectral, Term
from mcframe.model.block import Block
from mcframe.model.layout import Layout
from mcframe.model.model import Model
from mcframe.model.origin import origin_of
from mcframe.model.table import Table, check_observed, read_table, same_rows
from mcframe.numerics.blockwise import Blockwise
from mcframe.numerics.digest import digest_of
from mcframe.numerics.operators import LowRank
from mcframe.numerics.uniform import Uniform
from mcframe.numerics.unwritten import Unwritten

UNLABELED = np.array([np.nan])
__all__ = ["Problem"]

# What is predicted in a column without an observed entry.
NOT_LEARNT = "Z = 0, not learnt from data"
MEAN_BIAS = "Z = 0 and the mean of the other columns' biases, not learnt from that column"
FROM_UNLABELED = "learnt from its unlabeled entries alone"


@attrs.frozen(eq=False, repr=False)
class Problem:
    """A model with data, checked. ``Problem.bind(model, data)`` makes one.

    ``objective`` is the only judge of every backend; it belongs to none of them. Effects are
    counted from ``origins``, where a block has one: a number for each of them that is close to
    the data, so that a column far from 0 is fitted as exactly as one around 0.
    """

    model: Model
    tables: Mapping[str, Table]
    likelihoods: Mapping[str, Likelihood]
    terms: tuple[Term, ...]
    n_items: int
    index: Any
    notes: tuple[str, ...]
    origins: Mapping[str, Array] = attrs.field(factory=dict)

    @classmethod
    def bind(cls, model: Model, data: Mapping[str, Any]) -> "Problem":
        """Check data against a model: every message names block, column, value and remedy.

        Parameters
        ----------
        model : Model
        data : mapping from block name to array, DataFrame, scipy.sparse matrix or Observations
            Each (n_items x columns of the block); NaN, or not stored, means missing.

        Raises
        ------
        DataError
            For anything in the data that the model cannot mean.
        """
        if not isinstance(model, Model):
            raise ModelError(f"{type(model).__name__} was given where a Model is needed")
        if not isinstance(data, Mapping):
            raise DataError(
                f"data of type {type(data).__name__} were given; a dict from block name to"
                f" matrix is needed, here with {block_names(model)}"
            )
        for name in data:
            if name not in {block.name for block in model.blocks}:
                raise DataError(
                    f"data hold {name!r}, which no block is named; the blocks are"
                    f" {block_names(model)}"
                )
        for block in model.blocks:
            if block.name not in data:
                raise DataError(f"block {block.name!r} has no data; add data[{block.name!r}]")
        tables = {
            block.name: read_table(block, data[block.name], stays_unwritten(model, block))
            for block in model.blocks
        }
        for block in model.blocks:
            check_observed(block, tables[block.name])
        problem = cls.of_tables(model, tables)
        unobserved = notes_on(model, tables, problem.n_items)
        for note in unobserved:
            warnings.warn(note, UnobservedWarning, stacklevel=3)
        return attrs.evolve(problem, notes=(*unobserved, *notes_on_sums(model, tables)))

    @classmethod
    def of_tables(cls, model: Model, tables: Mapping[str, Table]) -> "Problem":
        """The problem of tables that are read, without notes; a table may be empty.

        Raises
        ------
        DataError
            Where the tables have different rows, or do not fit a likelihood or a term.
        """
        n_items, index = same_rows(tables.items())
        origins = origins_of(model, tables)
        targets = {
            block.name: targets_of(block, tables[block.name].observed(), origins.get(block.name))
            for block in model.blocks
        }
        size = size_of_predictors(model, targets)
        likelihoods = {
            block.name: bound_likelihood(block, tables[block.name], targets[block.name], size)
            for block in model.blocks
        }
        terms = tuple(bound(term, model, tables) for term in model.terms)
        return cls(model, tables, likelihoods, terms, n_items, index, (), origins)

    @cached_property
    def digest(self) -> str:
        """A digest of the model and of the bits of its data: equal only where both are."""
        return digest_of((self.model, self.digest_of_data))

    @cached_property
    def digest_of_data(self) -> str:
        """A digest of the bits of all blocks: equal only for equal entries and their additions."""
        return digest_of(
            [
                (name, t.shape, t.rows, t.columns, t.values, t.weights, t.offset, t.unwritten)
                for name, t in self.tables.items()
            ]
        )

    def reweighted(self, place: int, weight: float) -> "Problem":
        """The same data, which are shared, with another weight of the term at that place."""

        def changed(terms: tuple[Term, ...]) -> tuple[Term, ...]:
            term = attrs.evolve(terms[place], weight=weight)  # type: ignore[misc]
            return (*terms[:place], term, *terms[place + 1 :])

        model = attrs.evolve(self.model, terms=changed(self.model.terms))
        return attrs.evolve(self, model=model, terms=changed(self.terms))

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
        return self.tables[name].shape[1] * self.model.block(name).likelihood.width

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of Z."""
        return self.n_items, self.n_columns

    @property
    def n_observed(self) -> int:
        """Observed entries of all blocks."""
        return sum(table.n_observed for table in self.tables.values())

    def unwritten(self, name: str) -> Unwritten | None:
        """The losses of a block's cells that are no entries, scale included, if there are any."""
        loss, table = self.likelihoods[name].unlabeled, self.tables[name]
        if loss is None or not table.unwritten:
            return None
        scale, places = self.scale(name), (table.shape, table.rows, table.columns)
        if loss.quadratic is None:
            return Blockwise(loss, scale, *places)
        weight, centre, constant = loss.quadratic
        return Uniform(scale * weight, centre, scale * constant, *places)

    def written_out(self) -> "Problem":
        """The same problem with every cell that carries loss among the entries."""
        tables = {
            name: table.completed() if table.unwritten else table
            for name, table in self.tables.items()
        }
        return attrs.evolve(self, tables=tables)

    def columns(self, name: str) -> slice:
        """Where a block's columns stand in Z."""
        self.model.block(name)
        start = 0
        for block in self.model.blocks:
            stop = start + self.n_latent(block.name)
            if block.name == name:
                return slice(start, stop)
            start = stop
        raise AssertionError("unreachable: the model has just been asked for the block")

    def scale(self, name: str) -> float:
        """weight / N: what one entry of a block counts, its own weight aside."""
        block = self.model.block(name)
        return block.weight / (self.tables[name].total_weight if block.reduce == "mean" else 1.0)

    def layout(self, name: str) -> Layout:
        """The free numbers of a block: effects and fitted parameters."""
        return layout_of(self.model.block(name), self.tables[name])

    def targets(self, name: str) -> Array:
        """What the losses of a block are given as y, one for each entry that carries loss.

        The values; of a location, which sees nothing but differences, less offset and origin.
        """
        return targets_of(self.model.block(name), self.tables[name], self.origins.get(name))

    def added(self, name: str) -> Array | None:
        """The offsets that stay in the predictor at the entries; those of a location do not."""
        if self.model.block(name).likelihood.location:
            return None
        return self.tables[name].offsets

    def ridge(self, name: str) -> float:
        """The weight of the ridge on a block's effects beside the objective's other summands."""
        return self.scale(name) * (self.model.block(name).effects_weight or 0.0)

    def effects(self, name: str, effects: Mapping[str, Array]) -> Array:
        """A block's effects counted from 0, as they are reported.

        Beside biases unpenalised row effects are reported with a mean of 0 over the rows with
        entries: a constant may be traded between both kinds.
        """
        layout, total = self.layout(name), effects[name].copy()
        if name in self.origins:
            total += self.origins[name]
        if layout.n_biases and layout.n_row_effects and not self.ridge(name):
            own = layout.row_effects(total)
            mean = float(np.mean(own[np.unique(self.tables[name].rows)]))
            own -= mean
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

    def predictor(self, name: str, latent: LowRank, effects: Mapping[str, Array]) -> Array:
        """Z + effects + offset of a block (n_items x its latent columns), dense."""
        z = latent.columns(self.columns(name)).dense()
        for numbers in (effects, self.origins):
            if name in numbers:
                z = self.layout(name).add_to(z, numbers[name])
        offset = self.tables[name].offset
        return z if offset is None else z + offset

    def predictor_at_entries(
        self, name: str, latent: LowRank, effects: Mapping[str, Array]
    ) -> Array:
        """The same at the entries that carry loss: one number each, or one a class."""
        table = self.tables[name]
        return self.predictor_at(name, latent, effects, table.rows, table.columns)

    def predictor_at(
        self,
        name: str,
        latent: LowRank,
        effects: Mapping[str, Array],
        rows: IntArray,
        columns: IntArray,
    ) -> Array:
        """The same at any entries of the block, by their rows and columns, not forming Z."""
        z = self.fitted_at(name, latent, effects, rows, columns)
        if name in self.origins:  # of a location, which has one latent column for each of its data
            z = z + self.layout(name).at(rows, columns, self.origins[name])
        added = self.tables[name].offset_at(rows, columns)
        return z if added is None else z + added

    def fitted_at(
        self,
        name: str,
        latent: LowRank,
        effects: Mapping[str, Array],
        rows: IntArray,
        columns: IntArray,
    ) -> Array:
        """Z + effects at some entries, less origin and offset: what targets are compared with."""
        width = self.model.block(name).likelihood.width
        here = latent.columns(self.columns(name))
        places = columns[:, None] * width + np.arange(width)
        z = here.at(np.repeat(rows, width), places.ravel()).reshape(places.shape)
        if name in effects:
            z = z + self.layout(name).at(rows, places, effects[name])
        return z if width > 1 else z[:, 0]

    def placed(self, term: Term) -> slice:
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
            ``LowRank`` gives the value for its own factors, an array the minimum.
        effects : mapping from block name to array
            For each block that has them: one bias a column, one effect an item, an intercept,
            the parameters of its likelihood, in this order; counted from ``origins``.
        """
        self.check_point(latent, effects)
        given = latent if isinstance(latent, LowRank) else None
        latent = latent if isinstance(latent, LowRank) else LowRank.of(np.asarray(latent))
        total = self.loss(latent, effects)
        singular_values = latent.singular_values()
        for term in self.terms:
            if term.block is not None:
                total += term.value(latent.columns(self.placed(term)).dense())
            elif isinstance(term, Spectral):
                total += term.of_singular_values(singular_values)
            elif isinstance(term, Factored) and given is not None:
                total += term.of_factors(given.balanced())
            else:
                total += term.value(latent.columns(self.placed(term)).dense())
        return total

    def loss(self, latent: LowRank, effects: Mapping[str, Array]) -> float:
        """The losses of all blocks at Z and the unpenalised numbers."""
        total = 0.0
        for block in self.model.blocks:
            name, table = block.name, self.tables[block.name]
            z = self.fitted_at(name, latent, effects, table.rows, table.columns)
            added = self.added(name)
            if added is not None:
                z = z + added
            losses = self.likelihood(name, effects).value(z, self.targets(name))
            losses = losses if table.weights is None else table.weights * losses
            total += self.scale(name) * float(np.sum(losses)) + self.cost_of_effects(name, effects)
            cells = self.unwritten(block.name)
            if cells is not None:
                here = latent.columns(self.columns(block.name))
                total += float(np.sum(cells.of_lines(here, z, by_rows=True)))
        return total

    def cost_of_effects(self, name: str, effects: Mapping[str, Array]) -> float:
        """The ridge on a block's effects, 0 where there is none."""
        if not self.ridge(name):
            return 0.0
        own = effects[name] + self.origins.get(name, 0.0)
        return 0.5 * self.ridge(name) * float(np.dot(own, own))

    def check_point(self, latent: "LowRank | Array", effects: Mapping[str, Array]) -> None:
        """Shapes of Z and effects, or a ``DataError``: a wrong one would give a wrong value."""
        shape = tuple(latent.shape) if isinstance(latent, LowRank) else np.shape(latent)
        if shape != self.shape:
            raise DataError(f"Z of shape {shape} was given; {self.shape} is needed")
        sizes = {block.name: self.layout(block.name).size for block in self.model.blocks}
        wanted = {name: (size,) for name, size in sizes.items() if size}
        given = {name: np.shape(vector) for name, vector in effects.items()}
        if given != wanted:
            raise DataError(f"biases of shapes {given} were given; {wanted} are needed")

    def loss_at_zero(self) -> float:
        """The losses at Z = 0 and effects of 0, or the values where they are infinite: a size.

        Parameters of a likelihood are the best ones there. Where all losses are 0 the weights
        stand in for them. No certificate counts with it.
        """
        total = counted = 0.0
        for block in self.model.blocks:
            table, values = self.tables[block.name], self.targets(block.name)
            weights = np.ones(table.n_entries) if table.weights is None else table.weights
            width = block.likelihood.width
            z = np.zeros((table.n_entries, width)) if width > 1 else np.zeros(table.n_entries)
            likelihood = self.likelihoods[block.name]
            if isinstance(likelihood, Parametric) and likelihood.n_parameters:
                best = likelihood.best_parameters(z, values, weights, None)
                likelihood = likelihood.with_parameters(best)
            losses = weights * np.abs(likelihood.value(z, values))
            losses = np.where(np.isfinite(losses), losses, weights * np.abs(values))
            total += self.scale(block.name) * float(np.sum(losses))
            counted += self.scale(block.name) * float(np.sum(weights))
            if table.unwritten:
                unlabeled = self.scale(block.name) * (table.n_cells - table.n_entries)
                total += unlabeled * float(np.abs(likelihood.value(np.zeros(1), UNLABELED))[0])
                counted += unlabeled
        return total if total > 0.0 else counted

    def __repr__(self) -> str:
        lines = [str(self.model), ""]
        for block in self.model.blocks:
            table = self.tables[block.name]
            unlabeled = table.unwritten or table.n_entries > table.n_observed
            lines.append(
                f"{block.name}: {table.shape[0]} x {table.shape[1]},"
                f" {table.n_observed} observed ({table.n_observed / table.n_cells:.0%})"
                + ", the others carry loss as unlabeled" * unlabeled
                + ", with weights" * (table.weights is not None)
                + ", with offsets" * (table.offset is not None)
            )
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def stays_unwritten(model: Model, block: Block) -> bool:
    """Whether the unlabeled cells of a block, if many, need not be among the entries.

    That takes one convex loss for all of them, of bounded curvature, and a solver that works in
    factors: smooth losses and a norm of all of Z that is a function of singular values and of
    factors, and nothing else.
    """
    if block.likelihood.unlabeled is None or block.bias or block.row_effects:
        return False
    losses = [other.likelihood for other in model.blocks]
    if not all(loss.smooth and loss.convex for loss in losses) or len(model.terms) != 1:
        return False
    term = model.terms[0]
    both = isinstance(term, Spectral) and isinstance(term, Factored)
    return both and isinstance(term, Regularizer) and term.block is None


def layout_of(block: Block, table: Table) -> Layout:
    """The free numbers of a block with these data."""
    likelihood = block.likelihood
    return Layout(
        n_biases=table.shape[1] * likelihood.width if block.bias else 0,
        n_row_effects=table.shape[0] if block.row_effects else 0,
        n_intercepts=int(block.intercept),
        n_parameters=likelihood.n_parameters if isinstance(likelihood, Parametric) else 0,
    )


def origins_of(model: Model, tables: Mapping[str, Table]) -> dict[str, Array]:
    """Where the effects of locations count from, for those blocks that lie far from 0."""
    origins = {}
    for block in model.blocks:
        table = tables[block.name].observed()
        layout = layout_of(block, table)
        if block.likelihood.location and layout.n_effects:
            values = targets_of(block, table, None)
            origin = origin_of(layout, table.rows, table.columns, values)
            if origin is not None:
                origins[block.name] = origin
    return origins


def targets_of(block: Block, table: Table, origin: Array | None) -> Array:
    """The values of a table; of a location less offset and origin, in this order."""
    values = table.values
    if not block.likelihood.location:
        return values
    if table.offsets is not None:
        values = values - table.offsets
    if origin is not None:
        layout = layout_of(block, table)
        # One kind after the other: each of the differences is exact.
        if layout.n_biases:
            values = values - layout.biases(origin)[table.columns]
        if layout.n_row_effects:
            values = values - layout.row_effects(origin)[table.rows]
    return values


def size_of_predictors(model: Model, targets: Mapping[str, Array]) -> float:
    """The largest target of a location; of others, whose predictors have no unit, 1."""
    sizes = [
        float(np.max(np.abs(targets[block.name]), initial=0.0))
        if block.likelihood.location
        else 1.0
        for block in model.blocks
    ]
    return max(sizes) or 1.0


def bound_likelihood(block: Block, table: Table, targets: Array, size: float) -> Likelihood:
    """The likelihood of a block with what it estimates from the observed values.

    Where all of them are alike, and so 0 once centred, those of the others say how large they are.
    """
    known = targets
    if block.likelihood.location and targets.size and not targets.any():
        known = np.array([size])
    try:
        return block.likelihood.bound_to(table.shape, known)
    except DataError as error:
        raise DataError(f"block {block.name!r}: {error}") from None


def bound(term: Term, model: Model, tables: Mapping[str, Table]) -> Term:
    """A term with the data of its block, checked against the shape of its columns of Z."""
    if term.block is None:
        return term
    table = tables[term.block].observed()
    n_rows, n_columns = table.shape
    shape = (n_rows, n_columns * model.block(term.block).likelihood.width)
    return term.bound_to(shape, table.rows, table.columns, table.values)


def block_names(model: Model) -> str:
    """The names of a model's blocks, quoted."""
    return ", ".join(repr(block.name) for block in model.blocks)


def notes_on(model: Model, tables: Mapping[str, Table], n_items: int) -> tuple[str, ...]:
    """What is allowed but worth saying: columns and rows without an observed entry."""
    notes = []
    for name, table in tables.items():
        block = model.block(name)
        unlearnt = MEAN_BIAS if block.bias else NOT_LEARNT
        observed = table.observed()
        counts = np.bincount(observed.columns, minlength=table.shape[1])
        empty = np.flatnonzero(counts == 0)
        if empty.size:
            first = table.column_label(int(empty[0]))
            others = f" and {empty.size - 1} more columns" if empty.size > 1 else ""
            notes.append(
                f"block {name!r}: column {first}{others} without one observed entry;"
                f" what is predicted there is"
                f" {FROM_UNLABELED if block.likelihood.reads_unlabeled else unlearnt}"
            )
    seen = np.zeros(n_items, dtype=bool)
    for table in tables.values():
        seen[slice(None) if table.unwritten else table.rows] = True
    if not seen.all():
        first_row = int(np.flatnonzero(~seen)[0])
        others = f" and {int((~seen).sum()) - 1} more rows" if (~seen).sum() > 1 else ""
        notes.append(
            f"row {first_row}{others} without one observed entry in any block;"
            " what is predicted there is not learnt from that row"
        )
    return tuple(notes)


def notes_on_sums(model: Model, tables: Mapping[str, Table]) -> tuple[str, ...]:
    """Where a term states sums of Z that are not those of means, which users may have in mind."""
    notes = []
    for term in model.terms:
        if term.block is None or not term.states_sums:
            continue
        block = model.block(term.block)
        beside = {
            "biases": block.bias,
            "effects of rows": block.row_effects,
            "offsets": tables[term.block].offset is not None,
        }
        apart = ", ".join(name for name, there in beside.items() if there)
        if block.likelihood.z_name or apart:
            notes.append(
                f"block {term.block!r}: {term.word} is about sums of Z"
                + (f", which is {block.likelihood.z_name}" if block.likelihood.z_name else "")
                + (f", without {apart}" if apart else "")
                + ", and not about sums of means"
            )
    return tuple(notes)

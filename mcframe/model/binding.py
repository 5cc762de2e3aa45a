"""Data checked against a model: a table and effects for each block, totals, notes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask, Shape, points_of, sizes_of
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.likelihood import Likelihood, Parametric
from mcframe.contracts.row_stores import refuse_stores
from mcframe.contracts.stored_classes import stored
from mcframe.contracts.term import Factored, Regularizer, Spectral, Sums, Term
from mcframe.contracts.validators import a_type, all_and_meant, counted, is_missing
from mcframe.contracts.wording import row_number
from mcframe.model.model import Block, Model
from mcframe.model.reading import read_block
from mcframe.model.standardising import standard_of, weights_of_entries
from mcframe.model.table import Standard, Table
from mcframe.model.transforms import Chain, Transform, ranges_of
from mcframe.numerics.operators import Scales


@stored
@attrs.frozen
class Layout:
    """The numbers of biases, row effects, intercepts and parameters of a block, in this order.

    ``n_biases`` is 0 or the number of latent columns of the block, ``n_row_effects`` 0 or the
    number of items, ``n_intercepts`` 0 or 1, ``n_parameters`` what its likelihood fits.
    """

    n_biases: int = 0
    n_row_effects: int = 0
    n_intercepts: int = 0
    n_parameters: int = 0

    @property
    def size(self) -> int:
        """The length of the vector."""
        return self.n_effects + self.n_parameters

    @property
    def n_effects(self) -> int:
        """The number of effects, which are added to Z; they come before the parameters."""
        return self.n_biases + self.n_row_effects + self.n_intercepts

    def biases(self, vector: Array) -> Array:
        """The part of the biases."""
        return vector[: self.n_biases]

    def row_effects(self, vector: Array) -> Array:
        """The part of the row effects."""
        return vector[self.n_biases : self.n_biases + self.n_row_effects]

    def intercept(self, vector: Array) -> float:
        """The intercept, 0 where there is none."""
        return float(vector[self.n_effects - 1]) if self.n_intercepts else 0.0

    def parameters(self, vector: Array) -> Array:
        """The part of the parameters."""
        return vector[self.n_effects :]

    def of_cells(self, vector: Array, shape: Shape) -> Array:
        """The sum of the effects in every cell (n_rows x latent columns): E e."""
        total = np.full(shape, self.intercept(vector))
        if self.n_biases:
            total += self.biases(vector)
        if self.n_row_effects:
            total += self.row_effects(vector)[:, None]
        return total

    def sums_of_cells(self, matrix: Array) -> Array:
        """The sums of a matrix over the cells of each effect (n_effects,): E'Y."""
        sums = []
        if self.n_biases:
            sums.append(matrix.sum(axis=0))
        if self.n_row_effects:
            sums.append(matrix.sum(axis=1))
        if self.n_intercepts:
            sums.append(np.array([matrix.sum()]))
        return np.concatenate([*sums, np.zeros(0)])

    def sums_of_duals(self, duals: Iterable[Array]) -> tuple[Array, Array]:
        """The sums of matrices over the cells of each effect, and those of the numbers' sizes."""
        sums, sizes = np.zeros(self.n_effects), np.zeros(self.n_effects)
        for dual in duals:
            sums += self.sums_of_cells(dual)
            sizes += self.sums_of_cells(np.abs(dual))
        return sums, sizes

    def name_of(self, place: int) -> str:
        """The name of one of the numbers in messages."""
        if place < self.n_biases:
            return f"bias of column {place}"
        if place < self.n_biases + self.n_row_effects:
            return f"effect of row {place - self.n_biases}"
        if place < self.n_effects:
            return "intercept"
        return f"parameter {place - self.n_effects}"

    def at(self, rows: IntArray, columns: IntArray, vector: Array) -> Array:
        """The sums of the effects at latent entries, by their rows and latent columns.

        ``columns`` may have a last axis for the latent columns of one entry.
        """
        total: Any = self.biases(vector)[columns] if self.n_biases else 0.0
        if self.n_row_effects:
            of_rows = self.row_effects(vector)[rows]
            total = total + (of_rows if columns.ndim == rows.ndim else of_rows[:, None])
        return total + self.intercept(vector)


@attrs.frozen(eq=False)
class Origin(Transform):
    """Less the numbers from which effects are counted, of a location.

    Attributes
    ----------
    layout : Layout
    vector : array (layout.size,)
    """

    layout: Layout
    vector: Array

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """Less origins of biases, then of row effects: each of the differences is exact."""
        if self.layout.n_biases:
            numbers = numbers - self.layout.biases(self.vector)[columns]
        if self.layout.n_row_effects:
            numbers = numbers - self.layout.row_effects(self.vector)[rows]
        return numbers

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The numbers plus their origins."""
        return numbers + self.layout.at(rows, columns, self.vector)

    @property
    def by_column(self) -> Mapping[str, Array]:
        """The origins of biases."""
        return {"origin": self.layout.biases(self.vector)} if self.layout.n_biases else {}

    def __str__(self) -> str:
        kinds = ["column"] * bool(self.layout.n_biases) + ["row"] * bool(self.layout.n_row_effects)
        return f"less the origin of its {' and that of its '.join(kinds)}"


def layout_of(block: Block, table: Table) -> Layout:
    """Return how many free numbers of each kind a block has with these data."""
    likelihood = block.likelihood
    return Layout(
        n_biases=table.shape[1] * likelihood.width if block.bias else 0,
        n_row_effects=table.shape[0] if block.row_effects else 0,
        n_intercepts=int(block.intercept),
        n_parameters=likelihood.n_parameters if isinstance(likelihood, Parametric) else 0,
    )


def standardised(
    model: Model, tables: Mapping[str, Table], standards: Mapping[str, Standard] | None = None
) -> dict[str, Table]:
    """Return the tables of a model's blocks, those of standardised blocks on one scale.

    The scale is that of their entries, or given by ``standards``. A standardised table stays as
    it is.
    """
    scaled = {}
    for block in model.blocks:
        table = tables[block.name]
        if block.standardize and table.original is None:
            standard = standard_of(block, table) if standards is None else standards[block.name]
            table = table.standardised(standard)
            if not np.all(np.isfinite(weights_of_entries(table))):
                raise DataError(
                    f"block {block.name!r}: weights of entries overflow where each column is"
                    " divided by its loss; give smaller weights, or drop standardize="
                )
        scaled[block.name] = table
    return scaled


def origins_of(
    model: Model, tables: Mapping[str, Table], centres: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Return the origins of the effects of locations, for blocks whose values are far from 0.

    ``centres`` are the origins of the biases of all rows, if these tables are some of them; a
    block that is not among them has centres of 0.
    """
    origins = {}
    for block in model.blocks:
        table = tables[block.name].observed_entries()
        layout = layout_of(block, table)
        if block.likelihood.location and layout.n_effects:
            values = points_of(targets_of(block, table))
            block_centres = (
                None if centres is None else centres.get(block.name, np.zeros(layout.n_biases))
            )
            origin = origin_of(layout, table.rows, table.columns, values, block_centres)
            if origin is not None:
                origins[block.name] = origin
    return origins


def targets_of(block: Block, table: Table, origin: Origin | None = None) -> Array:
    """Return the y of losses: the values of a table, of a location through all transforms."""
    return table.targets(origin) if block.likelihood.location else table.observations


def origin_in(origins: Mapping[str, Array], block: Block, table: Table) -> Origin | None:
    """Return the origin of a block as a transform, if it has one among these."""
    if block.name not in origins:
        return None
    return Origin(layout_of(block, table), origins[block.name])


def origin_of(
    layout: Layout, rows: IntArray, columns: IntArray, values: Array, centres: Array | None = None
) -> Array | None:
    """Return a vector of effects close to all values, in the order of the layout; None if it is 0.

    The values of a column, and then the remainders of a row, are centred if they lie within a
    factor of two of each other. Differences from a number between them are then exact (Sterbenz,
    Floating-point computation, 1974): a time stamp, an identifier or a sum in dollars loses no
    digit, and the fitted numbers have the size of the variation. Other values vary by about as
    much as their size, and need no centre.

    ``centres`` (n_biases,) are the origins of the columns if they come from other rows, too.
    """
    origin = np.zeros(layout.size)
    remaining = values
    if layout.n_biases:
        biases = layout.biases(origin)
        if centres is None:
            centres = middles_between(*ranges_of(remaining, columns, biases.size))
        biases[:] = centres
        remaining = remaining - biases[columns]
    if layout.n_row_effects:
        of_rows = layout.row_effects(origin)
        of_rows[:] = middles_between(*ranges_of(remaining, rows, of_rows.size))
    return origin if np.any(origin) else None


def middles_between(lowest: Array, highest: Array) -> Array:
    """Return the middle of each range within a factor of two, 0 of others and of empty ones."""
    above = (lowest > 0.0) & (0.5 * highest <= lowest)
    below = (highest < 0.0) & (0.5 * lowest >= highest)
    far = (above | below) & (lowest <= highest)  # not those without a value
    middle = np.zeros(lowest.size)
    middle[far] = lowest[far] + 0.5 * (highest[far] - lowest[far])
    return middle


# The largest number of cells of a block whose unlabeled ones are written out if they need not be.
MAX_WRITTEN_OUT_CELLS = 20_000_000
# Predictions in a column without an observed entry.
NOT_LEARNT = "Z = 0, not learnt from data"
MEAN_BIAS = "Z = 0 and the mean of the other columns' biases, not learnt from that column"
FROM_UNLABELED = "learnt from its unlabeled entries alone"
# Predictions in a row without an observed entry: all of them are equal.
NOT_RANKED = f"{FROM_UNLABELED}, and which of its columns come first may be rounding"


def check_model(model: object) -> None:
    """Raise a ``ModelError`` where something else was given, as all that ``declare`` returns."""
    if not isinstance(model, Model):
        both = "; give its .model and its .data" * hasattr(model, "data")
        raise ModelError(f"{a_type(model)} was given where a Model is needed{both}")


def tables_of(model: Model, data: Mapping[str, Any]) -> dict[str, Table]:
    """Return the table of each block, read and checked, or raise a ``DataError``."""
    check_model(model)
    refuse_stores(data)
    if not isinstance(data, Mapping):
        raise DataError(
            f"data of type {type(data).__name__} were given; a dict from block name to"
            f" matrix is needed, here with {block_names(model)}"
        )
    names = [block.name for block in model.blocks]
    for name in data:
        if name not in names:
            raise DataError(
                f"data hold {name!r}, which no block is named;"
                f" {all_and_meant(name, names, 'blocks')}"
            )
    for block in model.blocks:
        if block.name not in data:
            raise DataError(f"block {block.name!r} has no data; add data[{block.name!r}]")
    tables = {
        block.name: read_block(
            block,
            data[block.name],
            MAX_WRITTEN_OUT_CELLS if stays_unwritten(model, block) else np.inf,
        )
        for block in model.blocks
    }
    for block in model.blocks:
        table = tables[block.name]
        if table.n_observed == 0:
            raise DataError(
                f"block {block.name!r}: not one of its {table.shape[0]} x {table.shape[1]} entries"
                " is observed; leave the block out of the model, or check that its missing values"
                " and only those are NaN"
            )
    return tables


def stays_unwritten(model: Model, block: Block) -> bool:
    """Return True where the unlabeled cells of a block, if many, need not be among the entries.

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


def bound_term(
    term: Term, model: Model, tables: Mapping[str, Table], origins: Mapping[str, Array]
) -> Term:
    """Return a term with the data of its block, checked against the shape of its columns of Z.

    A term of all blocks gets their shape and no entries.
    """
    if isinstance(term, Sums):
        return bound_sums(term, model, tables, origins)
    if term.block is None:
        return term.bound_to(*shape_without_entries(model.blocks, tables))
    block, table = model.block(term.block), tables[term.block].observed_entries()
    shape = (table.shape[0], table.shape[1] * block.likelihood.width)
    return term.bound_to(shape, table.rows, table.columns, table.values)


def shape_without_entries(
    blocks: Iterable[Block], tables: Mapping[str, Table]
) -> tuple[Shape, IntArray, IntArray, Array]:
    """The shape of the columns of Z of some blocks, and no rows, columns and values."""
    shapes = [(tables[b.name].shape[0], latent_width(b, tables)) for b in blocks]
    nowhere = np.zeros(0, dtype=np.intp)
    return (shapes[0][0], sum(width for _, width in shapes)), nowhere, nowhere, np.zeros(0)


def latent_width(block: Block, tables: Mapping[str, Table]) -> int:
    """The number of columns of Z of a block."""
    return tables[block.name].shape[1] * block.likelihood.width


def sums_by_place(
    term: Sums, model: Model, tables: Mapping[str, Table]
) -> tuple[list[Block], Sums]:
    """Return the blocks whose columns are those of P, and the term with columns by place."""
    blocks = [block for block in model.blocks if term.block in (None, block.name)]
    names = [
        column if term.block is not None else (block.name, column)
        for block in blocks
        for column in tables[block.name].column_names
        for _ in range(block.likelihood.width)
    ]
    widths = [model.block(name).likelihood.width for name in term.block_names]
    return blocks, term.with_columns(names, max(widths))


def bound_sums(
    term: Sums, model: Model, tables: Mapping[str, Table], origins: Mapping[str, Array]
) -> Sums:
    """Return known sums of predictors in the units of the data as sums of Z plus effects.

    The effects are those counted from ``origins``. Of several blocks P has the columns of all
    blocks of the model.
    """
    blocks, named = sums_by_place(term, model, tables)
    bound: Any = named.bound_to(*shape_without_entries(blocks, tables))
    places: list[Array] = []
    units: list[Array] = []
    moved = False
    for block in blocks:
        table, width = tables[block.name].observed_entries(), latent_width(block, tables)
        transforms = Chain.of(*table.transforms, origin_in(origins, block, table))
        unit = transforms.unit(np.arange(width))
        shape = (table.shape[0], width)
        if not transforms or unit is None or block.name not in term.block_names:
            places.append(np.zeros(shape))
            units.append(np.ones(width))
            continue
        moved = True
        places.append(transforms.invert(np.zeros(shape), *np.ogrid[: shape[0], : shape[1]]))
        units.append(np.broadcast_to(unit, (width,)))
    sums: Sums = bound.about(np.hstack(places), np.concatenate(units)) if moved else bound
    return sums


def block_names(model: Model) -> str:
    """The names of a model's blocks, quoted."""
    return ", ".join(repr(block.name) for block in model.blocks)


def same_rows(tables: Iterable[tuple[str, Table]]) -> tuple[int, Any]:
    """The common number of rows and the common index; a DataError where blocks differ."""
    named = list(tables)
    first_name, first = named[0]
    for name, table in named[1:]:
        if table.shape[0] != first.shape[0]:
            raise DataError(
                f"block {first_name!r} has {first.shape[0]} rows but block {name!r} has"
                f" {table.shape[0]}; rows are items, so every block needs the same ones,"
                " in the same order"
            )
    indexed = [(name, table) for name, table in named if table.index is not None]
    for name, table in indexed[1:]:
        one, other = indexed[0][1].index, table.index
        if one.equals(other):
            continue
        # Indexes of different dtypes may have equal labels without being equal.
        pairs = enumerate(zip(one, other, strict=True))
        row = next((row for row, labels in pairs if not same_label(*labels)), None)
        if row is not None:
            theirs, ours = indexed[0][1].row_label(row), table.row_label(row)
            raise DataError(
                f"blocks {indexed[0][0]!r} and {name!r} have different row labels, first"
                f" {theirs} and {ours} in row {row}; align them first,"
                " for example with other.reindex(frame.index)"
            )
    return first.shape[0], indexed[0][1].index if indexed else None


def same_label(one: Any, other: Any) -> bool:
    """Return True for labels that are equal, or both missing."""
    missing = [is_missing(label) or label != label for label in (one, other)]  # NaN != NaN
    return all(missing) if any(missing) else bool(one == other)


@stored
@attrs.frozen(eq=False)
class LossCounts:
    """The number of losses in each column of Z, over all blocks, and in a row on average."""

    columns: Array
    mean_row: float

    @classmethod
    def of(cls, columns: Array, n_items: int) -> "LossCounts":
        """Return the counts of all columns, of a table with so many rows."""
        return cls(columns, float(np.sum(columns)) / n_items)

    def row_scales(self, share: float, rows: IntArray) -> Array:
        """The roots of ``1 - share + share * count / mean count`` of rows with these counts."""
        return np.sqrt(1.0 - share + share * rows / self.mean_row)

    def scales(self, share: float, rows: IntArray, n_extra: int) -> Scales:
        """Scales of rows with these counts and of all columns; those without data have 1."""
        relative = self.columns / np.mean(self.columns)
        columns = np.sqrt(1.0 - share + share * relative)
        return Scales(self.row_scales(share, rows), np.append(columns, np.ones(n_extra)))


@stored
@attrs.frozen(eq=False)
class Totals:
    """Numbers that depend on all rows; everything else of a problem depends on single rows.

    A problem of some of the rows, bound with the totals of all rows, has the scales, the origins
    and the likelihoods of all rows. The losses of such parts then sum to those of the whole.

    Attributes
    ----------
    weights : mapping from block name to float
        The sums of the weights of entries, by which ``reduce="mean"`` divides.
    centres : mapping from block name to array (latent columns,)
        The origins of the biases of a location, where they are not 0.
    likelihoods : mapping from block name to Likelihood
        Each with its estimates from all observed values.
    standards : mapping from block name to Standard
        Units and weights of the columns of each standardised block.
    counts : LossCounts or None
        The numbers of losses in rows and columns, for terms whose scales depend on them.
    """

    weights: Mapping[str, float]
    centres: Mapping[str, Array]
    likelihoods: Mapping[str, Likelihood]
    standards: Mapping[str, Standard]
    counts: LossCounts | None = None

    @classmethod
    def of(
        cls, model: Model, tables: Mapping[str, Table], origins: Mapping[str, Array]
    ) -> "Totals":
        """Return the totals of tables that hold all rows, with the origins of their effects.

        Raises
        ------
        DataError
            Where a likelihood cannot be estimated from the values.
        """
        n_items = tables[model.blocks[0].name].shape[0]
        observed = {name: table.observed_entries() for name, table in tables.items()}
        targets = {
            block.name: targets_of(
                block, observed[block.name], origin_in(origins, block, observed[block.name])
            )
            for block in model.blocks
        }
        # The largest target of a location; predictors of other likelihoods have no unit.
        sizes = [
            float(np.max(sizes_of(targets[block.name]), initial=0.0))
            if block.likelihood.location
            else 1.0
            for block in model.blocks
        ]
        size = max(sizes) or 1.0
        return cls(
            weights={name: table.total_weight for name, table in tables.items()},
            centres={
                block.name: layout_of(block, observed[block.name]).biases(origins[block.name])
                for block in model.blocks
                if block.name in origins
            },
            likelihoods={
                block.name: bound_likelihood(block, tables[block.name], targets[block.name], size)
                for block in model.blocks
            },
            standards={
                name: table.original.standard for name, table in tables.items() if table.original
            },
            counts=counts_of(model, lambda name: tables[name].column_counts, n_items),
        )


def counts_of(
    model: Model, of_block: Callable[[str], IntArray], n_items: int
) -> LossCounts | None:
    """Return the counts of columns of Z from those of a block's; None where no term needs any."""
    if not any(term.count_share for term in model.terms):
        return None
    of_blocks = [np.repeat(of_block(b.name), b.likelihood.width) for b in model.blocks]
    return LossCounts.of(np.concatenate(of_blocks).astype(float), n_items)


def row_counts(model: Model, tables: Mapping[str, Table]) -> IntArray:
    """Return the number of losses in each row of Z, by the tables of some blocks."""
    width = {block.name: block.likelihood.width for block in model.blocks}
    counts: Any = sum(width[name] * table.row_counts for name, table in tables.items())
    return np.asarray(counts)


def bound_likelihood(block: Block, table: Table, targets: Array, size: float) -> Likelihood:
    """Return the likelihood of a block with its estimates from the observed values.

    If all values are equal, and hence 0 when centred, the size is that of the other blocks.
    """
    scale_values = points_of(targets)
    if block.likelihood.location and targets.size and not scale_values.any():
        scale_values = np.array([size])
    try:
        return block.likelihood.bound_to(table.shape, scale_values)
    except DataError as error:
        raise DataError(f"block {block.name!r}: {error}") from None


def notes_on_unobserved(
    model: Model, tables: Mapping[str, Table], n_items: int
) -> tuple[str, ...]:
    """Return notes on columns and rows without an observed entry."""
    counts = {
        name: np.bincount(table.observed_entries().columns, minlength=table.shape[1])
        for name, table in tables.items()
    }
    seen = np.zeros(n_items, dtype=bool)
    for table in tables.values():
        seen[table.observed_entries().rows] = True
    return notes_on_gaps(model, tables, counts, seen)


def notes_on_gaps(
    model: Model, tables: Mapping[str, Table], counts: Mapping[str, IntArray], seen: Mask
) -> tuple[str, ...]:
    """Return those notes from the observed entries of each column, and the rows with any."""
    notes = []
    for name, of_columns in counts.items():
        block = model.block(name)
        unlearnt = MEAN_BIAS if block.bias else NOT_LEARNT
        empty = np.flatnonzero(of_columns == 0)
        if empty.size:
            first = tables[name].column_label(int(empty[0]))
            others = f" and {counted(empty.size - 1, 'more column')}" if empty.size > 1 else ""
            notes.append(
                f"block {name!r}: column {first}{others} without one observed entry;"
                f" what is predicted there is"
                f" {FROM_UNLABELED if block.likelihood.reads_unlabeled else unlearnt}"
            )
    if not seen.all():
        first_row = int(np.flatnonzero(~seen)[0])
        others = f" and {counted(int((~seen).sum()) - 1, 'more row')}" if (~seen).sum() > 1 else ""
        unlabeled = any(block.likelihood.reads_unlabeled for block in model.blocks)
        predicted = NOT_RANKED if unlabeled else "not learnt from that row"
        notes.append(
            f"row {row_number(first_row)}{others} without one observed entry in any block;"
            f" what is predicted there is {predicted}"
        )
    return tuple(notes)


def worth_a_warning(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the notes but that on rows without a label, which many tables of labels have."""
    return tuple(note for note in notes if NOT_RANKED not in note)

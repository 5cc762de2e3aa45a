"""Attributes of rows in partitions: each partition reads those of its own rows.

They are given as arrays, frames or sparse matrices of all rows, which are cut as the data are, or
as partitions of their own, whose blocks are groups of attributes. What is found from them are sums
over rows.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs
import numpy as np
import scipy.sparse as sp

from mcframe.contracts.arrays import Array
from mcframe.contracts.data_forms import is_sparse_matrix
from mcframe.contracts.errors import BackendError, DataError, ModelError
from mcframe.contracts.validators import is_word
from mcframe.model.labels import frame_in_memory, is_frame
from mcframe.model.model import Observations
from mcframe.numerics import factor_loops as loops
from mcframe.partitions.executor import Partitions
from mcframe.partitions.from_dask import tables_from_dask
from mcframe.partitions.part import PART, Part, PartValue, in_partition
from mcframe.partitions.partitioned_data import PartitionedData
from mcframe.partitions.store import is_collection, is_partitioned
from mcframe.posterior.attributes import (
    OBSERVED,
    AttributeGroup,
    AttributesRead,
    check_rows,
    dense_group,
    dense_numbers,
    group_of,
    moments_about,
    raw_groups,
)
from mcframe.posterior.coefficients import AttributeSums, AttributeValues
from mcframe.posterior.factor_state import FactorState
from mcframe.posterior.observed import Observed
from mcframe.posterior.row_pass import RowPass

WHAT = "row_attributes"
# The most products of two attributes and two numbers of rows that partitions add up: 16 MB from
# each of them, and four times as much where coefficients are found.
MOST_PRODUCTS = 2_000_000
# Rows whose products are formed together have so many of them.
PRODUCTS_AT_A_TIME = 4_000_000


@attrs.frozen(eq=False)
class AttributeRows:
    """Attributes of all rows by the name of their group in messages, as they are given.

    ``arrays`` are of all rows. ``blocks`` are the blocks of ``data`` in the place of these.
    """

    arrays: Mapping[str, Any]
    blocks: Mapping[str, str]
    data: PartitionedData | None = None

    @classmethod
    def of(cls, raw: Any, n_rows: int) -> "AttributeRows | None":
        """The attributes of so many rows; None where none were given."""
        if raw is None:
            return None
        if is_collection(raw):
            raw = {WHAT: raw}
        if isinstance(raw, Mapping) and any(map(is_collection, raw.values())):
            raw = tables_from_dask(raw)
        if is_partitioned(raw):
            check_rows(WHAT, raw.n_items, n_rows)
            return cls({}, {f"{WHAT}[{name!r}]": name for name in raw.blocks}, raw)
        groups = raw_groups(raw, WHAT)
        for name, group in groups.items():
            if is_word(group, OBSERVED):
                raise BackendError(
                    f"{name}={OBSERVED!r}: rows in partitions add up products of all attributes,"
                    " and sets of observed columns have one for each column; leave it out, or give"
                    " all rows as arrays"
                )
            if is_sparse_matrix(group):
                groups[name] = sp.csr_array(group)
            elif not isinstance(group, str):
                groups[name] = frame_in_memory(group) if is_frame(group) else np.asarray(group)
        return cls(groups, {})

    def rows(self, first: int, last: int) -> dict[str, Any]:
        """The attributes of some rows: an array with NaN as gaps, or a sparse matrix."""
        if self.data is None:
            return {name: raw[first:last] for name, raw in self.arrays.items()}
        pieces: dict[str, list[Array]] = {name: [] for name in self.blocks}
        for p in range(self.data.n_partitions):
            begin, end = self.data.rows(p)
            if begin < last and first < end:
                part = self.data.part(p)
                for name, block in self.blocks.items():
                    chosen = slice(max(first - begin, 0), last - begin)
                    pieces[name].append(with_gaps(name, part[block])[chosen])
        return {name: np.concatenate(parts) for name, parts in pieces.items()}

    def read(self, partitions: Partitions, observed: Observed, width: int) -> AttributesRead:
        """The groups of attributes, without the values, which stay in the partitions.

        ``width`` is the count of numbers that a row has.
        """
        groups = [group_of(name, raw, observed, 0) for name, raw in self.arrays.items()]
        for name, block in self.blocks.items():
            assert self.data is not None  # which has the blocks
            numbers = PartValue(numbers_of_group, (PART, name))
            moments = partial(partitions.sum, moments_about, numbers)
            groups.append(dense_group(name, None, self.data.shape(block), moments))
        squares = partitions.sum(sums_of_squares, PART, tuple(groups))
        groups = [
            attrs.evolve(group, varies=bool(np.any(of_group > 0.0)))
            for group, of_group in zip(groups, squares, strict=True)
        ]
        varying = [k for k, group in enumerate(groups) if group.varies]
        if not varying:
            return AttributesRead(tuple(groups))
        without_rows = [sp.csr_array((0, squares[k].size)) for k in varying]
        sums = np.concatenate([squares[k] for k in varying])
        n_products = sums.size * (sums.size + 1) * width * (width + 1) // 4
        if n_products > MOST_PRODUCTS:
            raise ModelError(
                f"{WHAT}: {sums.size} attributes and {width} factors and effects have {n_products}"
                f" products, and rows in partitions add up {MOST_PRODUCTS} at most; take principal"
                " components of the attributes, fewer factors, or all rows as arrays"
            )
        mean_squares = sums / observed.shape[0]
        return AttributesRead(tuple(groups), AttributeValues.of(without_rows), mean_squares)


def with_gaps(name: str, block: Any) -> Array:
    """The numbers of a block of a partition, NaN where no entry is stored."""
    if isinstance(block, Observations):
        raise DataError(
            f"{name}: attributes have no weights, offsets or exposures; drop these from the"
            " partitions"
        )
    if not sp.issparse(block):
        return np.asarray(block, dtype=np.float64)
    entries = sp.coo_array(block)
    numbers = np.full(entries.shape, np.nan)
    numbers[entries.row, entries.col] = entries.data
    return numbers


def numbers_of_group(part: Part, name: str) -> Array:
    """The numbers of a group in the rows of a partition, NaN where missing, checked."""
    attributes, (first, last) = part.source.row_attributes, part.source.data.rows(part.p)
    raw = attributes.rows(first, last)[name]
    with in_partition(part.source.data, part.p):
        numbers, _ = dense_numbers(name, raw, last - first)
    return numbers


def sums_of_squares(part: Part, groups: tuple[AttributeGroup, ...]) -> tuple[Array, ...]:
    """Sums of the squares of the attributes of each group, as coefficients have them."""
    return tuple(
        np.asarray(numbers.multiply(numbers).sum(axis=0)).ravel()
        for numbers in numbers_of_part(part, groups)
    )


def numbers_of_part(part: Part, groups: tuple[AttributeGroup, ...]) -> list[Any]:
    """The attributes of the rows of a partition, a sparse matrix for each group."""
    first, last = part.source.data.rows(part.p)
    raw = part.source.row_attributes.rows(first, last)
    return [group.numbers(raw[group.name], last - first) for group in groups]


def state_of_part(part: Part, state: FactorState) -> FactorState:
    """The state with the attributes of the rows of a partition."""
    coefficients = state.row_coefficients
    if coefficients is None:
        return state
    groups = tuple(group for group in coefficients.groups if group.varies)
    values = AttributeValues.of(numbers_of_part(part, groups))
    return attrs.evolve(state, row_coefficients=coefficients.with_values(values))


def products_of_attributes(rows: RowPass) -> tuple[Array, Array, Array, Array]:
    """The sums of ``AttributeSums`` over the rows of a partition.

    The last of them are sums of ``f_ip f_iq (T - T S_i T)`` for all pairs of attributes, packed.
    """
    assert rows.state.row_coefficients is not None
    values, parts = rows.state.row_coefficients.attributes, rows.without_attributes()
    sums, (_, without, _, precisions) = AttributeSums.of(values, *parts), parts
    a, b = np.tril_indices(precisions.shape[1])
    curvatures = -without.covariances * precisions[:, a] * precisions[:, b]
    curvatures[:, a == b] += precisions
    left, right = np.tril_indices(values.shape[1])
    crossed, step = np.zeros((left.size, a.size)), max(PRODUCTS_AT_A_TIME // left.size, 1)
    for begin in range(0, values.shape[0], step):
        chunk = slice(begin, begin + step)
        numbers = values.matrix[chunk].toarray()
        crossed += (numbers[:, left] * numbers[:, right]).T @ curvatures[chunk]
    return sums.products, sums.right, sums.shares, crossed


@attrs.frozen(eq=False)
class CrossedProducts:
    """The products with ``crossed`` of ``products_of_attributes``, which are p x p x K x K."""

    matrix: Array

    @classmethod
    def of(cls, packed: Array, p: int, width: int) -> "CrossedProducts":
        """The products of so many attributes and numbers, unpacked."""
        whole = packed[loops.unpacking(p)][:, :, loops.unpacking(width)]
        return cls(whole.transpose(0, 2, 1, 3).reshape(p * width, p * width))

    def __call__(self, numbers: Array) -> Array:
        """The sums of ``f_ip (T - T S_i T) f_i'v`` for numbers v (p x K)."""
        return np.asarray(self.matrix @ numbers.ravel()).reshape(numbers.shape)

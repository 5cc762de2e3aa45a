"""A table of numbers as blocks of a model: columns that share a likelihood stand together."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Likelihood, fits_parameters
from mcframe.likelihoods import Gaussian
from mcframe.model import Block, Model
from mcframe.tables.new_rows import imputed_rows

__all__ = ["Limits", "NumberColumns"]


# The lowest and the highest value of each feature that may be filled in.
Limits = tuple[Array, Array]


@attrs.frozen(eq=False)
class Group:
    """Some columns of a matrix, and the block that they are."""

    block: Block
    columns: IntArray


@attrs.frozen(eq=False)
class NumberColumns:
    """The columns of a matrix (n_samples x n_features) as blocks.

    Attributes
    ----------
    n_features : int
    kept : array of positions
        Columns with an observed entry: no other stands in a block.
    groups : list of Group
        Their columns are counted among those that are kept.
    """

    n_features: int
    kept: IntArray
    groups: Sequence[Group]

    @classmethod
    def of(
        cls, table: Array, likelihoods: Any, names: Sequence[Any] | None, model: Model | None
    ) -> "NumberColumns":
        """The columns of a matrix, NaN where missing, as ``groups_of`` says or as of a model."""
        kept = np.flatnonzero(~np.isnan(table).all(axis=0))
        groups: Sequence[Group] = []
        if model is not None:
            groups = [Group(only_block(model), np.arange(kept.size))]
        elif kept.size:
            groups = groups_of(likelihoods, kept, names)
        return cls(table.shape[1], kept, groups)

    @property
    def blocks(self) -> list[Block]:
        """The blocks, without data."""
        return [group.block for group in self.groups]

    def data(self, table: Array) -> dict[str, Array]:
        """The data of each block."""
        kept = table[:, self.kept]
        return {group.block.name: kept[:, group.columns] for group in self.groups}

    def marked(self, table: Array) -> Array:
        """The table itself: NaN where an entry is missing."""
        return table

    def check_filling(self, limits: Limits, keep_empty: bool) -> None:
        """Numbers can be clipped, and all of them are filled."""

    def filled(self, fit: Any, table: Array, fitted: bool) -> Array:
        """The kept columns of the table of the fit, or of one of other rows, without holes.

        ``fit`` is None where nothing is observed, so that no column is kept.
        """
        filled = table[:, self.kept]
        if fit is None or not np.isnan(filled).any():
            return filled
        if fitted:
            blocks = {group.block.name: fit.impute(group.block.name) for group in self.groups}
        else:
            blocks = imputed_rows(fit, self.data(table))
        for group in self.groups:
            filled[:, group.columns] = blocks[group.block.name]
        return filled

    def finished(self, filled: Array, table: Array, limits: Limits, keep_empty: bool) -> Array:
        """Kept columns clipped where they were missing; with 0 in empty ones, or without these."""
        lowest, highest = (limit[self.kept] for limit in limits)
        missing = np.isnan(table[:, self.kept])
        answer = np.where(missing, np.clip(filled, lowest, highest), filled)
        if keep_empty:
            whole = np.where(np.isnan(table), 0.0, table)
            whole[:, self.kept] = answer
            answer = whole
        return answer.astype(table.dtype, copy=False)

    def beside(self, answer: Array, names: Any, indicated: Array) -> Array:
        """The answer with indicators behind its columns."""
        return np.hstack([answer, indicated]).astype(answer.dtype, copy=False)

    def in_library(self, answer: Array, library: str) -> Array:
        """The answer, which scikit-learn makes a DataFrame of where that is asked for."""
        return answer


def only_block(model: Model) -> Block:
    """The block that a table of numbers is, or a ``ModelError``."""
    if len(model.blocks) != 1:
        names = ", ".join(repr(block.name) for block in model.blocks)
        raise ModelError(
            f"model has the blocks {names}; a table of numbers is one block. Give a model of one,"
            " or likelihoods={column: likelihood} in its place"
        )
    return model.blocks[0]


def block_of(name: str, likelihood: Likelihood) -> Block:
    """A block in standard units, with a level of its own for each column."""
    return Block(name, likelihood, standardize=True, bias=not fits_parameters(likelihood))


def groups_of(likelihoods: Any, kept: IntArray, names: Sequence[Any] | None) -> list[Group]:
    """The blocks of the columns ``kept`` of a matrix, in the order of their first columns.

    Parameters
    ----------
    likelihoods : "auto", a likelihood, or a dict
        One for all columns, Gaussian for "auto"; of a dict from the name or position of a column
        to its likelihood, Gaussian for those that it does not name.
    kept : array of positions
    names : the names of all columns, None where there are none
    """
    chosen = [likelihood_of(likelihoods, int(k), names) for k in kept]
    together: dict[Any, list[int]] = {}
    for place, likelihood in enumerate(chosen):
        # Thresholds that are fitted are those of one column.
        alone = place if fits_parameters(likelihood) else -1
        together.setdefault((likelihood, alone), []).append(place)
    groups = []
    for number, ((likelihood, _), places) in enumerate(together.items()):
        block = block_of(f"{type(likelihood).__name__} {number}", likelihood)
        groups.append(Group(block, np.asarray(places, dtype=np.intp)))
    refuse_unknown(likelihoods, kept, names)
    return groups


def likelihood_of(likelihoods: Any, position: int, names: Sequence[Any] | None) -> Likelihood:
    """The likelihood of one column."""
    if isinstance(likelihoods, Mapping):
        name = None if names is None else names[position]
        default = likelihoods.get(position, Gaussian())
        found = default if name is None else likelihoods.get(name, default)
    else:
        found = (
            Gaussian() if isinstance(likelihoods, str) and likelihoods == "auto" else likelihoods
        )
    if not isinstance(found, Likelihood):
        raise ModelError(
            f"likelihoods={likelihoods!r} was given; 'auto', a likelihood such as mc.Gaussian(),"
            " or a dict from columns to likelihoods is needed"
        )
    return found


def refuse_unknown(likelihoods: Any, kept: IntArray, names: Sequence[Any] | None) -> None:
    """A ``ModelError`` where a dict names a column that there is not."""
    if not isinstance(likelihoods, Mapping):
        return
    n_columns = int(kept.max(initial=-1)) + 1 if names is None else len(names)
    known = set(range(n_columns)) | set(() if names is None else names)
    for column in likelihoods:
        if column not in known:
            raise ModelError(
                f"likelihoods names column {column!r}, which is not in X; the columns are"
                f" {', '.join(map(repr, range(n_columns) if names is None else names))}"
            )

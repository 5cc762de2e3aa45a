"""Columns of a matrix as blocks of a model: those that share a likelihood stand together."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.errors import ModelError
from mcframe.contracts.likelihood import Likelihood, fits_parameters
from mcframe.likelihoods import Gaussian
from mcframe.model import Block

__all__ = ["Group", "groups_of", "table_data"]


@attrs.frozen(eq=False)
class Group:
    """Some columns of a matrix, and the block that they are."""

    block: Block
    columns: IntArray


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


def table_data(groups: Sequence[Group], matrix: Array) -> dict[str, Array]:
    """The data of each block, from a matrix of the kept columns."""
    return {group.block.name: matrix[:, group.columns] for group in groups}

"""New items: what a fit says of rows that it was not fitted to."""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from mcframe.backends.alternating import rows_for
from mcframe.compile import compile_problem
from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError
from mcframe.model import Model, Problem
from mcframe.model.cell_numbers import CellNumbers
from mcframe.model.reading import read_table
from mcframe.model.row_labels import same_rows
from mcframe.model.table import Table
from mcframe.model.triples import in_columns_of
from mcframe.numerics.operators import LowRank, orthogonal_factors
from mcframe.regularizers import NuclearNorm

__all__ = ["NewRows", "refuse_swapped"]


@attrs.frozen(eq=False)
class NewRows:
    """Scores u of new items for the loadings V of a fit, by the rule of Zheng and Hastie (2015).

    At the optimum ``Z = U V'`` with balanced factors, and each row of U minimises its own
    losses plus ``weight / 2 ||u||^2``, V fixed (their section 3, there for Gaussian entries;
    the argument needs convexity alone). The rule does the same for a new row.

    Attributes
    ----------
    scores : array (n_new x rank)
    loadings : array (n_columns x rank)
    tables : dict from block name to Table
        The data of the new items.
    index : their labels, or None
    """

    scores: Array
    loadings: Array
    tables: Mapping[str, Table]
    index: Any

    @classmethod
    def of(
        cls,
        problem: Problem,
        latent: LowRank,
        effects: Mapping[str, Array],
        data: Mapping[str, Any],
    ) -> "NewRows":
        """The scores of new items with these data, some or all blocks of the problem.

        Raises
        ------
        ModelError
            Where the rule is not known of the model.
        DataError
            Where the data do not fit it.
        """
        weight = nuclear_weight(problem)
        tables = tables_of_new_rows(problem, effects, data)
        n_new, index = same_rows(tables.items())
        loadings = orthogonal_factors(latent.left, latent.right)[2]
        scores: Array = np.zeros((n_new, loadings.shape[1]))
        observed = {name: table for name, table in tables.items() if table.n_entries}
        if observed:
            new = bound_to_new_rows(problem, effects, observed)
            here = [np.arange(problem.n_columns)[problem.columns(name)] for name in new.tables]
            scores = rows_for(compile_problem(new), loadings[np.concatenate(here)], weight)
        return cls(scores, loadings, tables, index)

    def table(self, problem: Problem, name: str) -> Table:
        """The observed entries of a block, if it was given, with the labels of an answer."""
        fitted = problem.tables[name]
        nowhere = np.zeros(0, dtype=np.intp)
        empty = Table((len(self.scores), fitted.shape[1]), nowhere, nowhere, np.zeros(0))
        table = self.tables.get(name, empty.on_standard_of(fitted)).observed_entries()
        names = table.names if fitted.names is None else fitted.names
        return attrs.evolve(table, index=self.index, names=names)

    def predictor(self, problem: Problem, name: str, effects: Mapping[str, Array]) -> Array:
        """z + b of a block (n_new x its latent columns), with the offset of the new data.

        In the data's own units, by the units of the fit.
        """
        z: Array = self.scores @ self.loadings[problem.columns(name)].T
        offset = self.tables[name].offset if name in self.tables else None
        if offset is not None:  # the biases are in there already
            z = z + offset.dense()
        elif name in effects:
            z = problem.layout(name).add_to(z, problem.effects(name, effects))
        return self.table(problem, name).natural(z)


def refuse_swapped(data: object, name: object) -> None:
    """Raise a ``DataError`` where the name of a block was given in place of the data."""
    if isinstance(data, str) and not isinstance(name, str):
        raise DataError(
            f"the block {data!r} was given before the data; the data of new rows come first,"
            " then the name of the block that is asked for"
        )


def nuclear_weight(problem: Problem) -> float:
    """The weight of the nuclear norm, or a ``ModelError`` where the rule needs more than that."""
    for term in problem.terms:
        if not isinstance(term, NuclearNorm):
            raise ModelError(
                f"the rule for new rows is that of a NuclearNorm alone; the model has"
                f" {term.word} too. Refit with the new rows among the data"
            )
    for block in problem.model.blocks:
        if block.row_effects:
            raise ModelError(
                f"block {block.name!r} has effects of rows, which a new row has none of yet;"
                " refit with the new rows among the data"
            )
        if not (block.likelihood.smooth and block.likelihood.convex):
            raise ModelError(
                f"block {block.name!r}: the rule for new rows needs a smooth convex loss, which"
                f" {type(block.likelihood).__name__} is not; refit with the new rows among the"
                " data"
            )
    return sum(term.weight for term in problem.terms if isinstance(term, NuclearNorm))


def tables_of_new_rows(
    problem: Problem, effects: Mapping[str, Array], data: Mapping[str, Any]
) -> dict[str, Table]:
    """The new data of each block that is given, in the order of the fit, fitted biases added.

    A block may hold nothing but missing entries, as the labels of new items do.
    """
    known = ", ".join(repr(block.name) for block in problem.model.blocks)
    if not isinstance(data, Mapping):
        raise DataError(
            f"the data of new rows are a {type(data).__name__}; a dict with some of {known} is"
            f" needed, such as {{{problem.model.blocks[0].name!r}: rows}}"
        )
    if not data:
        raise DataError(f"no data of new rows were given; a dict with some of {known} is needed")
    for name in data:
        problem.model.block(name)
    aligned = {
        name: in_columns_of(problem.tables[name], name, given) for name, given in data.items()
    }
    return {
        block.name: with_fitted_biases(
            problem, block.name, read_table(block, aligned[block.name]), effects
        )
        for block in problem.model.blocks
        if block.name in data
    }


def bound_to_new_rows(
    problem: Problem, effects: Mapping[str, Array], tables: Mapping[str, Table]
) -> Problem:
    """Return the problem of new rows beside those of a fit, with what was fitted held fixed."""
    likelihoods = {name: problem.likelihood(name, effects) for name in tables}
    blocks = [
        attrs.evolve(
            problem.model.block(name),
            likelihood=likelihoods[name],
            bias=False,
            effects_weight=None,
        )
        for name in tables
    ]
    totals = attrs.evolve(problem.totals, centres={}, likelihoods=likelihoods)
    return Problem.of_tables(Model(blocks, problem.model.terms), tables, totals)


def with_fitted_biases(
    problem: Problem, name: str, table: Table, effects: Mapping[str, Array]
) -> Table:
    """A table of new rows with the fitted biases in its offset; its columns are checked."""
    fitted = problem.tables[name]
    if table.shape[1] != fitted.shape[1]:
        raise DataError(
            f"block {name!r}: new rows with {table.shape[1]} columns were given; the fit has"
            f" {fitted.shape[1]}. One new item is one row, [[...]]"
        )
    if table.names is not None and fitted.names is not None:
        for new, old in zip(table.names, fitted.names, strict=True):
            if new != old:
                raise DataError(
                    f"block {name!r}: new rows have column {new!r} where the fit has {old!r};"
                    " give the columns in the order of the fit"
                )
    table = table.on_standard_of(fitted)
    if not problem.layout(name).n_biases:
        return table
    biases = problem.layout(name).biases(problem.effects(name, effects))
    if table.offset is None:
        shape = (table.shape[0], biases.size)
        return attrs.evolve(table, offset=CellNumbers(shape, biases[None, :]))
    return attrs.evolve(table, offset=table.offset.plus(biases))

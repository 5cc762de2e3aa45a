"""The weight of a declared table's nuclear norm, chosen by the losses of its columns."""

from collections.abc import Mapping
from functools import cached_property

import attrs
import numpy as np

from mcframe.answer import Fit
from mcframe.contracts.arrays import Array, IntArray
from mcframe.regularizers import NuclearNorm
from mcframe.selection import CrossValidation, Held, cross_validate
from mcframe.selection.choice import edges_unsaid
from mcframe.selection.splitters import Splitter
from mcframe.tables.declared import Declared
from mcframe.tables.declared_column import members_of
from mcframe.tables.held_out import ColumnScores, errors_of_constant, observed

__all__ = ["JudgedColumns", "chosen_weight"]

# Weights that are tried, and how many clearly worse ones end the search.
WEIGHTS, PATIENCE = 10, 1
# The smallest weight beside the largest. Tables of few columns have their best one far down.
RATIO = 0.003


@attrs.frozen(eq=False)
class JudgedColumns:
    """The criterion of ``method="optimum"``: the mean over columns of their relative losses.

    The loss of a column is the mean over its held-out entries of ``-log`` of the probability of
    the observed value, of numbers of the square of the difference, of counts of half the Poisson
    deviance, over what the best constant loses on all of its observed entries. So a column counts
    once, whatever its kind and unit, and 1 is what constants lose. It keeps what it saw of each
    column, by the weight of the nuclear norm.

    Attributes
    ----------
    declared : Declared
    seen : dict from weight to a list of one array (3 x n_columns) for each fold
        Sums of losses and of errors, and the number of entries, of each column of the table.
    constants : dict from the id of held-out entries to these and one array (n_columns,)
        Sums of errors of the constants on a fold.
    """

    declared: Declared
    seen: dict[float, list[Array]] = attrs.field(factory=dict)
    constants: dict[int, tuple[Mapping[str, Held], Array]] = attrs.field(factory=dict)

    @cached_property
    def members(self) -> dict[str, IntArray]:
        """The columns of each block by their places, each as its position in the table."""
        position = {each.name: k for k, each in enumerate(self.declared.columns)}
        return {
            block: np.array([position[each.name] for each in own])
            for block, own in members_of(self.declared.columns).items()
        }

    @cached_property
    def losses_of_constants(self) -> Array:
        """What the best constant of each column loses, NaN where nothing or not modelled."""
        found = np.full(len(self.declared.columns), np.nan)
        for positions in self.members.values():
            for position in positions:
                each = self.declared.columns[position]
                loss = each.modelled[0].loss_of_constant(observed(each.codes))
                found[position] = loss if loss > 0.0 else np.nan
        return found

    def __call__(self, fit: Fit, held: Mapping[str, Held]) -> float:
        """The mean relative loss of the columns, NaN where no column has a held-out entry."""
        n_columns = len(self.declared.columns)
        sums = np.zeros((3, n_columns))
        for block, positions in self.members.items():
            # Columns of a block have codings of one class, whose answers are alike.
            coding, entries = self.declared.columns[positions[0]].modelled[0], held[block]
            if entries.values.size == 0:
                continue
            answer = coding.answer(fit, block, entries.rows, entries.columns)
            owners = positions[entries.columns]
            losses = coding.losses(answer, entries.values)
            errors = coding.errors(coding.predicted(answer), entries.values)
            for row, numbers in zip(sums, (losses, errors, None), strict=True):
                row += np.bincount(owners, numbers, n_columns)
        weight = next(term.threshold for term in fit.model.terms if isinstance(term, NuclearNorm))
        self.seen.setdefault(weight, []).append(sums)
        self.constants.setdefault(id(held), (held, self.errors_of_constants(held)))
        relative = sums[0] / np.maximum(sums[2], 1.0) / self.losses_of_constants
        relative = relative[(sums[2] > 0.0) & ~np.isnan(relative)]
        return float(np.mean(relative)) if relative.size else np.nan

    def errors_of_constants(self, held: Mapping[str, Held]) -> Array:
        """The sums of errors, on a fold, of the best constant of what is left of each column."""
        sums = np.zeros(len(self.declared.columns))
        for block, positions in self.members.items():
            entries = held[block]
            order = np.argsort(entries.columns, kind="stable")
            ends = np.cumsum(np.bincount(entries.columns, minlength=positions.size))
            for position, here in zip(positions, np.split(order, ends[:-1]), strict=True):
                each = self.declared.columns[position]
                kept = each.codes.copy()
                kept[entries.rows[here]] = np.nan
                coding, hidden = each.modelled[0], entries.values[here]
                sums[position] = errors_of_constant(coding, kept, hidden)
        return sums

    def at(self, weight: float, position: int) -> ColumnScores | None:
        """The scores of a column, by its position, at a weight, over all folds, if any."""
        each = self.declared.columns[position]
        loss, error, count = np.sum([sums[:, position] for sums in self.seen[weight]], axis=0)
        if each.place is None or count == 0.0:
            return None
        coding = each.modelled[0]
        constant = sum(float(sums[position]) for _, sums in self.constants.values())
        return ColumnScores(
            loss=float(loss / count / self.losses_of_constants[position]),
            error=coding.error(float(error / count)),
            error_of_constant=coding.error(constant / float(count)),
            n_held=int(count),
        )


def chosen_weight(
    declared: Declared, cv: Splitter, seed: int
) -> tuple[CrossValidation, tuple[ColumnScores | None, ...]]:
    """Return the cross-validation of the weight, and the losses of each column at the best one."""
    judged = JudgedColumns(declared)
    with edges_unsaid():
        chosen = cross_validate(
            declared.model,
            declared.data,
            criterion=judged,
            count=WEIGHTS,
            ratio=RATIO,
            cv=cv,
            patience=PATIENCE,
            random_state=seed,
        )
    weight = chosen.best_weight
    return chosen, tuple(judged.at(weight, place) for place in range(len(declared.columns)))

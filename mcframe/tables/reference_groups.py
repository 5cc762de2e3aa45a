"""Missing values drawn as if their rows were of a reference group: control-based imputation."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.posterior.rows import RowsPosterior
from mcframe.tables.compatible_draws import CompatibleDraw
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.shifts import Method, moved

if TYPE_CHECKING:
    from mcframe.tables.table_draws import DrawnRows


@attrs.frozen(eq=False)
class ReferenceGroup:
    """The outcomes of rows, whose missing values are drawn as if rows were of one group.

    Attributes
    ----------
    groups : DeclaredColumn
        Of labels or categories.
    place : float
        The code of the reference group.
    method : "jump", "copy" or "increments"
    outcomes : sequence of DeclaredColumn
    """

    groups: DeclaredColumn
    place: float
    method: Method
    outcomes: Sequence[DeclaredColumn]

    def drawn(
        self,
        rows: "DrawnRows[Any]",
        posterior: RowsPosterior,
        codes: Mapping[Any, Array],
        rng: np.random.Generator,
    ) -> dict[Any, Array]:
        """Codes of missing entries, of which those of outcomes in rows of other groups are new.

        Covariates that are missing stay as they were drawn, in the group of the row. With the
        means m(x, g) of the outcomes given covariates x, the outcomes y of a row of group g that
        jump to the reference r are those of a row of r with y + m(x, r) - m(x, g) in the place
        of y; observed ones stay as they are.
        """
        groups = rows.whole_codes(self.groups, codes)
        others = np.flatnonzero(groups != self.place)
        if not others.size:
            return dict(codes)
        values = rows.completed(codes)
        numbers = np.concatenate([rows.numbers_of(column) for column in self.outcomes])
        by_covariates, means = attrs.evolve(posterior, identities=None), []
        for place in (groups[others], np.full(others.size, self.place)):
            covariates = values[others]
            covariates[:, numbers] = np.nan
            covariates[:, rows.numbers_of(self.groups)] = rows.coded(self.groups, place, others)
            of_rows = by_covariates.condition(covariates, rows.precisions)
            means.append(of_rows.cells.moments[0])
        own_means, reference_means = means
        cells = np.ix_(others, rows.numbers_of(self.groups))
        values[cells] = rows.coded(self.groups, np.full(others.size, self.place), others)
        if self.method != "copy":
            values[np.ix_(others, numbers)] += (reference_means - own_means)[:, numbers]
        for column in self.outcomes:
            unknown = column.column.missing & ~column.column.limited
            values[np.ix_(unknown, rows.numbers_of(column))] = np.nan
        observed = rows.values.copy()
        observed[cells] = values[cells]
        as_of_reference = attrs.evolve(rows, values=values, limits=None, observed=observed)
        [(conditioned, draw)] = as_of_reference.drawn(posterior, 1, rng)
        corrected = as_of_reference.corrected(conditioned, rng)
        new_codes = as_of_reference.codes(conditioned, draw, rng, corrected)
        is_other = groups != self.place
        merged = dict(codes)
        for column in self.outcomes:
            if column.name in codes:
                chosen = (is_other & ~column.column.limited)[column.column.missing]
                merged[column.name] = np.where(chosen, new_codes[column.name], codes[column.name])
        if self.method == "increments":
            self.add_kept_differences(rows, merged, others, own_means, reference_means, rng)
        return merged

    def drawn_by_regression(
        self, draw: CompatibleDraw, rng: np.random.Generator
    ) -> CompatibleDraw:
        """A draw in which the missing outcomes of rows of other groups are new.

        As ``drawn`` does, where the means m(x, g) are those of the regression of the outcomes on
        the covariates and the terms, given the outcomes of the regression that are none here.
        """
        groups = draw.covariates[self.groups.name]
        others = np.flatnonzero(groups != self.place)
        if not others.size:
            return draw
        as_of_reference = {self.groups.name: np.full(groups.size, self.place)}
        means = [draw.means(draw.covariates | new)[others] for new in ({}, as_of_reference)]
        outcomes, columns = draw.outcomes[others], draw.parted.outcomes
        is_outcome = np.array([column in self.outcomes for column in columns])
        covariates = np.broadcast_to(~is_outcome, outcomes.shape)
        own_means, reference_means = (
            draw.regression.filled(mean, outcomes, covariates) for mean in means
        )
        differences = own_means - reference_means
        compared = outcomes if self.method == "copy" else outcomes - differences
        fixed = draw.seen[others] | covariates
        filled = draw.regression.filled(means[1], compared, fixed, rng)
        if self.method == "increments":
            kept = np.zeros(others.size)
            for column in self.outcomes:
                k = columns.index(column)
                coding: Any = column.coding
                unit = draw.spread[k] * coding.unit
                filled[:, k] += kept / unit
                kept = np.where(fixed[:, k], unit * differences[:, k], kept)
        new_outcomes = draw.outcomes.copy()
        new_outcomes[others] = np.where(fixed, outcomes, filled)
        return attrs.evolve(draw, outcomes=new_outcomes)

    def add_kept_differences(
        self,
        rows: "DrawnRows[Any]",
        codes: dict[Any, Array],
        others: IntArray,
        own_means: Array,
        reference_means: Array,
        rng: np.random.Generator,
    ) -> None:
        """Add the difference of means at the last observed outcome to those that follow it."""
        kept = np.zeros(len(rows.values))
        for column in self.outcomes:
            coding: Any = column.coding
            missing: Mask = column.column.missing & ~column.column.limited
            if column.name in codes:
                amounts = np.where(missing, kept, 0.0)[column.column.missing]
                codes[column.name] = moved(column, codes[column.name], amounts, rng)
            place = rows.numbers_of(column)[-1:]
            by_group, by_reference = (
                coding.within(rows.units.invert(mean[:, place], others[:, None], place)[:, 0])
                for mean in (own_means, reference_means)
            )
            difference = np.zeros(kept.size)
            difference[others] = coding.unit * (by_group - by_reference)
            kept = np.where(missing, kept, difference)

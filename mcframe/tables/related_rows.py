"""Rows of a table with relations: what follows from their observed numbers, and their filling."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import DataError
from mcframe.contracts.limits import BISECTIONS
from mcframe.contracts.rounding import EPS, RESULT_ROUNDING, SUM_ROUNDING
from mcframe.contracts.validators import counted, exact, listed, plain
from mcframe.contracts.wording import wording
from mcframe.model.transforms import Transform
from mcframe.numerics.box_projection import RowProjection
from mcframe.posterior.answer import Posterior
from mcframe.posterior.joint import JointPosterior
from mcframe.posterior.row_identities import RowIdentities
from mcframe.tables.applicability import values_equal
from mcframe.tables.coding import NUMBERS_BLOCK, Counts
from mcframe.tables.columns import Column, TextNumbers, filled_series, read_frame
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.native_tables import with_columns
from mcframe.tables.relations import Derivation, Identity, Relation, Relations, size_of

# Points at which a formula is computed between the ends of the plausible range of a variable, to
# count its solutions.
GRID_POINTS = 257
# A solution satisfies its equation up to this share of the numbers in it.
ROOT_ROUNDING = 1e-6
# The unit in which distances of shifted numbers are measured, over that of others.
SHIFTED_SHARE = 1e-3
# The most digits behind the point to which a column counts as rounded.
MOST_DIGITS = 8


@attrs.frozen(eq=False)
class RelatedRows:
    """The numbers of some rows, and the relations between them.

    Attributes
    ----------
    relations : Relations
    declared : dict from name to DeclaredColumn
    columns : dict from name to Column
        Of these rows, as they were read; an absent one is missing everywhere.
    n_rows : int
    is_table : bool
        Whether these rows are those of the table, of which ``where`` says what is filled.
    """

    relations: Relations
    declared: Mapping[Any, DeclaredColumn]
    columns: Mapping[Any, Column]
    n_rows: int
    is_table: bool

    @cached_property
    def numbers(self) -> dict[Any, Array]:
        """The observed numbers of columns in relations (n,), NaN where missing."""
        names = dict.fromkeys(
            name for _, equation in self.relations.equations for name in equation.columns
        )
        empty = np.full(self.n_rows, np.nan)
        return {
            name: self.columns[name].numbers if name in self.columns else empty for name in names
        }

    def applies(self, name: Any, if_unknown: bool) -> Mask:
        """The rows to which a column applies by what is observed, or where that is not known."""
        condition = self.declared[name].condition
        if condition is None:
            return np.ones(self.n_rows, dtype=bool)
        other = self.columns.get(condition.column)
        if other is None:
            return np.full(self.n_rows, if_unknown)
        return np.where(other.missing, if_unknown, values_equal(other, condition.equals))

    @cached_property
    def holds(self) -> Mask:
        """The rows in which each equation holds (n x number of equations).

        Those in which one of its columns does not apply are left out.
        """
        holds = np.ones((self.n_rows, len(self.relations.equations)), dtype=bool)
        for k, (_, equation) in enumerate(self.relations.equations):
            for name in equation.columns:
                holds[:, k] &= self.applies(name, if_unknown=True)
        return holds

    def holds_for(self, declared: Relation) -> Mask:
        """The rows in which one of the relations holds."""
        place = [one for one, _ in self.relations.equations].index(declared)
        return np.asarray(self.holds[:, place])

    def of_posterior(self, posterior: Posterior) -> Posterior:
        """A posterior of these rows that is conditioned on the identities.

        That of Gaussian factors is left as it is.
        """
        engine = posterior.engine
        if not self.relations.identities or not isinstance(engine, JointPosterior):
            return posterior
        units = posterior.tables[NUMBERS_BLOCK].units
        identities = self.row_identities(units, engine.noise)
        joint = attrs.evolve(engine, rows=attrs.evolve(engine.rows, identities=identities))
        return attrs.evolve(posterior, engine=joint)

    def row_identities(self, units: Transform, noise: Array) -> RowIdentities:
        """The identities of numbers of a block in standard units, with their noise (d,)."""
        relations = self.relations
        columns = [self.declared[name] for name in relations.identity_columns]
        places = np.array([column.place for column in columns])
        codings: list[Any] = [column.coding for column in columns]
        at = np.zeros_like(places), places
        origin = units.invert(np.zeros(places.size), *at)
        spread = units.invert(np.ones(places.size), *at) - origin
        unit = np.array([coding.unit for coding in codings])
        coefficients = np.zeros((len(relations.identities), noise.size))
        coefficients[:, places] = relations.matrix * (unit * spread)
        largest = np.max(np.abs(coefficients), axis=1, keepdims=True)
        sizes = largest[:, 0] * np.linalg.norm(coefficients / largest, axis=1)
        constants = relations.constants - relations.matrix @ (unit * origin)
        holds = np.column_stack([self.holds_for(one.relation) for one in relations.identities])
        return RowIdentities(
            coefficients / sizes[:, None], constants / sizes, noise, None if holds.all() else holds
        )

    def check(self, identities_alone: bool = False) -> None:
        """A ``DataError`` where observed numbers do not satisfy a relation."""
        derivations = () if identities_alone else self.relations.derivations
        with np.errstate(invalid="ignore"):
            for identity in self.relations.identities:
                terms = identity.coefficients * np.column_stack(
                    [self.numbers[name] for name in identity.columns]
                )
                size = np.sum(np.abs(terms), axis=1) + abs(identity.constant)
                difference = np.sum(terms, axis=1) - identity.constant
                self.refuse(identity, difference, self.rounding(identity.columns) * size)
            for derivation in derivations:
                left = self.numbers[derivation.target]
                right = derivation.expression.values(self.numbers)
                size = np.abs(left) + np.where(np.isfinite(right), np.abs(right), 0.0)
                rounding = self.rounding(derivation.columns) * size
                rounding = np.maximum(rounding, half_of_last_digit(left))
                observed = ~np.isnan([self.numbers[name] for name in derivation.columns])
                difference = np.where(np.isnan(right), np.inf, left - right)
                difference = np.where(observed.all(axis=0), difference, np.nan)
                self.refuse(derivation, difference, rounding)

    def refuse(self, one: Identity | Derivation, difference: Array, rounding: Array) -> None:
        """A ``DataError`` that names the first row in which both sides differ too far."""
        tolerance = one.relation.tolerance
        allowed = rounding if tolerance is None else tolerance + RESULT_ROUNDING * rounding
        wrong = np.flatnonzero((np.abs(difference) > allowed) & self.holds_for(one.relation))
        if wrong.size:
            row = int(wrong[0])
            others = f" and {counted(wrong.size - 1, 'other row')}" * (wrong.size > 1)
            within = "" if tolerance is None else f" within {exact(tolerance)}"
            apart = f": the sides differ by {abs(difference[row]):.6g}"
            needed = float(np.max(np.abs(difference[wrong])))
            wider = wording().either(
                python=f"mc.relation({one.relation.text!r}, tolerance={1.01 * needed:.2g})",
                command=f"--relation-tolerance {1.01 * needed:.2g}",
            )
            apart = apart if np.isfinite(needed) else ": its right side has no value"
            remedy = f", or allow a difference by {wider}" * bool(np.isfinite(needed))
            raise DataError(
                f"relation {one.relation.text!r} does not hold{within} in {wording().row(row)}"
                f"{others} ({self.values_in(one, row)}){apart}; correct the values, make one of"
                f" them missing{remedy}"
            )

    def values_in(self, one: Identity | Derivation, row: int) -> str:
        """The values of the columns of a relation in a row, as text."""
        values = {name: self.numbers[name][row] for name in one.columns}
        return listed(
            [
                f"{plain(name)} = {'missing' if np.isnan(value) else exact(value)}"
                for name, value in values.items()
            ]
        )

    def rounding(self, names: Sequence[Any]) -> float:
        """The relative rounding of columns, by their dtypes."""
        dtypes = {str(self.columns[name].series.dtype) for name in names if name in self.columns}
        bits = {"Float32": 2.0**-23, "Float16": 2.0**-10}
        return max([RESULT_ROUNDING, *(16.0 * bits[dtype] for dtype in dtypes & {*bits})])

    def determined(self) -> dict[Any, Array]:
        """The numbers of columns (n,) with those that follow from the observed ones of a row."""
        numbers = {name: values.copy() for name, values in self.numbers.items()}
        closable = {name: self.applies(name, if_unknown=False) for name in numbers}
        if self.is_table:
            for name in numbers:
                fillable = self.declared[name].fillable
                closable[name] &= True if fillable is None else fillable
        n_before = -1
        while n_before != (n_missing := sum(np.isnan(v).sum() for v in numbers.values())):
            n_before = n_missing
            for name, rows, values in self.solutions(numbers):
                chosen = np.isfinite(values) & closable[name][rows]
                numbers[name][rows[chosen]] = values[chosen]
        return numbers

    def solutions(self, numbers: Mapping[Any, Array]) -> Iterator[tuple[Any, IntArray, Array]]:
        """Columns, rows and values that follow from numbers, by one equation or several."""
        for one in self.relations.either_kind:
            missing = np.isnan([numbers[name] for name in one.columns])
            single = (np.count_nonzero(missing, axis=0) == 1) & self.holds_for(one.relation)
            for name, is_missing in zip(one.columns, missing, strict=True):
                rows = np.flatnonzero(is_missing & single)
                if rows.size:
                    yield name, rows, self.solved(one, name, rows, numbers)
        if len(self.relations.identities) > 1:
            yield from self.joint_solutions(numbers)

    def solved(
        self, one: Identity | Derivation, name: Any, rows: IntArray, numbers: Mapping[Any, Array]
    ) -> Array:
        """The values of one column in rows, NaN where there is not a single plausible one."""
        at = {column: numbers[column][rows] for column in one.columns}
        if isinstance(one, Identity):
            others = [other for other in one.columns if other != name]
            factors = dict(zip(one.columns, one.coefficients, strict=True))
            terms = [np.full(rows.size, one.constant / factors[name])]
            terms += [-factors[other] / factors[name] * at[other] for other in others]
            total: Array = np.sum(terms, axis=0)
            # What is 0 but for rounding has no sign: a column without negative numbers stays so.
            rounding = len(terms) * EPS * np.sum(np.abs(terms), axis=0)
            return np.where(np.abs(total) <= rounding, 0.0, total)
        if name == one.target:
            return one.expression.values(at) + np.zeros(rows.size)
        return single_roots(one, name, at, self.plausible(name))

    def plausible(self, name: Any) -> tuple[float, float]:
        """The range of a column, wider by its width on both sides, but within its bounds.

        Of numbers of one sign it ends at 0.
        """
        seen = self.declared[name].column.numbers
        least, most = float(np.nanmin(seen)), float(np.nanmax(seen))
        width = max(most - least, abs(most), EPS)
        low, high = least - width, most + width
        low = max(low, 0.0) if least >= 0.0 else low
        high = min(high, 0.0) if most <= 0.0 else high
        coding: Any = self.declared[name].coding
        return max(low, coding.lower), min(high, coding.upper)

    def joint_solutions(
        self, numbers: Mapping[Any, Array]
    ) -> Iterator[tuple[Any, IntArray, Array]]:
        """Columns, rows and values that follow from several identities together."""
        relations = self.relations
        values = np.column_stack([numbers[name] for name in relations.identity_columns])
        sizes = np.array([size_of(column) for column in values.T])
        for rows, missing, holding in self.patterns(np.isnan(values)):
            matrix = relations.matrix[np.ix_(holding, missing)] * sizes[missing]
            matrix_norms = np.max(np.abs(matrix), axis=1, initial=0.0)
            kept = matrix_norms > 0.0
            if np.count_nonzero(kept) < 2:
                continue
            scaled = matrix[kept] / matrix_norms[kept, None]
            left, singular, axes = np.linalg.svd(scaled, full_matrices=False)
            large = singular > RESULT_ROUNDING * singular[0]
            left, singular, axes = left[:, large], singular[large], axes[large]
            rest = self.rest(values[rows], missing, holding)[:, kept] / matrix_norms[kept]
            solution = rest @ left / singular @ axes * sizes[missing]
            leverage = np.sum(np.square(axes), axis=0)
            for k in np.flatnonzero(leverage > 1.0 - RESULT_ROUNDING):
                yield relations.identity_columns[missing[k]], rows, solution[:, k]

    def patterns(self, missing: Mask) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Rows that lack the same numbers of identities, these, and the identities that hold.

        Rows without a missing number in an identity that holds are left out.
        """
        relations = self.relations
        held = np.column_stack([self.holds_for(one.relation) for one in relations.identities])
        touched = held & (missing.astype(float) @ (relations.matrix != 0.0).T > 0.0)
        rows = np.flatnonzero(touched.any(axis=1))
        if not rows.size:
            return
        patterns, place = np.unique(
            np.hstack([missing[rows], touched[rows]]), axis=0, return_inverse=True
        )
        for k, pattern in enumerate(patterns):
            lacking, holding = np.split(pattern, [missing.shape[1]])
            yield rows[place.ravel() == k], np.flatnonzero(lacking), np.flatnonzero(holding)

    def rest(self, values: Array, missing: IntArray, holding: IntArray) -> Array:
        """The constants less observed terms, of missing numbers of rows (b x len(holding))."""
        observed = values.copy()
        observed[:, missing] = 0.0
        return self.relations.constants[holding] - observed @ self.relations.matrix[holding].T

    def with_determined(self, frame: Any) -> tuple[Any, dict[Any, Column]]:
        """The table and its columns with what the observed numbers of rows determine.

        Raises
        ------
        DataError
            If observed or determined numbers satisfy no relation, or lie outside of the declared
            bounds of their column.
        """
        self.check()
        changed = dict[Any, Column]()
        determined = self.determined()
        for name, values in determined.items():
            column = self.columns.get(name)
            rows = np.flatnonzero(np.isnan(self.numbers[name]) & ~np.isnan(values))
            if column is None or not rows.size:
                continue
            self.refuse_outside(name, rows, values[rows], determined)
            changed[name] = with_numbers(column, rows, values[rows])
        if changed:
            series = [column.series for column in changed.values()]
            frame = read_frame(with_columns(frame, series))
        after = attrs.evolve(self, columns={**self.columns, **changed})
        after.check(identities_alone=True)
        return frame, changed

    def refuse_outside(
        self, name: Any, rows: IntArray, values: Array, numbers: Mapping[Any, Array]
    ) -> None:
        """A ``DataError`` where values that follow from a row are none of their column."""
        lower, upper = self.ends(name, rows, detected=False)
        size = 1.0 + np.abs(values)
        outside = (values < lower - RESULT_ROUNDING * size) | (
            values > upper + RESULT_ROUNDING * size
        )
        step = self.step(name)
        if step and self.is_linear(name):
            outside |= np.abs(values / step - np.rint(values / step)) > ROOT_ROUNDING * size
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            self.refuse_rows(name, int(rows[at]), float(values[at]), int(np.sum(outside)), numbers)

    def refuse_rows(
        self, name: Any, row: int, value: float, count: int, numbers: Mapping[Any, Array]
    ) -> None:
        """Raise the error of a value that a row determines and its column cannot have."""
        involved = [
            one
            for one in self.relations.either_kind
            if name in one.columns and self.holds_for(one.relation)[row]
        ]
        texts = listed([repr(one.relation.text) for one in involved])
        values = dict.fromkeys(other for one in involved for other in one.columns)
        shown = listed(
            [
                f"{plain(other)} = {exact(float(numbers[other][row]))}"
                for other in values
                if other != name and not np.isnan(numbers[other][row])
            ]
        )
        others = f" and {counted(count - 1, 'other row')}" * (count > 1)
        raise DataError(
            f"relation {texts} leaves {value:.9g} for column {plain(name)!r} in"
            f" {wording().row(row)}{others} ({shown}), and the column has"
            f" {self.what_is_allowed(name, row)}; correct the values, or declare wider bounds"
        )

    def what_is_allowed(self, name: Any, row: int) -> str:
        """The numbers that a column may have in a row, as text."""
        ends = self.ends(name, np.array([row]), detected=False)
        lower, upper = (float(end[0]) for end in ends)
        kind = "whole numbers" if self.step(name) == 1.0 else "numbers"
        # A limit that is left out of its range is the float next to it.
        lowest = f" from {lower:.12g}" if lower > -np.inf else ""
        return f"{kind}{lowest}" + (f" to {upper:.12g}" if upper < np.inf else "")

    def is_linear(self, name: Any) -> bool:
        """True of a column in an identity."""
        return name in self.relations.identity_columns

    def bounds(
        self, name: Any, evident: bool = False, detected: bool = True
    ) -> tuple[float, float]:
        """The bounds of a column: declared ones, or also evident ones, such as 0.

        Without what was detected the ends of a scale of whole numbers are none.
        """
        coding: Any = self.declared[name].coding
        lower, upper = coding.lower, coding.upper
        if isinstance(coding, Counts):
            lower = max(lower, 0.0)
        whole = coding.whole if detected else self.declared[name].column.whole
        if coding.is_whole and whole is not None:
            lower, upper = max(lower, float(whole[0])), min(upper, float(whole[1]))
        if evident:
            lower = max(lower, coding.support[0] * coding.unit)
            upper = min(upper, coding.support[1] * coding.unit)
        return lower, upper

    def ends(
        self, name: Any, rows: IntArray, evident: bool = False, detected: bool = True
    ) -> tuple[Array, Array]:
        """The bounds of a column in rows (b,), within the limits that are known of their cells."""
        lower, upper = (np.full(rows.size, end) for end in self.bounds(name, evident, detected))
        limits = self.columns[name].limits if name in self.columns else None
        if limits is None:
            return lower, upper
        of_rows = limits.at(rows)
        return np.maximum(lower, of_rows.lower), np.minimum(upper, of_rows.upper)

    def step(self, name: Any, drawn: bool = False) -> float:
        """The unit of which numbers of a column are multiples, 0 where there is none.

        Of values that are drawn 1 where all observed ones are whole.
        """
        declared = self.declared[name]
        coding: Any = declared.coding
        if coding.is_whole or (drawn and declared.has_whole_values):
            return 1.0
        decimals = declared.column.decimals
        return 0.0 if decimals is None else 10.0 ** -decimals[1]

    def related(
        self, codes: Mapping[Any, Array], drawn: bool = False, shifted: Sequence[Any] = ()
    ) -> dict[Any, Array]:
        """Codes of missing entries, by column, that satisfy the relations with the observed ones.

        Numbers of identities are the nearest ones within the bounds of their columns, in units of
        their standard deviations; whole ones are rounded so that identities hold. Those of
        ``shifted`` columns move only where no others can. Left sides of
        formulas are computed from what is filled; where they are observed, the last missing
        variable of the right side is solved for.

        Raises
        ------
        DataError
            If no numbers within declared bounds satisfy the identities in a row.
        """
        if not self.relations.declared:
            return dict(codes)
        numbers = {}
        for name, values in self.numbers.items():
            coding: Any = self.declared[name].coding
            numbers[name] = values.copy()
            numbers[name][np.isnan(values)] = codes.get(name, np.zeros(0)) * coding.unit
        if self.relations.identities:
            self.project(numbers, drawn, shifted)
        self.derive(numbers)
        moved = dict(codes)
        for name, values in self.numbers.items():
            if name in codes:
                unit = self.declared[name].coding.unit  # type: ignore[union-attr]
                moved[name] = numbers[name][np.isnan(values)] / unit
        return moved

    def project(self, numbers: dict[Any, Array], drawn: bool, shifted: Sequence[Any] = ()) -> None:
        """Move the missing numbers of identities to the nearest ones that satisfy these."""
        names = self.relations.identity_columns
        missing = np.isnan(np.column_stack([self.numbers[name] for name in names]))
        values = np.column_stack([numbers[name] for name in names])
        sizes = np.array([spread_of(self.declared[name].column.numbers) for name in names])
        sizes *= np.where([name in shifted for name in names], SHIFTED_SHARE, 1.0)
        steps = np.array([self.step(name, drawn) for name in names])
        for rows, lacking, holding in self.patterns(missing):
            problem = RowProjection(
                self.relations.matrix[np.ix_(holding, lacking)],
                self.rest(values[rows], lacking, holding),
                sizes[lacking],
                steps[lacking],
            )
            points = values[np.ix_(rows, lacking)]
            strict, evident = (
                [
                    np.column_stack(ends)
                    for ends in zip(
                        *(self.ends(names[k], rows, evident) for k in lacking), strict=True
                    )
                ]
                for evident in (False, True)
            )
            moved, possible = problem.solution(points, *evident)
            if not possible.all():
                others = ~possible
                moved[others], possible[others] = problem.of_rows(others).solution(
                    points[others], *(end[others] for end in strict)
                )
            if not possible.all():
                self.refuse_row(int(rows[np.argmin(possible)]), lacking, holding)
            values[np.ix_(rows, lacking)] = moved
        numbers |= dict(zip(names, values.T, strict=True))

    def refuse_row(self, row: int, lacking: IntArray, holding: IntArray) -> None:
        """Raise the error of a row that no numbers within bounds complete."""
        involved = [self.relations.identities[k] for k in holding]
        texts = " and ".join(repr(one.relation.text) for one in involved)
        shown = listed([self.values_in(one, row) for one in involved], between="; ")
        names = [self.relations.identity_columns[k] for k in lacking]
        bounds = listed(
            [f"{plain(name)!r} has {self.what_is_allowed(name, row)}" for name in names]
        )
        raise DataError(
            f"relation {texts} has no solution in {wording().row(row)} ({shown}): {bounds};"
            " correct the values, or declare wider bounds"
        )

    def derive(self, numbers: dict[Any, Array]) -> None:
        """Compute the left sides of formulas, or the last missing variable of the right side."""
        for derivation in self.relations.derivations:
            holds, target = self.holds_for(derivation.relation), derivation.target
            missing = {name: np.isnan(self.numbers[name]) for name in derivation.columns}
            rows = np.flatnonzero(holds & missing[target])
            if rows.size:
                values = self.solved(derivation, target, rows, numbers)
                self.write(numbers, target, rows, values)
            free = [name for name in derivation.expression.columns if not self.is_linear(name)]
            unsolved = holds & ~missing[target]
            for name in reversed(free):
                rows = np.flatnonzero(unsolved & missing[name])
                if rows.size:
                    values = self.solved(derivation, name, rows, numbers)
                    self.write(numbers, name, rows, values)
                    unsolved[rows[np.isfinite(values)]] = False

    def write(self, numbers: dict[Any, Array], name: Any, rows: IntArray, values: Array) -> None:
        """Set numbers where values are finite, within bounds and whole as those of the column."""
        lower, upper = self.ends(name, rows)
        values = np.where(np.isfinite(values), np.clip(values, lower, upper), np.nan)
        step = self.step(name)
        values = np.rint(values / step) * step if step else values
        numbers[name][rows] = np.where(np.isnan(values), numbers[name][rows], values)


def spread_of(numbers: Array) -> float:
    """The standard deviation of the observed numbers, or their size where that is 0."""
    seen, size = numbers[~np.isnan(numbers)], size_of(numbers)
    if not seen.size:
        return size
    spread = size * float(np.std(seen / size))
    return spread if spread > SUM_ROUNDING * size else size


def half_of_last_digit(numbers: Array) -> float:
    """Half a unit of the last digit to which numbers are rounded, 0 where they are not."""
    seen = numbers[~np.isnan(numbers)]
    for digits in range(MOST_DIGITS + 1):
        scaled = seen * 10.0**digits
        if np.all(np.abs(scaled - np.rint(scaled)) <= RESULT_ROUNDING * np.maximum(1.0, scaled)):
            return 0.5 * 10.0**-digits * (1.0 + RESULT_ROUNDING)
    return 0.0


def single_roots(
    derivation: Derivation, name: Any, numbers: Mapping[Any, Array], ends: tuple[float, float]
) -> Array:
    """The values of a variable between two ends that solve a formula, NaN unless there is one.

    Other columns have the given numbers (n,).
    """
    target = numbers[derivation.target]

    def excess(x: Array) -> Array:
        others = {
            other: values[:, None] if x.ndim > 1 else values for other, values in numbers.items()
        }
        left = target[:, None] if x.ndim > 1 else target
        return derivation.expression.values({**others, name: x}) - left

    grid = np.broadcast_to(np.linspace(*ends, GRID_POINTS), (target.size, GRID_POINTS))
    with np.errstate(invalid="ignore"):
        signs = np.sign(excess(grid))
        crosses = (signs[:, :-1] * signs[:, 1:] < 0.0) | (signs[:, :-1] == 0.0)
    single = np.count_nonzero(crosses, axis=1) == 1
    first = np.argmax(crosses, axis=1)
    rows = np.arange(target.size)
    low, high = grid[rows, first].copy(), grid[rows, first + 1].copy()
    sign = signs[rows, first + 1]
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        beyond = np.sign(excess(middle)) == sign
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    root = np.where(signs[rows, first] == 0.0, grid[rows, first], 0.5 * (low + high))
    with np.errstate(invalid="ignore"):
        solves = np.abs(excess(root)) <= ROOT_ROUNDING * (np.abs(target) + EPS)
    return np.where(single & solves, root, np.nan)


def with_numbers(column: Column, rows: IntArray, values: Array) -> Column:
    """A column with numbers at rows."""
    written: list[Any] = values.tolist()
    if column.whole is not None:
        written = [round(value) for value in written]
    if isinstance(column, TextNumbers):
        texts = [repr(value) for value in written]
        series = filled_series(column.series, rows, texts)
    else:
        series = column.filled(rows, written)
    limits = column.given_limits
    if limits is not None:  # a number is known in their place
        others = np.ones(column.limited.size, dtype=bool)
        others[rows] = False
        limits = limits.only(others)
    n_determined = column.n_determined + rows.size
    return attrs.evolve(column, series=series, given_limits=limits, n_determined=n_determined)

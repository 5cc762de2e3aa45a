"""Draws of completed tables in which outcomes have a regression on terms of the other columns.

A square or a product of columns has no place in a Gaussian distribution of rows, so that its
coefficient is drawn towards 0 in tables that are drawn from one. Here the columns are parted.
*Covariates* are those that a term reads, and labels and categories. They have the distribution of
rows as before. *Outcomes* are the other numbers: they have a Gaussian regression on the covariates
and the terms, whose coefficients and covariance are drawn (Bartlett, Seaman, White and Carpenter,
Multiple imputation of covariates by fully conditional specification: accommodating the
substantive model, Statistical Methods in Medical Research 24, 2015).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import scipy

from mcframe.contracts.arrays import Array, IntArray, Mask
from mcframe.contracts.errors import ModelError
from mcframe.contracts.rounding import RESULT_ROUNDING
from mcframe.contracts.validators import plain
from mcframe.tables.coding import Choice, Counts
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.formula_terms import Formula, design_of, refuse_infinite
from mcframe.tables.semicontinuous import SemiContinuous

# Proposals for the missing covariates of each row, and the sweeps after which a choice among them
# has forgotten the first one, which was drawn without the outcomes.
PROPOSALS, SWEEPS = 40, 15


@attrs.frozen(eq=False)
class PartedColumns:
    """The columns of a table as outcomes and covariates of a formula.

    Attributes
    ----------
    formula : Formula
    outcomes, covariates : tuple of DeclaredColumn
    """

    formula: Formula
    outcomes: tuple[DeclaredColumn, ...]
    covariates: tuple[DeclaredColumn, ...]

    @classmethod
    def of(cls, formula: Formula, columns: Sequence[DeclaredColumn]) -> "PartedColumns":
        """The parts of the columns that stand in a block.

        Counts and columns with a point mass or known limits are outcomes only where the formula
        names them so, which limits do not allow.
        """
        formula.check([column.name for column in columns])
        read = {name for term in formula.further_terms for name in term.columns}
        modelled = [column for column in columns if column.place is not None]
        for column in columns:
            if column.name == formula.outcome and column.column.limited.any():
                raise ModelError(
                    f"the outcome {plain(column.name)!r} has values known to limits alone, and"
                    " draws with terms have no use for these; draw without terms, or make"
                    " these values missing"
                )
            if column.place is None and column.name in read:
                raise ModelError(
                    f"a term reads column {plain(column.name)!r}, which stands in no block:"
                    f" {column.why}"
                )
        outcomes = [
            column
            for column in modelled
            if column.name not in read
            and not isinstance(column.block_coding, Choice)
            and (
                column.name == formula.outcome
                or not (
                    isinstance(column.block_coding, Counts | SemiContinuous)
                    or column.column.limited.any()
                )
            )
        ]
        if not outcomes:
            raise ModelError(
                "every column of numbers stands in a term, and none is left to be explained; name"
                " fewer terms"
            )
        covariates = [column for column in modelled if column not in outcomes]
        return cls(formula, tuple(outcomes), tuple(covariates))

    def demand_outcomes(self, columns: Sequence[DeclaredColumn]) -> None:
        """A ``ModelError`` that names a column that is shifted to a group and is no outcome."""
        for column in columns:
            if column not in self.outcomes:
                raise ModelError(
                    f"shift of column {plain(column.name)!r}: to a reference group outcomes of"
                    " the regression are shifted, and with terms this column is a covariate, for"
                    " it stands in a term, has known limits, or is taken for something else than"
                    " numbers; draw without terms, or leave it out of shift"
                )

    def design(self, codes: Mapping[Any, Array], spec: Any = None) -> tuple[Array, Any, list[str]]:
        """The design (... x p) at codes of the covariates: 1, themselves, and the terms.

        With it how the terms were made, for a later design of the same terms, and their names.
        """
        import pandas as pd

        parts, columns = list[Array](), dict[Any, Any]()
        for column in self.covariates:
            coding = column.block_coding
            places = codes[column.name]
            if isinstance(coding, Choice):
                count = len(coding.places)
                indicators = places[..., None] == np.arange(1, count)
                parts.append(indicators.astype(np.float64))
                # As ``in_formulas`` has the values, which terms may name.
                chosen, values = places.ravel().astype(np.intp), list(coding.places)
                columns[column.name] = (
                    np.array(values, dtype=np.float64)[chosen]
                    if column.column.form in ("number", "boolean")
                    else pd.Categorical.from_codes(chosen, values)
                )
            else:
                parts.append((places * coding.unit)[..., None])
                columns[column.name] = parts[-1].ravel()
        shape = parts[0].shape[:-1]
        names, terms, spec = design_of(self.formula.further_terms, columns, spec)
        parts.append(terms.reshape(*shape, terms.shape[1]))
        return np.concatenate([np.ones((*shape, 1)), *parts], axis=-1), spec, names


@attrs.frozen(eq=False)
class Regression:
    """A Gaussian regression of several outcomes, one draw of its parameters.

    Attributes
    ----------
    coefficients : array (p x q)
    covariance : array (q x q)
    """

    coefficients: Array
    covariance: Array

    @classmethod
    def drawn(
        cls, design: Array, outcomes: Array, rng: np.random.Generator, counts: Array
    ) -> "Regression":
        """A draw given a design (n x p) and outcomes (n x q), with the prior |S|^(-(q + 1)/2).

        ``counts`` (n,) are how often rows count.
        """
        n, q = float(np.sum(counts)), outcomes.shape[1]
        design, outcomes = (np.sqrt(counts)[:, None] * part for part in (design, outcomes))
        sizes = np.sqrt(np.mean(np.square(design), axis=0))
        sizes[sizes == 0.0] = 1.0
        left, values, right = np.linalg.svd(design / sizes, full_matrices=False)
        rank = int(np.count_nonzero(values > RESULT_ROUNDING * values[0]))
        degrees = n - rank
        if degrees < q + 2:
            raise ModelError(
                f"{rank} terms and columns explain {q} outcomes of {n:.4g} rows; there are too few"
                " rows to draw their coefficients, so name fewer terms or leave columns out"
            )
        left, values, right = left[:, :rank], values[:rank], right[:rank]
        coefficients = left.T @ outcomes
        residuals = outcomes - left @ coefficients
        scatter = residuals.T @ residuals
        scatter[np.diag_indices(q)] += (
            RESULT_ROUNDING * np.trace(scatter) / q + np.finfo(float).tiny
        )
        covariance = np.atleast_2d(scipy.stats.invwishart(degrees, scatter).rvs(random_state=rng))
        noise = rng.standard_normal((rank, q)) @ np.linalg.cholesky(covariance).T
        scaled = (right.T / values) @ (coefficients + noise)
        return cls(scaled / sizes[:, None], covariance)

    def log_densities(self, means: Array, outcomes: Array, seen: Mask) -> Array:
        """The log densities (K x n) of the outcomes that are seen (n x q) at means (K x n x q)."""
        logs = np.zeros(means.shape[:2])
        for rows, pattern in by_pattern(seen):
            if not pattern.any():
                continue
            part = self.covariance[np.ix_(pattern, pattern)]
            differences = outcomes[np.ix_(rows, pattern)] - means[:, rows][:, :, pattern]
            solved = np.linalg.solve(part, differences[..., None])[..., 0]
            logs[:, rows] = -0.5 * np.sum(differences * solved, axis=-1)
        return logs

    def filled(
        self,
        means: Array,
        outcomes: Array,
        seen: Mask,
        rng: np.random.Generator | None = None,
    ) -> Array:
        """Outcomes (n x q) with draws where they are not seen, given those that are.

        Without a generator their conditional means.
        """
        filled = outcomes.copy()
        for rows, pattern in by_pattern(seen):
            hidden = np.flatnonzero(~pattern)
            if not hidden.size:
                continue
            part = self.covariance[np.ix_(pattern, pattern)]
            slopes = np.linalg.solve(part, self.covariance[np.ix_(pattern, hidden)])
            differences = (outcomes - means)[np.ix_(rows, pattern)]
            filled[np.ix_(rows, hidden)] = means[np.ix_(rows, hidden)] + differences @ slopes
            if rng is not None:
                left = self.covariance[np.ix_(hidden, hidden)]
                left = left - self.covariance[np.ix_(hidden, pattern)] @ slopes
                noise = rng.standard_normal((rows.size, hidden.size))
                filled[np.ix_(rows, hidden)] += noise @ np.linalg.cholesky(left).T
        return filled


def by_pattern(seen: Mask) -> list[tuple[IntArray, Mask]]:
    """Return the rows of each pattern of a mask, with the pattern."""
    patterns, places = np.unique(seen, axis=0, return_inverse=True)
    places = places.ravel()
    return [(np.flatnonzero(places == k), pattern) for k, pattern in enumerate(patterns)]


@attrs.frozen(eq=False)
class CompatibleDraw:
    """One draw of a table in which outcomes have a regression on terms of the covariates.

    Attributes
    ----------
    parted : PartedColumns
    covariates : dict from column name to array (n,)
        Codes of all rows.
    spec : object
        How the terms of the design were made.
    regression : Regression
    outcomes : array (n x q)
        In standard units.
    seen : mask (n x q)
        The outcomes that are observed.
    centre, spread : array (q,)
        The units of the outcomes.
    """

    parted: PartedColumns
    covariates: dict[Any, Array]
    spec: Any
    regression: Regression
    outcomes: Array
    seen: Mask
    centre: Array
    spread: Array

    def means(self, codes: Mapping[Any, Array]) -> Array:
        """The means of the outcomes (n x q) given codes of the covariates, in standard units."""
        design, _, names = self.parted.design(codes, self.spec)
        refuse_infinite(names, design[:, design.shape[1] - len(names) :])
        return design @ self.regression.coefficients

    @property
    def codes(self) -> dict[Any, Array]:
        """Codes of missing entries, of all columns by name."""
        drawn = {
            column.name: self.covariates[column.name][column.column.missing]
            for column in self.parted.covariates
        }
        for k, column in enumerate(self.parted.outcomes):
            coding: Any = column.coding
            values = self.outcomes[column.column.missing, k] * self.spread[k] + self.centre[k]
            values = np.clip(values, coding.lower / coding.unit, coding.upper / coding.unit)
            drawn[column.name] = coding.whole_within(column.rounded(values))
        return drawn


def compatible_draw(
    parted: PartedColumns,
    codes: Mapping[Any, Array],
    proposals: Mapping[Any, Array],
    rng: np.random.Generator,
    counts: Array,
) -> CompatibleDraw:
    """Return a draw of the missing entries of a table, by turns.

    Each sweep draws the parameters of the regression given all entries; the covariates of each row
    among their proposals, by the density of its outcomes (sampling and importance resampling:
    Rubin, 1987); and the outcomes that are missing.

    Parameters
    ----------
    parted : PartedColumns
    codes : dict from column name to array
        Of missing entries, from which the sweeps begin.
    proposals : dict from the name of a covariate to array (K x n)
        Draws of its column given the other covariates alone; observed codes do not differ.
    rng : generator
    counts : array (n,)
        How often each row counts.
    """
    n_rows = parted.outcomes[0].codes.size
    hidden = np.column_stack([column.column.missing for column in parted.outcomes])
    outcomes = np.column_stack([column.codes for column in parted.outcomes])
    seen = ~np.isnan(outcomes)
    centre, spread = np.nanmean(outcomes, axis=0), np.nanstd(outcomes, axis=0)
    spread[spread == 0.0] = 1.0
    outcomes = (outcomes - centre) / spread
    for k, column in enumerate(parted.outcomes):
        rows = np.flatnonzero(column.column.missing)
        outcomes[rows, k] = (codes.get(column.name, np.zeros(0)) - centre[k]) / spread[k]
    outcomes[~seen & ~hidden] = 0.0  # text among numbers, which is not filled
    incomplete = np.any([column.column.missing for column in parted.covariates], axis=0)
    rows = np.flatnonzero(incomplete)
    design, spec, names = parted.design({name: values[0] for name, values in proposals.items()})
    proposed = {name: values[:, rows] for name, values in proposals.items()}
    designs, *_ = parted.design(proposed, spec)
    # Proposals outside of where a term is defined, as a logarithm above 0, are never chosen.
    possible = np.all(np.isfinite(designs), axis=-1)
    chosen = rng.integers(len(designs), size=rows.size)
    chosen = np.where(possible[chosen, np.arange(rows.size)], chosen, np.argmax(possible, axis=0))
    design[rows] = designs[chosen, np.arange(rows.size)]
    refuse_infinite(names, design[:, design.shape[1] - len(names) :])
    designs = np.where(possible[..., None], designs, 0.0)
    for _ in range(SWEEPS):
        design[rows] = designs[chosen, np.arange(rows.size)]
        regression = Regression.drawn(design, outcomes, rng, counts)
        means = designs @ regression.coefficients
        logs = regression.log_densities(means, outcomes[rows], seen[rows])
        logs = np.where(possible, logs, -np.inf)
        chosen = np.argmax(logs + rng.gumbel(size=logs.shape), axis=0)
        design[rows] = designs[chosen, np.arange(rows.size)]
        outcomes = regression.filled(design @ regression.coefficients, outcomes, seen, rng)
    place = np.zeros(n_rows, dtype=np.intp)
    place[rows] = chosen
    covariates = {name: values[place, np.arange(n_rows)] for name, values in proposals.items()}
    return CompatibleDraw(parted, covariates, spec, regression, outcomes, seen, centre, spread)

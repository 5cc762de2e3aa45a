"""A regression on completed tables, its estimates pooled: ``mc.pool.formula``."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast

import attrs
import numpy as np
from scipy.special import expit

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError, warn_caller
from mcframe.contracts.limits import MOST_STEPS
from mcframe.contracts.rounding import RESULT_ROUNDING, SUM_ROUNDING
from mcframe.contracts.validators import (
    Options,
    RandomState,
    a_type,
    listed,
    plain,
    suggests_options,
)
from mcframe.model.labels import is_frame
from mcframe.tables.columns import read_columns, read_frame
from mcframe.tables.completion import Completion, DrawsOfTable
from mcframe.tables.formula_terms import Formula, design_of, in_formulas, refuse_infinite
from mcframe.tables.pooling import Pooled
from mcframe.tables.pooling import pool as pool_estimates

__all__ = ["pool", "pool_formula"]


@suggests_options
def pool_formula(
    formula: str,
    completed: Completion[Any] | Iterable[Any],
    m: int = 20,
    *,
    random_state: RandomState = 0,
    shift: Mapping[Any, float] | None = None,
) -> Pooled:
    """Fit a regression to completed tables and pool its coefficients by Rubin's rules.

    Least squares for numbers and counts; for labels and other columns of two values a logistic
    regression, whose coefficients are those of the log odds of the second value: True, 1, or the
    later one in the order of the categories or the alphabet. The degrees of freedom are those of
    Barnard and Rubin, with n - p for complete data.

    Parameters
    ----------
    formula : str
        Such as ``"y ~ x1 + I(x1**2) + x1:x2"``, in the language of formulaic, which is that of R:
        ``a:b`` is a product and ``a*b`` short for ``a + b + a:b``; ``I(...)`` has arithmetic;
        functions such as ``log``, ``exp``, ``sqrt``, ``abs``, ``poly`` and ``bs`` are known;
        ``np.name`` those of numpy; ``Q("a b")`` or a name in backticks is the column of that name;
        ``1`` is the intercept, which ``- 1`` takes away. Categories, also as ``C(town)``, are
        indicators of all values but the first. ``^`` is ``**``, also within ``I(...)``. Unlike in
        R, ``x**2`` and ``x^2`` are the square ``I(x**2)``, of functions, too; ``(a + b)**2`` is
        ``a + b + a:b``. There are no ``.`` for all columns, offsets, random effects or functions
        of the outcome: make that a column before the table is completed.
    completed : Completion, or a sequence of completed tables
        Of a ``Completion`` m tables are drawn, with the terms of the formula. Tables that were
        drawn without a term have a warning.
    m : int, default 20
        The number of tables that are drawn.
    random_state : int, generator of numpy or None, default 0
    shift : dict from column name to float, optional
        As in ``Completion.draws``, of the tables that are drawn.

    Returns
    -------
    Pooled
        ``names`` are those of the coefficients.

    Raises
    ------
    ModuleNotFoundError
        Without formulaic: ``pip install "mcframe[formula]"``.
    ModelError, DataError
        If the formula cannot be read or names no column, a term is not finite, there are too few
        rows, or coefficients are not determined; as ``Completion.draws`` and ``mc.pool``.

    Examples
    --------
    >>> import numpy as np, pandas as pd, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal(200)
    >>> frame = pd.DataFrame({"x": x, "y": x + 0.7 * x**2 + rng.standard_normal(200)})
    >>> frame.loc[rng.random(200) < 0.3, "y"] = None
    >>> pooled = mc.pool.formula("y ~ x + I(x**2)", mc.complete(frame))
    >>> pooled.names
    ('Intercept', 'x', 'I(x ** 2)')
    >>> bool(abs(pooled.estimate[2] - 0.7) < 0.3)
    True
    """
    if not isinstance(formula, str):
        raise ModelError(
            f"the formula is {a_type(formula)}; a text such as 'y ~ x1' is needed, and the"
            " completed table after it"
        )
    read = Formula.of(formula)
    if isinstance(completed, Completion):
        tables: Any = completed.draws(Options.m(m), random_state, terms=formula, shift=shift)
        columns = [completed.declared.column(read.outcome)]
        if any(column.coding is not None and column.coding.places for column in columns):
            warn_of_terms(read, "the outcome is no number, and draws keep terms for numbers alone")
    else:
        if is_frame(completed) or not isinstance(completed, Iterable):
            raise ModelError(
                f"{a_type(completed)} was given to {formula!r}; give what mc.complete(frame)"
                " answers, of which tables are drawn, or a list of completed tables, as"
                " completed.draws(20)"
            )
        if shift is not None:
            raise ModelError(
                "shift was given with tables that are drawn already; give it to completed.draws"
            )
        tables = completed if isinstance(completed, DrawsOfTable) else list(completed)
        kept = tables.formula if isinstance(tables, DrawsOfTable) else None
        terms = () if kept is None else kept.further_terms
        lost = Formula(
            read.outcome, tuple(term for term in read.further_terms if term not in terms)
        )
        warn_of_terms(lost, "the tables were drawn without them")
    fits = [fitted(read, table) for table in tables]
    if not fits:
        raise DataError("there are no completed tables; two or more are needed")
    names, n_rows = fits[0][0], fits[0][3]
    if any(fit[0] != names for fit in fits):
        raise DataError("the completed tables differ in their categories; give draws of one table")
    pooled = pool_estimates(
        [fit[1] for fit in fits],
        [fit[2] for fit in fits],
        complete_degrees_of_freedom=float(n_rows - len(names)),
    )
    return attrs.evolve(pooled, names=tuple(names))


class Pool(Protocol):
    """The verb ``mc.pool``, with the regression as an attribute, so that pooling has one name."""

    formula: Callable[..., Pooled]

    def __call__(
        self, estimates: Any, variances: Any, *, complete_degrees_of_freedom: float = np.inf
    ) -> Pooled:
        """The pooled estimates, as ``mcframe.tables.pooling.pool`` has them."""
        ...


vars(pool_estimates)["formula"] = pool_formula
pool = cast("Pool", pool_estimates)


def warn_of_terms(formula: Formula, why: str) -> None:
    """A ``UserWarning`` that names terms whose coefficients are biased towards 0."""
    terms = formula.further_terms
    if terms:
        texts = [str(term) for term in terms]
        warn_caller(
            f"the coefficients of {listed(texts)} are biased towards 0: {why}; draw tables by"
            f" completed.draws(m, terms={texts!r})"
        )


def fitted(formula: Formula, table: Any) -> tuple[list[str], Array, Array, int]:
    """Return names, coefficients, squared standard errors, and the number of rows."""
    columns = {column.name: column for column in read_columns(read_frame(table))}
    formula.check(list(columns))
    wanted = {formula.outcome, *(name for term in formula.terms for name in term.columns)}
    data = {name: in_formulas(columns[name]) for name in wanted}
    names, design, _ = design_of(formula.terms, data, intercept=formula.intercept)
    refuse_infinite(names, design)
    of_outcome, outcome = columns[formula.outcome], data[formula.outcome]
    is_label = of_outcome.form not in ("number", "date")
    if is_label and of_outcome.form != "boolean":
        if len(outcome.categories) > 2:
            raise ModelError(
                f"the outcome {plain(formula.outcome)!r} has more than two categories; take a"
                " label or a number"
            )
        outcome = outcome.codes.astype(np.float64)
    n_rows, n_terms = design.shape
    if n_rows <= n_terms:
        raise DataError(
            f"{n_terms} coefficients were asked for of {n_rows} rows; fewer are needed"
        )
    sizes = np.sqrt(np.mean(np.square(design), axis=0))
    if np.linalg.matrix_rank(design / np.where(sizes > 0.0, sizes, 1.0)) < n_terms:
        raise DataError(
            f"the coefficients of {', '.join(names)} are not determined, for some terms are sums"
            " of others; leave one out"
        )
    scaled, values = design / sizes, np.asarray(outcome)
    if is_label:
        coefficients, covariance = logistic(scaled, values)
    else:
        inverse = np.linalg.inv(scaled.T @ scaled)
        coefficients = inverse @ (scaled.T @ values)
        residuals = values - scaled @ coefficients
        covariance = residuals @ residuals / (n_rows - n_terms) * inverse
    return names, coefficients / sizes, np.diag(covariance) / np.square(sizes), n_rows


def logistic(design: Array, outcome: Array) -> tuple[Array, Array]:
    """Return coefficients of the largest likelihood and their covariance, by Newton's method."""
    coefficients = np.zeros(design.shape[1])
    for _ in range(MOST_STEPS):
        p = expit(design @ coefficients)
        information = (design.T * (p * (1.0 - p))) @ design
        if np.linalg.cond(information) > 1.0 / SUM_ROUNDING:
            break
        step = np.linalg.solve(information, design.T @ (outcome - p))
        coefficients = coefficients + step
        if math.sqrt(float(step @ step)) <= RESULT_ROUNDING:
            return coefficients, np.linalg.inv(information)
    raise DataError(
        "the logistic regression has no finite coefficients: the terms separate the two values;"
        " leave terms out"
    )

"""Analyses of completed tables, pooled: ``mc.pool.formula``, ``with_`` and ``compare``."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, cast

import attrs
import numpy as np
from scipy.special import expit

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError, warn_caller
from mcframe.contracts.limits import MOST_STEPS
from mcframe.contracts.rounding import RESULT_ROUNDING, SUM_ROUNDING
from mcframe.contracts.row_weights import checked_row_weights
from mcframe.contracts.validators import (
    Options,
    RandomState,
    a_type,
    listed,
    one_of,
    plain,
    suggests_options,
)
from mcframe.model.labels import is_frame
from mcframe.selection.splitters import check_length
from mcframe.tables.columns import Column, read_columns, read_frame
from mcframe.tables.completion import Completion
from mcframe.tables.formula_terms import Formula, design_of, in_formulas, refuse_infinite
from mcframe.tables.gaps import meant_column
from mcframe.tables.grouping import is_hashable
from mcframe.tables.joint_tests import (
    JointTest,
    pool_chi_square,
    wald_test,
)
from mcframe.tables.pooling import Pooled
from mcframe.tables.pooling import pool as pool_estimates
from mcframe.tables.table_draws import DrawsOfTable

__all__ = ["pool", "pool_comparison", "pool_formula", "pool_with"]


@suggests_options
def pool_formula(
    formula: str,
    completed: Completion[Any] | Iterable[Any],
    m: int = 20,
    *,
    random_state: RandomState = 0,
    shift: Mapping[Any, float] | None = None,
    row_weights: Any = None,
) -> Pooled:
    """Fit a regression to completed tables and pool its coefficients by Rubin's rules.

    Least squares for numbers and counts; for labels and other columns of two values a logistic
    regression, whose coefficients are those of the log odds of the second value: True, 1, or the
    later one in the order of the categories or the alphabet. The degrees of freedom are those of
    Barnard and Rubin, with n - p for complete data.

    Rows with weights w_i count as often in the sums, and the covariance of the coefficients is
    ``n / (n - p) A^-1 (sum_i w_i^2 s_i s_i') A^-1``, with the derivatives s_i of the log
    likelihood of a row and the weighted information A (the sandwich of Binder, International
    Statistical Review 51, 1983): that of a sample whose rows were drawn independently.

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
    shift : dict from column name to float or ``mc.shift(...)``, optional
        As in ``Completion.draws``, of the tables that are drawn.
    row_weights : name of a column, or sequence with a number above 0 for each row, optional
        How many of a population each row stands for; by default the weights with which the table
        was completed, if any.

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
    fits = regressions(formula, completed, m, random_state, shift, row_weights)
    pooled = pool_estimates(
        [fit.coefficients for fit in fits],
        [fit.covariance for fit in fits],
        complete_degrees_of_freedom=float(fits[0].n_rows - len(fits[0].names)),
    )
    return attrs.evolve(pooled, names=tuple(fits[0].names))


def regressions(
    formula: str,
    completed: Completion[Any] | Iterable[Any],
    m: int,
    random_state: RandomState,
    shift: Mapping[Any, float] | None,
    row_weights: Any = None,
) -> "list[TableRegression]":
    """The regression of a formula on each completed table, given or drawn."""
    if not isinstance(formula, str):
        raise ModelError(
            f"the formula is {a_type(formula)}; a text such as 'y ~ x1' is needed, and the"
            " completed table after it"
        )
    read = Formula.of(formula)
    if isinstance(completed, Completion):
        columns = [completed.declared.column(read.outcome)]
        if any(column.coding is not None and column.coding.places for column in columns):
            warn_of_terms(read, "the outcome is no number, and draws keep terms for numbers alone")
    tables = tables_of(completed, m, random_state, terms=formula, shift=shift, to=formula)
    if not isinstance(completed, Completion):
        kept = tables.formula if isinstance(tables, DrawsOfTable) else None
        terms = () if kept is None else kept.further_terms
        lost = Formula(
            read.outcome, tuple(term for term in read.further_terms if term not in terms)
        )
        warn_of_terms(lost, "the tables were drawn without them")
    if row_weights is None:
        row_weights = getattr(tables, "row_weights", None)
    fits = [fitted(read, table, row_weights) for table in tables]
    if any(fit.names != fits[0].names for fit in fits):
        raise DataError("the completed tables differ in their categories; give draws of one table")
    return fits


def tables_of(
    completed: Completion[Any] | Iterable[Any],
    m: int,
    random_state: RandomState,
    *,
    terms: Sequence[str] | str | None,
    shift: Mapping[Any, float] | None,
    to: str,
) -> Sequence[Any]:
    """Tables that are drawn of a ``Completion``, or those that were given."""
    if isinstance(completed, Completion):
        return completed.draws(Options.m(m), random_state, terms=terms, shift=shift)
    if is_frame(completed) or not isinstance(completed, Iterable):
        raise ModelError(
            f"{a_type(completed)} was given to {to!r}; give what mc.complete(frame)"
            " answers, of which tables are drawn, or a list of completed tables, as"
            " completed.draws(20)"
        )
    if shift is not None:
        raise ModelError(
            "shift was given with tables that are drawn already; give it to completed.draws"
        )
    tables = completed if isinstance(completed, DrawsOfTable) else list(completed)
    if not len(tables):
        raise DataError("there are no completed tables; two or more are needed")
    return tables


@suggests_options
def pool_with(
    completed: Completion[Any] | Iterable[Any],
    analysis: Callable[[Any], Any],
    m: int = 20,
    *,
    random_state: RandomState = 0,
    terms: Sequence[str] | str | None = None,
    shift: Mapping[Any, float] | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> Pooled:
    """Make an analysis of completed tables and pool its estimates by Rubin's rules.

    Parameters
    ----------
    completed : Completion, or a sequence of completed tables
        Of a ``Completion`` m tables are drawn.
    analysis : function of a completed table
        It returns a pair of estimates and their variances or covariance matrix, or a result with
        ``params``, ``cov_params()`` and ``df_resid``, as the models of statsmodels have.
    m : int, default 20
        The number of tables that are drawn.
    random_state, terms, shift : as in ``Completion.draws``
    n_jobs : int, optional
        The number of processes that analyse tables side by side, as in joblib; one by default.
    **options
        ``complete_degrees_of_freedom`` and ``scale`` of ``mc.pool``.

    Returns
    -------
    Pooled

    Raises
    ------
    ModelError
        If ``analysis`` cannot be called; as ``Completion.draws`` and ``mc.pool``.
    DataError
        If it returns anything else; as ``mc.pool``.

    Examples
    --------
    >>> import numpy as np, pandas as pd, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> a = rng.standard_normal(200)
    >>> frame = pd.DataFrame({"a": a, "b": 0.6 * a + 0.8 * rng.standard_normal(200)})
    >>> frame.loc[rng.random(200) < 0.3, "b"] = None
    >>> def correlation(table):
    ...     r = table["a"].corr(table["b"])
    ...     return r, (1 - r**2) ** 2 / (len(table) - 3)
    >>> pooled = mc.pool.with_(mc.complete(frame), correlation, scale="fisher_z")
    >>> lower, upper = pooled.interval()
    >>> bool(lower < 0.6 < upper)
    True
    """
    if not callable(analysis):
        raise ModelError(
            f"analysis={analysis!r} was given; a function of a completed table is needed"
        )
    tables = tables_of(completed, m, random_state, terms=terms, shift=shift, to="mc.pool.with_")
    if n_jobs is None:
        results = [analysis(table) for table in tables]
    else:
        from joblib import Parallel, delayed  # only here: importing it is slow

        results = Parallel(n_jobs=Options.n_processes(n_jobs))(
            delayed(analysis)(table) for table in tables
        )
    are_pairs = [isinstance(result, tuple) and len(result) == 2 for result in results]
    for k, result in enumerate(results):
        if not are_pairs[k] and (
            isinstance(result, tuple) or getattr(result, "params", None) is None
        ):
            raise DataError(
                f"the analysis of table {k} returned {a_type(result)}; a pair of estimates and"
                " their variances is needed, or a result with params and cov_params()"
            )
    if all(are_pairs):
        estimates, variances = zip(*results, strict=True)
        return pool_estimates(list(estimates), list(variances), **options)
    return pool_estimates(results, **options)


@suggests_options
def pool_comparison(
    formula: str,
    restricted: str,
    completed: Completion[Any] | Iterable[Any],
    m: int = 20,
    *,
    method: str = "D1",
    random_state: RandomState = 0,
    shift: Mapping[Any, float] | None = None,
    row_weights: Any = None,
) -> JointTest:
    """Test whether terms of a regression are needed: two formulas, one within the other.

    Parameters
    ----------
    formula, restricted : str
        As in ``mc.pool.formula``, of one outcome; all terms of ``restricted`` are terms of
        ``formula``, too.
    completed : Completion, or a sequence of completed tables
        Of a ``Completion`` m tables are drawn, with the terms of ``formula``.
    m : int, default 20
    method : "D1", "D2", "D3" or "D4", default "D1"
        "D1" is Wald's test of the coefficients that are left out; "D2" pools the chi-square
        statistics of that test on each table, and knows less; "D3" is the likelihood ratio at the
        means of the parameters (Meng and Rubin, Biometrika 79, 1992), "D4" that of all tables as
        one (Chan and Meng, Statistica Sinica 32, 2022).
    random_state : int, generator of numpy or None, default 0
    shift : dict from column name to float or ``mc.shift(...)``, optional
        As in ``Completion.draws``, of the tables that are drawn: both formulas are fitted to the
        same ones.
    row_weights : as in ``mc.pool.formula``
        There is no likelihood ratio of weighted rows: "D1" and "D2" alone take them.

    Returns
    -------
    JointTest

    Raises
    ------
    ModelError
        If ``restricted`` is not within ``formula``, or the method is unknown; as
        ``mc.pool.formula``.

    Examples
    --------
    >>> import numpy as np, pandas as pd, mcframe as mc
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame(rng.standard_normal((150, 3)), columns=["a", "b", "y"])
    >>> frame["y"] += frame["a"] + 0.5 * frame["b"]
    >>> frame["a"] = frame["a"].mask(rng.random(150) < 0.1)
    >>> completed = mc.complete(frame)
    >>> bool(mc.pool.compare("y ~ a + b", "y ~ a", completed).p_value < 0.01)
    True
    """
    one_of(method, "method", ("D1", "D2", "D3", "D4"))
    outcomes = {Formula.of(text).outcome for text in (formula, restricted)}
    tables = tables_of(completed, m, random_state, terms=formula, shift=shift, to=formula)
    full = regressions(formula, tables, m, random_state, None, row_weights)
    smaller = regressions(restricted, tables, m, random_state, None, row_weights)
    if full[0].row_weights is not None and method in ("D3", "D4"):
        raise ModelError(
            f"method={method!r} compares likelihoods, and rows have weights, which make none; take"
            " method='D1'"
        )
    left_out = [name for name in full[0].names if name not in smaller[0].names]
    if (
        len(outcomes) > 1
        or not left_out
        or len(left_out) + len(smaller[0].names) != len(full[0].names)
    ):
        raise ModelError(
            f"{restricted!r} is not within {formula!r}; leave terms of the first formula out in"
            " the second one, with the same outcome"
        )
    places = np.array([full[0].names.index(name) for name in left_out])
    points = np.array([fit.coefficients[places] for fit in full])
    covariances = np.array([fit.covariance[np.ix_(places, places)] for fit in full])
    complete, count = float(full[0].n_rows - len(full[0].names)), len(full)
    if method == "D1":
        return wald_test(points, covariances, complete)
    if method == "D2":
        statistics = [
            float(q @ np.linalg.solve(w, q)) for q, w in zip(points, covariances, strict=True)
        ]
        return pool_chi_square(statistics, len(places))

    def log_likelihood(fits: Sequence[TableRegression]) -> float:
        """The mean over tables, each at its own estimates."""
        return float(np.mean([fit.log_likelihood(*fit.parameters) for fit in fits]))

    def pooled(fits: Sequence[TableRegression]) -> float:
        """The log likelihood at the means of the estimates, or of all tables as one."""
        if method == "D3":
            pairs = zip(*[fit.parameters for fit in fits], strict=True)
            means = [np.mean(part, axis=0) for part in pairs]
            return float(np.mean([fit.log_likelihood(*means) for fit in fits]))
        whole = TableRegression.of(
            fits[0].names,
            np.vstack([fit.design for fit in fits]),
            np.concatenate([fit.outcome for fit in fits]),
            fits[0].is_label,
        )
        return whole.log_likelihood(*whole.parameters) / count

    return JointTest.of_likelihood_ratios(
        method,
        2.0 * (log_likelihood(full) - log_likelihood(smaller)),
        2.0 * (pooled(full) - pooled(smaller)),
        len(places),
        count,
        complete,
    )


class Pool(Protocol):
    """The verb ``mc.pool``, with analyses as attributes, so that pooling has one name."""

    formula: Callable[..., Pooled]
    with_: Callable[..., Pooled]
    compare: Callable[..., JointTest]
    chi_square: Callable[..., JointTest]

    def __call__(
        self,
        estimates: Any,
        variances: Any = None,
        complete_degrees_of_freedom: float | None = None,
        *,
        scale: str = "identity",
    ) -> Pooled:
        """The pooled estimates, as ``mcframe.tables.pooling.pool`` has them."""
        ...


vars(pool_estimates).update(
    formula=pool_formula, with_=pool_with, compare=pool_comparison, chi_square=pool_chi_square
)
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


@attrs.frozen(eq=False)
class TableRegression:
    """A regression on one completed table: least squares, or logistic for labels.

    See ``pool_formula`` for rows with weights.

    Attributes
    ----------
    names : list of str
    design : array (n x p)
    outcome : array (n,)
    is_label : bool
    coefficients : array (p,)
    covariance : array (p x p)
    row_weights : array (n,) or None
    """

    names: list[str]
    design: Array
    outcome: Array
    is_label: bool
    coefficients: Array
    covariance: Array
    row_weights: Array | None = None

    @classmethod
    def of(
        cls,
        names: list[str],
        design: Array,
        outcome: Array,
        is_label: bool,
        row_weights: Array | None = None,
    ) -> "TableRegression":
        """The coefficients and their covariance, in columns of the size 1."""
        n_rows, n_terms = design.shape
        if n_rows <= n_terms:
            raise DataError(
                f"{n_terms} coefficients were asked for of {n_rows} rows; fewer are needed"
            )
        sizes = np.sqrt(np.mean(np.square(design), axis=0))
        if np.linalg.matrix_rank(design / np.where(sizes > 0.0, sizes, 1.0)) < n_terms:
            raise DataError(
                f"the coefficients of {', '.join(names)} are not determined, for some terms are"
                " sums of others; leave one out"
            )
        scaled, weights = design / sizes, np.ones(n_rows)
        if row_weights is not None:
            weights = row_weights / np.max(row_weights)
        if is_label:
            coefficients, covariance = logistic(scaled, outcome, weights)
            residuals = outcome - expit(scaled @ coefficients)
        else:
            covariance = np.linalg.inv((scaled.T * weights) @ scaled)
            coefficients = covariance @ (scaled.T @ (weights * outcome))
            residuals = outcome - scaled @ coefficients
            if row_weights is None:
                covariance = residuals @ residuals / (n_rows - n_terms) * covariance
        if row_weights is not None:
            scores = scaled * (weights * residuals)[:, None]
            scores = np.sqrt(n_rows / (n_rows - n_terms)) * scores @ covariance
            covariance = scores.T @ scores
        covariance = covariance / np.outer(sizes, sizes)
        parts = coefficients / sizes, covariance, row_weights
        return cls(names, design, outcome, is_label, *parts)

    @property
    def n_rows(self) -> int:
        """n."""
        return len(self.outcome)

    @cached_property
    def parameters(self) -> tuple[Array, float]:
        """The coefficients and the variance of the residuals with the largest likelihood."""
        residuals = self.outcome - self.design @ self.coefficients
        return self.coefficients, float(np.mean(np.square(residuals)))

    def log_likelihood(self, coefficients: Array, variance: float) -> float:
        """The log likelihood of the outcome, less a constant; a label has no variance."""
        linear = self.design @ coefficients
        if self.is_label:
            return -float(np.sum(np.logaddexp(0.0, (1.0 - 2.0 * self.outcome) * linear)))
        residuals = self.outcome - linear
        return -0.5 * (self.n_rows * math.log(variance) + float(residuals @ residuals) / variance)


def fitted(formula: Formula, table: Any, row_weights: Any = None) -> TableRegression:
    """The regression of a formula on one table.

    ``row_weights`` name a column, or are numbers.
    """
    frame = read_frame(table)
    columns = {column.name: column for column in read_columns(frame)}
    formula.check(list(columns))
    weights = None if row_weights is None else weights_of(row_weights, columns, frame.shape[0])
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
    outcome = np.asarray(outcome, dtype=np.float64)
    return TableRegression.of(names, design, outcome, is_label, weights)


def weights_of(row_weights: Any, columns: Mapping[Any, Column], n_rows: int) -> Array:
    """The weights of the rows of a table, by the name of a column or as they are given."""
    what = "row_weights"
    if is_hashable(row_weights):
        if row_weights not in columns:
            hint = meant_column(row_weights, list(columns))
            raise DataError(f"{what} names {plain(row_weights)!r}, which is no column; {hint}")
        what = f"column {plain(row_weights)!r} of {what}"
        row_weights = columns[row_weights].values
    weights = checked_row_weights(row_weights, what)
    check_length(what, weights, n_rows)
    return weights


def logistic(design: Array, outcome: Array, weights: Array) -> tuple[Array, Array]:
    """Return coefficients of the largest likelihood and the inverse of the information.

    By Newton's method. ``weights`` (n,) are how often rows count.
    """
    coefficients = np.zeros(design.shape[1])
    for _ in range(MOST_STEPS):
        p = expit(design @ coefficients)
        information = (design.T * (weights * p * (1.0 - p))) @ design
        if np.linalg.cond(information) > 1.0 / SUM_ROUNDING:
            break
        step = np.linalg.solve(information, design.T @ (weights * (outcome - p)))
        coefficients = coefficients + step
        if math.sqrt(float(step @ step)) <= RESULT_ROUNDING:
            return coefficients, np.linalg.inv(information)
    raise DataError(
        "the logistic regression has no finite coefficients: the terms separate the two values;"
        " leave terms out"
    )
